"""The index of one work tree: what is out of date, updating it, and its statistics. It never blocks a reader."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from adjourn.code.deadline import Deadline
from adjourn.code.index import analysis, database, ripgrep
from adjourn.code.index.analysis import MAX_PARSED, Analysis, ChunkText, dialect, fingerprint
from adjourn.code.index.database import FRESH, Database, FileState, changed_ns
from adjourn.code.index.languages import has_grammar, language_of, missing_grammars
from adjourn.code.index.workers import AnalysisRequest, ChunkWords, WordsRequest, answers
from adjourn.code.repository import CodeRepository

_SETTLED_NS = 2_000_000_000
_BATCH = 200
_BATCH_SECONDS = 1.0
_MAX_FILES = 200_000
_LOCK, _WORDS_LOCK = "index.lock", "index.words.lock"
_SPARE = 2_000
_UNWORDED = """
SELECT content.id, content.hash, content.language, min(file.path)
FROM content INDEXED BY content_unworded CROSS JOIN file INDEXED BY file_content ON file.content = content.id AND file.tree = ?
WHERE worded = 0 GROUP BY content.id ORDER BY max(file.mtime) DESC
"""
_TEXTS = "SELECT name, kind, doc, start_byte, end_byte FROM chunk WHERE content = ? ORDER BY id"


class SyncReport(msgspec.Struct, frozen=True):
    """The result of an update, in files. `partial`: stopped before the end."""

    added: int = 0
    modified: int = 0
    deleted: int = 0
    unchanged: int = 0
    errors: tuple[str, ...] = ()
    duration_ms: int = 0
    partial: bool = False


_Status = tuple[int, int]
"""A file's time in nanoseconds and its size; a difference means that it may have changed."""


class CodeIndex:
    """The index of a repository's files, for one of its work trees."""

    def __init__(self, repository: CodeRepository) -> None:
        self.repository = repository
        self.folder = repository.index_folder()
        self.database = Database(self.folder)
        self.tree = database.tree_id(self.database, repository.root)
        self._syncing = threading.Lock()
        self._wording = threading.Lock()

    def synced(self) -> float | None:
        """When the whole tree was last compared, in seconds since the epoch; None before the first time."""
        row = self.database.one("SELECT synced FROM tree WHERE id = ?", (self.tree,))
        return row[0] if row else None

    def stats(self) -> dict[str, Any]:
        """How much the index holds of this work tree."""
        files, contents = self.database.all(
            "SELECT count(*), count(DISTINCT content) FROM file WHERE tree = ?", (self.tree,)
        )[0]
        languages = dict(
            self.database.all(
                "SELECT language, count(*) FROM file JOIN content ON content.id = content WHERE tree = ?"
                " GROUP BY language ORDER BY 2 DESC",
                (self.tree,),
            )
        )
        return {"files": files, "distinct_contents": contents, "languages": languages}

    def sync(self, deadline: Deadline | None = None, *, force: bool = False) -> SyncReport:
        """Compare every file with the index and index the changed ones. `force` rebuilds the index."""
        deadline = deadline or Deadline()
        began = time.monotonic()
        with self._syncing, self.lock(_LOCK, deadline):
            if force or self._is_mostly_unused():
                self.database.empty()
            paths = ripgrep.files((), cwd=self.repository.root, deadline=deadline)[:_MAX_FILES]
            if deadline.expired():  # the list may end early: what it does not name is not therefore gone
                return SyncReport(partial=True, duration_ms=int((time.monotonic() - began) * 1000))
            rows = self.database.all("SELECT path, mtime, size FROM file WHERE tree = ?", (self.tree,))
            recorded = {path: (mtime, size) for path, mtime, size in rows}
            report = self._update_files(paths, recorded, deadline, whole=True)
            if not report.partial:
                with self.database.transaction() as cursor:
                    cursor.execute("UPDATE tree SET synced = ? WHERE id = ?", (time.time(), self.tree))
        return msgspec.structs.replace(report, duration_ms=int((time.monotonic() - began) * 1000))

    def refresh(self, paths: Sequence[str]) -> SyncReport:
        """Index a few files that are known to have changed, without checking the others."""
        with self._syncing:
            recorded: dict[str, _Status] = {}
            for path in paths:
                row: Any = self.database.one(
                    "SELECT mtime, size FROM file WHERE tree = ? AND path = ?", (self.tree, path)
                )
                if row:
                    recorded[path] = row
            return self._update_files(list(paths), recorded, Deadline(), whole=False)

    def add_words(self, deadline: Deadline | None = None) -> bool:
        """The second pass: add the words of chunks, most recently changed files first. Returns whether all are in the index."""
        deadline = deadline or Deadline()
        with self._wording, self.lock(_WORDS_LOCK, deadline):
            unworded = self.database.all(_UNWORDED, (self.tree,))
            added = _Words(self, deadline).add(unworded) if unworded else 0
        return added == len(unworded)

    def has_words(self) -> bool:
        """Whether the words of every chunk are in the index."""
        return not self.database.all(f"{_UNWORDED} LIMIT 1", (self.tree,))

    def unparsed(self) -> dict[str, str]:
        """The languages of indexed files that cannot be parsed here, each with a package that is not installed."""
        packages = missing_grammars()
        if not packages:
            return {}
        used = "SELECT DISTINCT content.language FROM file JOIN content ON content.id = file.content WHERE tree = ?"
        return {name: packages[name] for (name,) in self.database.all(used, (self.tree,)) if name in packages}

    def contains(self, path: str) -> bool:
        return self.database.one("SELECT 1 FROM file WHERE tree = ? AND path = ?", (self.tree, path)) is not None

    @contextmanager
    def lock(self, name: str, deadline: Deadline) -> Iterator[None]:
        """Hold the lock under which one process at a time does a pass of the index; it is released with the process."""
        handle = os.open(f"{self.folder}/{name}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            while not deadline.expired():
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    time.sleep(0.05)
            yield
        finally:
            os.close(handle)

    def close(self) -> None:
        self.database.close()

    def _is_mostly_unused(self) -> bool:
        """Whether work trees no longer use most of the indexed contents; the index is then rebuilt."""
        self._forget_trees()
        row = self.database.one("SELECT (SELECT count(*) FROM content), (SELECT count(DISTINCT content) FROM file)")
        assert row is not None
        contents, used = row
        return bool(contents > 3 * used + _SPARE)

    def _forget_trees(self) -> None:
        for number, root in self.database.all("SELECT id, root FROM tree WHERE id <> ?", (self.tree,)):
            if not os.path.isdir(root):
                with self.database.transaction() as cursor:
                    cursor.execute("DELETE FROM file WHERE tree = ?", (number,))
                    cursor.execute("DELETE FROM tree WHERE id = ?", (number,))

    def _update_files(
        self, paths: list[str], recorded: dict[str, _Status], deadline: Deadline, *, whole: bool
    ) -> SyncReport:
        changed: list[str] = []
        present: set[str] = set()
        for path in paths:
            status = _file_status(self.repository.absolute(path))
            if status is None:
                continue
            present.add(path)
            if recorded.get(path) != status:
                changed.append(path)
        gone = [path for path in recorded if path not in present]
        errors: list[str] = []
        new = _Update(self, changed, errors, deadline)
        done = new.run(gone)
        added = sum(path not in recorded for path in done)
        return SyncReport(
            added=added,
            modified=len(done) - added,
            deleted=len(gone),
            unchanged=len(present) - len(changed) if whole else 0,
            errors=tuple(errors[:20]),
            partial=len(done) + len(errors) < len(changed),
        )


class _Update:
    """Indexes changed files: known contents need only a row, others are analyzed."""

    def __init__(self, index: CodeIndex, changed: list[str], errors: list[str], deadline: Deadline) -> None:
        self._index = index
        self._changed = changed
        self._errors = errors
        self._deadline = deadline
        self._done: list[str] = []

    def run(self, gone: list[str]) -> list[str]:
        """Index the changed files, and return the paths that were indexed."""
        index = self._index
        seen = [file for path in self._changed if (file := self._look(path))]
        have = database.stored_hashes(index.database, {file.hash for file in seen})
        ready = [file for file in seen if file.hash in have]
        database.save(index.database, index.tree, ready, {}, gone)
        self._done += [file.path for file in ready]
        wanted: dict[bytes, list[FileState]] = {}
        for file in seen:
            if file.hash not in have:
                wanted.setdefault(file.hash, []).append(file)
        self._deadline.report(len(self._done), len(seen))
        self._analyse(wanted, len(seen))
        return self._done

    def _analyse(self, wanted: dict[bytes, list[FileState]], total: int) -> None:
        analyses: dict[bytes, tuple[str, Analysis]] = {}
        last = time.monotonic()
        with closing(answers(self._requests(wanted), len(wanted), self._index.repository.root)) as done:
            for key, analysis in done:
                analyses[key] = (wanted[key][0].language, analysis)
                if len(analyses) >= _BATCH or time.monotonic() - last > _BATCH_SECONDS:
                    self._save(wanted, analyses)
                    last = time.monotonic()
                    self._deadline.report(len(self._done), total)
        self._save(wanted, analyses)
        self._deadline.report(len(self._done), total)

    def _requests(self, wanted: dict[bytes, list[FileState]]) -> Iterator[tuple[bytes, AnalysisRequest]]:
        root = self._index.repository.root
        plain = [files[0].path for files in wanted.values() if not has_grammar(files[0].language)]
        tags = analysis.ctags_symbols(plain, cwd=root)
        for key, files in wanted.items():
            if self._deadline.expired():
                return
            path, language = files[0].path, files[0].language
            try:
                data = _read(self._index.repository.absolute(path))
            except OSError:
                continue  # it was deleted meanwhile; the next sync notices
            if fingerprint(data, dialect(language, root)) == key:
                yield key, AnalysisRequest(data, language, tags.get(path))

    def _save(self, wanted: dict[bytes, list[FileState]], analyses: dict[bytes, tuple[str, Analysis]]) -> None:
        files = [file for key in analyses for file in wanted[key]]
        database.save(self._index.database, self._index.tree, files, analyses)
        self._done += [file.path for file in files]
        analyses.clear()

    def _look(self, path: str) -> FileState | None:
        root = self._index.repository.root
        full = self._index.repository.absolute(path)
        language = language_of(path)
        try:
            status = os.stat(full, follow_symlinks=False)
            data = _read(full)
        except OSError as error:
            self._errors.append(f"{path}: {error.strerror}")
            return None
        # A file that was written just now may be written again within the clock's step: it is examined again.
        changed = changed_ns(status)
        mtime = FRESH if time.time_ns() - changed < _SETTLED_NS else changed
        return FileState(path, mtime, status.st_size, fingerprint(data, dialect(language, root)), language)


class _Words:
    """Adds the words of chunks to the index, from the files that the chunks are of."""

    def __init__(self, index: CodeIndex, deadline: Deadline) -> None:
        self._index = index
        self._deadline = deadline
        self._added = 0

    def add(self, unworded: list[tuple[Any, ...]]) -> int:
        """Add the words of contents, and return how many were dealt with."""
        words_of_chunks: dict[tuple[int, bytes], ChunkWords] = {}
        last = time.monotonic()
        try:
            with closing(answers(self._requests(unworded), len(unworded), self._index.repository.root)) as done:
                for content, words in done:
                    words_of_chunks[content] = words
                    if len(words_of_chunks) >= _BATCH or time.monotonic() - last > _BATCH_SECONDS:
                        self._save(words_of_chunks)
                        last = time.monotonic()
                        self._deadline.report(self._added, len(unworded))
        finally:
            self._save(words_of_chunks)  # what was found before an interruption counts
        return self._added

    def _requests(self, unworded: list[tuple[Any, ...]]) -> Iterator[tuple[tuple[int, bytes], WordsRequest]]:
        root = self._index.repository.root
        for content, key, language, path in unworded:
            if self._deadline.expired():
                return
            rows = self._index.database.all(_TEXTS, (content,))
            try:
                data = _read(self._index.repository.absolute(path))
            except OSError:
                data = b""
            if fingerprint(data, dialect(language, root)) == key:
                yield ((content, key), WordsRequest(data, [ChunkText(*row) for row in rows]))
            else:
                self._added += 1  # it changed meanwhile: the next sync brings its new content

    def _save(self, words_of_chunks: dict[tuple[int, bytes], ChunkWords]) -> None:
        database.save_words(self._index.database, words_of_chunks)
        self._added += len(words_of_chunks)
        words_of_chunks.clear()


def _file_status(path: str) -> _Status | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (changed_ns(status), status.st_size) if stat.S_ISREG(status.st_mode) else None


def _read(path: str) -> bytes:
    """A file's bytes, not following links; of a file too long to analyze, only its beginning."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        return file.read(MAX_PARSED + 1)
