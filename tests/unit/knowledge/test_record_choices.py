"""What is chosen from a closed set, when the caller misspells it."""

from __future__ import annotations

import pytest

from adjourn.errors import UsageError
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.merge import merge
from adjourn.knowledge.records.store import RecordTrees
from adjourn.store import MemoryStore


def test_an_unknown_strategy_or_side_is_wrong_usage() -> None:
    """A misspelled strategy merges nothing, also where nothing is in conflict; a misspelled side resolves nothing."""
    store = RecordTrees(MemoryStore())
    made = store.create({"task": {"id": "t", "goal": "g"}})
    for strategy in ("zzz", "", "prefer-c", None):
        with pytest.raises(UsageError, match="unknown strategy"):
            store.merge(made["id"], made["id"], strategy)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="unknown strategy"):
            merge(made, made, None, strategy)  # type: ignore[arg-type]
    person = CRAuthor(id="ann", type="human")
    with pytest.raises(UsageError, match="unknown side 'c'"):
        store.resolve_conflict(made["id"], "/task/goal", person, take="c")  # type: ignore[arg-type]
    assert store.resolve(made["id"]) == made
