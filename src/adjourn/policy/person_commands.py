"""The commands of adjourn that record a person's decision, or undo what a person set up.

Must never: import anything; the command line reads it before any command.
"""

from __future__ import annotations

from collections.abc import Mapping

ALWAYS = ("",)
OUR_COMMAND = "adjourn "
"""Prefix of such a command in the reason for a refusal. No protected place starts with it."""
_YES = ("--yes", "-y")

PUBLISHED: Mapping[str, str] = {
    "check": "policy check",
    "fmt": "policy fmt",
    "parse": "policy parse",
    "compile": "policy compile",
    "sign": "policy sign",
    "effective": "policy explain",
    "draft": "policy draft",
    "review": "policy review",
    "classify": "policy classify",
    "gate": "hook",
    "api-keys": "serve keys",
    "import": "checkpoint import",
}
"""By the name that `aex` publishes, or that stands in scripts of an earlier version, the path of a command. `adjourn` takes these names, too."""

AT_TERMINAL: Mapping[str, tuple[str, ...]] = {
    "approve": ("question",),
    "deny": ("question",),
    "answer": ("question",),
    "decide": ("decision",),
    "settle": ("call",),
    "ui": ALWAYS,
    "tasks finish": ALWAYS,
    "tasks reopen": ALWAYS,
    "checkpoint import": ALWAYS,
    "record import": ALWAYS,
    "record merge": ALWAYS,
    "record resolve": ("blocker",),
    "record check": ("invariant",),
    "record complete": ALWAYS,
    "keys trust": ALWAYS,
    "keys distrust": ALWAYS,
    "keys pin": ALWAYS,
    "policy sign": ALWAYS,
    "verify": ("--accept",),
    "rollback": _YES,
    "store prune": _YES,
    "init": ("--undo",),
    "serve login": ("url",),
    "serve logout": ALWAYS,
}
"""By the path of a command the arguments and options, of which one given makes it a person's word: for a person at a terminal.

What only shows or lists something speaks for nobody.
"""
WHEN_WRITING = frozenset((
    "approve", "deny", "answer", "decide", "settle", "tasks finish", "tasks reopen", "record resolve", "record check", "record complete",
))  # fmt: skip
"""Of these the commands whose first effect is a write into the store: they are checked then, after their arguments were."""
WHEN_SAID = frozenset((
    "keys trust", "keys distrust", "rollback", "policy sign", "verify", "checkpoint import", "record import", "record merge", "store prune",
    "serve login", "serve logout", "serve keys revoke",
))  # fmt: skip
"""Of all these the commands that have themselves checked, after their arguments and before their first effect."""
OUTSIDE_CLIENT: Mapping[str, tuple[str, ...]] = {
    "init": ("--policy", *_YES),
    "doctor": (*_YES, "--fix"),
    "run": ("--auto-confirm",),
    "policy review": (*_YES, "--auto-confirm"),
    "policy tighten": ("--write",),
    "notify": ALWAYS,
    "store import": ALWAYS,
    "serve keys add": ALWAYS,
    "serve keys revoke": ALWAYS,
}
"""Likewise: for machines as well, but not for an agent."""
BY_CLIENT: Mapping[str, tuple[str, ...]] = {"proxy": ("--auto-confirm", "--take-over"), "hook": ALWAYS}
"""Likewise: what a client starts by its settings. An agent that does would say for its client the outcome of a call."""
