"""Resuming: what is looked up where, what is taken in, what is refused whole, and what the next session is told."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adjourn.checkpoints import folder, folder_verification
from adjourn.checkpoints.checkpoint import create, find
from adjourn.checkpoints.shapes import AUDITED
from adjourn.errors import (
    AdjournError,
    ConflictError,
    HeldError,
    IntegrityError,
    InvalidError,
    NotFoundError,
    RefusedError,
)
from adjourn.handover import importing, resume
from adjourn.handover.answer import ANSWER_BYTES
from adjourn.handover.importing import (
    MAX_CALLS,
    import_folder,
    import_published,
    locate,
    vouched_for,
)
from adjourn.host import keys
from adjourn.host.process import Process
from adjourn.knowledge.records.agent_notes import AgentNote, add
from adjourn.log import digest, kinds
from adjourn.log.chain import verify_chain
from adjourn.policy.contract import BrokenContractError
from adjourn.store.base import EMPTY
from adjourn.store.memory import MemoryStore
from adjourn.tasks.approvals import settle_doubt
from adjourn.tasks.decision import Block, ToolRequest
from support.forging import EDITS, Forger
from support.workspace import ANN, Workspace

FAR = Process("elsewhere:1b4e28ba:4026531836", 4711, 90210)
"""A process on a machine that cannot be looked at."""


@pytest.fixture(params=["memory", "sqlite"])
def workspace(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "a", monkeypatch, store=request.param)
    yield workspace
    workspace.store.close()


@pytest.fixture
def memory_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return Workspace(tmp_path / "a", monkeypatch)


@pytest.fixture
def two(memory_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Another machine, in use, with another user's keys. The first one's keys are trusted when `trusting` was called."""
    return Workspace(tmp_path / "b", monkeypatch)


def saved(workspace: Workspace, *tools: str, name: str = "fix-auth") -> str:
    """A client works, saves and goes; returns the task."""
    context = workspace.context("first")
    context.process = FAR
    workspace.work(context, *(tools or ("file.read", "tests.run", "network.fetch")))
    made = workspace.save(context, name)
    workspace.leave(context)
    return made.event.task


def carried(here: Workspace, there: Workspace, name: str = "fix-auth") -> None:
    """What git does: the folder, and nothing else."""
    shutil.copytree(here.folder(name), there.folder(name), dirs_exist_ok=True)


def trusting(there: Workspace, here: Workspace) -> None:
    here.use()
    public = keys.own_public_key()
    there.use()
    keys.trust(f"key-{digest(public)[:6]}", public)


# --- the answer


def test_the_answer_is_the_published_one_and_ours(workspace: Workspace) -> None:
    """The published fields, in their order, then the task, the time and the goal."""
    task = saved(workspace)
    answer = workspace.resume(workspace.context("second"))
    assert list(answer.items()) == [
        ("name", "fix-auth"),
        ("description", "found it"),
        ("toolsCalled", ["file.read", "tests.run"]),
        ("callsUsed", 2),
        ("budgetRemaining", 18),
        (
            "auditSummary",
            [
                {"event": "tool.allowed", "data": {"tool": "file.read"}},
                {"event": "tool.allowed", "data": {"tool": "tests.run"}},
                {"event": "tool.denied", "data": {"tool": "network.fetch", "reason": "deny_list"}},
                {"event": "checkpoint.created", "data": {"name": "fix-auth"}},
                {"event": "checkpoint.resumed", "data": {"name": "fix-auth"}},
            ],
        ),
        ("task", task),
        ("checkpointedAt", "2026-05-02T15:30:16.345Z"),
        ("goal", "do it"),
    ]


def test_what_there_is_not_is_not_told(memory_workspace: Workspace) -> None:
    """The answer has no description and no limit where the checkpoint has none."""
    memory_workspace.write_policy("use file.read")
    context = memory_workspace.context()
    memory_workspace.work(context, "file.read")
    session = context.session()
    create(session.task, "plain", sitting=session)
    assert list(memory_workspace.resume(context, "plain")) == [
        "name", "toolsCalled", "callsUsed", "auditSummary", "task", "checkpointedAt", "goal",
    ]  # fmt: skip


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
    _, (admitted,) = context.admit([ToolRequest(tool="file.read", digest="1" * 64)])
    assert isinstance(admitted.decision, Block)
    assert admitted.decision.reason == "budget_exhausted"


def test_calls_in_doubt_are_told(workspace: Workspace) -> None:
    """An effect that was cut off is named with its arguments and the advice to look; settled, it is not told again."""
    context = workspace.context()
    session, (admitted, _) = context.admit(
        [
            ToolRequest(tool="file.write", digest="2" * 64, arguments='{"path":"a"}'),
            ToolRequest(tool="file.read", digest="3" * 64, effectful=False),
        ]
    )
    workspace.save(context)
    workspace.leave(context)
    answer = workspace.resume(workspace.context("second"))
    assert answer["inDoubt"] == [
        {
            "call": admitted.call,
            "tool": "file.write",
            "digest": "2" * 64,
            "since": "2026-05-02T15:30:12.345Z",
            "arguments": '{"path":"a"}',
        }
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
    assert context.session() is session


# --- bounds


def shown(answer: dict[str, Any]) -> int:
    """Bytes of the text that an agent gets."""
    return len(msgspec.json.format(msgspec.json.encode(answer), indent=2))


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
    told_pages = pages(memory_workspace, context)
    assert len(told_pages) > 2
    for page in told_pages:
        assert shown(page) <= ANSWER_BYTES
        assert page["auditSummary"]
    assert shown(told_pages[0]) > ANSWER_BYTES * 0.8
    entries = [entry for page in reversed(told_pages) for entry in page["auditSummary"]]
    events = memory_workspace.events(context.task_id())
    expected = [event for event in events if event.event in AUDITED]
    resumed = [entry for entry in entries if entry["event"] == "checkpoint.resumed"]
    assert len(resumed) == 1  # those of the later pages came after the first page
    del expected[len(entries) :]
    assert [entry["event"] for entry in entries] == [event.event for event in expected]
    tools = [entry["data"]["tool"] for entry in entries if entry["event"].startswith("tool.")]
    assert tools == [tool for turn in range(60) for tool in (f"file.t{turn}", "file.read", "network.fetch")]


def test_a_page_has_an_entry_even_if_it_is_large(memory_workspace: Workspace) -> None:
    """Paging goes on whatever an entry weighs, and comes to an end."""
    context = memory_workspace.context()
    memory_workspace.work(context, "file.read")
    context.session().note(kinds.UpstreamError(message="x" * 9000))
    context.session().note(kinds.UpstreamError(message="y" * 9000))
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
        ToolRequest(tool=f"tool{number}.{'x' * 100}", digest="1" * 64, arguments="a" * 500)
        for number in range(300)
    ]
    context.admit(calls)
    memory_workspace.save(context, description="d" * 10_000)
    memory_workspace.leave(context)
    answer = memory_workspace.resume(memory_workspace.context("second"))
    assert shown(answer) <= ANSWER_BYTES
    tools, doubts = answer["toolsCalled"], answer["inDoubt"]
    assert (len(tools) > 3, len(doubts) > 2) == (True, True)
    assert tools == [call.tool for call in calls[: len(tools)]]
    assert [doubt["tool"] for doubt in doubts] == tools[: len(doubts)]
    assert (answer["callsUsed"], answer["inDoubtCount"]) == (300, 300)
    assert answer["auditSummary"]
    for text, letter in (("description", "d"), ("goal", "g")):
        assert answer[text].rstrip("…").strip(letter) == ""
        assert answer[text].endswith("…")


@pytest.mark.parametrize(
    "more", ["-1", "1.5", "x", " 1", "1 ", "1e3", "٣", "0x1", "9" * 19, "9" * 5000, "\0"]
)
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


# --- looking it up


def test_what_is_not_there_lists_what_is(workspace: Workspace) -> None:
    """At most ten names, or the tool that makes the first one."""
    with pytest.raises(
        NotFoundError, match=r'no checkpoint is named "lost" \(make one with aex\.checkpoint\)'
    ):
        workspace.resume(workspace.context("second"), "lost")
    for name in ("b", "a"):
        saved(workspace, name=name)
    with pytest.raises(NotFoundError, match=r'no checkpoint is named "lost" \(use one of: a, b\)'):
        workspace.resume(workspace.context("second"), "lost")


@pytest.mark.parametrize("name", ["../../etc", "", "a/b", "a\0b", "x" * 65])
def test_a_name_that_is_none_is_refused(memory_workspace: Workspace, name: str) -> None:
    """A checkpoint name that is a path is refused."""
    with pytest.raises(InvalidError, match="not a checkpoint name"):
        memory_workspace.resume(memory_workspace.context(), name)


def test_the_store_suffices(workspace: Workspace) -> None:
    """A checkpoint resumes from the store after its folder was removed."""
    saved(workspace)
    shutil.rmtree(workspace.folder())
    assert workspace.resume(workspace.context("second"))["callsUsed"] == 2


def test_a_held_task_is_refused(workspace: Workspace) -> None:
    """While another client works on the task it cannot be resumed, unless by a take-over; nothing changes by trying."""
    context = workspace.context("first")
    workspace.work(context, "file.read")
    workspace.save(context)
    before = workspace.events(context.task_id())
    with pytest.raises(HeldError, match="is held by tester"):
        workspace.resume(workspace.context("second"))
    assert workspace.events(context.task_id()) == before
    assert workspace.resume(workspace.context("third", take_over=True))["callsUsed"] == 1


def test_an_edited_folder_changes_nothing(memory_workspace: Workspace, two: Workspace) -> None:
    """On the machine that trusts its signer, and on the one that made it: refused whole, and the store is as it was."""
    memory_workspace.use()
    saved(memory_workspace)
    trusting(two, memory_workspace)
    path = memory_workspace.folder() / "checkpoint.json"
    stored = path.read_bytes()
    for what, edit, reason in EDITS:
        value = json.loads(stored)
        edit(value)
        path.write_text(json.dumps(value))
        carried(memory_workspace, two)
        for workspace in (memory_workspace, two):
            workspace.use()
            before = workspace.everything()
            with pytest.raises(AdjournError, match=reason):
                resume(workspace.context("second"), "fix-auth")
            assert workspace.everything() == before, what


def test_exporting_mends_an_edited_folder(workspace: Workspace) -> None:
    """Written again from the store it can be resumed."""
    saved(workspace)
    path = workspace.folder() / "checkpoint.json"
    path.write_text(path.read_text().replace('"callsUsed": 2', '"callsUsed": 0', 1))
    with pytest.raises(IntegrityError, match="callsUsed differs from what was signed") as refusal:
        workspace.resume(workspace.context("second"))
    assert "adjourn export" in refusal.value.remedy
    folder.write(workspace.store, find(workspace.store, "fix-auth"), str(workspace.root))
    assert workspace.resume(workspace.context("second"))["callsUsed"] == 2


def test_nothing_of_an_edited_audit_log_is_used(memory_workspace: Workspace) -> None:
    """Where the store has the history, the lines beside an untouched checkpoint.json are not read."""
    task = saved(memory_workspace)
    before = memory_workspace.entries(task)
    (memory_workspace.folder() / "audit.jsonl").write_text("lies\n")
    assert memory_workspace.resume(memory_workspace.context("second"))["callsUsed"] == 2
    assert memory_workspace.entries(task)[: len(before)] == before


def test_odd_files_are_refused(memory_workspace: Workspace) -> None:
    """A link or a pipe where checkpoint.json should be is not resumed, though the store has the checkpoint."""
    saved(memory_workspace)
    path = memory_workspace.folder() / "checkpoint.json"
    path.rename(memory_workspace.root / "kept")
    path.symlink_to(memory_workspace.root / "kept")
    with pytest.raises(InvalidError, match="cannot read"):
        memory_workspace.resume(memory_workspace.context("second"))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InvalidError, match="not a regular file"):
        memory_workspace.resume(memory_workspace.context("second"))


def test_a_copy_under_another_name_is_refused(memory_workspace: Workspace) -> None:
    """A name that was signed for one checkpoint cannot be put on another."""
    saved(memory_workspace)
    saved(memory_workspace, "file.read", name="other")
    shutil.rmtree(memory_workspace.folder("other"))
    shutil.copytree(memory_workspace.folder(), memory_workspace.folder("other"))
    with pytest.raises(IntegrityError, match=r'checkpoints/other has checkpoint "fix-auth", not'):
        memory_workspace.resume(memory_workspace.context("second"), "other")


# --- brought by git


def test_a_stranger_is_refused_by_key(memory_workspace: Workspace, two: Workspace) -> None:
    """The refusal names the key and what a person can do; nothing is taken in; once trusted, it goes on as it was."""
    memory_workspace.use()
    task = saved(memory_workspace)
    key = find(memory_workspace.store, "fix-auth").data.key
    carried(memory_workspace, two)
    two.use()
    with pytest.raises(RefusedError, match=f"is signed by {key}, which is not trusted here") as refusal:
        two.resume(two.context())
    assert "adjourn keys trust" in refusal.value.remedy
    assert two.everything() == ({}, {})
    trusting(two, memory_workspace)
    answer = two.resume(two.context())
    assert (answer["task"], answer["callsUsed"], answer["budgetRemaining"]) == (task, 2, 18)
    assert two.facts(task, kinds.CheckpointResumed)[-1].source == "folder"
    assert verify_chain(two.entries(task)).valid


def test_what_was_cut_off_elsewhere_is_in_doubt_here(memory_workspace: Workspace, two: Workspace) -> None:
    """The other machine's session is over once its lease is not seen, and its open effects are in doubt."""
    memory_workspace.use()
    context = memory_workspace.context()
    context.process = FAR
    context.admit([ToolRequest(tool="file.write", digest="1" * 64, arguments="{}")])
    memory_workspace.save(context)
    carried(memory_workspace, two)
    trusting(two, memory_workspace)
    assert [doubt["tool"] for doubt in two.resume(two.context())["inDoubt"]] == ["file.write"]
    _, (admitted,) = two.context().admit([ToolRequest(tool="file.write", digest="1" * 64, arguments="{}")])
    assert "in doubt" in str(admitted.decision)


def test_a_longer_folder_extends_the_store(memory_workspace: Workspace, two: Workspace) -> None:
    """Work that went on elsewhere comes back: the store takes in what is new, and goes on from there."""
    memory_workspace.use()
    context = memory_workspace.context()
    context.process = FAR
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context)
    carried(memory_workspace, two)
    trusting(two, memory_workspace)
    other = two.context("second")
    other.process = FAR
    two.resume(other)
    two.work(other, "file.write", "tests.run")
    two.save(other, description="mended")
    carried(two, memory_workspace)
    memory_workspace.clock.move(seconds=200)  # the lease of the first session has run out
    trusting(memory_workspace, two)
    answer = memory_workspace.resume(memory_workspace.context("third"))
    assert (answer["description"], answer["callsUsed"]) == ("mended", 3)
    assert answer["toolsCalled"] == ["file.read", "file.write", "tests.run"]
    task = answer["task"]
    assert memory_workspace.entries(task)[: len(two.entries(task))] == two.entries(task)
    assert verify_chain(memory_workspace.entries(task)).valid


def test_an_older_folder_refunds_nothing(workspace: Workspace, tmp_path: Path) -> None:
    """Checking out an old version is resumed as that version, with today's budget; the name keeps its newest version."""
    context = workspace.context()
    workspace.work(context, "file.read")
    workspace.save(context, description="old")
    shutil.copytree(workspace.folder(), tmp_path / "old")
    workspace.work(context, *["file.read"] * 7)
    new = workspace.save(context, description="new")
    shutil.copytree(workspace.folder(), tmp_path / "new")
    shutil.copytree(tmp_path / "old", workspace.folder(), dirs_exist_ok=True)
    answer = workspace.resume(context)
    assert (answer["description"], answer["callsUsed"], answer["budgetRemaining"]) == ("old", 8, 12)
    assert find(workspace.store, "fix-auth") == new
    shutil.copytree(tmp_path / "new", workspace.folder(), dirs_exist_ok=True)
    assert workspace.resume(context)["description"] == "new"


def test_what_was_spent_under_another_name_is_spent(memory_workspace: Workspace, two: Workspace) -> None:
    """All folders of a task are looked at: resuming the earlier of two carried checkpoints refunds nothing elsewhere."""
    memory_workspace.use()
    context = memory_workspace.context()
    context.process = FAR
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context, "early")
    memory_workspace.work(context, *["file.write"] * 9)
    memory_workspace.save(context, "late")
    memory_workspace.save(context, "middle")
    stranger = memory_workspace.context("other")
    memory_workspace.work(stranger, *["file.read"] * 3)
    memory_workspace.save(stranger, "another")
    for name in ("early", "late", "middle", "another"):
        carried(memory_workspace, two, name)
    (two.folder("middle") / "audit.jsonl").write_text("lies\n")
    trusting(two, memory_workspace)
    answer = two.resume(two.context(), "early")
    assert (answer["callsUsed"], answer["budgetRemaining"]) == (10, 10)
    assert answer["toolsCalled"] == ["file.read", "file.write"]
    assert list(two.store.streams()) == [answer["task"]]
    assert list(two.store.refs("checkpoint/")) == ["checkpoint/early", "checkpoint/late"]


def test_folders_of_strangers_are_left_alone(memory_workspace: Workspace, two: Workspace) -> None:
    """What an unknown key signed beyond the resumed checkpoint is not taken in."""
    memory_workspace.use()
    context = memory_workspace.context()
    context.process = FAR
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context, "early")
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context, "late")
    carried(memory_workspace, two, "early")
    carried(memory_workspace, two, "late")
    forger = Forger(two.folder("late"))
    trusting(two, memory_workspace)
    forger.write(forger.extra.document)
    assert two.resume(two.context(), "early")["callsUsed"] == 1


def test_two_ways_at_once_are_a_conflict(memory_workspace: Workspace, two: Workspace) -> None:
    """When both machines went on, neither history is touched, nor what is known, and it is said where they part."""
    memory_workspace.use()
    context = memory_workspace.context()
    context.process = FAR
    memory_workspace.work(context, "file.read")
    made = memory_workspace.save(context)
    carried(memory_workspace, two)
    memory_workspace.work(context, "file.write")
    trusting(two, memory_workspace)
    other = two.context("second")
    two.resume(other)
    two.work(other, "tests.run")
    add(other.session(), AgentNote(facts=("only known there",)))
    two.save(other)
    carried(two, memory_workspace)
    trusting(memory_workspace, two)
    before = memory_workspace.everything()
    task, first = made.event.task, made.event.seq + 1
    with pytest.raises(ConflictError, match=f"task {task} has diverged: .* differ from event {first} on"):
        memory_workspace.resume(memory_workspace.context("third", take_over=True))
    assert memory_workspace.everything() == before


def test_a_forgery_is_refused_where_its_task_is_known(memory_workspace: Workspace) -> None:
    """A folder rewritten whole with another key is neither believed nor merged."""
    saved(memory_workspace)
    forger = Forger(memory_workspace.folder())
    forger.events = [*forger.events[:4], forger.events[-1]]
    before = memory_workspace.everything()
    forger.write(forger.extra.document | {"callsUsed": 1, "callsRefused": 0, "tools": {"file.read": 1}})
    with pytest.raises(AdjournError):
        memory_workspace.resume(memory_workspace.context("second"))
    assert memory_workspace.everything() == before


# --- imported by a person


def test_a_person_can_vouch(memory_workspace: Workspace, two: Workspace) -> None:
    """An import lets just that history be resumed; the key stays unknown, and what it signs later is refused."""
    memory_workspace.use()
    context = memory_workspace.context()
    context.process = FAR
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context)
    carried(memory_workspace, two)
    two.use()
    verified = folder_verification.verify(str(two.folder()))
    with pytest.raises(RefusedError):
        import_folder(two.store, verified)
    assert two.everything() == ({}, {})
    made = import_folder(two.store, verified, vouched=True).checkpoint
    assert find(two.store, "fix-auth") == made
    assert vouched_for(two.store, made) == made.event.seq
    assert two.resume(two.context())["callsUsed"] == 1
    memory_workspace.use()
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context)
    carried(memory_workspace, two)
    two.use()
    with pytest.raises(RefusedError, match="is not trusted here"):
        two.resume(two.context())


def test_a_vouched_history_is_not_another_one(memory_workspace: Workspace, two: Workspace) -> None:
    """What was vouched for does not open the door to another history of that task, however short."""
    memory_workspace.use()
    saved(memory_workspace)
    carried(memory_workspace, two)
    two.use()
    import_folder(two.store, folder_verification.verify(str(two.folder())), vouched=True)
    forger = Forger(two.folder())
    forger.events[1] = msgspec.structs.replace(forger.events[1], timestamp="2026-05-02T16:00:00.000Z")
    forger.write(forger.extra.document)
    before = two.everything()
    with pytest.raises(ConflictError, match="differ from event 1 on"):
        two.resume(two.context())
    assert two.everything() == before


def test_importing_twice_changes_nothing(memory_workspace: Workspace) -> None:
    """A folder whose history the store has is found to be the same."""
    saved(memory_workspace)
    verified = folder_verification.verify(str(memory_workspace.folder()))
    before = memory_workspace.everything()
    assert import_folder(memory_workspace.store, verified).checkpoint == verified.checkpoint
    assert memory_workspace.everything() == before


def test_a_long_history_is_taken_in_by_chunks(
    memory_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More events than fit into one step arrive all the same, in order."""
    monkeypatch.setattr(importing, "_CHUNK", 3)
    saved(memory_workspace)
    verified = folder_verification.verify(str(memory_workspace.folder()))
    store = MemoryStore()
    import_folder(store, verified)
    assert list(store.read(verified.extra.task)) == list(verified.audit.entries())


def test_what_is_located_is_said(memory_workspace: Workspace, two: Workspace) -> None:
    """From the store, or from a folder that was brought."""
    memory_workspace.use()
    saved(memory_workspace)
    carried(memory_workspace, two)
    trusting(two, memory_workspace)
    assert locate(two.store, str(two.root), "fix-auth")[1] == "folder"
    memory_workspace.use()
    assert locate(memory_workspace.store, str(memory_workspace.root), "fix-auth")[1] == "store"


# --- the published format alone

PUBLISHED = {
    "name": "fix-auth",
    "description": "Read auth files, identified the bug in token validation",
    "timestamp": "2026-05-02T15:30:12.345Z",
    "callsUsed": 5,
    "budget": 100,
    "toolHistory": [
        {"tool": "file.read", "timestamp": "2026-05-02T15:28:00Z", "decision": "forward"},
        {"tool": "tests.run", "timestamp": "2026-05-02T15:29:00Z", "decision": "forward"},
        {"tool": "network.fetch", "timestamp": "2026-05-02T15:29:30Z", "decision": "block", "reason": "deny_list"},
    ],
}  # fmt: skip


def published(workspace: Workspace, **changes: object) -> Path:
    workspace.folder().mkdir(parents=True)
    (workspace.folder() / "checkpoint.json").write_text(json.dumps(PUBLISHED | changes, indent=2))
    return workspace.folder()


def test_the_published_format_is_not_resumed_by_itself(memory_workspace: Workspace) -> None:
    """A folder in the published format needs a person's import, because nothing in it can be verified."""
    published(memory_workspace)
    with pytest.raises(InvalidError, match=r"published fields only.*adjourn import"):
        memory_workspace.resume(memory_workspace.context())
    assert memory_workspace.everything()[0] == {}


def test_a_person_can_import_the_published_format(workspace: Workspace) -> None:
    """It becomes a task that says who took it in, from which file, with what it says is spent; then it can be resumed."""
    place = published(workspace)
    stored = (place / "checkpoint.json").read_bytes()
    made = import_published(workspace.task("t1"), str(place), ANN)
    opened, imported, _ = workspace.events("t1")
    assert (opened.by, imported.by, made.event.by) == (ANN, ANN, ANN)
    assert workspace.facts("t1", kinds.TaskImported) == [kinds.TaskImported(calls=5, document=digest(stored))]
    assert workspace.store.get_blob(digest(stored)) == stored
    assert made.data.trigger == "import"
    folder.write(workspace.store, made, str(workspace.root))
    answer = workspace.resume(workspace.context())
    assert (answer["callsUsed"], answer["budgetRemaining"]) == (5, 15)
    assert answer["description"] == PUBLISHED["description"]
    assert folder_verification.verify(str(place)).file.calls_used == 5


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"callsUsed": -1}, "callsUsed or budget is outside 0"),
        ({"callsUsed": MAX_CALLS + 1}, "callsUsed or budget is outside 0"),
        ({"callsUsed": 10**30}, "callsUsed or budget is outside 0"),
        ({"callsUsed": "5"}, r"at `\$.callsUsed`"),
        ({"callsUsed": 5.5}, r"at `\$.callsUsed`"),
        ({"budget": -1}, "callsUsed or budget is outside 0"),
        ({"budget": "no"}, r"at `\$.budget`"),
        ({"name": "../x"}, "not a checkpoint name"),
        ({"name": ["x"]}, r"at `\$.name`"),
        ({"description": {"x": 1}}, r"at `\$.description`"),
        ({"description": "x" * 10_001}, "the description is too long: 10001 characters"),
        ({"description": "x" * 100_000}, "the description is too long: 100000 characters"),
        ({"toolHistory": "none"}, r"at `\$.toolHistory`"),
    ],
)
def test_values_out_of_range_are_not_imported(
    memory_workspace: Workspace, changes: dict[str, Any], reason: str
) -> None:
    """They are refused by name, and no task is begun."""
    place = published(memory_workspace, **changes)
    with pytest.raises(InvalidError, match=reason):
        import_published(memory_workspace.task("t1"), str(place), ANN)
    assert memory_workspace.everything() == ({}, {})


@pytest.mark.parametrize("used", [0, MAX_CALLS])
def test_the_ends_of_the_range_are_imported(memory_workspace: Workspace, used: int) -> None:
    """Nothing, and as much as may be."""
    made = import_published(
        memory_workspace.task("t1"), str(published(memory_workspace, callsUsed=used, budget=MAX_CALLS)), ANN
    )
    assert memory_workspace.task("t1").ledger.calls_used == used
    assert made.data.name == "fix-auth"


# --- contracts


def contracted(workspace: Workspace) -> str:
    """A task under a contract that permits reading only."""
    (workspace.root / "task.aex").write_text(
        'task read v0\ngoal "look"\nuse file.read\nbudget calls=4\nreturn 1\n'
    )
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
    _, admitted = context.admit(
        [ToolRequest(tool=tool, digest="1" * 64) for tool in ("file.read", "file.write")]
    )
    assert [type(item.decision).__name__ for item in admitted] == ["Forward", "Block"]
    assert context.policy.budget == 4


def test_a_contract_widens_nothing(memory_workspace: Workspace) -> None:
    """What the policy here does not grant, the task's contract does not bring."""
    contracted(memory_workspace)
    memory_workspace.write_policy("use tests.run", "budget calls=2")
    context = memory_workspace.context("second")
    assert memory_workspace.resume(context)["budgetRemaining"] == 1
    _, admitted = context.admit(
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
    assert [rule.pattern for rule in context.policy.allow] == ["file.read"]


def test_a_task_without_its_contract_is_not_resumed(memory_workspace: Workspace) -> None:
    """When the text is gone nobody knows what was permitted."""
    task = contracted(memory_workspace)
    text = (memory_workspace.root / "task.aex").read_bytes()
    memory_workspace.store.forget(digest(text))
    before = memory_workspace.events(task)
    with pytest.raises(IntegrityError, match="that the task was opened under is not in the store"):
        memory_workspace.resume(memory_workspace.context("second"))
    assert memory_workspace.events(task) == before
    assert memory_workspace.context("third", contract="task.aex").session(
        task
    )  # who has the very text may go on


def test_a_contract_with_an_error_is_not_resumed(memory_workspace: Workspace) -> None:
    """A text that this version finds broken permits nothing."""
    context = memory_workspace.context("first")
    context.contract = msgspec.structs.replace(context.contract, contract_text="task t v0\nuse (\n")
    memory_workspace.work(context, "file.read")
    memory_workspace.save(context)
    memory_workspace.leave(context)
    with pytest.raises(BrokenContractError) as refusal:
        memory_workspace.resume(memory_workspace.context("second"))
    assert refusal.value.findings
    assert memory_workspace.store.head(context.task_id()) != EMPTY
