"""What an agent notes through the proxy reaches the next agent: after a crash, in both eras, with what a person answered meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from support.in_process import MODERN, NEW, OLD, ProxyWorkspace, refused, run, text_of
from support.requirements import requirement

NOTING = ("adjourn.note", "adjourn.record", "adjourn.ask")


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, "use echo", "budget calls=9") as work:
        yield work


def task_of(work: ProxyWorkspace) -> str:
    """The only task that calls were made in."""
    [name] = [name for name in work.tasks() if "/" not in name and work.ledger(name).calls_used]
    return name


def adjourn(work: ProxyWorkspace, *words: str) -> Any:
    """What the command says, decoded."""
    done = run(*words, "--json", cwd=work.root, env=work.environment)
    assert done.code == 0, done
    return done.json


@requirement("Record")
@pytest.mark.parametrize(("first", "second"), [(OLD, MODERN), (NEW, OLD), (MODERN, NEW)])
def test_a_note_outlives_the_crash_of_who_made_it(work: ProxyWorkspace, first: str, second: str) -> None:
    """Noted, then client and proxy are killed: another client resumes, and its brief has the note; its own is in the same record."""
    client = work.client(era=first)
    client.call("echo", {"a": 1})
    answer = client.meta(
        "adjourn.note", facts=["the parser is in p.py"], decisions=[{"decision": "Use SQLite", "because": "one file"}]
    )
    assert answer["added"] == {"facts": 1, "decisions": 1}
    client.kill()
    task = task_of(work)
    other = work.client(era=second, foreign=True)
    [made] = work.facts("checkpoint.created", task)
    told = other.meta("aex.resume", name=made.name)
    assert "the parser is in p.py" in told["facts"]
    assert "Use SQLite, because one file" in told["decisions"]
    assert told["callsUsed"] == 1
    assert other.meta("adjourn.note", facts=["it is fixed"])["record"] == answer["record"]
    facts = other.meta("adjourn.record", section="facts")["items"]
    assert [fact["content"] for fact in facts] == ["the parser is in p.py", "it is fixed"]


@requirement("Record")
def test_a_question_that_a_person_answers_in_a_shell_is_answered_for_the_agent(work: ProxyWorkspace) -> None:
    """Asked through the proxy, listed and answered by `adjourn answer`; the record and who asks again have the answer."""
    client = work.client()
    client.call("echo", {"a": 1})
    asked = client.meta("adjourn.ask", question="Keep the old file?", options=["keep", "delete"], context="3 MB")
    assert asked["status"] == "open"
    [listed] = adjourn(work, "answer")["questions"]
    assert (listed["id"], listed["question"], listed["context"]) == (asked["question"], "Keep the old file?", "3 MB")
    adjourn(work, "answer", asked["question"], "delete")
    [question] = client.meta("adjourn.record", section="questionsForUser")["items"]
    assert (question["status"], question["answer"], question["answeredBy"]["type"]) == ("answered", "delete", "human")
    again = client.meta("adjourn.ask", question="Keep the old file?")
    assert (again["question"], again["answer"]) == (asked["question"], "delete")
    client.meta("aex.checkpoint", name="asked")
    assert "delete" in " ".join(adjourn(work, "resume", "asked")["decisions"])
    document = json.loads((work.root / ".aex/checkpoints/asked/checkpoint.json").read_text())["adjourn"]["document"]
    assert document["record"] == client.meta("adjourn.record")["contentHash"]
    assert adjourn(work, "verify")["valid"]


@requirement("Record")
def test_what_was_due_takes_effect_when_somebody_resumes(work: ProxyWorkspace) -> None:
    """A question whose time is up is expired in the record as soon as the task is resumed, in the system's name."""
    client = work.client()
    client.call("echo", {"a": 1})
    asked = client.meta("adjourn.ask", question="Keep the old file?")["question"]
    client.meta("aex.checkpoint", name="asked")
    client.close()
    with work.store() as store:
        records = RecordTrees(store)
        record = records.resolve(task_of(work))
        [question] = record["questionsForUser"]
        expiring = {**question, "id": "q-2", "question": "Keep the new one?", "expiresAt": question["askedAt"]}
        records.update(record["id"], {"questionsForUser": [question, expiring]}, CRAuthor(id="ann", type="human"))
    other = work.client()
    other.meta("aex.resume", name="asked")
    items = other.meta("adjourn.record", section="questionsForUser")["items"]
    assert {item["id"]: item["status"] for item in items} == {asked: "open", "q-2": "expired"}
    with work.store() as store:
        assert RecordTrees(store).resolve(task_of(work))["lastModifiedBy"]["type"] == "system"


@requirement("Record", "D42")
def test_a_policy_can_deny_them_one_by_one_or_all(tmp_path: Path) -> None:
    """What is denied is neither listed nor answered, and writes nothing; by default all three pass and cost no call."""
    with ProxyWorkspace(tmp_path, "use echo", "deny adjourn.*") as work:
        client = work.client()
        assert not set(NOTING) & set(client.tools())
        assert "aex.resume" in client.tools()
        for name in NOTING:
            assert refused(client.call(name, {"facts": ["x"]}))
            assert refused(client.call(name.replace(".", "_"), {"facts": ["x"]}))
        client.call("echo", {"a": 1})
        with work.store() as store:
            assert RecordTrees(store).ids() == []
    with ProxyWorkspace(tmp_path, "use echo", "budget calls=1", "deny adjourn.ask", name="other") as work:
        client = work.client()
        assert set(NOTING) & set(client.tools()) == {"adjourn.note", "adjourn.record"}
        client.meta("adjourn_note", facts=["x"])
        assert not refused(client.call("echo", {"a": 1}))
        assert work.executed() == ["echo"]


@requirement("D10")
def test_odd_arguments_are_errors_that_say_where_and_the_proxy_goes_on(work: ProxyWorkspace) -> None:
    """Wrong types, unknown names and huge texts are answered, and write nothing."""
    client = work.client()
    odd: list[Any] = [
        {"facts": 5}, {"facts": [{}]}, {"fact": ["x"]}, {"facts": ["x" * 100_000]}, {"decisions": [[]]}, ["x"], "x",
    ]  # fmt: skip
    for arguments in odd:
        for name in NOTING:
            assert "error" in (answer := client.call(name, arguments)) or refused(answer), (name, arguments)
    assert "`facts`" in text_of(client.call("adjourn.note", {"facts": 5}))
    assert not refused(client.call("echo", {"a": 1}))
    with work.store() as store:
        assert RecordTrees(store).ids() == []
    assert "proxy.bug" not in client.stderr()


def test_a_client_that_was_fenced_off_cannot_note(work: ProxyWorkspace) -> None:
    """Another client took its task over: its note is refused, and the record has none of it."""
    first = work.client("--task", "t")
    first.call("echo", {"a": 1})
    first.meta("adjourn.note", facts=["mine"])
    second = work.client("--task", "t", "--take-over", foreign=True)
    second.call("echo", {"a": 2})
    assert refused(first.call("adjourn.note", {"facts": ["too late"]}))
    facts = second.meta("adjourn.record", section="facts")["items"]
    assert [fact["content"] for fact in facts] == ["mine"]


def test_a_waiting_gate_is_told_with_its_conditions_and_a_dependency_is_no_person(work: ProxyWorkspace) -> None:
    """Preconditions and steps of a waiting resume point, evidence of a violated invariant and contradictions are in the hand-over."""
    client = work.client()
    client.call("echo", {"a": 1})
    client.meta(
        "adjourn.note",
        resumePoints=[
            {
                "label": "Cut over",
                "when": "lag below 1 s",
                "preconditions": ["backup"],
                "nextSteps": ["pause", "promote"],
            }
        ],
        invariants=[{"description": "lag below 30 s", "status": "violated", "evidence": "95 s on db07"}],
        blockers=[{"description": "db07 lags", "type": "dependency"}],
        facts=["The port is 8080"],
    )
    client.meta("adjourn.note", facts=["The port is 9090"])
    client.meta("aex.checkpoint", name="cp")
    told = client.meta("aex.resume", name="cp")
    assert told["state"] == "active"
    [waiting] = told["waiting"]
    assert waiting.endswith("make sure: lag below 1 s; make sure: backup; 1. pause; 2. promote")
    assert any("db07 lags" in line for line in told["progress"])
    assert any("evidence: 95 s on db07" in line for line in told["decisions"])
    assert told["facts"][0].startswith("CONTRADICTION")
    assert "8080" in told["facts"][0]
    assert "9090" in told["facts"][0]
    assert client.meta("adjourn.note", withdraw=["The port is 8080"])["revised"] == {"withdrawn": 1}
    assert client.meta("aex.resume", name="cp")["facts"] == ["The port is 9090"]
    assert client.meta("adjourn.note", facts=["the port is 9090"])["ignored"] == [
        "facts: the port is 9090: known already"
    ]
