"""`DocumentPart`: the base of all types of documents. A value has what this version knows as attributes, and keeps the other members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Self, TypeVar, get_args

import msgspec
from msgspec import UNSET, structs

from adjourn.errors import UsageError
from adjourn.text.near_words import did_you_mean

_NONE: Mapping[str, Any] = MappingProxyType({})


class DocumentPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel", dict=True):
    """Base of all types. An optional field is UNSET when it is absent; null is refused, for it would change the hash.

    A value is also read by its members' published names: `decision["madeBy"]`, `{**decision}`. `unknown` has the members of a stored or
    foreign document that this version does not know; they are written back as they were.
    """

    @property
    def unknown(self) -> Mapping[str, Any]:
        """The members that this version does not know, by their published names."""
        unknown: Mapping[str, Any] = self.__dict__.get("unknown_members", _NONE)
        return unknown

    def replace(self, **changes: Any) -> Self:
        """A copy with other members, by their names in Python; None removes an optional one. Raises `UsageError` for an unknown name."""
        known = type(self).__struct_fields__
        for name in changes:
            if name not in known:
                raise UsageError(
                    f"{type(self).__name__} has no member {name[:80]!r}",
                    did_you_mean(name, known) or f"use one of {', '.join(known)}",
                )
        copy = structs.replace(self, **{name: UNSET if value is None else value for name, value in changes.items()})
        copy.__dict__.update(self.__dict__)
        return copy

    __replace__ = replace

    def __eq__(self, other: object) -> bool:
        """Whether both have the same members, those that this version does not know included."""
        is_same = super().__eq__(other)
        return is_same if is_same is not True else self.unknown == getattr(other, "unknown", _NONE)

    def __hash__(self) -> int:
        return super().__hash__()

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> Any:
        return restored, (type(self), plain_of(self))

    def __getitem__(self, name: str) -> Any:
        attribute = _attributes(type(self)).get(name)
        value = UNSET if attribute is None else getattr(self, attribute)
        return self.unknown[name] if value is UNSET else value

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> Sequence[str]:
        """The published names of the members that are there."""
        named = _attributes(type(self)).items()
        return [*(name for name, attribute in named if getattr(self, attribute) is not UNSET), *self.unknown]

    def get(self, name: str, default: Any = None) -> Any:
        """The member of a published name."""
        try:
            return self[name]
        except KeyError:
            return default


T = TypeVar("T", bound=DocumentPart)


def restored(kind: type[T], tree: Mapping[str, Any]) -> T:
    """The typed value of a tree, with the members that `kind` does not know. Raises `msgspec.ValidationError`."""
    part = msgspec.convert(tree, kind)
    _keep_unknown(part, tree)
    return part


def plain_of(part: DocumentPart) -> dict[str, Any]:
    """A typed value as JSON objects, with the members that its type does not know."""
    tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(part))
    _write_unknown(part, tree)
    return tree


@cache
def _attributes(kind: type[DocumentPart]) -> Mapping[str, str]:
    """The attributes of a type by their published names."""
    return dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))


@cache
def _of_parts(kind: type) -> Sequence[tuple[str, str]]:
    """The members of a type that have parts in them: their published names and attributes."""
    if not issubclass(kind, DocumentPart):
        return ()
    return [(field.encode_name, field.name) for field in structs.fields(kind) if _has_parts(field.type)]


def _has_parts(expected: Any) -> bool:
    inner = get_args(expected)
    return any(map(_has_parts, inner)) if inner else isinstance(expected, type) and issubclass(expected, DocumentPart)


def _keep_unknown(value: DocumentPart, tree: Mapping[str, Any]) -> None:
    for part, members in _parts(value, tree):
        known = _attributes(part.__class__)
        if not members.keys() <= known.keys():
            unknown = {name: member for name, member in members.items() if name not in known}
            part.__dict__["unknown_members"] = MappingProxyType(unknown)


def _write_unknown(value: DocumentPart, tree: dict[str, Any]) -> None:
    for part, members in _parts(value, tree):
        if isinstance(part, DocumentPart):  # a program may have put in a dict
            members.update(part.unknown)


def _parts(value: Any, tree: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a typed value, each with its tree."""
    waiting = [(value, tree)]
    while waiting:
        part, members = waiting.pop()
        for name, attribute in _of_parts(part.__class__):
            member = getattr(part, attribute)
            if isinstance(member, tuple | list):
                waiting += zip(member, members[name], strict=True)
            elif isinstance(member, dict):
                waiting += [(item, members[name][key]) for key, item in member.items()]
            elif member is not UNSET:
                waiting.append((member, members[name]))
        yield part, members
