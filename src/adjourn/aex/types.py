"""Types of inputs: which exist, and whether a value is of one.

Owns: AEX030, AEX031 and the grammar of types. Must never: read files, follow a URL, raise on any value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adjourn.aex.ast import Document
from adjourn.aex.diagnostics import finding
from adjourn.aex.text import BLANK, LETTERS
from adjourn.findings import Finding


def known_type(name: str) -> bool:
    """Whether a `need` may have this type: a scalar, `list[T]` or `T?`, to any depth."""
    text = name.strip(BLANK)
    while True:
        if text.endswith("?"):
            text = text[:-1].rstrip(BLANK)
        elif text.startswith("list[") and text.endswith("]"):
            text = text[len("list[") : -1].strip(BLANK)
        else:
            return text in _SCALARS


def check_inputs(document: Document, inputs: Mapping[str, Any]) -> list[Finding]:
    """The findings that keep a run from starting: one for each missing or wrongly typed input."""
    found = []
    needs = {need.name.text: need for need in document.needs}
    for name, need in needs.items():
        kind = need.type.text
        if name not in inputs:
            if not kind.endswith("?"):
                message = f"input `{name}` of type {kind} is missing"
                found.append(finding("AEX030", message, need.name.span, source=document.source))
        elif not is_of(kind, inputs[name]):
            message = f"input `{name}` is {_kind_of(inputs[name])}, not {kind}"
            found.append(finding("AEX031", message, need.type.span, source=document.source))
    return found


def is_of(kind: str, value: Any) -> bool:
    """Whether a present value is of the type. `T?` is T: absence is not a value."""
    text = kind.strip(BLANK)
    lists = 0
    while True:
        if text.endswith("?"):
            text = text[:-1].rstrip(BLANK)
        elif text.startswith("list[") and text.endswith("]"):
            text = text[len("list[") : -1].strip(BLANK)
            lists += 1
        else:
            break
    test = _SCALARS.get(text)
    return test is not None and _all_of(test, value, lists)


def _all_of(test: Callable[[Any], bool], value: Any, lists: int) -> bool:
    level = [value]
    for _ in range(lists):
        if not all(isinstance(item, list | tuple) for item in level):
            return False
        level = [item for items in level for item in items]
    return all(test(item) for item in level)


def _number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or value - value == 0  # neither infinite nor NaN


def _integer(value: Any) -> bool:
    return _number(value) and value == int(value)


def _url(value: Any) -> bool:
    """A scheme followed by more text, as a URL parser requires."""
    if not isinstance(value, str):
        return False
    scheme, colon, rest = value.strip(BLANK).partition(":")
    if not (colon and rest and scheme[:1] and scheme[0] in LETTERS):
        return False
    if scheme.lower() in ("http", "https", "ws", "wss", "ftp"):
        rest = rest.lstrip("/\\")
    return bool(rest) and scheme.replace("+", "a").replace("-", "a").replace(".", "a").isalnum()


_SCALARS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "num": _number,
    "int": _integer,
    "bool": lambda value: isinstance(value, bool),
    "json": lambda _value: True,
    "file": lambda value: isinstance(value, str) and bool(value),
    "url": _url,
}
TYPES = tuple(_SCALARS)
"""The names of the types that are no lists."""


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "a list"
    for kind, name in ((bool, "a boolean"), (str, "a string"), (int | float, "a number")):
        if isinstance(value, kind):
            return name
    return "an object"
