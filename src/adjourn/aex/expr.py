"""Pieces of source text with their positions, and the values that they spell.

A value is a quoted text, a number, true or false, a list, an object, a dotted name, or plain text. A quote opens a literal only where a
value can start (not inside a word, so `it's` is text) and only if it closes on the same line; there are no escapes. Brackets protect the
commas between them. Whatever is no other value is plain text, as v0 takes it.

Nothing here resolves a name, raises, or takes more than linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from adjourn.findings import Span

# The white space that JavaScript's `trim` strips, U+FEFF included: v0 files were written against it.
# --- words: blanks, runs of characters, comma lists, numbers as v0 reads them

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
    word = text[start:]
    return start + len(word) - len(word.lstrip(chars))


def only(text: str, chars: str) -> bool:
    """Whether the text is one or more of `chars`."""
    return bool(text) and not text.strip(chars)


def comma_list(word: Word, start: int) -> list[Word]:
    """The pieces between commas from `start` on, without blanks; empty ones are dropped."""
    items = []
    at = start
    for piece in word.text[start:].split(","):
        if stripped := piece.strip(BLANK):
            offset = at + len(piece) - len(piece.lstrip(BLANK))
            items.append(word.part(offset, offset + len(stripped)))
        at += len(piece) + 1
    return items


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


# --- values

MAX_DEPTH = 64
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_QUOTES = "\"'"
_MARK = re.compile("[\"'()[\\]{}]")


class Text(msgspec.Struct, frozen=True, tag="text"):
    """A literal text: quoted, or (`quoted` False) bare words that are no other value."""

    value: str
    word: Word
    quoted: bool = False
    open_quote: bool = False


class Constant(msgspec.Struct, frozen=True, tag="constant"):
    """A number, true or false."""

    value: float | bool
    word: Word


class Name(msgspec.Struct, frozen=True, tag="name"):
    """A dotted path whose first part names an input or a bind; if it names none, it is a text."""

    path: str
    word: Word


class ListOf(msgspec.Struct, frozen=True, tag="list"):
    """`[a, b]`; `word` is the opening bracket."""

    items: list[Value]
    word: Word


class ObjectEntry(msgspec.Struct, frozen=True):
    """`key: value` of an object, or `name=value` of a call; `value` is None when there is no `:` or `=`.

    `raw` is an argument's value as written.
    """

    key: Word
    value: Value | None
    raw: str = ""


class ObjectOf(msgspec.Struct, frozen=True, tag="object"):
    """`{key: value, …}`; a line break ends an entry as a comma does. `word` is the opening brace."""

    entries: list[ObjectEntry]
    word: Word


Value = Text | Constant | Name | ListOf | ObjectOf
_Part = TypeVar("_Part", Name, Text, ObjectOf)


class Delimiters(msgspec.Struct):
    """Where the literals and brackets of a text end: offset of each opening mark to that of its closing one."""

    ends: dict[int, int]
    depth: int = 0


def scan(text: str) -> Delimiters:
    """Find what quotes and brackets protect. A mark without a partner is a plain character."""
    marks = Delimiters({})
    opened: list[int] = []
    waiting = dict.fromkeys(")]}", 0)
    at = _next_mark(text, 0)
    while at < len(text):
        char = text[at]
        if char in _QUOTES:
            end = _literal_end(text, at)
            if end != at:
                marks.ends[at] = end
                at = end
        elif char in _CLOSERS:
            opened.append(at)
            waiting[_CLOSERS[char]] += 1
        elif waiting[char]:
            _close(text, at, opened, waiting, marks)
        at = _next_mark(text, at + 1)
    return marks


def _next_mark(text: str, at: int) -> int:
    match = _MARK.search(text, at)
    return match.start() if match else len(text)


def _literal_end(text: str, at: int) -> int:
    """Where the literal ends whose quote stands at `at`; `at` itself when that quote opens none."""
    if at and (text[at - 1].isalnum() or text[at - 1] == "_"):
        return at
    end = text.find(text[at], at + 1)
    if end < 0 or text.find("\n", at, end) >= 0:
        return at
    return end


def _close(text: str, at: int, opened: list[int], waiting: dict[str, int], marks: Delimiters) -> None:
    """Pair the closing bracket with the last opening one of its kind; those between them are plain characters."""
    marks.depth = max(marks.depth, len(opened))
    while True:
        begin = opened.pop()
        closer = _CLOSERS[text[begin]]
        waiting[closer] -= 1
        if closer == text[at]:
            marks.ends[begin] = at
            return


def brace_balance(line: str) -> int:
    """How many more braces a line opens than it closes, those in quoted literals not counted."""
    if "'" not in line and '"' not in line:
        return line.count("{") - line.count("}")
    balance = 0
    at = _next_mark(line, 0)
    while at < len(line):
        if line[at] in _QUOTES:
            at = _literal_end(line, at)
        balance += {"{": 1, "}": -1}.get(line[at], 0)
        at = _next_mark(line, at + 1)
    return balance


def split(marks: Delimiters, text: str, start: int, end: int, separators: str) -> Iterator[tuple[int, int]]:
    """The pieces between separators that nothing protects, as offsets; the last one may be empty."""
    at = begin = start
    while at < end:
        if text[at] in separators:
            yield begin, at
            begin = at + 1
        else:
            at = marks.ends.get(at, at)
        at += 1
    yield begin, end


def parse_value(word: Word) -> Value:
    """The value of a whole piece of source."""
    return _ValueReader(word).value(0, len(word.text), 0)


def arguments(word: Word) -> list[ObjectEntry]:
    """The `name=value` parts of a call, split at the commas that nothing protects; empty parts are dropped."""
    reader = _ValueReader(word)
    pairs = []
    for start, end in split(reader.marks, word.text, 0, len(word.text), ","):
        part = reader.place(start, end)
        if not part.text:
            continue
        equals = word.text.find("=", start, end)
        if equals < 0:
            pairs.append(ObjectEntry(part, None))
        else:
            raw = word.text[equals + 1 : end].strip(BLANK)
            pairs.append(ObjectEntry(reader.place(start, equals), reader.value(equals + 1, end, 0), raw))
    return pairs


def too_deep(word: Word) -> bool:
    """Whether brackets are nested deeper than a value may be; the inner ones are then read as text."""
    openers = sum(word.text.count(opener) for opener in _CLOSERS)
    return openers > MAX_DEPTH and scan(word.text).depth > MAX_DEPTH


class _ValueReader:
    """Reads values out of one piece of source whose marks and line starts are found once."""

    def __init__(self, word: Word) -> None:
        self.word = word
        self.marks = scan(word.text)
        self.starts = [0]
        at = word.text.find("\n")
        while at >= 0:
            self.starts.append(at + 1)
            at = word.text.find("\n", at + 1)

    def place(self, start: int, end: int) -> Word:
        """The piece without the blanks around it, on its line."""
        start, end = trimmed(self.word.text, start, end)
        row = bisect_right(self.starts, start) - 1
        column = start - self.starts[row] + (1 if row else self.word.column)
        return Word(self.word.text[start:end], self.word.line + row, column)

    def value(self, start: int, end: int, depth: int) -> Value:
        source = self.word.text
        start, end = trimmed(source, start, end)
        if start == end:
            return Text("", self.place(start, end))
        first, last = source[start], source[end - 1]
        if first in _QUOTES and end - start > 1 and last == first:
            return Text(source[start + 1 : end - 1], self.place(start, end), quoted=True)
        if first in "[{" and depth < MAX_DEPTH and self.marks.ends.get(start) == end - 1:
            bracket, inner = self.place(start, start + 1), (start + 1, end - 1, depth + 1)
            return self.items(bracket, *inner) if first == "[" else self.entries(bracket, *inner)
        return _scalar(self.place(start, end), open_quote=first in _QUOTES)

    def items(self, word: Word, start: int, end: int, depth: int) -> ListOf:
        pieces = list(split(self.marks, self.word.text, start, end, ","))
        if not self.word.text[pieces[-1][0] : pieces[-1][1]].strip(BLANK):
            pieces.pop()
        return ListOf([self.value(at, stop, depth) for at, stop in pieces], word)

    def entries(self, word: Word, start: int, end: int, depth: int) -> ObjectOf:
        entries = []
        for at, stop in self._entry_pieces(start, end):
            colon = next(split(self.marks, self.word.text, at, stop, ":"))[1]
            key = self.place(at, colon)
            entries.append(ObjectEntry(_unquoted(key), self.value(colon + 1, stop, depth) if colon < stop else None))
        return ObjectOf(entries, word)

    def _entry_pieces(self, start: int, end: int) -> list[tuple[int, int]]:
        """Entries end at line breaks and commas; a part without a colon continues the entry before it on its
        line (`note: done, all green`), as v0 reads it. Lines that start with `//` are skipped.
        """
        text = self.word.text
        pieces: list[tuple[int, int]] = []
        for line_start, line_end in split(self.marks, text, start, end, "\n"):
            if text[line_start:line_end].lstrip(BLANK).startswith("//"):
                continue
            first = len(pieces)
            for at, stop in split(self.marks, text, line_start, line_end, ","):
                if not text[at:stop].strip(BLANK):
                    continue
                colon = next(split(self.marks, text, at, stop, ":"))[1]
                if colon == stop and len(pieces) > first:
                    pieces[-1] = (pieces[-1][0], stop)
                else:
                    pieces.append((at, stop))
        return pieces


def _unquoted(key: Word) -> Word:
    text = key.text
    if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]:
        return key.part(1, len(text) - 1)
    return key


def _scalar(word: Word, *, open_quote: bool) -> Value:
    text = word.text
    if text in ("true", "false"):
        return Constant(text == "true", word)
    if only(text, BIND) and text[0] in LETTERS + "_":
        return Name(text, word)
    if text[0] in DIGITS + "+-.":
        value = number(text)
        if value is not None:
            return Constant(value, word)
    return Text(text, word, open_quote=open_quote)


def parts(value: Value | None, kind: type[_Part]) -> Iterator[_Part]:
    """Every part of a value that is of one kind: names, texts, objects; the value itself included."""
    if isinstance(value, kind):
        yield value
    if isinstance(value, ListOf):
        for item in value.items:
            yield from parts(item, kind)
    elif isinstance(value, ObjectOf):
        for entry in value.entries:
            yield from parts(entry.value, kind)
