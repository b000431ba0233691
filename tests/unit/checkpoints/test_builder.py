"""What a page says: whoever knows best, in order, and beside it what the history tells."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints.builder import TaskFacts, compose
from adjourn.checkpoints.page import (
    MAX_ITEMS,
    NO_REPORT,
    AgentReport,
    Page,
    ReportedArtifact,
    ReportedStep,
    edits_of,
    render,
    report_of,
)
from adjourn.checkpoints.parser import parse
from adjourn.tasks.entries import FailedStep, OpenCall
from adjourn.tasks.ledger import Ledger
from support.clock import NOON
from support.events import TASK
from support.strategies import texts

RECORD: dict[str, Any] = {
    "task": {"goal": "the record's goal", "status": "in-progress", "successCriteria": ["green"]},
    "executionSummary": {
        "actions": [{"description": "mapped", "outcome": "success"}, {"description": "tried", "outcome": "failure"}]
    },
    "blockers": [{"status": "active", "description": "no key"}, {"status": "resolved", "description": "old"}],
    "questionsForUser": [{"status": "open", "question": "which?"}, {"status": "answered", "question": "no"}],
    "toolEffects": [{"sideEffects": ["out/a.md", "sent a mail"]}, {"status": "claimed", "sideEffects": ["out/b.md"]}],
    "resumePoints": [
        {"approvalStatus": "pending", "nextSteps": ["not yet"]},
        {"approvalStatus": "approved", "consumedAt": 1, "nextSteps": ["done"]},
        {"approvalStatus": "auto-approved", "nextSteps": ["write", "send"]},
    ],
}


def happened(**more: Any) -> TaskFacts:
    facts = {"goal": "the goal", "calls_used": 38} | more.pop("ledger", {})
    return TaskFacts(
        ledger=Ledger(task=TASK, **facts), at=NOON, trigger=more.pop("trigger", "agent"), budget=50, **more
    )


def test_without_a_word_a_page_says_what_the_history_tells() -> None:
    """Nobody said anything: mission, one item, the last call, what is in doubt, and where to begin."""
    doubt = OpenCall(call="s.1", tool="deploy", digest="0" * 64, effectful=True, session="s", since="", arguments="{}")
    page = compose(happened(last=("deploy", "{}"), ledger={"doubts": {"s.1": doubt}}))
    assert (page.mission, page.iterations_used, page.budget_remaining) == ("the goal", 38, 12)
    assert [(item.text, item.status) for item in page.progress] == [("the goal", "in_progress")]
    assert page.current_state == (
        "Last tool call: deploy", "Checkpoint made: agent", "In doubt: deploy (s.1)",
    )  # fmt: skip
    assert page.resumption_point == "Check whether deploy (s.1) took effect, then continue with: the goal"


def test_a_task_without_a_goal_has_a_mission() -> None:
    """The sections that must not be empty never are."""
    assert compose(happened(ledger={"goal": ""})).mission == f"Task {TASK}"


def test_a_record_is_told_in_the_page_s_words() -> None:
    """Goal, actions, criteria, blockers, open questions, artifacts, and the first resume point that may run."""
    page = compose(happened(), record=RECORD)
    assert page.mission == "the record's goal"
    assert [(item.text, item.status, item.note) for item in page.progress] == [
        ("mapped", "done", ""),
        ("tried", "pending", "failure"),
        ("green", "pending", ""),
    ]
    assert page.current_state[0] == "Blocked: no key"
    assert page.open_questions == ("which?",)
    assert [one.path for one in page.artifacts] == ["out/a.md"]
    assert page.resumption_point == "write; send"


def test_who_is_believed_first() -> None:
    """What is stated now; then what a person edited; then what was stated before; then the record; then the history."""
    before = compose(happened(), AgentReport(mission="page", resumption_point="page", open_questions=("page?",)))
    said = AgentReport(mission="now")
    assert compose(happened(), said, before=before, record=RECORD).mission == "now"
    assert compose(happened(), before=before, record=RECORD).mission == "page"
    edits = edits_of(edited(before, mission="edited"), edited=True)
    assert edits == AgentReport(mission="edited")
    assert compose(happened(), before=before, edits=edits, record=RECORD).mission == "edited"
    unstated = compose(happened())
    assert compose(happened(), before=unstated, record=RECORD).mission == "the record's goal"
    assert compose(happened(), before=before).open_questions == ("page?",)
    assert compose(happened(), before=before, record=RECORD).open_questions == ("page?", "which?")
    assert compose(happened(), AgentReport(open_questions=()), before=before).open_questions == ()


def edited(page: Page, **parts: Any) -> Page:
    """A page as a person leaves it."""
    return msgspec.structs.replace(page, **parts)


def test_a_description_is_no_resumption_point() -> None:
    """A description replaces no statement; without any, the page says that nobody stated a next step, and quotes it."""
    stated = compose(happened(), AgentReport(resumption_point="stated"))
    assert compose(happened(), description="later", before=stated).resumption_point == "stated"
    page = compose(happened(), AgentReport(progress=(ReportedStep(text="a", status="done"),)), description="half")
    assert page.resumption_point == 'No next step was stated. The checkpoint says: "half"'
    point = edits_of(edited(stated, resumption_point="edited"), edited=True)
    assert compose(happened(), description="later", before=stated, edits=point).resumption_point == "edited"


def test_an_edit_stays_through_all_later_automatic_pages() -> None:
    """A person's words are no one-time exception: the record does not replace them on the second page after."""
    page = compose(happened(), record=RECORD)
    edits = edits_of(edited(page, resumption_point="person", mission="person"), edited=True)
    for _ in range(3):
        page = compose(happened(trigger="client-eof"), before=page, edits=edits, record=RECORD)
        edits = NO_REPORT
        assert (page.resumption_point, page.mission) == ("person", "person")


def test_a_resume_point_approved_after_the_statement_counts() -> None:
    """Of two statements the later one counts, whether it is on the page or in the record."""
    before = compose(happened(), AgentReport(resumption_point="page"))
    for at, told in ((NOON - 1, "page"), (NOON + 1, "record")):
        point = {"approvalStatus": "approved", "approvedAt": at, "nextSteps": ["record"]}
        record = {**RECORD, "resumePoints": [point]}
        assert compose(happened(trigger="client-eof"), before=before, record=record).resumption_point == told


def test_what_a_record_no_longer_asks_leaves_the_page() -> None:
    """Open questions and blockers of the record are derived: the next page has those that are still open."""
    before = compose(happened(), AgentReport(open_questions=("mine?",)), record=RECORD)
    answered = {**RECORD, "questionsForUser": [], "blockers": []}
    page = compose(happened(), before=before, record=answered)
    assert page.open_questions == ("mine?",)
    assert not any(line.startswith("Blocked") for line in page.current_state)


@pytest.mark.parametrize("count", [MAX_ITEMS, MAX_ITEMS + 1, 5000])
def test_nothing_is_cut_without_saying_so(count: int) -> None:
    """A list that is too long says how many items it leaves out, and so do the pages after it, once."""
    said = AgentReport(
        progress=tuple(ReportedStep(text=f"step {number}") for number in range(count)),
        current_state=tuple(f"state {number}" for number in range(count)),
        open_questions=tuple(f"question {number}" for number in range(count)),
        artifacts=tuple(ReportedArtifact(path=f"f{number}") for number in range(count)),
    )
    page = compose(happened(), said)
    for _ in range(3):
        told = (
            [one.text for one in page.progress if "more" in one.text],
            [one for one in page.current_state if "more" in one],
            [one for one in page.open_questions if "more" in one],
            [one.path for one in page.artifacts if "more" in one.path],
        )
        expected = [f"… and {count - MAX_ITEMS:,} more"] if count > MAX_ITEMS else []
        assert told == (expected,) * 4
        assert len(page.progress) == len(page.artifacts) == MAX_ITEMS + bool(expected)
        page = compose(happened(), before=parse(render(page)).page)


def test_done_items_are_left_out_first() -> None:
    """A long checklist keeps what is to be done, which the next step is taken from."""
    done = tuple(ReportedStep(text=f"done {number}", status="done") for number in range(300))
    page = compose(happened(), AgentReport(progress=(*done, ReportedStep(text="todo"))))
    assert page.next_step is not None
    assert page.next_step.text == "todo"
    assert page.resumption_point == "Continue with: todo"
    page = compose(happened(), AgentReport(progress=done))
    assert page.resumption_point == "No next step was stated: review what was done"


def test_artifacts_only_grow() -> None:
    """What was once produced stays listed, once, with the last note."""
    before = compose(happened(produced=["a.md"]), AgentReport(artifacts=(ReportedArtifact(path="b.md", note="draft"),)))
    page = compose(
        happened(produced=["c.md"]),
        AgentReport(artifacts=(ReportedArtifact(path="b.md", note="final"),)),
        before=before,
    )
    assert [(one.path, one.note) for one in page.artifacts] == [("b.md", "final"), ("a.md", ""), ("c.md", "")]


def test_a_failure_comes_first_and_what_was_next_after_it() -> None:
    """The resumption point is to find out; the one before comes back once it is over."""
    before = compose(happened(), AgentReport(resumption_point="continue at #4"))
    failed = compose(happened(failed="deploy: it answered with an error"), before=before)
    assert failed.current_state[0] == "Failed: deploy: it answered with an error"
    assert failed.resumption_point.startswith("Check which effects of the failed step")
    assert failed.resumption_point.endswith("Then: continue at #4")
    again = compose(happened(failed="deploy: again"), before=failed)
    assert again.resumption_point == failed.resumption_point
    after = compose(happened(), before=again)
    assert after.resumption_point == "continue at #4"
    assert not any(line.startswith("Failed") for line in after.current_state)


def test_a_page_names_what_is_wrong_before_what_was_stated() -> None:
    """Failing tests come before the next step that was stated, other troubles into the state; both leave once they are over."""
    call = OpenCall(call="s.1", tool="sh", digest="0" * 64, effectful=True, session="s", since="", arguments="{}")
    before = compose(happened(), AgentReport(resumption_point="continue at #4"))
    page = compose(happened(ledger={"red": {"s.1": FailedStep(call)}}), before=before)
    assert page.resumption_point == (
        "sh failed: find out why, and run it again before you call the work done. Then: continue at #4"
    )
    more = compose(happened(ledger={"red": {"s.1": FailedStep(call)}, "red_more": 3}), before=before)
    assert more.resumption_point == page.resumption_point
    assert more.current_state[-1].startswith("Wrong: 3 earlier steps failed")
    page = compose(happened(ledger={"checked": "pytest", "unchecked": 1}), before=page)
    assert page.resumption_point == "continue at #4"
    assert page.current_state[-1] == (
        "Wrong: pytest was not run after the last edit: run it before you call the work done"
    )
    assert not any(line.startswith("Wrong") for line in compose(happened(), before=page).current_state)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (ReportedStep(text="a", status="in_progress"), ("in_progress", "in progress")),
        (ReportedStep(text="a", status="in_progress", note="3 of 8"), ("in_progress", "in progress, 3 of 8")),
        (ReportedStep(text="a", note="in progress"), ("in_progress", "in progress")),
        (ReportedStep(text="a", status="done", note="in progress"), ("done", "")),
        (ReportedStep(text="a", status="strange", note="x"), ("pending", "x")),
    ],
)
def test_items_are_put_into_the_form_of_a_page(step: ReportedStep, told: tuple[str, str]) -> None:
    """What is in progress says so in its note, and nothing else does."""
    (item,) = compose(happened(), AgentReport(progress=(step,))).progress
    assert (item.status, item.note) == told


steps = st.builds(ReportedStep, text=texts, status=st.sampled_from(["done", "in_progress", "pending"]), note=texts)
saids = st.builds(
    AgentReport,
    mission=texts,
    progress=st.lists(steps, max_size=3).map(tuple),
    current_state=st.lists(texts, max_size=3).map(tuple),
    open_questions=st.lists(texts, max_size=3).map(tuple),
    artifacts=st.lists(st.builds(ReportedArtifact, path=texts, note=texts), max_size=3).map(tuple),
    resumption_point=texts,
)


@given(saids, saids)
def test_whatever_is_said_makes_a_page_that_is_read_again(first: AgentReport, second: AgentReport) -> None:
    """No text breaks a page, and one that follows another is one, too."""
    before: Page | None = None
    for said in (first, second, NO_REPORT):
        page = compose(happened(), said, description=said.mission or "", before=before)
        reading = parse(render(page))
        assert reading.page == page
        assert not reading.edited
        before = page


@given(saids)
def test_what_a_page_says_can_be_said(said: AgentReport) -> None:
    """Saying all that stands on a page gives that page."""
    page = compose(happened(), said)
    again = compose(happened(), report_of(page))
    assert render(again).partition("<!--")[0] == render(page).partition("<!--")[0]
