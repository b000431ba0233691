"""The command with which a client starts adjourn, and whether it can be made to start another program.

A client starts its hooks and servers in the workspace. A relative program, a folder of the workspace on PATH, and `python -m` without
-P each lead to a file that an agent can write.

Owns: that command, and the problems of commands written earlier. Must never: read the content of a file, or write one.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence

from adjourn.errors import AdjournError
from adjourn.host import find, lies_in, python

_SAFE = re.compile(r"-[a-zA-Z]*[PI][a-zA-Z]*")
"""The options of Python that keep the current folder out of what it imports."""

_CACHE_TAG = "CACHEDIR.TAG"
"""Marks a folder that may be deleted at any time (bford.info/cachedir): what uvx and `pipx run` install into lies in one."""


def check_lasting() -> None:
    """Raise `AdjournError` if the adjourn that runs here is deleted with a cache, so that no client could start it later."""
    if cache := cache_around(sys.prefix):
        raise AdjournError(
            f"adjourn is installed in a cache only ({cache}): clients cannot start it after the cache is cleared",
            "install it first: uv tool install adjourn, or pipx install adjourn",
        )


def cache_around(environment: str) -> str:
    """The cache that an environment of Python lies in, "" if in none. An environment of its own may carry the tag of a cache."""
    folder = os.path.dirname(os.path.abspath(environment))
    while not os.path.exists(os.path.join(folder, _CACHE_TAG)):
        if folder == (folder := os.path.dirname(folder)):
            return ""
    return folder


def program(root: str, *, own_path: bool = True) -> list[str]:
    """The command that starts adjourn in a workspace: its name if PATH leads to it, else the interpreter that runs it.

    Without `own_path`, it is started with another PATH than this process has, and a name may lead anywhere.
    """
    found = shutil.which("adjourn") if own_path else None
    by_name = found and not lies_in(found, root) and not problem(["adjourn"], root)
    return ["adjourn"] if by_name else python.command("-m", "adjourn")


def after_program(words: Sequence[str], root: str) -> list[str] | None:
    """What follows the program, where that is the adjourn that runs here, and starts nothing of the workspace; else None.

    It is recognized by where it leads: to this installation's entry point, or to this interpreter with `-P -m adjourn`.
    """
    name = os.path.expanduser(words[0]) if words else "."
    found = name if "/" in name else "" if _before(name, root) else find(name, root)
    if not found or not os.path.isabs(found):
        return None
    if os.path.realpath(found) in _entry_points(root):
        return _command(words[1:])
    if os.path.abspath(found) != os.path.abspath(sys.executable) or "adjourn" not in words:
        return None
    at = words.index("adjourn")
    *options, module = words[1:at] or [""]
    is_safe = module == "-m" and bool(options) and all(_SAFE.fullmatch(option) for option in options)
    return _command(words[at + 1 :]) if is_safe else None


def _command(words: Sequence[str]) -> list[str]:
    """The words from the name of a command on, without the folders to work in before it."""
    rest = list(words)
    while rest[:1] == ["-C"]:
        del rest[:2]
    return rest


def _entry_points(root: str) -> set[str]:
    places = (os.path.join(os.path.dirname(sys.executable), "adjourn"), find("adjourn", root))
    return {os.path.realpath(place) for place in places if place}


def is_beside_python(path: str) -> bool:
    """Whether a program was installed with the adjourn that runs here."""
    return os.path.dirname(os.path.realpath(path)) == os.path.dirname(sys.executable)


def problem(words: Sequence[str], root: str) -> str:
    """The reason that a command of adjourn may start a program of the workspace; "" if it cannot."""
    name = os.path.expanduser(words[0])
    if "/" in name:
        if not os.path.isabs(name):
            return f"{name} is relative: it is looked up in the folder that the client works in"
    elif folder := _before(name, root):
        return f"{name} is looked up in {folder} first, where an agent can write"
    options = list(words[1 : words.index("adjourn")]) if "adjourn" in words[1:] else []
    if options[-1:] == ["-m"] and not any(_SAFE.fullmatch(word) for word in options):
        return "`python -m adjourn` imports from the folder that the client works in first"
    return "" if after_program(words, root) is not None else f"{words[0]} is not the adjourn that runs here"


def repaired(
    words: Sequence[str], start: Sequence[str], root: str, *, own_path: bool = True
) -> list[str] | None:
    """The command that starts the same proxy safely; None if nothing needs repair, or adjourn cannot repair it. `own_path` as above."""
    at = words.index("proxy") if "proxy" in words else 0
    before = words[1:at]
    by_name = os.path.basename(words[0]).partition(".")[0] == "adjourn" if words else False
    ours = (not before and by_name) or (
        before[-2:] == ["-m", "adjourn"] and all(word[0] == "-" for word in before[:-1])
    )
    is_unsafe = at and (problem(words, root) or not (own_path or "/" in words[0]))
    return [*start, *words[at:]] if ours and is_unsafe else None


def is_inside(words: Sequence[str], root: str) -> bool:
    """Whether the program is installed in the workspace itself."""
    found = shutil.which(os.path.expanduser(words[0]))
    return found is not None and lies_in(found, root)


def _before(name: str, root: str) -> str:
    """The folder of the workspace on PATH in which a name is looked up before it is found, without being there."""
    for folder in os.get_exec_path():
        if os.access(os.path.join(folder, name), os.X_OK) and os.path.isabs(folder):
            return ""
        if not os.path.isabs(folder) or lies_in(folder, root):
            return repr(folder)
    return ""
