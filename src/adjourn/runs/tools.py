"""The built-in tools of a run: files of the workspace, its tests, its repository.

Must never: follow a link out of the workspace, touch a protected place, start a shell, or judge a call.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from adjourn.errors import AdjournError, InvalidError, RefusedError
from adjourn.host.workspace import make_folder, read_inside, resolve_inside, write_file
from adjourn.runs import subprocesses
from adjourn.runs.subprocesses import run_program

MAX_FILE = 10_000_000
MAX_READ = 50_000_000
MAX_FILES = 1000
TEST_SECONDS = 1800.0
TESTS = "tests.run"
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=dirty")
_REFUSED_IN_COMMANDS = ";&|`$!<>"
Arguments = Mapping[str, Any]


class ToolError(AdjournError):
    """A tool failed. `answered`: its outcome is certain (usually: no effect)."""

    def __init__(self, message: str, remedy: str = "", *, answered: bool = True) -> None:
        super().__init__(message, remedy)
        self.answered = answered


def _as_given(arguments: Arguments) -> Arguments:
    return arguments


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool is called. `run` has the effect and answers with JSON.

    `seen` are the arguments as rules with a scope examine them, where the places that they name are not plain to see.
    """

    run: Callable[[Arguments], Any]
    seen: Callable[[Arguments], Arguments] = _as_given
    effectful: bool = True


def built_in(root: str) -> dict[str, Tool]:
    """The tools by name, for a workspace."""
    files, repository = Files(root), Repository(root)
    return {
        "file.read": Tool(run=files.read, seen=files.reads, effectful=False),
        "file.write": Tool(run=files.write, seen=files.touches),
        TESTS: Tool(run=lambda fields: _tests(root, fields), seen=lambda members: {"cmd": command_of(members)}),
        "git.status": Tool(run=repository.status, effectful=False),
        "git.diff": Tool(run=repository.diff, seen=repository.shows, effectful=False),
        "git.apply": Tool(run=repository.apply, seen=repository.touches),
    }


# --- files


class Files:
    """`file.read` and `file.write`."""

    def __init__(self, root: str) -> None:
        self._root = root

    def reads(self, arguments: Arguments) -> Arguments:
        return {"paths": [resolve_inside(self._root, path) for path in _texts(arguments, "paths", "path")]}

    def read(self, arguments: Arguments) -> dict[str, str]:
        """`{path: contents}`."""
        contents, room = {}, MAX_READ
        for path in _texts(arguments, "paths", "path"):
            data = read_inside(self._root, path, min(MAX_FILE, room))
            room -= len(data)
            contents[path] = data.decode(errors="replace")
        return contents

    def touches(self, arguments: Arguments) -> Arguments:
        if "diff" in arguments:
            return _patched(self._root, arguments)
        return {"paths": [_to_write(self._root, path) for path in _writes(arguments)]}

    def write(self, arguments: Arguments) -> dict[str, Any]:
        """Write files. Returns `{written: [path]}`, or the result of applying a `diff`. Nothing is written when one of the paths is refused."""
        if "diff" in arguments:
            return subprocesses.apply(self._root, _patch(arguments))
        writes = _writes(arguments)
        places = {path: _to_write(self._root, path) for path in writes}
        for path, data in writes.items():
            self._replace(places[path], data)
        return {"written": list(writes)}

    def _replace(self, real: str, data: bytes) -> None:
        folder, name = os.path.split(real)
        mode = os.stat(real).st_mode & 0o777 if os.path.exists(real) else 0
        inner = os.path.relpath(folder, os.path.realpath(self._root))
        write_file(make_folder(self._root, inner) if inner != "." else folder, name, data, mode)


def _writes(arguments: Arguments) -> dict[str, bytes]:
    """The paths and contents to write, from any accepted form of arguments."""
    writes = arguments.get("writes", arguments.get("paths"))
    contents: dict[str, bytes] = {}
    if writes is None and "path" in arguments:
        writes = [arguments]
    if isinstance(writes, dict):
        writes = [value | {"path": path} if isinstance(value, dict) else {"path": path, "contents": value}
                  for path, value in writes.items()]  # fmt: skip
    if not isinstance(writes, list) or not writes:
        raise ToolError("file.write: there is nothing to write", "give path and contents, writes, or diff")
    if len(writes) > MAX_FILES:
        raise ToolError(f"file.write: there are more than {MAX_FILES} files", "write fewer at a time")
    for number, write in enumerate(writes):
        each = (
            write if isinstance(write, Mapping) else {"path": write, "contents": _content_of(arguments, write, number)}
        )
        path = each.get("path")
        if not isinstance(path, str) or not path:
            raise ToolError(f"file.write: write {number + 1} has no path", "name the file as `path`")
        contents[path] = _bytes(path, each.get("contents"), each.get("encoding", arguments.get("encoding", "utf8")))
    return contents


def _content_of(arguments: Arguments, path: object, number: int) -> Any:
    """The content for one of a list of paths: by its path, by its position, or the same for all."""
    contents = arguments.get("contents")
    if isinstance(contents, dict):
        return contents.get(str(path))
    if isinstance(contents, list):
        return contents[number] if number < len(contents) else None
    return contents


def _bytes(path: str, contents: object, encoding: object) -> bytes:
    if not isinstance(contents, str):
        raise ToolError(f"file.write: there is no text for {path}", "give `contents` as a text")
    if len(contents) > MAX_FILE:
        raise ToolError(f"file.write: the text for {path} has more than {MAX_FILE:,} characters", "write less")
    if encoding in ("utf8", "utf-8"):
        return contents.encode("utf-8", "replace")
    if encoding == "base64":
        try:
            return base64.b64decode(contents, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ToolError(f"file.write: the text for {path} is not base64", "encode it as base64") from error
    raise ToolError(f"file.write: unknown encoding {str(encoding)[:40]!r}", "use utf8 or base64")


def _to_write(root: str, path: str) -> str:
    real = resolve_inside(root, path)
    if ".git" in os.path.relpath(real, os.path.realpath(root)).lower().split("/"):
        raise RefusedError(f"{path!r} belongs to git", "change the repository through git")
    if os.path.isdir(real):
        raise ToolError(f"{path} is a folder", "name a file")
    return real


def _texts(arguments: Arguments, *names: str) -> list[str]:
    value = next((arguments[name] for name in names if name in arguments), None)
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not items or not all(isinstance(item, str) and item for item in items):
        raise ToolError(f"`{names[0]}` is not a path or a list of paths", "give texts that name files")
    if len(items) > MAX_FILES:
        raise ToolError(f"`{names[0]}` names more than {MAX_FILES} files", "name fewer at a time")
    return items


# --- tests


def command_of(arguments: Arguments) -> str:
    """The command of a call of tests.run, with single blanks. Raises `ToolError`, `RefusedError`."""
    command = arguments.get("cmd", "npm test")
    if not isinstance(command, str) or not command.split():
        raise ToolError("`cmd` is not a command", 'give a text, such as cmd="pytest -q"')
    odd = next((char for char in command if char in _REFUSED_IN_COMMANDS or ord(char) < 32), "")
    if odd:
        raise RefusedError(f"tests.run does not take a command with {odd!r}", "put what needs a shell into a script")
    return " ".join(command.split())


def _tests(root: str, arguments: Arguments) -> dict[str, Any]:
    ended = run_program(command_of(arguments).split(), root, TEST_SECONDS)
    return {"passed": ended.code == 0, "stdout": ended.output, "stderr": ended.errors, "exitCode": ended.code}


# --- the repository


class Repository:
    """`git.status`, `git.diff`, `git.apply`."""

    def __init__(self, root: str) -> None:
        self._root = root

    def status(self, arguments: Arguments) -> list[str]:
        """The lines of `git status --short`."""
        del arguments
        return self._git("status", "--short", "--ignore-submodules=dirty").splitlines()

    def shows(self, arguments: Arguments) -> Arguments:
        paths = _texts(arguments, "paths") if arguments.get("paths") else []
        return {"paths": [resolve_inside(self._root, path) for path in paths]}

    def diff(self, arguments: Arguments) -> str:
        """What changed in the work tree, as a patch."""
        paths = _texts(arguments, "paths") if arguments.get("paths") else []
        return self._git("diff", *_PLAIN, "--", *paths)

    def touches(self, arguments: Arguments) -> Arguments:
        return _patched(self._root, arguments)

    def apply(self, arguments: Arguments) -> dict[str, Any]:
        """`{applied, message?}`."""
        return subprocesses.apply(self._root, _patch(arguments))

    def _git(self, *arguments: str) -> str:
        ended = subprocesses.git(self._root, "--literal-pathspecs", *arguments)
        if ended.code:
            raise ToolError(
                f"git {arguments[0]} failed: {ended.errors.strip()[:500]}",
                "check that this is a git repository: git status",
            )
        return ended.output


def _patch(arguments: Arguments) -> str:
    patch = arguments.get("diff")
    if not isinstance(patch, str) or not patch.strip():
        raise ToolError("`diff` is not a patch", "give a unified diff as text")
    return patch


def _patched(root: str, arguments: Arguments) -> Arguments:
    """The files of a patch, each refused like one that is written."""
    try:
        touched = subprocesses.touched(root, _patch(arguments))
    except InvalidError as error:
        raise ToolError(error.message, error.remedy) from error
    return {"paths": [_to_write(root, path) for path in touched]}
