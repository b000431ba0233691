"""JSON as people write it: with comments and trailing commas, edited in place so that everything else stays as it is.

A document is read into nodes that know where they stand in the text. An edit is a piece of text at such a place; what comes of it
is read again, and must hold exactly what was meant (`edited`).

What was not written here keeps its layout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from adjourn.errors import InvalidError

MAX_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 64
INDENT = "  "
Step = str | int
Path = Sequence[Step]

_BLANK = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_LINE_END = re.compile(r"[ \t]*\r?\n")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")


class JsonNode(NamedTuple):
    """A value, and its position: `text[start:end]`. `parts` are the members of an object or a list, by name or place."""

    start: int
    end: int
    value: Any
    parts: dict[Step, JsonNode]
    keys: dict[Step, int]
    """The positions where the names of an object's members begin."""


def read(text: str) -> JsonNode:
    """The document. Raises `InvalidError` with the line."""
    reader = _JsoncReader(text)
    at = reader.blank(0)
    node = reader.value(at, 0)
    if reader.blank(node.end) != len(text):
        raise reader.wrong("more than one value", node.end)
    return node


class _JsoncReader:
    def __init__(self, text: str) -> None:
        self.text = text

    def wrong(self, what: str, at: int) -> InvalidError:
        line = self.text.count("\n", 0, at) + 1
        return InvalidError(f"line {line}: {what}", "fix its JSON; comments and trailing commas may stay")

    def blank(self, at: int) -> int:
        match = _BLANK.match(self.text, at)
        return match.end() if match else at

    def value(self, at: int, depth: int) -> JsonNode:
        if depth > MAX_DEPTH:
            raise self.wrong(f"more than {MAX_DEPTH} levels", at)
        first = self.text[at : at + 1]
        if first == "{":
            return self.object(at, depth)
        if first == "[":
            return self.list(at, depth)
        if first == '"':
            value, end = self.string(at)
            return JsonNode(at, end, value, {}, {})
        match = _SCALAR.match(self.text, at)
        if match is None:
            raise self.wrong("a JSON value is missing", at)
        return JsonNode(at, match.end(), json.loads(match[0]), {}, {})

    def string(self, at: int) -> tuple[str, int]:
        match = _STRING.match(self.text, at)
        try:
            value = json.loads(match[0]) if match else None
        except ValueError:
            value = None
        if match is None or not isinstance(value, str):
            raise self.wrong("a string is not terminated, or contains an invalid character", at)
        return value, match.end()

    def object(self, at: int, depth: int) -> JsonNode:
        parts: dict[Step, JsonNode] = {}
        keys: dict[Step, int] = {}
        place = self.blank(at + 1)
        while self.text[place : place + 1] != "}":
            if self.text[place : place + 1] != '"':
                raise self.wrong("a member's name is missing", place)
            name, end = self.string(place)
            if name in parts:
                raise self.wrong(f'"{name}" is there twice', place)
            colon = self.blank(end)
            if self.text[colon : colon + 1] != ":":
                raise self.wrong(f'":" is missing after "{name}"', colon)
            keys[name] = place
            parts[name] = self.value(self.blank(colon + 1), depth + 1)
            place = self.after(parts[name].end, "}")
        return JsonNode(at, place + 1, {name: part.value for name, part in parts.items()}, parts, keys)

    def list(self, at: int, depth: int) -> JsonNode:
        parts: dict[Step, JsonNode] = {}
        place = self.blank(at + 1)
        while self.text[place : place + 1] != "]":
            parts[len(parts)] = part = self.value(place, depth + 1)
            place = self.after(part.end, "]")
        return JsonNode(at, place + 1, [part.value for part in parts.values()], parts, {})

    def after(self, end: int, closing: str) -> int:
        """The position of the next part, or of the closing bracket."""
        place = self.blank(end)
        if self.text[place : place + 1] == ",":
            return self.blank(place + 1)
        if self.text[place : place + 1] != closing:
            raise self.wrong(f'"," or "{closing}" is missing', place)
        return place


# --- editing


def edited(text: str, path: Path, value: Any) -> str:
    """The text with `value` at `path`. Objects on the way there are made; a list's next place appends to it.

    Raises `InvalidError` when the path leads through something else, or the text cannot be edited so.
    """
    text = text if text.strip() else "{}\n"
    before = read(text)
    after = _set(text, before, tuple(path), value)
    if read(after).value != _meant(before.value, tuple(path), value):
        raise InvalidError("the edit would change more than it should", "edit the file by hand")
    return after


def inserted(text: str, path: Path, place: int, values: Sequence[str]) -> str:
    """The text with strings put into the list at `path`, before its element at `place`. Comments in the list stay.

    Raises `InvalidError` when there is no such list, or the text cannot be edited so.
    """
    before = read(text)
    node = before
    for step in path:
        _check(node, step)
        node = node.parts.get(step, node)
    if not isinstance(node.value, list) or place > len(node.parts):
        raise InvalidError("there is no such list", "edit the file by hand")
    new = [json.dumps(value, ensure_ascii=False) for value in values]
    if place == len(node.parts):
        return edited(text, path, [*node.value, *values])
    at = node.parts[place].start
    begin = text[text.rfind("\n", 0, at) + 1 : at]
    gap = f",\n{begin}" if begin.strip() == "" else ", "
    after = f"{text[:at]}{gap.join(new)}{gap}{text[at:]}"
    meant = _meant(before.value, tuple(path), [*node.value[:place], *values, *node.value[place:]])
    if read(after).value != meant:
        raise InvalidError("the edit would change more than it should", "edit the file by hand")
    return after


def removed(text: str, path: Path) -> str:
    """The text without the member or the element at `path`. Comments stay, and everything else.

    Raises `InvalidError` when there is none, or the text cannot be edited so.
    """
    before = read(text)
    node = before
    for step in path[:-1]:
        _check(node, step)
        node = node.parts.get(step, node)
    if path[-1] not in node.parts:
        raise InvalidError(f"there is no {path[-1]!r}", "edit the file by hand")
    after = _without(text, node, path[-1])
    if read(after).value != _left(before.value, tuple(path)):
        raise InvalidError("the edit would change more than it should", "edit the file by hand")
    return after


def _without(text: str, node: JsonNode, step: Step) -> str:
    steps = list(node.parts)
    place = steps.index(step)
    part = node.parts[step]
    begin, end = node.keys.get(step, part.start), part.end
    comma = _comma(text, end)
    if comma is not None:
        end = comma + 1
    elif place and (before := _comma(text, node.parts[steps[place - 1]].end)) is not None:
        text = text[:before] + text[before + 1 :]
        begin, end = begin - 1, end - 1
    line = text.rfind("\n", 0, begin) + 1
    match = _LINE_END.match(text, end)
    if not text[line:begin].strip() and match:
        begin, end = line, match.end()  # its whole lines
    elif match is None:
        end += len(text[end:]) - len(text[end:].lstrip(" "))
    return text[:begin] + text[end:]


def _left(old: Any, path: tuple[Step, ...]) -> Any:
    step, rest = path[0], path[1:]
    new: Any = list(old) if isinstance(old, list) else dict(old)
    if rest:
        new[step] = _left(old[step], rest)
    else:
        del new[step]
    return new


def _meant(old: Any, path: tuple[Step, ...], value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(old, list) and isinstance(step, int) and step <= len(old):
        new = list(old)
        new[step : step + 1] = [_meant(old[step] if step < len(old) else None, rest, value)]
        return new
    members = dict(old) if isinstance(old, dict) else {}
    members[str(step)] = _meant(members.get(str(step)), rest, value)
    return members


def _set(text: str, root: JsonNode, path: tuple[Step, ...], value: Any) -> str:
    node = root
    for depth, step in enumerate(path):
        _check(node, step)
        if step not in node.parts:
            return _insert(text, node, step, _nested(path[depth + 1 :], value))
        node = node.parts[step]
    return text[: node.start] + _dumped(value, _indent_at(text, node.start), _unit(text)) + text[node.end :]


def _check(node: JsonNode, step: Step) -> None:
    right = dict if isinstance(step, str) else list
    if not isinstance(node.value, right) or (isinstance(step, int) and step > len(node.parts)):
        raise InvalidError(f"{step!r} cannot be set in {type(node.value).__name__}", "edit the file by hand")


def _nested(path: tuple[Step, ...], value: Any) -> Any:
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [value]
    return value


def _insert(text: str, node: JsonNode, step: Step, value: Any) -> str:
    """A new last part."""
    name = f"{json.dumps(step, ensure_ascii=False)}: " if isinstance(step, str) else ""
    outer, unit = _indent_at(text, node.start), _unit(text)
    if not node.parts:
        inner = outer + unit
        new = f"\n{inner}{name}{_dumped(value, inner, unit)}\n{outer}"
        inside = text[node.start + 1 : node.end - 1]
        word = inside.rstrip() if inside.strip() else ""  # a comment
        return f"{text[: node.start + 1]}{word}{new}{text[node.end - 1 :]}"
    last_step, last = list(node.parts.items())[-1]
    begin = node.keys.get(last_step, last.start)
    on_one_line = "\n" not in text[node.start : begin]
    inner = outer if on_one_line else _indent_at(text, begin)
    comma = _comma(text, last.end)
    at = last.end if comma is None else comma + 1
    lead = " " if on_one_line else f"\n{inner}"
    new = f"{lead}{name}{_dumped(value, inner, unit)}"
    return f"{text[:at]}{',' if comma is None else ''}{new}{',' if comma is not None else ''}{text[at:]}"


def _comma(text: str, end: int) -> int | None:
    match = _BLANK.match(text, end)
    place = match.end() if match else end
    return place if text[place : place + 1] == "," else None


def _indent_at(text: str, at: int) -> str:
    """The white space that begins the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """The indentation unit of the text."""
    match = re.search(r"^(\t| +)\S", text, re.MULTILINE)
    return match[1] if match else INDENT


def _dumped(value: Any, indent: str, unit: str) -> str:
    """The text of a new value: objects and their containers on several lines, all else on one."""
    inner = indent + unit
    if isinstance(value, dict) and value:
        parts = [
            f"{json.dumps(name, ensure_ascii=False)}: {_dumped(part, inner, unit)}" for name, part in value.items()
        ]
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return "[\n" + ",\n".join(inner + _dumped(part, inner, unit) for part in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)
