"""Checkpoints of coding sessions: whatever is in one comes back, and whatever does not fit is left out, not fatal."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.code.session_state import (
    GateLevel,
    Intent,
    Phase,
    PlanTask,
    SessionState,
    Strictness,
    decode,
    encode,
    from_cache_key,
)
from adjourn.errors import InvalidError

texts = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
tasks = st.builds(
    PlanTask,
    id=texts,
    description=texts,
    status=st.sampled_from(["pending", "completed"]),
    failure_count=st.integers(0, 9),
    revert_reason=st.none() | texts,
    checklist=st.lists(texts, max_size=2),
)
keys = st.tuples(texts, texts, st.none() | texts, st.booleans())
states = st.builds(
    SessionState,
    session_id=st.text("abc_123", min_size=1, max_size=9),
    intent=st.sampled_from(get_args(Intent)),
    current_phase=st.sampled_from(Phase),
    gate_level=st.sampled_from(get_args(GateLevel)),
    strictness=st.sampled_from(get_args(Strictness)),
    query=texts,
    tasks=st.lists(tasks, max_size=3),
    phase_assessments=st.dictionaries(texts, st.dictionaries(texts, json_values, max_size=2), max_size=2),
    definitions_cache=st.dictionaries(keys.map(json.dumps), json_values, max_size=2),
    fast_mode=st.booleans(),
    dirty_before=st.dictionaries(texts, texts, max_size=2),
)


@given(states)
def test_a_state_survives_being_saved(state: SessionState) -> None:
    """What is encoded decodes to an equal state."""
    assert decode(encode(state)) == state


@given(states, st.dictionaries(st.sampled_from(SessionState.__struct_fields__), json_values, max_size=6))
def test_a_field_that_does_not_fit_costs_only_itself(state: SessionState, wrong: dict[str, Any]) -> None:
    """Over any values in any fields, a checkpoint that names its session is read, and the fields left alone are as they were."""
    wrong.pop("session_id", None)
    found = decode(msgspec.json.encode({**json.loads(encode(state)), **wrong}))
    for name in set(SessionState.__struct_fields__) - wrong.keys():
        assert getattr(found, name) == getattr(state, name)


@given(keys)
def test_keys_of_the_cache_come_back(key: tuple[str, str, str | None, bool]) -> None:
    """A key is a JSON array in a checkpoint and a tuple in meaning."""
    assert from_cache_key(json.dumps(key)) == key


@pytest.mark.parametrize("text", ["", "x", "[1, 2]", '["a", "b", null]', "{}", '["a", "b", null, 1]'])
def test_what_is_no_key_is_none(text: str) -> None:
    """A text that is no key gives None."""
    assert from_cache_key(text) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"session_id": ""}', b"\xff", b"[" * 100_000])
def test_what_is_no_checkpoint_is_refused(data: bytes) -> None:
    """Text that is no object, or names no session, is an error."""
    with pytest.raises(InvalidError, match="not a checkpoint"):
        decode(data)


def test_names_with_an_underscore_are_understood() -> None:
    """The published form writes some fields with an underscore before them."""
    found = decode(b'{"session_id": "s", "_gate_level": "full", "exploration": {"_evaluated_confidence": "low"}}')
    assert found.gate_level == "full"
    assert found.exploration is not None
    assert found.exploration.evaluated_confidence == "low"


def test_items_that_do_not_fit_are_left_out() -> None:
    """Of a list or mapping the items that fit are kept."""
    given_tasks = [{"id": "a"}, {"no": "id"}, 7, {"id": "b", "status": "eaten"}]
    found = decode(json.dumps({"session_id": "s", "tasks": given_tasks, "dirty_before": {"a": "b", "c": 1}}).encode())
    assert [(task.id, task.status) for task in found.tasks] == [("a", "pending"), ("b", "pending")]
    assert found.dirty_before == {"a": "b"}


def test_a_status_is_always_written() -> None:
    """Other readers of the form need it; counts and reasons that say nothing are left out."""
    assert json.loads(encode(SessionState(session_id="s", tasks=[PlanTask("a")])))["tasks"] == [
        {"id": "a", "description": "", "status": "pending"}
    ]
