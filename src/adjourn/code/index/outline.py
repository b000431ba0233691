"""What a file contains, read from its syntax tree: definitions, marked regions, and the chunks that a search can return.

Owns: `Outline`, `Symbol`, how names nest, `RegionMarks` (is this in a comment, a string, an import?) and `Chunk`. Must never: read a
file, or recurse over a tree: a tree is as deep as its author wants.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from adjourn.code.index.grammars import load

if TYPE_CHECKING:
    from tree_sitter import Node
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, Self

from adjourn.code.model.words import split, whole

MAX_SIGNATURE = 300
MAX_DOC = 800
PARSE_SECONDS = 5.0
_MAX_NAME = 200
_MAX_SYMBOLS = 20_000
_MAX_COMMENTS = 30
_STEP = 1 << 12
"""Bytes given to the parser at once. A query asks again for the text of each node that it compares, so more costs more."""
_MAX_DEPTH = 2_000
_MAX_BROKEN = 5_000
_SAMPLES = 256

COMMENT, STRING, IMPORT, TYPE, EXPORT = "comment", "string", "import", "type", "export"
REGIONS = (COMMENT, STRING, IMPORT, TYPE, EXPORT)
CLASSES = frozenset({"class", "interface", "struct", "trait", "enum"})
FUNCTIONS = frozenset({"function", "method"})
KINDS = CLASSES | FUNCTIONS | frozenset((
    "alias", "constant", "field", "heading", "id", "key", "keyframes", "macro", "module", "namespace", "property", "prototype",
    "selector", "type", "variable",
))  # fmt: skip
"""The kinds of definitions that the grammars' queries name. Universal Ctags has more."""
_FIELD, _VARIABLE = "field", "variable"
_DOCUMENTED = CLASSES | FUNCTIONS
_WRAPPERS = frozenset(
    {"decorated_definition", "export_statement", "template_declaration", "lexical_declaration"}
)


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
    name: str
    kind: str
    scope: str
    name_start: int


def outline(data: bytes, language: str) -> Outline | None:
    """The outline of a file's bytes (UTF-8), or None if parsing would take too long."""
    grammar = load(language)
    root = parse(data, language)
    if root is None or _is_hostile(root):
        return None
    cursor = grammar.cursor(grammar.query, match_limit=65_536)
    matches = cursor.matches(root)  # its progress_callback crashes the interpreter (tree-sitter 0.26)
    best: dict[int, _Definition] = {}
    containers: list[_Definition] = []
    regions: list[Region] = []
    for pattern, captures in matches:
        for label, nodes in captures.items():
            if label in REGIONS:
                regions += [Region(label, node.start_byte, node.end_byte) for node in nodes]
            elif label == "within":
                node = nodes[0]
                name = _text(data, captures["container"][0])
                containers.append(
                    _Definition(node.start_byte, node.end_byte, pattern, node, name, "class", "", -1)
                )
            elif label.startswith("definition."):
                _keep(best, data, pattern, captures, label)
    found = sorted([*best.values(), *containers], key=lambda one: (one.start, -one.end, one.name_start))
    regions.sort(key=lambda region: region.start)
    return Outline(_nested(data, found[:_MAX_SYMBOLS]), regions, root.has_error)


def parse(data: bytes, language: str) -> Node | None:
    """The root of a file's syntax tree; None after `PARSE_SECONDS`."""
    grammar = load(language)
    deadline = time.monotonic() + PARSE_SECONDS
    try:
        tree = grammar.parser(grammar.language).parse(
            lambda start, _: data[start : start + _STEP],
            progress_callback=lambda _, __: time.monotonic() > deadline,
        )
    except ValueError:  # how the library says that it was stopped
        return None
    return tree.root_node


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


def _keep(
    best: dict[int, _Definition], data: bytes, pattern: int, captures: dict[str, list[Node]], label: str
) -> None:
    """Keep, of several patterns that match one name, the earliest: it is the most specific."""
    node, kind = captures[label][0], label.removeprefix("definition.")
    for named in captures.get("name", ()):
        place = named.start_byte
        if (earlier := best.get(place)) and earlier.pattern <= pattern:
            continue
        name = " ".join(_text(data, named).strip("\"'`").split())[:_MAX_NAME]
        outer, _, name = name.rpartition("::")  # C++ and Ruby name what a definition belongs to
        scope = _text(data, captures["scope"][0]) if "scope" in captures else outer.replace("::", ".")
        if name:
            start = named.end_byte - len(name.encode()) if outer else place
            best[place] = _Definition(node.start_byte, node.end_byte, pattern, node, name, kind, scope, start)


def _nested(data: bytes, found: list[_Definition]) -> list[Symbol]:
    symbols: list[Symbol] = []
    around: list[_Definition] = []
    fields: set[tuple[str, str]] = set()
    for one in found:
        while around and (around[-1].end <= one.start or around[-1].end < one.end):
            around.pop()
        if one.name_start >= 0:
            # Two names of one statement are neighbours, not parent and child.
            parents = [p for p in around if (p.start, p.end) != (one.start, one.end)]
            owners = _owners(one, parents)
            symbol = _symbol(data, one, owners)
            field = (symbol.scope, symbol.name)
            # Neither a later assignment of a field nor a function's own variable is a definition.
            again = len(owners) < len(parents) and field in fields
            local = one.kind == _VARIABLE and bool(owners) and owners[-1].kind in FUNCTIONS
            if not (again or local):
                symbols.append(symbol)
            if one.kind == _FIELD:
                fields.add(field)
        around.append(one)
    return symbols


def _owners(one: _Definition, parents: list[_Definition]) -> list[_Definition]:
    """The enclosing definitions. A field belongs to its class, whichever method assigns it."""
    if one.kind == _FIELD:
        last = max((i for i, parent in enumerate(parents) if parent.kind in CLASSES), default=len(parents))
        return parents[: last + 1]
    if one.kind == _VARIABLE:  # of `a = b = 1` neither is in the other
        return [parent for parent in parents if parent.kind not in {_FIELD, _VARIABLE}]
    return parents


def _symbol(data: bytes, one: _Definition, parents: list[_Definition]) -> Symbol:
    kind = one.kind
    if kind == "function" and parents and parents[-1].kind in CLASSES:
        kind = "method"
    node = one.node
    (row, _), (end_row, end_column) = node.start_point, node.end_point
    return Symbol(
        name=one.name,
        kind=kind,
        scope=one.scope or ".".join(parent.name for parent in parents),
        line=row + 1,
        end_line=end_row + 1 if end_column or end_row == row else end_row,
        start=one.start,
        end=one.end,
        signature=_signature(data, node),
        doc=_doc(data, node) if kind in _DOCUMENTED else "",
        name_start=one.name_start,
    )


def _signature(data: bytes, node: Node) -> str:
    body = node.child_by_field_name("body")
    if body is None and (value := node.child_by_field_name("value")) is not None:
        body = value.child_by_field_name("body")
    text = data[node.start_byte : min(node.end_byte, node.start_byte + 4 * MAX_SIGNATURE)]
    head = text[: body.start_byte - node.start_byte] if body else text.split(b"\n", 1)[0]
    return (
        " ".join(head.decode("utf-8", "replace").split())
        .rstrip(" :{")
        .removesuffix("=>")
        .rstrip()[:MAX_SIGNATURE]
    )


def _doc(data: bytes, node: Node) -> str:
    """The docstring, or the comments directly above."""
    body = node.child_by_field_name("body")
    first = _first(body)
    if first is not None and first.type == "expression_statement":
        first = _first(first)
    if first is not None and first.type == "string" and node.type.endswith("_definition"):
        return _plain(_text(data, first))
    while node.parent is not None and node.parent.type in _WRAPPERS:
        node = node.parent
    lines: list[str] = []
    above = node.prev_sibling
    row = node.start_point[0]
    while above is not None and "comment" in above.type and len(lines) < _MAX_COMMENTS:
        if above.end_point[0] + 1 < row:
            break
        lines.append(_text(data, above))
        row = above.start_point[0]
        above = above.prev_sibling
    return _plain("\n".join(reversed(lines)))


def _first(node: Node | None) -> Node | None:
    return node.named_child(0) if node is not None and node.named_child_count else None


def _plain(text: str) -> str:
    """The text of a comment or docstring without its delimiters."""
    lines = [line.strip().strip("/*#!\"'").strip() for line in text[: 4 * MAX_DOC].split("\n")]
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


MAX_TEXT = 4_000
MAX_HEAD = 200
_HEAD_LINES = 30
_BLOCK_LINES = 50
_MAX_CHUNKS = 2_000
_WHOLE = frozenset({*CLASSES, *FUNCTIONS, "heading", "selector", "module", "namespace", "macro"})


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Lines `line` to `end_line` of a file. `name` holds the enclosing names, with dots.

    `head` is what a vector is made of. The text that it is found by stays in the file, from byte `start` to byte `end`.
    """

    name: str
    kind: str
    line: int
    end_line: int
    signature: str
    doc: str
    head: str
    start: int
    end: int


def chunks_of(data: bytes, found: Outline | None) -> list[Chunk]:
    """Chunks of a file: its definitions and the head of the module, or blocks of 50 lines if nothing is defined."""
    text_symbols = [s for s in found.symbols if s.kind in _WHOLE] if found else []
    if not text_symbols:
        return _blocks(data)
    head = data.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
    module = _made(data, Symbol("module", "module", "", 1, len(head), 0, len(b"\n".join(head)), ""))
    starts = sorted(symbol.start for symbol in text_symbols)
    return [module, *(_chunk(data, symbol, starts) for symbol in text_symbols[:_MAX_CHUNKS])]


def _chunk(data: bytes, symbol: Symbol, starts: list[int]) -> Chunk:
    end = symbol.end
    if symbol.kind not in FUNCTIONS:
        # What a class or a section contains has chunks of its own: here is what stands before them.
        end = next((start for start in starts if symbol.start < start < symbol.end), end)
    return _made(data, symbol, end)


def _blocks(data: bytes) -> list[Chunk]:
    lines = data.split(b"\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    blocks = []
    start = 0
    for first in range(0, min(len(lines), _BLOCK_LINES * _MAX_CHUNKS), _BLOCK_LINES):
        part = lines[first : first + _BLOCK_LINES]
        end = start + sum(map(len, part)) + len(part) - 1
        if any(line.strip() for line in part):
            last = first + len(part)
            block = Symbol(f"lines {first + 1}-{last}", "block", "", first + 1, last, start, end, "")
            blocks.append(_made(data, block))
        start = end + 1
    return blocks


def _made(data: bytes, symbol: Symbol, end: int | None = None) -> Chunk:
    end = symbol.end if end is None else end
    text = data[symbol.start : min(end, symbol.start + 8 * MAX_HEAD)].decode("utf-8", "replace")
    head = " ".join(f"{symbol.doc[: MAX_HEAD // 2]} {text[: 2 * MAX_HEAD]}".split())[:MAX_HEAD]
    return Chunk(
        symbol.dotted,
        symbol.kind,
        symbol.line,
        symbol.end_line,
        symbol.signature,
        symbol.doc,
        head,
        symbol.start,
        end,
    )


class ChunkText(msgspec.Struct, frozen=True, array_like=True):
    """What the words of a chunk are made of, beside the bytes of its file."""

    name: str
    kind: str
    doc: str
    start: int
    end: int


def words_of(data: bytes, chunk: ChunkText) -> tuple[str, str, str]:
    """What a chunk is found by: the words of its name, of its documentation, and of its text."""
    own = [] if chunk.kind in {"block", "module"} else [*split(chunk.name), *whole(chunk.name)]
    text = _decoded(data[chunk.start : chunk.end])
    return " ".join(own), " ".join(split(chunk.doc)), " ".join(split(text))


def _decoded(data: bytes) -> str:
    """Text that is not too long: its beginning and its end."""
    text = data[: 8 * MAX_TEXT].decode("utf-8", "replace") if len(data) < 8 * MAX_TEXT else ""
    if not text:
        text = f"{data[: 2 * MAX_TEXT].decode('utf-8', 'replace')}\n{data[-MAX_TEXT:].decode('utf-8', 'replace')}"
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n...\n{text[-MAX_TEXT // 2 :]}"
