"""The scripts in a file of markup (Vue, Svelte), at their places.

Owns: `Scripts` and `of_markup`. Must never: take longer than the file is long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_MARK = re.compile(rb"<!--|<script(?=[\s>])", re.IGNORECASE)
_ATTRIBUTES = re.compile(rb"""((?:[^>"']++|"[^"]*+"|'[^']*+')*+)>""")
_END = re.compile(rb"</script\s*+>", re.IGNORECASE)
_ATTRIBUTE = re.compile(rb"""(?<![^\s"'])(lang|type)\s*+=\s*+["']?([\w/+.-]*+)""", re.IGNORECASE)
_CODE = re.compile(rb"[^\r\n]")
_PLAIN = frozenset((
    b"", b"js", b"javascript", b"module", b"ts", b"typescript", b"text/javascript", b"application/javascript", b"text/typescript",
))  # fmt: skip
_WITH_MARKUP = frozenset((b"jsx", b"tsx"))


class Scripts(NamedTuple):
    """A file in which all that is not JavaScript or TypeScript is blank, and where the comments of its markup are.

    `has_markup`: there is markup in its scripts, too (JSX).
    """

    code: bytes
    has_markup: bool
    comments: list[tuple[int, int]]


def of_markup(data: bytes) -> Scripts:
    """The scripts of a file, with each character at its place."""
    comments: list[tuple[int, int]] = []
    code: list[bytes] = []
    place, has_markup = 0, False
    for start, end, said in _parts(data):
        if said is None:
            comments.append((start, end))
        elif said in _PLAIN or said in _WITH_MARKUP:
            code += (_CODE.sub(b" ", data[place:start]), data[start:end])
            place = end
            has_markup |= said in _WITH_MARKUP
    code.append(_CODE.sub(b" ", data[place:]))
    return Scripts(b"".join(code), has_markup, comments)


def _parts(data: bytes) -> Iterator[tuple[int, int, bytes | None]]:
    """Where the comments (None) and the scripts are, and what language these say they are in."""
    place = 0
    while mark := _MARK.search(data, place):
        if mark[0] == b"<!--":
            end = data.find(b"-->", mark.end())
            place = end + 3 if end >= 0 else len(data)
            yield mark.start(), place, None
            continue
        opening = _ATTRIBUTES.match(data, mark.end())
        if opening is None:
            return
        place = opening.end()
        if opening[1].endswith(b"/"):
            continue
        closing = _END.search(data, place)
        end = closing.start() if closing else len(data)
        said = {name.lower(): value.lower() for name, value in _ATTRIBUTE.findall(opening[1])}
        yield place, end, said.get(b"lang") or said.get(b"type", b"")
        place = closing.end() if closing else end
