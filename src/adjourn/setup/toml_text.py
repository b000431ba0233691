"""TOML edited in place with tomlkit: a table of strings and lists of strings is added, or its values are replaced.

What comes of an edit is read again, and must hold exactly what was meant; else nothing is changed. All other text, comments and order
stay as they were.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from adjourn.errors import InvalidError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_BOM = "\ufeff"


def read(text: str) -> dict[str, Any]:
    """The document. Raises `InvalidError` with the line."""
    try:
        return tomllib.loads(text.removeprefix(_BOM))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidError(str(error), "fix its TOML") from error


def with_table(
    text: str, path: Sequence[str], values: Mapping[str, str | list[str]], *, gone: Sequence[str] = ()
) -> str:
    """The text with these values in the table at `path`, and without the members that are `gone`. Raises `InvalidError` when it cannot
    be edited so.
    """
    from tomlkit import items

    meant = read(text)
    try:
        meant_table = meant
        for name in path:
            meant_table = meant_table.setdefault(name, {})
        is_new = not meant_table
        for name in gone:
            del meant_table[name]
        meant_table.update(values)
        if is_new:  # at the end: tomlkit would put it between other tables, without an empty line
            header = ".".join(items.SingleKey(name).as_string() for name in path)
            gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
            document = _parsed(f"{text}{gap}[{header}]\n")
        else:
            document = _parsed(text)
        table: Any = document
        for name in path:
            table = table[name]
        # comments at the end of a table are those of the next one, and stay before its header
        body = table.value.body if isinstance(table, items.Table) else []
        comments = []
        while body and body[-1][0] is None:
            comments.append(body.pop())
        for name in gone:
            table.remove(name)
        for name, value in values.items():
            table[name] = value
        body.extend(reversed(comments))
        return _checked(text, document, meant)
    except Exception as error:  # tomlkit raises errors of many kinds for a spelling that it cannot edit
        raise InvalidError(
            f"[{'.'.join(path)}] is written in a form that adjourn cannot edit", "edit the file by hand"
        ) from error


def with_new_tables(text: str, paths: Iterable[Sequence[str]], values: Mapping[str, str]) -> str:
    """The text with a table of these values at its end for each path where nothing is. Raises `InvalidError` as `with_table` does.

    A parse for all of them: `with_table` would need one for each.
    """
    from tomlkit import items

    meant, added = read(text), ""
    for path in paths:
        table = meant
        for name in path[:-1]:
            table = table.setdefault(name, {})
        if path[-1] not in table:
            table[path[-1]] = dict(values)
            header = ".".join(items.SingleKey(name).as_string() for name in path)
            members = "".join(
                f"{name} = {items.String.from_raw(value).as_string()}\n" for name, value in values.items()
            )
            added += f"\n[{header}]\n{members}"
    after = f"{text.rstrip(chr(10))}\n{added}" if added else text
    if read(after) != meant:
        raise InvalidError("it is written in a form that adjourn cannot edit", "edit the file by hand")
    return after


def with_words(text: str, path: Sequence[str], name: str, after: str, words: Sequence[str]) -> str:
    """The text with words put into a list of strings of the table at `path`: behind the word `after`, or first where that is "".

    Comments in the list stay. Raises `InvalidError` when it cannot be edited so.
    """
    meant = read(text)
    table: Any = meant
    for step in path:
        table = table.get(step, {})
    there = table.get(name)
    if not isinstance(there, list) or (after and after not in there):
        raise InvalidError(f"[{'.'.join(path)}] has no such list", "edit the file by hand")
    place = there.index(after) + 1 if after else 0
    there[place:place] = words
    try:
        document = _parsed(text)
        array: Any = document
        for step in (*path, name):
            array = array[step]
        if "\n" not in array.as_string():  # of one line: laid out again, for tomlkit leaves out a blank
            return with_table(text, path, {name: there})
        for number, word in enumerate(words):
            array.insert(place + number, word)
        return _checked(text, document, meant)
    except Exception:
        return with_table(text, path, {name: there})


def _parsed(text: str) -> TOMLDocument:
    from tomlkit import parse

    return parse(text.removeprefix(_BOM))


def _checked(text: str, document: TOMLDocument, meant: dict[str, Any]) -> str:
    """The edited text. Raises `ValueError` where it does not say what was meant."""
    edited = document.as_string()
    if read(edited) != meant:
        raise ValueError(edited)
    return _BOM + edited if text.startswith(_BOM) else edited
