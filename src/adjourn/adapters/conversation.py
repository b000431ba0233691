"""The messages of an agent framework in a store: each conversation is a task, and `graph.saved` events name its documents.

A document lists the one before it, as those of LangGraph threads do; then it has the number of earlier messages that stay, and the new
ones, a line each. The ref `graph-writes/TASK/items` names the newest.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from threading import RLock
from typing import Any, NamedTuple

from adjourn.errors import IntegrityError, InvalidError
from adjourn.host import keys
from adjourn.host.clock import now
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.store.base import Store, Swap
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import GRAPH_BODY, GRAPH_WRITES, NewEvent, Task, graph_documents

MAX_DOCUMENT = 64 * 1024 * 1024
"""Bytes that one call adds."""
_MARK = 8
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,40}").fullmatch
_RESTORE = "restore the store from a backup"


class _Document(NamedTuple):
    """A document, by its digest: the digest of the one before it, how many of its messages stay, and new ones."""

    name: str
    before: str
    kept: int
    lines: list[str]


class Conversation:
    """Messages, as JSON values, under a name. `kind` is the framework. Safe to use from several threads and processes.

    Methods raise `InvalidError` for what is no JSON, `StoreError` where the store fails, and `IntegrityError` where it was changed.
    """

    def __init__(self, store: Store, name: str, kind: str) -> None:
        digest = sha256(name.encode(errors="replace")).hexdigest()[:40]
        self._task = Task(
            store, f"{kind}-{name}" if _PLAIN(name) else f"{kind}s-{digest}", clock=now, secret=keys.secret()
        )
        self._store = store
        self._name, self._kind = name, kind
        self._ref = f"{GRAPH_WRITES}{self.task}/items"
        self._lock = RLock()
        self._known: tuple[str, list[str]] = "", []
        """A document, and all messages up to its end, as JSON."""

    @property
    def task(self) -> str:
        """The id of the task."""
        return self._task.id

    def items(self) -> list[Any]:
        """The messages, oldest first."""
        with self._lock:
            return [json.loads(line) for line in self._read()[1]]

    def append(self, items: Sequence[Any], *, once: bool = False) -> None:
        """Add messages, durably: all or none. With `once`, those that are the last ones already are not added again."""
        lines = _encoded(items)
        self._change(lambda there: there if once and there[-len(lines) :] == lines else there + lines)

    def pop(self) -> Any | None:
        """Remove the newest message, and return it; None without one."""
        removed: list[str] = []

        def edit(there: list[str]) -> list[str]:
            removed[:] = there[-1:]
            return there[:-1]

        self._change(edit)
        return json.loads(removed[0]) if removed else None

    def start_with(self, items: Sequence[Any]) -> None:
        """Give a new conversation its first messages. Raises `InvalidError` for one that has others."""
        lines = _encoded(items)

        def edit(there: list[str]) -> list[str]:
            if there not in ([], lines):
                raise InvalidError(f"conversation {self._name[:80]!r} has messages already", "use another name")
            return lines

        self._change(edit)

    def clear(self) -> None:
        """Delete all messages with their documents. The chain still says that they were there.

        Killed in between, the documents stay until `adjourn store gc`.
        """
        with self._lock:
            doomed: list[str] = []
            swaps: dict[str, Swap] = {}

            def facts(_: Ledger) -> list[NewEvent]:
                head = self._store.ref(self._ref)
                doomed[:] = [document.name for document in self._documents(head or "", "")]
                swaps[self._ref] = Swap(head, None)
                return [NewEvent(kinds.GraphDeleted(count=len(doomed)), self._author)] if doomed else []

            self._task.commit(facts, swaps=swaps)
            self._known = "", []
            self._store.drop(doomed)

    # --- the parts

    @property
    def _author(self) -> Actor:
        return Actor(self._kind, "system")

    def _change(self, edit: Callable[[list[str]], list[str]]) -> None:
        """Store what `edit` makes of the messages. It is called again where another process was first."""
        with self._lock:
            swaps: dict[str, Swap] = {}
            blobs: list[bytes] = []
            known: tuple[str, list[str]] | None = None

            def facts(ledger: Ledger) -> list[NewEvent]:
                nonlocal known
                known = None
                head, there = self._read()
                after = edit(there)
                if after == there:
                    return []
                kept = next((at for at, pair in enumerate(zip(there, after, strict=False)) if pair[0] != pair[1]), -1)
                kept = min(len(there), len(after)) if kept < 0 else kept
                listed = [head] if head else []
                body = "\n".join((str(kept), *after[kept:]))
                mark = (
                    os.urandom(_MARK) + GRAPH_BODY
                )  # no two are equal: clearing a conversation leaves the others whole
                document = mark + len(listed).to_bytes(4, "big") + b":" + "".join((*listed, body)).encode()
                name = sha256(document).hexdigest()
                blobs[:], swaps[self._ref], known = [document], Swap(head, name), (name, after)
                saved = kinds.GraphSaved(checkpoint=name[:16], document=name, source=self._kind, step=str(len(after)))
                opened = (
                    [] if ledger.exists else [kinds.TaskOpened(goal=f"{self._kind} conversation {self._name[:200]}")]
                )
                return [NewEvent(fact, self._author) for fact in (*opened, saved)]

            self._task.commit(facts, swaps=swaps, blobs=blobs)
            self._known = known or self._known

    def _read(self) -> tuple[str | None, list[str]]:
        """The newest document, and all messages. Read again where they were cleared meanwhile."""
        while True:
            head = self._store.ref(self._ref)
            try:
                return head, self._lines(head or "")
            except IntegrityError:
                if self._store.ref(self._ref) == head:
                    raise
                self._known = "", []

    def _lines(self, head: str) -> list[str]:
        """The messages up to the end of a document, as JSON."""
        known, lines = self._known
        parts = self._documents(head, known)
        last = parts[-1].before if parts else head
        lines = list(lines) if known and last == known else []
        for part in reversed(parts):
            if not 0 <= part.kept <= len(lines):
                raise IntegrityError(f"messages of conversation {self._name[:80]!r} are missing", _RESTORE)
            del lines[part.kept :]
            lines += part.lines
        self._known = head, list(lines)
        return lines

    def _documents(self, name: str, end: str) -> list[_Document]:
        """A document and those before it, up to `end`, the newest first."""
        parts: list[_Document] = []
        while name and name != end:
            data = self._store.get_blob(name)
            if data is None:
                raise IntegrityError(f"document {name} of conversation {self._name[:80]!r} is missing", _RESTORE)
            listed = graph_documents(data)
            try:
                kept, *lines = data[_MARK + 6 + 64 * len(listed) :].decode().split("\n")
                parts.append(_Document(name, "".join(listed), int(kept), lines))
            except ValueError as error:
                raise IntegrityError(f"document {name} of a conversation cannot be read: {error}", _RESTORE) from error
            name = parts[-1].before
        return parts


def _encoded(items: Sequence[Any]) -> list[str]:
    try:
        lines = [json.dumps(item, separators=(",", ":"), allow_nan=False) for item in items]
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidError(f"a message is not JSON: {error}", "pass the messages of the framework") from error
    if (size := sum(map(len, lines))) > MAX_DOCUMENT:
        raise InvalidError(f"messages of {size} bytes (limit {MAX_DOCUMENT})", "add fewer messages in one call")
    return lines
