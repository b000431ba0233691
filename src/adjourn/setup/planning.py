"""Plans which changes to settings files put the clients of a workspace under its policy.

A server that a client starts here is put behind the proxy where it stands. One that the home folder lists for every project stays as it
is there, since other projects have no policy; it gets an entry of the same name for this workspace alone, where the client has a
place for that. Whatever is not understood is left alone, with a note that says so.

Nothing is written here.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from adjourn.aex.layers import discover
from adjourn.aex.match import as_client_names_it, canonical_server
from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.setup import first_policy, jsonc, places, servers, toml_text
from adjourn.setup.places import (
    CLAUDE,
    CLAUDE_HOOKS,
    CLAUDE_LOCAL,
    CODEX,
    CODEX_HOOKS,
    CODEX_SERVERS,
    EVENTS,
    GEMINI,
    GEMINI_HOOKS,
    HOME_FILES,
    IGNORED,
    POLICY,
    SERVER_FILES,
    Home,
    ListedEntry,
    ServerFile,
    group,
    has_claude,
    has_codex,
    has_gemini,
    in_home,
    listed,
    member_at,
    ours,
    read_plain,
    table,
    user_folder,
)
from adjourn.setup.servers import ServerEntry, entry_of

IGNORED_FILES = """\
# Written by `adjourn init`: the history, and copies of settings. The policy and checkpoints belong into git.
/adjourn.db*
/undo/
"""


_BY_ALL = (
    "it is reached over HTTP, and listed in your home folder",
    "put it behind the proxy for every project: adjourn init --user",
)
_LONE_LF = re.compile(r"(?<!\r)\n")


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
    behind: dict[str, list[str]] = field(default_factory=dict)
    """Those of them that Claude Code and Codex start here, as their settings name them."""

    @property
    def pending(self) -> list[SettingsChange]:
        """The changes that would change a file."""
        return [change for change in self.changes.values() if change.after != change.before]


def plan(root: str, home: Home, start: str = "") -> SetupPlan:
    """What `adjourn init` would do in a workspace, when it is started in the folder `start` of it (default: at its top)."""
    return _Planner(root, home, servers.program(root), folders=inner_folders(root, start or root)).build()


def with_line_ends(before: str | None, after: str) -> str:
    """A file's new content with CRLF throughout, where it had nothing else before."""
    is_crlf = before is not None and "\n" in before and not _LONE_LF.search(before)
    return _LONE_LF.sub("\r\n", after) if is_crlf else after


def inner_folders(root: str, start: str) -> list[str]:
    """The folders below the workspace that lead to `start`, as paths from its top."""
    parts = os.path.relpath(start, root).split("/")
    return [] if parts[0] in (".", "..") else ["/".join(parts[: number + 1]) for number in range(len(parts))]


def plan_for_user(home: Home) -> SetupPlan:
    """What `adjourn init --user` would do in the home folder."""
    root = user_folder()
    return _Planner(root, home, servers.program(root), servers.PASS_OUTSIDE).build_for_user()


class _Planner:
    """`options` are those of each command that is written."""

    def __init__(
        self, root: str, home: Home, start: list[str], options: Sequence[str] = (), folders: Sequence[str] = ()
    ) -> None:
        self._root = root
        self._folders = folders
        self._files = [*SERVER_FILES, *(file.below(folder) for folder in folders for file in SERVER_FILES)]
        self._home = home
        self._start = start
        self._options = options
        self._has_claude = has_claude(root, home)
        self._plan = SetupPlan(root, home)
        self._names = servers.names_of([(entry.name, entry.server) for entry in self._listed()])

    def _listed(self) -> Iterator[ListedEntry]:
        """The entries of all files from which servers are put behind the proxy."""
        homes = [(file, in_home(file, self._home)) for file in HOME_FILES]
        here = [(file, self._path(file.path)) for file in self._files]
        for file, path in homes if self._options else [*here, *homes]:
            document = self._understood(path, _reader(path), is_ours=False, is_noted=False)
            yield from file.entries(document, path)
            if file.client == CLAUDE and path == self._home.claude:
                yield from listed(document, path, ("projects", self._root, "mcpServers"))

    def _name(self, entry: ListedEntry) -> str:
        """The canonical name of a server."""
        return servers.given_name(entry.server) or self._names.get(entry.name) or canonical_server(entry.name)

    def build(self) -> SetupPlan:
        self._policy()
        self._ignored()
        behind: dict[str, list[str]] = {entry.client: [] for entry in SERVER_FILES}
        for entry in self._files:
            behind[entry.client] += self._servers(entry)
        if self._has_claude:
            self._plugins()
            names = self._plan.behind[CLAUDE] = behind[CLAUDE] + self._claude_home()
            for folder in ("", *self._starting(".claude", ".mcp.json")):
                self._hooks(CLAUDE, "claude-code", os.path.join(folder, CLAUDE_HOOKS), names)
        elif behind[CLAUDE]:
            self._note(
                self._path(CLAUDE_HOOKS),
                "no hooks are registered: Claude Code was not found here, only the servers of .mcp.json",
                "if you use it, make the folder .claude and run adjourn init again",
            )
        if has_codex(self._root, self._home):
            names = self._plan.behind[CODEX] = behind[CODEX] + self._codex_home()
            for folder in ("", *self._starting(".codex")):
                self._hooks(CODEX, "codex", os.path.join(folder, CODEX_HOOKS), names)
        self._gemini(behind[GEMINI])
        for entry in HOME_FILES:
            if entry.client not in (CLAUDE, CODEX):
                self._elsewhere(entry)
        self._below()
        return self._plan

    def _starting(self, *names: str) -> list[str]:
        """The folders on the way to where this was started in which a client has settings of its own: it reads its hooks there."""
        return [
            folder
            for folder in self._folders
            if any(os.path.lexists(self._path(os.path.join(folder, name))) for name in names)
        ]

    def _below(self) -> None:
        """Note the settings of other folders below that list servers without the proxy."""
        for folder in places.folders_with_settings(self._root):
            if folder in self._folders:
                continue
            for file in (each.below(folder) for each in SERVER_FILES):
                path = self._path(file.path)
                document = self._understood(path, _reader(path), is_noted=False)
                direct = [
                    entry.name
                    for entry in file.entries(document, path)
                    if servers.words_of(entry.server)
                    and not servers.is_behind(entry.server, self._root)
                    and not servers.is_code(entry.server, self._root)
                ]
                if direct:
                    self._note(path, f"{', '.join(direct)}: not behind the proxy", f"run adjourn init in {folder}, too")

    def build_for_user(self) -> SetupPlan:
        behind: dict[str, list[str]] = {file.client: [] for file in HOME_FILES}
        for file in HOME_FILES:
            if file.starts_in:
                behind[file.client] += self._servers(file._replace(path=in_home(file, self._home)))
            if file.starts_in == "unknown" and behind[file.client]:
                self._note(
                    in_home(file, self._home),
                    f"{file.client} may start these servers in another folder than the project's, where no policy counts",
                    "list them in the project's settings instead, if it has any, and run adjourn init there",
                )
        if self._has_claude:
            self._hooks(CLAUDE, "claude-code", self._home.claude_settings, behind[CLAUDE])
        if has_codex(self._root, self._home):
            self._hooks(CODEX, "codex", self._home.codex_hooks, behind[CODEX])
        if has_gemini(self._root, self._home):
            self._hooks(GEMINI, "gemini", self._home.gemini, behind[GEMINI])
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
        earlier = self._plan.changes.get(path)
        before = earlier.before if earlier else self._text(path)
        after = with_line_ends(before, after)
        self._plan.changes[path] = SettingsChange(path, before, after, [*(earlier.about if earlier else []), about])

    def _note(self, path: str, text: str, remedy: str) -> None:
        if (note := SetupNote(path, text, remedy)) not in self._plan.notes:
            self._plan.notes.append(note)

    def _understood(self, path: str, read: Callable[[str], Any], *, is_ours: bool = True, is_noted: bool = True) -> Any:
        """The content of the file; None when it does not exist or must not be edited, which adds a note.

        A file that cannot be parsed is broken, unless it is not one (`is_ours`) that is ever changed.
        """
        try:
            text = self._text(path)
        except AdjournError as error:
            is_text = not isinstance(error.__cause__, UnicodeDecodeError)
            if is_noted:
                self._broken(path, error, is_ours=is_ours and not is_text)
            return None
        try:
            return None if text is None else read(text)
        except AdjournError as error:
            if is_noted:
                self._broken(path, error, is_ours=is_ours)
            return None

    def _broken(self, path: str, error: AdjournError, *, is_ours: bool) -> None:
        """Nothing is changed at all, unless the file is one that is left alone."""
        if not is_ours:
            self._note(path, f"left alone: {error.message}", error.remedy or "look at it")
        elif (note := SetupNote(path, error.message, error.remedy)) not in self._plan.broken:
            self._plan.broken.append(note)

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

    def _servers(self, file: ServerFile) -> list[str]:
        """Put the servers of a workspace's file behind the proxy. Returns the names of those that are."""
        path = self._path(file.path)
        document = self._understood(path, _reader(path))
        if all(member_at(document, member) is None for member in file.members):
            return []
        self._seen(file.client if file.client != CLAUDE or self._has_claude else file.path)
        return [entry.name for entry in file.entries(document, path) if self._wrap(entry)]

    def _wrap(self, entry: ListedEntry, into: tuple[str, Sequence[str]] | None = None) -> bool:
        """Whether a server is, or will be, behind the proxy. `into` is another place for its entry than its own."""
        path, name, server = entry.path, entry.name, entry.server
        canonical = self._name(entry)
        if server_entry := entry_of(path, name, server, canonical):
            folder = next((each for each in reversed(self._folders) if path.startswith(self._path(each) + "/")), "")
            self._take_in(server_entry._replace(cwd=os.path.join(folder, server_entry.cwd)) if folder else server_entry)
        if servers.names_proxy(server):
            return self._behind(entry, in_place=into is None)
        words, form = servers.words_of(server), servers.http_form(server)
        if words is None and (form is None or (into and into[0].endswith(".toml"))):
            why, remedy = servers.why_not(server) if form is None else _BY_ALL
            self._note(path, f"server {name} is not put behind the proxy: {why}", remedy)
            return False
        if not canonical:
            self._note(
                path,
                f"no rule can name the tools of server {name}: its name has no letter or digit",
                "give it another name, and run adjourn init again",
            )
        options = [*servers.named(canonical), *self._options]
        target, place = into or (path, entry.at)
        try:
            text = self._text(target) or ""
            if words is None and form is not None:
                after = self._by_url(text, entry._replace(at=place), form, options, is_new=into is not None)
            elif into:
                before = servers.proxy_words(self._start_of(server), options)
                after = self._with_entry(text, target, place, server, [*before, *(words or ())])
            else:
                after = self._led_by(text, entry, servers.proxy_words(self._start_of(server), options))
        except AdjournError as error:
            self._note(target, f"server {name} is left alone: {error.message}", error.remedy)
            return False
        self._change(target, after, f"server {name} behind the proxy")
        return True

    def _take_in(self, server: ServerEntry) -> None:
        """Add a server; note one that another file starts by another command."""
        same = (other for other in self._plan.servers if other.name == server.name and other.path != server.path)
        if (other := next(same, None)) and [*other.words] != [*server.words]:
            self._note(
                server.path,
                f"server {server.title} is another command than in {other.path}; the rules for {server.name} count for both",
                "if they are two servers, give one of them another name",
            )
        self._plan.servers.append(server)

    def _start_of(self, server: Any) -> list[str]:
        """The command that starts adjourn where a server's entry has it."""
        return servers.program(self._root, own_path=False) if servers.sets_path(server) else self._start

    def _with_entry(self, text: str, path: str, place: Sequence[str], server: Any, words: Sequence[str]) -> str:
        """The text with an entry of its own for a server that another file lists."""
        fields: dict[str, Any] = {"command": words[0], "args": list(words[1:])}
        if path.endswith(".toml"):
            return toml_text.with_table(text, place, fields | servers.passed_on(server))
        return jsonc.edited(text, place, {**server, **fields})

    def _by_url(
        self, text: str, entry: ListedEntry, form: servers.HttpForm, options: Sequence[str], *, is_new: bool
    ) -> str:
        """The text with an entry that reaches the server of `entry` by a proxy."""
        words = [*self._start, "proxy", *options, *form.words]
        if not is_new:
            passed = servers.passed_on(entry.server).get("env_vars", []) if entry.path.endswith(".toml") else []
            return places.with_proxy(text, entry, words, form.env, list(dict.fromkeys((*passed, *form.passed))))
        members = {name: value for name, value in entry.server.items() if name not in servers.HTTP_MEMBERS}
        own = {"type": "stdio", "command": words[0], "args": words[1:]} | ({"env": dict(form.env)} if form.env else {})
        return jsonc.edited(text, entry.at, members | own)

    def _led_by(self, text: str, entry: ListedEntry, words: Sequence[str]) -> str:
        """The text with words before the command of an entry."""
        text = places.with_words(text, entry, 0, words)
        passed = servers.passed_on(entry.server) if entry.path.endswith(".toml") else {}
        return places.with_members(text, entry, dict(passed))

    def _behind(self, entry: ListedEntry, *, in_place: bool) -> bool:
        """Whether a server whose entry names the proxy really is behind it, or will be."""
        if in_place and entry.path.endswith(".toml") and (passed := servers.passed_on(entry.server)):
            self._pass_on(entry, passed)
        if servers.is_behind(entry.server, self._root):
            if in_place:
                self._have_named(entry)
            return True
        if in_place and self._start_safely(entry):
            return True
        self._note(
            entry.path,
            f"server {entry.name} is left alone: {entry.server['command']} is not the adjourn that runs here",
            f"write {shlex.join(self._start)} instead; until then the hook decides on its tools",
        )
        return False

    def _start_safely(self, entry: ListedEntry) -> bool:
        words = servers.repaired(
            servers.words_of(entry.server) or [],
            self._start_of(entry.server),
            self._root,
            own_path=not servers.sets_path(entry.server),
        )
        if words is None:
            return False
        place = words.index("proxy") + 1
        words[place:place] = self._lacking(entry, words)
        with suppress(AdjournError):  # in another spelling: doctor names it
            text = places.with_command(self._text(entry.path) or "", entry, words)
            self._change(entry.path, text, f"server {entry.name} starts this adjourn, and nothing of the workspace")
            return True
        return False

    def _have_named(self, entry: ListedEntry) -> None:
        """Have a proxy that was set up before know the name of its server."""
        words = servers.words_of(entry.server) or []
        new = self._lacking(entry, words) if "proxy" in words else []
        if not new:
            return
        with suppress(AdjournError):  # in another spelling
            after = places.with_words(self._text(entry.path) or "", entry, words.index("proxy") + 1, new)
            self._change(entry.path, after, f"server {entry.name} has its name in policies")

    def _lacking(self, entry: ListedEntry, words: Sequence[str]) -> list[str]:
        """The options that a proxy's command is to have, and has not."""
        name = servers.named(self._name(entry)) if servers.lacks(words, "--name") else []
        return [*name, *(self._options if self._options and servers.lacks(words, self._options[0]) else ())]

    def _pass_on(self, entry: ListedEntry, passed: dict[str, list[str]]) -> None:
        with suppress(AdjournError):  # in another spelling; it may well be that none of it is set
            after = places.with_members(self._text(entry.path) or "", entry, dict(passed))
            self._change(entry.path, after, f"server {entry.name} sees its keys and its store")

    def _claude_home(self) -> list[str]:
        """Servers of Claude Code's own file: those of this project in place, those of the user for this project alone."""
        path = self._home.claude
        document = self._understood(path, _json)
        mine = table(table(table(document, "projects"), self._root), "mcpServers") or {}
        project = ("projects", self._root, "mcpServers")
        shared = table(self._understood(self._path(".mcp.json"), _json), "mcpServers") or {}
        names = [entry.name for entry in listed(document, path, project) if self._wrap(entry)]
        everywhere = listed(document, path, ("mcpServers",))
        local = {*mine, *shared}
        return names + [
            entry.name
            for entry in everywhere
            if entry.name not in local and self._wrap(entry, (path, (*project, entry.name)))
        ]

    def _plugins(self) -> None:
        """Take in the servers of plugins. They stay as they are, for every project: the hook decides on their tools."""
        files = [self._home.claude_settings, *map(self._path, (CLAUDE_HOOKS, CLAUDE_LOCAL))]
        settings = [self._understood(file, _json, is_noted=False) for file in files]
        for plugin, folder in places.plugin_folders(self._home, settings).items():
            path = os.path.join(folder, ".mcp.json")
            document = self._understood(path, _json, is_noted=False)
            named = table(document, "mcpServers") if "mcpServers" in (document or {}) else document
            for name, server in named.items() if isinstance(named, dict) else ():
                if entry := entry_of(path, f"plugin:{plugin}:{name}", server):
                    words = [word.replace("${CLAUDE_PLUGIN_ROOT}", folder) for word in entry.words]
                    env = {key: value.replace("${CLAUDE_PLUGIN_ROOT}", folder) for key, value in entry.env.items()}
                    self._take_in(entry._replace(words=words, env=env))

    def _codex_home(self) -> list[str]:
        """Servers of Codex's own file: each gets an entry of this project, which counts before it."""
        own = self._path(CODEX_SERVERS)
        mine = table(self._understood(own, toml_text.read), "mcp_servers") or {}
        document = self._understood(self._home.codex, toml_text.read)
        names = []
        for entry in listed(document, self._home.codex, ("mcp_servers",)):
            local = mine.get(entry.name) if isinstance(entry.server, dict) else None
            merged = {**entry.server, **local} if isinstance(local, dict) else entry.server
            if self._wrap(entry._replace(server=merged), (own, entry.at)):
                names.append(entry.name)
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
        return names

    def _has_reviewed(self, document: Any) -> bool:
        """Whether the user trusted hooks of this workspace in Codex. Which ones, in which version, only Codex knows."""
        state = table(table(document, "hooks"), "state")
        here = self._path(CODEX_HOOKS) + ":"
        return isinstance(state, dict) and any(
            key.startswith(here) and table(value, "trusted_hash") for key, value in state.items()
        )

    def _gemini(self, behind: list[str]) -> None:
        """Hooks of Gemini CLI, which reads no settings of a folder that the user has not trusted."""
        if not has_gemini(self._root, self._home):
            return
        for folder in ("", *self._starting(GEMINI_HOOKS)):
            self._hooks(GEMINI, "gemini", os.path.join(folder, GEMINI_HOOKS), behind)
        settings = self._understood(self._home.gemini, _json, is_noted=False)
        if table(table(table(settings, "security"), "folderTrust"), "enabled") is False:
            return
        path = os.path.join(os.path.dirname(self._home.gemini), "trustedFolders.json")
        trusted = self._understood(path, _json, is_noted=False) or {}
        states = {
            folder if state != "TRUST_PARENT" else os.path.dirname(folder): state for folder, state in trusted.items()
        }
        around = [folder for folder in states if f"{self._root}/".startswith(f"{folder.rstrip('/')}/")]
        if states.get(max(around, key=len, default="")) not in ("TRUST_FOLDER", "TRUST_PARENT"):
            self._note(
                self._path(GEMINI_HOOKS),
                "Gemini CLI reads nothing of .gemini in a folder that it does not trust",
                "start `gemini` here once, and trust the folder",
            )

    def _elsewhere(self, file: ServerFile) -> None:
        path = in_home(file, self._home)
        here = next((other.path for other in SERVER_FILES if other.client == file.client), "")
        for entry in file.entries(self._understood(path, _json, is_ours=False), path):
            if servers.is_behind(entry.server, self._root):  # of `init --user`
                if server_entry := entry_of(path, entry.name, entry.server, self._name(entry)):
                    self._take_in(server_entry)
            else:
                self._note(
                    path,
                    f"server {entry.name} of {file.client} is left alone: it is for every project",
                    f"list it in {here} instead" if here else f"{file.client} has no servers of one workspace",
                )

    # --- hooks

    def _hooks(self, client: str, option: str, relative: str, behind: list[str]) -> None:
        self._seen(client)
        path = self._path(relative)
        document = self._understood(path, _json)
        is_off = table(table(document, "hooksConfig"), "enabled") is False
        off = (
            "hooksConfig.enabled is false"
            if is_off
            else "disableAllHooks is on"
            if table(document, "disableAllHooks") is True
            else ""
        )
        if odd := places.odd_hooks(document, EVENTS[client]):
            self._broken(path, InvalidError(odd, f"write it as {client} documents it"), is_ours=True)
        names = [as_client_names_it(name) for name in behind]
        self._plan.proxied.update(names)
        if any(note.path == path for note in self._plan.broken):
            return
        there: dict[str, list[str]] = {}
        for event in EVENTS[client]:
            other = next((each for each in self._other_settings(client, path) if self._own_hook(each, event)), "")
            if other:
                there.setdefault(other, []).append(event)
                continue
            try:
                self._hook(path, client, option, event, names)
            except AdjournError as error:
                self._note(path, f"left alone: {error.message}", error.remedy)
                return
        for other, events in there.items():
            self._have_there(other, events, relative, names)
        if off:
            self._note(path, f"{off}: no hook is run", "remove it")

    def _have_there(self, path: str, events: Sequence[str], relative: str, names: Sequence[str]) -> None:
        """Note the hooks of other settings, which stay."""
        what = f"has a hook for {', '.join(events)} already"
        texts = servers.proxied_by(servers.hook_words(self._own_hook(path, events[0])))
        if more := sorted({*names} - texts):
            what += f", which also decides on the tools of {', '.join(more)}, as their proxy does"
        self._note(path, what, f"remove it there to register it in {relative}")

    def _own_hook(self, path: str, event: str) -> str:
        """The command of adjourn's hook for an event; "" for none."""
        hook = ours(self._understood(path, _json), event)
        return hook[1] if hook and servers.is_own_hook(hook[1], self._root) else ""

    def _other_settings(self, client: str, path: str) -> list[str]:
        """The other files that a client reads its hooks from, beside one of a folder."""
        if self._options:  # the user's own settings
            return []
        homes = {CLAUDE: self._home.claude_settings, CODEX: self._home.codex_hooks, GEMINI: self._home.gemini}
        local = os.path.join(os.path.dirname(path), os.path.basename(CLAUDE_LOCAL))
        return [*([local] if client == CLAUDE else []), homes[client]]

    def _hook(self, path: str, client: str, option: str, event: str, names: list[str]) -> None:
        text = self._text(path) or ""
        document = _json(text) if text.strip() else {}
        own = ours(document, event)
        earlier = own[1] if own else ""
        command = servers.hook_command(self._start, option, names, options=self._options, earlier=earlier)
        if own and earlier == command:
            return
        if own:
            after = jsonc.edited(text, (*own[0], "command"), command)
        else:
            groups = table(table(document, "hooks"), event)
            place = len(groups) if isinstance(groups, list) else 0
            if groups is None:
                if table(document, "hooks") is None and "hooks" in document:  # null
                    text = jsonc.edited(text, ("hooks",), {})
                after = jsonc.edited(text, ("hooks", event), [group(client, event, command)])
            else:
                after = jsonc.edited(text, ("hooks", event, place), group(client, event, command))
        self._change(path, after, f"hook for {event}")

    def _seen(self, client: str) -> None:
        if client not in self._plan.clients:
            self._plan.clients.append(client)


def _reader(path: str) -> Callable[[str], Any]:
    return toml_text.read if path.endswith(".toml") else _json


def _json(text: str) -> Any:
    document = jsonc.read(text).value
    if not isinstance(document, dict):
        raise InvalidError("it is not a JSON object", "make it a JSON object")
    return document
