"""What is known of a call before it is decided on: its effect, its digest, and where its arguments lead."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from unicodedata import normalize

import msgspec

from adjourn.aex.match import glob_path, glob_text
from adjourn.aex.policy import Policy
from adjourn.aex.rule import PathMatcher, RuleVerdict
from adjourn.errors import InvalidError
from adjourn.log.canonical_json import canonical, digest
from adjourn.policy.protected.places import MAX_PATH
from adjourn.policy.protected.texts import paths_in, readings
from adjourn.policy.protected.words import COMMAND_KEYS, CONTENT_KEYS, PATCH_KEYS, argument_key, is_path_key

READING_VERBS = frozenset(("file.read", "git.status", "git.diff", "network.search", "todo.read"))
"""Tools of the contract vocabulary that have no effect."""
encode_sorted = msgspec.json.Encoder(order="sorted").encode
"""The canonical JSON of a value that `text.survey` found to be plain."""


def arguments_digest(arguments: object) -> str:
    """SHA-256 of the canonical JSON; of a sorted encoding for the few values that RFC 8785 cannot hold.

    Raises `InvalidError` for what is no JSON.
    """
    try:
        return digest(canonical(arguments))
    except InvalidError:
        return digest(encoded(arguments, sort=True))


def encoded(value: object, *, sort: bool = False) -> bytes:
    """A value as JSON. Raises `InvalidError` for one that JSON cannot represent, or that is nested too deeply."""
    try:
        return msgspec.json.encode(value, order="sorted" if sort else None)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidError(f"not a JSON value: {error}", "answer with texts, numbers, lists and objects") from error


# --- where a call leads

MAX_PATHS = 1000
MAX_NODES = 20_000

COMMAND_TOOLS = frozenset(("shell.exec", "tests.run"))
"""Tools whose scope is always a command, whatever else they are given (a working directory, a description)."""
_MAYBE_KEYS = frozenset(("from", "to"))
_WILDCARD = re.compile(r"[*?\[{]")
_NOT_KNOWN = "$"
"""Stands for a word that only the shell would know: of the scopes, only those for anything hold it."""

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
    paths: dict[str, None] = {}
    base = os.path.join(root, working_directory or root)
    try:
        for text in _named(arguments):
            for spelling in dict.fromkeys((text, text.strip())):
                for path in paths_in(spelling):
                    paths |= dict.fromkeys(_resolved(path, base, root, around))
            if len(paths) > MAX_PATHS:
                return None
    except (_UnknownError, OSError, ValueError):
        return None
    return tuple(paths)


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
    """The command that a call names, whole and as a shell would run it; none if that cannot be read."""
    commands: list[str] = []
    for key, value in arguments.items():
        if argument_key(key) in COMMAND_KEYS:
            words = value if isinstance(value, list | tuple) else [value]
            if not all(isinstance(word, str) for word in words):
                return ()
            commands.append(" ".join(map(str, words)).strip())
    pieces: list[str] = []
    for command in commands:
        read = _pieces(command)
        if read is None:
            return ()
        pieces += read
    return tuple(dict.fromkeys(filter(None, pieces)))


def _pieces(line: str) -> list[str] | None:
    """The commands that a line runs, and the files that it reads or writes; None if it cannot be read."""
    from adjourn.policy.shell.running import Command, Walk  # few policies have a scope of a command
    from adjourn.policy.shell.syntax import MARKS, UnreadError

    pieces = [line]

    def report(command: Command) -> None:
        words = [word.text for word in command.words]
        texts = [" ".join((*(f"{name}={text}" for name, text in command.assigned), *words))]
        texts += [word.text for word in (*command.reads, *command.writes)]
        pieces.extend(texts if MARKS.isdisjoint("".join(texts)) else [*texts, _NOT_KNOWN])

    try:
        Walk(report, {}).line(line)
    except (UnreadError, RecursionError):
        return None
    return pieces


# --- holding scopes against them


def _marked(paths: tuple[str, ...], root: str) -> list[str]:
    """What scopes are held against for these paths, in the words of `_in_scope`."""
    marked: list[str] = []
    for path in paths:
        marked.append(path)
        full_path = os.path.normpath(os.path.join(root, path))
        if os.path.isabs(path):
            marked.append(_OUTSIDE)
            if root.startswith(path.rstrip("/") + "/"):
                marked.append("." + _ANYTHING)  # the workspace is somewhere beneath it
        if os.path.isdir(full_path):
            marked += [path + _BENEATH, path + _ANYTHING]
    return marked


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
