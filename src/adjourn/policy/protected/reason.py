"""Why a call is refused whatever the rules say: it touches a protected place, or readers disagree on its arguments."""

from __future__ import annotations

from collections.abc import Mapping

from adjourn.aex.policy import Policy
from adjourn.policy.person_commands import BY_CLIENT, OUR_COMMAND
from adjourn.policy.protected.words import argument_key, is_read_key
from adjourn.text.strict_json import alike, fold_key

UNREAD = "what cannot be read"
"""Stands for the place that a command line reaches which is not read: refused as any other."""


def reason_for(found: str) -> tuple[str, str]:
    """The reason for the refusal, given the protected place, and the remedy."""
    if found == UNREAD:
        return (
            "may not run a shell line that adjourn cannot read in full: it might change a protected place",
            "write it plainly: one step at a time, the names of files spelled out",
        )
    if not found.startswith(OUR_COMMAND):
        return (
            f"may not touch {found}: it is protected, whatever the policy says",
            "ask a person to change it",
        )
    whom = "its client" if found.removeprefix(OUR_COMMAND) in BY_CLIENT else "a person"
    return (
        f"may not run `{found}`: it speaks for {whom}",
        "ask a person to run it, in a terminal of their own",
    )


# --- arguments that a rule and a server could read differently, since two of their keys are one to some


def ambiguous(policy: Policy, tool: str, arguments: Mapping[str, object]) -> tuple[str, str] | None:
    """Two keys that are one to some reader of JSON, where a rule for the tool or the search for places looks; None if there are none.

    The rule would examine one of them, and the server could act on the other. Alike keys in other data are no matter.
    """
    if found := alike(key for key in arguments if is_read_key(argument_key(key))):
        return found
    for path in policy.arguments_read(tool):
        level: list[object] = [arguments]
        for part in path:
            inner: list[object] = []
            for value in level:
                values = value if isinstance(value, list | tuple) else [value]
                for one in values:
                    if isinstance(one, Mapping):
                        keys = [key for key in one if fold_key(key) == fold_key(part)]
                        if found := alike(keys):
                            return found
                        inner += (one[key] for key in keys)
                    elif isinstance(one, list | tuple):
                        level.append(one)  # a list in a list stands for its elements
            level = inner
    return None
