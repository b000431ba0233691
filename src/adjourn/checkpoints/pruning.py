"""Free disk space: delete old checkpoints on request, and collect garbage. The history is never deleted.

A pruned checkpoint stays an event in its task's chain, so nothing that is verified is lost; only fewer checkpoints can be resumed by
name. A task's newest checkpoint always stays, and so do a page that a person edited and the active page.

Garbage is what no event, no name and no living session may need: temporary files of killed processes, expired leases, old caches, and
documents that nothing mentions.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from adjourn.checkpoints import folder, git_snapshot, page_files, transcript_facts
from adjourn.checkpoints.checkpoint import as_checkpoint
from adjourn.checkpoints.folder import Freed, remove_temporaries
from adjourn.checkpoints.page_files import FoundPage
from adjourn.errors import AdjournError, ConflictError
from adjourn.host.workspace import CHECKPOINTS, locked, remove_file, resolve_inside
from adjourn.log.event import decode, milliseconds
from adjourn.policy.principal import checkpoint_ref, key_of_task
from adjourn.store.base import Head, Store
from adjourn.tasks.lease import REPLICA, WANTED, lease_end, time_of
from adjourn.tasks.task import tasks_of
from adjourn.tasks.work_index import named_refs

DAY = 86_400_000
KEEP_LAST = 10
_CREATED = b'"event":"checkpoint.created"'


class RetentionRules(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoints of each task that stay: the last `keep_last`, and the last one of each of the last `daily` days.

    Of the others, those older than `older_than` milliseconds are deleted, and the oldest ones until all checkpoints take at most
    `max_bytes`. Without these two limits all others are deleted.
    """

    keep_last: int = KEEP_LAST
    daily: int = 0
    older_than: int | None = None
    max_bytes: int | None = None


class Point(NamedTuple):
    """A checkpoint and what exists of it. `at` is in milliseconds, `size` in bytes; `named`: its name points at it."""

    task: str
    name: str
    hash: str
    at: int
    document: str
    named: bool
    page: FoundPage | None
    folder: str
    size: int

    @property
    def is_there(self) -> bool:
        return bool(self.size or self.named or self.page)


class Pruned(NamedTuple):
    """The checkpoints to delete, oldest first, and the number of those that stay."""

    points: list[Point]
    kept: int

    @property
    def size(self) -> int:
        return sum(point.size for point in self.points)


def plan(store: Store, root: str, rules: RetentionRules, now: int) -> Pruned:
    """The checkpoints that `prune` would delete. Reads every task's chain. `now` is in milliseconds. Raises `StoreError`."""
    pages = {page.id: page for page in page_files.search(root).pages}
    sizes = dict(store.blobs())
    names = {value.rpartition(" ")[2] for value in store.refs("checkpoint/").values()}
    loose: list[Point] = []
    kept: list[Point] = []
    for task in tasks_of(store):
        points = [_with_size(point, sizes, names, pages, root) for point in _points(store, task)]
        stay = _stay(points, rules, now)
        for point in points:
            (kept if point.hash in stay else loose).append(point)
    documents = {point.document for point in kept}
    loose = [
        point._replace(document="", size=point.size - sizes.get(point.document, 0))
        if point.document in documents
        else point
        for point in loose
    ]
    there = sorted((point for point in loose if point.is_there), key=lambda point: point.at)
    chosen = _chosen(there, kept, rules, now)
    return Pruned(chosen, sum(point.is_there for point in (*there, *kept)) - len(chosen))


def _points(store: Store, task: str) -> Iterator[Point]:
    for entry in store.read(task):
        if _CREATED in entry.data:
            with suppress(AdjournError):
                event, event_hash, data = as_checkpoint(entry)
                at = milliseconds(event.timestamp)
                yield Point(task, data.name, event_hash, at, data.document, False, None, "", 0)


def _with_size(point: Point, sizes: dict[str, int], names: set[str], pages: dict[str, FoundPage], root: str) -> Point:
    named = point.hash in names
    page, path = pages.get(point.hash), ""
    size = sizes.get(point.document, 0) + (len(page.text.encode()) if page else 0)
    if named and not key_of_task(point.task):  # folders of spaces stay
        with suppress(AdjournError):
            path = folder.path_of(root, point.name)
            size += _size_of(path)
    return point._replace(named=named, page=page, folder=path, size=size)


def _size_of(folder: str) -> int:
    """The bytes of a folder's files; of a file with several links, this link's share."""
    size = 0
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            size += status.st_size // max(1, status.st_nlink)
    return size


def _stay(points: list[Point], rules: RetentionRules, now: int) -> set[str]:
    """The hashes of the checkpoints of one task that stay, whatever their age and size."""
    newest = sorted(points, key=lambda point: point.at, reverse=True)
    stay = {point.hash for point in newest[: max(1, rules.keep_last)]}
    days: set[int] = set()
    for point in newest:
        day = point.at // DAY
        if now // DAY - day < rules.daily and day not in days:
            days.add(day)
            stay.add(point.hash)
        if point.page is not None and (point.page.is_active or point.page.reading.edited):
            stay.add(point.hash)
    return stay


def _chosen(loose: list[Point], points: list[Point], rules: RetentionRules, now: int) -> list[Point]:
    if rules.older_than is None and rules.max_bytes is None:
        return loose
    chosen = []
    total = sum(point.size for point in (*loose, *points))
    for point in loose:  # oldest first
        too_old = rules.older_than is not None and now - point.at > rules.older_than
        too_much = rules.max_bytes is not None and total > rules.max_bytes
        if too_old or too_much:
            chosen.append(point)
            total -= point.size
    return chosen


def prune(store: Store, root: str, pruned: Pruned) -> None:
    """Delete the planned checkpoints. After an interruption the next run deletes the rest. Raises `StoreError`."""
    for point in pruned.points:
        if point.folder:
            _remove_folder(store, root, point)
        if point.named:
            _unname(store, point)
    with page_files.changing(root):
        gone = [point.page for point in pruned.points if point.page and _remove_page(root, point.page)]
    kept = [page.machine.get("files") for page in gone]
    refs = [files["ref"] for files in kept if isinstance(files, dict) and isinstance(files.get("ref"), str)]
    if refs:
        with suppress(AdjournError):  # the repository may be gone
            git_snapshot.forget(root, refs)
    store.drop([point.document for point in pruned.points if point.document])


def _remove_folder(store: Store, root: str, point: Point) -> None:
    """Delete the folder of a checkpoint that its name still points at; checkpoint.json first, in case of an interruption."""
    if not os.path.isdir(point.folder):
        return
    with locked(point.folder):
        came_from_elsewhere = folder.is_as_written(store, root, point.name) is False
        named = store.ref(f"checkpoint/{point.name}") or ""
        if named.endswith(f" {point.hash}") and not came_from_elsewhere:
            remove_file(point.folder, folder.JSON_FILE)
            shutil.rmtree(point.folder, ignore_errors=True)


def _remove_page(root: str, page: FoundPage) -> bool:
    """Delete a page that has not changed since the plan was made."""
    with suppress(AdjournError, FileNotFoundError):
        if page_files.read(root, page.path).text == page.text:
            os.unlink(os.path.join(os.path.realpath(root), page.path))
            return True
    return False


def _unname(store: Store, point: Point) -> None:
    listed = f"{named_refs(point.task)}{point.name}"
    if (place := store.ref(listed) or "").endswith(f" {point.hash}"):
        with suppress(ConflictError):  # a newer checkpoint took the name
            store.swap(listed, None, expect=place)
    named = checkpoint_ref(point.name, point.task)
    folder = named.replace("checkpoint/", "folder/", 1)
    value = store.ref(named) or ""
    if value.endswith(f" {point.hash}"):
        with suppress(ConflictError):  # a newer checkpoint took the name
            store.swap(named, None, expect=value)
            store.swap(folder, None, expect=store.ref(folder))


# --- garbage collection

OLD_FOLD = 30 * DAY
_PLACES = {
    "tmp": None, "memory": None, ".aex": None, CHECKPOINTS: "", ".aex/undo": "", ".code-intel": "", "output": "checkpoints",
}  # fmt: skip
"""The folders that adjourn writes into, and the folder to clean in each of their subfolders; None: in no subfolder."""
_DIGEST = re.compile(rb"[0-9a-f]{64}")


def collect(store: Store | None, root: str, now: int) -> list[Freed]:
    """Free garbage of a store (None: of files only) and of the workspace `root`. `now` is in milliseconds. Returns what was freed.

    Raises `StoreError`.
    """
    removals = [_temporary_files(root), folder.share_histories(root)]
    if store is not None:
        removals += [_leases(store, now), _folds(store, now), _folder_names(store), _documents(store, now)]
    return removals


# --- files


def _temporary_files(root: str) -> Freed:
    """Temporary files of writes that stopped an hour ago or earlier."""
    sizes = [size for folder in _folders(root) for size in remove_temporaries(folder)]
    return Freed("temporary files", len(sizes), sum(sizes))


def _folders(root: str) -> Iterator[str]:
    for place, inner in _PLACES.items():
        with suppress(AdjournError):
            path = resolve_inside(root, place)
            yield path
            if inner is not None:
                inside_it = (os.path.join(path, name, inner).rstrip("/") for name in _entries(path))
                yield from (folder for folder in inside_it if os.path.realpath(folder) == folder)


def _entries(path: str) -> list[str]:
    with suppress(OSError), os.scandir(path) as entries:
        return sorted(entry.name for entry in entries)
    return []


# --- the store


def _leases(store: Store, now: int) -> Freed:
    day_ago = time_of(store, now) - DAY
    leases = {**store.refs("lease/"), **store.refs(REPLICA), **store.refs(WANTED)}
    over = {name: lease for name, lease in leases.items() if lease_end(store, lease) < day_ago}
    return Freed("expired leases", *_without(store, over))


def _folds(store: Store, now: int) -> Freed:
    """Caches of tasks that do not exist, or had no event for a month. They are recreated when needed."""
    tasks = tasks_of(store)
    old = {
        name: value for name, value in store.refs("fold/").items() if _rests(store, name.partition("/")[2], tasks, now)
    }
    count, size = _without(store, old)
    for name, value in store.refs(transcript_facts.REF).items():
        task = name.removeprefix(transcript_facts.REF)
        shorter = transcript_facts.without_story(value)
        if (
            shorter != value and task in tasks and _rests(store, task, tasks, now)
        ):  # without events it may be about to start
            with suppress(ConflictError):  # in use again
                store.swap(name, shorter, expect=value, durable=False)
                count, size = count + 1, size + len(value) - len(shorter)
    return Freed("old caches", count, size)


def _rests(store: Store, task: str, tasks: Mapping[str, Head], now: int) -> bool:
    """Whether a task does not exist, or had no event for a month."""
    if (head := tasks.get(task)) is None:
        return True
    last = next(iter(store.read(task, head.seq)), None)
    with suppress(AdjournError):
        return last is not None and milliseconds(decode(last.data).timestamp) < now - OLD_FOLD
    return False


def _folder_names(store: Store) -> Freed:
    """Digests of checkpoint.json whose checkpoint no longer has a name."""
    there = store.refs("checkpoint/")
    loose = {
        name: value
        for name, value in store.refs("folder/").items()
        if f"checkpoint/{name.removeprefix('folder/')}" not in there
    }
    return Freed("notes on folders", *_without(store, loose))


def _without(store: Store, refs: dict[str, str]) -> tuple[int, int]:
    count = size = 0
    for name, value in refs.items():
        with suppress(ConflictError):  # in use again
            store.swap(name, None, expect=value, durable=False)
            count, size = count + 1, size + len(name) + len(value)
    return count, size


def _documents(store: Store, now: int) -> Freed:
    """Documents that no event, name or needed document mentions. None while a session is open: it may mention one soon."""
    now_there = time_of(store, now)
    if any(lease_end(store, lease) > now_there for lease in store.refs("lease/").values()):
        return Freed("documents (not looked at: a session is open)", 0, 0)
    before = _ends(store)
    sizes = dict(store.blobs())
    needed: set[str] = set()
    waiting = [digest for text in _texts(store) for digest in _mentioned(text)]
    while waiting:
        digest = waiting.pop()
        if digest in sizes and digest not in needed:
            needed.add(digest)
            waiting += _mentioned(store.get_blob(digest) or b"")
    loose = [digest for digest in sizes if digest not in needed]
    if _ends(store) != before:
        return Freed("documents (not looked at: another process writes)", 0, 0)
    store.drop(loose)
    return Freed("documents", len(loose), sum(sizes[digest] for digest in loose))


def _ends(store: Store) -> tuple[object, object]:
    """A value that changes when a name or an event is added."""
    return store.streams(), store.refs()


def _texts(store: Store) -> Iterator[bytes]:
    for value in store.refs().values():
        yield value.encode()
    for stream in store.streams():
        for entry in store.read(stream):
            yield entry.data


def _mentioned(text: bytes) -> list[str]:
    return [match.decode() for match in _DIGEST.findall(text)]
