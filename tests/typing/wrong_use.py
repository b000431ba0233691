"""Ten mistakes in a program: mypy refuses each with one error, and so does adjourn when the program runs (`test_typed_values`)."""

from __future__ import annotations

from collections.abc import Callable

from adjourn import CognitiveStore, CRAuthor, CRStore, Store, TaskRecord, create_checkpoint, validate_checkpoint

ANN = CRAuthor(id="ann", type="human")
RECORD = {"task": {"id": "t", "goal": "g"}, "questionsForUser": [{"id": "q", "question": "?"}]}


def the_address_of_a_store(store: Store) -> object:
    return CRStore("records.db")  # type: ignore[arg-type]


def an_author_in_words(store: Store) -> object:
    return CRStore(store).create(RECORD, author="ann")  # type: ignore[arg-type]


def a_strategy_that_does_not_exist(store: Store) -> object:
    records = CRStore(store)
    first, second = (records.create(RECORD, author=ANN) for _ in range(2))
    return records.merge(first.id, second.id, "prefer-c")  # type: ignore[arg-type]


def an_answer_that_is_no_text(store: Store) -> object:
    records = CRStore(store)
    return records.answer_question(records.create(RECORD, author=ANN).id, "q", 5, ANN)  # type: ignore[arg-type]


def a_question_by_its_id(store: Store) -> object:
    return TaskRecord(store, "t").answer("q", "yes", ANN)  # type: ignore[arg-type]


def a_note_with_a_member_that_is_misspelt(store: Store) -> object:
    return TaskRecord(store, "t").note(desicions=["Use SQLite"])  # type: ignore[call-arg]


def a_trigger_that_does_not_exist(store: Store) -> object:
    return CognitiveStore(store, "s", goal="g", triggers=("phase",))  # type: ignore[arg-type]


def a_step_of_a_type_that_does_not_exist(store: Store) -> object:
    return CognitiveStore(store, "s", goal="g").step("Build", type="guess")  # type: ignore[arg-type]


def a_checkpoint_of_a_store(store: Store) -> object:
    return create_checkpoint(CognitiveStore(store, "s", goal="g"), "first")  # type: ignore[arg-type]


def a_checkpoint_by_its_id(store: Store) -> object:
    return validate_checkpoint(CognitiveStore(store, "s", goal="g").create_checkpoint("first").id)  # type: ignore[arg-type]


MISTAKES: tuple[Callable[[Store], object], ...] = (
    the_address_of_a_store,
    an_author_in_words,
    a_strategy_that_does_not_exist,
    an_answer_that_is_no_text,
    a_question_by_its_id,
    a_note_with_a_member_that_is_misspelt,
    a_trigger_that_does_not_exist,
    a_step_of_a_type_that_does_not_exist,
    a_checkpoint_of_a_store,
    a_checkpoint_by_its_id,
)
