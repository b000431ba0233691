"""The language servers of one work tree: each is started in the background when it is first asked, and ended when it is idle.

Must never: make a caller wait for a start unless it asks to, or start a server that keeps failing.
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from adjourn.code.deadline import Deadline
from adjourn.code.language_servers.kinds import NamePosition, ServerKind, kind_for, named_by_user
from adjourn.errors import AdjournError

if TYPE_CHECKING:
    from adjourn.code.language_servers.server import LanguageServer

READY, STARTING, LATE, FAILED = "ready", "starting", "late", "failed"
_MAX_STARTS = 3
_STARTS_SECONDS = 600.0
_RETRY_SECONDS = 20.0
_IDLE_SECONDS = 900.0
_LOOK_SECONDS = 30.0
_STEP_SECONDS = 0.25


_T = TypeVar("_T")
_Question = Callable[["LanguageServer", Deadline], _T]


class ServerAnswer(NamedTuple, Generic[_T]):
    """`value`: the answer; None unless `state` is `ready`. `reason`: why there is none."""

    state: str
    value: _T | None = None
    reason: str = ""


class LanguageServers:
    """Servers by name. All sessions on the work tree share them."""

    def __init__(
        self, root: str, language_of: Callable[[str], str], named: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> None:
        """`named`: by language, the commands of servers that the user names, instead of those that are known."""
        self._named = named
        self._root = root
        self._language_of = language_of
        self._lock = threading.Condition()
        self._commands: dict[str, tuple[ServerKind, list[str]] | None] = {}
        self._running: dict[str, LanguageServer] = {}
        self._starting: set[str] = set()
        self._starts: dict[str, list[float]] = {}
        self._used: dict[str, float] = {}
        self._failures: dict[str, str] = {}
        self._changes: dict[str, set[str]] = {}
        self._closed = False

    def installed(self, language: str) -> str | None:
        """The name of a language's server; None if there is none."""
        entry = self._kind_and_command(language)
        return entry[0].name if entry else None

    def ask(
        self,
        language: str,
        names: Sequence[NamePosition],
        candidates: Collection[str],
        question: _Question[_T],
        deadline: Deadline,
    ) -> ServerAnswer[_T]:
        """The answer of a language's server to a question about `names`.

        `candidates` are the files that may matter to the answer: the server first learns which of them changed.
        """
        entry = self._kind_and_command(language)
        if entry is None:
            return ServerAnswer(FAILED, reason=f"no language server for {language} is installed")
        kind, command = entry
        changes = self._changed(kind.name)
        if not {os.path.basename(path) for path in changes}.isdisjoint(kind.restarts):
            self._end(kind.name)
        server = self._server(kind, command)
        if server is None:
            if kind.name in self._starting:
                return ServerAnswer(STARTING, reason=f"{kind.name} is starting")
            return ServerAnswer(FAILED, reason=self._failures.get(kind.name, f"{kind.name} has ended"))
        try:
            server.prepare(names, {*candidates, *changes})
            return ServerAnswer(READY, question(server, deadline))
        except AdjournError as error:
            return ServerAnswer(LATE if server.client.alive else FAILED, reason=error.message)

    def wait(self, language: str, deadline: Deadline) -> None:
        """Wait until the server of a language has started, or has failed to."""
        if (entry := self._kind_and_command(language)) is None:
            return
        self._server(*entry)
        with self._lock:
            while entry[0].name in self._starting and not deadline.expired():
                self._lock.wait(_STEP_SECONDS)

    def changed(self, paths: Iterable[str]) -> None:
        """Note files that were written or deleted: each server learns of them with its next question."""
        with self._lock:
            for noted in self._changes.values():
                noted.update(paths)

    def running(self) -> list[dict[str, Any]]:
        """The servers that run, with the memory that each uses."""
        with self._lock:
            running = dict(self._running)
        return [
            {"name": name, "memory_mb": server.client.memory() >> 20}
            for name, server in sorted(running.items())
            if server.client.alive
        ]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            running, self._running = self._running, {}
            self._lock.notify_all()
        for server in running.values():
            server.client.close()

    def _kind_and_command(self, language: str) -> tuple[ServerKind, list[str]] | None:
        if language not in self._commands:
            named = self._named.get(language)
            kind = named_by_user(language, named) if named else kind_for(language)
            command = kind.command(self._root) if kind and importlib.util.find_spec("lsprotocol") else None
            self._commands[language] = (kind, command) if kind and command else None
        return self._commands[language]

    def _changed(self, name: str) -> set[str]:
        with self._lock:
            changes, self._changes[name] = self._changes.get(name, set()), set()
        return changes

    def _end(self, name: str) -> None:
        with self._lock:
            server = self._running.pop(name, None)
            self._starts.pop(name, None)
        if server is not None:
            server.client.close()

    def _server(self, kind: ServerKind, command: Sequence[str]) -> LanguageServer | None:
        """The running server; None while it starts, which this begins."""
        now = time.monotonic()
        with self._lock:
            self._used[kind.name] = now
            server = self._running.get(kind.name)
            if server is not None and server.client.alive:
                return server
            starts = [at for at in self._starts.get(kind.name, ()) if now - at < _STARTS_SECONDS]
            due = not starts or (len(starts) < _MAX_STARTS and now - starts[-1] > _RETRY_SECONDS)
            if due and kind.name not in self._starting and not self._closed:
                self._starts[kind.name] = [*starts, now]
                self._starting.add(kind.name)
                self._changes[kind.name] = set()
                threading.Thread(target=self._run, args=(kind, command), daemon=True).start()
        return None

    def _run(self, kind: ServerKind, command: Sequence[str]) -> None:
        """Start a server, and end it when nobody has asked it for long."""
        server = self._started(kind, command)
        with self._lock:
            self._starting.discard(kind.name)
            if server is not None and not self._closed:
                self._running[kind.name] = server
            self._lock.notify_all()
            while server is not None and server.client.alive and not self._closed:
                self._lock.wait(_LOOK_SECONDS)
                if time.monotonic() - self._used[kind.name] > _IDLE_SECONDS:
                    self._starts.pop(kind.name, None)
                    break
                if server.client.is_too_large():
                    break
        if server is not None:
            server.client.close()

    def _started(self, kind: ServerKind, command: Sequence[str]) -> LanguageServer | None:
        from adjourn.code.language_servers import client, server  # an extra

        if refused := kind.refusal(self._root):
            self._failures[kind.name] = f"{kind.name} is not started: {refused}"
            return None
        try:
            return server.LanguageServer(client.LanguageClient(kind, command, self._root), self._language_of)
        except AdjournError as error:
            self._failures[kind.name] = f"{kind.name} does not start: {error.message}"
            return None
