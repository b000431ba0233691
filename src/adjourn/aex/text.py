"""Pieces of source text with their positions, and the scanning primitives of the parser.

Owns: blanks as the language counts them, `Word`, runs of characters, comma lists, numbers as v0 reads them.
Must never: know a statement or a finding.
"""

from __future__ import annotations

import msgspec

from adjourn.findings import Span

# The white space that JavaScript's `trim` strips, U+FEFF included: v0 files were written against it.
BLANK = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
DIGITS = "0123456789"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
NAME = LETTERS + DIGITS + "_-"
LOOP_NAME = LETTERS + DIGITS + "_"
BIND = LETTERS + DIGITS + "_.-"
TOOL = LETTERS + DIGITS + "._*"
VERSION = DIGITS + "."
MAX_BUDGET = 2**53 - 1
"""The largest whole number that every reader of JSON keeps exact."""


class Word(msgspec.Struct, frozen=True):
    """A piece of the source: its text, 1-based line and column. Only a `return` block has several lines."""

    text: str
    line: int
    column: int

    @property
    def span(self) -> Span:
        """The piece's place; of a piece over several lines, the first line's part."""
        end = self.text.find("\n")
        return Span(self.line, self.column, len(self.text) if end < 0 else end)

    def part(self, start: int, end: int) -> Word:
        """The piece from `start` to `end` (offsets in `text`, on its first line), with its own place."""
        return Word(self.text[start:end], self.line, self.column + start)

    def strip(self, start: int = 0, end: int | None = None) -> Word:
        """The piece from `start` to `end` without the blanks around it."""
        return self.part(*trimmed(self.text, start, len(self.text) if end is None else end))


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The offsets of `text[start:end]` without the blanks around it."""
    body = text[start:end].lstrip(BLANK)
    return end - len(body), end - len(body) + len(body.rstrip(BLANK))


def run(text: str, start: int, chars: str) -> int:
    """The offset behind the longest run of `chars` at `start`."""
    rest = text[start:]
    return start + len(rest) - len(rest.lstrip(chars))


def only(text: str, chars: str) -> bool:
    """Whether the text is one or more of `chars`."""
    return bool(text) and not text.strip(chars)


def comma_list(word: Word, start: int) -> list[Word]:
    """The pieces between commas from `start` on, without blanks; empty ones are dropped."""
    found = []
    at = start
    for piece in word.text[start:].split(","):
        if stripped := piece.strip(BLANK):
            offset = at + len(piece) - len(piece.lstrip(BLANK))
            found.append(word.part(offset, offset + len(stripped)))
        at += len(piece) + 1
    return found


def number(text: str) -> float | None:
    """The value of a number as v0 reads it: blanks around it, `` (0), `1e2`, `0x10`, `Infinity`. None: no number."""
    body = text.strip(BLANK)
    if not body:
        return 0.0
    if body[:1] == "0" and body[1:2] in tuple("xXoObB"):
        return _radix(body)
    unsigned = body[1:] if body[0] in "+-" else body
    if unsigned == "Infinity":
        return float(body)
    if not only(unsigned, DIGITS + ".eE+-"):
        return None
    try:
        return float(body)
    except ValueError:
        return None


def _radix(body: str) -> float | None:
    base = {"x": 16, "o": 8, "b": 2}[body[1].lower()]
    digits = body[2:]
    if "_" in digits or len(digits) > 256:  # beyond any number, and before int() gets slow
        return None
    try:
        return float(int(digits, base)) if digits.isalnum() else None
    except ValueError:
        return None
