"""What a workspace's settings register, as a client would start it: servers behind the proxy or not, and hooks.

Owns: how each is started. Must never: start a server, or a hook of another program than the adjourn that runs here.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from adjourn.setup import servers, weakening
from adjourn.setup.checks import home_entries, hook_commands, listed_entries
from adjourn.setup.entries import ServerEntry, entry_of, start_of
from adjourn.setup.places import Home
from adjourn.setup.probe import Probed, ServerStart
from adjourn.setup.shown_start import shown_program


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
        found = start_of(self.entry, root, environment)
        return None if isinstance(found, str) else found

    def failure(self, found: Probed) -> str:
        """Why it lists no tools, as a sentence; "" if it does."""
        if not found.failure:
            return ""
        _, ours, said = found.failure.partition("the MCP server ")
        told = f"the MCP server {said if ours and self.is_proxied else found.failure}"
        shown = "; ".join(line for line in found.errors[-3:] if not line.startswith("adjourn: "))
        return told if "(stderr: " in told or not shown else f"{told} (stderr: {shown})"


def registered_servers(root: str, environment: Mapping[str, str], at: Home) -> list[RegisteredServer]:
    """The servers that clients start in the workspace, each command once: those of its settings, and those of the home folder that
    are behind the proxy. None that is switched off.
    """
    found: dict[tuple[str, ...], RegisteredServer] = {}
    of_home = (
        entry for file, entry in home_entries(at)
        if file.starts_in == "project" and servers.is_behind(entry.server, root)
    )  # fmt: skip
    for listed in (*listed_entries(root), *of_home):
        server = listed.server
        entry, words = entry_of(listed.path, listed.name, server), servers.words_of(server)
        if entry is None or words is None or entry.is_off:
            continue
        is_proxied = servers.is_behind(server, root)
        whole = entry._replace(words=words) if is_proxied else entry
        start = start_of(whole, root, environment)
        if isinstance(start, str):
            one = RegisteredServer(entry, None, is_proxied, f"needs {start}, which only its client knows")
        else:
            own = {key: value for key, value in {**environment, **entry.env}.items() if is_proxied}
            one = RegisteredServer(
                entry, start._replace(environment={**own, **start.environment}), is_proxied
            )
        found.setdefault((entry.name, *words), one)
    return list(found.values())


def hooks_to_try(root: str) -> Iterator[tuple[str, ServerStart]]:
    """Each hook of the adjourn that runs here with the file that has it, started as its client would, but without standing by.

    None with options that have it use another store or folder: the settings may be those of a repository, and nobody is asked.
    """
    for path, command in dict.fromkeys(hook_commands(root)):
        words = [word for word in servers.hook_words(command) if word != "--stay"]
        if servers.is_own_hook(command, root) and not any(weakening.options(words)):
            environment = {**os.environ, "CLAUDE_PROJECT_DIR": root}
            yield path, ServerStart([os.path.expanduser(words[0]), *words[1:]], environment, root)
