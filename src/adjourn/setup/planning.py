"""Plans which changes to settings files put the clients of a workspace under its policy.

A server that a client starts here is put behind the proxy where it stands. One that the home folder lists for every project stays as it
is there, since other projects have no policy; it gets an entry of the same name for this workspace alone, where the client has a
place for that. Whatever is not understood is left alone, with a note that says so.

Owns: reading the files, the plan. Must never: write.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from adjourn.aex import as_client_names_it, canonical_server, discover
from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.setup import first_policy, jsonc, servers, starting, toml_text
from adjourn.setup.entries import ServerEntry, entry_of
from adjourn.setup.files import read_plain
from adjourn.setup.places import (
    CLAUDE,
    CLAUDE_HOOKS,
    CLAUDE_LOCAL,
    CODEX,
    CODEX_HOOKS,
    ELSEWHERE,
    IGNORED,
    POLICY,
    SERVER_FILES,
    Home,
    ServerFile,
    has_claude,
    has_codex,
)
from adjourn.setup.registered import EVENTS, group, ours, table, table_at

IGNORED_FILES = """\
# Written by `adjourn init`: the history, and copies of settings. The policy and checkpoints belong into git.
/adjourn.db*
/undo/
"""


class SettingsChange(NamedTuple):
    """A file's content now (None: it does not exist), its new content, and what the change does."""

    path: str
    before: str | None
    after: str
    about: list[str]


class SetupNote(NamedTuple):
    """Something that was not changed, or that the user has to do, and the remedy."""

    path: str
    text: str
    remedy: str


@dataclass
class SetupPlan:
    """The changes by path, in order, and notes for the user."""

    root: str
    home: Home
    changes: dict[str, SettingsChange] = field(default_factory=dict)
    notes: list[SetupNote] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    broken: list[SetupNote] = field(default_factory=list)
    """The settings that cannot be parsed. Nothing may be written while there are any."""
    servers: list[ServerEntry] = field(default_factory=list)
    """The servers that start a command, as the settings list them."""
    proxied: set[str] = field(default_factory=set)
    """The servers that are, or will be, behind the proxy of a client with hooks, as it names them."""

    @property
    def pending(self) -> list[SettingsChange]:
        """The changes that would change a file."""
        return [change for change in self.changes.values() if change.after != change.before]


def plan(root: str, home: Home) -> SetupPlan:
    """What `adjourn init` would do in a workspace."""
    return _Planner(root, home, starting.program(root)).made()


class _Planner:
    def __init__(self, root: str, home: Home, start: list[str]) -> None:
        self._root = root
        self._home = home
        self._start = start
        self._has_claude = has_claude(root, home)
        self._plan = SetupPlan(root, home)

    def made(self) -> SetupPlan:
        self._policy()
        self._ignored()
        behind = {entry.client: self._servers(entry) for entry in SERVER_FILES}
        if self._has_claude:
            names = behind[CLAUDE] + self._claude_home()
            self._hooks(CLAUDE, "claude-code", CLAUDE_HOOKS, names)
        elif behind[CLAUDE]:
            self._note(
                self._path(CLAUDE_HOOKS),
                "no hooks are registered: Claude Code was not found here, only the servers of .mcp.json",
                "if you use it, make the folder .claude and run adjourn init again",
            )
        if has_codex(self._root, self._home):
            names = behind[CODEX] + self._codex_home()
            self._hooks(CODEX, "codex", CODEX_HOOKS, names)
        for entry in ELSEWHERE:
            self._elsewhere(entry)
        return self._plan

    # --- reading and changing a file

    def _path(self, relative: str) -> str:
        return os.path.join(self._root, relative)

    def _text(self, path: str) -> str | None:
        """The text of a file as planned so far; None when there is none. Raises `AdjournError` for a file that must not be edited."""
        if path in self._plan.changes:
            return self._plan.changes[path].after
        try:
            return read_plain(path, self._root)
        except NotFoundError:
            return None

    def _change(self, path: str, after: str, about: str) -> None:
        known = self._plan.changes.get(path)
        before = known.before if known else self._text(path)
        self._plan.changes[path] = SettingsChange(
            path, before, after, [*(known.about if known else []), about]
        )

    def _note(self, path: str, text: str, remedy: str) -> None:
        if (note := SetupNote(path, text, remedy)) not in self._plan.notes:
            self._plan.notes.append(note)

    def _understood(self, path: str, read: Callable[[str], Any], *, is_ours: bool = True) -> Any:
        """The content of the file; None when it does not exist or must not be edited, which adds a note.

        A file that cannot be parsed is broken, unless it is not one (`is_ours`) that is ever changed.
        """
        try:
            text = self._text(path)
        except AdjournError as error:
            self._note(path, f"left alone: {error.message}", error.remedy or "look at it")
            return None
        try:
            return None if text is None else read(text)
        except AdjournError as error:
            if not is_ours:
                self._note(path, f"left alone: {error.message}", error.remedy)
            elif (note := SetupNote(path, error.message, error.remedy)) not in self._plan.broken:
                self._plan.broken.append(note)
            return None

    # --- the policy, without which nothing starts

    def _policy(self) -> None:
        if discover(self._root) is None:
            self._plan.changes[self._path(POLICY)] = SettingsChange(
                self._path(POLICY), None, first_policy.compose(()), ["a first policy"]
            )

    def _ignored(self) -> None:
        path = self._path(IGNORED)
        with suppress(AdjournError):  # a link, which is refused when the policy is written
            if self._text(path) is None:
                self._change(path, IGNORED_FILES, "git ignores the history and the copies of settings")

    # --- servers

    def _servers(self, entry: ServerFile) -> list[str]:
        """Put the servers of a workspace's file behind the proxy. Returns the names of those that are."""
        path = self._path(entry.path)
        read = toml_text.read if path.endswith(".toml") else _json
        listed = table(self._understood(path, read), entry.member)
        if listed is None:
            return []
        self._seen(entry.client if entry.client != CLAUDE or self._has_claude else entry.path)
        return [name for name, server in listed.items() if self._wrap(path, (entry.member, name), server)]

    def _wrap(
        self, path: str, at: Sequence[str], server: Any, into: tuple[str, Sequence[str]] | None = None
    ) -> bool:
        """Whether a server is, or will be, behind the proxy. `into` is another place for its entry than its own."""
        name = at[-1]
        if entry := entry_of(path, name, server):
            self._plan.servers.append(entry)
        if servers.names_proxy(server):
            return self._behind(path, at, server, in_place=into is None)
        changed = servers.behind_proxy(server, self._start, canonical_server(name))
        if changed is None:
            self._note(
                path,
                f"server {name} is not put behind the proxy: {servers.why_not(server)}",
                "the policy does not reach it",
            )
            return False
        fields, new = changed
        target, place = into or (path, at)
        try:
            text = self._text(target) or ""
            if into:
                after = self._with_entry(text, target, place, server, fields)
            else:
                after = self._led_by(text, target, place, fields, new)
        except AdjournError as error:
            self._note(target, f"server {name} is left alone: {error.message}", error.remedy)
            return False
        self._change(target, after, f"server {name} behind the proxy")
        return True

    def _with_entry(
        self, text: str, path: str, at: Sequence[str], server: Any, fields: dict[str, Any]
    ) -> str:
        """The text with an entry of its own for a server that another file lists."""
        if path.endswith(".toml"):
            return toml_text.with_table(text, at, fields | servers.passed_on(server))
        return jsonc.edited(text, at, {**server, **fields})

    def _led_by(self, text: str, path: str, at: Sequence[str], fields: dict[str, Any], new: int) -> str:
        """The text with the `command` of an entry, and `new` words before those in its `args`, where comments may stand."""
        has_words = len(fields["args"]) > new
        if path.endswith(".toml"):
            passed = servers.passed_on(table_at(toml_text.read(text), at))
            if has_words:
                text = toml_text.with_words(text, at, "args", "", fields["args"][:new])
                fields = {"command": fields["command"]}
            return toml_text.with_table(text, at, fields | passed)
        text = jsonc.edited(text, (*at, "command"), fields["command"])
        if has_words:
            return jsonc.inserted(text, (*at, "args"), 0, fields["args"][:new])
        return jsonc.edited(text, (*at, "args"), fields["args"])

    def _behind(self, path: str, at: Sequence[str], server: Any, *, in_place: bool) -> bool:
        """Whether a server whose entry names the proxy really is behind it, or will be."""
        if in_place and path.endswith(".toml") and (passed := servers.passed_on(server)):
            self._pass_on(path, at, passed)
        if servers.is_behind(server, self._root):
            if in_place:
                self._name(path, at, server)
            return True
        if in_place and self._start_safely(path, at, server):
            return True
        self._note(
            path,
            f"server {at[-1]} is left alone: {server['command']} is not the adjourn that runs here",
            f"write {shlex.join(self._start)} instead; until then the hook decides on its tools",
        )
        return False

    def _start_safely(self, path: str, at: Sequence[str], server: Any) -> bool:
        words = starting.repaired(servers.words_of(server) or [], self._start, self._root)
        if words is None:
            return False
        place = words.index("proxy") + 1
        words[place:place] = servers.named(canonical_server(at[-1])) if servers.lacks_name(words) else []
        fields: dict[str, str | list[str]] = {"command": words[0], "args": words[1:]}
        with suppress(AdjournError):  # in another spelling: doctor names it
            text = self._text(path) or ""
            if path.endswith(".toml"):
                text = toml_text.with_table(text, at, fields)
            else:
                for member, value in fields.items():
                    text = jsonc.edited(text, (*at, member), value)
            self._change(path, text, f"server {at[-1]} starts this adjourn, and nothing of the workspace")
            return True
        return False

    def _name(self, path: str, at: Sequence[str], server: Any) -> None:
        """Have a proxy that was set up before know the name of its server."""
        name, words = canonical_server(at[-1]), server.get("args", [])
        if not name or "proxy" not in words or not servers.lacks_name(words):
            return
        with suppress(AdjournError):  # in another spelling
            text, new = self._text(path) or "", servers.named(name)
            if path.endswith(".toml"):
                after = toml_text.with_words(text, at, "args", "proxy", new)
            else:
                after = jsonc.inserted(text, (*at, "args"), words.index("proxy") + 1, new)
            self._change(path, after, f"server {at[-1]} has its name in policies")

    def _pass_on(self, path: str, at: Sequence[str], passed: dict[str, list[str]]) -> None:
        with suppress(AdjournError):  # in another spelling; it may well be that none of it is set
            after = toml_text.with_table(self._text(path) or "", at, passed)
            self._change(path, after, f"server {at[-1]} sees its keys and its store")

    def _claude_home(self) -> list[str]:
        """Servers of Claude Code's own file: those of this project in place, those of the user for this project alone."""
        path = self._home.claude
        document = self._understood(path, _json)
        mine = table(table(table(document, "projects"), self._root), "mcpServers") or {}
        everywhere = table(document, "mcpServers") or {}
        project = ("projects", self._root, "mcpServers")
        shared = table(self._understood(self._path(".mcp.json"), _json), "mcpServers") or {}
        found = [name for name, server in mine.items() if self._wrap(path, (*project, name), server)]
        for name, server in everywhere.items():
            if (
                name not in mine
                and name not in shared
                and self._wrap(path, ("mcpServers", name), server, (path, (*project, name)))
            ):
                found.append(name)
        return found

    def _codex_home(self) -> list[str]:
        """Servers of Codex's own file: each gets an entry of this project, which counts before it."""
        own = self._path(".codex/config.toml")
        mine = table(self._understood(own, toml_text.read), "mcp_servers") or {}
        document = self._understood(self._home.codex, toml_text.read)
        everywhere = table(document, "mcp_servers") or {}
        found = []
        for name, server in everywhere.items():
            merged = (
                {**server, **mine[name]}
                if isinstance(mine.get(name), dict) and isinstance(server, dict)
                else server
            )
            if self._wrap(self._home.codex, ("mcp_servers", name), merged, (own, ("mcp_servers", name))):
                found.append(name)
        trusted = table(table(table(document, "projects"), self._root), "trust_level")
        if trusted != "trusted":
            self._note(
                self._home.codex,
                "Codex does not trust this folder yet, and reads nothing of its .codex before",
                "start `codex` here once and accept the prompt; then review the hooks with /hooks, and trust them",
            )
        elif not self._has_reviewed(document):
            self._note(
                self._path(CODEX_HOOKS),
                "Codex silently skips these hooks until a person has trusted them",
                "type /hooks in `codex` here, review them, and trust them",
            )
        return found

    def _has_reviewed(self, document: Any) -> bool:
        """Whether the user trusted hooks of this workspace in Codex. Which ones, in which version, only Codex knows."""
        state = table(table(document, "hooks"), "state")
        here = self._path(CODEX_HOOKS) + ":"
        return isinstance(state, dict) and any(
            key.startswith(here) and table(value, "trusted_hash") for key, value in state.items()
        )

    def _elsewhere(self, entry: ServerFile) -> None:
        path = os.path.join(self._home.folder, entry.path)
        listed = table(self._understood(path, _json, is_ours=False), entry.member) or {}
        here = next((one.path for one in SERVER_FILES if one.client == entry.client), "")
        for name, server in listed.items():
            if not servers.is_behind(server, self._root):
                self._note(
                    path,
                    f"server {name} of {entry.client} is left alone: it is for every project",
                    f"list it in {here} instead"
                    if here
                    else f"{entry.client} has no servers of one workspace",
                )

    # --- hooks

    def _hooks(self, client: str, option: str, relative: str, behind: list[str]) -> None:
        self._seen(client)
        path = self._path(relative)
        disabled = table(self._understood(path, _json), "disableAllHooks") is True
        names = [as_client_names_it(name) for name in behind]
        self._plan.proxied.update(names)
        if any(note.path == path for note in self._plan.broken):
            return
        for event in EVENTS[client]:
            other = next((one for one in self._other_settings(client) if self._has_own_hook(one, event)), "")
            if other:
                self._note(
                    other, f"has a hook for {event} already", f"take it out there to have it in {relative}"
                )
                continue
            try:
                self._hook(path, client, option, event, names)
            except AdjournError as error:
                self._note(path, f"left alone: {error.message}", error.remedy)
                return
        if disabled:
            self._note(path, "disableAllHooks is on: no hook is run", "take it out")

    def _has_own_hook(self, path: str, event: str) -> bool:
        found = ours(self._understood(path, _json), event)
        return found is not None and servers.is_own_hook(found[1], self._root)

    def _other_settings(self, client: str) -> list[str]:
        return [self._path(CLAUDE_LOCAL), self._home.claude_settings] if client == CLAUDE else []

    def _hook(self, path: str, client: str, option: str, event: str, names: list[str]) -> None:
        text = self._text(path) or ""
        document = _json(text) if text.strip() else {}
        found = ours(document, event)
        earlier = found[1] if found else ""
        command = servers.hook_command(self._start, option, names, earlier=earlier)
        if found and earlier == command:
            return
        if found:
            after = jsonc.edited(text, (*found[0], "command"), command)
        else:
            groups = table(table(document, "hooks"), event)
            place = len(groups) if isinstance(groups, list) else 0
            if groups is None:
                after = jsonc.edited(text, ("hooks", event), [group(client, event, command)])
            else:
                after = jsonc.edited(text, ("hooks", event, place), group(client, event, command))
        self._change(path, after, f"hook for {event}")

    def _seen(self, client: str) -> None:
        if client not in self._plan.clients:
            self._plan.clients.append(client)


def _json(text: str) -> Any:
    document = jsonc.read(text).value
    if not isinstance(document, dict):
        raise InvalidError("it is not a JSON object", "make it a JSON object")
    return document
