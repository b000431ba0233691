"""`adjourn.effect`: an effect that an agent makes beside adjourn happens once, also after a crash, and nobody settles it for another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adjourn.knowledge.records import agent_effects
from adjourn.knowledge.records.agent_effects import AgentEffect
from adjourn.knowledge.records.effect_lookup import EffectCall
from adjourn.knowledge.records.record import TaskRecord
from adjourn.relay import meta
from support.in_process import MODERN, NEW, ProxyWorkspace, refused, run, text_of, wait_for
from support.requirements import requirement

PAY: dict[str, Any] = {"key": "invoice:42", "effect": "bank.transfer", "inputs": {"invoice": "42", "amount": 7}}


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, "use echo", "budget calls=9") as work:
        yield work


def task_of(work: ProxyWorkspace) -> str:
    [name] = [name for name in work.tasks() if "/" not in name]
    return name


def effect(client: Any, action: str, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = client.meta("adjourn.effect", action=action, **(PAY | more))
    return answer


@requirement("Record")
def test_an_effect_is_claimed_made_and_then_found(work: ProxyWorkspace) -> None:
    """After `done` no client makes it again, and each gets what was kept of it. It costs no call of the budget."""
    client = work.client()
    assert effect(client, "look") == {"state": "free"}
    claimed = effect(client, "claim")
    assert claimed["state"] == effect(client, "look")["state"] == effect(client, "claim")["state"] == "claimed"
    assert effect(client, "done", outputs={"reference": "T-1"}) == {"state": "done", "call": claimed["call"]}
    client.meta("aex.checkpoint", name="paid")
    client.close()
    other = work.client(era=MODERN, foreign=True)
    resumed = other.meta("aex.resume", name="paid")
    assert resumed["callsUsed"] == 0
    assert not resumed.get("inDoubt")
    assert not resumed.get("doneUnseen")
    for action in ("look", "claim"):
        again = effect(other, action)
        assert (again["state"], again["outputs"], again["call"]) == ("done", {"reference": "T-1"}, claimed["call"])
    assert run("verify", cwd=work.root, env=work.environment).code == 0


@requirement("Record")
def test_a_claim_of_a_killed_session_is_in_doubt_until_a_person_settles_it(work: ProxyWorkspace) -> None:
    """The next agent learns of it, can neither claim nor settle it, and may claim it when a person says that it did not happen."""
    client = work.client()
    client.meta("aex.checkpoint", name="paying")
    call = effect(client, "claim")["call"]
    client.kill()
    other = work.client(era=NEW, foreign=True)
    [doubt] = other.meta("aex.resume", name="paying")["inDoubt"]
    assert (doubt["call"], doubt["tool"]) == (call, "bank.transfer")
    assert effect(other, "look")["state"] == "in doubt"
    for action in ("done", "failed", "claim"):
        answer = other.call("adjourn.effect", PAY | {"action": action})
        assert refused(answer), action
    assert "adjourn settle" in text_of(other.call("adjourn.effect", PAY | {"action": "done"}))
    assert run("settle", call, "--not-done", cwd=work.root, env=work.environment).code == 0
    assert effect(other, "claim")["state"] == "claimed"
    assert effect(other, "done")["state"] == "done"


@requirement("Record")
def test_an_effect_that_failed_may_be_claimed_again(work: ProxyWorkspace) -> None:
    """Who made it says that nothing happened."""
    client = work.client()
    effect(client, "claim")
    assert effect(client, "failed")["state"] == effect(client, "look")["state"] == "free"
    assert effect(client, "claim")["state"] == "claimed"


@requirement("Record")
def test_an_effect_under_way_in_one_session_is_neither_claimed_nor_settled_in_another(work: ProxyWorkspace) -> None:
    """Another proxy of the same client works on the same task, in a session of its own."""
    first, second = work.client(), work.client()
    call = effect(first, "claim")["call"]
    assert effect(second, "look") == {"state": "under way", "call": call}
    for action in ("claim", "done", "failed"):
        assert refused(second.call("adjourn.effect", PAY | {"action": action})), action
    assert effect(first, "done")["state"] == "done"


@requirement("Record")
def test_a_key_belongs_to_one_effect(work: ProxyWorkspace) -> None:
    """A done effect is not taken for another one with the same key."""
    client = work.client()
    effect(client, "claim")
    effect(client, "done")
    answer = client.call("adjourn.effect", PAY | {"action": "claim", "inputs": {"invoice": "42", "amount": 8}})
    assert refused(answer)
    assert effect(client, "claim", key="invoice:43", inputs={"invoice": "43"})["state"] == "claimed"


@requirement("Record")
def test_a_program_and_an_agent_see_the_same_effect(work: ProxyWorkspace) -> None:
    """What the agent claimed and did, `TaskRecord.effect` finds done, with the outputs."""
    client = work.client()
    effect(client, "claim")
    effect(client, "done", outputs={"reference": "T-1"})
    with work.store() as store:
        record = TaskRecord(store, task_of(work), author="program")
        call = EffectCall("bank.transfer", "tools/call", PAY["inputs"], key="invoice:42")
        claim = record.records.effects.claim(record.id, call, record.author)
        assert (claim.run, claim.effect.outputs) == (False, {"reference": "T-1"})


@requirement("D10")
def test_odd_requests_are_refused_and_write_nothing(work: ProxyWorkspace) -> None:
    """Unknown actions, missing keys, names with blanks and large values."""
    client = work.client()
    for odd in (
        {"action": "pay"},
        {"key": ""},
        {"key": "k" * 300},
        {"effect": "rm -rf /"},
        {"inputs": ["x"]},
        {"inputs": {"x": "y" * 70_000}},
        {"more": 1},
    ):
        assert refused(client.call("adjourn.effect", PAY | {"action": "claim"} | odd)), odd
    assert effect(client, "look") == {"state": "free"}
    assert refused(client.call("adjourn.effect", PAY | {"action": "done"}))


def test_claims_that_are_open_are_bounded(work: ProxyWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that claims without end is stopped until it settles."""
    monkeypatch.setattr(agent_effects, "MAX_CLAIMED", 2)
    client = work.client()
    for number in range(2):
        effect(client, "claim", key=f"k{number}", inputs={"n": number})
    assert refused(client.call("adjourn.effect", PAY | {"action": "claim"}))
    effect(client, "done", key="k1", inputs={"n": 1})
    assert effect(client, "claim")["state"] == "claimed"


def test_the_definition_names_what_is_read() -> None:
    """Every input is listed, with the same actions."""
    listed = meta.DEFINITIONS["adjourn.effect"]["inputSchema"]["properties"]
    assert sorted(listed) == sorted(AgentEffect.__struct_encode_fields__)


@requirement("Record")
def test_an_agent_does_not_settle_a_call_that_the_proxy_carries(tmp_path: Path) -> None:
    """A call under way in its own session is no claim of it: neither by the same tool and arguments, nor by the key of a rule."""
    with ProxyWorkspace(tmp_path, "allow *", "once silent by invoice", version="v1") as work:
        client = work.client()
        arguments = {"invoice": "A-7"}
        client.begin("silent", arguments)
        wait_for(lambda: work.executed() == ["silent"])
        carried = work.facts("tool.allowed")[0].call
        names = [name.strip("+").partition("@")[0] for name in work.facts("tool.allowed")[0].once.split()]
        for key in ("invoice:A-7", *names):
            same = {"key": key, "effect": "silent", "inputs": arguments}
            for action in ("claim", "done", "failed"):
                assert refused(client.call("adjourn.effect", {**same, "action": action})), (key, action)
            assert client.meta("adjourn.effect", **same, action="look") == {"state": "under way", "call": carried}
        client.close()
        assert list(work.ledger(task_of(work)).doubts) == [carried]
