"""Checkpoints that nobody has to think of: before the calls that a policy names, and at shares of a budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjourn.checkpoints.checkpoint import check_signature, find
from adjourn.host import keys
from support.in_process import MODERN, NEW, ProxyWorkspace, refused, text_of, wait_for
from support.requirements import requirement

POLICY = ("allow *", "checkpoint before silent, deploy.*, at 75%, 90%", "budget calls=20")


def workspace(path: Path, *policy: str) -> ProxyWorkspace:
    return ProxyWorkspace(path, *(policy or POLICY), version="v1")


@requirement("V1 checkpoint")
@pytest.mark.parametrize("era", [NEW, MODERN])
def test_the_checkpoint_is_there_when_the_proxy_dies_in_the_call(tmp_path: Path, era: str) -> None:
    """A `checkpoint before` rule writes a signed checkpoint before the call, so that a kill in the call leaves it."""
    with workspace(tmp_path) as work:
        client = work.client("--task", "t", era=era)
        client.call("echo")
        client.begin("silent", {"n": 1})
        wait_for(lambda: "silent" in work.executed())
        client.kill()
        order = [event.event for event in work.events()]
        assert order[-2:] == ["checkpoint.created", "tool.allowed"]
        with work.store() as store, work._config():
            checkpoint = find(store, "t-before")
            check_signature(checkpoint, keys.own_public_key())
        assert (checkpoint.data.trigger, checkpoint.event.seq) == ("before echo.silent", len(order) - 2)
        client = work.client("--task", "t", era=era, foreign=True)
        told = client.meta("aex.resume", name="t-before")
        assert (told["task"], told["callsUsed"], len(told["inDoubt"])) == ("t", 2, 1)


@requirement("V1 checkpoint")
def test_a_call_whose_checkpoint_cannot_be_made_goes_nowhere(tmp_path: Path) -> None:
    """A call that needs a checkpoint first is refused while none can be written."""
    with workspace(tmp_path) as work:
        client = work.client()
        assert not refused(client.call("echo"))
        (work.config / "keys").rename(work.config / "away")
        (work.config / "keys").write_text("not a folder")
        assert refused(client.call("deploy.run"))
        assert refused(client.call("deploy.run"))
        assert not refused(client.call("echo"))
        assert work.executed() == ["echo", "echo"]
        (work.config / "keys").unlink()
        (work.config / "away").rename(work.config / "keys")
        assert work.ledger().calls_used == 2
        assert not refused(client.call("deploy.run"))
        made = [fact.trigger for fact in work.facts("checkpoint.created")]
        assert made == ["before echo.deploy.run", "after echo.deploy.run"]


@requirement("V1 checkpoint")
def test_a_call_that_reads_waits_for_its_checkpoint_too(tmp_path: Path) -> None:
    """A store that cannot be written lets harmless reads pass, but none that a checkpoint must come before."""
    with workspace(tmp_path, "allow *", "checkpoint before file.read") as work:
        (work.root / ".aex" / "adjourn.db").mkdir()
        client = work.client()
        assert refused(client.call("file.read"))
        assert work.executed() == []


@requirement("V1 checkpoint")
def test_a_call_that_waited_for_a_person_has_its_checkpoint_before_it(tmp_path: Path) -> None:
    """The checkpoint of a call that a person approved is the event right before the call."""
    with workspace(tmp_path, "allow *", "confirm before deploy.run", "checkpoint before deploy.run") as work:
        client = work.client()
        call = client.begin("deploy.run")
        wait_for(lambda: work.tasks() and work.facts("confirm.required"))
        client.call("echo")
        work.decide(yes=True)
        assert not refused(client.answer(call))
        order = [event.event for event in work.events()]
        at = next(
            n
            for n, event in enumerate(work.events())
            if b"deploy.run" in bytes(event.data) and event.event == "tool.allowed"
        )
        assert order[at - 1] == "checkpoint.created"


@requirement("V1 share")
@pytest.mark.parametrize("era", [NEW, MODERN])
def test_shares_of_the_budget_are_checkpointed_once(tmp_path: Path, era: str) -> None:
    """A checkpoint at a share of the budget is made once, also across sessions."""
    with workspace(tmp_path) as work:
        client = work.client("--task", "t", era=era)
        for n in range(17):
            client.call("echo", {"n": n})
        client.kill()
        client = work.client("--task", "t", era=era, foreign=True)
        for n in range(4):
            client.call("echo", {"n": n})
        made = [(fact.trigger, fact.name) for fact in work.facts("checkpoint.created")]
        assert made == [
            ("at 75% of calls=20", "t-at-75"),
            ("at 90% of calls=20", "t-at-90"),
            ("at 100% of calls=20", "t-spent"),
        ]
        assert work.ledger().calls_used == 20
        with work.store() as store:
            assert find(store, "t-at-75").event.seq < find(store, "t-at-90").event.seq


@requirement("V1 share", "V1 reload")
def test_a_budget_that_is_raised_arms_its_shares_again(tmp_path: Path) -> None:
    """After the budget was raised, each share of the new one makes a checkpoint."""
    with workspace(tmp_path, "allow *", "checkpoint at 50%", "budget calls=4") as work:
        client = work.client()
        for _ in range(5):
            answer = client.call("echo")
        assert "budget exhausted" in text_of(answer).lower()
        work.write_policy("allow *", "checkpoint at 50%", "budget calls=10")
        for _ in range(6):
            assert not refused(client.call("echo"))
        made = [fact.trigger for fact in work.facts("checkpoint.created")]
        assert made == ["at 50% of calls=4", "at 100% of calls=4", "at 50% of calls=10", "at 100% of calls=10"]
