"""Pages in a workspace: one active page of each task, every earlier one kept, and what the next session receives of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adjourn.checkpoints import builder, environment, page_files, page_writer
from adjourn.checkpoints.page import NO_REPORT, AgentReport, Artifact, ReportedArtifact, ReportedStep
from adjourn.checkpoints.page_files import ACTIVE, STALE_AFTER, find_active, is_stale, page_summary, search
from adjourn.checkpoints.save import CheckpointRequest, close_session, save_checkpoint
from adjourn.errors import InvalidError, NotFoundError
from adjourn.knowledge.records import agent_notes
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from support.pages import AT, mark, names, page
from support.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return Workspace(tmp_path, monkeypatch)


# --- the lifecycle


def test_a_checkpoint_writes_a_page_that_the_next_session_is_told(workspace: Workspace) -> None:
    """The page says what was said, what the history tells, and names its checkpoint."""
    said = AgentReport(
        progress=(ReportedStep(text="read", status="done"), ReportedStep(text="write")), current_state=("in auth.py",)
    )
    made = mark(workspace, said=said, description="Go on with auth.py")
    found = find_active(str(workspace.root))
    assert found is not None
    assert (found.path, found.id, found.task) == (made.page, made.checkpoint.hash, made.checkpoint.event.task)
    read = found.page
    assert (read.mission, read.resumption_point) == ("do it", "Continue with: write")
    assert [(item.text, item.status) for item in read.progress] == [("read", "done"), ("write", "pending")]
    assert read.current_state == ("in auth.py", "Last tool call: file.read file.read", "Checkpoint made: agent")
    assert (read.iterations_used, read.budget_remaining, read.duration) == (1, 19, 0)
    telling = page_summary(str(workspace.root), found.task, found.at)
    assert telling is not None
    assert telling.page == found.page
    assert telling.notes == []


def test_a_page_follows_the_one_before(workspace: Workspace) -> None:
    """What was said stays until something else is said; what was derived is derived again; the earlier page keeps a name."""
    mark(workspace, said=AgentReport(open_questions=("7 days?",), resumption_point="ask"))
    workspace.clock.move(seconds=60)
    mark(workspace)
    assert names(workspace) == [f"checkpoint-{AT}.md", ACTIVE]
    found = find_active(str(workspace.root))
    assert found is not None
    assert (found.page.open_questions, found.page.resumption_point) == (("7 days?",), "ask")
    assert found.page.iterations_used == 2
    assert found.machine["parent"] == search(str(workspace.root)).pages[1].id


def test_names_in_one_minute_and_before_destructive_calls(workspace: Workspace) -> None:
    """Superseded pages are numbered within a minute; one from before a destructive call has its label."""
    for _ in range(3):
        mark(workspace)
    context = workspace.context()
    session = workspace.work(context)
    made = save_checkpoint(session.task, str(workspace.root), CheckpointRequest("m"), session=session)
    page_writer.write(session.task, made.checkpoint, str(workspace.root), page_writer.PageOptions(label="deploy.run"))
    mark(workspace)
    assert names(workspace) == [
        f"checkpoint-{AT}-2.md", f"checkpoint-{AT}-3.md", f"checkpoint-{AT}-4.md", f"checkpoint-{AT}.md", ACTIVE,
        "checkpoint-pre-deploy-run.md",
    ]  # fmt: skip


def test_a_last_page_is_written_when_a_session_ends(workspace: Workspace) -> None:
    """Its trigger is the reason for the end, and it supersedes."""
    context = workspace.context()
    session = workspace.work(context, "file.read", "file.write")
    close_session(session, "client-eof", str(workspace.root))
    found = find_active(str(workspace.root))
    assert found is not None
    assert found.machine["trigger"] == "client-eof"
    assert found.page.iterations_used == 2


def test_a_session_that_made_no_call_ends_with_a_checkpoint_if_something_was_noted(workspace: Workspace) -> None:
    """What was noted is carried away with the folder; a session that did neither leaves nothing."""
    context = workspace.context()
    assert close_session(context.sessions.open(), "client-eof", str(workspace.root)) == ""
    context = workspace.context()
    session = context.sessions.open()
    agent_notes.add(session, agent_notes.read_note({"decisions": [{"decision": "Use SQLite"}]}))
    folder = close_session(session, "client-eof", str(workspace.root))
    assert (workspace.root / folder / "checkpoint.json").exists()
    last = kinds.data_of(workspace.events(session.task.id)[-1])
    assert isinstance(last, kinds.CheckpointCreated)
    assert last.record == workspace.store.head(f"record/{session.task.id}").hash
    found = find_active(str(workspace.root))
    assert found is not None
    assert (found.task, found.page.iterations_used) == (session.task.id, 0)


def test_two_sessions_do_not_trample_each_other(workspace: Workspace) -> None:
    """While a session lives on the task that has the plain name, another task's page has a name of its own."""
    first = mark(workspace, "g1")
    second = mark(workspace, "g2")
    task = second.checkpoint.event.task
    assert names(workspace) == [f"checkpoint-active-{task}.md", ACTIVE]
    mark(workspace, "g1")
    mark(workspace, "g2")
    root = str(workspace.root)
    for made in (first, second):
        found = find_active(root, made.checkpoint.event.task)
        assert found is not None
        assert (found.task, found.is_active, found.page.iterations_used) == (made.checkpoint.event.task, True, 2)
    assert len(names(workspace)) == 4


def test_the_plain_name_passes_on_when_its_session_is_gone(workspace: Workspace) -> None:
    """The next task takes the plain name; the earlier page stays active under its task's name, each time."""
    tasks = []
    for group in ("g1", "g2", "g1", "g2"):
        made = mark(workspace, group)
        tasks.append(made.checkpoint.event.task)
        workspace.clock.move(seconds=120)  # its lease runs out
    assert tasks[0] == tasks[2] != tasks[1] == tasks[3]
    actives = [found for found in search(str(workspace.root)).pages if found.is_active]
    assert {(found.task, found.path) for found in actives} == {
        (tasks[1], f"tmp/{ACTIVE}"),
        (tasks[0], f"tmp/checkpoint-active-{tasks[0]}.md"),
    }
    assert all(found.page.iterations_used == 2 for found in actives)
    assert len(search(str(workspace.root)).pages) == 4  # nothing was lost on the way


def test_a_page_that_is_older_does_not_replace_a_newer_one(workspace: Workspace) -> None:
    """Another process of the client that is late leaves the newer page as it is."""
    context = workspace.context()
    session = workspace.work(context, "file.read")
    old = save_checkpoint(session.task, str(workspace.root), CheckpointRequest("a"), session=session)
    mark(workspace)
    before = page(workspace)
    page_writer.write(session.task, old.checkpoint, str(workspace.root))
    assert page(workspace) == before


def test_automatic_pages_are_few(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pages that nobody asked for the oldest go; those that somebody asked for, or changed, stay."""
    monkeypatch.setattr(page_writer, "MAX_AUTOMATIC", 3)
    monkeypatch.setattr(page_writer, "LOOK_EVERY", 1)
    mark(workspace, said=AgentReport(resumption_point="kept"))
    for number in range(8):
        workspace.clock.move(seconds=60)
        mark(workspace, trigger="before x")
        if number == 2:
            text = page(workspace).replace("Iterations used: 4", "Iterations used: 40")
            (workspace.root / "tmp" / ACTIVE).write_text(text)
    found = search(str(workspace.root)).pages
    assert [one.machine["trigger"] for one in found] == ["before x"] * 5 + ["agent"]
    assert sum(one.reading.edited for one in found) == 1


# --- age


@pytest.mark.parametrize(("age", "stale"), [(STALE_AFTER - 1, False), (STALE_AFTER, False), (STALE_AFTER + 1, True)])
def test_a_page_is_stale_after_more_than_24_hours(workspace: Workspace, age: int, *, stale: bool) -> None:
    """A page gets a warning only after more than 24 hours; exactly 24.0 hours gives none."""
    mark(workspace)
    found = find_active(str(workspace.root))
    assert found is not None
    assert is_stale(found, found.at + age) is stale
    telling = page_summary(str(workspace.root), found.task, found.at + age)
    assert telling is not None
    assert bool(telling.notes) is stale


def test_without_pages_there_is_nothing_to_tell(workspace: Workspace) -> None:
    """Without a folder or a page there is no note."""
    assert page_summary(str(workspace.root), "t", 0) is None
    with pytest.raises(NotFoundError):
        page_files.read(str(workspace.root), f"tmp/{ACTIVE}")


def test_time_and_text_go_before_the_comment(workspace: Workspace) -> None:
    """Where a person changed the title's time, that counts."""
    mark(workspace)
    path = workspace.root / "tmp" / ACTIVE
    path.write_text(page(workspace).replace("15:30 UTC", "16:00 UTC"))
    found = find_active(str(workspace.root))
    assert found is not None
    assert found.at == found.page.time


def test_pages_are_kept_out_of_git(workspace: Workspace) -> None:
    """A file of ours says so, unless there is one."""
    mark(workspace)
    ignored = workspace.root / "tmp" / ".gitignore"
    assert "/checkpoint*" in ignored.read_text()
    ignored.write_text("")
    mark(workspace)
    assert ignored.read_text() == ""


def test_files_that_calls_have_written_are_listed(workspace: Workspace) -> None:
    """A file that a call named, and that was written since, is an artifact; one that was only named is not."""
    context = workspace.context()
    old, new = workspace.root / "old.md", workspace.root / "new.md"
    old.write_text("")
    os.utime(old, (1, 1))
    new.write_text("")
    from adjourn.log import kinds
    from adjourn.tasks.decision import ToolRequest  # beside its only use

    for name in ("old.md", "new.md", "gone.md", "../out.md"):
        arguments = msgspec.json.encode({"file_path": name, "content": "x"}).decode()
        session, (one,) = context.sessions.admit([ToolRequest(tool="file.write", digest="1" * 64, arguments=arguments)])
        session.settle([kinds.ToolSettled(call=one.call, outcome="ok")])
    made = save_checkpoint(session.task, str(workspace.root), CheckpointRequest("m"), session=session)
    found = page_files.read(str(workspace.root), made.page)
    assert [one.path for one in found.page.artifacts] == ["new.md"]


def test_what_is_no_page_is_refused_by_name(workspace: Workspace) -> None:
    """Only a markdown file inside the workspace is accepted as a page."""
    (workspace.root / "x.md").write_text("# no")
    with pytest.raises(InvalidError):
        page_files.read(str(workspace.root), page_files.check_inside(str(workspace.root), "x.md"))


# --- the artifacts, and other threads


def test_the_next_session_is_told_which_artifacts_changed(workspace: Workspace, tmp_path: Path) -> None:
    """What a listed file held is in the comment; one that holds something else since, or is gone, is named."""
    root = str(workspace.root)
    (tmp_path / "outside.md").write_text("out")
    for name in ("same.md", "edited.md", "longer.md", "gone.md", "linked.md"):
        (workspace.root / name).write_text(name)
    paths = ["same.md", "edited.md", "longer.md", "gone.md", "linked.md", "never.md", "../outside.md", "tmp"]
    made = mark(workspace, said=AgentReport(artifacts=tuple(ReportedArtifact(path=path) for path in paths)))
    found = page_files.read(root, made.page)
    assert [one.path for one in found.page.artifacts] == paths
    held = found.machine["artifacts"]
    assert sorted(held) == ["edited.md", "gone.md", "linked.md", "longer.md", "same.md"]
    assert held["same.md"] == {"size": 7, "sha256": digest(b"same.md")}
    telling = page_summary(root, found.task, found.at)
    assert telling is not None
    assert telling.notes == []
    (workspace.root / "edited.md").write_text("EDITED.md")
    (workspace.root / "longer.md").write_text("longer than it was")
    (workspace.root / "gone.md").unlink()
    (workspace.root / "linked.md").unlink()
    (workspace.root / "linked.md").symlink_to(tmp_path / "outside.md")
    telling = page_summary(root, found.task, found.at)
    assert telling is not None
    assert telling.notes == [
        "changed since the last work on it: edited.md, linked.md, longer.md",
        "gone since the last work on it: gone.md",
    ]


def test_a_change_is_shown_until_a_call_touches_the_file(workspace: Workspace) -> None:
    """A later page keeps what files held before: a difference that no call touched and no agent stated is shown again."""
    root = str(workspace.root)
    artifacts = tuple(ReportedArtifact(path=name) for name in ("gone.md", "edited.md", "stated.md"))
    for artifact in artifacts:
        (workspace.root / artifact.path).write_text("before")
    made = mark(workspace, said=AgentReport(artifacts=artifacts))
    found = page_files.read(root, made.page)
    (workspace.root / "gone.md").unlink()
    for name in ("edited.md", "stated.md"):
        (workspace.root / name).write_text("after")
        os.utime(workspace.root / name, (1, 1))  # long before the session works again

    def notes(said: AgentReport) -> list[str]:
        page = page_summary(root, found.task, page_files.read(root, mark(workspace, said=said).page).at)
        assert page is not None
        return [note for note in page.notes if "since the last work on it" in note]

    both = ["changed since the last work on it: edited.md, stated.md", "gone since the last work on it: gone.md"]
    assert notes(NO_REPORT) == both
    assert notes(AgentReport(artifacts=(ReportedArtifact(path="stated.md"),))) == [
        "changed since the last work on it: edited.md",
        "gone since the last work on it: gone.md",
    ]


@pytest.mark.parametrize(
    "comment", ["x", {"a": 1}, {"a": {"size": -1, "sha256": ""}}, {"a\0": {"size": 1, "sha256": ""}}]
)
def test_a_comment_that_is_not_ours_compares_nothing_and_breaks_nothing(tmp_path: Path, comment: Any) -> None:
    """A comment in a page that adjourn did not write starts no comparison and no error, because an agent can write one."""
    assert len(environment.file_changes(str(tmp_path), comment)) <= 1


def test_more_than_fits_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No page makes a checkpoint or a resume read without bound."""
    monkeypatch.setattr(environment, "MAX_READ", 10)
    for name, size in (("a", 6), ("b", 6), ("c", 4)):
        (tmp_path / name).write_text("x" * size)
    listed = [Artifact(path=name) for name in "abc"]
    assert sorted(environment.file_digests(str(tmp_path), listed)) == ["a", "c"]
    lie = {name: {"size": 9, "sha256": "0"} for name in "abc"}
    assert environment.file_changes(str(tmp_path), lie) == ["changed since the last work on it: a"]


def test_a_page_is_of_one_moment(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other threads do while it is written stays out of it, or is in all of it."""
    context = workspace.context()
    session = workspace.work(context, "file.read")
    compose = builder.compose

    def later(*given: Any, **named: Any) -> Any:
        workspace.work(context, "file.read")
        return compose(*given, **named)

    monkeypatch.setattr(page_writer, "compose", later)
    made = save_checkpoint(session.task, str(workspace.root), CheckpointRequest("m"), session=session)
    found = page_files.read(str(workspace.root), made.page)
    assert session.task.ledger.calls_used == 2
    assert found.page.iterations_used == found.machine["used"] == 1
