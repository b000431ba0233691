"""What a server's tool does, judged by the words of its name and by what the server says about it.

Neither is proof. The name decides, since a person can read it; what the server says (its annotations) makes a tool worse, and decides
where the name says nothing. It never makes a tool that is named after writing or destroying one that reads.

Owns: the table of verbs. Must never: start a server, or permit anything.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from adjourn.setup.probe import ProbedTool

Effect = Literal["reads", "writes", "destroys"]

READS = frozenset((
    "browse", "check", "compare", "convert", "count", "describe", "diff", "discover", "download", "echo", "explain", "fetch",
    "find", "get", "grep", "head", "help", "info", "inspect", "is", "list", "load", "log", "lookup", "peek", "ping", "preview",
    "query", "read", "resolve", "retrieve", "scan", "search", "show", "snapshot", "stat", "stats", "status", "summarize",
    "tail", "tree", "validate", "verify", "version", "view", "watch",
))  # fmt: skip
WRITES = frozenset((
    "accept", "add", "append", "apply", "approve", "archive", "assign", "book", "buy", "call", "cancel", "change", "charge",
    "checkout", "click", "clone", "close", "comment", "commit", "complete", "configure", "copy", "create", "deny", "disable",
    "dispatch", "edit", "enable", "eval", "evaluate", "exec", "execute", "export", "fill", "grant", "import", "increment",
    "init", "insert", "install", "invite", "invoke", "join", "link", "lock", "make", "mark", "merge", "mkdir", "modify", "move",
    "navigate", "notify", "open", "order", "patch", "pay", "post", "press", "publish", "pull", "push", "put", "register",
    "reject", "rename", "replace", "reply", "request", "restart", "restore", "run", "save", "schedule", "send", "set", "share",
    "sign", "start", "stop", "store", "submit", "subscribe", "sync", "tag", "toggle", "transfer", "trigger", "type", "unlock",
    "unsubscribe", "update", "upgrade", "upload", "upsert", "write",
))  # fmt: skip
DESTROYS = frozenset((
    "clean", "cleanup", "clear", "del", "delete", "deploy", "destroy", "discard", "drop", "erase", "expunge", "flush",
    "force", "kill", "migrate", "nuke", "overwrite", "prune", "purge", "remove", "reset", "revert", "revoke", "rm",
    "rmdir", "rollback", "shred", "terminate", "trash", "truncate", "uninstall", "unlink", "unpublish", "unsafe", "wipe",
))  # fmt: skip
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_JOINED = frozenset(("and", "or", "then"))
"""Words after which a second verb follows: `get_or_create`."""


class ToolEffect(NamedTuple):
    """What a tool does, and why it is thought to. `named`: its name alone says so."""

    kind: Effect
    why: str
    named: bool


def effect_of(tool: ProbedTool) -> ToolEffect:
    """The effect of a tool. A destroying word counts wherever it stands in the name, else the first verb, and one after `and`."""
    words = [word.lower() for word in _WORD.findall(tool.name)]
    if destroying := next((word for word in words if word in DESTROYS), ""):
        return ToolEffect("destroys", f"name: {destroying}", named=True)
    if tool.destructive:
        return ToolEffect("destroys", "annotation: destructive", named=False)
    verbs = _verbs(words)
    if writing := next((verb for verb in verbs if verb in WRITES), ""):
        return ToolEffect("writes", f"name: {writing}", named=True)
    if tool.read_only is False:
        return ToolEffect("writes", "annotation: not read-only", named=False)
    if tool.read_only:
        return ToolEffect("reads", "annotation: read-only", named=False)
    if verbs:
        return ToolEffect("reads", f"name: {verbs[0]}", named=True)
    return ToolEffect("writes", "unknown: taken for a write", named=False)


def _verbs(words: list[str]) -> list[str]:
    """The first known verb, and those that follow an `and`."""
    known = READS | WRITES
    first = next((at for at, word in enumerate(words) if word in known), len(words))
    more = [
        word for before, word in zip(words[first:], words[first + 1 :], strict=False) if before in _JOINED
    ]
    return [*words[first : first + 1], *(word for word in more if word in known)]
