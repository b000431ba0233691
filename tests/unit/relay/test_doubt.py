"""Work that is cut off and continues: effects in doubt, tasks shared by one client's proxies, tasks held against others."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjourn.checkpoints.checkpoint import find
from support.in_process import MODERN, NEW, OLD, Client, ProxyWorkspace, only, refused, run, text_of, wait_for
from support.requirements import requirement

SLOW = {"seconds": 60}


def _cut_off(work: ProxyWorkspace, client: Client, tool: str = "slow") -> None:
    """SIGKILL the proxy in the middle of an effectful call."""
    before = len(work.executed())
    client.begin(tool, SLOW)
    wait_for(lambda: len(work.executed()) > before)
    client.kill()


@pytest.mark.parametrize(("first", "second"), [(MODERN, OLD), (OLD, MODERN), (NEW, NEW)])
def test_a_call_cut_off_by_a_crash_is_told_to_the_next_client_and_not_repeated_unasked(
    tmp_path: Path, first: str, second: str
) -> None:
    """A call that a crash cut off is reported as in doubt to the next client, and its repetition is refused without a person's yes."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=10") as work:
        client = work.client(era=first, name="claude-code")
        client.call("echo")
        client.meta("aex.checkpoint", name="fix", description="half done")
        _cut_off(work, client)

        client = work.client("--confirm-timeout", "0", era=second, name="codex", foreign=True)
        told = client.meta("aex.resume", name="fix")
        assert (told["callsUsed"], told["budgetRemaining"]) == (2, 8)
        (doubt,) = told["inDoubt"]
        assert doubt["tool"] == "slow"
        assert doubt["since"] == next(
            event.timestamp for event in work.events(told["task"]) if b'"slow"' in bytes(event.data)
        )
        assert "settle" in told["advice"]

        assert not refused(client.call("slow", {"seconds": 0}))  # other arguments: another call
        assert not refused(client.call("echo"))
        answer = client.call("slow", SLOW)
        assert refused(answer)
        assert "in doubt" in text_of(answer)
        assert work.executed().count("slow") == 2
        assert work.ledger(told["task"]).calls_used == 4


def test_a_persons_yes_repeats_a_call_in_doubt_and_clears_it(tmp_path: Path) -> None:
    """An approval of the question forwards the call in doubt again and settles it."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        _cut_off(work, work.client("--task", "t"))
        client = work.client("--task", "t", elicits=True)
        call = client.begin("slow", SLOW)
        question = client.asked()
        assert "in doubt" in question["params"]["message"]
        client.post({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
        wait_for(lambda: work.executed() == ["slow", "slow"])
        assert not work.ledger("t").doubts
        assert call is not None


def test_auto_confirm_is_no_answer_to_a_doubt(tmp_path: Path) -> None:
    """With --auto-confirm, a call in doubt is still not repeated."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        _cut_off(work, work.client("--task", "t"))
        client = work.client("--task", "t", "--auto-confirm", "--confirm-timeout", "0")
        assert refused(client.call("slow", SLOW))
        assert work.executed() == ["slow"]


@pytest.mark.parametrize("happened", [True, False])
def test_a_persons_word_settles_a_doubt(tmp_path: Path, happened: bool) -> None:
    """After a person settled a call in doubt, it is no longer reported, and the same call passes: what happened, once its client knows."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--task", "t")
        client.call("echo")
        client.meta("aex.checkpoint", name="fix")
        _cut_off(work, client)
        client = work.client("--task", "t", "--confirm-timeout", "0")
        assert len(client.meta("aex.resume", name="fix")["inDoubt"]) == 1
        work.settle(happened=happened)
        told = client.meta("aex.resume", name="fix")
        assert "inDoubt" not in told
        if happened:
            assert "says so" in text_of(client.call("slow", SLOW))
        client.begin("slow", SLOW)
        wait_for(lambda: work.executed().count("slow") == 2)


def test_a_call_that_is_settled_is_in_doubt_on_no_page(tmp_path: Path) -> None:
    """`adjourn settle` changes the checkpoint page and the next hand-over as well as the history."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--task", "t")
        client.call("echo")
        _cut_off(work, client)
        client = work.client("--task", "t")
        client.meta("aex.checkpoint", name="fix")
        page = work.root / "tmp" / "checkpoint-active.md"
        assert "In doubt" in page.read_text()
        assert client.close() == 0
        (call,) = work.ledger("t").doubts
        done = run("settle", call, "--not-done", cwd=work.root, env=work.environment)
        assert done.code == 0, done.err
        assert "In doubt" not in page.read_text()
        assert "inDoubt" not in work.client("--task", "t").meta("aex.resume", name="fix")


def test_a_read_that_was_cut_off_is_not_in_doubt(tmp_path: Path) -> None:
    """A call of a read-only tool that was cut off is not in doubt."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--task", "t", server=["--tools", "reading"])
        client.tools()
        _cut_off(work, client)
        client = work.client("--task", "t")
        client.call("echo")
        assert not work.ledger("t").doubts
        assert work.ledger("t").calls_used == 2


def test_a_cancelled_effect_without_an_answer_is_in_doubt(tmp_path: Path) -> None:
    """A cancelled call with effects that got no answer is in doubt when the session ends."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        call = client.begin("silent")
        client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
        client.call("echo")
        assert any(b"notifications/cancelled" in line for line in work.forwarded())
        client.close()
        assert [doubt.tool for doubt in work.ledger().doubts.values()] == ["silent"]


# --- one client, several proxies


def test_a_resume_moves_every_proxy_of_the_client(tmp_path: Path) -> None:
    """After aex.resume on one proxy, all proxies of the client work on the resumed task."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=10") as work:
        old = work.client("--task", "old")
        for _ in range(3):
            old.call("echo")
        old.meta("aex.checkpoint", name="fix")
        old.close()
        sisters = [work.client() for _ in range(3)]
        for sister in sisters:
            sister.call("echo")
        (new,) = set(work.tasks()) - {"old"}
        assert work.ledger(new).calls_used == 3
        assert sisters[0].meta("aex.resume", name="fix")["callsUsed"] == 3
        for sister in sisters:
            sister.call("echo")
        late = work.client()
        late.call("echo")
        assert work.ledger(new).calls_used == 3
        assert work.ledger("old").calls_used == 7
        assert set(work.tasks()) == {"old", new}
        assert not work.ledger(new).sessions


def test_two_sisters_may_move_there_and_back(tmp_path: Path) -> None:
    """Proxies of one client follow each resume, also back to an earlier task."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        one, two = work.client(), work.client()
        one.call("echo")
        one.meta("aex.checkpoint", name="here")
        other = work.client("--task", "there")
        other.call("echo")
        other.meta("aex.checkpoint", name="there")
        other.close()
        here = only(set(work.tasks()) - {"there"})
        for name in ("there", "here", "there", "here"):
            one.meta("aex.resume", name=name)
            two.call("echo")
            assert work.ledger(here if name == "here" else "there").calls_used > 1
        assert not refused(one.call("echo"))


# --- other clients


def test_a_task_named_on_the_command_line_is_held_too(tmp_path: Path) -> None:
    """A call on a task that another client holds is refused, also if --task names the task."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        work.client("--task", "t").call("echo")
        other = work.client("--task", "t", foreign=True)
        answer = other.call("echo")
        assert refused(answer)
        assert "held by" in text_of(answer)
        assert work.executed() == ["echo"]
        assert "tools" in other.ask("tools/list")["result"]


def test_taking_over_fences_the_first_for_good(tmp_path: Path) -> None:
    """After --take-over, each call of the first client is refused and its open call is in doubt."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        first = work.client("--task", "t", name="claude-code")
        first.call("echo")
        call = first.begin("slow", SLOW)
        wait_for(lambda: "slow" in work.executed())
        second = work.client("--task", "t", "--take-over", name="codex", foreign=True)
        assert not refused(second.call("echo"))
        assert [fact.reason for fact in work.facts("session.lost")] == ["taken-over"]
        assert [doubt.tool for doubt in work.ledger().doubts.values()] == ["slow"]
        for _ in range(2):
            answer = first.call("echo")
            assert refused(answer)
            assert "taken over by codex" in text_of(answer)
        assert work.executed() == ["echo", "slow", "echo"]
        assert call is not None
        assert not refused(second.call("echo"))


def test_a_taken_over_session_that_ends_leaves_the_other_alone(tmp_path: Path) -> None:
    """The end of a session that was taken over does not close the one that took over."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        first = work.client("--task", "t")
        first.call("echo")
        second = work.client("--task", "t", "--take-over", foreign=True)
        second.call("echo")
        assert first.close() == 0
        assert not refused(second.call("echo"))
        assert len(work.ledger().sessions) == 1


# --- which task


def test_a_client_that_is_bound_to_a_task_gets_no_other_budget(tmp_path: Path) -> None:
    """Neither by `_meta` nor by resuming another task's checkpoint; its own it may name."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=2") as work:
        other = work.client("--task", "other", foreign=True)
        other.call("echo")
        other.meta("aex.checkpoint", name="elsewhere")
        other.close()
        client = work.client("--task", "bound", foreign=True)
        assert not refused(client.call("echo", _meta={"dev.adjourn/task": "bound"}))
        answer = client.call("echo", _meta={"dev.adjourn/task": "free"})
        assert refused(answer)
        assert "bound to task bound" in text_of(answer)
        assert refused(client.call("aex.resume", {"name": "elsewhere"}))
        assert [refused(client.call("echo")) for _ in range(2)] == [False, True]
        assert work.executed() == ["echo"] * 3


def test_meta_names_the_task_of_each_call_of_one_write(tmp_path: Path) -> None:
    """The task in a call's _meta is the one in which the call is counted."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=3") as work:
        client = work.client(era=MODERN)
        calls = [
            client.call_message("echo", {"n": n}, _meta={"dev.adjourn/task": f"t{n % 2}"} if n % 3 else {})
            for n in range(9)
        ]
        client.post(*calls)
        for call in calls:
            assert not refused(client.answer(call["id"]))
        used = {task: work.ledger(task).calls_used for task in work.tasks()}
        assert sorted(used.values()) == [3, 3, 3]
        assert {"t0", "t1"} < set(used)


def test_what_is_no_task_id_is_refused(tmp_path: Path) -> None:
    """A task id that could be a path, is too long or has odd characters is refused."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        for task in ("../x", ".hidden", "a/b", "x" * 65, "a b", "ä"):
            assert refused(client.call("echo", _meta={"dev.adjourn/task": task})), task
        assert work.executed() == []
        assert not refused(client.call("echo", _meta={"dev.adjourn/task": ""}))


@requirement("D3")
def test_resuming_an_older_checkpoint_refunds_nothing(tmp_path: Path) -> None:
    """Resuming an earlier checkpoint does not give back calls that were made after it."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=6") as work:
        client = work.client("--task", "t")
        client.call("echo")
        client.meta("aex.checkpoint", name="early")
        for _ in range(3):
            client.call("echo")
        client.close()
        client = work.client(foreign=True, era=MODERN)
        client.call("echo")  # on a task of its own
        told = client.meta("aex.resume", name="early")
        assert (told["callsUsed"], told["budgetRemaining"]) == (4, 2)
        assert [refused(client.call("echo")) for _ in range(3)] == [False, False, True]
        for _ in range(3):
            assert client.meta("aex.resume", name="early")["budgetRemaining"] == 0
            assert refused(client.call("echo"))
        assert work.ledger("t").calls_used == 6
        with work.store() as store:
            assert find(store, "early").data.name == "early"
