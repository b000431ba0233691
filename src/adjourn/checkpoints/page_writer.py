"""Writing the page of a checkpoint, so that a complete newest page exists at every moment.

In this order: write a temporary file, fsync; give the active page its dated name as a second link; rename the new file over the
active one; fsync the folder. A page with two names is one page, by its id.

The plain name belongs to the task that a live session works on. If there is no such session, the next task takes the name, and the
earlier page stays active under its task's name.

Must never: delete what a person or an agent wrote, follow a link, or fail a checkpoint that is in the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from adjourn.checkpoints import plans
from adjourn.checkpoints.builder import TaskFacts, compose
from adjourn.checkpoints.checkpoint import TaskCheckpoint
from adjourn.checkpoints.environment import (
    NO_FILE,
    RecentWork,
    carried_digests,
    current_commit,
    file_digests,
    missing_files,
    recent,
)
from adjourn.checkpoints.page import (
    MAX_PAGE_BYTES,
    NO_REPORT,
    PARTS,
    AgentReport,
    Page,
    edits_of,
    members_of,
    render,
    stated_parts,
)
from adjourn.checkpoints.page_files import (
    ACTIVE,
    FOLDER,
    FoundPage,
    changing,
    in_order,
    is_automatic,
    names_in,
    numbered,
    read,
    search,
    slug,
    stem_of,
    text_of,
    word,
)
from adjourn.checkpoints.parser import PageReading, parse
from adjourn.checkpoints.transcript_facts import read_facts
from adjourn.errors import AdjournError, ConflictError, InvalidError, NotFoundError, StoreError
from adjourn.host.workspace import create_file, make_folder, sync_folder, write_file
from adjourn.knowledge.records.task_record import record_of
from adjourn.log.canonical_json import digest
from adjourn.log.event import Actor, milliseconds
from adjourn.tasks.lease import lease_end, time_of
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task

IGNORED = "# made by adjourn: the pages of checkpoints\n.gitignore\n/checkpoint*\n/.checkpoint*\n"
MAX_AUTOMATIC = 100
"""Superseded pages of one task that no one requested or edited; older ones are deleted."""
LOOK_EVERY = 16
"""Pages between two searches for such pages: each reads all of them."""


class WrittenPage(NamedTuple):
    """The path of a page that was written, and notes for the person."""

    path: str
    notes: list[str]


class PageOptions(NamedTuple):
    """How a page differs from the next one of its task. `began` is the time stamp of the session's beginning ("": of the last one),
    `failed` says what failed, `label` names the page once it is superseded, `base` is the page that it continues in the place of the
    newest, `more` is further machine data.
    """

    began: str = ""
    failed: str = ""
    label: str = ""
    base: FoundPage | None = None
    more: dict[str, Any] | None = None


NO_OPTIONS = PageOptions()


def write(
    task: Task,
    checkpoint: TaskCheckpoint,
    root: str,
    options: PageOptions = NO_OPTIONS,
    *,
    said: AgentReport = NO_REPORT,
) -> WrittenPage:
    """Write the page of a checkpoint that was just made, as the active page.

    It continues the newest page of the task; what a person edited stays, and the notes say what was taken over from where. Raises
    `AdjournError`; the checkpoint stays in the store.
    """
    began, failed, label, base, more = options
    path = make_folder(root, FOLDER)
    _keep_out_of_git(path)
    notes: list[str] = []
    with changing(root):
        place = _Place(root, path, task.id, lambda other: _lives(task, other))
        notes += place.notes
        newest = place.newest
        if newest is not None and newest.task == task.id and newest.seq > checkpoint.event.seq:
            return WrittenPage(newest.path, notes)  # another process has written a later page
        at = milliseconds(checkpoint.event.timestamp)
        found_page = base or newest
        work = recent(task, root, since=found_page.seq if found_page is not None and found_page.task == task.id else -1)
        continued = _continued(place, task, root, checkpoint, work)
        if base is not None:
            continued = Continued(
                base, continued.edits if failed else edits_of(base.page, edited=base.reading.edited), []
            )
        before = continued.page
        notes += continued.notes
        ledger = _as_it_is(task)
        earlier = before.machine.get("artifacts") if before is not None and before.task == task.id else None
        carried = carried_digests(root, earlier, work)
        if earlier is None:  # the page stayed on another machine
            carried |= dict.fromkeys(missing_files(root, ledger.gone), NO_FILE)
        happened = TaskFacts(
            ledger=ledger,
            at=at,
            trigger=checkpoint.data.trigger,
            began=began or work.began,
            budget=ledger.budget,
            last=work.last,
            failed=failed,
            produced=list(dict.fromkeys([*carried, *work.produced])) if earlier is None else work.produced,
            produced_more=work.produced_more,
            gone=missing_files(root, carried),
            by=_whose(checkpoint.event.by),
            transcript=read_facts(task.store, task.id).report,
        )
        machine = {
            "id": checkpoint.hash,
            "name": checkpoint.data.name,
            "task": task.id,
            "seq": checkpoint.event.seq,
            "at": at,
            "trigger": checkpoint.data.trigger,
            "used": ledger.calls_used,
            **({"budget": ledger.budget} if ledger.budget is not None else {}),
            **({"parent": continued.page.id} if continued.page is not None and base is None else {}),
            **({"label": slug(label)} if label else {}),
            **({"commit": at_commit} if (at_commit := _commit(root, before, work)) else {}),
            **(more or {}),
        }
        page = compose(
            happened,
            said,
            description=checkpoint.data.description,
            before=before.page if before is not None else plans.page_of(task, at),
            edits=continued.edits,
            record=record_of(task.store, task.id),
            machine=machine,
        )
        stated = said.artifacts if isinstance(said.artifacts, tuple) else ()
        page = _with_artifacts(page, root, carried, {file.path for file in stated})
        data = render(page).encode()
        if len(data) > MAX_PAGE_BYTES:
            raise InvalidError(
                f"the page is too large: {len(data)} bytes (limit {MAX_PAGE_BYTES})", "shorten its texts"
            )
        notes += _cut_lists(page, said)
        place.replace(data)
        _forget_automatic(path, root, task.id)
    return WrittenPage(f"{FOLDER}/{place.target}", notes)


class Continued(NamedTuple):
    """The page that a new page continues (None for none), what a person edited, and notes on both."""

    page: FoundPage | None
    edits: AgentReport
    notes: list[str]


def _continued(place: _Place, task: Task, root: str, checkpoint: TaskCheckpoint, work: RecentWork) -> Continued:
    """What the page of a checkpoint continues: the active page; where that cannot be read or is older than the checkpoint before,
    the newest page of the task.
    """
    newest, notes = place.newest, []
    due = max((seq for seq in work.checkpoints if seq < checkpoint.event.seq), default=-1)
    if newest is None or -1 < newest.seq < due or place.broken:
        others = [page for page in search(root, task=task.id).pages if page.task == task.id]
        newest = in_order([*others, *([newest] if newest is not None else [])])[0] if others else newest
        if newest is None:
            source = "its last report, which the store has" if task.ledger.report else "the history"
            if place.broken or due >= 0:
                notes.append(f"no page of task {task.id} can be read; the page was made from {source}")
        elif place.newest is None or newest.id != place.newest.id:
            why = place.broken or ("is older" if place.newest is not None else "is not there")
            notes.append(f"the active page {why}; {newest.path} of event {newest.seq} was continued")
        elif newest.seq < due:
            notes.append(f"{newest.path} is of event {newest.seq}: the checkpoint of event {due} has no page")
    edited = next(
        (candidate for candidate in place.found if candidate.reading.edited or candidate.page.machine is UNSET), None
    )
    if edited is None:
        edited = newest if newest is not None and newest.reading.edited else None
    if edited is None:
        return Continued(newest, NO_REPORT, notes)
    notes.append(f"{edited.path} was edited since it was written; the edited text was kept")
    return Continued(newest, edits_of(edited.page, edited=edited.reading.edited), notes)


def _whose(by: Actor) -> str:
    """Whose words a page has that is made for somebody; empty where adjourn makes it of what stood there."""
    return {"agent": f"the agent {by.id}", "human": by.id, "system": ""}[by.type]


def _as_it_is(task: Task) -> Ledger:
    """The ledger at one moment, while other threads continue: a page states one moment only."""
    with task.lock:
        ledger = task.ledger
        return msgspec.structs.replace(ledger, doubts=dict(ledger.doubts))


def _cut_lists(page: Page, report: AgentReport) -> list[str]:
    """A note on each list that was stated now and is cut on the page."""
    omitted = members_of(page, "omitted")
    stated = [name for name in PARTS if name in omitted and name in stated_parts(report)]
    return [
        f"{name.replace('_', ' ')}: the page leaves out {omitted[name]:,} items; the checkpoint's report has them"
        for name in stated
    ]


def _commit(root: str, before: FoundPage | None, work: RecentWork) -> str:
    """The commit that a page keeps: that of the earlier page as long as no call was made since, so that its change stays known."""
    kept = before.machine.get("commit") if before is not None and work.worked is None else None
    return kept if isinstance(kept, str) else current_commit(root)


def _with_artifacts(page: Page, root: str, carried: dict[str, Any], stated: Collection[str]) -> Page:
    """The page with the digests of the files that it lists: `carried` ones, unless the files were just `stated`."""
    listed = {artifact.path for artifact in page.artifacts}
    kept = {path: was for path, was in carried.items() if path in listed and path not in stated}
    held = file_digests(root, page.artifacts) | kept
    if not held or page.machine is UNSET:
        return page
    return msgspec.structs.replace(page, machine={**page.machine, "artifacts": held})


def put_active(root: str, page: FoundPage) -> str:
    """Make a page from elsewhere in the workspace the active page of its task, unchanged. Returns its path. Raises `StoreError`."""
    path = make_folder(root, FOLDER)
    _keep_out_of_git(path)
    with changing(root):
        place = _Place(root, path, page.task, lambda _: True)
        if place.newest is None or place.newest.id != page.id:
            place.replace(page.text.encode())
    return f"{FOLDER}/{place.target}"


def edit_page(root: str, path: str, data: bytes, *, was: str) -> PageReading:
    """Write a person's text of a page, if it can be read as one; returns how it reads. `was` is the digest of the text that they began with.

    Raises `ConflictError` if the page has another text by now: a checkpoint, or another editor, wrote it.
    """
    reading = parse(data, path)
    if reading.page is None:
        return reading
    folder, name = os.path.split(os.path.join(os.path.realpath(root), path))
    with changing(root):
        if digest(text_of(root, path).encode()) != was:
            raise ConflictError(f"{path} changed while you edited it", "compare the two texts, and save again")
        write_file(folder, name, data)
    return reading


def _keep_out_of_git(path: str) -> None:
    """Write a .gitignore: pages belong to one machine, and would conflict in every merge. To commit them, empty that file."""
    with suppress(StoreError):
        create_file(path, ".gitignore", IGNORED.encode())


class _Place:
    """Where the page of a task goes, and the pages that it supersedes. The folder is locked.

    `lives` returns whether a live session works on another task, which then keeps the plain name.
    """

    def __init__(self, root: str, path: str, task: str, lives: Callable[[str], bool]) -> None:
        self._path = path
        self.notes: list[str] = []
        self.broken = ""
        """Why an active page cannot be read."""
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
        """Rename the page with the plain name to its task's name; it stays active."""
        with suppress(AdjournError):  # an earlier one is there
            self._link(name, self._dated(name, read(root, f"{FOLDER}/{name}")))
        beside = f".{name}.{os.getpid()}.{os.urandom(4).hex()}"
        plain, second, own = (os.path.join(self._path, file_name) for file_name in (ACTIVE, beside, name))
        try:
            os.link(plain, second, follow_symlinks=False)
        except OSError:  # a file system without links: for a moment no page has the plain name
            os.rename(plain, own)
            return
        os.rename(second, own)
        with suppress(FileNotFoundError):  # where both were one file, a rename does nothing
            os.unlink(second)

    def _look(self, root: str, name: str, task: str) -> str:
        """Read the page of a name, to be superseded. Returns the task that it belongs to if that is another one, else ""."""
        try:
            page = read(root, f"{FOLDER}/{name}")
        except NotFoundError:
            return ""
        except AdjournError as error:
            aside = self._dated(name, None)
            self.notes.append(f"{error.message}; it was moved to {FOLDER}/{aside}")
            self.broken = "cannot be read"
            self._old[name] = None
            return ""
        if page.task not in ("", task):
            return page.task
        self._old[name] = page
        return ""

    @property
    def found(self) -> list[FoundPage]:
        """The readable active pages of the task, newest first."""
        return in_order(page for page in self._old.values() if page is not None)

    @property
    def newest(self) -> FoundPage | None:
        return next(iter(self.found), None)

    def replace(self, data: bytes) -> None:
        """Write the new page and give earlier ones their dated names, in the order of the module's docstring."""
        temporary = os.path.join(self._path, f".{self.target}.{os.getpid()}.{os.urandom(4).hex()}")
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                for name, page in self._old.items():
                    self._link(name, self._dated(name, page))
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
            "free space, or make the folder writable; the checkpoint itself is in the store",
        )

    def _link(self, name: str, other: str) -> None:
        """Give a page a second name. A file that has that name stays as it is."""
        source, target = (os.path.join(self._path, text) for text in (name, other))
        try:
            os.link(source, target, follow_symlinks=False)
        except FileExistsError:
            pass
        except OSError:  # a file system without links: for a moment the page has its new name only
            os.rename(source, target)

    def _dated(self, name: str, page: FoundPage | None) -> str:
        """The dated name of a page: the one it got before a crash, else the first free one."""
        path = os.path.join(self._path, name)
        stem = stem_of(page) if page else "checkpoint-unreadable"
        for candidate in numbered(stem):
            there = os.path.join(self._path, candidate)
            if not os.path.lexists(there) or os.path.samestat(os.lstat(there), os.lstat(path)):
                return candidate
        raise AssertionError  # numbers do not end


def _lives(task: Task, other: str) -> bool:
    """Whether a session with an unexpired lease works on the other task, by the clock that leases are written with."""
    leases = task.store.refs(f"lease/{other}/").values()
    return bool(leases) and max(lease_end(task.store, lease) for lease in leases) > time_of(task.store, task.clock())


def _forget_automatic(path: str, root: str, task: str) -> None:
    """Keep the folder small: delete the oldest superseded pages that nobody asked for or edited."""
    names = [name for name in names_in(path) if not name.startswith("checkpoint-active")]
    if len(names) <= MAX_AUTOMATIC or len(names) % LOOK_EVERY:
        return
    automatic = [
        page
        for page in search(root, task=task).pages
        if not page.is_active and not page.reading.edited and is_automatic(word(page.machine, "trigger"))
    ]
    for page in automatic[MAX_AUTOMATIC:]:
        with suppress(OSError):
            os.unlink(os.path.join(path, os.path.basename(page.path)))
