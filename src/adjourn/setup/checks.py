"""Checks whether the clients of a workspace are set up completely: what is missing, broken, or not trusted yet.

Whatever `adjourn init` would change counts as missing. If nothing was set up at all, there is one warning.

Owns: those findings. Must never: write, or start a client.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from adjourn.aex import canonical_server
from adjourn.errors import AdjournError
from adjourn.findings import Finding
from adjourn.policy import read_contract
from adjourn.setup import jsonc, servers, starting, toml_text, weakening
from adjourn.setup.files import read_plain
from adjourn.setup.places import (
    CLAUDE,
    CLAUDE_HOOKS,
    CLAUDE_LOCAL,
    CODEX_HOOKS,
    HOME_FILES,
    SERVER_FILES,
    Home,
    ServerFile,
    in_home,
)
from adjourn.setup.planning import SetupPlan, plan
from adjourn.setup.spelling import ListedEntry

_INIT = "`adjourn init` shows what it would change, and asks"
_WANTED = "check whether a person wanted it: an agent can write in a workspace"
_SAFE_START = "write the command again with `adjourn init`; PATH must name no folder of the workspace"


def findings(root: str, home: Home) -> Iterator[Finding]:
    """The findings about the set-up of this workspace's clients."""
    made = plan(root, home)
    commands = list(_commands(root))
    for name, words in commands:
        if problem := _cannot_start(words):
            yield _found(
                "client-program",
                f"{name}: {problem}",
                "write the path that `command -v adjourn` prints",
                name,
                "error",
            )
        elif problem := starting.problem(words, root):
            yield _found("client-start", f"{name}: {problem}", _SAFE_START, name, "error")
        elif starting.is_inside(words, root):
            yield _found(
                "client-inside",
                f"{name}: adjourn is installed in the workspace ({words[0]}), where an agent can change it",
                "install it elsewhere (`pipx install adjourn`), then `adjourn init`",
                name,
            )
    for note in made.broken:
        yield _found(
            "client-broken",
            f"{note.path}: {note.text}",
            note.remedy,
            os.path.relpath(note.path, root),
            "error",
        )
    yield from _weakened(root, commands)
    yield from _named_only(commands, made.proxied)
    if not commands:
        mentioned = [entry.path for entry in SERVER_FILES if _lists_others(root, entry)]
        if mentioned:
            yield _found(
                "client-not-set-up",
                f"no client is set up here; servers are listed in {', '.join(mentioned)}",
                _INIT,
            )
        return
    yield from _missing(made, root)
    yield from _search_refused(root)
    for note in made.notes:
        name = os.path.relpath(note.path, root)
        yield _found("client", note.text, note.remedy, name if not name.startswith("..") else note.path)


def _weakened(root: str, commands: list[tuple[str, list[str]]]) -> Iterator[Finding]:
    """The settings that make adjourn enforce less than the policy says, each once a file."""
    found = [(name, what, effect) for name, words in commands for what, effect in weakening.options(words)]
    for name in dict.fromkeys((*(entry.path for entry in SERVER_FILES), CLAUDE_HOOKS, CLAUDE_LOCAL)):
        document = _document(root, name)
        found += [(name, what, effect) for what, effect in weakening.variables(document)]
    for name, what, effect in dict.fromkeys(found):
        yield _found("client-weakened", f"{name}: {what} {effect}", _WANTED, name)


def _named_only(commands: list[tuple[str, list[str]]], proxied: set[str]) -> Iterator[Finding]:
    """Hooks that leave a server's tools to a proxy, although no settings put the server behind one."""
    for name, words in dict.fromkeys((name, tuple(words)) for name, words in commands):
        unknown = sorted(servers.proxied_by(words) - proxied)
        if unknown:
            yield _found(
                "client-proxied",
                f"{name}: --proxied names {', '.join(unknown)}, which no settings put behind the proxy",
                "remove what no person wrote",
                name,
            )


def listed_servers(root: str, at: Home) -> set[str]:
    """The canonical names of all servers that settings of the workspace and of the home folder list."""
    here = (*listed_entries(root), *(entry for _, entry in home_entries(at)))
    return {canonical_server(entry.name) for entry in here}


def has_code_behind_proxy(root: str) -> bool:
    """Whether a client starts the server for code behind the proxy: then the policy decides on its tools, too."""
    listed = (server for entry in SERVER_FILES for server in _servers(root, entry))
    return any(servers.is_code(server, root) and servers.is_behind(server, root) for server in listed)


def _lists_others(root: str, entry: ServerFile) -> bool:
    """Whether there is such a file, and it does not list the server for code alone, which needs no proxy."""
    listed = _servers(root, entry)
    alone = bool(listed) and all(servers.is_code(server, root) for server in listed)
    return os.path.lexists(os.path.join(root, entry.path)) and not alone


def _search_refused(root: str) -> Iterator[Finding]:
    """Claude Code lets its agent look a server's tools up before it calls one: without that, none is called."""
    listed = (server for entry in SERVER_FILES if entry.client == CLAUDE for server in _servers(root, entry))
    if not any(servers.is_behind(server, root) for server in listed):
        return
    with suppress(AdjournError):  # a broken policy has findings of its own
        policy = read_contract(root).policy
        if not policy.observe and policy.judge("tools.search").effect != "allow":
            yield _found(
                "client-search",
                "the policy refuses tools.search, so Claude Code finds no tool of a server, not even aex.resume",
                "permit it: use tools.search",
            )


def _missing(made: SetupPlan, root: str) -> Iterator[Finding]:
    hooked = {path for path, _ in hook_commands(root)}
    for change in made.pending:
        name = os.path.relpath(change.path, root)
        name = name if not name.startswith("..") else change.path
        is_spelling = name in hooked and all(about.startswith("hook for ") for about in change.about)
        what = "written in another way than now" if is_spelling else "not set up"
        yield _found("client-incomplete", f"{what}: {', '.join(change.about)}", _INIT, name)


def _commands(root: str) -> Iterator[tuple[str, list[str]]]:
    """Every command of adjourn in the files of the workspace, with its place."""
    for relative, command in hook_commands(root):
        yield relative, servers.hook_words(command)
    for entry in listed_entries(root):
        if servers.names_proxy(entry.server):
            yield entry.path, [entry.server["command"], *entry.server.get("args", [])]


def listed_entries(root: str) -> Iterator[ListedEntry]:
    """Every server that a file of the workspace lists."""
    for file in SERVER_FILES:
        yield from file.entries(_document(root, file.path), file.path)


def home_entries(at: Home) -> Iterator[tuple[ServerFile, ListedEntry]]:
    """Every server that a file of the home folder lists, with that file's row."""
    for file in HOME_FILES:
        folder, name = os.path.split(in_home(file, at))
        for entry in file.entries(_document(folder, name), f"~/{file.path}"):
            yield file, entry


def hook_commands(root: str) -> Iterator[tuple[str, str]]:
    """Every hook of adjourn in a file of the workspace: the file and the command."""
    for relative in (CLAUDE_HOOKS, CODEX_HOOKS):
        for command in _hook_commands(_document(root, relative)):
            yield relative, command


def _servers(root: str, file: ServerFile) -> list[Any]:
    return [entry.server for entry in file.entries(_document(root, file.path), file.path)]


def _document(root: str, relative: str) -> dict[str, Any]:
    try:
        text = read_plain(os.path.join(root, relative), root)
        value = toml_text.read(text) if relative.endswith(".toml") else jsonc.read(text).value
    except AdjournError:  # not there, or the plan has a note of it
        return {}
    return value if isinstance(value, dict) else {}


def _hook_commands(document: dict[str, Any]) -> Iterator[str]:
    """Every command of adjourn in a file of hooks, once."""
    waiting: list[Any] = [document.get("hooks")]
    seen: set[str] = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif servers.is_hook(value) and value not in seen:
            seen.add(value)
            yield value


def _cannot_start(words: list[str]) -> str:
    if not words:
        return "a command that cannot be read"
    program = os.path.expanduser(words[0])
    if shutil.which(program) is None:
        return f"{program} is not found" + ("" if "/" in program else " on this PATH")
    return ""


def _found(code: str, message: str, remedy: str, source: str = "", severity: Any = "warning") -> Finding:
    return Finding(code=code, message=message, severity=severity, source=source, help=remedy)
