"""The one place that builds a git command, for a repository whose configuration an agent may have written.

A repository can name programs in many ways: filters, hooks, a file system monitor, external diffs, pagers, signing programs, ssh
commands; it can lead git elsewhere by `core.worktree`, a `.git` file, a `commondir`, or by lying there without a `.git`.
`distrusting` is git with none of that. It keeps the filters that the person set up for all repositories (git-lfs), as long as
their settings lie outside of the workspace. `trusting` is git as the person would run it, in the repository that is there.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from adjourn.errors import NotFoundError, RefusedError, StoreError
from adjourn.host.executables import find, for_others, lies_in, outside
from adjourn.host.finding import common_of, line_of

SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sshCommand=false",
    "credential.helper=",
    "log.showSignature=false",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.x509.program=false",
    "gpg.ssh.program=false",
    "gc.auto=0",
    "maintenance.auto=false",
    # git in a submodule would heed the settings of that one
    "submodule.recurse=false",
    "status.submoduleSummary=false",
    "diff.submodule=short",
    "diff.ignoreSubmodules=dirty",
    "safe.bareRepository=explicit",
    "color.status=false",
)
"""Settings that override those of any repository. Filters have to be overridden by name."""
_VARIABLES = {
    "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_EDITOR": "true", "GIT_ASKPASS": "true",
    "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none",
}  # fmt: skip
_OF_IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")
_OF_CONFIGURATION = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_OF_PERSON = ("system", "global")
"""The scopes of git's configuration that lie outside of the repository."""
_PROGRAMS = re.compile(
    r"(?P<driver>filter\..*)\.[^.]*|lfs\.(extension\..*|customtransfer\..*|(.*\.)?standalonetransferagent)", re.DOTALL
)
"""The settings that make a filter, such as git-lfs, run a program."""
_LISTING = (
    "config", "--null", "--show-scope", "--show-origin", "--name-only", "--get-regexp", r"^(filter|lfs)\.",
)  # fmt: skip
_NONE: Mapping[str, str] = {}


class GitCommand(NamedTuple):
    """The words before a subcommand, and the variables that it runs with."""

    words: list[str]
    environment: dict[str, str]


Run = Callable[[GitCommand, Sequence[str]], tuple[int, bytes]]
"""Runs a command with more words to its end: exit code and what it printed."""


def distrusting(
    root: str, run: Run, variables: Mapping[str, str] = _NONE, *, files: bool = True, outer: bool = True
) -> GitCommand:
    """Git in a workspace, running no program that its repository names, in no other work tree than it seems to be.

    `files` is whether the command looks into files of the work tree: filters are switched off then. `outer` is whether the
    repository may be one that the workspace is a part of; else a workspace without one is no error. Raises `NotFoundError` where
    there is no git or no repository, `RefusedError` where that leads elsewhere.
    """
    root = os.path.realpath(root)
    words = [_program(root), "--no-pager", *(word for setting in SETTINGS for word in ("-c", setting))]
    environment = {name: value for name, value in for_others(os.environ).items() if _is_kept(name, value, root)}
    environment = {**outside(environment, root), **_VARIABLES, "LC_ALL": "C"}
    if not outer:
        environment["GIT_CEILING_DIRECTORIES"] = os.path.dirname(root)
    command = GitCommand(words, {**environment, **variables})
    tree = _work_tree(root, command, run, outer=outer)
    if tree:
        command.environment["GIT_WORK_TREE"] = tree  # whatever core.worktree says
    if files:
        words += _without_filters(root, command, run)
    return command


def trusting(root: str, run: Run, texts: tuple[str, ...], variables: Mapping[str, str]) -> GitCommand:
    """Git as the person would run it in `root`, a work tree: with its hooks and filters, and the variables that start with `texts`.

    Raises as above, also where the work tree is not this folder.
    """
    root = os.path.realpath(root)
    environment = {
        name: value
        for name, value in for_others(os.environ).items()
        if not name.startswith("GIT_") or (name.startswith(texts) and _is_place_outside(name, value, root))
    }
    environment |= {
        **outside({"PATH": os.environ.get("PATH", os.defpath)}, ""),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "true",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    command = GitCommand([_program(root), "--no-pager", "-c", "core.fsmonitor=false"], {**environment, **variables})
    _work_tree(root, command, run, outer=False)
    code, data = run(command, ["rev-parse", "--show-toplevel"])
    if not code and os.path.realpath(os.fsdecode(data).rstrip("\n")) != root:
        raise RefusedError(
            f"core.worktree of the repository in {root} points elsewhere", "unset it: git config --unset core.worktree"
        )
    return command


def _program(root: str) -> str:
    program = find("git", root)
    if program is None:
        raise NotFoundError("git is not installed", "install git")
    return program


def _is_kept(name: str, value: str, root: str) -> bool:
    if not name.startswith("GIT_") or name.startswith(_OF_IDENTITY):
        return True
    return name in _OF_CONFIGURATION and _is_place_outside(name, value, root)


def _is_place_outside(name: str, value: str, root: str) -> bool:
    """Whether a variable that names a place names one that no agent can write."""
    if name not in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_EXEC_PATH"):
        return True
    return os.path.isabs(value) and not lies_in(value, root)


# --- filters


def _without_filters(root: str, command: GitCommand, run: Run) -> list[str]:
    """The words that switch off each filter which is not the person's own."""
    code, listed = run(command, _LISTING)
    if code not in (0, 1):  # 1: there is none
        raise StoreError(f"git cannot read its configuration in {root}", "check it: git config --list")
    fields = os.fsdecode(listed).split("\0")
    off: dict[str, None] = {}
    for scope, origin, name in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        match = _PROGRAMS.fullmatch(name)
        if match is None or _is_persons(scope, origin, root):
            continue
        if "=" in name:  # `-c` would take what is before it for the name
            raise RefusedError(
                f"the repository in {root} sets {name!r}, which cannot be overridden", "remove it: git config"
            )
        if driver := match["driver"]:
            off |= dict.fromkeys(f"{driver}.{member}=" for member in ("clean", "smudge", "process"))
            off[f"{driver}.required=false"] = None
        else:
            off[f"{name}="] = None
    return [word for setting in off for word in ("-c", setting)]


def _is_persons(scope: str, origin: str, root: str) -> bool:
    path = origin.removeprefix("file:")
    return scope in _OF_PERSON and os.path.isabs(path) and not lies_in(path, root)


# --- which work tree


def _work_tree(root: str, command: GitCommand, run: Run, *, outer: bool) -> str:
    """The folder with the `.git` that git would find; "" where there is none and none is needed."""
    folder = root
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            _check(folder, command, run)
            return folder
        if _is_bare(folder):
            raise NotFoundError(
                f"{folder} is laid out like a repository without a work tree", "remove HEAD, objects and refs"
            )
        above = os.path.dirname(folder)
        if not outer:
            return ""
        if above == folder:
            raise NotFoundError(f"{root} is not in a git repository", "create one: git init")
        folder = above


def _is_bare(folder: str) -> bool:
    """Whether git would take a folder itself for a repository, with the settings in it."""
    return os.path.lexists(os.path.join(folder, "HEAD")) and all(
        os.path.isdir(os.path.join(folder, name)) for name in ("objects", "refs")
    )


def _check(folder: str, command: GitCommand, run: Run) -> None:
    """Refuse a `.git` that leads to a repository which does not name this folder back."""
    link = os.path.join(folder, ".git")
    mode = os.lstat(link).st_mode
    if stat.S_ISDIR(mode):
        mine = not os.path.lexists(os.path.join(link, "commondir"))
    else:
        mine = stat.S_ISREG(mode) and _names_back(folder, link, command, run)
    if not mine:
        raise RefusedError(
            f"{link} leads to a repository elsewhere that does not name {folder} as its work tree",
            "in that repository: git worktree repair, or git config core.worktree",
        )


def _names_back(folder: str, link: str, command: GitCommand, run: Run) -> bool:
    target = os.path.realpath(os.path.join(folder, line_of(link).removeprefix("gitdir:").strip()))
    if os.path.lexists(os.path.join(target, "commondir")):  # a linked work tree
        return bool(common_of(folder))
    if lies_in(target, folder):
        return True
    file = os.path.join(target, "config")  # of a submodule, say
    code, data = run(command, ["config", "--file", file, "--no-includes", "--get", "core.worktree"])
    place = os.path.join(target, os.fsdecode(data).rstrip("\n"))
    return code == 0 and os.path.realpath(place) == folder
