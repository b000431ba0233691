"""What may be kept or shown of text that an agent, a server or a person wrote: no secrets, nothing a terminal obeys.

One function for all: `without_secrets`. A task's events pass it where they are written (`tasks.task`), pages where they are
composed, notes where they are read, and what is shown where it is shown. A text is cut after that (`beginning`), so that no
secret is cut into a piece that is not known for one.

This is no guarantee. It knows the usual names and shapes of secrets, not all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import cache, lru_cache
from typing import Any

import msgspec

from adjourn.text.fitting import ELLIPSIS, fit_text

TABLE = __file__.rpartition("/")[0] + "/secret_shapes.json"
"""The file of the table."""
LONG_RUN = 16
"""Letters, digits, dashes and underscores in a row, its mark included, that a token has at the least."""
_AT = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))"
"""Where a token starts: not within a word; behind an escape of JSON or a URL is not within one."""
_BEGUN = r"(?:(?<=(?<![A-Za-z0-9]).)|(?<=\\[bfnrt].)|(?<=%[0-9A-Fa-f]{2}.))"
"""The same behind the first character: a pattern that starts with a character is searched for faster."""
_QUOTE = r"""(?:\\{0,3}["'`])?"""
_IS = rf"{_QUOTE}[ \t]{{0,3}}(?::=|=>|=|:|%3[Dd])[ \t]{{0,3}}{_QUOTE}"
"""What stands between a name and its value, in code, JSON, YAML, a shell, a header or a query."""
_VALUE = r"""[^\s"'`\\,;&|<>(){}\[\]$]"""

_PARTS = {"@AT@": _AT, "@BEGUN@": _BEGUN, "@IS@": _IS, "@VALUE@": _VALUE}


class Shape(msgspec.Struct, eq=False):
    """`pattern` matches the secret; what its first group matches, if it has one, precedes the secret and is kept.

    `marks` stand in a run of `LONG_RUN` or more (`where` is "run"); or anywhere in a text that has such a run ("beside"), in any text
    ("text"), or in any text in lower case ("lower"). Where `behind` is given, one of its characters follows the mark, or is in it: a text
    that just names a secret has none, and costs no search.
    """

    name: str
    marks: list[str]
    pattern: str
    where: str = "run"
    behind: str = ""

    @property
    def expression(self) -> str:
        """The regular expression, with what many patterns have in common."""
        pattern = self.pattern
        for name, part in _PARTS.items():
            pattern = pattern.replace(name, part)
        return pattern


@cache
def shapes() -> list[Shape]:
    """The table, read when a text is first examined."""
    loader: Any = __spec__ and __spec__.loader  # what reads a module reads what lies beside it
    return msgspec.json.decode(loader.get_data(TABLE), type=list[Shape])


MAX_PREVIEW = 500
"""Characters of arguments kept with an effect, so that a person can tell what it did."""
HIDDEN = "[redacted]"
LONGEST = 300
"""Characters examined beyond a cut."""
_MAX_DEPTH = 8
_KNOWN_NAMES = 1024
_RUN_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_SECRET_NAMES = (
    "password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "authorization", "cookie",
    "privatekey", "credential", "bearer", "encryptionkey", "masterkey", "signingkey", "accountkey",
)  # fmt: skip
_SHORT_NAMES = frozenset(("pass", "pwd"))
"""Last words of names that are secret unless their value is a path."""


READ_PREVIEW = 200
"""Characters that are kept of the arguments of a call without effect: enough for a path."""


def without_secrets(text: str) -> str:
    """The text with what has the shape of a well-known secret replaced; the very text where there is nothing to replace."""
    if not text.isascii() or text.encode().translate(None, _SEEN):
        text = _without_divided(text)
    # written out from `_possible`: every event that keeps a text of a call comes here
    for shape in _possible_again(text) if len(text) <= MAX_PREVIEW else _look_for_marks(text):
        text = _pattern(shape).sub(_hidden, text)
    return text


def _without_divided(text: str) -> str:
    """The text without the secrets that characters divide which are not seen, terminals' sequences among them."""
    line = text.replace("\n", "").replace("\t", "")
    if line.isprintable() and (line.isascii() or _FILLERS.isdisjoint(line)):
        return text
    kept: list[int] = []
    end = 0
    for match in _unseen().finditer(text):
        kept += range(end, match.start())
        end = match.end()
    if not end:
        return text
    kept += range(end, len(text))
    spans = [
        (kept[match.end(1) if match.re.groups and match[1] else match.start()], kept[match.end() - 1] + 1)
        for _, match in matches("".join(map(text.__getitem__, kept)))
        if match[0]
    ]
    parts, end = [], 0
    for begin, last in sorted(spans):
        if begin >= end:
            parts += [text[end:begin], HIDDEN]
        end = max(end, last)
    return "".join(parts) + text[end:]


def beginning(text: str, limit: int) -> str:
    """The first `limit` characters of a text without secrets."""
    return without_secrets(text[: limit + LONGEST])[:limit]


def preview(arguments: object, limit: int = MAX_PREVIEW, *, is_short: bool = False) -> str:
    """Compact JSON of arguments, secrets replaced, cut at `limit` characters (an ellipsis marks the cut).

    Looks at no more of the arguments than fits, unless the caller knows that their JSON `is_short`.
    """
    if is_short and len(text := _json(arguments)) <= limit and not _has_secrets(text):
        return text
    text = _json(_pruned(arguments, 0, [limit + 1 + LONGEST], _as_it_is))
    if _is_suspect(text):
        text = _json(_pruned(arguments, 0, [limit + 1], beginning))
    return fit_text(text, limit)


def redact_json(value: Any) -> Any:
    """A JSON value with every text in it, names too, without secrets."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {redact_json(name): redact_json(item) for name, item in value.items()}
    return [redact_json(item) for item in value] if isinstance(value, list | tuple) else value


def _has_secrets(text: str) -> bool:
    """Whether there may be a secret in the JSON of arguments, by its shape or by its name, or more levels than are shown."""
    flat = text.lower().replace("_", "").replace("-", "")
    for name in _SECRET_NAMES:
        if name in flat:
            return True
    if 'pass":' in flat or 'pwd":' in flat:
        return True
    return text.count("{") + text.count("[") > _MAX_DEPTH or _is_suspect(text)


def _is_suspect(text: str) -> bool:
    """Whether there may be a secret in JSON by its shape, as it is or divided by a character that is not seen."""
    return not text.isascii() or any(mark in text for mark in _UNSEEN_IN_JSON) or bool(_possible(text))


# --- shapes


def matches(text: str) -> Iterator[tuple[Shape, re.Match[str]]]:
    """What would be replaced in a text, shape by shape."""
    for shape in _possible(text):
        for match in _pattern(shape).finditer(text):
            yield shape, match


_FROM_RARE = "~@|*<>=\\;78953642QZXJKYVWqzj%()BPNxUMHGCOFD10AEIRSTLkvwbyg_.-/: \"'fmpudhclnrsoiate"
"""Characters of code and JSON, those that are seldom in them first: all that marks are made of."""


@cache
def _marked(where: str) -> tuple[dict[str, list[str]], dict[str, tuple[list[Shape], list[str]]]]:
    """The marks to look for first, by the rarest character of each: most texts lack most of these. And of every mark its shapes, and
    the longer marks that contain it and are looked for only where it is.
    """
    of: dict[str, tuple[list[Shape], list[str]]] = {}
    for shape in shapes():
        for mark in shape.marks if shape.where == where else ():
            of.setdefault(mark, ([], []))[0].append(shape)
    shortest = {mark: min((text for text in of if text in mark), key=len) for mark in of}
    for mark, short in shortest.items():
        if mark != short:
            of[short][1].append(mark)
    first: dict[str, list[str]] = {}
    for mark in dict.fromkeys(shortest.values()):
        first.setdefault(min(mark, key=_FROM_RARE.index), []).append(mark)
    return first, of


def _marked_in(text: str, where: str) -> list[Shape]:
    marks, of = _marked(where)
    matching = [mark for char, those in marks.items() if char in text for mark in those if mark in text]
    if not matching:
        return []
    matching += [mark for short in matching for mark in of[short][1] if mark in text]
    possible = [shape for mark in of if mark in matching for shape in of[mark][0]]  # in the table's order
    rest = text[min(map(text.find, matching)) :]
    return [shape for shape in possible if not shape.behind or not set(shape.behind).isdisjoint(rest)]


_OF_RUNS = bytes.maketrans(_RUN_CHARACTERS, b"x" * len(_RUN_CHARACTERS))
_LONG = b"x" * LONG_RUN


def _possible(text: str) -> Collection[Shape]:
    """The shapes of which a mark is in the text, each once. Cheap: ordinary text has few.

    A short text comes here twice: when it is shortened to be kept, and when the event is made that keeps it.
    """
    return _possible_again(text) if len(text) <= MAX_PREVIEW else _look_for_marks(text)


def _look_for_marks(text: str) -> Collection[Shape]:
    marks = _marked_in(text, "text") + _marked_in(text.lower(), "lower")
    if _LONG in text.encode(errors="replace").translate(_OF_RUNS):
        marks += _marked_in(" ".join(_run().findall(text)), "run") + _marked_in(text, "beside")
    return dict.fromkeys(marks) if marks else ()


_possible_again = lru_cache(maxsize=16)(_look_for_marks)


@cache
def _run() -> re.Pattern[str]:
    return re.compile(rf"[A-Za-z0-9_-]{{{LONG_RUN},}}")


@cache
def _pattern(shape: Shape) -> re.Pattern[str]:
    """Compiled when a text first has a mark of it: a hook lives for one call."""
    return re.compile(shape.expression)


@cache
def _unseen() -> re.Pattern[str]:
    """Matches sequences that a terminal obeys, and characters that nothing is seen of, but for tabs and ends of lines."""
    fillers = "".join(f"{chr(first)}-{chr(last)}" for first, last in _RANGES)
    controls = r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    return re.compile(f"{_SEQUENCE}|[{controls}{fillers}]")


def _hidden(match: re.Match[str]) -> str:
    return (match[1] or "") + HIDDEN if match.re.groups else HIDDEN


# --- arguments


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _as_it_is(text: str, limit: int) -> str:
    return text[:limit]


def _pruned(value: object, depth: int, room: list[int], shown: Callable[[str, int], str]) -> object:
    """What is shown of a value. `room[0]` counts down the characters that its JSON has at the least."""
    if isinstance(value, str):
        text = shown(value, max(room[0], 0))
        room[0] -= len(text) + 2
        return text
    room[0] -= 1
    if isinstance(value, dict):
        if depth > _MAX_DEPTH:
            return ELLIPSIS
        pairs: dict[str, object] = {}
        for key, item in value.items():
            if room[0] <= 0:
                break
            name = shown(str(key), room[0])
            room[0] -= len(name) + 3
            hides = _is_secret(str(key)) or (_is_short(str(key)) and "/" not in str(item))
            pairs[name] = HIDDEN if hides else _pruned(item, depth + 1, room, shown)
        return pairs
    if isinstance(value, list):
        if depth > _MAX_DEPTH:
            return ELLIPSIS
        items: list[object] = []
        for item in value:
            if room[0] <= 0:
                break
            items.append(_pruned(item, depth + 1, room, shown))
        return items
    return value


@lru_cache(_KNOWN_NAMES)
def _is_short(name: str) -> bool:
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return bool(words) and words[-1].lower() in _SHORT_NAMES


@lru_cache(_KNOWN_NAMES)
def _is_secret(name: str) -> bool:
    flat = name.lower().replace("_", "").replace("-", "")
    return any(secret in flat for secret in _SECRET_NAMES)


# --- text of others as it may be shown

_RANGES = (
    (0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164), (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF),
)  # fmt: skip
_UNSEEN_IN_JSON = ("\\u00", "\\b", "\\f", "\\r", "\x7f")
_SEEN = bytes(range(32, 127)) + b"\t\n"
_SEQUENCE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)"
_FILLERS = frozenset[str]().union(*(map(chr, range(first, last + 1)) for first, last in _RANGES))
"""Unicode's Default_Ignorable_Code_Point, as far as they are printable by their category, and the blank of Braille."""
TAB_SIZE = 4


def visible(text: str) -> str:
    """The text on one line, with escapes for what is not seen, line breaks and tabs included."""
    if text.isprintable() and (text.isascii() or _FILLERS.isdisjoint(text)):
        return text
    return "".join(character if is_seen(character) else _escape(character) for character in text)


def visible_line(text: str) -> str:
    """The same, with one blank for any white space."""
    return visible(" ".join(text.split()))


def visible_lines(text: str) -> str:
    """The same line by line, with the indentation kept."""
    return "\n".join(map(visible, text.split("\n"))) if "\t" not in text else visible_lines(text.expandtabs(TAB_SIZE))


def visible_json(text: str) -> str:
    """JSON text that says the same, with escapes of JSON for what is not seen. Its own line breaks stay."""
    if text.isascii():  # JSON escapes control characters of ASCII itself, but DEL
        return text.replace("\x7f", "\\u007f")
    return "".join(
        character if character == "\n" or is_seen(character) else _json_escape(character) for character in text
    )


def is_seen(character: str) -> bool:
    """Whether a reader can see a character."""
    return character.isprintable() and not is_filler(character)


def is_filler(character: str) -> bool:
    """Whether a character is printable by its category, and yet nothing is seen of it."""
    return character in _FILLERS


def _escape(character: str) -> str:
    text = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    code = ord(character)
    return text or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2))
