"""What an earlier adjourn wrote is read, shown and continued: tests/data/store_of_before, made once by that version."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import make_store_of_before as before
from adjourn import CognitiveStore, CRStore, open_store
from make_store_of_before import CHECKPOINT, DOUBTFUL, FIRST, NOTED, SECOND, WAITING, ElsewhereThen
from support.proxy import MODERN, NEW, refused, text_of

USED, BUDGET = 5, 20


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ElsewhereThen]:
    with before.unpack(tmp_path) as work:
        yield work


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((before.FOLDER / before.ANSWERS).read_text("utf-8"))
    return answers


def test_every_command_says_of_it_what_it_said_then(work: ElsewhereThen, expected: dict[str, Any]) -> None:
    """The store is valid, and each reading command ends with the same code and the same members, prose apart; events byte for byte."""
    rows = _rows(work)
    told = before.answers(work)
    for name in ("auditSummary", "brief", "page"):  # told in another way since (ADR 0019)
        del expected[f"resume {CHECKPOINT}"]["said"][name]
    for call in expected[f"resume {CHECKPOINT}"]["said"]["inDoubt"]:
        del call["digest"]  # a model needs none (ADR 0054)
    assert _of_then(told, expected) == expected
    assert {told[name]["code"] for name in ("verify", "record verify", "verify tidy.aex")} == {0}
    assert _rows(work) == rows, "reading changed what is stored"


def test_what_is_told_in_sentences_has_what_was_noted(work: ElsewhereThen) -> None:
    """The brief and the page of a resumed task say what the agent of then noted."""
    told = work.adjourn("resume", CHECKPOINT, "--json").json
    for name, said in (
        ("facts", NOTED),
        ("decisions", "Use one file"),
        ("waiting", "Which name?"),
        ("nextStep", "Write the second half of p.py"),
        ("artifacts", "src/a.py"),
    ):
        assert any(said in line for line in told[name]), name
    assert "half-way: task first, 5 calls used, 15 left; 1 in doubt" in work.adjourn("resume", CHECKPOINT).out
    assert work.adjourn("status", FIRST).first.startswith("first: ")


def test_the_public_names_read_it(work: ElsewhereThen) -> None:
    """The record, and a cognitive session with its checkpoint, are there for programs."""
    store = open_store(work.store_url)
    try:
        record = CRStore(store).resolve(FIRST)
        assert [one["description"] for one in record["decisions"]] == ["Use one file"]
        memory = CognitiveStore(store, "job")
        facts = [one["content"] for one in memory.session["workingState"]["epistemicState"]["facts"]]
        assert facts == ["it has two parts", "the second part is done"]
        (made,) = memory.checkpoint_ids()
        kept = memory.get_checkpoint(made)
        assert kept is not None
        assert [one["content"] for one in kept["epistemicState"]["facts"]] == ["it has two parts"]
    finally:
        store.close()


def _of_then(told: Any, expected: Any) -> Any:
    """What is shown, without the members that later versions added."""
    if isinstance(told, dict) and isinstance(expected, dict):
        return {name: _of_then(value, expected[name]) for name, value in told.items() if name in expected}
    if isinstance(told, list) and isinstance(expected, list) and len(told) == len(expected):
        return [_of_then(one, other) for one, other in zip(told, expected, strict=True)]
    return told


@pytest.mark.parametrize("era", [NEW, MODERN])
def test_a_fresh_proxy_goes_on_with_the_same_budget(work: ElsewhereThen, era: str) -> None:
    """Nothing is refunded: the doubt stands, the approval of then lets its call through once, and the chain continues."""
    stored = [bytes(event.data) for event in work.events(FIRST)]
    client = work.client("--confirm-timeout", "0", name="codex", era=era, foreign=True)
    told = client.meta("aex.resume", name=CHECKPOINT)
    assert (told["task"], told["callsUsed"], told["budgetRemaining"]) == (FIRST, USED, BUDGET - USED)
    assert [one["tool"] for one in told["inDoubt"]] == ["slow"]
    assert any(NOTED in fact for fact in told["facts"])

    client.tools()  # an approval is for a tool as it was listed then
    assert "in doubt" in text_of(client.call("slow", DOUBTFUL))
    assert refused(client.call("file.write", WAITING | {"text": "something else"}))
    (waiting,) = [
        one
        for one in work.adjourn("approve", "--json").json["questions"]
        if one["tool"] == "file.write" and "hello" in one["arguments"]
    ]
    work.adjourn("approve", waiting["approval"])
    assert not refused(client.call("file.write", WAITING))
    assert not refused(client.call("echo"))
    assert work.executed() == ["file.write", "echo"]

    doubt = work.adjourn("settle", "--json").json["inDoubt"][0]["call"]
    work.adjourn("settle", doubt, "--not-done")
    status = work.adjourn("status", FIRST, "--json").json
    assert (status["callsUsed"], status["budgetRemaining"], status["inDoubt"]) == (USED + 2, BUDGET - USED - 2, [])
    client.meta("aex.checkpoint", name="now")
    assert client.close() == 0
    events = [bytes(event.data) for event in work.events(FIRST)]
    assert events[: len(stored)] == stored
    assert work.adjourn("verify", "--json").json["valid"]


def test_an_effect_of_then_that_may_happen_only_once_does_not_happen_again(work: ElsewhereThen) -> None:
    """The recorded bytes answer a call of `once`, and the rule's key is the same digest."""
    client = work.client("--task", SECOND, name="claude-code", foreign=True)
    again = client.call("send", {"lines": [], "invoice": "A-7"})
    assert text_of(again) == "paid é"
    assert work.executed() == []


def test_a_blocked_run_of_then_goes_on(work: ElsewhereThen) -> None:
    """`run --resume` takes up the run at the step that blocked it, and does not repeat the call before it."""
    done = work.adjourn("run", "--resume", "--task", "run-bob", code=1)
    assert [line.split()[0] for line in done.out.splitlines()[:2]] == ["check.failed", "run.finished"]
    assert [fact.finished for fact in work.facts("run.resumed", "run-bob")] == [1]
    assert work.ledger("run-bob").calls_used == 1


def test_a_history_that_is_gone_is_missed(work: ElsewhereThen) -> None:
    """The heads that were kept beside the keys then still tell that a task was there, when the store has no trace of it."""
    database = sqlite3.connect(work.store_url)
    with database:
        database.execute("DELETE FROM event WHERE position >> 40 = (SELECT id FROM stream WHERE name = ?)", (SECOND,))
        database.execute("DELETE FROM stream WHERE name = ?", (SECOND,))
        database.execute("DELETE FROM ref WHERE instr(name, ?)", (SECOND,))
    database.close()
    shutil.rmtree(work.root / ".aex" / "checkpoints" / SECOND)
    done = work.adjourn("verify", "--json", code=1)
    assert [(one["task"], one["code"]) for one in done.json["findings"]] == [(SECOND, "history-cut")]


def _rows(work: ElsewhereThen) -> dict[str, list[Any]]:
    database = sqlite3.connect(work.store_url)
    try:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: sorted(database.execute(f'SELECT * FROM "{name}"'), key=repr) for name in tables}
    finally:
        database.close()
