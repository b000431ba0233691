"""Types of `adjourn.__all__`, as their users see them. mypy checks this file (`make lint`); nothing runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_type

import adjourn
from adjourn import (
    AdjournError,
    Call,
    CheckpointDiff,
    CognitiveCheckpoint,
    CognitiveNode,
    CognitiveSession,
    CognitiveStore,
    ConflictError,
    ContinuationRecord,
    CRAuthor,
    CRDecision,
    CRDiff,
    CRMergeResult,
    CRQuestion,
    CRStore,
    Fact,
    IntegrityError,
    InvalidError,
    MemoryStore,
    Middleware,
    NotFoundError,
    RefusedError,
    RestoredSession,
    ResumableAnthropic,
    ResumableOpenAI,
    RunningEffect,
    SessionOptions,
    Store,
    StoreError,
    TaskRecord,
    UsageError,
    Validity,
    WorkingState,
    brief,
    create_checkpoint,
    diff_checkpoints,
    estimate_tokens,
    format_state_for_prompt,
    open_store,
    parse_reply,
    restore_checkpoint,
    validate_checkpoint,
)
from adjourn.knowledge.model.cognition import TaggedStatement

Json = dict[str, Any]


def records(store: Store, author: CRAuthor) -> None:
    """A record is typed; so are comparing and merging."""
    crs = CRStore(store)
    assert_type(crs.create({"task": {"id": "t1", "goal": "g"}}, author=author), ContinuationRecord)
    assert_type(crs.get("r1"), ContinuationRecord | None)
    assert_type(crs.resolve("r1"), ContinuationRecord)
    assert_type(crs.update("r1", {}, author, expected_head=""), ContinuationRecord)
    assert_type(crs.get_history("r1"), list[ContinuationRecord])
    assert_type(crs.ids(), list[str])
    assert_type(crs.diff("r1", "r2"), CRDiff)
    assert_type(crs.merge("r1", "r2", "manual", author=author), CRMergeResult)
    assert_type(crs.subscribe(print), Callable[[], None])


def author() -> CRAuthor:
    """An author has an id and a type of a closed set."""
    assert_type(CRAuthor(id="ann", type="human").id, str)
    CRAuthor(id="ann", type="robot")  # type: ignore[arg-type]
    return CRAuthor(id="agent-1", type="agent", model="some-model")


def record(value: ContinuationRecord) -> None:
    """The record as a typed value."""
    assert_type(value.id, str)
    assert_type(value.sequence, int)


def sessions(store: Store) -> None:
    """A cognitive session: its state and its checkpoints are typed."""
    memory = CognitiveStore(store, "job", goal="ship it")
    assert_type(memory.session, CognitiveSession)
    assert_type(memory.create_checkpoint("first"), CognitiveCheckpoint)
    assert_type(memory.checkpoint_ids(), list[str])
    assert_type(memory.prompt(), str)
    assert_type(memory.update_from_response("FACT: a"), CognitiveSession)
    assert_type(Middleware(memory).wrap(_ask), Callable[[Any], Any])


def published(session: Json, checkpoint: Json, memory: CognitiveStore) -> None:
    """The pure functions of the published API take dicts or typed values, and return typed ones; closed sets are checked."""
    assert_type(create_checkpoint(session, "first").checkpoint, CognitiveCheckpoint)
    assert_type(restore_checkpoint(checkpoint, 0, new_session_id="s"), RestoredSession)
    assert_type(validate_checkpoint(checkpoint), Validity)
    assert_type(validate_checkpoint(checkpoint).errors, list[str])
    assert_type(diff_checkpoints(memory.get_current_state(), checkpoint), CheckpointDiff)
    assert_type(estimate_tokens(checkpoint), int)
    assert_type(memory.add_triggers("phase_change"), Callable[[], None])
    memory.remove_triggers("phase")  # type: ignore[arg-type]
    call: Call = _ask
    print(call, SessionOptions(threshold=0.5))


def _ask(request: Mapping[str, Any]) -> Any:
    return request


def providers(memory: CognitiveStore) -> None:
    """Both SDKs' clients have one shape."""
    anthropic = ResumableAnthropic(memory, model="m")
    openai = ResumableOpenAI(memory, model="m")
    for client in (anthropic, openai):
        assert_type(client.save_checkpoint("here"), str)
        assert_type(client.restore_checkpoint("id"), list[str])
        assert_type(client.memory, CognitiveStore)


def briefs(checkpoint: Json) -> None:
    assert_type(brief(None, checkpoint, now=0), str)
    assert_type(format_state_for_prompt(checkpoint, 0), str)
    assert_type(parse_reply("FACT: a"), list[TaggedStatement])


def errors(error: AdjournError) -> None:
    """Each error says what failed, what to do, and its exit code; a conflict is a store's error."""
    assert_type(error.message, str)
    assert_type(error.remedy, str)
    assert_type(error.exit_code, int)
    tree: list[type[AdjournError]] = [UsageError, InvalidError, IntegrityError, NotFoundError, RefusedError, StoreError]
    conflict: type[StoreError] = ConflictError
    print(tree, conflict)


def stores() -> None:
    assert_type(open_store("memory:"), Store)
    store: Store = MemoryStore()
    store.close()
    print(adjourn.no_such_name)  # type: ignore[attr-defined]


def verbs(store: Store, author: CRAuthor) -> None:
    task = TaskRecord(store, "pay", goal="Pay", author=author)
    assert_type(task.current, ContinuationRecord)
    assert_type(task.note(facts=["a"], decisions=["b", {"decision": "c", "because": "d"}]), ContinuationRecord)
    assert_type(task.decide("a", because="b"), CRDecision)
    question = task.ask("Which?", options=["a"], priority="blocking")
    assert_type(task.answer(question, "a", by=author), CRQuestion)
    with task.effect("bank", "transfer", {"invoice": 42}, key="42") as effect:
        assert_type(effect, RunningEffect)
    assert_type(task.merge(task.fork("other")), CRMergeResult)
    memory = CognitiveStore(store, "pay")
    assert_type(memory.update(memory.step("a"), status="completed"), CognitiveNode)
    assert_type(memory.update(memory.fact("a"), confidence=1), Fact)
    assert_type(memory.state, WorkingState)
    task.note(desicions=["a"])  # type: ignore[call-arg]
    task.ask("Which?", priority="urgent")  # type: ignore[arg-type]
