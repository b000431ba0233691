"""Client settings of a workspace that make adjourn enforce less than the workspace's policy says.

An agent or a repository can have written these files. None of it is wrong by itself: a person may well have wanted it. So it is
named, so that a person can review them.

Owns: which options and variables these are, and finding them. Must never: show a value, which may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
    found: dict[str, str] = {}
    waiting: list[Any] = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            for member, inner in value.items():
                if member in ("env", "environment", "set") and isinstance(inner, dict):
                    found |= {name: _effect(name) for name in inner if _effect(name)}
                waiting.append(inner)
    yield from sorted(found.items())


def _effect(name: str) -> str:
    return VARIABLES.get(name, "is one of adjourn's own" if name.startswith(_PREFIX) else "")
