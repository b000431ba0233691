"""The questions that a running language server answers, in values of our own.

Must never: name a file outside of the workspace, or pass a type of the protocol on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from lsprotocol import types

from adjourn.code.deadline import Deadline
from adjourn.code.language_servers.client import LanguageClient, LanguageServerError
from adjourn.code.language_servers.kinds import CodeProblem, FileSpan, FunctionCall, NamePosition, TextEdit
from adjourn.code.repository import native, shown
from adjourn.errors import AdjournError
from adjourn.host.workspace import read_file, resolve_inside

_MAX_LOCATIONS = 50_000
_MAX_DIAGNOSTICS = 1_000
_MAX_KEPT = 200_000
_MAX_PROJECTS = 150
_MAX_SHOWN = 50
_SETTLED_SECONDS = 3.0
_MAX_TEXT = 10_000
_TSSERVER = "typescript.tsserverRequest"
_CATEGORY = {"suggestion": "hint", "message": "information"}
_SEVERITY = {1: "error", 2: "warning", 3: "information", 4: "hint"}


class _TsPlace(msgspec.Struct):
    line: int


class _TsProblem(msgspec.Struct):
    start: _TsPlace
    text: str
    category: str


class _TsProblems(msgspec.Struct):
    body: list[_TsProblem]


class LanguageServer:
    """A running server with the files that it knows. Each method raises `LanguageServerError` without an answer in time."""

    def __init__(self, client: LanguageClient, language_of: Callable[[str], str]) -> None:
        self.client = client
        self._documents = Documents(client, language_of)
        self._uses: dict[NamePosition, list[FileSpan]] = {}
        self._kept = 0
        self._projects: set[str] = set()
        self._told_at = time.monotonic()
        self._unseen = False
        """Whether files that may matter were too many to be shown at once."""

    @property
    def settled(self) -> bool:
        """Whether the server has had time to take in the project and its changes."""
        return not self._unseen and time.monotonic() - self._told_at > _SETTLED_SECONDS

    def prepare(self, names: Sequence[NamePosition], candidates: Collection[str]) -> None:
        """Tell of changes in `candidates`, the files that may matter, and open those that the server has to be shown."""
        if self._documents.refresh(candidates):
            self._forget()
            self._told_at = time.monotonic()
        if self.client.kind.shown is None:
            return
        wanted = self.client.kind.shown(self.client.root, {*candidates, *(name.path for name in names)})
        unseen = {key: path for key, path in wanted.items() if key not in self._projects}
        projects = dict(islice(unseen.items(), _MAX_SHOWN))
        self._unseen = len(projects) < len(unseen)
        if projects:
            self._documents.show(projects.values())
            self._forget()
            self._projects |= projects.keys()
            if len(self._projects) > _MAX_PROJECTS:
                self._projects.clear()  # the server has forgotten the first by now
        if wanted:
            self._documents.show({name.path for name in names})

    def _forget(self) -> None:
        self._uses.clear()
        self._kept = 0

    def uses(self, name: NamePosition, deadline: Deadline) -> list[FileSpan]:
        """Where the symbol is used, and where it is defined."""
        spans = self._uses.get(name)
        if spans is None:
            context = types.ReferenceContext(include_declaration=True)
            params = types.ReferenceParams(context, self._document(name.path), _position(name))
            spans = self._spans(self.client.request(types.TEXT_DOCUMENT_REFERENCES, params, deadline))
            self._kept += len(spans) + 1
            if self._kept < _MAX_KEPT and self.settled:
                self._uses[name] = spans
        return spans

    def definitions(self, name: NamePosition, deadline: Deadline) -> list[FileSpan]:
        """Where what is named here is defined."""
        params = types.DefinitionParams(self._document(name.path), _position(name))
        return self._spans(self.client.request(types.TEXT_DOCUMENT_DEFINITION, params, deadline))

    def implementations(self, name: NamePosition, deadline: Deadline) -> list[FileSpan]:
        """What implements the interface or overrides the method."""
        params = types.ImplementationParams(self._document(name.path), _position(name))
        return self._spans(self.client.request(types.TEXT_DOCUMENT_IMPLEMENTATION, params, deadline))

    def callers(self, name: NamePosition, deadline: Deadline) -> list[FunctionCall]:
        """The functions that call this one, each with the places of its calls."""
        calls = []
        for item in self._callables(name, deadline):
            params = types.CallHierarchyIncomingCallsParams(item)
            for call in self.client.request(types.CALL_HIERARCHY_INCOMING_CALLS, params, deadline) or ():
                spans = self._within(call.from_.uri, call.from_ranges)
                calls += [FunctionCall(call.from_.name, spans)] if spans else []
        return calls

    def callees(self, name: NamePosition, deadline: Deadline) -> list[FunctionCall]:
        """The functions that this one calls, each with the place of its name."""
        calls = []
        for item in self._callables(name, deadline):
            params = types.CallHierarchyOutgoingCallsParams(item)
            for call in self.client.request(types.CALL_HIERARCHY_OUTGOING_CALLS, params, deadline) or ():
                spans = self._within(call.to.uri, [call.to.selection_range])
                calls += [FunctionCall(call.to.name, spans)] if spans else []
        return calls

    def hover(self, name: NamePosition, deadline: Deadline) -> str:
        """The type and documentation of what is named here; "" if there is none."""
        params = types.HoverParams(self._document(name.path), _position(name))
        answer = self.client.request(types.TEXT_DOCUMENT_HOVER, params, deadline)
        return _text(answer.contents)[:_MAX_TEXT] if answer else ""

    def diagnostics(self, path: str, deadline: Deadline) -> list[CodeProblem]:
        """What is wrong in a file, as it is now."""
        self._documents.show([path])
        if self.client.kind.diagnoses:
            return self._diagnosed(path, deadline)
        uri = self._documents.uri(path)
        if self.client.capabilities.diagnostic_provider:
            question = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
            answer = self.client.request(types.TEXT_DOCUMENT_DIAGNOSTIC, question, deadline)
            problems = getattr(answer, "items", ())
        else:
            version, published = self._documents.version(path), self.client.published
            self.client.wait_for(
                lambda: uri in published and published[uri].version == version, deadline, "looking for errors"
            )
            problems = published[uri].diagnostics
        return [
            CodeProblem(
                path, problem.range.start.line + 1, _SEVERITY.get(int(problem.severity or 1), "error"), problem.message
            )
            for problem in problems[:_MAX_DIAGNOSTICS]
        ]

    def _diagnosed(self, path: str, deadline: Deadline) -> list[CodeProblem]:
        """The errors of a file, by the commands of its server's kind."""
        file = {"file": os.path.join(self.client.root, native(path))}
        problems: list[_TsProblem] = []
        for command in self.client.kind.diagnoses:
            params = types.ExecuteCommandParams(_TSSERVER, arguments=[command, file])
            answer = self.client.request(types.WORKSPACE_EXECUTE_COMMAND, params, deadline)
            try:
                problems += msgspec.convert(answer, _TsProblems).body
            except msgspec.ValidationError as error:
                raise LanguageServerError(f"the answer to {command} is malformed", "repeat the call") from error
        return [
            CodeProblem(path, problem.start.line, _CATEGORY.get(problem.category, problem.category[:20]), problem.text)
            for problem in problems[:_MAX_DIAGNOSTICS]
        ]

    def renaming(self, name: NamePosition, new_name: str, deadline: Deadline) -> dict[str, list[TextEdit]]:
        """The edits of each file that rename a symbol. Raises `LanguageServerError` if it cannot be renamed by edits alone."""
        params = types.RenameParams(self._document(name.path), _position(name), new_name)
        answer = self.client.request(types.TEXT_DOCUMENT_RENAME, params, deadline)
        edits: dict[str, list[TextEdit]] = {}
        changes: list[tuple[str, Iterable[Any]]] = list((answer.changes or {}).items()) if answer else []
        for change in (answer.document_changes or ()) if answer else ():
            if not isinstance(change, types.TextDocumentEdit):
                raise LanguageServerError("the renaming moves files", "rename the files yourself")
            changes.append((change.text_document.uri, change.edits))
        for uri, several in changes:
            if (path := self._path(uri)) is None:
                raise LanguageServerError("the symbol is defined outside of the repository", "name another")
            edits.setdefault(path, []).extend(TextEdit(_span(path, edit.range), edit.new_text) for edit in several)
        return edits

    def _callables(self, name: NamePosition, deadline: Deadline) -> list[types.CallHierarchyItem]:
        params = types.CallHierarchyPrepareParams(self._document(name.path), _position(name))
        return list(self.client.request(types.TEXT_DOCUMENT_PREPARE_CALL_HIERARCHY, params, deadline) or ())

    def _document(self, path: str) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self._documents.uri(path))

    def _spans(self, answer: Any) -> list[FileSpan]:
        several = answer if isinstance(answer, Sequence) else [answer] if answer else []
        spans = []
        for location in several[:_MAX_LOCATIONS]:
            link = isinstance(location, types.LocationLink)
            spans += self._within(
                location.target_uri if link else location.uri,
                [location.target_selection_range if link else location.range],
            )
        return spans

    def _within(self, uri: str, ranges: Iterable[types.Range]) -> list[FileSpan]:
        path = self._path(uri)
        return [_span(path, range_) for range_ in ranges] if path is not None else []

    def _path(self, uri: str) -> str | None:
        """The path of a URI in the workspace; None if it is outside."""
        parts = urlsplit(uri)
        full = unquote(parts.path, errors="surrogateescape")
        path = os.path.relpath(full, self.client.root)
        outside = parts.scheme != "file" or path == ".." or path.startswith("../")
        return None if outside else shown(path)


def _position(name: NamePosition) -> types.Position:
    return types.Position(line=name.line, character=name.column)


def _span(path: str, place: types.Range) -> FileSpan:
    return FileSpan(path, place.start.line, place.start.character, place.end.line, place.end.character)


def _text(contents: Any) -> str:
    if isinstance(contents, str):
        return contents
    if isinstance(contents, Sequence):
        return "\n".join(map(_text, contents))
    return str(contents.value)


# --- what a language server has been told of the files

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
                self._client.notify(types.WORKSPACE_DID_CHANGE_WATCHED_FILES, types.DidChangeWatchedFilesParams(events))
            return bool(events) | self._show_all(list(self._open))

    def show(self, paths: Iterable[str]) -> None:
        """Open documents, or say what changed in them; those that were asked for longest ago are closed."""
        with self._lock:
            self._show_all(paths)

    def _show_all(self, paths: Iterable[str]) -> bool:
        are_new = [self._show(path) for path in paths]  # all of them, also after one that was new
        return any(are_new)

    def version(self, path: str) -> int | None:
        """The version of an open document."""
        with self._lock:
            return self._open[path][1] if path in self._open else None

    def _events(self, path: str) -> list[types.FileEvent]:
        stamp = self._stamp(path)
        if self._told.get(path) == stamp or (path not in self._told and 0 < stamp[0] <= self._client.started_at):
            return []
        self._told[path] = stamp
        # Whether a file is new is not known: so both are said.
        kinds = types.FileChangeType
        changes = [kinds.Deleted] if stamp == _GONE else [kinds.Created, kinds.Changed]
        return [types.FileEvent(self.uri(path), kind) for kind in changes]

    def _show(self, path: str) -> bool:
        stamp, open_version = self._stamp(path), self._open.pop(path, None)
        if open_version is not None and open_version[0] == stamp:
            self._open[path] = open_version
            return False
        uri = self.uri(path)
        try:
            root = self._client.root
            text = read_file(resolve_inside(root, native(path)), _MAX_SIZE).decode("utf-8", "replace")
        except AdjournError:
            if open_version is not None:
                self._close(uri)
            return open_version is not None
        if open_version is None:
            spoken = self._client.kind.languages.get(self._language_of(path))
            if spoken is None:
                return False
            self._make_room()
            item = types.TextDocumentItem(uri=uri, language_id=spoken, version=1, text=text)
            self._client.notify(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(item))
        else:
            version = types.VersionedTextDocumentIdentifier(version=open_version[1] + 1, uri=uri)
            change = types.TextDocumentContentChangeWholeDocument(text=text)
            self._client.notify(types.TEXT_DOCUMENT_DID_CHANGE, types.DidChangeTextDocumentParams(version, [change]))
        self._open[path] = (stamp, 1 if open_version is None else open_version[1] + 1)
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
