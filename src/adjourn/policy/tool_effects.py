"""What a server's tool does, judged by the words of its name and by what the server says about it (its annotations).

Neither is proof. In this order:

    a word that destroys                       destroys, unless the name starts with a verb that only reads
    the server says: destructive               destroys, which its name does not say
    the name starts with a verb that reads     reads, unless another word writes, or the server says that it writes
    the server says: only reads                reads, unless a word of the name writes
    anything else                              writes

Where name and annotation disagree, it writes: a person is asked. `query`, `download` or `log` are verbs of both kinds, and so of neither.

Must never: start a server, or permit anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Literal, NamedTuple

Effect = Literal["reads", "writes", "destroys"]

READS = frozenset((
    "cat", "compare", "count", "describe", "diff", "enumerate", "exists", "find", "get", "glob", "grep", "has", "head", "inspect",
    "is", "list", "lookup", "ls", "peek", "preview", "read", "retrieve", "search", "stat", "summarize", "tail", "validate", "view",
    "whoami",
))  # fmt: skip
"""Verbs with no sense in which they write."""
_THINGS = frozenset(("count", "diff", "head", "list", "lookup", "preview", "search", "stat", "tail", "view"))
"""Those of them that also name a thing, which the verb may stand behind: `list_archive`."""
_SHOWN = READS | {
    "blame", "browse", "changelog", "check", "data", "detail", "details", "health", "help", "history", "info", "items", "log",
    "logs", "metrics", "overview", "report", "reports", "schema", "show", "snapshot", "stats", "status", "summary", "tree", "types",
    "usage", "version", "versions",
}  # fmt: skip
"""Last words of a name that say what it returns: `commit_history`."""
WRITES = frozenset((
    "abort", "accept", "ack", "acknowledge", "acquire", "activate", "add", "adjust", "allocate", "alter", "amend", "anonymize",
    "append", "apply", "approve", "arm", "assign", "attach", "authorize", "ban", "bind", "broadcast", "bump", "buy", "cancel",
    "checkin", "checkout", "click", "clone", "complete", "configure", "connect", "consume", "create", "deactivate", "decline",
    "decrement", "decrypt", "demote", "deny", "dequeue", "deregister", "detach", "disable", "disarm", "disburse", "disconnect",
    "dismiss", "dispatch", "downgrade", "duplicate", "edit", "eject", "elevate", "emit", "enable", "encrypt", "enforce",
    "enqueue", "enroll", "escalate", "eval", "evaluate", "exec", "execute", "expire", "failover", "fill", "finalize", "fix",
    "forward", "freeze", "generate", "grant", "hide", "impersonate", "import", "increment", "ingest", "init", "initialize",
    "inject", "insert", "install", "interact", "invalidate", "invite", "invoke", "join", "kick", "launch", "leave", "login",
    "logout", "make", "manage", "mark", "minimize", "mkdir", "modify", "mount", "mutate", "mute", "navigate", "notify",
    "offboard", "onboard", "override", "paste", "pause", "pay", "persist", "pin", "play", "pop", "populate", "prepare", "press",
    "promote", "propagate", "provision", "publish", "purchase", "put", "quarantine", "reassign", "rebase", "reboot", "rebuild",
    "reclaim", "recover", "recreate", "redeem", "redeploy", "redirect", "redo", "refresh", "refund", "register", "reindex",
    "reject", "reload", "relocate", "rename", "renew", "reopen", "reorder", "repair", "replace", "replay", "replicate",
    "requeue", "reschedule", "resend", "resize", "respond", "restart", "restore", "resubmit", "resume", "retire", "retract",
    "retry", "revise", "rewrite", "rotate", "run", "save", "scale", "select", "sell", "send", "set", "shutdown", "silence",
    "simulate", "snooze", "spawn", "start", "stop", "submit", "subscribe", "supersede", "suspend", "swap", "synchronize",
    "throttle", "toggle", "touch", "train", "transmit", "trigger", "unapprove", "unarchive", "unassign", "unban", "unblock",
    "undelete", "undo", "unfollow", "unfreeze", "unlock", "unmark", "unmount", "unmute", "unpin", "unprotect", "unregister",
    "unset", "unshare", "unstar", "unsubscribe", "update", "upgrade", "upload", "upsert", "vacuum", "void", "withdraw", "write",
))  # fmt: skip
"""Words that write wherever they stand in a name."""
_WRITING_FIRST = frozenset((
    "archive", "backup", "bid", "block", "book", "branch", "call", "capture", "change", "charge", "claim", "close", "comment",
    "commit", "copy", "deposit", "draft", "drag", "email", "export", "flag", "follow", "fork", "invoice", "label", "like",
    "link", "lock", "mail", "map", "merge", "message", "mint", "mirror", "move", "order", "patch", "post", "protect", "pull",
    "push", "raise", "rate", "react", "record", "release", "reply", "request", "reserve", "review", "schedule", "share", "sign",
    "split", "stage", "star", "stash", "store", "sync", "tag", "test", "trade", "transfer", "transition", "trim", "tweet",
    "type", "vote",
))  # fmt: skip
"""Words that write where a name starts with them, and are things elsewhere: `comment_issue`, `issue_comment`."""
DESTROYS = frozenset((
    "annihilate", "burn", "clean", "cleanup", "clear", "deallocate", "decommission", "del", "delete", "delist", "demolish",
    "deploy", "deprovision", "destroy", "discard", "dismantle", "dispose", "drop", "eliminate", "eradicate", "erase", "evict",
    "expunge", "flush", "force", "forget", "kill", "migrate", "nuke", "obliterate", "overwrite", "prune", "purge", "reformat",
    "remove", "reset", "revert", "revoke", "rm", "rmdir", "rmtree", "rollback", "scrub", "shred", "teardown", "terminate",
    "trash", "truncate", "undeploy", "uninstall", "unlink", "unpublish", "unsafe", "wipe", "zap",
))  # fmt: skip
_VERBS = WRITES | _WRITING_FIRST | DESTROYS
_EMPTIED = {"empty": (), "format": ("disk", "drive", "partition", "sd", "volume")}
"""First words that destroy what follows; any thing, if none is named."""
_HARMLESS = re.compile(
    r"\b(?:drag (?:and )?drop|drop ?down|(?:remove|delete) background|clear (?:filters?|selection)|reset zoom)\b"
)
"""What destroys nothing, although a word says so."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_JOINED = frozenset(("and", "or", "then"))
"""Words after which a second verb follows: `get_or_create`."""
_WRITTEN_TOGETHER = frozenset((
    "append", "create", "delete", "destroy", "erase", "execute", "flush", "insert", "install", "overwrite", "publish", "purge", "remove",
    "rename", "replace", "truncate", "uninstall", "update", "upload", "write",
))  # fmt: skip
"""Verbs that are found inside of a word: `bulkdelete`, `flushdb`. `_FORMS` are endings of the verb itself: `deleted`."""
_FORMS = frozenset((
    "able", "ation", "ations", "d", "ed", "er", "ers", "es", "ing", "ings", "ion", "ions", "ment", "ments", "or", "r", "rs", "s",
))  # fmt: skip
_OBJECTS = frozenset((
    "all", "bucket", "cache", "collection", "column", "database", "db", "dir", "directory", "document", "entry", "file", "files",
    "folder", "index", "item", "items", "key", "keys", "object", "process", "record", "row", "rows", "table", "user", "users",
))  # fmt: skip


class ToolEffect(NamedTuple):
    """What a tool does, and why it is thought to. `named`: its name alone says so."""

    kind: Effect
    why: str
    named: bool


def shared_words(names: Iterable[str]) -> int:
    """The number of words that the names of all tools of a server start with, which say nothing about one: `browser_click`.

    A verb is never one of them, nor is the whole of a name.
    """
    lists = [_words(name)[:-1] for name in names]
    if len(lists) < 2:
        return 0
    verbs = READS | _VERBS | _EMPTIED.keys()
    shared = takewhile(lambda words: len(set(words)) == 1, zip(*lists, strict=False))
    return sum(1 for _ in takewhile(lambda words: words[0] not in verbs and not _verb_in(words[0]), shared))


def effect_of(
    name: str, *, read_only: bool | None = None, destructive: bool | None = None, shared: int = 0
) -> ToolEffect:
    """The effect of a tool with its annotations (None: the server says nothing). `shared` is what `shared_words` counts."""
    words = _words(name)[shared:] or _words(name) or ("",)
    begins_reading = words[0] in READS
    says_shown = begins_reading or words[-1] in _SHOWN
    joined = [after for before, after in pairwise(words) if before in _JOINED]
    destroying = _destroying(words)
    if destroying and not (read_only and says_shown) and (not begins_reading or destroying in joined):
        return ToolEffect("destroys", f"name: {destroying}", named=True)
    if destructive:
        return ToolEffect("destroys", "annotation: destructive", named=False)
    if read_only is False:
        return ToolEffect("writes", "annotation: not read-only", named=False)
    if writing := _writing(words, joined, agreed=bool(read_only)):
        return ToolEffect("writes", f"name: {writing}", named=True)
    if begins_reading:
        return ToolEffect("reads", f"name: {words[0]}", named=True)
    if read_only:
        return ToolEffect("reads", "annotation: read-only", named=says_shown)
    return ToolEffect("writes", "unknown: taken for a write", named=False)


def reading_of(name: str, shared: int) -> ToolEffect | None:
    """The effect of a tool that its server calls read-only; None if its name says otherwise. `shared` as in `effect_of`."""
    effect = effect_of(name, read_only=True, shared=shared)
    return effect if effect.kind == "reads" else None


_ADDRESSES = frozenset(("href", "link", "links", "uri", "uris", "url", "urls", "webpage", "website", "websites"))
_NETWORK = frozenset(
    ("crawl", "crawler", "http", "https", "internet", "scrape", "scraper", "url", "urls", "web", "webpage", "webpages")
)


def reaches_network(name: str, arguments: Iterable[str], *, open_world: bool | None) -> bool:
    """Whether a tool reads at an address, or searches the web, as its caller says: by the names of the tool and of its arguments.

    A server that says `openWorldHint: false` does not.
    """
    if open_world is False:
        return False
    by_argument = any(words and words[-1] in _ADDRESSES for words in map(_words, arguments))
    return by_argument or not _NETWORK.isdisjoint(_words(name))


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


def _destroying(words: Sequence[str]) -> str:
    """The first word that destroys; "" for none."""
    things = _EMPTIED.get(words[0])
    if things is not None and (not things or not set(things).isdisjoint(words)):
        return words[0]
    left = _HARMLESS.sub("", " ".join(words)).split()
    return next((word for word in left if word in DESTROYS or _verb_in(word) in DESTROYS), "")


def _writing(words: Sequence[str], joined: Sequence[str], *, agreed: bool) -> str:
    """The word by which a name writes; "" for none. `agreed`: the server says that the tool only reads."""
    first, last = words[0], words[-1]
    if second := next((word for word in joined if word in _VERBS or (not agreed and word not in READS)), ""):
        return second
    if first in READS and agreed:
        return ""
    if first in _THINGS and len(words) > 1 and last in _WRITING_FIRST:
        return last
    if first in _WRITING_FIRST and not (agreed and last in _SHOWN):
        return first
    return next((word for word in words if word in WRITES | DESTROYS or _verb_in(word)), "")


@lru_cache(maxsize=4096)
def _verb_in(word: str) -> str:
    """The verb that a word was made of, together with its object: `removefile`; "" for none."""
    for verb in _WRITTEN_TOGETHER:
        if word.startswith(verb) and word != verb and word[len(verb) :] not in _FORMS:
            return verb
        if word.endswith(verb) and word != verb and not word.startswith("un"):
            return verb
    for thing in _OBJECTS:
        if word.endswith(thing) and word.removesuffix(thing) in _VERBS:
            return word.removesuffix(thing)
    return ""
