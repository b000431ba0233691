"""A checkpoint as a folder that carries itself: it can be committed, moved by git, verified and resumed elsewhere.

    .aex/checkpoints/NAME/checkpoint.json   the published fields, and under `adjourn` what makes it verifiable
    .aex/checkpoints/NAME/audit.jsonl       the chain, one stored event a line, up to and including the checkpoint

The other files are those of `attachments`. What is read is not trusted (`folder_verification` tests it), and no link is followed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from adjourn.checkpoints import attachments
from adjourn.checkpoints.attachments import tool_history_entry
from adjourn.checkpoints.checkpoint import FORMAT, TaskCheckpoint, as_checkpoint, document, find
from adjourn.errors import AdjournError, ConflictError, IntegrityError, InvalidError, NotFoundError, RefusedError
from adjourn.host import keys
from adjourn.host.workspace import (
    CHECKPOINTS,
    check_name,
    locked,
    make_folder,
    open_regular,
    read_file,
    remove_file,
    resolve_inside,
    write_file,
)
from adjourn.log.canonical_json import digest
from adjourn.log.event import decode
from adjourn.log.kinds import data_of, facts_of
from adjourn.log.signing import encode_bytes, fingerprint
from adjourn.store.base import Entry, Head, Store
from adjourn.tasks.heads import checked

JSON_FILE = "checkpoint.json"
AUDIT_FILE = "audit.jsonl"
MAX_HISTORY = 10_000
"""Entries of `toolHistory`; older ones are in audit.jsonl only, and `historyOmitted` is their number."""
MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_FOLDERS = 10_000
"""Folders of a workspace that are read."""
NO_TEXT = digest(b"")
"""The digest of a missing contract or policy."""
_PAGE = 4096


class Extra(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The member `adjourn` of `checkpoint.json`: what verifying the folder and resuming without its store need."""

    format: str
    task: str
    seq: int
    hash: str
    document: dict[str, Any]
    public_key: str
    contract: str = ""
    policy: str = ""
    history_omitted: int = 0
    report: dict[str, Any] | None = None


class CheckpointFile(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """`checkpoint.json`: the published fields in their order, then ours."""

    name: str
    description: str = ""
    timestamp: str
    calls_used: int
    budget: int | None = None
    tool_history: list[dict[str, Any]]
    adjourn: Extra | None = None


_REQUIRED = frozenset(field.encode_name for field in msgspec.structs.fields(CheckpointFile) if field.required)


class PublishedFile(msgspec.Struct, frozen=True):
    """A checkpoint.json as decoded, and its bytes."""

    file: CheckpointFile
    data: bytes


def path_of(root: str, name: str) -> str:
    """The path of a checkpoint's folder in a workspace. Raises `RefusedError` if a link is on the way."""
    relative = f"{CHECKPOINTS}/{check_name(name)}"
    path = resolve_inside(root, relative)
    if path != os.path.join(os.path.realpath(root), relative):
        raise RefusedError(
            f"{relative} is reached through a link", "remove the link: adjourn does not follow links here"
        )
    return path


def names(root: str) -> list[str]:
    """The sorted names in the workspace's folder of checkpoints, at most `MAX_FOLDERS`. They may not be checkpoints."""
    try:
        return sorted(os.listdir(resolve_inside(root, CHECKPOINTS)))[:MAX_FOLDERS]
    except (OSError, RefusedError):
        return []


def is_as_written(store: Store, root: str, name: str) -> bool | None:
    """Whether checkpoint.json has the bytes that this store wrote; None if there is no such file."""
    try:
        data = read_file(os.path.join(path_of(root, name), JSON_FILE), MAX_JSON_BYTES)
    except NotFoundError:
        return None
    return digest(data) == store.ref(f"folder/{name}")


def read_published(folder: str) -> PublishedFile:
    """Read a checkpoint.json. Only its types are checked. Raises `InvalidError`, `NotFoundError`."""
    from adjourn.text.strict_json import check_text, check_values, count_keys

    path = os.path.join(folder, JSON_FILE)
    data = read_file(path, MAX_JSON_BYTES)
    check_values(data, path)
    try:
        value = msgspec.json.decode(data)
        check_text(data, count_keys(value))
        if isinstance(value, dict):  # null where a member may be absent means that it is absent
            value = {name: member for name, member in value.items() if member is not None or name in _REQUIRED}
        return PublishedFile(msgspec.convert(value, CheckpointFile), data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"{path} is not a checkpoint: {error}", "restore it from version control") from error
    except InvalidError as error:
        raise InvalidError(
            f"{path} is not a checkpoint: {error.message}", error.remedy or "restore it from version control"
        ) from error


def decisions(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """The entries of `toolHistory` for those of the events that are decisions on calls."""
    for entry in entries:
        for fact in facts_of(decode(entry.data)):
            decision = tool_history_entry(fact, data_of(fact))
            if decision is not None:
                yield decision


def omitted(stated: dict[str, Any], number: int) -> int:
    """The number of decisions that a `toolHistory` of `number` entries leaves out. `stated` is the checkpoint's document."""
    decided: int = stated["callsUsed"] + stated["callsRefused"]
    return max(0, decided - number) if number == MAX_HISTORY else 0


# --- writing


def write(store: Store, checkpoint: TaskCheckpoint, root: str, tell: Callable[[str], object] = lambda _: None) -> str:
    """Write a checkpoint's folder into a workspace; returns its path relative to `root`, with a slash at the end.

    Writes the newest checkpoint of that name, which another process may have made meanwhile. A crash leaves the folder as it
    was, or without checkpoint.json: never one that verifies and is wrong. Files that this store did not write are copied first,
    and `tell` receives where. Raises `IntegrityError`, `NotFoundError`, `StoreError`.
    """
    name = checkpoint.data.name
    relative = f"{CHECKPOINTS}/{name}"
    path = make_folder(root, relative)
    with locked(path):
        newest = find(store, name)
        if _is_of_others(store, newest, root) and not (_precedes(store, newest, path) or _is_rendered(store, path)):
            original = keep_original(root, relative, JSON_FILE)
            tell(f"{relative}/ had files that this store did not write; a copy of them is in {original}")
        _remember(store, name, write_into(store, newest, path))
    return f"{relative}/"


def _is_of_others(store: Store, checkpoint: TaskCheckpoint, root: str) -> bool:
    """Whether the folder has a checkpoint.json that this store did not write. A link or a pipe in its place has no content to keep."""
    try:
        return is_as_written(store, root, checkpoint.data.name) is False
    except InvalidError:
        return False


def write_into(store: Store, checkpoint: TaskCheckpoint, folder: str) -> str:
    """Write the files into an existing folder, inside the workspace or not; returns the SHA-256 of checkpoint.json."""
    task, seq = checkpoint.event.task, checkpoint.event.seq
    events = checked(store, task, 0, Head(seq, checkpoint.hash))  # verified before any file is changed
    file = render(store, checkpoint)
    if not _precedes(store, checkpoint, folder):
        remove_file(folder, JSON_FILE)  # with the new audit.jsonl it would match neither history
    write_file(folder, AUDIT_FILE, (entry.data + b"\n" for entry in events))
    attachments.write(store, checkpoint, folder)
    data = _bytes_of(file)
    write_file(folder, JSON_FILE, data)
    attachments.remove_older(folder, checkpoint)
    return digest(data)


def _precedes(store: Store, checkpoint: TaskCheckpoint, folder: str) -> bool:
    """Whether the folder has an earlier checkpoint of the same history."""
    try:
        there = read_published(folder).file.adjourn
    except (InvalidError, NotFoundError):
        return False
    task, seq = checkpoint.event.task, checkpoint.event.seq
    if there is None or there.task != task or not 0 <= there.seq <= seq:
        return False
    return next(iter(store.read(task, there.seq, there.seq + 1))).hash == there.hash


def _is_rendered(store: Store, folder: str) -> bool:
    """Whether checkpoint.json is what this store would write: a process was killed before it had stored the digest."""
    with suppress(AdjournError):
        published = read_published(folder)
        there = published.file.adjourn
        if there is not None and 0 <= there.seq <= store.head(there.task).seq:
            [entry] = store.read(there.task, there.seq, there.seq + 1)
            return _bytes_of(render(store, as_checkpoint(entry))) == published.data
    return False


def _bytes_of(file: CheckpointFile) -> bytes:
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def _remember(store: Store, name: str, file_digest: str) -> None:
    """Keep the digest of checkpoint.json, so that resuming detects an edited file without reading the whole chain."""
    ref = f"folder/{name}"
    current = store.ref(ref)
    if current != file_digest:
        with suppress(ConflictError):  # by another workspace of this store: it costs one verification
            store.swap(ref, file_digest, expect=current)


def render(store: Store, checkpoint: TaskCheckpoint) -> CheckpointFile:
    """The content of checkpoint.json."""
    event, event_hash, data = checkpoint
    stated = document(store, checkpoint)
    history = _history(store, event.task, event.seq, MAX_HISTORY)
    return CheckpointFile(
        name=data.name,
        description=data.description,
        timestamp=event.timestamp,
        calls_used=stated["callsUsed"],
        budget=stated.get("budget"),
        tool_history=history,
        adjourn=Extra(
            format=FORMAT,
            task=event.task,
            seq=event.seq,
            hash=event_hash,
            document=stated,
            public_key=encode_bytes(_public_key(data.key)),
            contract=_text(store, stated["contract"]),
            policy=_text(store, stated["policy"]),
            history_omitted=omitted(stated, len(history)),
            report=_report(store, data.report),
        ),
    )


def _text(store: Store, text_digest: str) -> str:
    if text_digest in ("", NO_TEXT):
        return ""
    stored = store.get_blob(text_digest)
    if stored is None:
        raise IntegrityError(
            f"the contract or policy {text_digest[:12]} is not in the store", "import the checkpoint again"
        )
    return stored.decode()


def _report(store: Store, report: str) -> dict[str, Any] | None:
    """What was stated of the work until the checkpoint; None if nothing was, or the store does not have it."""
    try:
        stored = store.get_blob(report) if report else None
    except InvalidError:  # an event of another make: it is no digest
        return None
    return msgspec.json.decode(stored, type=dict[str, Any]) if stored else None


def _public_key(key: str) -> bytes:
    for public in keys.trusted().values():
        if fingerprint(public) == key:
            return public
    raise NotFoundError(
        f"the checkpoint is signed by key {key}, which is not trusted here", "trust it with `adjourn keys trust`"
    )


def _history(store: Store, task: str, stop: int, limit: int) -> list[dict[str, Any]]:
    """The last `limit` decisions before event `stop`, oldest first, read from the end in pages."""
    pages: list[list[dict[str, Any]]] = []
    size = 0
    while stop > 0 and size < limit:
        start = max(0, stop - _PAGE)
        page = list(decisions(store.read(task, start, stop)))
        pages.append(page)
        size += len(page)
        stop = start
    return [entry for page in reversed(pages) for entry in page][-limit:]


# --- keeping the files that adjourn did not write

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_COPIES = 1000
_FILES = r"checkpoint\.json|audit\.jsonl|record-[0-9a-f]{12}\.jsonl|cognition-[0-9a-f]{12}\.json"
_CHUNK = 1024 * 1024


def keep_original(root: str, relative: str, checkpoint: str) -> str:
    """Copy the files of the folder `relative` of a workspace beside it, unless a copy with this checkpoint.json is there.

    `checkpoint` is the name of checkpoint.json, which is copied last: a copy that has it is complete. Returns the path of the copy,
    relative to `root`, with a slash at the end. Raises `StoreError`, `InvalidError`, `RefusedError`.
    """
    source = os.path.join(os.path.realpath(root), relative)
    data = read_file(os.path.join(source, checkpoint), MAX_FILE_BYTES)
    for number in range(1, MAX_COPIES + 1):
        copy = f"{relative}.imported" + (f"-{number}" if number > 1 else "")
        there = os.path.join(os.path.realpath(root), copy, checkpoint)
        with suppress(NotFoundError):
            if digest(read_file(there, MAX_FILE_BYTES)) == digest(data):
                return f"{copy}/"
            continue
        path = make_folder(root, copy)
        for name in sorted(os.listdir(source)):
            if re.fullmatch(_FILES, name) and name != checkpoint:
                write_file(path, name, _chunks(os.path.join(source, name)))
        write_file(path, checkpoint, data)
        return f"{copy}/"
    raise RefusedError(
        f"{relative} has files that adjourn did not write, and {MAX_COPIES} copies of others are beside it",
        "move the copies that you do not need elsewhere",
    )


def _chunks(path: str) -> Iterator[bytes]:
    with os.fdopen(open_regular(path, MAX_FILE_BYTES), "rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


# --- disk space: long histories of one task share a file, and old temporary files are removed

_CUT_OFF_AFTER_S = 3600
"""Seconds since its last change after which a temporary file counts as left by a process that was killed."""
SHARE_BYTES = 64 * 1024 * 1024
"""Bytes of all histories in a workspace from which on those of one task share a file."""
_MAX_HISTORY_BYTES = 1 << 40
"""Bytes of a history's file that is read at all."""
_TEMPORARY = r"\.(?:.+\.\d+\.[0-9a-f]{8}|[0-9a-f]{16}\.new)"
_TAIL = 4096


class Freed(NamedTuple):
    """What was freed, how many, and their bytes."""

    what: str
    number: int
    size: int


def is_temporary(name: str) -> bool:
    """Whether `name` is that of a temporary file of a write."""
    return re.fullmatch(_TEMPORARY, name) is not None


def remove_temporaries(folder: str) -> list[int]:
    """Remove temporary files from a folder that are older than an hour. Returns their sizes in bytes."""
    sizes: list[int] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            old = time.time() - status.st_mtime > _CUT_OFF_AFTER_S
            if is_temporary(entry.name) and entry.is_file(follow_symlinks=False) and old:
                os.unlink(entry.path)
                sizes.append(status.st_size)
    return sizes


def share_histories(root: str, limit: int = SHARE_BYTES) -> Freed:
    """Make the histories of one task one file with several hard links, if all take more than `limit` bytes.

    A shorter history is the beginning of a longer one of the same task, and a folder may have more events than it needs.
    """
    histories = list(_histories(root))
    total = sum({(history.device, history.inode): history.size for history in histories}.values())
    if total <= limit:
        return Freed("shared histories", 0, 0)
    count = size = 0
    longest: dict[bytes, _History] = {}
    for one in sorted(histories, key=lambda each: each.size, reverse=True):
        first = longest.setdefault(one.begin, one)
        if (one.device, one.inode) == (first.device, first.inode):
            continue
        with suppress(OSError, AdjournError):  # no links on this file system, or in use: each keeps its own
            if _begins(one, first) and _share(first, one):
                count, size = count + 1, size + one.size
    return Freed("shared histories", count, size)


def _share(long: _History, short: _History) -> bool:
    """Replace `short` by a hard link to `long`, unless another process has written one of the two meanwhile."""
    folder = os.path.dirname(short.path)
    beside = os.path.join(folder, f".{AUDIT_FILE}.{os.getpid()}.{os.urandom(4).hex()}")
    with locked(folder, seconds=0):
        os.link(long.path, beside, follow_symlinks=False)
        if _is_at(long, beside) and _is_at(short, short.path):
            os.rename(beside, short.path)
            return True
        os.unlink(beside)
    return False


def _is_at(history: _History, path: str) -> bool:
    status = os.lstat(path)
    return (history.device, history.inode, history.size) == (status.st_dev, status.st_ino, status.st_size)


class _History(msgspec.Struct, frozen=True):
    path: str
    device: int
    inode: int
    size: int
    begin: bytes


def _histories(root: str) -> Iterator[_History]:
    with suppress(AdjournError):
        folder = resolve_inside(root, CHECKPOINTS)
        for name in names(root):
            path = os.path.join(folder, name, AUDIT_FILE)
            if os.path.islink(os.path.dirname(path)):
                continue
            with suppress(AdjournError), os.fdopen(open_regular(path, _MAX_HISTORY_BYTES), "rb") as file:
                status = os.fstat(file.fileno())
                begin = file.readline(_TAIL * 16)
                yield _History(path, status.st_dev, status.st_ino, status.st_size, begin)


def _begins(short: _History, long: _History) -> bool:
    """Whether `short` is the beginning of `long`: the same bytes end it, and each line has the hash of the line before."""
    start = max(0, short.size - _TAIL)
    ends = []
    for history in (short, long):
        with os.fdopen(open_regular(history.path, _MAX_HISTORY_BYTES), "rb") as file:
            file.seek(start)
            ends.append(file.read(short.size - start))
    return ends[0] == ends[1] and ends[0].endswith(b"\n")
