"""Text of others inside our own: freed of what cannot be seen, and fenced so that it cannot pass for ours.

Every line of quoted text begins with `| `, whatever it says. A line in it that looks like a heading of ours, and every tag that would
make a middleware resume, gets a backslash. A line break in a part is indented deeper than the next part, so that no part passes for two.

Owns: cleaning and fencing. Must never: leave out what can be seen.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from adjourn.text.fitting import fit_text
from adjourn.text.redact import LONGEST, without_secrets
from adjourn.text.terminal import is_filler

FENCE = "| "
MAX_INDENT = 8
MAX_MESSAGE = 200
"""Characters that are kept of what a failed call was answered with."""
_INDENT = "  "
_KEPT_FORMATS = "\u200c\u200d\ufe0e\ufe0f"
"""Joiners, and variation selectors of emoji: words of some scripts, and emoji, are other ones without them."""
_SMUGGLED = re.compile(f"[{_KEPT_FORMATS}]{{3,}}")
"""No script needs so many of them in a row: they spell something that is not seen."""
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_TAG = re.compile(r"(RESUME_FROM)(\s*:)", re.IGNORECASE)
_HEADING = re.compile(r"[\s>|*_+-]*#")
_DECORATION = "#*_-|>:= \t"


def clean(text: str) -> str:
    """A text with nothing in it that is not seen (but tabs), and with one kind of line break."""
    lines = text.splitlines()
    return "\n".join(
        line if line.isascii() and line.isprintable() else "".join(filter(_is_seen, _SMUGGLED.sub("", line)))
        for line in lines
    )


def one_line(text: str, limit: int = 300) -> str:
    """The same on one line, cut to `limit` characters."""
    line = " ".join(clean(text).split())
    return fit_text(line, limit)


def first_line(text: str, limit: int = MAX_MESSAGE) -> str:
    """The first line of a text that says something, without secrets, cut to `limit` characters."""
    begin = text.lstrip()[: limit + LONGEST]
    return one_line(without_secrets(begin.partition("\n")[0]), limit)


def quoted(*parts: str, headings: Collection[str] = (), depth: int = 0) -> str:
    """An item of a list, as lines of a fence: a bullet, then each part from a new line. `headings` are what it may not imitate."""
    lines = []
    for number, part in enumerate(parts):
        indent = _INDENT * min(depth, MAX_INDENT)
        first, *rest = [_harmless(line, headings) for line in clean(part).split("\n")]
        lines += [
            indent + ("  " if number else "- ") + first,
            *(indent + _INDENT * 3 + line for line in rest),
        ]
    return "\n".join(FENCE + line for line in lines)


def _harmless(line: str, headings: Collection[str]) -> str:
    line = _TAG.sub(r"\1\\\2", line)
    imitates = _HEADING.match(line) or line.strip(_DECORATION).upper() in headings
    return "\\" + line if imitates else line


def _is_seen(character: str) -> bool:
    if character in _KEPT_FORMATS or character == "\t":
        return True
    return unicodedata.category(character) not in _UNSEEN and not is_filler(character)
