"""Writing the page of a checkpoint, so that at every moment there is a complete newest one.

In this order: a temporary file, fsync; the page that was active gets its dated name beside the active one (a second link); the new
one is renamed over the active one; the folder, fsync. A page that is there under two names is one, by its id.

The plain name belongs to the task that a session lives on. When none does, the next task takes it, and the earlier page keeps
being active under its task's name.

Owns: that order, whose the plain name is, how many superseded pages stay. Must never: delete what a person or an agent wrote,
follow a link, or fail a checkpoint that is in the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from adjourn.checkpoints.builder import NO_REPORT, AgentReport, TaskFacts, compose
from adjourn.checkpoints.checkpoint import TaskCheckpoint
from adjourn.checkpoints.environment import current_commit, file_digests, recent
from adjourn.checkpoints.page import MAX_PAGE_BYTES, Page, render
from adjourn.checkpoints.page_files import (
    ACTIVE,
    FOLDER,
    FoundPage,
    changing,
    is_automatic,
    names_in,
    numbered,
    read,
    search,
    slug,
    stem_of,
    word,
)
from adjourn.errors import AdjournError, InvalidError, NotFoundError, StoreError
from adjourn.host import create_file, make_folder, sync_folder
from adjourn.knowledge.records import record_of
from adjourn.log import Actor, milliseconds
from adjourn.tasks import Ledger, Task

IGNORED = "# made by adjourn: the pages of checkpoints\n.gitignore\n/checkpoint*\n/.checkpoint*\n"
MAX_AUTOMATIC = 100
"""Superseded pages of one task that nobody asked for and nobody changed: older ones go."""


LOOK_EVERY = 16
"""Pages after which it is looked for those: it means reading all of them."""


class WrittenPage(NamedTuple):
    """A page that was written, and what is to be said about it."""

    path: str
    notes: list[str]


def write(
    task: Task,
    made: TaskCheckpoint,
    root: str,
    *,
    budget: int | None,
    said: AgentReport = NO_REPORT,
    began: str = "",
    failed: str = "",
    label: str = "",
    base: FoundPage | None = None,
    more: dict[str, Any] | None = None,
) -> WrittenPage:
    """Write the page of a checkpoint that was just made; it is the active one then.

    `base` is the page to go on from instead of the one that is active, `more` further machine data, `label` names the page
    when it is superseded. Raises `AdjournError`; the checkpoint is in the store all the same.
    """
    path = make_folder(root, FOLDER)
    _keep_out_of_git(path)
    notes: list[str] = []
    with changing(root):
        place = _Place(root, path, task.id, lambda other: _lives(task, other))
        notes += place.notes
        newest = place.newest
        if newest is not None and newest.task == task.id and newest.seq > made.event.seq:
            return WrittenPage(newest.path, notes)  # a sister process has gone on meanwhile
        before = base or place.newest
        if before is not None and before.reading.edited:
            notes.append(f"{before.path} was edited since it was written; what it says now was taken over")
        at = milliseconds(made.event.timestamp)
        told = recent(task, root, since=before.seq if before is not None and before.task == task.id else -1)
        ledger = _as_it_is(task)
        happened = TaskFacts(
            ledger=ledger,
            at=at,
            trigger=made.data.trigger,
            began=began or told.began,
            budget=budget,
            last=told.last,
            failed=failed,
            produced=told.produced,
        )
        machine = {
            "id": made.hash,
            "name": made.data.name,
            "task": task.id,
            "seq": made.event.seq,
            "at": at,
            "trigger": made.data.trigger,
            "used": ledger.calls_used,
            **({"budget": budget} if budget is not None else {}),
            **({"parent": place.newest.id} if place.newest is not None else {}),
            **({"label": slug(label)} if label else {}),
            **({"commit": at_commit} if (at_commit := current_commit(root)) else {}),
            **(more or {}),
        }
        page = compose(
            happened,
            said,
            description=made.data.description,
            before=before.page if before is not None else None,
            edited=before is not None and before.reading.edited,
            record=record_of(task.store, task.id),
            machine=machine,
            by=_whose(made.event.by),
        )
        page = _with_artifacts(page, root)
        data = render(page).encode()
        if len(data) > MAX_PAGE_BYTES:
            raise InvalidError(
                f"the page would have {len(data)} bytes", f"shorten what it says to {MAX_PAGE_BYTES}"
            )
        place.replace(data)
        _forget_automatic(path, root, task.id)
    return WrittenPage(f"{FOLDER}/{place.target}", notes)


def _whose(by: Actor) -> str:
    """Whose words a page has that is made for somebody; empty where adjourn makes it of what stood there."""
    return {"agent": f"the agent {by.id}", "human": by.id, "system": ""}[by.type]


def _as_it_is(task: Task) -> Ledger:
    """The ledger at one moment, while other threads go on: all that a page says of it is of that moment."""
    with task.lock:
        ledger = task.ledger
        return msgspec.structs.replace(ledger, doubts=dict(ledger.doubts))


def _with_artifacts(page: Page, root: str) -> Page:
    """The page with what the files that it lists hold."""
    held = file_digests(root, page.artifacts)
    if not held or page.machine is UNSET:
        return page
    return msgspec.structs.replace(page, machine={**page.machine, "artifacts": held})


def put_active(root: str, found: FoundPage) -> str:
    """Make a page that is elsewhere in the workspace the active one of its task, as it stands. Returns its path."""
    path = make_folder(root, FOLDER)
    _keep_out_of_git(path)
    with changing(root):
        place = _Place(root, path, found.task, lambda _: True)
        if place.newest is None or place.newest.id != found.id:
            place.replace(found.text.encode())
    return f"{FOLDER}/{place.target}"


def _keep_out_of_git(path: str) -> None:
    """Pages are of one machine, and two would clash in every merge. Whoever wants them committed can empty the file."""
    with suppress(StoreError):
        create_file(path, ".gitignore", IGNORED.encode())


class _Place:
    """Where the page of a task goes, and the pages that it supersedes. The folder is locked.

    `lives` says of another task, which has the plain name, whether a session still works on it and so keeps the name.
    """

    def __init__(self, root: str, path: str, task: str, lives: Callable[[str], bool]) -> None:
        self._path = path
        self.notes: list[str] = []
        self.newest: FoundPage | None = None
        self.target = ACTIVE
        own = f"checkpoint-active-{task}.md"
        self._old: dict[str, FoundPage | None] = {}
        other = self._look(root, ACTIVE, task)
        self._look(root, own, task)
        if other and lives(other):
            self.target = own
        elif other:
            try:
                self._leave(root, f"checkpoint-active-{other}.md")
            except OSError as error:
                raise self._failed(error) from error

    def _leave(self, root: str, name: str) -> None:
        """Let the page under the plain name go on being active under its task's name."""
        with suppress(AdjournError):  # an earlier one is there
            self._link(name, self._dated(name, read(root, f"{FOLDER}/{name}")))
        beside = f".{name}.{os.getpid()}.{os.urandom(4).hex()}"
        plain, second, own = (os.path.join(self._path, one) for one in (ACTIVE, beside, name))
        try:
            os.link(plain, second, follow_symlinks=False)
        except OSError:  # a file system without links: for a moment nobody has the plain name
            os.rename(plain, own)
            return
        os.rename(second, own)
        with suppress(FileNotFoundError):  # where both were one file, a rename does nothing
            os.unlink(second)

    def _look(self, root: str, name: str, task: str) -> str:
        """Take note of what is there under a name. Returns the task that it is of, if that is another one."""
        try:
            found = read(root, f"{FOLDER}/{name}")
        except NotFoundError:
            return ""
        except AdjournError as error:
            self.notes.append(f"{error.message}; it was put aside")
            self._old[name] = None
            return ""
        if found.task not in ("", task):
            return found.task
        self._old[name] = found
        if self.newest is None or (found.at, found.seq) > (self.newest.at, self.newest.seq):
            self.newest = found
        return ""

    def replace(self, data: bytes) -> None:
        """Write the new page and give the earlier ones their dated names, in the order that the module's docstring says."""
        temporary = os.path.join(self._path, f".{self.target}.{os.getpid()}.{os.urandom(4).hex()}")
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                for name, found in self._old.items():
                    self._link(name, self._dated(name, found))
                os.rename(temporary, os.path.join(self._path, self.target))
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
            sync_folder(self._path)
            for name in self._old:
                if name != self.target:
                    os.unlink(os.path.join(self._path, name))
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> StoreError:
        return StoreError(
            f"cannot write the page {FOLDER}/{self.target}: {error.strerror}",
            "free space or permissions; the checkpoint itself is in the store",
        )

    def _link(self, name: str, other: str) -> None:
        """Give a page a second name. One that is there already is left as it is."""
        source, target = (os.path.join(self._path, one) for one in (name, other))
        try:
            os.link(source, target, follow_symlinks=False)
        except FileExistsError:
            pass
        except OSError:  # a file system without links: for a moment the page has its new name only
            os.rename(source, target)

    def _dated(self, name: str, found: FoundPage | None) -> str:
        """The name of a page from now on: the one it got before a crash, else the first free one."""
        path = os.path.join(self._path, name)
        stem = stem_of(found) if found else "checkpoint-unreadable"
        for candidate in numbered(stem):
            there = os.path.join(self._path, candidate)
            if not os.path.lexists(there) or os.path.samestat(os.lstat(there), os.lstat(path)):
                return candidate
        raise AssertionError  # numbers do not end


def _lives(task: Task, other: str) -> bool:
    """Whether a session with an unexpired lease works on the other task, by the clock that leases are written with."""
    leases = task.store.refs(f"lease/{other}/").values()
    return any(end.isdigit() and int(end) > task.clock() for end in leases)


def _forget_automatic(path: str, root: str, task: str) -> None:
    """Keep the folder small: of the superseded pages that nobody asked for or changed, the oldest go."""
    names = [name for name in names_in(path) if not name.startswith("checkpoint-active")]
    if len(names) <= MAX_AUTOMATIC or len(names) % LOOK_EVERY:
        return
    automatic = [
        found
        for found in search(root, task=task).pages
        if not found.is_active and not found.reading.edited and is_automatic(word(found.machine, "trigger"))
    ]
    for found in automatic[MAX_AUTOMATIC:]:
        with suppress(OSError):
            os.unlink(os.path.join(path, os.path.basename(found.path)))
