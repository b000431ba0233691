"""A checkpoint as a folder that carries itself: it can be committed, moved by git, verified and resumed elsewhere.

    .aex/checkpoints/NAME/checkpoint.json   the published fields, and under `adjourn` what makes it verifiable
    .aex/checkpoints/NAME/audit.jsonl       the chain, one stored event a line, up to and including the checkpoint
    (and what `knowledge` carries beside them)

Owns: where these folders lie, the type of checkpoint.json, reading it as it is said. Must never: follow a link, or trust what
it reads (`folder_verifying` tests it).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from adjourn.checkpoints.shapes import tool_history_entry
from adjourn.errors import InvalidError, NotFoundError, RefusedError
from adjourn.host import CHECKPOINTS, check_name, read_file, resolve_inside
from adjourn.log import check_values, data_of, decode, digest
from adjourn.store import Entry, Store

JSON_FILE = "checkpoint.json"
AUDIT_FILE = "audit.jsonl"
MAX_HISTORY = 10_000
"""Entries of `toolHistory`; older ones are only in audit.jsonl, and `historyOmitted` tells how many."""
MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_FOLDERS = 10_000
"""Folders of a workspace that are looked at."""
NO_TEXT = digest(b"")
"""The digest of a contract or policy that is not there."""


class Extra(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What `checkpoint.json` has under `adjourn`: all that is needed to verify it, and to go on without the store."""

    format: str
    task: str
    seq: int
    hash: str
    document: dict[str, Any]
    public_key: str
    contract: str = ""
    policy: str = ""
    history_omitted: int = 0


class CheckpointFile(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """`checkpoint.json`: the published fields in their order, then ours."""

    name: str
    description: str = ""
    timestamp: str
    calls_used: int
    budget: int | None = None
    tool_history: list[dict[str, Any]]
    adjourn: Extra | None = None


class PublishedFile(NamedTuple):
    """A checkpoint.json as decoded, and its bytes."""

    file: CheckpointFile
    data: bytes


def path_of(root: str, name: str) -> str:
    """The folder of a checkpoint in a workspace, which may not be reached by a link. Raises `RefusedError`."""
    relative = f"{CHECKPOINTS}/{check_name(name)}"
    path = resolve_inside(root, relative)
    if path != os.path.join(os.path.realpath(root), relative):
        raise RefusedError(f"{relative} is reached by a link", "remove it; adjourn follows no link here")
    return path


def names(root: str) -> list[str]:
    """What there is in the workspace's folder of checkpoints, whether it is one or not."""
    try:
        return sorted(os.listdir(resolve_inside(root, CHECKPOINTS)))[:MAX_FOLDERS]
    except (OSError, RefusedError):
        return []


def is_as_written(store: Store, root: str, name: str) -> bool | None:
    """Whether checkpoint.json is what this store wrote; None when there is no such file."""
    try:
        data = read_file(os.path.join(path_of(root, name), JSON_FILE), MAX_JSON_BYTES)
    except NotFoundError:
        return None
    return digest(data) == store.ref(f"folder/{name}")


def read_published(folder: str) -> PublishedFile:
    """A checkpoint.json, with its types checked and nothing else. Raises `InvalidError`, `NotFoundError`."""
    path = os.path.join(folder, JSON_FILE)
    data = read_file(path, MAX_JSON_BYTES)
    check_values(data, path)
    try:
        return PublishedFile(msgspec.json.decode(data, type=CheckpointFile), data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(
            f"{path} is not a checkpoint: {error}", "restore it from version control"
        ) from error


def decisions(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """What `toolHistory` shows of events."""
    for entry in entries:
        event = decode(entry.data)
        shown = tool_history_entry(event, data_of(event))
        if shown is not None:
            yield shown


def omitted(stated: dict[str, Any], shown: int) -> int:
    """How many decisions a `toolHistory` of `shown` entries leaves out."""
    made: int = stated["callsUsed"] + stated["callsRefused"]
    return max(0, made - shown) if shown == MAX_HISTORY else 0
