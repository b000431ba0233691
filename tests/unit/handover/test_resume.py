"""Resuming: what the next session is shown, in which bounds, and under which contract."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from adjourn.checkpoints.attachments import AUDITED
from adjourn.checkpoints.checkpoint import create, find
from adjourn.errors import IntegrityError, InvalidError
from adjourn.handover.rendering import ROOM
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.policy.contract import BrokenContractError
from adjourn.store.base import EMPTY
from adjourn.tasks.approvals import settle_doubt
from adjourn.tasks.decision import Block, ToolRequest
from support.handover import FAR, carried, saved, trusting
from support.workspace import ANN, Workspace


def test_the_answer_is_the_published_one_and_ours(workspace: Workspace) -> None:
    """The published fields, in their order, then the task, the time and the goal; what was refused is distinguished from what was done."""
    task = saved(workspace)
    answer = workspace.resume(workspace.context("second"))
    assert list(answer.items())[:9] == [
        ("name", "fix-auth"),
        ("description", "found it"),
        ("toolsCalled", ["file.read", "tests.run"]),
        ("callsUsed", 2),
        ("budgetRemaining", 18),
        (
            "auditSummary",
            [
                {"event": "tool.allowed", "data": {"tool": "file.read", "argument": "file.read", "outcome": "ok"}},
                {"event": "tool.allowed", "data": {"tool": "tests.run", "argument": "tests.run", "outcome": "ok"}},
            ],
        ),
        ("task", task),
        ("checkpointedAt", "2026-05-02T15:30:16.345Z"),
        ("goal", "do it"),
    ]
    assert answer["refused"] == [
        (
            "network.fetch network.fetch: refused by a rule: deny network.* (.aex/policy.aex:6); "
            "do not try again; only a person can change the policy"
        )
    ]


def test_what_there_is_not_is_not_told(memory_workspace: Workspace) -> None:
    """The answer has no description and no limit where the checkpoint has none."""
    memory_workspace.write_policy("use file.read")
    context = memory_workspace.context()
    memory_workspace.work(context, "file.read")
    session = context.sessions.open()
    create(session.task, "plain", session=session)
    assert list(memory_workspace.resume(context, "plain")) == [
        "name", "toolsCalled", "callsUsed", "auditSummary", "task", "checkpointedAt", "goal", "state",
        "lastSession", "asOf", "howToRead", "more",
        "nextStep",
    ]  # fmt: skip


def test_without_a_name_the_only_open_task_is_resumed(memory_workspace: Workspace) -> None:
    """Of several, each name is said; a task that only read is none."""
    work = {"one": "file.write", "two": "file.write", "three": "file.read"}
    memory_workspace.write_policy("use file.*")
    for group, tool in (("one", work["one"]), ("three", work["three"])):
        context = memory_workspace.context(group)
        memory_workspace.work(context, tool)
        session = context.sessions.open()
        create(session.task, group, trigger="end-of-turn", session=session)
        memory_workspace.leave(context)
    assert memory_workspace.resume(memory_workspace.context("later"), "")["name"] == "one"
    memory_workspace.leave(memory_workspace.context("later"))
    other = memory_workspace.context("two")
    memory_workspace.work(other, work["two"])
    create(other.sessions.open().task, "two", session=other.sessions.open())
    memory_workspace.leave(other)
    with pytest.raises(InvalidError, match="2 tasks are open: two, one"):
        memory_workspace.resume(memory_workspace.context("last"), "")


def test_tools_are_told_once_and_in_order(memory_workspace: Workspace) -> None:
    """Only those that were forwarded, each once, in the order of their first call."""
    saved(
        memory_workspace,
        "tests.run",
        "network.fetch",
        "file.read",
        "tests.run",
        "unheard.of",
        "file.read",
        "file.write",
    )
    assert memory_workspace.resume(memory_workspace.context("second"))["toolsCalled"] == [
        "tests.run",
        "file.read",
        "file.write",
    ]


def test_what_is_spent_is_the_tasks(workspace: Workspace) -> None:
    """An older checkpoint refunds nothing: neither another name, nor another session, nor both."""
    context = workspace.context()
    workspace.work(context, "file.read")
    workspace.save(context, "early")
    workspace.work(context, *["file.read"] * 9)
    workspace.save(context, "late")
    workspace.leave(context)
    second = workspace.context("second")
    early = workspace.resume(second, "early")
    assert (early["callsUsed"], early["budgetRemaining"]) == (10, 10)
    workspace.work(second, "file.write")
    assert workspace.resume(second, "late")["callsUsed"] == 11
    assert workspace.resume(second, "early")["budgetRemaining"] == 9


def test_no_budget_is_below_nothing(memory_workspace: Workspace) -> None:
    """A policy that was narrowed below what is spent leaves 0, and calls are refused."""
    saved(memory_workspace, *["file.read"] * 5)
    memory_workspace.write_policy("use file.read", "budget calls=3")
    context = memory_workspace.context("second")
    assert memory_workspace.resume(context)["budgetRemaining"] == 0
    _, (admitted,) = context.sessions.admit([ToolRequest(tool="file.read", digest="1" * 64)])
    assert isinstance(admitted.decision, Block)
    assert admitted.decision.reason == "budget_exhausted"


def test_calls_in_doubt_are_told(workspace: Workspace) -> None:
    """An effect that was cut off is named with its arguments and the advice to look; settled, it is not shown again."""
    context = workspace.context()
    session, (admitted, _) = context.sessions.admit(
        [
            ToolRequest(tool="file.write", digest="2" * 64, arguments='{"path":"a"}'),
            ToolRequest(tool="file.read", digest="3" * 64, effectful=False),
        ]
    )
    workspace.save(context)
    workspace.leave(context)
    answer = workspace.resume(workspace.context("second"))
    assert answer["inDoubt"] == [
        {"call": admitted.call, "tool": "file.write", "since": "2026-05-02T15:30:12.345Z", "arguments": '{"path":"a"}'}
    ]
    assert answer["inDoubtCount"] == 1
    assert "adjourn settle" in answer["advice"]
    settle_doubt(session.task, admitted.call, happened=True, by=ANN)
    assert not {"inDoubt", "inDoubtCount", "advice"} & workspace.resume(workspace.context("second")).keys()


def test_resuming_is_written_down(workspace: Workspace) -> None:
    """Which version was resumed, and whether the store or a folder had it."""
    task = saved(workspace)
    made = find(workspace.store, "fix-auth")
    workspace.resume(workspace.context("second"))
    (resumed,) = workspace.facts(task, kinds.CheckpointResumed)
    assert resumed == kinds.CheckpointResumed(checkpoint=made.hash, name="fix-auth", source="store")


def test_resuming_where_one_sits_goes_on(workspace: Workspace) -> None:
    """The task stays the same, the session too, and nothing is in doubt by it."""
    context = workspace.context()
    session = workspace.work(context, "file.read")
    workspace.save(context)
    assert workspace.resume(context)["callsUsed"] == 1
    assert context.sessions.open() is session


# --- bounds


def shown(answer: dict[str, Any]) -> int:
    """Bytes of the text that an agent gets."""
    return len(msgspec.json.encode(answer))


def pages(workspace: Workspace, context: Any, name: str = "fix-auth") -> list[dict[str, Any]]:
    found = [workspace.resume(context, name)]
    while "more" in found[-1]:
        assert len(found) < 200
        found.append(workspace.resume(context, name, more=found[-1]["more"]))
    return found


def told(entry: dict[str, Any]) -> tuple[str, str]:
    return entry["event"], json.dumps(entry["data"])


def test_a_long_history_is_told_in_pages(memory_workspace: Workspace) -> None:
    """Every page is at most 8 KB as the agent gets it; the newest comes first; all pages are all of it, exactly once."""
    memory_workspace.write_policy("use file.*", "deny network.*")
    context = memory_workspace.context()
    for turn in range(60):
        memory_workspace.work(context, f"file.t{turn}", "file.read", "network.fetch")
    memory_workspace.save(context)
    first, *told_pages = pages(memory_workspace, context)
    assert len(told_pages) > 1
    for page in (first, *told_pages):
        assert shown(page) <= ROOM
        assert page["auditSummary"]
    assert shown(told_pages[0]) > ROOM * 0.8
    entries = [entry for page in reversed(told_pages) for entry in page["auditSummary"]]
    events = memory_workspace.events(context.task.current())
    expected = [event for event in events if event.event in AUDITED]
    resumed = [entry for entry in entries if entry["event"] == "checkpoint.resumed"]
    assert len(resumed) == 1  # those of the later pages came after the first page
    del expected[len(entries) :]
    assert [entry["event"] for entry in entries] == [event.event for event in expected]
    tools = [entry["data"]["tool"] for entry in entries if entry["event"].startswith("tool.")]
    assert tools == [tool for turn in range(60) for tool in (f"file.t{turn}", "file.read", "network.fetch")]


def test_a_page_has_an_entry_even_if_it_is_large(memory_workspace: Workspace) -> None:
    """Paging continues whatever an entry weighs, and comes to an end."""
    context = memory_workspace.context()
    memory_workspace.work(context, "file.read")
    context.sessions.open().note(kinds.UpstreamError(message="x" * 9000))
    context.sessions.open().note(kinds.UpstreamError(message="y" * 9000))
    memory_workspace.save(context, description="d" * 9000)
    told_pages = pages(memory_workspace, context)
    messages = [
        entry["data"]["message"][0]
        for page in told_pages
        for entry in reversed(page["auditSummary"])
        if entry["event"] == "upstream.error"
    ]
    assert messages == ["y", "x"]


def test_every_part_of_an_answer_is_bounded(memory_workspace: Workspace) -> None:
    """However many tools were called and calls are in doubt, and however long the texts are: all of it within 8 KB."""
    policy = (memory_workspace.root / ".aex" / "policy.aex").read_text().replace('"do it"', f'"{"g" * 3000}"')
    (memory_workspace.root / ".aex" / "policy.aex").write_text(
        policy.replace("use file.read", "use *").replace("=20", "=400")
    )
    context = memory_workspace.context()
    calls = [
        ToolRequest(tool=f"tool{number}.{'x' * 100}", digest="1" * 64, arguments="a" * 500) for number in range(300)
    ]
    context.sessions.admit(calls)
    memory_workspace.save(context, description="d" * 10_000)
    memory_workspace.leave(context)
    answer = memory_workspace.resume(memory_workspace.context("second"))
    assert shown(answer) <= ROOM
    tools, doubts = answer["toolsCalled"], answer["inDoubt"]
    assert (len(tools) > 3, len(doubts) > 2) == (True, True)
    assert tools == [call.tool for call in calls[: len(tools)]]
    assert [doubt["tool"] for doubt in doubts] == [call.tool for call in calls[: len(doubts)]]
    assert (answer["callsUsed"], answer["inDoubtCount"]) == (300, 300)
    assert answer["leftOut"]["inDoubt"] == 300 - len(doubts)
    for text, letter in (("description", "d"), ("goal", "g")):
        assert answer[text].rstrip("…").strip(letter) == ""
        assert answer[text].endswith("…")


@pytest.mark.parametrize("more", ["-1", "1.5", "x", " 1", "1 ", "1e3", "٣", "0x1", "9" * 19, "9" * 5000, "\0"])
def test_a_more_of_another_make_is_refused(memory_workspace: Workspace, more: str) -> None:
    """It is the number of an event, and nothing else is taken for one."""
    saved(memory_workspace)
    with pytest.raises(InvalidError, match="unknown cursor"):
        memory_workspace.resume(memory_workspace.context("second"), more=more)


@pytest.mark.parametrize("more", ["0", "1", "7", "9" * 18])
def test_any_number_is_a_place(memory_workspace: Workspace, more: str) -> None:
    """Before the first event there is nothing; beyond the last is the end."""
    saved(memory_workspace)
    answer = memory_workspace.resume(memory_workspace.context("second"), more=more)
    assert bool(answer["auditSummary"]) == (more not in "01")
    assert "more" not in answer


# --- contracts


def contracted(workspace: Workspace) -> str:
    """A task under a contract that permits reading only."""
    (workspace.root / "task.aex").write_text('task read v0\ngoal "look"\nuse file.read\nbudget calls=4\nreturn 1\n')
    context = workspace.context("first", contract="task.aex")
    context.process = FAR
    workspace.work(context, "file.read")
    made = workspace.save(context)
    workspace.leave(context)
    return made.event.task


def test_a_contract_goes_with_its_task(workspace: Workspace) -> None:
    """A session under the workspace's wider policy is narrowed by the contract of the task it resumes."""
    contracted(workspace)
    (workspace.root / "task.aex").unlink()
    context = workspace.context("second")
    answer = workspace.resume(context)
    assert (answer["goal"], answer["budgetRemaining"]) == ("look", 3)
    _, admitted = context.sessions.admit(
        [ToolRequest(tool=tool, digest="1" * 64) for tool in ("file.read", "file.write")]
    )
    assert [type(item.decision).__name__ for item in admitted] == ["Forward", "Block"]
    assert context.sessions.policy.budget == 4


def test_a_contract_widens_nothing(memory_workspace: Workspace) -> None:
    """What the policy here does not grant, the task's contract does not bring."""
    contracted(memory_workspace)
    memory_workspace.write_policy("use tests.run", "budget calls=2")
    context = memory_workspace.context("second")
    assert memory_workspace.resume(context)["budgetRemaining"] == 1
    _, admitted = context.sessions.admit(
        [ToolRequest(tool=tool, digest="1" * 64) for tool in ("file.read", "tests.run")]
    )
    assert [type(item.decision).__name__ for item in admitted] == ["Block", "Block"]


def test_a_contract_travels(memory_workspace: Workspace, two: Workspace) -> None:
    """On another machine the contract is in force, though its file is not there."""
    memory_workspace.use()
    contracted(memory_workspace)
    carried(memory_workspace, two)
    trusting(two, memory_workspace)
    context = two.context()
    assert two.resume(context)["budgetRemaining"] == 3
    assert [rule.pattern for rule in context.sessions.policy.allow] == ["file.read"]


def test_a_task_without_its_contract_is_not_resumed(memory_workspace: Workspace) -> None:
    """When the text is gone nobody knows what was permitted."""
    task = contracted(memory_workspace)
    text = (memory_workspace.root / "task.aex").read_bytes()
    memory_workspace.store.forget(digest(text))
    before = memory_workspace.events(task)
    with pytest.raises(IntegrityError, match="that the task was opened under is not in the store"):
        memory_workspace.resume(memory_workspace.context("second"))
    assert memory_workspace.events(task) == before
    assert memory_workspace.context("third", contract="task.aex").sessions.open(
        task
    )  # who has the very text may continue


def test_a_contract_with_an_error_is_not_resumed(memory_workspace: Workspace) -> None:
    """A text that this version finds broken permits nothing."""
    context = memory_workspace.context("first")
    context.watch.contract = msgspec.structs.replace(context.watch.contract, contract_text="task t v0\nuse (\n")
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context)
    memory_workspace.leave(context)
    with pytest.raises(BrokenContractError) as refusal:
        memory_workspace.resume(memory_workspace.context("second"))
    assert refusal.value.findings
    assert memory_workspace.store.head(context.task.current()) != EMPTY
