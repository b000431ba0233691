"""Evaluating expressions and conditions, given the names that are bound.

Owns: look-up of dotted paths, evaluation, truth, the six forms of conditions. Must never: do I/O; which files a patch
touches is what the function passed in returns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adjourn.aex import Condition, Constant, ListOf, Name, ObjectEntry, ObjectOf, Text, Value, conditions
from adjourn.errors import InvalidError
from adjourn.text import fit_text

MAX_TEXT = 50_000_000
"""Longest JSON text of a value that is used as text, in characters."""
_CITATION = re.compile(r"\[[^\[\]]*\]\([^()\s]+\)|\[[0-9]+\]|https?://\S")
_PATH_KEYS = ("path", "file", "newPath")

Touched = Callable[[str], Sequence[str]]
"""The files that a patch touches. Raises `InvalidError` for a text that is no patch."""


class Names:
    """Inputs, and the variables bound so far. An input that is declared and absent is null."""

    def __init__(self, inputs: Mapping[str, Any], declared: Sequence[str] = ()) -> None:
        self._inputs = dict.fromkeys(declared) | dict(inputs)
        self.variables: dict[str, Any] = {}

    def known(self, path: str) -> bool:
        """Whether a path, or its first part, names something."""
        first = path.partition(".")[0]
        return any(name in names for name in (path, first) for names in (self.variables, self._inputs))

    def look_up(self, path: str) -> Any:
        """What a path leads to, None if there is no such value. Variables hide inputs."""
        first, _, rest = path.partition(".")
        for name, parts in ((path, []), (first, rest.split(".") if rest else [])):
            for names in (self.variables, self._inputs):
                if name in names:
                    return _member(names[name], parts)
        return None


def _member(value: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def evaluate(value: Value | None, names: Names) -> Any:
    """A value of the language as JSON. An unbound name is its own text; an entry without a value is empty."""
    if value is None:
        return ""
    if isinstance(value, Text):
        return value.value
    if isinstance(value, Constant):
        return _constant(value)
    if isinstance(value, Name):
        return names.look_up(value.path) if names.known(value.path) else value.path
    if isinstance(value, ListOf):
        return [evaluate(item, names) for item in value.items]
    return members(value.entries, names) if isinstance(value, ObjectOf) else None


def members(entries: Sequence[ObjectEntry], names: Names) -> dict[str, Any]:
    """The arguments of a call, or the entries of an object. Of a key that is given twice the last counts."""
    return {entry.key.text: evaluate(entry.value, names) for entry in entries}


def _constant(constant: Constant) -> Any:
    value = constant.value
    if isinstance(value, bool):
        return value
    if value - value != 0:  # infinite: JSON has no such number
        return constant.word.text
    return int(value) if value == int(value) and abs(value) < 2**53 else value


def truthy(value: Any) -> bool:
    """Truth as in JavaScript, except that an empty list is false."""
    return True if isinstance(value, dict) else bool(value)


def as_text(value: Any) -> str:
    """A value as text to search in: a text unchanged, empty for null, else JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if len(text) > MAX_TEXT:
        raise InvalidError(f"the value has more than {MAX_TEXT:,} characters as text", "use a part of it")
    return text


def holds(condition: Condition, names: Names, touched: Touched) -> str:
    """The reason that a condition is false; empty when it is true. Raises `InvalidError` if it cannot be evaluated."""
    return _FORMS[condition.form](condition, names, touched)


def _path(condition: Condition, names: Names, touched: Touched) -> str:
    del touched
    path = condition.subject.text
    return "" if truthy(names.look_up(path)) else f"{path} is {_shown(names.look_up(path))}"


def _has_text(condition: Condition, names: Names, touched: Touched) -> str:
    del touched
    found = condition.text in as_text(names.look_up(condition.subject.text))
    return "" if found else f'{condition.subject.text} has no "{condition.text}"'


def _has_citations(condition: Condition, names: Names, touched: Touched) -> str:
    del touched
    found = _CITATION.search(as_text(names.look_up(condition.subject.text)))
    return "" if found else f"{condition.subject.text} has no link, no [number] and no URL"


def _not_include_text(condition: Condition, names: Names, touched: Touched) -> str:
    del touched
    return _absent(condition, condition.text, names)


def _not_include(condition: Condition, names: Names, touched: Touched) -> str:
    del touched
    assert condition.other is not None  # its form has one
    return _absent(condition, as_text(names.look_up(condition.other.text)), names)


def _absent(condition: Condition, part: str, names: Names) -> str:
    """The reason that a text includes `part`; empty if it does not. An empty part is in every text."""
    if part in as_text(names.look_up(condition.subject.text)):
        return f"{condition.subject.text} includes {_shown(part)}"
    return ""


def _touches_only(condition: Condition, names: Names, touched: Touched) -> str:
    assert condition.other is not None  # its form has one
    permitted = names.look_up(condition.other.text)
    if not isinstance(permitted, list):
        return f"{condition.other.text} is {_shown(permitted)}, not a list of files"
    listed = {_plain(item) for item in permitted if isinstance(item, str)}
    beyond = [file for file in files_of(names.look_up(condition.subject.text), touched) if file not in listed]
    return f"{condition.subject.text} touches {', '.join(beyond[:5])}" if beyond else ""


def _valid_diff(condition: Condition, names: Names, touched: Touched) -> str:
    value = names.look_up(condition.subject.text)
    try:
        if value == [] or files_of(value, touched):
            return ""
    except InvalidError as error:
        return f"{condition.subject.text} is not a diff: {error.message}"
    return f"{condition.subject.text} is not a diff: it names no file"


def files_of(value: Any, touched: Touched) -> list[str]:
    """The files that a patch or a list of changes touches. Raises `InvalidError` if they cannot be determined.

    A patch is read as git reads it. A list holds paths, or objects with a `path`, `file` or `newPath`; an object has such a
    list in `files`, or is one of them.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [_plain(file) for file in touched(value)] if value.strip() else []
    if isinstance(value, dict) and isinstance(value.get("files"), list):
        value = value["files"]
    return [_plain(_file(item)) for item in (value if isinstance(value, list) else [value])]


def _file(item: Any) -> str:
    path = next((item[key] for key in _PATH_KEYS if key in item), None) if isinstance(item, dict) else item
    if not isinstance(path, str) or not path:
        raise InvalidError(f"{_shown(item)} does not name a file", "list paths, or objects with a `path`")
    return path


def _plain(path: str) -> str:
    return path.removeprefix("./")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else repr(value[:80])
    return fit_text(text, 80)


_FORMS: dict[str, Callable[[Condition, Names, Touched], str]] = {
    conditions.PATH: _path,
    conditions.HAS_TEXT: _has_text,
    conditions.HAS_CITATIONS: _has_citations,
    conditions.NOT_INCLUDE_TEXT: _not_include_text,
    conditions.NOT_INCLUDE: _not_include,
    conditions.TOUCHES_ONLY: _touches_only,
    conditions.VALID_DIFF: _valid_diff,
}
