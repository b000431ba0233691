"""What a language server has been told of the files.

Owns: open documents, and the notice of changed and deleted files. Must never: let a server answer about an older version than the one on disk.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from lsprotocol import types

from adjourn.code.language_servers.client import LanguageClient
from adjourn.code.model.names import native
from adjourn.errors import AdjournError
from adjourn.host import read_file, resolve_inside

_MAX_OPEN = 200
_MAX_SIZE = 4 << 20
_GONE = (0, 0)
_Stamp = tuple[int, int]


class Documents:
    """The files of one server. It knows the files that were there when it started; of changes it learns here."""

    def __init__(self, client: LanguageClient, language_of: Callable[[str], str]) -> None:
        self._client = client
        self._language_of = language_of
        self._lock = threading.Lock()
        self._told: dict[str, _Stamp] = {}
        self._open: dict[str, tuple[_Stamp, int]] = {}

    def uri(self, path: str) -> str:
        return Path(self._client.root, native(path)).as_uri()

    def refresh(self, paths: Iterable[str]) -> bool:
        """Tell of changes to these files, and to those that are open. Returns whether there were any."""
        with self._lock:
            events = [event for path in paths for event in self._events(path)]
            if events:
                self._client.notify(
                    types.WORKSPACE_DID_CHANGE_WATCHED_FILES, types.DidChangeWatchedFilesParams(events)
                )
            return bool(events) | self._show_all(list(self._open))

    def show(self, paths: Iterable[str]) -> None:
        """Open documents, or say what changed in them; those that were asked for longest ago are closed."""
        with self._lock:
            self._show_all(paths)

    def _show_all(self, paths: Iterable[str]) -> bool:
        shown = [self._show(path) for path in paths]  # all of them, also after one that was new
        return any(shown)

    def version(self, path: str) -> int | None:
        """The version of an open document."""
        with self._lock:
            return self._open[path][1] if path in self._open else None

    def _events(self, path: str) -> list[types.FileEvent]:
        stamp = self._stamp(path)
        if self._told.get(path) == stamp or (
            path not in self._told and 0 < stamp[0] <= self._client.started_at
        ):
            return []
        self._told[path] = stamp
        # Whether a file is new is not known: so both are said.
        kinds = types.FileChangeType
        said = [kinds.Deleted] if stamp == _GONE else [kinds.Created, kinds.Changed]
        return [types.FileEvent(self.uri(path), kind) for kind in said]

    def _show(self, path: str) -> bool:
        stamp, shown = self._stamp(path), self._open.pop(path, None)
        if shown is not None and shown[0] == stamp:
            self._open[path] = shown
            return False
        uri = self.uri(path)
        try:
            root = self._client.root
            text = read_file(resolve_inside(root, native(path)), _MAX_SIZE).decode("utf-8", "replace")
        except AdjournError:
            if shown is not None:
                self._close(uri)
            return shown is not None
        if shown is None:
            spoken = self._client.kind.languages.get(self._language_of(path))
            if spoken is None:
                return False
            self._make_room()
            item = types.TextDocumentItem(uri=uri, language_id=spoken, version=1, text=text)
            self._client.notify(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(item))
        else:
            version = types.VersionedTextDocumentIdentifier(version=shown[1] + 1, uri=uri)
            whole = types.TextDocumentContentChangeWholeDocument(text=text)
            self._client.notify(
                types.TEXT_DOCUMENT_DID_CHANGE, types.DidChangeTextDocumentParams(version, [whole])
            )
        self._open[path] = (stamp, 1 if shown is None else shown[1] + 1)
        return True

    def _make_room(self) -> None:
        while len(self._open) >= _MAX_OPEN:
            oldest = next(iter(self._open))
            del self._open[oldest]
            self._close(self.uri(oldest))

    def _close(self, uri: str) -> None:
        document = types.TextDocumentIdentifier(uri=uri)
        self._client.notify(types.TEXT_DOCUMENT_DID_CLOSE, types.DidCloseTextDocumentParams(document))
        self._client.published.pop(uri, None)

    def _stamp(self, path: str) -> _Stamp:
        try:
            status = os.stat(os.path.join(self._client.root, native(path)), follow_symlinks=False)
        except OSError:
            return _GONE
        return status.st_mtime_ns, status.st_size
