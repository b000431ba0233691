"""The registry of event kinds: canonical by declaration, tolerant of the future, described in the spec."""

from __future__ import annotations

import json
from typing import get_args, get_origin

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

import make_vectors
from adjourn.errors import InvalidError
from adjourn.log.event import GENESIS, Actor, Event
from adjourn.log.kinds import REGISTRY, Data, data_of, default_of, describe
from support.cases import for_each
from support.strategies import data_of_kind

each_kind = for_each("kind", REGISTRY.values(), ids=REGISTRY.keys())


def with_data(kind: str, raw: bytes) -> Event:
    return Event(
        after=GENESIS,
        by=Actor("ann", "human"),
        data=msgspec.Raw(raw),
        event=kind,
        seq=7,
        session="",
        task="t",
        timestamp="2026-05-02T15:30:12.345Z",
    )


@each_kind
def test_members_are_declared_in_the_order_of_canonical_json(kind: type[Data]) -> None:
    """Wire names ascend, are ASCII, and have types whose canonical form msgspec writes."""
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    assert names == sorted(names)
    assert all(name.isascii() and name.isalpha() for name in names)
    for field in msgspec.structs.fields(kind):
        parts = get_args(field.type) if get_origin(field.type) else ()
        assert field.type in (str, int, bool, list[str]) or all(
            isinstance(part, str) or part in REGISTRY.values() for part in parts
        )


@each_kind
@given(st.data())
def test_data_of_each_kind_are_canonical_and_come_back(kind: type[Data], choose: st.DataObject) -> None:
    """Data are stored as the RFC 8785 form of themselves, without members at their default, and decode to themselves."""
    item = choose.draw(data_of_kind(kind))
    raw = msgspec.json.encode(item)
    assert raw == rfc8785.dumps(json.loads(raw))
    assert data_of(with_data(kind.KIND, raw)) == item
    stored = json.loads(raw)
    for field in msgspec.structs.fields(kind):
        at_default = not field.required and getattr(item, field.name) == default_of(field)
        assert (field.encode_name in stored) is not at_default


def test_kinds_are_named_once_and_explained() -> None:
    """Each kind has its own dotted name and a sentence that says what it means."""
    assert len({kind.KIND for kind in REGISTRY.values()}) == len(REGISTRY)
    for name, kind in REGISTRY.items():
        assert name == kind.KIND
        assert name.count(".") == 1
        assert name == name.lower()
        assert (kind.__doc__ or "").strip().endswith(".")


def test_an_unknown_kind_has_no_typed_data() -> None:
    """A kind of the future is not an error; it is not interpreted."""
    assert data_of(with_data("moon.landed", b'{"crater":[1,2]}')) is None
    assert data_of(with_data("moon.landed", b"17")) is None


@each_kind
def test_unknown_members_are_passed_over(kind: type[Data]) -> None:
    """A member that a later version added does not make the data unreadable."""
    minimal = {
        field.encode_name: {str: "x", int: 1, bool: True, list[str]: []}.get(field.type) or get_args(field.type)[0]
        for field in msgspec.structs.fields(kind)
        if field.required and field.type != list[str]
    } | {field.encode_name: [] for field in msgspec.structs.fields(kind) if field.type == list[str]}
    raw = json.dumps(minimal | {"zzz": {"new": [1]}}).encode()
    assert isinstance(data_of(with_data(kind.KIND, raw)), kind)


@for_each(
    ("kind", "raw"),
    [
        ("tool.allowed", b"{}"),
        ("tool.allowed", b"[]"),
        ("tool.allowed", b'{"call":1,"digest":"","effectful":true,"tool":""}'),
        ("tool.settled", b'{"call":"c","outcome":"maybe"}'),
        ("session.lost", b'{"calls":"c","lost":"s","reason":"dead"}'),
        ("task.opened", b'{"goal":null}'),
        ("task.opened", b'{"goal":"\xff"}'),
        ("task.opened", b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ],
)
def test_data_that_do_not_fit_their_kind_are_refused(kind: str, raw: bytes) -> None:
    """A known kind with missing, mistyped or monstrous members raises InvalidError that names the event."""
    with pytest.raises(InvalidError, match=rf"event 7: data does not fit {kind}"):
        data_of(with_data(kind, raw))


def test_the_spec_has_the_kinds_as_they_are() -> None:
    """spec/events.md is not stale; `python tests/make_vectors.py` refreshes its list of kinds."""
    text = make_vectors.SPEC.read_text("utf-8")
    assert text.count(make_vectors.BEGIN) == text.count(make_vectors.END) == 1
    assert describe() in text
    assert make_vectors.with_kinds(text) == text
