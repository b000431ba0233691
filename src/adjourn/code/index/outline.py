"""What a file contains, read from its syntax tree: definitions, how their names nest, and regions (comments, strings, imports).

Must never: read a file, or recurse over a tree: a tree is as deep as its author wants.
"""

from __future__ import annotations

import re
import sys
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import msgspec

from adjourn.code.index import languages
from adjourn.code.index.languages import MAX_SECONDS, by_name, load_grammar, parse

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_SIGNATURE = 300
MAX_DOC = 800
_MAX_NAME = 200
_MAX_SYMBOLS = 20_000
_MAX_COMMENTS = 30

COMMENT, STRING, IMPORT, TYPE, EXPORT = "comment", "string", "import", "type", "export"
REGIONS = (COMMENT, STRING, IMPORT, TYPE, EXPORT)
CLASSES = frozenset({"class", "interface", "struct", "trait", "enum"})
FUNCTIONS = frozenset({"function", "method"})
KINDS = CLASSES | FUNCTIONS | frozenset((
    "alias", "constant", "field", "heading", "id", "index", "key", "keyframes", "macro", "module", "namespace", "output", "property",
    "prototype", "resource", "selector", "sequence", "table", "trigger", "type", "variable", "view",
))  # fmt: skip
"""The kinds of definitions that the grammars' queries name. Universal Ctags has more."""
_FIELD, _VARIABLE = "field", "variable"
_VALUES = frozenset({_FIELD, _VARIABLE, "alias"})
DOCUMENTED = CLASSES | FUNCTIONS | {"macro", "module", "resource", "table", "view"}
_WRAPPERS = frozenset(
    {"decorated_definition", "export_statement", "template_declaration", "lexical_declaration", "statement"}
)
_BODIES = ("body", "block", "getter", "computed_property", "column_definitions", "create_query")
"""How the types of nodes that hold a definition's body end, where the grammar has no field for it."""
_ATTRIBUTE = "unary_operator"
_BETWEEN = ("annotation", "attribute", _ATTRIBUTE)
"""How the types of nodes begin that may stand between a definition and the comment on it."""
_COMMENTS = re.compile("comment|marginalia")
_OPENING = re.compile(r"^(@(module)?doc |--+(\[\[)?)")
_LABELS = frozenset({"atom", "keyword"})
"""The types of nodes whose names have a colon (Elixir)."""
_STATEMENT = re.compile(
    rb"^(?:--[^\n]*\n|/\*(?:[^*]|\*(?!/)){0,400}+\*/[ \t]*\n){0,30}+"
    rb"(?:ALTER|COMMENT|COPY|CREATE|DELIMITER|DROP|GO|GRANT|INSERT|REVOKE|USE)\b",
    re.IGNORECASE | re.MULTILINE,
)
_CODE = "code"
"""What a string computes: no part of it."""
_MARKED = frozenset({*REGIONS, _CODE})


class Symbol(msgspec.Struct, frozen=True, array_like=True):
    """One definition. `start` and `end` are offsets in the file's bytes; lines count from 1, both ends included."""

    name: str
    kind: str
    scope: str
    line: int
    end_line: int
    start: int
    end: int
    signature: str
    doc: str = ""
    name_start: int = 0

    @property
    def dotted(self) -> str:
        """Its name behind those of what it is in."""
        return f"{self.scope}.{self.name}" if self.scope else self.name


class Region(msgspec.Struct, frozen=True, array_like=True):
    """A byte range that is a comment, string, import, type or export."""

    kind: str
    start: int
    end: int


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """`broken`: the file has syntax errors, so some of it may be missing here."""

    symbols: list[Symbol]
    regions: list[Region]
    broken: bool = False


class _Definition(NamedTuple):
    """A definition before nesting is resolved. A `name` of "" is only a container."""

    start: int
    end: int
    pattern: int
    node: Node
    body: Node | None
    name: str
    kind: str
    scope: str
    name_start: int


def outline(data: bytes, language: str) -> Outline | None:
    """The outline of a file's bytes (UTF-8), or None if parsing would take too long."""
    if language == "sql":
        code = _of_code(data, language, [])
        return code if code is not None and not code.broken else _by_statement(data)
    entry = by_name(language)
    if entry is None or not entry.scripted:
        return _of_code(data, language, [])
    script = languages.of_markup(data)
    remarks = [Region(COMMENT, start, end) for start, end in script.comments]
    return _of_code(script.code, "tsx" if script.has_markup else language, remarks)


def _by_statement(data: bytes) -> Outline:
    """The outline of a script in a dialect of SQL that the grammar does not know whole: statement by statement."""
    deadline = time.monotonic() + MAX_SECONDS
    symbols: list[Symbol] = []
    regions: list[Region] = []
    row = 0
    for start, end in pairwise((0, *(part.start() for part in _STATEMENT.finditer(data)), len(data))):
        part = _of_code(data[start:end], "sql", []) if time.monotonic() < deadline else None
        if part is not None:
            symbols += [_moved_by(each, start, row) for each in part.symbols]
            regions += [Region(each.kind, start + each.start, start + each.end) for each in part.regions]
        row += data.count(b"\n", start, end)
    return Outline(symbols[:_MAX_SYMBOLS], regions, broken=True)


def _moved_by(symbol: Symbol, by: int, rows: int) -> Symbol:
    return msgspec.structs.replace(
        symbol, line=symbol.line + rows, end_line=symbol.end_line + rows, start=symbol.start + by, end=symbol.end + by, name_start=symbol.name_start + by
    )  # fmt: skip


def _of_code(data: bytes, language: str, regions: list[Region]) -> Outline | None:
    """The outline of code, with the regions that are known already."""
    parsed = parse(data, language)
    if parsed is None:
        return None
    data, root, broken = parsed
    grammar = load_grammar(language)
    cursor = grammar.cursor(grammar.query, match_limit=65_536)
    matches = cursor.matches(root)  # its progress_callback crashes the interpreter (tree-sitter 0.26)
    best: dict[int, _Definition] = {}
    containers: list[_Definition] = []
    for pattern, captures in matches:
        for label, nodes in captures.items():
            if label in _MARKED:
                regions += [Region(label, node.start_byte, node.end_byte) for node in nodes]
            elif label == "within":
                node = nodes[0]
                name = _text(data, captures["container"][0])
                containers.append(
                    _Definition(node.start_byte, node.end_byte, pattern, node, None, name, "class", "", -1)
                )
            elif label.startswith("definition."):
                _keep(best, data, pattern, captures, label)
    definitions = sorted([*best.values(), *containers], key=lambda each: (each.start, -each.end, each.name_start))
    regions = _without_code(sorted(regions, key=lambda region: region.start))
    return Outline(_nested(data, definitions[:_MAX_SYMBOLS], _Cuts(regions, COMMENT)), regions, broken)


def _without_code(regions: list[Region]) -> list[Region]:
    """The regions of a file, strings without what they compute."""
    if not any(region.kind == _CODE for region in regions):
        return regions
    code = _Cuts(regions, _CODE)
    left = [region for region in regions if region.kind not in {_CODE, STRING}]
    for string in regions:
        if string.kind == STRING:
            left += [Region(STRING, start, end) for start, end in code.gaps(string.start, string.end)]
    return sorted(left, key=lambda region: region.start)


class _Cuts:
    """What is left out of a text: its regions of one kind, in order."""

    def __init__(self, regions: Iterable[Region], kind: str) -> None:
        self._ends = [(region.start, region.end) for region in regions if region.kind == kind]
        self._starts = [start for start, _ in self._ends]

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """What is left between two offsets."""
        place = bisect_left(self._starts, start)
        if place == len(self._starts) or self._starts[place] >= end:
            return [(start, end)]
        spans = []
        for first, last in self._ends[place : bisect_left(self._starts, end)]:
            if first > start:
                spans.append((start, first))
            start = max(start, last)
        return [*spans, (start, end)] if start < end else spans


def _keep(best: dict[int, _Definition], data: bytes, pattern: int, captures: dict[str, list[Node]], label: str) -> None:
    """Keep, of several patterns that match one name, the earliest: it is the most specific."""
    node, kind = captures[label][0], label.removeprefix("definition.")
    for named in captures.get("name", ()):
        place = named.start_byte
        if (earlier := best.get(place)) and earlier.pattern <= pattern:
            continue
        form = named.type
        name = " ".join(_text(data, named).strip(": " if form in _LABELS else "\"'`").split())[:_MAX_NAME]
        # C++, Ruby and Elixir name what a definition belongs to.
        outer, _, name = name.rpartition("." if form == "alias" else "::")
        scope = _text(data, captures["scope"][0]) if "scope" in captures else outer.replace("::", ".")
        if name:
            start = place + max(data[place : named.end_byte].rfind(name.encode()), 0)
            body = _body(node, kind)
            end = max(node.end_byte, body.end_byte) if body else node.end_byte
            best[place] = _Definition(node.start_byte, end, pattern, node, body, name, kind, scope, start)


def _body(node: Node, kind: str) -> Node | None:
    """The node that holds a definition's body: its own, that of its value, or the one beside it (Dart)."""
    if body := node.child_by_field_name("body"):
        return body
    for field in ("value", "right"):
        if value := node.child_by_field_name(field):
            return value.child_by_field_name("body")
    if kind in _VALUES:
        return None
    if node.type.endswith("_signature") and (beside := node.next_sibling) and beside.type == "function_body":
        return beside
    return next((child for child in reversed(node.children) if child.type.endswith(_BODIES)), None)


def _nested(data: bytes, definitions: list[_Definition], comments: _Cuts) -> list[Symbol]:
    symbols: list[Symbol] = []
    around: list[_Definition] = []
    fields: set[tuple[str, str]] = set()
    for definition in definitions:
        while around and (around[-1].end <= definition.start or around[-1].end < definition.end):
            around.pop()
        if definition.name_start >= 0:
            # Two names of one statement are neighbours, not parent and child.
            parents = [p for p in around if (p.start, p.end) != (definition.start, definition.end)]
            owners = _owners(definition, parents)
            symbol = _symbol(data, definition, owners, comments)
            field = (symbol.scope, symbol.name)
            # Neither a later assignment of a field nor a function's own variable is a definition.
            again = len(owners) < len(parents) and field in fields
            local = definition.kind == _VARIABLE and bool(owners) and owners[-1].kind in FUNCTIONS
            if not (again or local):
                symbols.append(symbol)
            if definition.kind == _FIELD:
                fields.add(field)
        around.append(definition)
    return symbols


def _owners(definition: _Definition, parents: list[_Definition]) -> list[_Definition]:
    """The enclosing definitions. A field belongs to its class, whichever method assigns it."""
    if definition.kind == _FIELD:
        last = max((i for i, parent in enumerate(parents) if parent.kind in CLASSES), default=len(parents))
        return parents[: last + 1]
    if definition.kind == _VARIABLE:  # of `a = b = 1` neither is in the other
        return [parent for parent in parents if parent.kind not in {_FIELD, _VARIABLE}]
    return parents


def _symbol(data: bytes, definition: _Definition, parents: list[_Definition], comments: _Cuts) -> Symbol:
    kind = definition.kind
    if kind == "function" and parents and parents[-1].kind in CLASSES:
        kind = "method"
    last = (
        definition.body if definition.body and definition.body.end_byte > definition.node.end_byte else definition.node
    )
    row, (end_row, end_column) = definition.node.start_point[0], last.end_point
    outer = [parents[0].scope] if parents and parents[0].scope else []
    return Symbol(
        name=definition.name,
        kind=kind,
        scope=definition.scope or ".".join([*outer, *(parent.name for parent in parents)]),
        line=row + 1,
        end_line=end_row + 1 if end_column or end_row == row else end_row,
        start=definition.start,
        end=definition.end,
        signature=_signature(data, definition, comments),
        doc=_doc(data, definition) if kind in DOCUMENTED else "",
        name_start=definition.name_start,
    )


def _signature(data: bytes, definition: _Definition, comments: _Cuts) -> str:
    end = min(definition.body.start_byte if definition.body else definition.end, definition.start + 4 * MAX_SIGNATURE)
    head = b" ".join([data[start:stop] for start, stop in comments.gaps(definition.start, end)])
    text = head if definition.body else _first_statement(head)
    plain = " ".join(text.decode("utf-8", "replace").split()).rstrip(" :;{")
    return plain.removesuffix("=>").removesuffix("=").rstrip()[:MAX_SIGNATURE]


def _first_statement(text: bytes) -> bytes:
    """The first line, and those after it until its brackets are closed."""
    end = text.find(b"\n")
    while end >= 0:
        if text.count(b"(", 0, end) <= text.count(b")", 0, end):
            return text[:end]
        end = text.find(b"\n", end + 1)
    return text


def _doc(data: bytes, definition: _Definition) -> str:
    """The docstring, or the comments directly above."""
    node = definition.node
    first = _first(definition.body)
    if first is not None and first.type == "expression_statement":
        first = _first(first)
    if first is not None and (
        (first.type == "string" and node.type.endswith("_definition")) or _documents(data, first)
    ):
        return _without_markup(_text(data, first))
    while node.parent is not None and node.parent.type in _WRAPPERS:
        node = node.parent
    lines: list[str] = []
    above = node.prev_sibling
    row = node.start_point[0]
    while above is not None and len(lines) < _MAX_COMMENTS:
        remark = _COMMENTS.search(above.type) or _documents(data, above)
        if not (remark or above.type.startswith(_BETWEEN)) or above.end_point[0] + 1 < row:
            break
        if remark:
            lines.append(_text(data, above))
        row = above.start_point[0]
        above = above.prev_sibling
    return _without_markup("\n".join(reversed(lines)))


def _documents(data: bytes, node: Node) -> bool:
    """Whether it is an attribute that holds documentation (Elixir)."""
    return node.type == _ATTRIBUTE and data.startswith((b"@doc ", b"@moduledoc "), node.start_byte)


def _first(node: Node | None) -> Node | None:
    return node.named_child(0) if node is not None and node.named_child_count else None


def _without_markup(text: str) -> str:
    """The text of a comment or docstring without its delimiters."""
    lines = text[: 4 * MAX_DOC].split("\n")
    if text.startswith(("@", "--")):
        lines = [_OPENING.sub("", line.strip().removesuffix("]]"), count=1) for line in lines]
    lines = [line.strip().strip("/*#!\"'").strip() for line in lines]
    return "\n".join(line for line in lines if line)[:MAX_DOC]


def _text(data: bytes, node: Node) -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")


_BITS = {kind: 1 << number for number, kind in enumerate(REGIONS)}
_KINDS = [frozenset(kind for kind, bit in _BITS.items() if mask & bit) for mask in range(1 << len(REGIONS))]
_TYPE: Final = "I"
_WIDTH = array(_TYPE).itemsize


class RegionMarks:
    """The places in a file where the kinds of region around them change, in order, and the kinds from each on, as bits."""

    def __init__(self, places: Sequence[int], masks: bytes) -> None:
        self._places = places
        self._masks = masks

    @classmethod
    def of(cls, regions: Iterable[Region]) -> Self:
        changes: list[tuple[int, int, int]] = []
        for kind, start, end in ((_BITS[region.kind], region.start, region.end) for region in regions):
            changes += ((start, 1, kind), (end, -1, kind))
        changes.sort()
        depth = dict.fromkeys(_BITS.values(), 0)
        places, masks, mask = array(_TYPE), bytearray(), 0
        for place, step, kind in changes:
            depth[kind] += step
            mask = mask | kind if depth[kind] else mask & ~kind
            if places and places[-1] == place:
                masks[-1] = mask
            else:
                places.append(place)
                masks.append(mask)
        return cls(places, bytes(masks))

    def packed(self) -> bytes:
        places = array(_TYPE, self._places)
        if sys.byteorder == "big":
            places.byteswap()
        return places.tobytes() + self._masks

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        size = len(data) // (_WIDTH + 1) * _WIDTH
        places: Sequence[int] = memoryview(data)[:size].cast(_TYPE)
        if sys.byteorder == "big":
            places = array(_TYPE, places)
            places.byteswap()
        return cls(places, data[size:])

    def at(self, place: int) -> frozenset[str]:
        """The kinds of region that an offset is in."""
        last = bisect_right(self._places, place) - 1
        return _KINDS[self._masks[last]] if last >= 0 else _KINDS[0]
