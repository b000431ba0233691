"""The pages of checkpoints in a workspace: their names, and which one is the newest.

    tmp/checkpoint-active.md               the newest page of the task that is worked on here
    tmp/checkpoint-active-TASK.md          the newest page of another task of this workspace
    tmp/checkpoint-YYYY-MM-DD-HHMM.md      superseded (-2, -3 in the same minute)
    tmp/checkpoint-pre-LABEL.md            superseded, made before a destructive call

Links are not followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from adjourn.checkpoints.environment import commit_change, file_changes
from adjourn.checkpoints.page import MAX_PAGE_BYTES, MINUTE, Page
from adjourn.checkpoints.parser import PageReading, parse
from adjourn.errors import AdjournError, InvalidError, RefusedError
from adjourn.host.workspace import locked, make_folder, read_file, resolve_inside
from adjourn.log.canonical_json import digest

FOLDER = "tmp"
ACTIVE = "checkpoint-active.md"
STALE_AFTER = 24 * 60 * MINUTE
"""Age in milliseconds from which on a page may be out of date about everything outside of adjourn."""
MAX_PAGES = 2000
MAX_BROKEN = 5
AUTOMATIC = ("before ", "after ", "failed ", "at ")
"""Prefixes of the triggers of checkpoints that nobody asked for."""
_NAME = re.compile(r"checkpoint[\w.-]*\.md")
_ARCHIVED = re.compile(r"\d{4}-\d\d-\d\d-\d{4}(?:-\d+)?\.md")
_TASK = re.compile(r'"task":"([A-Za-z0-9_.-]+)"')
_UNSAFE = r"[^A-Za-z0-9_]+"


class FoundPage(NamedTuple):
    """A page in a workspace that could be read. `path` is relative to it; `at` is its time in milliseconds, `seq` its event, -1 for
    unknown. `id` is the checkpoint's hash; without one, the digest of the text.
    """

    path: str
    reading: PageReading
    text: str
    page: Page
    machine: dict[str, Any]
    task: str
    id: str
    at: int
    seq: int
    is_active: bool


class Search(msgspec.Struct, frozen=True):
    """The readable pages, newest first, each once; and the files that could not be read, with the reason."""

    pages: list[FoundPage]
    broken: list[tuple[str, str]]

    @property
    def newest(self) -> FoundPage | None:
        return self.pages[0] if self.pages else None


def word(machine: dict[str, Any], name: str) -> str:
    """A member of a page's machine data if it is text, else ""."""
    value = machine.get(name)
    return value if isinstance(value, str) else ""


# --- finding


def search(root: str, folder: str = FOLDER, task: str = "", holding: str = "") -> Search:
    """The pages of a folder of the workspace. Of one `task`: its pages and those that name no task. `holding`: a text in the page.

    Parsing a page is slow, so both conditions are tested on its text first.
    """
    pages: dict[str, FoundPage] = {}
    broken: list[tuple[str, str]] = []
    texts = set[str]()
    path = os.path.join(os.path.realpath(root), folder)
    if os.path.realpath(path) != path:
        return Search([], [(folder, f"{folder} is reached through a link")])
    for name in names_in(path, archived=folder != FOLDER):
        try:
            text = _read_text(os.path.join(path, name), root)
            if text in texts or holding not in text or (task and _is_of_another(text, task)):
                continue  # the active page, which comes first, is a copy
            page = _parsed(f"{folder}/{name}", text)
        except AdjournError as error:
            broken.append((f"{folder}/{name}", error.message))
            continue
        if task and page.task not in ("", task):
            continue
        texts.add(text)
        other = pages.get(page.id)
        if other is None or (page.is_active and not other.is_active):
            pages[page.id] = page
    return Search(in_order(pages.values()), broken)


def in_order(pages: Iterable[FoundPage]) -> list[FoundPage]:
    """The pages, newest first: those of one task by their position in its chain, others by time.

    Clocks are set back, people rename files and edit times; a position stays.
    """
    reached: dict[str, int] = {}
    keyed: list[tuple[int, int, bool, FoundPage]] = []
    for page in sorted(pages, key=lambda found_page: found_page.seq):
        at = max(page.at, reached.get(page.task, page.at)) if page.seq >= 0 else page.at
        if page.seq >= 0:
            reached[page.task] = at
        keyed.append((at, page.seq, page.is_active, page))
    return [page for *_, page in sorted(keyed, key=lambda one: one[:3], reverse=True)]


def find_active(root: str, task: str = "") -> FoundPage | None:
    """The newest page that can be read (`in_order`); None when there is none."""
    return search(root, task=task).newest


def by_id(root: str, checkpoint: str) -> FoundPage | None:
    """The page of a checkpoint, by the checkpoint's hash."""
    return next((page for page in search(root, holding=checkpoint).pages if page.id == checkpoint), None)


class PageSummary(msgspec.Struct, frozen=True):
    """The newest readable page, None if there is none, notes about it for the next session, its position (-1 for unknown), its path,
    and whether it was edited since it was written.
    """

    page: Page | None
    notes: list[str]
    seq: int = -1
    path: str = ""
    edited: bool = False


def page_summary(root: str, task: str, now: int) -> PageSummary | None:
    """The newest readable page of a task for the next session; None when there is none. `now` is in milliseconds."""
    match = search(root, task=task)
    notes = broken_notes(match.broken)
    newest = match.newest
    if newest is None:
        return PageSummary(None, notes) if notes else None
    if notes:
        notes.append(f"the newest readable page is {newest.path}")
    if newest.reading.edited:
        notes.append(f"{newest.path} was edited since it was written; the edited text is used")
    if is_stale(newest, now):
        notes.append("the page is older than 24 hours: check files and services before you continue")
    notes += file_changes(root, newest.machine.get("artifacts"))
    notes += commit_change(root, newest.machine.get("commit"))
    return PageSummary(newest.page, notes, newest.seq, newest.path, newest.reading.edited)


def broken_notes(broken: Sequence[tuple[str, str]]) -> list[str]:
    """A note on each file that cannot be read: the first `MAX_BROKEN`, and how many more there are."""
    notes = [f"{path} cannot be read ({reason})" for path, reason in broken[:MAX_BROKEN]]
    more = len(broken) - MAX_BROKEN
    return [*notes, f"{more:,} more page{'s' * (more > 1)} cannot be read"] if more > 0 else notes


def _is_of_another(text: str, task: str) -> bool:
    """Whether a page's comment names another task. A page without a comment may belong to any."""
    comment = text.rstrip().rpartition("\n")[2]
    named = _TASK.search(comment) if comment.startswith("<!-- checkpoint ") else None
    return named is not None and named[1] != task


def is_stale(page: FoundPage, now: int) -> bool:
    """Whether a page is older than `STALE_AFTER`. `now` is in milliseconds."""
    return now - page.at > STALE_AFTER


def read(root: str, path: str) -> FoundPage:
    """Read one page. Raises `NotFoundError`, `InvalidError` with the first error of the page."""
    return _parsed(path, text_of(root, path))


def text_of(root: str, path: str) -> str:
    """The text of a page, whether it can be read as one or not. Raises `NotFoundError`, `InvalidError`."""
    return _read_text(os.path.join(os.path.realpath(root), path), root)


def _parsed(path: str, text: str) -> FoundPage:
    reading = parse(text, path)
    if reading.page is None:
        first = next(finding for finding in reading.findings if finding.severity == "error")
        line = f":{first.span.line}" if first.span.line else ""
        raise InvalidError(f"{path}{line}: {first.message}", first.help)
    page = reading.page
    machine = page.machine if isinstance(page.machine, dict) else {}
    at, seq = machine.get("at"), machine.get("seq")
    return FoundPage(
        path,
        reading,
        text,
        page,
        machine,
        task=word(machine, "task"),
        id=word(machine, "id") or digest(text.encode()),
        at=at if isinstance(at, int) and at // MINUTE * MINUTE == page.time else page.time,  # the text counts
        seq=seq if isinstance(seq, int) else -1,
        is_active=os.path.basename(path).startswith("checkpoint-active"),
    )


def names_in(path: str, *, archived: bool = False) -> list[str]:
    """The names in a folder that pages (or with `archived`, archived pages) have: active ones first, at most `MAX_PAGES`."""
    pattern = _ARCHIVED if archived else _NAME
    try:
        names = [name for name in os.listdir(path) if pattern.fullmatch(name)]
    except OSError:
        return []
    return sorted(names, key=lambda name: (name.startswith("checkpoint-active"), name), reverse=True)[:MAX_PAGES]


def _read_text(path: str, root: str) -> str:
    data = read_file(path, MAX_PAGE_BYTES, os.path.realpath(root))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidError(f"{path} is not UTF-8 text", "save it as UTF-8, or remove it") from error


# --- names


def names_of_pages(root: str) -> list[str]:
    """The paths of all files in `tmp/` that have the name of a page."""
    return [f"{FOLDER}/{name}" for name in names_in(os.path.join(os.path.realpath(root), FOLDER))]


def changing(root: str) -> AbstractContextManager[None]:
    """Lock the folder of pages against other processes."""
    return locked(make_folder(root, FOLDER))


def check_inside(root: str, path: str) -> str:
    """The path of a page relative to the workspace. Raises `RefusedError` for one outside of it."""
    real = resolve_inside(root, path)
    relative = os.path.relpath(real, os.path.realpath(root))
    if not relative.endswith(".md"):
        raise RefusedError(f"{path} is not a page", "name a file that ends in .md")
    return relative


def is_automatic(trigger: str) -> bool:
    """Whether a checkpoint with this trigger was made automatically, not because anyone asked."""
    return trigger.startswith(AUTOMATIC)


def minute(at: int) -> str:
    """A time in milliseconds as `YYYY-MM-DD-HHMM`, in UTC."""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return f"{moment.year:04}-{moment:%m-%d-%H%M}"


def numbered(stem: str) -> Iterator[str]:
    """`stem.md`, `stem-2.md`, …"""
    yield f"{stem}.md"
    number = 2
    while True:
        yield f"{stem}-{number}.md"
        number += 1


def slug(text: str) -> str:
    """The text in lower case, as a part of a file name of at most 40 characters."""
    return re.sub(_UNSAFE, "-", text).strip("-").lower()[:40]


def stem_of(page: FoundPage) -> str:
    """The file name of a superseded page, without its number and `.md`."""
    label = slug(word(page.machine, "label"))
    return f"checkpoint-pre-{label}" if label else f"checkpoint-{minute(page.page.time)}"
