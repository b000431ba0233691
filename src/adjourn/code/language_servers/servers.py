"""The language servers of one work tree, each started when it is first asked.

Owns: `LanguageServers`: one server a language, its start in the background, and its notice of changed files. Must never: make a caller
wait for a start, or start a server again and again.
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from adjourn.code.language_servers.kinds import ServerKind, kind_for
from adjourn.errors import AdjournError

if TYPE_CHECKING:
    from adjourn.code.language_servers.client import LanguageClient

READY, STARTING, LATE, FAILED = "ready", "starting", "late", "failed"
_MAX_STARTS = 3
_MAX_LOCATIONS = 50_000


class NamePosition(NamedTuple):
    """Where a name stands: a file, a line from 0, and a column in UTF-16 units."""

    path: str
    line: int
    column: int


class ServerAnswer(NamedTuple):
    """`lines`: what was resolved, as (file, line from 1); `state`: why there is nothing, unless it is `ready`."""

    state: str
    lines: frozenset[tuple[str, int]] = frozenset()


class LanguageServers:
    """Servers by name. All sessions on the work tree share them."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._commands: dict[str, tuple[ServerKind, list[str]] | None] = {}
        self._running: dict[str, LanguageClient] = {}
        self._starting: set[str] = set()
        self._starts: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._closed = False

    def installed(self, language: str) -> str | None:
        """The name of a language's server; None if there is none."""
        found = self._found(language)
        return found[0].name if found else None

    def references(
        self, language: str, names: Sequence[NamePosition], files: Iterable[str], seconds: float
    ) -> ServerAnswer:
        """Lines that use any of the names.

        `files` are those that may contain uses: the server first learns which of them changed.
        """
        found = self._found(language)
        if found is None:
            return ServerAnswer(FAILED)
        kind, command = found
        client = self._client(kind, command)
        if client is None:
            return ServerAnswer(STARTING if kind.name in self._starting else FAILED)
        ends_at = time.monotonic() + seconds
        lines: set[tuple[str, int]] = set()
        try:
            self._tell_changes(client, files)
            for name in names:
                lines |= self._lines(client, name, ends_at - time.monotonic())
        except AdjournError:
            return ServerAnswer(LATE if client.alive else FAILED)
        return ServerAnswer(READY, frozenset(lines))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            running, self._running = self._running, {}
        for client in running.values():
            client.close()

    def _found(self, language: str) -> tuple[ServerKind, list[str]] | None:
        if language not in self._commands:
            kind = kind_for(language)
            command = kind.command(self._root) if kind and importlib.util.find_spec("lsprotocol") else None
            self._commands[language] = (kind, command) if kind and command else None
        return self._commands[language]

    def _client(self, kind: ServerKind, command: Sequence[str]) -> LanguageClient | None:
        """The running server; None while it starts, which this begins."""
        with self._lock:
            client = self._running.get(kind.name)
            if client is not None and client.alive:
                return client
            starts = self._starts.get(kind.name, 0)
            if kind.name not in self._starting and starts < _MAX_STARTS and not self._closed:
                self._starts[kind.name] = starts + 1
                self._starting.add(kind.name)
                threading.Thread(target=self._start, args=(kind, command), daemon=True).start()
        return None

    def _start(self, kind: ServerKind, command: Sequence[str]) -> None:
        from adjourn.code.language_servers.client import LanguageClient  # noqa: PLC0415  # an extra

        client = None
        try:
            client = LanguageClient(command, self._root)
        except AdjournError:
            pass  # the next request says that it failed
        finally:
            with self._lock:
                self._starting.discard(kind.name)
                if client is not None and not self._closed:
                    self._running[kind.name], client = client, None
        if client is not None:
            client.close()

    def _tell_changes(self, client: LanguageClient, files: Iterable[str]) -> None:
        from lsprotocol import types  # noqa: PLC0415  # an extra

        events = []
        for path in files:
            try:
                changed = os.stat(os.path.join(self._root, path), follow_symlinks=False).st_mtime_ns
            except OSError:
                continue
            if changed > client.started_at and self._told.get(path) != changed:
                # Whether it is new is not known: so both are said.
                events += [
                    types.FileEvent(self._uri(path), kind)
                    for kind in (types.FileChangeType.Created, types.FileChangeType.Changed)
                ]
                self._told[path] = changed
        if events:
            client.notify(
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES, types.DidChangeWatchedFilesParams(changes=events)
            )

    def _lines(self, client: LanguageClient, name: NamePosition, seconds: float) -> set[tuple[str, int]]:
        from lsprotocol import types  # noqa: PLC0415  # an extra

        params = types.ReferenceParams(
            context=types.ReferenceContext(include_declaration=False),
            text_document=types.TextDocumentIdentifier(uri=self._uri(name.path)),
            position=types.Position(line=name.line, character=name.column),
        )
        found = client.request(types.TEXT_DOCUMENT_REFERENCES, params, max(seconds, 0.0)) or []
        lines = set()
        for one in found[:_MAX_LOCATIONS]:
            path = os.path.relpath(unquote(urlsplit(one.uri).path), self._root)
            if not path.startswith(".."):
                lines.add((path, one.range.start.line + 1))
        return lines

    def _uri(self, path: str) -> str:
        return Path(self._root, path).as_uri()
