"""The brief of pending work for a new session that has not asked for it: a summary, how to resume it, where the rest is.

The brief is bounded, fenced, and of a trusted signer: of any other checkpoint, the session learns the name only. A ref (`shown/TASK`)
records which client was shown it, and by which of its servers or by its hook, since an event would come after the task's last checkpoint
(`checkpoints.save`): the others say nothing. The event `checkpoint.resumed` records that the work was resumed. Nothing is resumed here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import msgspec

from adjourn.checkpoints import folder
from adjourn.checkpoints.checkpoint import TaskCheckpoint, as_checkpoint, check_signature, document
from adjourn.clients.client_process import ClientProcess
from adjourn.errors import AdjournError, ConflictError, RefusedError
from adjourn.handover.importing import check_trusted, import_named, vouched_for
from adjourn.handover.pending import (
    PendingWork,
    best_checkpoint,
    busy_notice,
    find_stored_work,
    is_pending,
    notice,
    older_work,
    oldest_announced,
    ranked_tasks,
)
from adjourn.handover.rendering import ROOM, SMALL, to_text
from adjourn.handover.resumption import Reader, hand_over, reader_of
from adjourn.handover.sections import ASKED, MAX_LINE, surprising_rules
from adjourn.host import keys
from adjourn.host.workspace import CHECKPOINTS, open_regular
from adjourn.log import kinds
from adjourn.log.event import MAX_EVENT_BYTES, decode, timestamp
from adjourn.log.signing import fingerprint
from adjourn.store.base import Entry, Store
from adjourn.store.memory import OverlayStore
from adjourn.tasks.lease import mark_cut_off_calls
from adjourn.tasks.task import Task, check_task_id
from adjourn.text.fitting import fit_items
from adjourn.text.quoting import said

NOTICE_BYTES = 2 * 1024
"""Clients cut the instructions of a server."""
MAX_LATER = 500
"""Events after a checkpoint that are searched for its resume."""


class NewSession(NamedTuple):
    """The session that reads the brief: its task so far, the servers through which it can call `aex.resume`, and how many bytes it
    reads. `is_forgetful`: it lost what it was shown before, as after a compaction. `continues`: its conversation is the one that worked
    on the task, so that it needs to know only what matters most, unless it is forgetful, too.
    """

    task: str = ""
    servers: Sequence[str] = ()
    room: int = ROOM
    is_forgetful: bool = False
    continues: bool = False


class Telling(NamedTuple):
    """What the ref `shown/TASK` keeps: a checkpoint's hash, when, by which server or "hook", and to which client."""

    checkpoint: str = ""
    at: str = ""
    by: str = ""
    group: str = ""

    @classmethod
    def read(cls, text: str) -> Telling:
        return cls(*text.split(" ", 3))


HOOK = "hook"
HEADING = "# Unfinished work in this workspace"


def brief_new_session(client: ClientProcess, session: NewSession) -> str:
    """The brief of a client's pending work, at most `session.room` bytes; "" without any. Records that it was shown."""
    work = find_pending_work(client, session.task)
    if work is None:
        return nothing_pending(client) or _rules_alone(client)
    text = _text(work, session, client)
    return text if _mark_shown(work, client, HOOK) or session.is_forgetful or session.continues else ""


def nothing_pending(client: ClientProcess) -> str:
    """What a client without pending work learns of the workspace: who else is at work, or what cannot be resumed; "" for nothing."""
    return busy_notice(client) or older_work(client) or untrusted_work(client)


def _rules_alone(client: ClientProcess) -> str:
    """The rules that may surprise, where there was work before and none of it is to be resumed; "" for none."""
    rules = surprising_rules(client.options.contract.policy)
    if not rules or not ranked_tasks(client.store, client.clock, client.secret):
        return ""
    begin = "adjourn: no unfinished work in this workspace. Its policy, beside what it simply allows:"
    return "\n".join([begin, *fit_items([f"- {said(rule, MAX_LINE)}" for rule in rules], NOTICE_BYTES, len)])


def instructions(client: ClientProcess, work: PendingWork, tool: str) -> str:
    """What an agent receives whose server speaks first: the notice, and what fits of the hand-over, at most `NOTICE_BYTES`; "" if its
    client was shown it by its hook or another server.

    `tool` is how the client spells `aex.resume`. Of an untrusted signer, and in Codex, it is the notice alone: Codex may ask its model before
    it has the server's text, so there the hook tells the rest in any case.
    """
    task, checkpoint = work.task, work.checkpoint
    if not _mark_shown(work, client, client.options.server or client.options.command[:12] or "server"):
        return ""
    begin = notice(work, tool)
    if _is_codex(client):
        return begin
    try:
        signer = check_trusted(task.store, checkpoint)
    except RefusedError:
        return begin
    document(task.store, checkpoint)
    handover = hand_over(task, checkpoint, _reader(client, task), signer, others=work.others)
    return to_text(handover, NOTICE_BYTES, [begin], f"The rest: {tool}.")


def _reader(client: ClientProcess, task: Task) -> Reader:
    options = client.options
    reader = reader_of(options.root, task, client.group, options.contract, options.page_tree)
    return reader._replace(names_are_joined=options.names_are_joined, is_remote=bool(options.home))


# --- the text


def _text(work: PendingWork, session: NewSession, client: ClientProcess) -> str:
    task, checkpoint = work.task, work.checkpoint
    name = checkpoint.data.name
    is_small = session.room < SMALL
    same = session.task == task.id
    how = _how_to_resume(name, session, same=same)
    made = f'It stopped at checkpoint "{name}", made {checkpoint.event.timestamp}.'
    begin = [HEADING, *([f'Checkpoint "{name}". {how}'] if is_small else [made, how])]
    room = session.room
    if session.continues and same:
        room = room if session.is_forgetful else min(room, NOTICE_BYTES)
        begin = [
            f"# This conversation continues its task {task.id}",
            "Your calls count in the same budget; nothing has to be resumed.",
        ]
    try:
        signer = check_trusted(task.store, checkpoint)
    except RefusedError:
        return "\n".join(
            [*begin, f"Nothing else is shown: it is signed by {checkpoint.data.key}, which is not trusted here."]
        )
    if _was_shown(work, client):
        begin.append("An earlier session was shown this, and did not resume it.")
    document(task.store, checkpoint)
    handover = hand_over(task, checkpoint, _reader(client, task), signer, others=work.others)
    if session.continues and same and not session.is_forgetful:  # the conversation has the person's words
        kept = tuple(section for section in handover.sections if section.name != ASKED)
        handover = msgspec.structs.replace(handover, sections=kept)
    end = f"The rest: {_the_rest(name, session, '' if is_small else handover.page)}."
    return to_text(handover, room, begin, end)


def _how_to_resume(name: str, session: NewSession, *, same: bool) -> str:
    if session.servers:
        tools = " or ".join(f"mcp__{server}__aex_resume" for server in session.servers[:5])
        return (
            f'If you are asked to continue that work, call aex.resume ({tools}) with {{"name": "{name}"}} before any '
            "other tool: it keeps its spent budget and its calls in doubt. Otherwise ignore it."
        )
    if same:
        return "Your calls count in the same budget. If you are asked to continue that work, continue it; do not start over."
    budget = "" if session.room < SMALL else " under its budget"
    return f"To continue it{budget}, a person starts this client behind `adjourn proxy`."


def _the_rest(name: str, session: NewSession, page: str) -> str:
    ways = [f"`adjourn resume {name}`{'' if session.room < SMALL else ' in a shell'}"]
    if session.servers:
        ways.insert(0, 'aex.resume, with the "more" of its answer for older history, and adjourn.record')
    if page:
        ways.append(f"the page {page}")
    return "; ".join(ways)


# --- whether it was shown, and resumed


def _is_codex(client: ClientProcess) -> bool:
    """Whether the client is Codex, by the name that it gives itself to servers, or that its hook has."""
    return client.client.startswith("codex")


def _mark_shown(work: PendingWork, client: ClientProcess, by: str) -> bool:
    """Record that a client is shown the brief, which it may not read. Returns False if another of its servers, or its hook, has shown it.

    Who shows it a second time has begun a new conversation.
    """
    store, name = work.task.store, f"shown/{work.task.id}"
    mark = Telling(work.checkpoint.hash, timestamp(work.task.clock()), by.replace(" ", "-"), client.group)
    for _ in range(2):
        before = store.ref(name)
        shown = Telling.read(before or "")
        was_shown = (shown.checkpoint, shown.group) == (mark.checkpoint, mark.group) and shown.by != mark.by
        if was_shown and not (mark.by == HOOK and _is_codex(client)):
            return False
        with suppress(ConflictError):  # another was faster: maybe one of this client
            store.swap(name, " ".join(mark), expect=before)
            return True
    return True


def _was_shown(work: PendingWork, client: ClientProcess) -> bool:
    """Whether another client was shown the checkpoint and did not resume it."""
    shown = Telling.read(work.task.store.ref(f"shown/{work.task.id}") or "")
    return shown.checkpoint == work.checkpoint.hash and shown.group != client.group and not any(_resumed(work))


def _resumed(work: PendingWork) -> Iterator[bool]:
    """For each resume after the checkpoint, whether it was of this checkpoint."""
    after = work.checkpoint.event.seq + 1
    for entry in work.task.store.read(work.task.id, after, after + MAX_LATER):
        event = decode(entry.data)
        if event.event == kinds.CheckpointResumed.KIND:
            data = kinds.data_of(event)
            yield isinstance(data, kinds.CheckpointResumed) and data.checkpoint == work.checkpoint.hash


# --- the work that a new session learns of unasked


def find_pending_work(client: ClientProcess, own: str = "") -> PendingWork | None:
    """The pending work for a client: its `own` task if that has any, else the newest, else what only a folder brought. None when there
    is none.
    """
    work = find_stored_work(client, own)
    if work is not None or not (folders := _new_folders(client)) or busy_notice(client):
        return work
    return find_carried_work(client, folders)


def untrusted_work(client: ClientProcess) -> str:
    """One line for a client without pending work, if a folder was brought whose signer is not trusted; "" without any.

    Of such a folder it has the name and the key alone: a cloned repository may be hostile.
    """
    if not (folders := _new_folders(client)):
        return ""
    return find_untrusted_work(client, folders)


def _new_folders(client: ClientProcess) -> list[str]:
    """The names in the folder of checkpoints that the store did not write; none for a client of a gateway, or bound to a task."""
    if client.options.task or client.options.home:  # nobody clones the folder of a space
        return []
    try:
        names = os.listdir(os.path.join(client.options.checkpoint_root, CHECKPOINTS))
    except OSError:
        return []
    written = client.store.refs("folder/") if names else {}
    return [name for name in names if f"folder/{name}" not in written]


# --- work that only the folder of a checkpoint brought: a clone has no store, or one that does not know the task
#
# Each folder is imported into an overlay of the store, as a resume would import it into the store. So nothing is shown that a resume
# would refuse, and nothing is written. This runs unasked at the start of a session, in a repository that may be hostile: it is bounded,
# and shows nothing that an untrusted signer wrote.

MAX_FOLDERS = 20
"""Folders that are examined whole, newest first."""
MAX_FILES = 32
"""Files in a folder that is examined."""
MAX_JSON_BYTES = 1024 * 1024
"""Bytes of a checkpoint.json that is read."""
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of all folders that are examined, together; at most half of them in one folder."""
LOOK_SECONDS = 0.5
"""How long the last events of folders may be read for, to see which of them somebody signed whom a person trusts."""


def find_carried_work(client: ClientProcess, names: Iterable[str]) -> PendingWork | None:
    """The pending work of the folders with these names: of several tasks, the one with the newest checkpoint. None without any."""
    folders = _folders(client, names, trusted=True)
    for task_id in dict.fromkeys(checkpoint.event.task for checkpoint in folders):
        with suppress(AdjournError):
            store = OverlayStore(client.store)
            for checkpoint in folders:
                if checkpoint.event.task == task_id:
                    _import(store, client.options.checkpoint_root, checkpoint.data.name)
            task = Task(store, task_id, clock=client.clock, secret=client.secret)
            task_checkpoint = best_checkpoint(task)
            if task_checkpoint is not None and is_pending(task, client):
                mark_cut_off_calls(task)
                return PendingWork(task, task_checkpoint)
    return None


def find_untrusted_work(client: ClientProcess, names: Iterable[str]) -> str:
    """The refusal of the newest of these folders whose signer is not trusted; "" without any."""
    for checkpoint in _folders(client, names, trusted=False):
        if refusal := _import(OverlayStore(client.store), client.options.checkpoint_root, checkpoint.data.name):
            return f"adjourn: a checkpoint in this workspace cannot be resumed yet: {refusal}"
    return ""


def _import(store: Store, root: str, name: str) -> RefusedError | None:
    """Import a folder. Returns the refusal of its signer; any other fault hides the folder, as it does in a resume of its task."""
    try:
        import_named(store, root, name)
    except RefusedError as refusal:
        return refusal
    except AdjournError:
        pass
    return None


def _folders(client: ClientProcess, names: Iterable[str], *, trusted: bool) -> list[TaskCheckpoint]:
    """The checkpoints of the folders to examine, the newest first: small ones that are not old, of tasks that the store does not know
    as far. `trusted`: those with a valid signature of somebody whom a person trusts; otherwise all others.

    Their last event alone says so. Whoever cannot sign as such a person cannot crowd out with other folders what one signed.
    """
    root, oldest, store = client.options.checkpoint_root, oldest_announced(client.clock()), client.store
    known = {fingerprint(key): key for key in keys.trusted().values()}
    found: dict[str, TaskCheckpoint] = {}
    deadline = time.monotonic() + LOOK_SECONDS
    for name in _newest(root, names):
        if time.monotonic() > deadline:
            break
        with suppress(AdjournError, OSError):
            checkpoint = _last_event(folder.path_of(root, name))
            event, data = checkpoint.event, checkpoint.data
            if data.name != name or event.timestamp < oldest:
                continue
            if store.head(check_task_id(event.task)).seq >= event.seq:
                continue
            if public := known.get(data.key):
                check_signature(checkpoint, public)
            if trusted == (public is not None or vouched_for(store, checkpoint) is not None):
                found[name] = checkpoint
    newest = sorted(
        found.values(),
        key=lambda task_checkpoint: (task_checkpoint.event.timestamp, task_checkpoint.data.name),
        reverse=True,
    )
    return list(_fitting(root, newest[:MAX_FOLDERS]))


def _newest(root: str, names: Iterable[str]) -> list[str]:
    changed = {}
    for name in islice(names, folder.MAX_FOLDERS):
        with suppress(OSError):
            changed[name] = os.lstat(os.path.join(root, CHECKPOINTS, name)).st_mtime_ns
    return sorted(changed, key=lambda name: (changed[name], name), reverse=True)


def _last_event(path: str) -> TaskCheckpoint:
    """The event at the end of a folder's history, if it is a checkpoint. It is not verified. Raises `AdjournError`, `OSError`."""
    with os.fdopen(open_regular(os.path.join(path, folder.AUDIT_FILE), MAX_BYTES), "rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - MAX_EVENT_BYTES, 0))
        line = file.read(MAX_EVENT_BYTES).removesuffix(b"\n").rpartition(b"\n")[2]
    return as_checkpoint(Entry("", line))


def _fitting(root: str, checkpoints: Iterable[TaskCheckpoint]) -> Iterator[TaskCheckpoint]:
    """Those whose folders fit together in `MAX_BYTES`."""
    room = MAX_BYTES
    for checkpoint in checkpoints:
        with suppress(AdjournError, OSError):
            size = _size(folder.path_of(root, checkpoint.data.name))
            if size <= min(room, MAX_BYTES // 2):
                room -= size
                yield checkpoint


def _size(path: str) -> int:
    """The bytes of the files in a folder; more than any bound where they are too many, or checkpoint.json is too large."""
    with os.scandir(path) as entries:
        sizes = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in islice(entries, MAX_FILES + 1)}
    if len(sizes) > MAX_FILES or sizes.get(folder.JSON_FILE, 0) > MAX_JSON_BYTES:
        return MAX_BYTES + 1
    return sum(sizes.values())
