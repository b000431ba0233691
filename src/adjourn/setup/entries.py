"""The servers that clients' settings list, as they can be started here: by their own command, with the variables that the client sets.

Owns: `ServerEntry`, and what clients write in place of a value (`${HOME}`, `${env:KEY}`). Must never: start a server.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from adjourn.aex import canonical_server
from adjourn.host import for_others
from adjourn.log import digest
from adjourn.setup.probe import ServerStart
from adjourn.setup.servers import words_of

_PLACEHOLDER = re.compile(r"\$?\{((?<=\$\{)[^{}]*|env:[^{}]*)\}")
_FOLDERS = ("workspaceFolder", "workspaceRoot", "CLAUDE_PROJECT_DIR")


class ServerEntry(NamedTuple):
    """A server of a client's settings: its canonical name, the file that lists it, its own command, variables and folder.

    `is_off`: the settings say that it is not to be started.
    """

    name: str
    path: str
    words: Sequence[str]
    env: Mapping[str, str]
    cwd: str = ""
    is_off: bool = False

    @property
    def command(self) -> str:
        """The command for the person who is asked."""
        return shlex.join(self.words)

    @property
    def command_digest(self) -> str:
        """What stands for the command in the store, as its proxy says it."""
        return digest(os.fsencode("\0".join(self.words)))[:16]

    @property
    def program(self) -> str:
        """The program, and the first word that names what it runs. Other words may be secrets, and a policy is for everybody."""
        named = next((word for word in self.words[1:] if not word.startswith("-")), "")
        return " ".join(filter(None, (os.path.basename(self.words[0]), os.path.basename(named))))


def entry_of(path: str, name: str, server: Any) -> ServerEntry | None:
    """The server of an entry, behind the proxy or not; None if it starts no command of its own."""
    words = words_of(server)
    if words is None:
        return None
    if "proxy" in words and "--" in words:
        words = words[words.index("--", words.index("proxy")) + 1 :]
    env, cwd = server.get("env"), server.get("cwd")
    if not words:
        return None
    return ServerEntry(
        canonical_server(name),
        path,
        words,
        {key: value for key, value in env.items() if isinstance(value, str)} if isinstance(env, dict) else {},
        cwd if isinstance(cwd, str) else "",
        server.get("disabled") is True or server.get("enabled") is False,
    )


def start_of(entry: ServerEntry, root: str, environment: Mapping[str, str]) -> ServerStart | str:
    """How the server is started in a workspace; the value that only its client knows, where it needs one."""
    given = for_others(environment)
    missing: list[str] = []

    def value_of(found: re.Match[str]) -> str:
        name, _, default = found[1].partition(":-")
        name = name.removeprefix("env:")
        if name in _FOLDERS:
            return root
        value = given.get("HOME" if name == "userHome" else name, default)
        if not value and ":-" not in found[1]:
            missing.append(found[0])
        return value

    words = [_PLACEHOLDER.sub(value_of, word) for word in entry.words]
    env = {name: _PLACEHOLDER.sub(value_of, value) for name, value in entry.env.items()}
    cwd = os.path.join(root, os.path.expanduser(_PLACEHOLDER.sub(value_of, entry.cwd)))
    return missing[0] if missing else ServerStart(words, given | for_others(env), cwd)
