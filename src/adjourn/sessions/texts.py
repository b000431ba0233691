"""The texts of a session: secrets in them, and the words of the person in a page of `adjourn continue`.

Secrets are found by the product's redaction and by how people write them, then hidden wherever they occur.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from adjourn.text.quoting import clean
from adjourn.text.redact import HIDDEN, matches, without_secrets

MAX_VALUES = 200
"""Secrets of the texts that are hidden wherever they occur. More are hidden where a text names them as secrets."""
MAX_SEARCHED = 8000
"""Characters of a text that are searched."""
_MIN_LENGTH = 5
_IN_PROSE = re.compile(
    r"(?i)\b(?:pass ?words?|pass ?phrases?|passwd|secrets?|tokens?|pins?|credentials?|(?:api|access|secret|private|staging|live|prod\w*)[ _-]?keys?)"
    r"\b[^.\n:=]{0,40}?(?:\s+(?:is|are|was)\s+(?:now\s+)?|\s*[:=]\s*)[\"'`]?([^\s\"'`,;<>()]+)"
)
_MARKS = ("pass", "secret", "token", "pin", "credential", "key")
"""One of them precedes each such value."""
_WORDS = frozenset((
    "about", "absent", "added", "always", "available", "called", "changed", "correct", "empty", "expired", "given", "hashed", "hidden", "invalid",
    "known", "missing", "never", "needed", "optional", "otherwise", "public", "redacted", "required", "rotated", "saved", "stored",
    "there", "these", "those", "unknown", "unset", "valid", "where", "which", "wrong", "string", "still", "null", "none", "false", "true", "being",
    "passed", "created", "shown", "using", "written", "int", "bytes",
))  # fmt: skip


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")

_PARTS = re.compile(rf"{_ANSI.pattern}|[^\x1b]+|\x1b")


class Secrets:
    """The secrets that some texts hold, and `values` that are known for secrets."""

    def __init__(self, texts: Iterable[str], values: Iterable[str] = ()) -> None:
        self._values: dict[str, None] = dict.fromkeys(values)
        self._room = MAX_VALUES + len(self._values)
        self._hidden: dict[str, str] = {}
        for text in texts:
            for value in (*_secrets_in(_visible(text[:MAX_SEARCHED])), *_behind_escapes(text[:MAX_SEARCHED])):
                self._add(value)

    @property
    def values(self) -> Collection[str]:
        """The secrets."""
        return self._values.keys()

    def _add(self, value: str) -> None:
        if _is_secret(value) and len(self._values) < self._room:
            self._values[value] = None

    def hide(self, text: str) -> str:
        """The visible text without them. A page is fitted in several attempts, which hide the same texts."""
        hidden = self._hidden.get(text)
        if hidden is None:
            hidden = _visible(text)
            for value in sorted(self._values, key=len, reverse=True):
                if value in hidden:
                    hidden = hidden.replace(value, HIDDEN)
            if _may_name_one(hidden):
                hidden = _IN_PROSE.sub(_without_value, hidden)
            hidden = without_secrets(hidden)
            for value in filter(_is_secret, _behind_escapes(text)):
                hidden = hidden.replace(value, HIDDEN)
            self._hidden[text] = hidden
        return hidden


def _secrets_in(text: str) -> Iterator[str]:
    if _may_name_one(text):
        for match in _IN_PROSE.finditer(text):
            yield match[1].rstrip(".!?")
    for _, match in matches(text):
        yield match[0][match.end(1) - match.start() :] if match.re.groups and match[1] else match[0]


def _behind_escapes(text: str) -> Iterator[str]:
    """The secrets of a text with escapes, each also without the characters that an escape before them may take."""
    if "\x1b" not in text:
        return
    for value in _secrets_in(clean(_ANSI.sub(lambda escape: f" {escape[0][-1]}", text))):
        yield value
        yield value[1:]
    seen, taken = "", set[int]()
    for part in _PARTS.finditer(text):
        if part[0][0] == "\x1b":
            taken.add(len(seen))
        seen += part[0][-1:] if part[0][0] == "\x1b" else part[0]
    for value in _secrets_in(seen):
        begin = seen.find(value)
        yield value
        yield "".join(char for at, char in enumerate(value, begin) if at not in taken)


def _visible(text: str) -> str:
    """The text as a reader sees it, in which no character that is not shown divides a secret."""
    return clean(_ANSI.sub("", text))


def _may_name_one(text: str) -> bool:
    lower = text.lower()
    return any(mark in lower for mark in _MARKS)


def _is_secret(value: str) -> bool:
    return len(value) >= _MIN_LENGTH and HIDDEN not in value and value.lower() not in _WORDS


def _without_value(match: re.Match[str]) -> str:
    value = match[1].rstrip(".!?")
    begin = match.start(1) - match.start()
    return f"{match[0][:begin]}{HIDDEN}{match[0][begin + len(value) :]}" if _is_secret(value) else match[0]


# --- the page of `adjourn continue` as a session's first prompt: of its words, only those that it quotes as the
# person's are the person's. A page that is handed on with a page before it keeps the first mission. What a person
# wrote before or behind the page is the person's, too

BEGINNING = "# Continue a session of "
QUOTE = "  > "
"""Starts each line of a quotation."""
MISSION = "## Mission"
_START = re.compile(rf"^{BEGINNING}.{{1,40}}\n\nAnother agent worked on this before you\.", re.MULTILINE)
_ITEM = re.compile(r"\d{1,4}\. ")


def persons_words(prompt: str) -> list[str]:
    """What the person asked for in a prompt, in its order: the prompt itself, or what the page in it quotes under its mission."""
    page = _START.search(prompt) if BEGINNING in prompt else None
    if page is None:
        return [prompt]
    orders, behind = [], []
    sections = prompt[page.start() :].split("\n\n")
    first = next((number for number, section in enumerate(sections) if section.startswith("## ")), len(sections))
    for section in sections[first:]:
        if section.startswith(MISSION):
            orders += _quoted(section)
        elif not section.startswith("## "):
            behind.append(section)
    words = [prompt[: page.start()], *orders, "\n\n".join(behind)]
    return [text.strip() for text in words if text.strip()] or [prompt]


def _quoted(section: str) -> list[str]:
    orders: list[list[str]] = []
    for line in section.splitlines():
        if line.startswith(QUOTE) and orders:
            orders[-1].append(line.removeprefix(QUOTE))
        elif _ITEM.match(line):
            orders.append([])
    return ["\n".join(lines) for lines in orders]
