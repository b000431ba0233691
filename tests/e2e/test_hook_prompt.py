"""What a person asks a client for first, as `adjourn hook` hears it: the mission of a task that no contract states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.log import kinds
from adjourn.tasks.task import tasks_of
from support.hooks import HookEventWorkspace

ASKED = "Port the tokenizer to Rust, and keep its tests green"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[HookEventWorkspace]:
    with HookEventWorkspace(tmp_path, "use file.*, shell.exec", "budget calls=20") as work:
        yield work


def prompts(work: HookEventWorkspace) -> list[str]:
    """What the history has of prompts."""
    found = [kinds.data_of(event) for event in work.events()]
    return [one.prompt for one in found if isinstance(one, kinds.SessionOpened)]


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_the_first_prompt_is_the_mission(work: HookEventWorkspace, client: str) -> None:
    """It is the goal in the ledger, in `status` and on the page; what the person says later changes nothing."""
    told = work.tell("UserPromptSubmit", "--client", client, prompt=ASKED)
    assert (told.code, told.out) == (0, "")
    work.run("Write", {"file_path": str(work.root / "a"), "content": "x"}, "toolu_a", "--client", client)
    assert work.tell("UserPromptSubmit", "--client", client, prompt="yes, go on").code == 0
    work.tell("SessionEnd", "--client", client, reason="exit")
    assert prompts(work) == [ASKED]
    assert work.ledger().goal == ASKED
    page = (work.root / "tmp" / "checkpoint-active.md").read_text()
    assert f"## Mission\n{ASKED}\n\nGoal of the policy: a test\n" in page


def test_the_first_prompt_stands_beside_the_goal_of_a_contract(work: HookEventWorkspace) -> None:
    """On the page and in the hand-over: neither replaces the other."""
    contract = 'task ported v0\ngoal "Ship 2.0"\nuse file.*\nbudget calls=20\nreturn 1\n'
    (work.root / "task.aex").write_text(contract)
    options = ("--contract", "task.aex")
    work.tell("UserPromptSubmit", *options, prompt=ASKED)
    work.run("Write", {"file_path": str(work.root / "a"), "content": "x"}, "toolu_a", *options)
    work.tell("SessionEnd", *options, reason="exit")
    assert (work.ledger().goal, work.ledger().asked) == ("Ship 2.0", ASKED)
    page = (work.root / "tmp" / "checkpoint-active.md").read_text()
    assert f"## Mission\n{ASKED}\n\nGoal of the policy: Ship 2.0\n" in page
    client = work.client(foreign=True)
    assert client.tools()
    told = client.meta("aex.resume", name=work.ledger().checkpoint)
    assert (told["asked"], told["goal"]) == (ASKED, "Ship 2.0")


def test_a_prompt_after_the_first_call_is_no_mission(work: HookEventWorkspace) -> None:
    """A task that is under way keeps its goal, whatever the next session is asked for."""
    work.run("Read", {"file_path": "a"}, "toolu_a")
    work.tell("SessionEnd", reason="exit")
    goal = work.ledger().goal
    work.tell("UserPromptSubmit", prompt="continue")
    assert work.ledger().goal == goal


def test_a_session_without_a_call_leaves_the_mission_to_the_next(work: HookEventWorkspace) -> None:
    """What was asked for in a session that did nothing is replaced by what is asked for next."""
    work.tell("UserPromptSubmit", prompt="hello")
    work.tell("SessionEnd", reason="exit")
    work.tell("UserPromptSubmit", prompt=ASKED)
    assert work.ledger().goal == ASKED


def test_a_prompt_has_no_secret_and_at_most_two_kibibytes(work: HookEventWorkspace) -> None:
    """What is kept of a prompt is redacted and cut, and says that it was cut."""
    secret = "ghp_" + "a1B2" * 9
    work.tell("UserPromptSubmit", prompt=f"use {secret}\x1b[31m " + "ä" * 5000)
    [kept] = prompts(work)
    assert secret not in kept
    assert "\x1b" not in kept
    assert len(kept.encode()) <= 2048
    assert kept.endswith("…")


def test_a_prompt_can_be_left_out(work: HookEventWorkspace) -> None:
    """With --no-prompt nothing of it is written, and the goal stays the policy's."""
    told = work.tell("UserPromptSubmit", "--no-prompt", prompt=ASKED)
    assert told.code == 0
    work.run("Read", {"file_path": "a"}, "toolu_a")
    assert prompts(work) == [""]
    assert ASKED not in work.ledger().goal


@pytest.mark.parametrize("prompt", ["", "   ", 7, None, ["x"]])
def test_what_is_no_prompt_is_ignored(work: HookEventWorkspace, prompt: object) -> None:
    """A member of another type opens no session and breaks nothing."""
    assert work.tell("UserPromptSubmit", prompt=prompt).code == 0
    assert not (work.root / ".aex" / "adjourn.db").exists() or work.events() == []


@pytest.fixture
def pending(work: HookEventWorkspace) -> str:
    """The task that another client left behind, whose work is pending."""
    other = work.client(foreign=True)
    other.call("file.write", {"path": "a", "text": "x"})  # what only read is not offered
    other.close()
    return work.tasks()[0]


def goals(work: HookEventWorkspace) -> dict[str, str]:
    """The goal of each task."""
    with work.store() as store:
        names = list(tasks_of(store))
    return {name: work.ledger(name).goal for name in names}


def checkpoints(work: HookEventWorkspace) -> list[str]:
    with work.store() as store:
        return [name.removeprefix("checkpoint/") for name in store.refs("checkpoint/")]


def prompt_refs(work: HookEventWorkspace) -> dict[str, str]:
    with work.store() as store:
        return store.refs("prompt/")


def test_a_prompt_beside_pending_work_is_kept_for_a_task_of_its_own(work: HookEventWorkspace, pending: str) -> None:
    """It opens no task. The client's first call does, with the first thing that was asked for."""
    assert ASKED not in work.brief()
    for prompt in (ASKED, "yes, go on"):
        assert work.tell("UserPromptSubmit", prompt=prompt).code == 0
    assert list(goals(work)) == [pending]
    work.run("Read", {"file_path": "a"}, "toolu_a")
    assert [goals(work).pop(name) for name in goals(work) if name != pending] == [ASKED]
    assert goals(work)[pending] == "a test"
    assert prompt_refs(work) == {}


def test_a_proxy_opens_the_task_with_the_prompt_that_its_client_heard(work: HookEventWorkspace, pending: str) -> None:
    """Hooks and proxies of one client share it."""
    client = work.client()
    assert client.tools()
    work.tell("UserPromptSubmit", prompt=ASKED)
    client.call("file.read", {"path": "b"})
    assert goals(work).pop(pending) == "a test"
    assert ASKED in goals(work).values()
    assert prompt_refs(work) == {}


def test_a_task_that_is_resumed_instead_keeps_its_own_goal(work: HookEventWorkspace, pending: str) -> None:
    """Then the prompt was about that task, and no later task begins with it."""
    client = work.client()
    assert client.tools()
    work.tell("UserPromptSubmit", prompt="go on with what waits")
    [name] = checkpoints(work)
    assert client.meta("aex.resume", name=name)["task"] == pending
    assert goals(work) == {pending: "a test"}
    assert prompt_refs(work) == {}


def test_a_new_conversation_forgets_the_prompt_of_the_one_before(work: HookEventWorkspace, pending: str) -> None:
    """What was asked for in a conversation that made no call is not the mission of the next."""
    work.tell("UserPromptSubmit", prompt="never mind")
    assert list(prompt_refs(work).values()) == ["never mind"]
    work.brief()
    assert prompt_refs(work) == {}
    work.tell("UserPromptSubmit", prompt=ASKED)
    work.run("Read", {"file_path": "a"}, "toolu_a")
    assert ASKED in goals(work).values()
    assert pending in goals(work)
