"""Which commands of adjourn speak for a person: what they write down counts as a person's word, or takes back what a person set up.

Must never: import anything; the command line reads it before any command.
"""

from __future__ import annotations

from collections.abc import Mapping

ALWAYS = ("",)
OUR_COMMAND = "adjourn "
"""Prefix of such a command in the reason for a refusal. No protected place begins with it."""
_YES = ("--yes", "-y")

AT_TERMINAL: Mapping[str, tuple[str, ...]] = {
    "approve": ("question",),
    "deny": ("question",),
    "answer": ("question",),
    "decide": ("decision",),
    "settle": ("call",),
    "ui": ALWAYS,
    "done": ALWAYS,
    "reopen": ALWAYS,
    "import": ALWAYS,
    "record import": ALWAYS,
    "record merge": ALWAYS,
    "record resolve": ("blocker",),
    "record check": ("invariant",),
    "record complete": ALWAYS,
    "keys trust": ALWAYS,
    "keys distrust": ALWAYS,
    "keys pin": ALWAYS,
    "sign": ALWAYS,
    "verify": ("--accept",),
    "rollback": _YES,
    "prune": _YES,
    "init": ("--undo",),
    "login": ("url",),
    "logout": ALWAYS,
}
"""By the words of a command the arguments and options, of which one given makes it a person's word: for a person at a terminal.

What only shows or lists something speaks for nobody.
"""
WHEN_WRITING = frozenset((
    "approve", "deny", "answer", "decide", "settle", "done", "reopen", "record resolve", "record check", "record complete",
))  # fmt: skip
"""Of these the commands whose first effect is a write into the store: they are checked then, after their arguments were."""
WHEN_SAID = frozenset(("keys trust", "rollback", "sign", "verify"))
"""Of these the commands that have themselves checked, after their arguments and before their first effect."""
OUTSIDE_CLIENT: Mapping[str, tuple[str, ...]] = {
    "init": ("--policy", *_YES),
    "doctor": (*_YES, "--fix"),
    "run": ("--auto-confirm",),
    "review": (*_YES, "--auto-confirm"),
    "tighten": ("--write",),
    "notify": ALWAYS,
    "api-keys add": ALWAYS,
    "api-keys revoke": ALWAYS,
}
"""Likewise: for machines as well, but not for an agent."""
BY_CLIENT: Mapping[str, tuple[str, ...]] = {"proxy": ("--auto-confirm", "--take-over"), "hook": ALWAYS, "gate": ALWAYS}
"""Likewise: what a client starts by its settings. An agent that does would say for its client the outcome of a call."""
