"""Archiving the pages of finished work: `output/PROJECT/checkpoints/YYYY-MM-DD-HHMM.md`, and `index.jsonl` beside them.

Pages are copied one by one, oldest first, each durably before its original is deleted, and the index is written last. After a crash
every page exists at least once, and archiving again continues there. The index is derived from the pages and the task's history, so
it can be recreated while the store has the history.

Must never: lose a page, or change the history.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from adjourn.checkpoints.environment import named_in
from adjourn.checkpoints.page_files import FOLDER, FoundPage, changing, minute, numbered, search, word
from adjourn.checkpoints.page_writer import put_active
from adjourn.checkpoints.reflection import Indexed, ResumeFact, SessionEnding
from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.host.workspace import locked, make_folder, read_lines, resolve_inside, sync_folder, write_file
from adjourn.log import kinds
from adjourn.log.event import Event, decode, milliseconds
from adjourn.store.base import Store
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.text.fitting import fit_text

OUTPUT, CHECKPOINTS, INDEX = "output", "checkpoints", "index.jsonl"
MAX_INDEX = 64 * 1024 * 1024
MAX_LINE = 1024 * 1024
"""Bytes of one line of an index."""
MAX_ENTRIES = 100_000
MAX_PROJECTS = 10_000
MAX_PROJECT = 60
MAX_MISSION = 200
"""Characters of a mission by which reflection groups tasks."""
_WRITING = ("write", "create", "new")


class Archived(NamedTuple):
    """What was archived: the folder, relative to the workspace, the names of the pages that were moved, and the whole index."""

    folder: str
    moved: list[str]
    entries: list[Indexed]


def folder_of(project: str) -> str:
    """The folder of a project's archive, relative to the workspace."""
    return f"{OUTPUT}/{project}/{CHECKPOINTS}"


def project_of(page: FoundPage) -> str:
    """The usual name of a project: the first words of the mission."""
    letters = "".join(char if char.isascii() and char.isalnum() else "-" for char in page.page.mission.lower())
    words = [part for part in letters.split("-") if part]
    return "-".join(words[:6])[:MAX_PROJECT].strip("-") or "work"


def check_project(project: str) -> str:
    """Return the name if it can be that of a folder, else raise `InvalidError`."""
    allowed = project and len(project) <= MAX_PROJECT and all(char.isalnum() or char in "-_." for char in project)
    if not allowed or project.startswith("."):
        raise InvalidError(f"not a project name: {project[:70]!r}", "use letters, digits, dashes, dots and underscores")
    return project


def archive(root: str, task: str, project: str, store: Store | None) -> Archived:
    """Move the pages of a task to an archive, and index them by its history (without a store: by their own data).

    Raises `NotFoundError` for a task without pages, `InvalidError`, `StoreError`.
    """
    relative = folder_of(check_project(project))
    moved: list[str] = []
    with changing(root):
        pages = [
            page for page in search(root, task=task).pages if page.task == task or (not page.task and page.is_active)
        ]
        archived_pages = {page.id: page for page in search(root, relative).pages}
        if not pages and not any(archived.task == task for archived in archived_pages.values()):
            raise NotFoundError(f"task {task} has no page to archive", "list the pages with `adjourn page`")
        target = make_folder(root, relative)
        source = os.path.join(os.path.realpath(root), FOLDER)
        for page in reversed(pages):
            if page.id not in archived_pages or archived_pages[page.id].text != page.text:
                moved.append(_put(target, page))
            for path in _copies(root, page):
                os.unlink(path)
        sync_folder(source)
        with locked(target):
            entries = _index(root, relative, store)
            write_index(target, entries)
    return Archived(relative, moved, entries)


def _put(target: str, page: FoundPage) -> str:
    name = next(name for name in numbered(minute(page.page.time)) if not os.path.lexists(os.path.join(target, name)))
    write_file(target, name, page.text.encode())
    return name


def _copies(root: str, page: FoundPage) -> Iterator[str]:
    """The files of a page: a process that was killed while it wrote the page leaves two names."""
    folder = os.path.join(os.path.realpath(root), FOLDER)
    own = os.path.join(folder, os.path.basename(page.path))
    status = os.lstat(own)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if path != own and name.startswith("checkpoint") and os.path.samestat(os.lstat(path), status):
            yield path
    yield own


def restore(root: str, project: str) -> str:
    """Make the newest page of an archive the active one again; the archive stays. Returns its path; or `NotFoundError`."""
    relative = folder_of(check_project(project))
    newest = search(root, relative).newest
    if newest is None:
        raise NotFoundError(
            f"{relative} has no page that can be read",
            f"name another project: {', '.join(projects(root)[:20]) or 'there is none'}",
        )
    return put_active(root, newest)


def restore_task(root: str, task: str) -> str:
    """Make the newest archived page of a task the active one again; the archive stays. Returns its path; "" without such a page."""
    pages = (
        page
        for project in projects(root)
        for page in search(root, folder_of(project), task=task).pages
        if page.task == task
    )
    newest = max(pages, key=lambda page: (page.at, page.seq), default=None)
    return put_active(root, newest) if newest is not None else ""


def projects(root: str) -> list[str]:
    """The names of the projects that have an archive, sorted, at most `MAX_PROJECTS`."""
    try:
        names = sorted(os.listdir(resolve_inside(root, OUTPUT)))[:MAX_PROJECTS]
    except (OSError, AdjournError):
        return []
    return [name for name in names if os.path.isdir(os.path.join(root, folder_of(name)))]


# --- the index


def read_index(root: str, project: str) -> list[Indexed]:
    """The lines of an archive's index; empty without one. Raises `InvalidError` for a line that cannot be read."""
    path = os.path.join(resolve_inside(root, folder_of(project)), INDEX)
    entries: list[Indexed] = []
    try:
        for line in read_lines(path, MAX_INDEX, MAX_LINE):
            entries.append(msgspec.json.decode(line, type=Indexed))
            if len(entries) > MAX_ENTRIES:
                raise InvalidError(f"{path} has more than {MAX_ENTRIES:,} entries", "remove its oldest lines")
    except NotFoundError:
        return []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(
            f"{path}: {error}", "remove it and run `adjourn page archive` again to recreate it"
        ) from error
    return entries


def write_index(target: str, entries: Sequence[Indexed]) -> None:
    """Replace the index in the folder `target`."""
    write_file(target, INDEX, b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))


def _index(root: str, relative: str, store: Store | None) -> list[Indexed]:
    """The lines for all pages of an archive, oldest first. A line keeps its status `reflected`."""
    project = relative.split("/")[1]
    with suppress(InvalidError):
        known = {entry.id: entry for entry in read_index(root, project)}
        return _entries(root, relative, store, known)
    return _entries(root, relative, store, {})


def _entries(root: str, relative: str, store: Store | None, known: dict[str, Indexed]) -> list[Indexed]:
    entries: list[Indexed] = []
    by_task: dict[str, list[FoundPage]] = {}
    for page in reversed(search(root, relative).pages):
        by_task.setdefault(page.task, []).append(page)
    for task, pages in by_task.items():
        after = _Aftermath({page.id: _Point.of(page) for page in pages})
        if store is not None and task:
            for entry in verified_entries_from(store, task, 0, store.head(task)):
                after.take(decode(entry.data), entry.hash)
        for line in map(after.of_page, pages):
            before = known.get(line.id)
            if before is not None and (store is None or not task):
                entries.append(before)
            else:
                status = before.status if before is not None else line.status
                entries.append(msgspec.structs.replace(line, status=status))
    return sorted(entries, key=lambda one: (one.time, one.seq, one.id))


class _Point(NamedTuple):
    """A checkpoint whose aftermath is looked for: its time in milliseconds, its trigger, and the files that its page names."""

    at: int
    trigger: str
    artifacts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, page: FoundPage) -> _Point:
        listed = frozenset(artifact.path for artifact in page.page.artifacts)
        return cls(page.at, word(page.machine, "trigger"), listed)


class _Aftermath:
    """Collects what followed each checkpoint of one task, from its events in order. `points` are by the checkpoints' hashes."""

    def __init__(self, points: Mapping[str, _Point]) -> None:
        self._points = points
        self._facts: dict[str, dict[str, Any]] = {id_: {} for id_ in points}
        self._newest = ""
        self._at_newest = 0
        self._used = 0
        self._session = -1
        self._closing: tuple[str, str] | None = None
        self._waiting: list[dict[str, int]] = []
        self._listed: frozenset[str] = frozenset()

    def take(self, event: Event, event_hash: str) -> None:
        data = kinds.data_of(event)
        if isinstance(data, kinds.CheckpointCreated):
            self._made(event_hash, data)
        elif isinstance(data, kinds.SessionOpened):
            self._opened(event)
        elif isinstance(data, kinds.SessionClosed | kinds.SessionLost):
            self._ended(data.reason)
        elif isinstance(data, kinds.ToolAllowed):
            self._called(event, data)
        elif isinstance(data, kinds.ToolReadings):
            for allowed in data.allowed:
                self._called(event, allowed)
        elif isinstance(data, kinds.TaskImported):
            self._used += max(0, data.calls)

    def _made(self, id_: str, data: kinds.CheckpointCreated) -> None:
        self._closing_over(by=data.trigger, id_=id_)
        if (
            data.trigger.startswith("failed ")
            and (facts := self._facts.get(self._destructive(data.trigger))) is not None
        ):
            facts["failed"] = True
        if data.trigger.startswith("rollback to "):
            for facts in self._facts.values():
                if facts.get("failed"):
                    facts["rolled_back"] = True
        self._newest, self._at_newest = id_, self._used
        if id_ in self._facts:
            self._facts[id_]["session"] = max(self._session, 0)

    def _destructive(self, trigger: str) -> str:
        """The last checkpoint that was made before what has failed now."""
        before = "before " + trigger.removeprefix("failed ")
        return next(
            (
                id_
                for id_ in reversed(self._facts)
                if self._points[id_].trigger == before and "session" in self._facts[id_]
            ),
            "",
        )

    def _opened(self, event: Event) -> None:
        self._closing_over()
        self._session += 1
        point = self._points.get(self._newest)
        if point is None:
            return
        at = milliseconds(event.timestamp)
        resume = {"at": at, "age": max(0, at - point.at), "first_action": -1}
        self._facts[self._newest].setdefault("resumes", []).append(resume)
        self._waiting.append(resume)
        self._listed = point.artifacts

    def _ended(self, reason: str) -> None:
        self._closing_over()
        self._closing = (self._newest, reason)

    def _closing_over(self, by: str = "", id_: str = "") -> None:
        """A session that ended counts for its last checkpoint: one that is made as it ends saves everything."""
        if self._closing is None:
            return
        newest, reason = self._closing
        self._closing = None
        saved = bool(by) and by == reason
        place = id_ if saved else newest
        if place in self._facts:
            lost = 0 if saved else self._used - self._at_newest
            self._facts[place].setdefault("endings", []).append(
                SessionEnding(reason=reason, used=self._used, lost=lost)
            )

    def _called(self, event: Event, data: kinds.ToolAllowed) -> None:
        self._used += not data.uncounted
        at = milliseconds(event.timestamp)
        for resume in self._waiting:
            resume["first_action"] = max(0, at - resume["at"])
        self._waiting.clear()
        if self._listed and data.arguments and any(name in data.tool.lower() for name in _WRITING):
            again = self._listed.intersection(named_in(data.arguments))
            if again and self._newest in self._facts:
                self._facts[self._newest].setdefault("recreated", []).extend(sorted(again))

    def of_page(self, page: FoundPage) -> Indexed:
        """The line of an archived page."""
        budget = page.machine.get("budget")
        line = Indexed(
            id=page.id,
            seq=page.seq,
            parent=word(page.machine, "parent"),
            task=page.task,
            file=os.path.basename(page.path),
            time=page.at,
            trigger=word(page.machine, "trigger"),
            status="archived",
            used=page.page.iterations_used,
            budget=budget if isinstance(budget, int) else -1,
            resumed_count=0,
            mission=fit_text(page.page.mission, MAX_MISSION),
            todo=tuple(step.text for step in page.page.progress if step.status != "done"),
            questions=page.page.open_questions,
        )
        return self.completed(line)

    def completed(self, line: Indexed) -> Indexed:
        """A checkpoint's line with what followed it."""
        self._closing_over()
        facts = self._facts[line.id]
        resumes = tuple(ResumeFact(**resume) for resume in facts.get("resumes", ()))
        return msgspec.structs.replace(
            line,
            session=facts.get("session", 0),
            resumed_count=len(resumes),
            resumes=resumes,
            endings=tuple(facts.get("endings", ())),
            failed=facts.get("failed", False),
            rolled_back=facts.get("rolled_back", False),
            recreated=tuple(dict.fromkeys(facts.get("recreated", ()))),
        )


def lines_of_store(store: Store, tasks: Iterable[str]) -> list[Indexed]:
    """The lines of the checkpoints of finished `tasks`, as their verified histories say, without a word of any page.

    At most `MAX_ENTRIES`; of a task whose history was changed there are none.
    """
    lines: list[Indexed] = []
    for task in tasks:
        if len(lines) < MAX_ENTRIES:
            with suppress(AdjournError):
                lines += _lines_of_task(store, task)
    return lines[:MAX_ENTRIES]


def _lines_of_task(store: Store, task: str) -> list[Indexed]:
    events = [(decode(entry.data), entry.hash) for entry in verified_entries_from(store, task, 0, store.head(task))]
    ledger, lines = Ledger(task=task), list[Indexed]()
    for event, event_hash in events:
        data = kinds.data_of(event)
        ledger.apply(event, event_hash, data)
        if isinstance(data, kinds.CheckpointCreated):
            budget = -1 if ledger.budget is None else ledger.budget
            line = Indexed(
                id=event_hash, seq=event.seq, task=task, file="", time=milliseconds(event.timestamp), trigger=data.trigger,
                status="archived", used=ledger.calls_used, budget=budget, resumed_count=0,
                mission=fit_text(ledger.goal, MAX_MISSION),
            )  # fmt: skip
            lines.append(line)
    if not ledger.finished:
        return []
    after = _Aftermath({line.id: _Point(line.time, line.trigger) for line in lines})
    for event, event_hash in events:
        after.take(event, event_hash)
    return [after.completed(line) for line in lines]
