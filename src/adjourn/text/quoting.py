"""Text of others inside our own: freed of what cannot be seen, fenced so that it cannot pass for ours, or its end.

Every line of quoted text starts with `| `, whatever it says. A line in it that looks like a heading of ours, and every tag that would
make a middleware resume, gets a backslash. A line break in a part is indented deeper than the next part, so that no part passes for two.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from functools import lru_cache

from adjourn.text.fitting import fit_text
from adjourn.text.redact import LONGEST, is_filler, visible_line, without_secrets

FENCE = "| "
MAX_INDENT = 8
MAX_MESSAGE = 200
"""Characters that are kept of what a failed call was answered with."""
MAX_SPOKEN = 120
"""Characters that are shown of it: fewer than of what the agent said."""
_INDENT = "  "
_KEPT_FORMATS = "\u200c\u200d\ufe0e\ufe0f"
"""Joiners, and variation selectors of emoji: words of some scripts, and emoji, are other ones without them."""
_SMUGGLED = f"[{_KEPT_FORMATS}]{{3,}}"
"""No script needs so many of them in a row: they spell something that is not seen."""
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_TAG = r"(?i)(RESUME_FROM)(\s*:)"
_HEADING = r"[\s>|*_+-]*#"
_PLAIN = str.maketrans({
    **dict.fromkeys('"`\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}\N{DOUBLE LOW-9 QUOTATION MARK}', "'"),
    **dict.fromkeys("\N{FULLWIDTH QUOTATION MARK}\N{DOUBLE HIGH-REVERSED-9 QUOTATION MARK}\N{DOUBLE PRIME}", "'"),
    "<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}", ">": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
    "[": "(", "]": ")", "|": "/",
})  # fmt: skip
"""What would end a quotation, or start an element, a link or a cell of Markdown, and what stands for it."""
_MARKS = r"[#*_=~-]{2,}|^[#*+-]+\s|!(?=\()"
_OURS = r"(?i)[\s#*_>|:=-]*(?:adjourn\b|\|)"
"""Matches where a line starts as our notices, or as a line of a fence."""
_DECORATION = "#*_-|>:= \t"


def clean(text: str) -> str:
    """A text with nothing in it that is not seen (but tabs), and with one kind of line break."""
    if text.isascii() and text.isprintable():  # most texts: a hand-over reads a thousand
        return text
    return "\n".join(
        line if line.isascii() and line.isprintable() else "".join(filter(_is_seen, re.sub(_SMUGGLED, "", line)))
        for line in text.splitlines()
    )


def one_line(text: str, limit: int = 300) -> str:
    """The same on one line, cut to `limit` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= limit else fit_text(line, limit)


def first_line(text: str) -> str:
    """The first line of a text that says something, without secrets, cut to `MAX_MESSAGE` characters."""
    begin = text.lstrip()[: MAX_MESSAGE + LONGEST]
    return one_line(without_secrets(begin.partition("\n")[0]), MAX_MESSAGE)


def spoken(who: str, text: str) -> str:
    """What a server or a tool said, as its own words: on one line that they cannot leave, without markup; "" for no words."""
    line = re.sub(_TAG, "RESUME FROM:", re.sub(_MARKS, " ", one_line(text, 2 * MAX_SPOKEN).translate(_PLAIN)))
    words = one_line(line, MAX_SPOKEN)
    return f'the {who} said: "{words}"' if words else ""


def instructions_of(server: str) -> str:
    """What a server says of itself, no line of which passes for a heading or a notice of ours."""
    lines = (_harmless(line, ()) for line in clean(server).split("\n"))
    return "\n".join("\\" + line if re.match(_OURS, line) else line for line in lines)


def quoted(*parts: str, headings: Collection[str] = (), depth: int = 0) -> str:
    """An item of a list, as lines of a fence: a bullet, then each part from a new line. `headings` are what it may not imitate."""
    lines = []
    for number, part in enumerate(parts):
        indent = _INDENT * min(depth, MAX_INDENT)
        first, *texts = [_harmless(line, headings) for line in clean(part).split("\n")]
        lines += [indent + ("  " if number else "- ") + first, *(indent + _INDENT * 3 + line for line in texts)]
    return "\n".join(FENCE + line for line in lines)


def _harmless(line: str, headings: Collection[str]) -> str:
    line = re.sub(_TAG, r"\1\\\2", line)
    imitates = re.match(_HEADING, line) or line.strip(_DECORATION).upper() in headings
    return "\\" + line if imitates else line


def _is_seen(character: str) -> bool:
    if character in _KEPT_FORMATS or character == "\t":
        return True
    return unicodedata.category(character) not in _UNSEEN and not is_filler(character)


# --- the end of what a program printed, as it may be shown


def last_lines(data: bytes, count: int, length: int) -> tuple[str, ...]:
    """The last `count` lines that are not blank, each of at most `length` characters, without secrets."""
    lines = [line.strip() for line in without_secrets(data.decode(errors="replace")).splitlines()]
    return tuple(visible_line(line[:length]) for line in list(filter(None, lines))[-count:])


@lru_cache(maxsize=2048)
def said(text: str, limit: int) -> str:
    """A text of others on one line, without secrets, cut to `limit` characters."""
    return one_line(without_secrets(text), limit)
