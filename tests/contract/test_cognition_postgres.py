"""A cognitive session is kept in PostgreSQL as anywhere."""

from __future__ import annotations

from collections.abc import Callable

from adjourn import CognitiveStore, open_store


def test_a_session_goes_on_in_postgresql(new_postgres_url: Callable[[], str]) -> None:
    """Another process has its state and its checkpoints, and a change of either is made on what the other wrote."""
    url = new_postgres_url()
    first_store, second_store = open_store(url), open_store(url)
    first = CognitiveStore(first_store, "job", goal="ship it")
    for number in range(5):
        first.update_from_response(f"FACT: {number}", every=2)
    second = CognitiveStore(second_store, "job")
    assert second.session["workingState"] == first.session["workingState"]
    assert second.checkpoint_ids() == first.checkpoint_ids()
    oldest, newest = second.checkpoint_ids()
    assert second.get_checkpoint(newest) == first.get_checkpoint(newest)
    restored = second.restore_from_checkpoint(oldest)
    assert len(restored.session["workingState"]["epistemicState"]["facts"]) == 2
    late = first.create_checkpoint("late")
    assert late["branchId"] == restored.forked
    assert len(late["epistemicState"]["facts"]) == 2
    first_store.close()
    second_store.close()
