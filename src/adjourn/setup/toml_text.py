"""TOML edited in place: a table of strings and lists of strings is added, or its values are replaced.

The standard library reads TOML and does not write it. So an edit is a piece of text, and what comes of it is read again, and must
hold exactly what was meant; where it does not (a table in an unusual spelling), nothing is changed.

Owns: that. Must never: reformat what it did not write.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from adjourn.errors import InvalidError

Value = str | list[str]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"^\ufeff?[ \t]*\[\[?[^\r\n]*", re.MULTILINE)


def read(text: str) -> dict[str, Any]:
    """The document. Raises `InvalidError` with the line."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidError(str(error), "fix its TOML") from error


def with_table(text: str, path: Sequence[str], values: Mapping[str, Value]) -> str:
    """The text with these values in the table at `path`. Raises `InvalidError` when it cannot be edited so."""
    meant = read(text)
    table = meant
    for name in path:
        table = table.setdefault(name, {})
    is_new = not table
    table.update(values)
    made = _appended(text, path, values) if is_new else _replaced(text, path, values)
    if not _is(made, meant):
        raise InvalidError(
            f"[{_dotted(path)}] is written in a form that adjourn cannot edit", "edit the file by hand"
        )
    return made


def _appended(text: str, path: Sequence[str], values: Mapping[str, Value]) -> str:
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    lines = [f"{_key(name)} = {_spelled(value)}" for name, value in values.items()]
    return "\n".join([f"{text}{gap}[{_dotted(path)}]", *lines, ""])


def _replaced(text: str, path: Sequence[str], values: Mapping[str, Value]) -> str:
    """The values of a table that has a header of its own, each replaced, or added below the header."""
    header = next((found for found in _HEADER.finditer(text) if _names(found[0]) == list(path)), None)
    if header is None:
        return text
    following = _HEADER.search(text, header.end())
    end = following.start() if following else len(text)
    body = text[header.end() : end]
    for name, value in values.items():
        line = f"{_key(name)} = {_spelled(value)}"
        found = _assigned(body, name)
        if found is None:
            body = f"\n{line}{body}"
        else:
            body = body[: found.start()] + line + body[_without_comment(body, found.end()) :]
    return text[: header.end()] + body + text[end:]


def with_words(text: str, path: Sequence[str], name: str, after: str, words: Sequence[str]) -> str:
    """The text with words put into a list of strings of the table at `path`: behind the word `after`, or first where that is "".

    Comments in the list stay. Raises `InvalidError` when it cannot be edited so.
    """
    meant = read(text)
    table = meant
    for step in path:
        table = table.get(step, {})
    there = table.get(name)
    if not isinstance(there, list) or (after and after not in there):
        raise InvalidError(f"[{_dotted(path)}] has no such list", "edit the file by hand")
    place = there.index(after) + 1 if after else 0
    table[name] = [*there[:place], *words, *there[place:]]
    header = next((found for found in _HEADER.finditer(text) if _names(found[0]) == list(path)), None)
    found = _assigned(text[header.end() :], name) if header else None
    begin = text.find("[", header.end() + found.end()) + 1 if header and found else 0
    at = text.find(json.dumps(after), begin) + len(json.dumps(after)) if after else begin
    new = ", ".join(map(_spelled, words))
    made = f"{text[:at]}{f', {new}' if after else f'{new}, ' if there else new}{text[at:]}"
    return made if _is(made, meant) else with_table(text, path, {name: table[name]})


def _is(text: str, meant: dict[str, Any]) -> bool:
    try:
        return read(text) == meant
    except InvalidError:
        return False


def _assigned(body: str, name: str) -> re.Match[str] | None:
    """Where a key is set."""
    return re.search(rf"^[ \t]*(?:{re.escape(name)}|\"{re.escape(name)}\")[ \t]*=", body, re.MULTILINE)


def _without_comment(body: str, start: int) -> int:
    """Where a value ends that begins at `start`, without a comment that follows it."""
    end = _value_end(body, start)
    for found in re.finditer(r"[ \t]*#", body[start:end]):
        with suppress(tomllib.TOMLDecodeError):
            tomllib.loads(f"x = {body[start : start + found.start()].strip()}")
            return start + found.start()
    return end


def _value_end(body: str, start: int) -> int:
    """Where a value ends that begins at `start`: at the first line end after which it is a whole value."""
    place = start
    while True:
        place = body.find("\n", place + 1)
        place = len(body) if place < 0 else place
        try:
            tomllib.loads(f"x = {body[start:place].strip()}")
        except tomllib.TOMLDecodeError:
            if place == len(body):
                return place
        else:
            return place


def _names(header: str) -> list[str]:
    """The path that a header names."""
    try:
        table = tomllib.loads(header.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:
        return []
    names: list[str] = []
    while isinstance(table, dict) and table:
        name, table = next(iter(table.items()))
        names.append(name)
    return names


def _dotted(path: Sequence[str]) -> str:
    return ".".join(map(_key, path))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _spelled(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)  # a TOML string, and a list of them, is one of JSON
