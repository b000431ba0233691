"""Parses a file within bounds, whatever its author wants.

Owns: `Parsed` and `parse`, and which files are not parsed at all. Must never: recurse over a tree, or change where anything in a
file is.
"""

from __future__ import annotations

import codecs
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from adjourn.code.index.grammars import load

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_SECONDS = 5.0
_STEP = 1 << 12
"""Bytes given to the parser at once. A query asks again for the text of each node that it compares, so more costs more."""
_MAX_DEPTH = 2_000
_MAX_BROKEN = 5_000
_MAX_MENDED = 20
_SAMPLES = 256
_STATEMENT = re.compile(rb"[;{}]")
_CONSTRUCTOR = re.compile(
    rb"(\bclass\s+\w+(?:<[^<>(){}]{0,300}>)?)"
    rb"((?:\s+(?!(?:class|fun|interface|object|val|var)\b)@?[\w.:]+(?:\([^()]{0,200}\))?){0,8}?\s+constructor\s*)\("
)
_ON_ONE_LINE = re.compile(rb"(?<=[\w)\]}\"'?!]) \}")
"""The end of a Kotlin class on one line with its last member, which the grammar knows after a semicolon only."""
_WORD = re.compile(rb"\S")
_IN_PLACE = "adjourn.in_place"
codecs.register_error(_IN_PLACE, lambda error: ("?" * (error.end - error.start), error.end))  # type: ignore[attr-defined]


class Parsed(NamedTuple):
    """The root of a syntax tree, and the bytes that it is of: those of the file, or as many. `broken`: with syntax errors."""

    data: bytes
    root: Node
    broken: bool


def parse(data: bytes, language: str) -> Parsed | None:
    """The syntax tree of a file's bytes; None if it would take too long to make or to query."""
    data = _valid(data)  # a query decodes what it compares
    if language == "kotlin":
        data = _CONSTRUCTOR.sub(_plain_constructor, data)
    if _is_ambiguous(data):
        return None
    root = _tree(data, language)
    if language == "kotlin" and root is not None and root.has_error:
        data = _ON_ONE_LINE.sub(b";}", data)
        root = _tree(data, language)
    mended, root = _mended(data, root, language)
    if root is None or _is_hostile(root):
        return None
    return Parsed(mended, root, root.has_error or mended is not data)


def _tree(data: bytes, language: str) -> Node | None:
    """The root of a file's syntax tree; None after `MAX_SECONDS`."""
    grammar = load(language)
    deadline = time.monotonic() + MAX_SECONDS
    try:
        tree = grammar.parser(grammar.language).parse(
            lambda start, _: data[start : start + _STEP],
            progress_callback=lambda _, __: time.monotonic() > deadline,
        )
    except ValueError:  # how the library says that it was stopped
        return None
    return tree.root_node


def _valid(data: bytes) -> bytes:
    """The same in UTF-8, each character at its place: what is none becomes question marks."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors=_IN_PLACE).encode()
    return data


def _plain_constructor(found: re.Match[bytes]) -> bytes:
    """The head of a Kotlin class without `constructor` on a later line, which the grammar does not know."""
    head, keyword = found.groups()
    return head + b"(" + _WORD.sub(b" ", keyword) if b"\n" in keyword else found[0]


def _is_ambiguous(data: bytes) -> bool:
    """Whether so many `<` are open that a parser follows more readings than its time, or its stack, allows."""
    return data.count(b"<") > _MAX_DEPTH and any(
        part.count(b"<") - part.count(b">") > _MAX_DEPTH for part in _STATEMENT.split(data)
    )


def _mended(data: bytes, root: Node | None, language: str) -> tuple[bytes, Node | None]:
    """A file and its tree. Lines after which a scanner took all that follows for a string (Kotlin, Lua) are blanked."""
    began = time.monotonic()
    for _ in range(_MAX_MENDED):
        place = _runaway(root) if root is not None and root.has_error else None
        if place is None or time.monotonic() - began > MAX_SECONDS:
            break
        start, end = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place)
        data = b"".join((data[:start], b" " * (end - start), data[end:]))
        root = _tree(data, language)
    return data, root


def _runaway(root: Node) -> int | None:
    """Where the text of a string begins that no string is around, if it is longer than a line."""
    broken = [root]
    while broken:
        node = broken.pop()
        for child in node.children:
            if (
                node.is_error
                and child.type.endswith("_content")
                and child.end_point.row > child.start_point.row
            ):
                return child.start_byte
        broken += [child for child in reversed(node.children) if child.has_error]
    return None


def _is_hostile(root: Node) -> bool:
    """Whether a tree is nested or broken beyond any real code: query time grows with the square of both."""
    cursor = root.walk()
    count = root.descendant_count
    for place in range(count - 1, 0, -max(count // _SAMPLES, 1)):
        cursor.goto_descendant(place)
        if cursor.depth > _MAX_DEPTH:
            return True
    broken = [root] if root.has_error else []
    while broken:
        node = broken.pop()
        if node.is_error and node.child_count > _MAX_BROKEN:
            return True
        broken += [child for child in node.children if child.has_error]
    return False
