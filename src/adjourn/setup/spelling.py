"""How a client spells the entry of a server: where its program, its arguments and its variables are.

An entry is read in the common form (`command` a string, `args` a list, `env` an object), and changed where it stands, in the client's own.

Owns: the spellings, and these edits of a text. Must never: read a file, or know what is put before a command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from adjourn.setup import jsonc, toml_text


class Spelling(NamedTuple):
    """Paths in an entry: to the program, to the arguments (None: they follow the program in one list), to the variables."""

    program: Sequence[str] = ("command",)
    args: Sequence[str] | None = ("args",)
    env: Sequence[str] = ("env",)


PLAIN = Spelling()
ONE_LIST = Spelling(args=None, env=("environment",))
NESTED = Spelling(("command", "path"), ("command", "args"), ("command", "env"))


class ListedEntry(NamedTuple):
    """An entry of a settings file: the file, where it stands there, its content in the common form, and its spelling."""

    path: str
    at: Sequence[str]
    server: Any
    spelling: Spelling = PLAIN

    @property
    def name(self) -> str:
        """The name of the server."""
        return self.at[-1]


def listed(
    document: Any, path: str, member: Sequence[str], spellings: Sequence[Spelling] = (PLAIN,)
) -> list[ListedEntry]:
    """The entries below a member of a document."""
    below = at(document, member)
    if not isinstance(below, dict):
        return []
    return [ListedEntry(path, (*member, name), *_read(server, spellings)) for name, server in below.items()]


def at(value: Any, path: Sequence[str]) -> Any:
    """What is at a path of members; None if there is no such member."""
    for member in path:
        value = value.get(member) if isinstance(value, dict) else None
    return value


def _read(server: Any, spellings: Sequence[Spelling]) -> tuple[Any, Spelling]:
    """An entry in the common form; without a command if it is not spelled as its client reads it."""
    if not isinstance(server, dict):
        return server, PLAIN
    for spelling in spellings:
        program = at(server, spelling.program)
        if spelling.args is None and isinstance(program, list) and program:
            found = {"command": program[0], "args": program[1:]}
        elif spelling.args is not None and isinstance(program, str):
            args = at(server, spelling.args)
            found = {"command": program} | ({} if args is None else {"args": args})
        else:
            continue
        env = at(server, spelling.env)
        spelled = {path[0] for path in spelling if path} | {"command", "args", "env"}
        rest = {member: value for member, value in server.items() if member not in spelled}
        return rest | found | ({} if env is None else {"env": env}), spelling
    return {member: value for member, value in server.items() if member != "command"}, PLAIN


# --- editing


def with_words(text: str, entry: ListedEntry, place: int, words: Sequence[str]) -> str:
    """The text with words put into an entry's command: `place` 0 is before the program. Comments stay.

    Raises `InvalidError` when it cannot be edited so.
    """
    spelling, args = entry.spelling, entry.server.get("args") or []
    if spelling.args is None:
        return jsonc.inserted(text, (*entry.at, *spelling.program), place, words)
    if place:
        return _inserted(text, entry, place - 1, words)
    text = _inserted(text, entry, 0, [*words[1:], entry.server["command"]]) if args else text
    new = {} if args else {"args": [*words[1:], entry.server["command"]]}
    return with_members(text, entry, {"command": words[0]} | new)


def _inserted(text: str, entry: ListedEntry, place: int, words: Sequence[str]) -> str:
    if not entry.path.endswith(".toml"):
        return jsonc.inserted(text, (*entry.at, *(entry.spelling.args or ())), place, words)
    after = entry.server["args"][place - 1] if place else ""
    return toml_text.with_words(text, entry.at, "args", after, words)


def with_command(text: str, entry: ListedEntry, words: Sequence[str]) -> str:
    """The text with another command in an entry. Raises `InvalidError` when it cannot be edited so."""
    if entry.spelling.args is None:
        return jsonc.edited(text, (*entry.at, *entry.spelling.program), list(words))
    return with_members(text, entry, {"command": words[0], "args": list(words[1:])})


def with_members(text: str, entry: ListedEntry, values: dict[str, str | list[str]]) -> str:
    """The text with members of an entry, of the common form, set to values."""
    if entry.path.endswith(".toml"):
        return toml_text.with_table(text, entry.at, values)
    spelled = {"command": entry.spelling.program, "args": entry.spelling.args or ()}
    for member, value in values.items():
        text = jsonc.edited(text, (*entry.at, *spelled.get(member, (member,))), value)
    return text
