"""The exit code that the answer of a shell states: as a member, or in the first or last line of its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

_STATED = re.compile(
    r"\W{0,3}(?:(?:command|process|program) \w+ with )?(?:exit|return)[ _-]?(?:code|status)\W{1,3}(-?\d{1,9})\W*",
    re.IGNORECASE,
)
_MAX_LINE = 120
_MAX_BLOCKS = 5
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Answer(msgspec.Struct):
    """What clients and servers may say of a command that ended; other members are ignored."""

    exit_code: Any = 0
    exitCode: Any = 0  # noqa: N815  # the wire's name
    return_code: Any = 0
    returncode: Any = 0
    metadata: Any = None
    structuredContent: Any = None  # noqa: N815
    content: Any = None
    result: Any = None


def exit_code_of(answer: bytes) -> int:
    """The exit code other than 0 that an answer in JSON states, a client's or a result of MCP; 0 if it states none."""
    with suppress(*_UNREADABLE):
        if answer[:1] == b'"':
            return _of_text(msgspec.json.decode(answer, type=str))
        return next(filter(None, _of_answer(msgspec.json.decode(answer, type=_Answer))), 0)
    return 0


def _of_answer(answer: _Answer) -> Iterator[int]:
    yield from map(_number, (answer.exit_code, answer.exitCode, answer.return_code, answer.returncode))
    for inner in (answer.metadata, answer.structuredContent, answer.result):
        if isinstance(inner, dict):
            yield from (_number(inner.get(name)) for name in ("exit_code", "exitCode", "return_code", "returncode"))
        elif isinstance(inner, str):
            yield _of_text(inner)
    if isinstance(answer.content, list):
        ends = answer.content if len(answer.content) <= _MAX_BLOCKS else [answer.content[0], answer.content[-1]]
        yield from (
            _of_text(block["text"]) for block in ends if isinstance(block, dict) and isinstance(block.get("text"), str)
        )


def _of_text(text: str) -> int:
    """A text is an object in JSON, or lines of which the first or the last states it."""
    if text[:1] == "{":
        with suppress(*_UNREADABLE):
            return next(filter(None, _of_answer(msgspec.json.decode(text, type=_Answer))), 0)
    stripped = text.strip()
    ends = (stripped[:_MAX_LINE].split("\n", 1)[0], stripped[-_MAX_LINE:].rsplit("\n", 1)[-1])
    return next((int(match[1]) for line in ends if (match := _STATED.fullmatch(line))), 0)


def _number(value: Any) -> int:
    return value if type(value) is int else 0
