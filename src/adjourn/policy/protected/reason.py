"""The message for a call that would touch a protected place.

Owns: these words. Must never: look at a call or at a file; a decision, which is pure, gives them.
"""

from __future__ import annotations

from adjourn.policy.person_commands import BY_CLIENT, OUR_COMMAND

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
