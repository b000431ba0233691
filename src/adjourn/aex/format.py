"""The layout of a document: `formatted` writes the text again, and changes only its layout.

Owns: order of declarations, blank lines, indentation, comments, and the proof that the text still says the same.
Must never: drop or invent a comment, write what does not say the same, do I/O, take more than linear time.

A comment belongs to the statement that it precedes, and goes where that goes. One at the end of a body or of the
document stays there; so does one at the beginning that a blank line sets apart. Lines of one list are joined where
neither has a comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from adjourn.aex.ast import Budget, Document, Header, Need, Permission, steps_of
from adjourn.aex.meaning import meaning
from adjourn.aex.parser import parse
from adjourn.aex.spelling import INDENT, spelled
from adjourn.aex.text import Word
from adjourn.aex.tree import SOMEBODY, TreeNode, walk
from adjourn.errors import InvalidError

_GROUPS = (
    (("task", "agent", "policy"),),
    (("goal",),),
    (("mode",), ("require",)),
    (("use", "allow"), ("deny",)),
    (("need",),),
    (("budget",), ("limit",), ("once",), ("checkpoint",)),
)
"""Declarations in order. Those of one group are not separated by a blank line."""
_PLACES = {
    kind: (group, place)
    for group, kinds in enumerate(_GROUPS)
    for place, alike in enumerate(kinds)
    for kind in alike
}
_STEP = (len(_GROUPS), 0)
_PLACES[SOMEBODY] = (len(_GROUPS) + 1, 0)


def formatted(document: Document) -> str:
    """The document's text in the one layout. Raises `InvalidError` when it would not say the same.

    The document must be free of errors.
    """
    text = _Writer(document).text()
    again = parse(text, document.source)
    if (
        any(found.severity == "error" for found in again.findings)
        or meaning(again) != meaning(document)
        or comments(again) != comments(document)
        or _Writer(again).text() != text
    ):
        raise InvalidError(
            f"{document.source or 'the document'} was not formatted: formatting would change its meaning",
            "write texts of several lines in one line, in quotes",
        )
    return text


def comments(document: Document) -> list[str]:
    """Every comment, sorted."""
    tree = document.tree
    return sorted(tree.word(node).text for node in walk(tree.nodes) if node.kind == "comment")


class _Statement(msgspec.Struct):
    """A statement with what it says, and the comments above it; an empty one is a blank line."""

    node: TreeNode
    parts: list[Any]
    above: list[str]

    @property
    def place(self) -> tuple[int, int]:
        return _PLACES.get(self.node.kind, _STEP)

    @property
    def joins(self) -> bool:
        """Whether the statement is a list that can take the items of another one."""
        if any(self.above) or not self.parts:
            return False
        part = self.parts[0]
        return isinstance(part, Budget) or (isinstance(part, Permission) and part.where is None)


class _Writer:
    """Writes one document out."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.parts: dict[int, list[Any]] = {}
        for part in _statements(document):
            self.parts.setdefault(_line_of(part), []).append(part)

    def text(self) -> str:
        pieces, end = self.pieces(self.document.tree.nodes)
        lines = _set_apart(pieces[0]) if pieces else []
        group = -1
        for piece in _joined(sorted(pieces, key=lambda piece: piece.place)):
            blank = piece.above[:1] == [""]
            if lines and (blank or group != piece.place[0] or piece.place >= _STEP):
                lines.append("")
            lines += piece.above[blank:]
            lines += self.statement(piece, "")
            group = piece.place[0]
        return "\n".join([*lines, *end]) + "\n"

    def pieces(self, nodes: Sequence[TreeNode]) -> tuple[list[_Statement], list[str]]:
        """The statements, each with the comments above it, and the comments below the last one."""
        found: list[_Statement] = []
        waiting: list[str] = []
        for node in nodes:
            if node.kind == "comment":
                waiting.append(self.document.tree.word(node).text)
            elif node.kind == "blank":
                waiting.append("")
            else:
                parts = self.parts.get(node.first + 1, [])
                found.append(_Statement(node, parts, waiting if any(waiting) else []))
                waiting = []
        while waiting and not waiting[-1]:
            waiting.pop()
        return found, waiting

    def statement(self, piece: _Statement, indent: str) -> Iterator[str]:
        if piece.parts:
            yield from spelled(piece.parts, indent, policy=self.document.is_policy)
        else:  # a list of nothing
            yield self.document.tree.word(piece.node).text
        if piece.node.children:
            yield from self.body(piece.node.children, indent + INDENT)

    def body(self, nodes: Sequence[TreeNode], indent: str) -> Iterator[str]:
        pieces, end = self.pieces(nodes)
        for piece in pieces:
            yield from (indent + line for line in piece.above if line)
            yield from self.statement(piece, indent)
        yield from (indent + line for line in end if line)


def _statements(document: Document) -> Iterator[Any]:
    yield from document.headers
    yield from document.goals
    yield from document.permissions
    yield from document.needs
    yield from document.budget
    yield from document.limits
    yield from document.once
    yield from document.checkpoints
    yield from document.modes
    yield from document.requires
    yield from steps_of(document.steps)
    for block in document.blocks:
        yield block
        yield from (part for part in _statements(block.rules) if not isinstance(part, Header))


def _line_of(part: Any) -> int:
    word: Word
    match part:
        case Word():
            word = part
        case Header():
            word = part.line
        case Need():
            word = part.name
        case Budget():
            word = part.key
        case _:
            word = part.word
    return word.line


def _set_apart(first: _Statement) -> list[str]:
    """Remove from the first statement the comments above it that a blank line separates."""
    above = first.above
    while above and not above[0]:
        del above[0]
    if "" not in above:
        return []
    last = len(above) - above[::-1].index("")
    top = above[:last]
    del above[:last]
    while not top[-1]:
        top.pop()
    if above:
        above.insert(0, "")
    return top


def _joined(pieces: Iterable[_Statement]) -> list[_Statement]:
    """The pieces, with adjacent parts of one list joined."""
    found: list[_Statement] = []
    for piece in pieces:
        last = found[-1] if found else None
        if last and last.place == piece.place and last.joins and piece.joins:
            last.parts = [*last.parts, *piece.parts]
        else:
            found.append(piece)
    return found
