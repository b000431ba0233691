"""Commands in clients' settings: of a server, of the same one behind the proxy, of a hook, and that of adjourn itself."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from adjourn.errors import AdjournError
from adjourn.host import executables
from adjourn.host.executables import find, lies_in

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


# --- the command with which a client starts adjourn, and whether it can be made to start another program

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
    return ["adjourn"] if by_name else executables.python_command("-m", "adjourn")


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
