"""The record of a task by its verbs: what is said is there, typed, once, and the same as what the meta-tools write."""

from __future__ import annotations

import msgspec
import pytest

from adjourn import CRAuthor, InvalidError, MemoryStore, RefusedError, TaskRecord, UsageError
from adjourn.knowledge.records.agent_notes import AgentNote
from adjourn.knowledge.records.record import NoteMembers, _spelled

BEA = CRAuthor(id="bea", type="human")


@pytest.fixture
def record() -> TaskRecord:
    return TaskRecord(MemoryStore(), "pay-42", goal="Pay invoice 42", author="payer")


def test_a_note_takes_what_the_meta_tool_takes() -> None:
    """The members have the names of `adjourn.note`, spelled as in Python."""
    assert [_spelled(name) for name in sorted(NoteMembers.__annotations__)] == sorted(
        AgentNote.__struct_encode_fields__
    )


def test_the_record_is_created_with_the_first_verb(record: TaskRecord) -> None:
    """It has the goal and the author that it was opened with; opening alone writes nothing."""
    assert record.records.ids() == []
    decision = record.decide("Pay by bank transfer", because="the card was refused")
    current = record.current
    assert (current.task.id, current.task.goal, current.created_by.id) == ("pay-42", "Pay invoice 42", "payer")
    assert current.decisions == (decision,)
    assert (decision.rationale, decision.made_by.type) == ("the card was refused", "agent")


def test_a_decision_takes_another_status(record: TaskRecord) -> None:
    """Said again with another status, it is the same decision."""
    first = record.decide("Use SQLite")
    again = record.decide("use sqlite", status="rejected")
    assert (again.id, again.status, len(record.current.decisions)) == (first.id, "rejected", 1)


def test_an_item_is_its_words_or_an_object_in_either_spelling(record: TaskRecord) -> None:
    """Words alone are enough; members may be spelled as in Python or as in JSON."""
    current = record.note(
        decisions=["Use SQLite", {"decision": "Use WAL", "because": "one writer"}],
        learnings=["Writers wait"],
        resume_points=[{"label": "a", "next_steps": ["x"]}, {"label": "b", "nextSteps": ["x"]}],
        blockers=["No account"],
        invariants=["The balance is positive"],
        success_criteria=["paid"],
        status="in-progress",
    )
    assert [decision.rationale for decision in current.decisions] == ["", "one writer"]
    assert [point.next_steps for point in current.resume_points] == [("x",), ("x",)]
    assert (current.task.success_criteria, len(current.blockers), len(current.invariants)) == (("paid",), 1, 1)


def test_what_is_misspelt_is_refused_with_what_was_meant(record: TaskRecord) -> None:
    """A misspelt member of a note, or of an item, is one clear error, and nothing is written."""
    with pytest.raises(InvalidError, match=r"desicions.*did you mean decisions"):
        record.note(desicions=["x"])  # type: ignore[call-arg]
    with pytest.raises(InvalidError, match="decison"):
        record.note(decisions=[{"decison": "x"}])
    with pytest.raises(InvalidError, match="empty"):
        record.note()
    with pytest.raises(UsageError, match="TaskRecord needs a store"):
        TaskRecord("work.db", "t")  # type: ignore[arg-type]
    assert all(not record.records.get(name)["decisions"] for name in record.records.ids())  # type: ignore[index]


def test_a_question_comes_back_with_its_answer(record: TaskRecord) -> None:
    """An equal question is asked once, and has the answer once a person gave it."""
    question = record.ask("Which account?", options=["a", "b"], priority="blocking")
    assert record.ask("which account?").id == question.id
    assert record.answer(question, "a", BEA).answer == "a"
    assert record.ask("Which account?").answered_by == BEA


def test_a_gate_opens_by_its_authority(record: TaskRecord) -> None:
    """A person approves what asks for a person; an agent may not."""
    point = record.resume_point("Release", when="tests pass", next_steps=["tag"])
    with pytest.raises(RefusedError):
        record.approve(point, CRAuthor(id="payer", type="agent"))
    assert record.approve(point, BEA).approval_status == "approved"


def test_an_effect_happens_once(record: TaskRecord) -> None:
    """The second block gets the outputs of the first, from another object as well."""
    for expected in (True, False):
        with TaskRecord(record.records.store, "pay-42").effect("bank", "transfer", {}, key="invoice:42") as transfer:
            assert transfer.run is expected
            if transfer.run:
                transfer.outputs = {"reference": "T-1"}
    assert transfer.outputs == {"reference": "T-1"}
    (effect,) = record.current.tool_effects
    assert (effect.status, effect.outputs) == ("completed", {"reference": "T-1"})


def test_two_agents_work_on_one_task_and_merge(record: TaskRecord) -> None:
    """What each said is there after the merge; what the fork said is not in the record before."""
    record.decide("Use SQLite")
    other = record.fork("helper")
    other.decide("Use WAL")
    record.decide("Use one writer")
    assert [decision.description for decision in record.current.decisions] == ["Use SQLite", "Use one writer"]
    assert record.diff(other).summary["decisions"].added == 1
    assert record.merge(other).success
    by = {decision.description: decision.made_by.id for decision in record.current.decisions}
    assert by == {"Use SQLite": "payer", "Use one writer": "payer", "Use WAL": "helper"}


def test_what_comes_out_is_frozen_and_can_be_replaced(record: TaskRecord) -> None:
    """Types are the exported ones: attributes, no assignment, `replace`."""
    decision = record.decide("Use SQLite")
    with pytest.raises(AttributeError):
        decision.status = "rejected"  # type: ignore[misc]
    assert msgspec.structs.replace(decision, status="rejected").description == "Use SQLite"


def test_words_with_a_secret_name_the_same_item_again(record: TaskRecord) -> None:
    """Stored without the secret, the item is found by the words that are stored, never by its place."""
    words = "Deploy with key sk-live-a1B2c3D4e5F6g7H8i9J0k1L2"
    gate = record.resume_point(words)
    record.resume_point("Wipe the database")
    assert record.resume_point(words) == gate
    decision = record.decide(words)
    record.decide("Use another one")
    assert record.decide(words).id == decision.id
