"""Checkpoints of sessions as text: written from the types, and read back from any form that they were written in.

Owns: `encode`, `decode`, `restore`. Must never: touch a file, or refuse a checkpoint for a field that does not fit: such a field takes
its default.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from adjourn.code.model.session_state import CacheKey, SessionState
from adjourn.errors import InvalidError
from adjourn.text import check_values

_LATER = "orchestrator_state"
_RENAMED = {
    "fast": "fast_mode",
    "quick": "quick_mode",
    "phase": "current_phase",
    "branch": "task_branch_name",
}


def encode(state: SessionState) -> bytes:
    """The checkpoint's text."""
    return msgspec.json.format(msgspec.json.encode(state), indent=2)


def decode(data: bytes) -> SessionState:
    """The session in a checkpoint of the published or the later form. Raises `InvalidError` for any other."""
    check_values(data, "the checkpoint")
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"not a checkpoint: {error}") from error
    if not isinstance(found, dict):
        raise InvalidError("not a checkpoint: not a JSON object")
    if isinstance(found.get(_LATER), dict):
        found = {**found, **_flat(found[_LATER])}
    state: SessionState = restore(SessionState, found)
    if not state.session_id:
        raise InvalidError("not a checkpoint: it has no session_id")
    known = {key: value for key, value in state.definitions_cache.items() if from_cache_key(key) is not None}
    return msgspec.structs.replace(state, definitions_cache=known)


def from_cache_key(text: str) -> CacheKey | None:
    """The definitions-cache key in a JSON array; None for any other text."""
    try:
        key: CacheKey = msgspec.json.decode(text, type=CacheKey)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return key


def _flat(later: Mapping[str, Any]) -> dict[str, Any]:
    """The later form groups its fields; they have the same names beyond that."""
    flat: dict[str, Any] = {}
    for name, value in later.items():
        if isinstance(value, dict) and name not in _FIELDS:
            flat |= _flat(value)
        else:
            flat[_RENAMED.get(name, name)] = value
    return flat


def restore(kind: Any, value: Any) -> Any:
    """Convert `value` to `kind`. Missing or invalid members take their default; invalid items are dropped.

    Raises `msgspec.ValidationError` if a member has no default.
    """
    struct = _struct_in(kind)
    if struct is not None and isinstance(value, dict):
        hints = get_type_hints(struct)
        given = {}
        for field in msgspec.structs.fields(struct):
            name = field.encode_name if field.encode_name in value else f"_{field.encode_name}"
            if name in value:
                try:
                    given[field.name] = restore(hints[field.name], value[name])
                except msgspec.ValidationError:
                    if field.required:
                        raise
        try:
            return struct(**given)
        except TypeError as error:
            raise msgspec.ValidationError(str(error)) from error
    if get_origin(kind) is list and isinstance(value, list):
        (item,) = get_args(kind)
        return [one for each in value if (one := _or_none(item, each)) is not None]
    if get_origin(kind) is dict and isinstance(value, dict):
        item = get_args(kind)[1]
        if item is Any:
            return value
        return {key: one for key, each in value.items() if (one := _or_none(item, each)) is not None}
    return msgspec.convert(value, kind)


def _or_none(kind: Any, value: Any) -> Any:
    try:
        return restore(kind, value)
    except msgspec.ValidationError:
        return None


def _struct_in(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if get_origin(kind) in (Union, types.UnionType):
        return next((found for each in get_args(kind) if (found := _struct_in(each))), None)
    return None


_FIELDS = {field.name for field in msgspec.structs.fields(SessionState)}
