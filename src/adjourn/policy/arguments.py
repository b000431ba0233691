"""Where a call leads: the paths and the command that its arguments name, and the verdict of the rules on them.

A rule with a scope (`file.write:src/**`, `shell.exec:git *`) is held against real places: links are followed, `..` is
walked in both ways that there are (`protect.readings`), `~` and `file:` URLs are taken for what they mean. Whatever
cannot be determined counts as unknown, and under unknown places a scoped deny applies and a scoped allow does not. What that
means for a call:

- A place outside the workspace is in no scope of an allow, whatever its glob; a deny is held against its absolute path.
- A directory stands for all that is beneath it: an allow must hold all of it, a deny applies when it holds any of it.
- A command is held against a scope as a whole and in its pieces (`a && b`, `a | b`, `$(a)`, redirections): an allow must
  hold each of them, a deny applies when it holds one. A patch names its files inside its text, so its places are unknown.

Owns: which arguments name places, resolving them, `judge`. Must never: read a file, or be taken for a sandbox: a tool may
call its path by a name that is not known here, and a program reaches what it likes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from unicodedata import normalize

from adjourn.aex import PathMatcher, Policy, RuleVerdict, glob_path, glob_text
from adjourn.policy.protected import (
    COMMAND_KEYS,
    CONTENT_KEYS,
    MAX_PATH,
    PATCH_KEYS,
    argument_key,
    is_path_key,
    paths_in,
    readings,
)

MAX_PATHS = 1000
MAX_NODES = 20_000

COMMAND_TOOLS = frozenset(("shell.exec", "tests.run"))
"""Tools whose scope is always a command, whatever else they are given (a working directory, a description)."""
_MAYBE_KEYS = frozenset(("from", "to"))
_WILDCARD = re.compile(r"[*?\[{]")
_CONTROL = re.compile(r"[;&|`$<>(){}\n\r]+")
"""Matches where a shell may begin another command or name another file. Ignores quotes, so it finds too many pieces rather than
too few."""

_OUTSIDE = "\0outside"
_BENEATH = "/\0/\0"
"""Appended to a directory: a deep path in it that only wildcards match."""
_ANYTHING = "/\1"
"""Appended to a directory: any direct entry of it."""


class _UnknownError(Exception):
    """The places cannot be determined."""


class CallPaths(NamedTuple):
    """What the scopes of a call's rules are held against, and how (`Policy.judge_call`, `decide.Call`)."""

    paths: Sequence[str] = ()
    matcher: PathMatcher = glob_path


UNKNOWN = CallPaths()
"""The paths are unknown: a scoped deny applies, a scoped allow does not."""


def judge(
    policy: Policy,
    tool: str,
    arguments: Mapping[str, object],
    root: str,
    working_directory: str = "",
    *,
    around: str = "",
) -> RuleVerdict:
    """The verdict of the rules on a call, given what `call_paths` is given."""
    return policy.judge_call(
        tool, arguments, *call_paths(policy, tool, arguments, root, working_directory, around=around)
    )


def call_paths(
    policy: Policy,
    tool: str,
    arguments: Mapping[str, object],
    root: str,
    working_directory: str = "",
    *,
    around: str = "",
) -> CallPaths:
    """The paths of a call, if a rule of the policy for this tool needs them.

    `around` is the workspace that the work tree `root` belongs to. A place in that workspace, outside of the work tree, counts by both
    its paths, absolute and relative to the workspace: an allow must hold both, and a deny applies if it holds one.
    """
    if not policy.looks_at_arguments(tool):
        return UNKNOWN
    commands = _commands(arguments)
    if tool in COMMAND_TOOLS:
        return CallPaths(commands, glob_text)
    paths = _paths(arguments, root, working_directory, around)
    if paths is None or (paths and commands):  # a scope can be held against one of the two only
        return UNKNOWN
    return CallPaths(commands, glob_text) if commands else CallPaths(_marked(paths, root), _in_scope)


def paths_of(arguments: Mapping[str, object], root: str, working_directory: str = "") -> tuple[str, ...]:
    """Every place that a call's arguments name: relative to `root` with `/`, or absolute when it is outside.

    `root` is the workspace's real path; relative paths are taken from `working_directory` (default: `root`). Links are
    followed. None at all means that it is not known where the call leads.
    """
    return _paths(arguments, root, working_directory) or ()


def _paths(
    arguments: Mapping[str, object], root: str, working_directory: str, around: str = ""
) -> tuple[str, ...] | None:
    """As `paths_of`; None if the paths cannot be determined."""
    found: dict[str, None] = {}
    base = os.path.join(root, working_directory or root)
    try:
        for text in _named(arguments):
            for spelling in dict.fromkeys((text, text.strip())):
                for path in paths_in(spelling):
                    found |= dict.fromkeys(_resolved(path, base, root, around))
            if len(found) > MAX_PATHS:
                return None
    except (_UnknownError, OSError, ValueError):
        return None
    return tuple(found)


def _resolved(path: str, base: str, root: str, around: str) -> Iterator[str]:
    if "\0" in path or "\1" in path or len(path) > MAX_PATH:
        raise _UnknownError
    wild = _WILDCARD.search(path)
    if wild and "/.." in path[wild.start() :]:
        raise _UnknownError
    if wild and not os.path.lexists(os.path.join(base, path)):
        # some tools expand it; the folder stands for what it names
        path = path[: path.rfind("/", 0, wild.start()) + 1]
    for real in readings(path, base):
        inside = real.startswith(root.rstrip("/") + "/")
        place = "." if real == root else real[len(root.rstrip("/")) + 1 :] if inside else real
        if wild and place == real:
            raise _UnknownError
        yield place if place.isascii() else _composed(place)
        if place == real and around and f"{real}/".startswith(f"{around}/"):
            beside = real[len(around) + 1 :] or "."
            yield beside if beside.isascii() else _composed(beside)


def _composed(text: str) -> str:
    return normalize("NFC", text)


# --- what the arguments name


def _named(arguments: Mapping[str, object]) -> Iterator[str]:
    """Every text in the arguments that names a place. Raises `_UnknownError` when that cannot be determined."""
    waiting: list[tuple[str, object]] = [("", arguments)]
    seen = 0
    while waiting:
        key, value = waiting.pop()
        seen += 1
        if seen > MAX_NODES:
            raise _UnknownError
        if isinstance(value, str):
            if key in PATCH_KEYS:
                raise _UnknownError
            if _names_place(key, value):
                yield value
        elif isinstance(value, list | tuple):
            waiting += [("" if isinstance(item, Mapping) else key, item) for item in value]
        elif isinstance(value, Mapping):
            if is_path_key(key):
                yield from map(str, value)  # a map from path to content
            waiting += [(argument_key(str(name)), item) for name, item in value.items()]


def _names_place(key: str, text: str) -> bool:
    if key in COMMAND_KEYS or key in CONTENT_KEYS:
        return False
    if text[:5].lower() == "file:":
        return True
    if key in ("uri", "url"):
        return False
    if is_path_key(key):
        return True
    if key in _MAYBE_KEYS:
        return "/" in text or "." in text or text.startswith("~")
    if "\n" in text:  # a text, unless what makes it one is taken back
        return "/../" in text and "\n" not in os.path.normpath(text.strip())
    return text.startswith(("/", "~/", "../")) or "/../" in text or text == ".."


def _commands(arguments: Mapping[str, object]) -> tuple[str, ...]:
    """The command that a call names, whole and in the pieces that a shell may make of it."""
    found: list[str] = []
    for key, value in arguments.items():
        if argument_key(key) in COMMAND_KEYS:
            words = value if isinstance(value, list | tuple) else [value]
            if not all(isinstance(word, str) for word in words):
                return ()
            found.append(" ".join(map(str, words)).strip())
    pieces = (piece.strip() for command in found for piece in _CONTROL.split(command))
    return tuple(dict.fromkeys([*found, *filter(None, pieces)]))


# --- holding scopes against them


def _marked(paths: tuple[str, ...], root: str) -> list[str]:
    """What scopes are held against for these paths, in the words of `_in_scope`."""
    found: list[str] = []
    for path in paths:
        found.append(path)
        full_path = os.path.normpath(os.path.join(root, path))
        if os.path.isabs(path):
            found.append(_OUTSIDE)
            if root.startswith(path.rstrip("/") + "/"):
                found.append("." + _ANYTHING)  # the workspace is somewhere beneath it
        if os.path.isdir(full_path):
            found += [path + _BENEATH, path + _ANYTHING]
    return found


def _in_scope(scope: str, place: str) -> bool:
    if place == _OUTSIDE:
        return False
    if not scope.isascii():
        scope = _composed(scope)
    if place.endswith(_ANYTHING):
        return _reaches(scope, place.removesuffix(_ANYTHING))
    return glob_path(scope, place.removeprefix("./"))


def _reaches(scope: str, directory: str) -> bool:
    """Whether the scope may hold something beneath the directory."""
    globs = scope.split("/")
    for glob, part in zip(globs, [] if directory == "." else directory.split("/"), strict=False):
        if glob == "**":
            return True
        if not glob_text(glob, part):
            return False
    return directory == "." or len(globs) > directory.count("/") + 1
