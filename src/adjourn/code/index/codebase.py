"""An open repository: its files, its index, and the threads that keep the index up to date.

Must never: make a caller wait for more than a few files.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from threading import Lock
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

import msgspec

from adjourn.code import repository
from adjourn.code.deadline import CancelledError, Deadline
from adjourn.code.index.index import CodeIndex, SyncReport
from adjourn.code.index.languages import language_of
from adjourn.code.language_servers.servers import LanguageServers
from adjourn.code.repository import FOLDER, CodeRepository
from adjourn.errors import AdjournError

READY_FIRST, READY_LAST = ["definitions", "references"], "semantic_search"
"""What the index answers after its first pass, and what only after its second."""
NUDGE_SECONDS = 2.0
_WATCH_STEP_MS, _WATCH_MOST_MS = 10, 500
"""How long the watcher waits for another change before it reports some, and for how long at most."""
_WATCH_LOOK_MS = 50
_FEW, _AT_ONCE = 50, 8
"""How many changed files are indexed without comparing all others: in the background, and before an answer."""
_MEMO_NAMES, _MEMO_USES = 64, 50_000
"""How many names are kept with their uses, and how many uses of all of them: about 15 MB."""
_WATCHER_SECONDS = 1.0
"""How long the first comparison waits for the watcher. A watcher that starts later has everything compared again."""


@cache
def can_watch() -> bool:
    """Whether the package that watches files is installed."""
    return importlib.util.find_spec("watchfiles") is not None


class Codebase:
    """A work tree with its index. Without `start`, the index holds what an earlier process left, or what `sync` adds."""

    def __init__(
        self, path: str = ".", *, language_servers: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> None:
        """`language_servers`: by language, the commands of servers that the user names."""
        self._named_servers = language_servers
        self.repository = CodeRepository(path)
        self.index: CodeIndex | None = None
        self.language_servers: LanguageServers | None = None
        self.uses: Memo[Any] = Memo(_MEMO_NAMES, _MEMO_USES)
        self._lookups = {"hits": 0, "misses": 0}
        self._reason = ""
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._busy = False
        self._progress = (0, 0)
        self._last_sync = 0.0
        self._changed: set[str] = set()
        self._refreshing = threading.Lock()
        self._refreshed = False
        self._unseen = True
        self._watching = threading.Event()
        self._threads: list[threading.Thread] = []
        try:
            self.index = CodeIndex(self.repository)
        except (AdjournError, OSError) as error:
            self._reason = str(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self, *, watch: bool = True) -> None:
        """Update the index in the background, now and whenever files change (without a watcher: after each query)."""
        if self.index is None or self._threads:
            return
        self.language_servers = LanguageServers(self.repository.root, language_of, self._named_servers)
        self._wake.set()
        self._busy = True  # the first comparison is due, and waits for the watcher
        targets = [self._run]
        if watch and can_watch():
            targets.append(self._watch)
        else:
            self._watching.set()
        self._threads = [threading.Thread(target=target, daemon=True, name="adjourn-index") for target in targets]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        self._watching.set()
        self._wake.set()
        if self.language_servers is not None:
            self.language_servers.close()
        for thread in self._threads:
            thread.join()
        if self.index is not None:
            self.index.close()
            self.index = None

    def request_update(self) -> None:
        """Index the few files that are known to have changed, so that they are read before an answer; else schedule an update."""
        if not self._busy and self._refresh(_AT_ONCE):
            self._refreshed = True
        if time.monotonic() - self._last_sync > NUDGE_SECONDS:
            self._wake.set()

    def count_lookup(self, *, answered: bool) -> dict[str, int]:
        """Count a lookup that the complete index answered, or did not. Returns the counts so far."""
        self._lookups["hits" if answered else "misses"] += 1
        return dict(self._lookups)

    def state(self) -> dict[str, Any]:
        """The index state in replies: `ready`, `stale`, `updating`, `building` (never complete yet), `empty` or `unavailable`.

        `stale`: so many `stale_files` are known to have changed and are not indexed yet. `updating`: files are being compared.
        `ready` names what the index answers completely, once it has covered every file. `done` of `total` files are indexed.
        `missing_grammars` names the languages that have no symbols, and the packages that would read them.
        """
        if self.index is None:
            return {"state": "unavailable", "reason": self._reason}
        complete = self.complete()
        done, total = self._progress
        changed = self._changed.copy()
        stale = sum(map(self._contains, changed)) + (total - done if self._busy else 0) if complete else 0
        if stale:
            state: dict[str, Any] = {"state": "stale", "stale_files": stale}
        elif self._busy or changed:
            state = {"state": "updating" if complete else "building"}
        else:
            state = {"state": "ready" if complete else "empty"}
        if complete:
            state["ready"] = [*READY_FIRST, *([READY_LAST] if self.index.has_words() else [])]
        if total:
            state |= {"done": done, "total": total}
        if unparsed := self.index.unparsed():
            state["missing_grammars"] = unparsed
        if self._reason and not self._busy:
            state["reason"] = self._reason
        return state

    def complete(self) -> bool:
        """Whether the index has covered every file once."""
        return self.index is not None and self.index.synced() is not None

    def sync(self, deadline: Deadline | None = None, *, force: bool = False) -> SyncReport:
        """Update the index with both passes, and wait until done."""
        began = time.monotonic()
        report = self._compare(deadline, force=force)
        assert self.index is not None
        partial = report.partial or not self.index.add_words(deadline)
        return msgspec.structs.replace(report, partial=partial, duration_ms=int((time.monotonic() - began) * 1000))

    def _compare(self, deadline: Deadline | None, *, force: bool = False) -> SyncReport:
        """The first pass: every changed file with its symbols and words."""
        if self.index is None:
            raise AdjournError(f"the index is unavailable: {self._reason}", "make .code-intel/ writable")
        self._busy = True
        try:
            return self.index.sync(deadline, force=force)
        finally:
            self._busy = False
            self._last_sync = time.monotonic()

    def _run(self) -> None:
        assert self.index is not None
        deadline = Deadline(cancelled=self._stop.is_set, progress=self._tell)
        self._watching.wait(_WATCHER_SECONDS)
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                self._update(deadline)
                self._reason = ""
                # Words of chunks come last, and give way to the next change.
                self.index.add_words(Deadline(cancelled=self._interrupted, progress=self._tell))
                self._progress = (0, 0)
            except CancelledError:
                return
            except _LaterError:
                self._progress = (0, 0)
            except Exception as error:  # the thread must survive: the next change retries
                self._reason = f"the last update failed: {error}"

    def _update(self, deadline: Deadline) -> None:
        assert self.index is not None
        answered, self._refreshed = self._refreshed and not self._changed and not self._unseen, False
        # What woke this thread may have been indexed for an answer meanwhile.
        if not answered and not self._refresh(_FEW):
            self._unseen = False
            self._changed.clear()  # before the comparison: later changes are added again
            self._compare(deadline)
        self._progress = (0, 0)

    def _refresh(self, most: int) -> bool:
        """Index what is known to have changed, if it is so few files and nothing else can have changed."""
        with self._refreshing:  # also where there is nothing left to do: then others are about to have done it
            changed = self._changed.copy()
            if self._unseen or not 0 < len(changed) <= most:
                return False
            paths = [path for path in changed if self._contains(path)]
            if len(paths) < len(changed) or not self.complete():
                return False
            self._changed -= changed
            assert self.index is not None
            self.index.refresh(paths)
            return True

    def _interrupted(self) -> bool:
        if self._stop.is_set():
            return True
        if self._wake.is_set():
            raise _LaterError
        return False

    def _contains(self, path: str) -> bool:
        assert self.index is not None
        return self.index.contains(path)

    def _watch(self) -> None:
        """Note changed files. What changed before the watcher ran is found by comparing everything once it runs."""
        root = self.repository.root
        skip = (f"{root}/.git/", f"{root}/{FOLDER}/")
        for changes in importlib.import_module("watchfiles").watch(
            root,
            watch_filter=lambda _, path: not path.startswith(skip) or path == f"{root}/.git/HEAD",
            stop_event=self._stop,
            step=_WATCH_STEP_MS,
            debounce=_WATCH_MOST_MS,
            rust_timeout=_WATCH_LOOK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            ignore_permission_denied=True,
        ):
            if not self._watching.is_set():
                self._unseen = True
                self._wake.set()
                self._watching.set()
            if not changes:
                continue
            paths = {repository.shown(os.path.relpath(path, root)) for _, path in changes}
            self._changed.update(paths)
            if self.language_servers is not None:
                self.language_servers.changed(paths)
            self._wake.set()

    def _tell(self, done: int, total: int) -> None:
        self._progress = (done, total)


class _LaterError(Exception):
    """Files may have changed: the index update goes first."""


# --- values that are kept while there is room

_V = TypeVar("_V")


class Memo(Generic[_V]):
    """At most `entries` values with `most` items together; those that were used longest ago go first."""

    def __init__(self, entries: int, most: int) -> None:
        self._entries, self._most = entries, most
        self._kept: OrderedDict[Hashable, tuple[_V, int]] = OrderedDict()
        self._items = 0
        self._lock = Lock()

    def get(self, key: Hashable) -> _V | None:
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put(self, key: Hashable, value: _V, items: int) -> None:
        """Keep a value that has so many items; one with more than there may be is not kept."""
        with self._lock:
            self._items -= self._kept.pop(key, (value, 0))[1]
            if items > self._most:
                return
            self._kept[key] = (value, items)
            self._items += items
            while self._items > self._most or len(self._kept) > self._entries:
                self._items -= self._kept.popitem(last=False)[1][1]
