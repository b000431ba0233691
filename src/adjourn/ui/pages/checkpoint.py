"""A checkpoint: its page as a person reads it, corrected in a form, verified test by test, and gone back to.

A page is written only if it can be read. Nobody goes back to what they have not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from adjourn.checkpoints import environment, folder, page_files, rollback
from adjourn.checkpoints.checkpoint import TaskCheckpoint, as_checkpoint, trusted_signer
from adjourn.checkpoints.page_files import FoundPage
from adjourn.checkpoints.page_writer import edit_page
from adjourn.checkpoints.parser import parse
from adjourn.errors import AdjournError, ConflictError, IntegrityError, InvalidError, NotFoundError, UsageError
from adjourn.findings import Finding
from adjourn.handover.answering import DiffLine, diff_lines
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import timestamp
from adjourn.store.base import Store
from adjourn.tasks.task import Task
from adjourn.ui.site import MAX_EDITED, Form, Notice, Site, WebPage
from adjourn.verification.report import CheckedClaim, explained
from adjourn.verification.verify import Around, verify_folder, verify_task

MAX_LISTED = 100
MAX_FINDINGS = 50
MAX_FILES = 200
_KINDS = {
    "restore": "restored", "bring back": "brought back", "leave": "made since, stays",
    "make room": "saved and removed, to make room", "avoid": "not restored",
}  # fmt: skip


class ListedPage(NamedTuple):
    """A page in the list. `done` of `steps` are done; `written` is its time."""

    path: str
    name: str
    task: str
    trigger: str
    written: str
    done: int
    steps: int
    is_active: bool
    is_edited: bool


class PageText(NamedTuple):
    """A page as it is shown: `page` is None where it cannot be read. `notes` say what has changed around it."""

    path: str
    listed: ListedPage | None
    page: Any
    findings: Sequence[Finding] = ()
    notes: Sequence[str] = ()


class StoredFacts(NamedTuple):
    """What the store says of a page's checkpoint. `signer` is "" where its key is not trusted here; `problem` says why nothing is known."""

    hash: str = ""
    description: str = ""
    signer: str = ""
    key: str = ""
    seq: int = -1
    folder: str = ""
    problem: str = ""


class PageDraft(NamedTuple):
    """A text that is being edited, and the digest of the text that it is compared with."""

    text: str
    was: str
    diff: Sequence[DiffLine] = ()


class Undone(NamedTuple):
    """What going back would do. `mark` names it, so that what is done is what was seen; `task` has a rollback to finish first."""

    files: Sequence[tuple[str, str, str]] = ()
    left: int = 0
    effects: Sequence[rollback.Effect] = ()
    has_files: bool = False
    mark: str = ""
    interrupted: str = ""
    problem: AdjournError | None = None


class Verified(NamedTuple):
    """What was tested, and the answer in one line."""

    claims: Sequence[CheckedClaim]
    said: str
    is_valid: bool


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The list of pages; or one page, by `page` (its path), `id` (its checkpoint's hash), or `task` with or without `seq`."""
    path = _path(site, fields)
    if not path:
        if any(fields.get(name) for name in ("id", "task")):
            raise NotFoundError("this checkpoint has no page here", "list the pages that are left")
        return {**_NOTHING, **_listed(site)}
    page_text = _shown(site, path)
    if "edit" in fields:
        text = page_files.text_of(site.tree, path)
        if len(text.encode()) > MAX_EDITED:
            raise InvalidError(f"{path} is too long for a form", "edit it in an editor: adjourn page edit")
        return {**page_text, "draft": PageDraft(text, digest(text.encode()))}
    if "back" in fields:
        return {**page_text, "undone": _undone(site, path)}
    return page_text


_NOTHING: Mapping[str, Any] = {
    "pages_found": (),
    "broken": (),
    "left": 0,
    "text": None,
    "facts": None,
    "draft": None,
    "undone": None,
    "verified": None,
}


def _listed(site: Site) -> Mapping[str, Any]:
    search = page_files.search(site.tree)
    return {
        "pages_found": [_row(page) for page in search.pages[:MAX_LISTED]],
        "broken": search.broken[:MAX_LISTED],
        "left": max(0, len(search.pages) - MAX_LISTED),
    }


def _row(file: FoundPage) -> ListedPage:
    machine, page = file.machine, file.page
    return ListedPage(
        path=file.path,
        name=page_files.word(machine, "name") or file.path,
        task=file.task,
        trigger=page_files.word(machine, "trigger"),
        written=timestamp(file.at),
        done=sum(step.status == "done" for step in page.progress),
        steps=len(page.progress),
        is_active=file.is_active,
        is_edited=file.reading.edited,
    )


def _path(site: Site, fields: Form) -> str:
    """The path of the page that the address names, within the folder of pages; "" for none."""
    path = fields.get("page", "")
    if path:
        if path not in page_files.names_of_pages(site.tree):
            raise NotFoundError(f"there is no page {path[:200]!r}", "choose one from the list of checkpoints")
        return page_files.check_inside(site.tree, path)
    task, seq, hash_ = fields.get("task", ""), fields.get("seq", "")[:12], fields.get("id", "")[:64]
    if task and seq.isdecimal():
        store = site.find_store()
        stored = _stored(store, task, int(seq)) if store is not None else None
        hash_ = stored.hash if stored is not None else ""
    elif task:
        newest = page_files.find_active(site.tree, task)
        return newest.path if newest is not None and newest.task == task else ""
    named = page_files.by_id(site.tree, hash_) if hash_ else None
    return named.path if named is not None else ""


def _named(site: Site, form: Form) -> str:
    """The path of the page that a form is about. Raises `NotFoundError`."""
    path = _path(site, form)
    if not path:
        raise NotFoundError("the form names no checkpoint page", "choose one from the list of checkpoints")
    return path


def _stored(store: Store, task: str, seq: int) -> TaskCheckpoint | None:
    """The checkpoint that is an event of a task; None for another event, or one that was changed."""
    entry = next(iter(store.read(task, seq, seq + 1)), None)
    if entry is None or digest(entry.data) != entry.hash:
        return None
    with suppress(InvalidError):
        return as_checkpoint(entry)
    return None


def _shown(site: Site, path: str) -> Mapping[str, Any]:
    """A page, and what the store says of its checkpoint."""
    try:
        file = page_files.read(site.tree, path)
    except InvalidError:
        text = page_files.text_of(site.tree, path)
        return {**_NOTHING, "text": PageText(path, None, None, parse(text, path).findings[:MAX_FINDINGS])}
    notes = [
        *environment.file_changes(site.tree, file.machine.get("artifacts")),
        *environment.commit_change(site.tree, file.machine.get("commit")),
    ]
    if page_files.is_stale(file, site.clock()):
        notes.insert(0, "the page is older than 24 hours: files and services may have changed since")
    text_shown = PageText(path, _row(file), file.page, file.reading.findings[:MAX_FINDINGS], notes)
    return {**_NOTHING, "text": text_shown, "facts": _facts(site, file)}


def _facts(site: Site, file: FoundPage) -> StoredFacts:
    store = site.find_store()
    checkpoint = _stored(store, file.task, file.seq) if store and file.task and file.seq >= 0 else None
    if store is None or checkpoint is None or checkpoint.hash != file.id:
        return StoredFacts(problem="the store here does not have the checkpoint that this page names")
    event, event_hash, data = checkpoint
    try:
        signer = trusted_signer(checkpoint)
    except IntegrityError as error:
        return StoredFacts(event_hash, data.description, "", data.key, event.seq, problem=error.message)
    try:
        is_as_written = folder.is_as_written(store, site.root, data.name)
        state = {None: "none", True: "as written", False: "of another checkpoint, or changed"}[is_as_written]
    except AdjournError as error:
        state = error.message
    return StoredFacts(event_hash, data.description, signer, data.key, event.seq, state)


# --- editing


def preview(site: Site, form: Form) -> Notice:
    """How a text would read, and what it changes. Nothing is written."""
    return _drafted(site, form, "Nothing is saved yet.", "plain")


def save(site: Site, form: Form) -> Notice:
    """Write the text, if it can be read as a page and the page is still as it was."""
    path, text = _named(site, form), _typed(form)
    try:
        reading = edit_page(site.tree, path, text.encode(), was=form.get("was", ""))
    except ConflictError as error:
        return _drafted(site, form, f"Not saved: {error.message}. See below what saving would change now.", "bad")
    if reading.page is None:
        return _drafted(site, form, "Not saved: the text cannot be read as a page.", "bad")
    return Notice("Saved. The next session receives this text.", fields={"page": path})


def _typed(form: Form) -> str:
    text = form.get("text", "").replace("\r\n", "\n")  # forms send line ends so
    if len(text.encode()) > MAX_EDITED:
        raise UsageError("the text is too long for a form", "shorten it, or edit the file: adjourn page edit")
    return text


def _drafted(site: Site, form: Form, notice: str, tone: str) -> Notice:
    path, text = _named(site, form), _typed(form)
    now = page_files.text_of(site.tree, path)
    reading = parse(text, path)
    findings = [
        finding for finding in reading.findings if finding.code != "AEX308"
    ]  # that it was edited is no news here
    page_text = PageText(path, None, reading.page, findings[:MAX_FINDINGS])
    draft = PageDraft(text, digest(now.encode()), diff_lines([(now, text)]))
    return Notice(notice, tone, shown={**_NOTHING, "text": page_text, "draft": draft})


# --- verifying


def verify(site: Site, form: Form) -> Notice:
    """Verify the task of a page's checkpoint, its records, and its folder."""
    from adjourn.host.keys import reading_secret

    path = _named(site, form)
    file = page_files.read(site.tree, path)
    store = site.find_store()
    if store is None or _facts(site, file).problem:
        raise NotFoundError("the store here does not have the checkpoint that this page names", "import its folder")
    report = verify_task(store, file.task, around=Around(reading_secret(), site.root))
    name = page_files.word(file.machine, "name")
    has_folder = name in folder.names(site.root)
    if has_folder:
        of_folder = verify_folder(folder.path_of(site.root, name))
        report.loose += [finding for finding in of_folder.findings if finding.finding.code == "folder-broken"]
    summary = f"{report.events} events, {report.checkpoints} checkpoints, {report.versions} versions of records"
    verified = Verified(explained(report, has_folder=has_folder), summary, report.valid)
    return Notice("", shown={**_shown(site, path), "verified": verified})


# --- going back


def _undone(site: Site, path: str) -> Undone:
    """What going back to a page would do, or what is in its way."""
    try:
        waiting = rollback.interrupted(site.tree)
        if waiting:
            return Undone(interrupted=waiting)
        file = page_files.read(site.tree, path)
        planned = rollback.plan(_task(site, file), site.root, file, tree=site.tree)
    except AdjournError as error:
        return Undone(problem=error)
    files = [(_KINDS[change.kind], change.path, change.why) for change in planned.files]
    return Undone(
        files=files[:MAX_FILES],
        left=max(0, len(files) - MAX_FILES),
        effects=planned.effects,
        has_files=bool(planned.commit),
        mark=_mark(planned),
    )


def _mark(planned: rollback.RollbackPlan) -> str:
    """Names what would be done. Effects are not part of it: they stay, and a working agent makes new ones all the time."""
    return digest(canonical([planned.target.id, planned.commit, [list(change) for change in planned.files]]))


def _task(site: Site, file: FoundPage, *, writable: bool = False) -> Task:
    store = site.find_store()
    if store is None or not file.task:
        raise NotFoundError("the store here does not have the task of this page", "import the checkpoint's folder")
    return site.task(store, file.task, writable=writable)


def go_back(site: Site, form: Form) -> Notice:
    """Make the page the active one again, and restore the files, as was shown."""
    if rollback.interrupted(site.tree):
        return _finished(site)
    file = page_files.read(site.tree, _named(site, form))
    task = _task(site, file, writable=True)
    planned = rollback.plan(task, site.root, file, tree=site.tree)
    if _mark(planned) != form.get("seen", ""):
        raise ConflictError("files were changed since you saw what would be restored", "look at it again")
    done = rollback.carry_out(task, site.root, planned, state=True, by=site.person, tree=site.tree)
    return _told(done, f"Back at {page_files.word(file.machine, 'name') or file.path}")


def _finished(site: Site) -> Notice:
    """Do what an earlier rollback, which was killed, did not do."""
    store = site.find_store()
    if store is None:
        raise NotFoundError("there is no store any more", "start a session behind `adjourn proxy`")
    task = site.task(store, rollback.interrupted(site.tree), writable=True)
    return _told(rollback.finish(task, site.root, by=site.person, tree=site.tree), "Finished the earlier rollback")


def _told(done: rollback.RollbackResult, notice: str) -> Notice:
    restored = sum(change.changes_file for change in done.files)
    files = f"; {restored} {'file' if restored == 1 else 'files'} restored" if done.files else ""
    undo = f" The files as they were before are in commit {done.undo[:12]}." if done.undo else ""
    return Notice(f"{notice}{files}.{undo}", fields={"page": done.page} if done.page else {})


PAGE = WebPage(
    "/checkpoint",
    "Checkpoints",
    "checkpoint.html",
    query,
    {"preview": preview, "save": save, "verify": verify, "back": go_back},
    reading=frozenset(("preview", "verify")),
)
