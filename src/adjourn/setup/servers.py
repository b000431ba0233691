"""How a client starts a server, and how it starts the same one behind the proxy.

Owns: recognising either. Must never: read a file.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from adjourn.setup.starting import after_program

_SHELL = re.compile(r"[;&|<>`$(){}\n\r]")
"""Shell constructs that may hide a hook's answer, or its exit code, from the client."""
SHARED = ("ADJOURN_CONFIG", "ADJOURN_STORE", "ADJOURN_TASK", "XDG_CONFIG_HOME")
"""The variables that select the store and the user's keys; hooks and proxy must have the same."""
_IS_OURS = re.compile(r"(^|[\s/'\"])adjourn['\"]?\s+(hook|gate)(\s|$)")


def is_behind(server: Any, root: str) -> bool:
    """Whether a server's entry starts the proxy of the adjourn that runs here."""
    words = words_of(server) or [""]
    return not (sets_path(server) and "/" not in words[0]) and (after_program(words, root) or [])[:1] == [
        "proxy"
    ]


def sets_path(server: Any) -> bool:
    """Whether a server's entry sets the PATH that its program is looked up with."""
    env = server.get("env") if isinstance(server, dict) else None
    return isinstance(env, dict) and "PATH" in env


def names_proxy(server: Any) -> bool:
    """Whether a server's entry names the proxy, whichever program it starts."""
    words = words_of(server) or []
    return any(
        os.path.basename(word).partition(".")[0] == "adjourn" and after == "proxy"
        for word, after in pairwise(words)
    )


def is_code(server: Any, root: str) -> bool:
    """Whether a server's entry starts the one for code, which `adjourn init --code` sets up; behind the proxy or not."""
    rest = after_program(words_of(server) or [], root) or []
    if rest[:1] == ["proxy"] and "--" in rest:
        rest = after_program(rest[rest.index("--") + 1 :], root) or []
    return rest[:1] == ["code"]


PASS_OUTSIDE = ("--outside", "pass")
"""The option of what a user's own settings start: these count in folders without a workspace, too."""


def proxy_words(start: Sequence[str], options: Sequence[str]) -> list[str]:
    """The words that put a command behind the proxy."""
    return [*start, "proxy", *options, "--"]


def named(name: str) -> list[str]:
    """The option by which a proxy knows the name of its server."""
    return ["--name", name] if name else []


def lacks(words: Sequence[str], option: str) -> bool:
    """Whether the words of a proxy's command lack an option."""
    own = words[: words.index("--")] if "--" in words else words
    return not any(word == option or word.startswith(f"{option}=") for word in own)


def passed_on(server: Any) -> dict[str, list[str]]:
    """The changes to the entry of a client that passes its servers only the variables listed in `env_vars`."""
    named, set_here = server.get("env_vars", []), server.get("env", {})
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        return {}
    missing = [name for name in SHARED if name not in named and name not in set_here]
    return {"env_vars": [*named, *missing]} if missing else {}


def why_not(server: Any) -> str:
    """The reason that an entry cannot be put behind the proxy."""
    if isinstance(server, dict) and (server.get("url") or server.get("httpUrl") or server.get("serverUrl")):
        return "it is reached over the network, and the proxy speaks to a command"
    return "it has no `command` with a list of `args`"


def words_of(server: Any) -> list[str] | None:
    """The command of a server's entry with its arguments; None where it starts none."""
    if not isinstance(server, dict) or server.get("type", "stdio") not in ("stdio", "local"):
        return None
    command, arguments = server.get("command"), server.get("args", [])
    if not isinstance(command, str) or not command or not isinstance(arguments, list):
        return None
    words = [command, *arguments]
    return words if all(isinstance(word, str) for word in words) else None


# --- hooks


def hook_command(
    start: Sequence[str],
    client: str,
    servers: Sequence[str],
    *,
    options: Sequence[str] = (),
    earlier: str = "",
) -> str:
    """The command of a client's hooks, with `options`. Options that a user added to an `earlier` one stay; a removed `--stay` stays removed."""
    kept, proxied = _own_options(earlier)
    behind = ",".join(sorted({*proxied.split(","), *servers} - {""}))
    named = [] if client == "claude-code" else ["--client", client]
    kept = kept if not options or options[0] in kept else [*options, *kept]
    stay = ["--stay"] if not earlier or "--stay" in hook_words(earlier) else []
    return shlex.join([*start, "hook", *named, "--settle", *stay, "--proxied", behind, *kept])


def is_hook(command: Any) -> bool:
    """Whether a command says that it is one of our hooks, of whatever program, and is all that the shell is to run."""
    return isinstance(command, str) and bool(_IS_OURS.search(command)) and not _SHELL.search(command)


def is_own_hook(command: Any, root: str) -> bool:
    """Whether a command is a hook of the adjourn that runs here."""
    return is_hook(command) and (after_program(hook_words(command), root) or [])[:1] in (["hook"], ["gate"])


def hook_words(command: str) -> list[str]:
    """The program and its arguments; empty if only a shell can determine them."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def proxied_by(words: Sequence[str]) -> set[str]:
    """The servers whose tools a hook's command leaves to a proxy."""
    return set(_own_options(shlex.join(words))[1].split(",")) - {""}


def _own_options(command: str) -> tuple[list[str], str]:
    """The options of a hook but those that are set here, and the servers that it leaves to the proxy."""
    words = hook_words(command)
    verb = next((at for at, word in enumerate(words) if word in ("hook", "gate")), len(words))
    kept: list[str] = []
    proxied = ""
    rest = words[verb + 1 :]
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in ("--proxied", "--client"):
            value = value if equals else rest.pop(0) if rest else ""
            proxied = value if name == "--proxied" else proxied
        elif word not in ("--settle", "--stay"):
            kept.append(word)
    return kept, proxied
