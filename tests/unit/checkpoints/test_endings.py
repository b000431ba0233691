"""However a session ends, the plan stays: what an agent stated and what a person edited wins over anything automatic."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from adjourn.checkpoints import page_writer, plans
from adjourn.checkpoints.page import AgentReport, ReportedStep
from adjourn.checkpoints.page_files import ACTIVE, find_active, in_order, read, search
from adjourn.checkpoints.plans import plan_summary, read_report
from adjourn.checkpoints.save import CheckpointRequest, close_session, save_checkpoint, save_task_checkpoint
from adjourn.log import kinds
from support.pages import AT, mark, names, page
from support.workspace import Workspace

STEP, EDIT = "Write the parser's test first", "Ask Ann about the parser before anything else"
DONE = "tokens are parsed"
REPORT = AgentReport(
    resumption_point=STEP,
    progress=(ReportedStep(text=DONE, status="done"), ReportedStep(text="parser")),
    open_questions=("Which grammar?",),
)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return Workspace(tmp_path, monkeypatch)


# --- what the plan is


def agent(workspace: Workspace) -> None:
    """The agent reports, and works on."""
    mark(workspace, said=REPORT, description="halfway through")
    workspace.work(workspace.context(), "file.write")


def agent_last(workspace: Workspace) -> None:
    """The agent's report is the last thing that happens."""
    mark(workspace, said=REPORT, description="halfway through")


def person(workspace: Workspace) -> None:
    """A person edits an automatic page."""
    session = workspace.work(workspace.context(), "file.read")
    save_task_checkpoint(session.task, "end-of-turn", str(workspace.root), session=session)
    edit(workspace)


def both(workspace: Workspace) -> None:
    """A person corrects what the agent reported."""
    agent_last(workspace)
    edit(workspace)


def nothing(workspace: Workspace) -> None:
    """Calls, an automatic page, and no word of anybody."""
    session = workspace.work(workspace.context(), "file.read")
    save_task_checkpoint(session.task, "end-of-turn", str(workspace.root), session=session)


def edit(workspace: Workspace, text: str = EDIT) -> None:
    changed = re.sub(r"(## Resumption Point\n).*\n", rf"\g<1>{text}\n", page(workspace))
    (workspace.root / "tmp" / ACTIVE).write_text(changed)


# --- how the session ends


def orderly(workspace: Workspace) -> None:
    close_session(workspace.context().sessions.open(), "client-eof", str(workspace.root))


def terminated(workspace: Workspace) -> None:
    close_session(workspace.context().sessions.open(), "signal-SIGTERM", str(workspace.root))


def ended_by_a_run(workspace: Workspace) -> None:
    """An ending that has a description of its own."""
    close_session(workspace.context().sessions.open(), "interrupted", str(workspace.root), description="go on by run")


def turn_over(workspace: Workspace) -> None:
    """A hook's checkpoint at the end of a turn; then the client is killed."""
    session = workspace.context().sessions.open()
    save_task_checkpoint(session.task, "end-of-turn", str(workspace.root), session=session)
    killed(workspace)


def killed(workspace: Workspace) -> None:
    workspace.clock.move(seconds=3600)


def taken_over(workspace: Workspace) -> None:
    """Another session takes the task over, and ends in good order."""
    killed(workspace)
    task = workspace.context().task.current()
    session = workspace.work(workspace.context("g2", task=task, take_over=True), "file.read")
    close_session(session, "client-eof", str(workspace.root))


def twice(workspace: Workspace) -> None:
    """Two sessions end one after the other."""
    orderly(workspace)
    session = workspace.work(workspace.context(), "file.read")
    close_session(session, "client-eof", str(workspace.root))


# --- where the page is


def active(workspace: Workspace) -> None:
    """The page has its active name."""


def dated(workspace: Workspace) -> None:
    """A crash on a file system without links left only the dated name."""
    folder = workspace.root / "tmp"
    os.rename(folder / ACTIVE, folder / f"checkpoint-{AT}-9.md")


def missing(workspace: Workspace) -> None:
    """Somebody emptied tmp/."""
    shutil.rmtree(workspace.root / "tmp")


PLANS = (agent, agent_last, person, both, nothing)
ENDS = (orderly, terminated, ended_by_a_run, turn_over, killed, taken_over, twice)
PLACES = (active, dated, missing)
Step = Callable[[Workspace], None]


def expected(plan: Step, place: Step) -> str:
    """The next step that must be shown; "" if there is none, or it was only in a file that is gone."""
    edited = plan in (person, both) and place is not missing
    return EDIT if edited else STEP if plan in (agent, agent_last, both) else ""


@pytest.mark.parametrize("place", PLACES, ids=lambda step: step.__name__)
@pytest.mark.parametrize("plan", PLANS, ids=lambda step: step.__name__)
@pytest.mark.parametrize("end", ENDS, ids=lambda step: step.__name__)
def test_the_next_session_is_told_the_next_step(workspace: Workspace, end: Step, plan: Step, place: Step) -> None:
    """Whatever ends the session and wherever the page is, the agent's last step or the person's edit is the one that is shown."""
    plan(workspace)
    place(workspace)
    workspace.clock.move(seconds=60)
    end(workspace)
    task = workspace.task(workspace.context().task.current())
    told = plan_summary(task, str(workspace.root), task.clock())
    wanted = expected(plan, place)
    if wanted:
        assert told is not None
        assert told.page is not None
        assert told.page.resumption_point == wanted
        answer = workspace.resume(workspace.context(task=task.id, take_over=True), task.ledger.checkpoint)
        assert answer["nextStep"][0].startswith(wanted)
    if plan in (agent, agent_last, both):
        assert told is not None
        assert told.page is not None
        assert (DONE, "done") in [(item.text, item.status) for item in told.page.progress]
        assert "Which grammar?" in told.page.open_questions
    last = find_active(str(workspace.root), task.id)
    if end is orderly and wanted:
        assert last is not None
        assert last.page.resumption_point == wanted
        assert last.machine["trigger"] == "client-eof"


# --- nothing is preferred in silence


def test_a_missing_page_is_made_from_the_report_and_says_so(workspace: Workspace) -> None:
    """The report of the last checkpoint is in the store; whoever ends or resumes the session learns that it was taken."""
    agent(workspace)
    missing(workspace)
    session = workspace.context().sessions.open()
    told = plan_summary(session.task, str(workspace.root), session.task.clock())
    assert told is not None
    assert told.notes == ["no page can be read; this is what was stated until the last checkpoint"]
    notes: list[str] = []
    close_session(session, "client-eof", str(workspace.root), tell=notes.append)
    assert notes == [
        f"no page of task {session.task.id} can be read; the page was made from its last report, which the store has"
    ]


def test_an_unreadable_page_is_put_aside_and_the_newest_readable_one_continued(workspace: Workspace) -> None:
    """The note says why, where the unreadable file is now, and which page was taken instead; so is the next session."""
    agent_last(workspace)
    mark(workspace, name="n")
    root, notes = str(workspace.root), list[str]()
    (workspace.root / "tmp" / ACTIVE).write_text("# half a page")
    session = workspace.context().sessions.open()
    close_session(session, "client-eof", root, tell=notes.append)
    assert notes[0].endswith("it was moved to tmp/checkpoint-unreadable.md")
    assert notes[1] == f"the active page cannot be read; tmp/checkpoint-{AT}.md of event 4 was continued"
    told = plan_summary(session.task, root, session.task.clock())
    assert told is not None
    assert told.page is not None
    assert told.page.resumption_point == STEP
    assert any("tmp/checkpoint-unreadable.md cannot be read" in note for note in told.notes)


def test_an_older_page_is_not_preferred_because_of_its_name(workspace: Workspace) -> None:
    """An active page that somebody put back is older than the dated ones: the newest page is continued, and the note says so."""
    mark(workspace, said=AgentReport(resumption_point="old"))
    old = page(workspace)
    mark(workspace, said=REPORT)
    mark(workspace)
    (workspace.root / "tmp" / ACTIVE).write_text(old)
    notes: list[str] = []
    session = workspace.context().sessions.open()
    close_session(session, "client-eof", str(workspace.root), tell=notes.append)
    assert notes == [f"the active page is older; tmp/checkpoint-{AT}-2.md of event 8 was continued"]
    found = find_active(str(workspace.root))
    assert found is not None
    assert found.page.resumption_point == STEP


def test_a_page_older_than_the_last_checkpoint_is_told_as_such(workspace: Workspace) -> None:
    """A checkpoint whose page could not be written leaves the older one, and the next session is informed."""
    made = mark(workspace, said=REPORT)
    workspace.save(workspace.context())
    task = workspace.task(made.checkpoint.event.task)
    task.refresh()
    told = plan_summary(task, str(workspace.root), task.clock())
    assert told is not None
    written, last = made.checkpoint.event.seq, task.ledger.checkpoint_seq
    assert told.notes == [
        f"the page is of event {written}: the checkpoint of event {last} has no page that can be read"
    ]


def test_an_edit_of_one_part_leaves_the_others_to_the_agent(workspace: Workspace) -> None:
    """A person edits the resumption point; the checklist is the agent's next report, and the edit stays."""
    agent_last(workspace)
    edit(workspace)
    mark(workspace, said=AgentReport(progress=(ReportedStep(text="all new"),)), description="did more")
    found = find_active(str(workspace.root))
    assert found is not None
    assert found.page.resumption_point == EDIT
    assert [one.text for one in found.page.progress] == ["all new"]
    mark(workspace, said=AgentReport(resumption_point="then this"))
    found = find_active(str(workspace.root))
    assert found is not None
    assert found.page.resumption_point == "then this"


# --- the order


def test_pages_of_one_minute_are_ordered_by_their_position(workspace: Workspace) -> None:
    """Neither the numbers in file names nor a clock that was set back decide which page is the newest."""
    made = [mark(workspace, trigger=trigger) for trigger in ("before x", "after x", "agent")]
    folder = workspace.root / "tmp"
    texts = {name: (folder / name).read_text() for name in names(workspace)}
    for name in texts:
        (folder / name).unlink()
    for number, name in enumerate(sorted(texts)):
        stamp = texts[name].replace(
            "15:30 UTC", f"15:{40 - number * 3} UTC"
        )  # the latest position has the earliest time
        (folder / f"checkpoint-{AT}-{11 - number}.md").write_text(stamp)
    assert [found.seq for found in search(str(workspace.root)).pages] == [
        one.checkpoint.event.seq for one in reversed(made)
    ]


def test_pages_without_a_position_are_ordered_by_time(workspace: Workspace) -> None:
    """A page that a person wrote has no position: it is as new as its time says."""
    made = mark(workspace)
    found = read(str(workspace.root), made.page)
    earlier, later = (found._replace(seq=-1, at=found.at + by, path=str(by)) for by in (-1, 1))
    assert [one.path for one in in_order([earlier, found, later])] == ["1", made.page, "-1"]


# --- the document in the store


def test_a_report_adds_up_and_has_no_secret(workspace: Workspace) -> None:
    """Each checkpoint names what was stated until then, redacted; a checkpoint that states nothing names the same."""
    secret = "ghp_" + "a1B2" * 9
    session = workspace.context().sessions.open()
    mark(workspace, said=AgentReport(resumption_point=f"use {secret}"))
    mark(workspace, said=AgentReport(current_state=("in auth.py",)), description="halfway")
    mark(workspace, trigger="end-of-turn")
    made = workspace.facts(session.task.id, kinds.CheckpointCreated)
    assert made[1].report == made[2].report != made[0].report
    report = read_report(workspace.store, made[2].report)
    assert (report.current_state, report.resumption_point) == (("in auth.py",), "use [redacted]")
    stored = workspace.store.get_blob(made[0].report)
    assert stored is not None
    assert secret.encode() not in stored


def test_a_list_that_is_cut_is_cut_aloud(workspace: Workspace) -> None:
    """Of 5,000 items the page has 200; the answer says how many it leaves out, and the report has them all."""
    steps = tuple(ReportedStep(text=f"step {number}") for number in range(5000))
    made = mark(workspace, said=AgentReport(progress=steps))
    assert made.notes == ["progress: the page leaves out 4,800 items; the checkpoint's report has them"]
    report = read_report(workspace.store, made.checkpoint.data.report)
    assert len(report.progress or ()) == 5000
    assert mark(workspace).notes == []


def test_a_report_beyond_its_limit_says_what_it_leaves_out(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document of a mebibyte is enough for anybody; its lists say how much longer they were."""
    monkeypatch.setattr(plans, "MAX_REPORT_BYTES", 20_000)
    steps = tuple(ReportedStep(text=f"step {number}") for number in range(5000))
    made = mark(workspace, said=AgentReport(progress=steps, open_questions=("why?",) * 300))
    report = read_report(workspace.store, made.checkpoint.data.report)
    assert report.progress
    assert report.progress[-1] == ReportedStep(text="… and 4,800 more")
    assert report.open_questions
    assert report.open_questions[-1] == "… and 100 more"


def test_a_report_is_durable_before_its_page_is(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed between the checkpoint and its page loses nothing that was stated."""

    def killed_here(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    session = workspace.work(workspace.context(), "file.read")
    monkeypatch.setattr(page_writer, "write", killed_here)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(session.task, str(workspace.root), CheckpointRequest("m", said=REPORT), session=session)
    told = plan_summary(session.task, str(workspace.root), session.task.clock())
    assert told is not None
    assert told.page is not None
    assert told.page.resumption_point == STEP
