"""Checks whether the clients of a workspace are set up completely: what is missing, broken, or not trusted yet.

Whatever `adjourn init` would change counts as missing. If nothing was set up at all, there is one warning.

Repairs and trials of what is found stand here, too. Nothing is written here, and no client started.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from adjourn.aex.match import canonical_server
from adjourn.errors import AdjournError
from adjourn.findings import Finding
from adjourn.host.executables import find
from adjourn.policy.contract import read_contract
from adjourn.setup import jsonc, servers, toml_text
from adjourn.setup.places import (
    CLAUDE,
    CLAUDE_HOOKS,
    CLAUDE_LOCAL,
    CODEX_HOOKS,
    GEMINI_HOOKS,
    HOME_FILES,
    SERVER_FILES,
    Home,
    ListedEntry,
    ServerFile,
    in_home,
    read_plain,
)
from adjourn.setup.planning import SettingsChange, SetupPlan, inner_folders, plan
from adjourn.setup.probe import Probed, ServerStart
from adjourn.setup.servers import ServerEntry, cache_around, entry_of, hook_words, names_proxy, shown_program, start_of

_INIT = "`adjourn init` shows what it would change, and asks"
_WANTED = "check whether a person wanted it: an agent can write in a workspace"
_SAFE_START = "write the command again with `adjourn init`; PATH must name no folder of the workspace"


def findings(root: str, home: Home, start: str = "") -> Iterator[Finding]:
    """The findings about the set-up of this workspace's clients, for a person who works in its folder `start`."""
    setup = plan(root, home, start)
    commands = list(_commands(root))
    for name, words in commands:
        if problem := _cannot_start(words):
            yield _found(
                "client-program", f"{name}: {problem}", "write the path that `command -v adjourn` prints", name, "error"
            )
        elif problem := servers.problem(words, root):
            yield _found("client-start", f"{name}: {problem}", _SAFE_START, name, "error")
        elif servers.is_inside(words, root):
            yield _found(
                "client-inside",
                f"{name}: adjourn is installed in the workspace ({words[0]}), where an agent can change it",
                "install it elsewhere (`pipx install adjourn`), then `adjourn init`",
                name,
            )
    for note in setup.broken:
        yield _found(
            "client-broken", f"{note.path}: {note.text}", note.remedy, os.path.relpath(note.path, root), "error"
        )
    yield from _weakened(root, commands)
    yield from _named_only(commands, setup.proxied)
    if not commands:
        inner = {os.path.relpath(entry.path, root) for entry in setup.servers} - {file.path for file in SERVER_FILES}
        mentioned = [entry.path for entry in SERVER_FILES if _lists_others(root, entry)]
        mentioned += sorted(path for path in inner if not path.startswith(".."))
        if mentioned:
            yield _found(
                "client-not-set-up", f"no client is set up here; servers are listed in {', '.join(mentioned)}", _INIT
            )
        return
    yield from _missing(setup, root)
    yield from _search_refused(root)
    for note in setup.notes:
        name = os.path.relpath(note.path, root)
        yield _found("client", note.text, note.remedy, name if not name.startswith("..") else note.path)


def _weakened(root: str, commands: list[tuple[str, list[str]]]) -> Iterator[Finding]:
    """The settings that make adjourn enforce less than the policy says, each once a file."""
    weakenings = [(name, what, effect) for name, words in commands for what, effect in options(words)]
    for name in dict.fromkeys((*(entry.path for entry in SERVER_FILES), CLAUDE_HOOKS, CLAUDE_LOCAL)):
        document = _document(root, name)
        weakenings += [(name, what, effect) for what, effect in variables(document)]
    for name, what, effect in dict.fromkeys(weakenings):
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


def needing_policy(root: str) -> list[str]:
    """The servers and the files with hooks that do nothing without a policy of the workspace."""
    of_hooks = [(path, servers.hook_words(command)) for path, command in hook_commands(root)]
    of_servers = [
        (f"server {entry.name}", [entry.server["command"], *entry.server.get("args", [])])
        for entry in listed_entries(root)
        if servers.is_behind(entry.server, root)
    ]
    has_own = {"--policy", "--allow-no-policy"}
    return list(
        dict.fromkeys(name for name, words in (*of_servers, *of_hooks) if has_own.isdisjoint(dict(options(words))))
    )


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


def _missing(setup: SetupPlan, root: str) -> Iterator[Finding]:
    hooked = {path for path, _ in hook_commands(root)}
    for change in setup.pending:
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


def listed_entries(root: str, start: str = "") -> Iterator[ListedEntry]:
    """Every server that a file of the workspace lists, or one on the way to its folder `start`."""
    for folder in ("", *inner_folders(root, start or root)):
        for file in (each.below(folder) for each in SERVER_FILES):
            yield from file.entries(_document(root, file.path), file.path)


def home_entries(at: Home) -> Iterator[tuple[ServerFile, ListedEntry]]:
    """Every server that a file of the home folder lists, with that file's row."""
    for file in HOME_FILES:
        folder, name = os.path.split(in_home(file, at))
        for entry in file.entries(_document(folder, name), f"~/{file.path}"):
            yield file, entry


def hook_commands(root: str) -> Iterator[tuple[str, str]]:
    """Every hook of adjourn in a file of the workspace: the file and the command."""
    for relative in (CLAUDE_HOOKS, CODEX_HOOKS, GEMINI_HOOKS):
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


# --- client settings of a workspace that make adjourn enforce less than the workspace's policy says

OPTIONS = {
    "-C": "works in another folder, and under its policy",
    "--allow-no-policy": "allows every call if there is no policy",
    "--auto-confirm": "forwards calls that need confirmation, without asking",
    "--confirm-timeout": "sets how long a call waits for a person",
    "--errors": "changes what a refused call looks like to the agent",
    "--format": "changes what a refused call looks like to the client",
    "--outside": "says what happens outside any workspace",
    "--policy": "replaces the workspace's policy",
    "--store": "records in another store",
    "--take-over": "fences off other sessions that hold the task",
    "--task": "counts calls in a separate task",
}
VARIABLES = {
    "CLAUDE_PID": "sets the process that a hook works for",
    "CLAUDE_PROJECT_DIR": "sets the workspace",
    "HOME": "selects other keys",
    "XDG_CONFIG_HOME": "selects other keys",
    "LD_AUDIT": "has the proxy itself load other code",
    "LD_LIBRARY_PATH": "has the proxy itself load other code",
    "LD_PRELOAD": "has the proxy itself load other code",
    "DYLD_INSERT_LIBRARIES": "has the proxy itself load other code",
    "DYLD_LIBRARY_PATH": "has the proxy itself load other code",
    "PYTHONHOME": "has the proxy itself load other code",
    "PYTHONPATH": "has the proxy itself load other code",
    "PYTHONUSERBASE": "has the proxy itself load other code",
    "ADJOURN_CONFIG": "selects other keys",
    "ADJOURN_STORE": "records in another store",
    "ADJOURN_TASK": "counts calls in a separate task",
}
_PREFIX = "ADJOURN_"


def options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each such option of a command of adjourn, and what it does. What follows `--` is the server's."""
    own = words[: words.index("--")] if "--" in words else words
    for word in own:
        name = word.partition("=")[0]
        if name in OPTIONS:
            yield name, OPTIONS[name]


def variables(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each such variable that settings set, for the client, a server or a shell, and what it does."""
    names: dict[str, str] = {}
    waiting: list[Any] = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            for member, inner in value.items():
                if member in ("env", "environment", "set") and isinstance(inner, dict):
                    names |= {name: _effect(name) for name in inner if _effect(name)}
                waiting.append(inner)
    yield from sorted(names.items())


def _effect(name: str) -> str:
    return VARIABLES.get(name, "is one of adjourn's own" if name.startswith(_PREFIX) else "")


# --- settings that start an adjourn that no longer exists at that path


def moved_programs(root: str) -> Iterator[SettingsChange]:
    """A change for each file of the workspace that names a path of adjourn at which nothing is; none if none that lasts is on PATH."""
    own_program = find("adjourn", root) or ""
    lasts = own_program and not cache_around(os.path.dirname(os.path.dirname(os.path.realpath(own_program))))
    programs = [(path, (hook_words(command) or [""])[0]) for path, command in hook_commands(root)]
    programs += [(entry.path, entry.server["command"]) for entry in listed_entries(root) if names_proxy(entry.server)]
    gone: dict[str, set[str]] = {}
    for path, program in programs:
        if os.path.isabs(program) and os.path.basename(program) == "adjourn" and not os.path.exists(program):
            gone.setdefault(path, set()).add(program)
    for path, names in gone.items() if lasts else ():
        full = os.path.join(root, path)
        try:
            before = after = read_plain(full, root)
        except AdjournError:
            continue
        for name in sorted(names):
            whole_path = rf"(?<![\w./-]){re.escape(json.dumps(name)[1:-1])}(?![\w./-])"
            after = re.sub(whole_path, lambda _: json.dumps(own_program)[1:-1], after)
        yield SettingsChange(full, before, after, [f"start {own_program} in the place of {', '.join(sorted(names))}"])


# --- what a workspace's settings register, as a client would start it


class RegisteredServer(NamedTuple):
    """A server of the settings, and how its client starts it: behind the proxy, or directly. `reason` says why it cannot be tried."""

    entry: ServerEntry
    start: ServerStart | None
    is_proxied: bool
    reason: str = ""

    def behind(self, root: str) -> str:
        """The command of its proxy; "" if it is behind none."""
        if self.start is None or not self.is_proxied:
            return ""
        words = list(self.start.words)[1:]
        options = shlex.join(words[: words.index("--")] if "--" in words else words)
        return f"{shown_program(self.start, root)} {options}"

    def own_start(self, root: str, environment: Mapping[str, str]) -> ServerStart | None:
        """How the server itself is started, by its proxy or directly."""
        start = start_of(self.entry, root, environment)
        return None if isinstance(start, str) else start

    def failure(self, probed: Probed) -> str:
        """Why it lists no tools, as a sentence; "" if it does."""
        if not probed.failure:
            return ""
        _, ours, reason = probed.failure.partition("the MCP server ")
        message = f"the MCP server {reason if ours and self.is_proxied else probed.failure}"
        lines = "; ".join(line for line in probed.errors[-3:] if not line.startswith("adjourn: "))
        return message if "(stderr: " in message or not lines else f"{message} (stderr: {lines})"


def registered_servers(
    root: str, environment: Mapping[str, str], at: Home, start_folder: str = ""
) -> list[RegisteredServer]:
    """The servers that clients start in the workspace, each command once: those of its settings, and those of the home folder that
    are behind the proxy. None that is switched off. Also those of settings on the way to the folder that a person works in.
    """
    by_name: dict[tuple[str, ...], RegisteredServer] = {}
    of_home = (
        entry for file, entry in home_entries(at)
        if file.starts_in == "project" and servers.is_behind(entry.server, root)
    )  # fmt: skip
    names = {each.path for each in SERVER_FILES}
    for listed in (*listed_entries(root, start_folder), *of_home):
        server = listed.server
        entry, words = entry_of(listed.path, listed.name, server), servers.words_of(server)
        if entry is None or words is None or entry.is_off:
            continue
        if listed.path not in names and not listed.path.startswith("~"):
            folder = next(listed.path.removesuffix(f"/{name}") for name in names if listed.path.endswith(f"/{name}"))
            entry = entry._replace(cwd=os.path.join(folder, entry.cwd))
        is_proxied = servers.is_behind(server, root)
        full = entry._replace(words=words) if is_proxied else entry
        start = start_of(full, root, environment)
        if isinstance(start, str):
            registered = RegisteredServer(entry, None, is_proxied, f"needs {start}, which only its client knows")
        else:
            own = {key: value for key, value in {**environment, **entry.env}.items() if is_proxied}
            registered = RegisteredServer(entry, start._replace(environment={**own, **start.environment}), is_proxied)
        by_name.setdefault((entry.name, *words), registered)
    return list(by_name.values())


def hooks_to_try(root: str) -> Iterator[tuple[str, ServerStart]]:
    """Each hook of the adjourn that runs here with the file that has it, started as its client would, but without standing by.

    None with options that have it use another store or folder: the settings may be those of a repository, and nobody is asked.
    """
    for path, command in dict.fromkeys(hook_commands(root)):
        words = [word for word in servers.hook_words(command) if word != "--stay"]
        if servers.is_own_hook(command, root) and not any(options(words)):
            environment = {**os.environ, "CLAUDE_PROJECT_DIR": root}
            yield path, ServerStart([os.path.expanduser(words[0]), *words[1:]], environment, root)
