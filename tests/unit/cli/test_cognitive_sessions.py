"""The sessions of programs in the commands that list and show checkpoints."""

from __future__ import annotations

import pytest

from adjourn.cli.lookup import all_sessions, session_facts, session_ids, verify_sessions
from adjourn.errors import NotFoundError
from adjourn.knowledge.cognition.store import CognitiveStore
from adjourn.store import EMPTY, Entry, MemoryStore


def test_a_session_of_a_program_is_told_with_what_it_knows() -> None:
    """Goal, checkpoints, head and figures of each session; a task's state of mind is not one."""
    store = MemoryStore()
    memory = CognitiveStore(store, "job", goal="ship it")
    memory.update_from_response("FACT: a\nQUESTION: b?", tokens=5)
    made = memory.create_checkpoint("first")["id"]
    CognitiveStore(store, "20260101-task", goal="g").create_checkpoint("of a task")
    store.append("20260101-task", [Entry("0" * 64, b"{}")], expect=EMPTY)
    assert session_ids(store) == ["job"]
    (told,), broken = all_sessions(store)
    assert broken == []
    assert (told["session"], told["goal"], told["head"]) == ("job", "ship it", made)
    assert (told["checkpoints"], told["facts"], told["openQuestions"]) == ([made], 1, 1)
    assert told["metrics"]["tokensConsumed"] == 5
    with pytest.raises(NotFoundError, match="no session nothing"):
        session_facts(store, "nothing")


def test_a_session_that_was_changed_in_the_store_is_told_as_broken() -> None:
    """A missing blob does not hide the other sessions."""
    store = MemoryStore()
    CognitiveStore(store, "good").create_checkpoint("c")
    CognitiveStore(store, "bad").update_from_response("FACT: a")
    for data in list(store._blobs):
        if b"good" not in (store.get_blob(data) or b""):
            store.forget(data)
    told, broken = all_sessions(store)
    assert [name for name, _ in broken] == ["bad"]
    assert [one["session"] for one in told] == ["good"]
    checked = verify_sessions(store)
    assert [(one["session"], one["valid"]) for one in checked] == [("bad", False), ("good", True)]
    assert "is missing" in checked[0]["reason"]
