"""List the contracts and checkpoints of a workspace (`aex.list_tasks`, `aex.review_task`).

Owns: finding them, inside the workspace only. Must never: reveal whether a file outside exists.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from adjourn.aex import from_text
from adjourn.checkpoints import checkpoint, folder, shown_size
from adjourn.errors import AdjournError, IntegrityError, InvalidError, NotFoundError
from adjourn.host import CHECKPOINTS, read_file, resolve_inside
from adjourn.store import Store

SHARED_FOLDER = "tasks"
"""The folder whose contracts everybody sees who works in the workspace."""
FOLDERS = ((SHARED_FOLDER, "task"), (".aex/runs", "run"))
MAX_FILE_BYTES = 10_000_000
MAX_FILES = 2000
MAX_CURSOR = 12
UNTRUSTED = "an untrusted signer"
"""The author of the description of a checkpoint without a trusted signer, or not verified yet."""


def list_tasks(store: Store, root: str, *, limit: int, more: str = "", home: str = "") -> dict[str, Any]:
    """`tasks`: `{name, path, type, goal, tools?}` of contracts, runs and checkpoints, in this order, in at most `limit` bytes.

    Who has its checkpoints in a `home` of its own sees no run. If they do not fit, checkpoints come first, `left` counts those that are missing, and `more` is the cursor of the next answer.
    Raises `InvalidError` for another cursor.
    """
    if more and not (more.isascii() and more.isdecimal() and len(more) < MAX_CURSOR):
        raise InvalidError(
            f"unknown cursor: {more[:40]!r}", "give the `more` of an earlier answer, or leave it out"
        )
    contracts = [
        entry for place, kind in FOLDERS[: 1 if home else None] for entry in _contracts(root, place, kind)
    ]
    made = _checkpoints(store, home or root)
    room = limit - 1000
    if not more and sum(map(shown_size, contracts + made)) <= room:
        return {"tasks": contracts + made}
    found, start = made + contracts, int(more or 0)
    shown: list[dict[str, Any]] = []
    for entry in found[start:]:
        room -= shown_size(entry)
        if room < 0 and shown:
            break
        shown.append(entry)
    stop = start + len(shown)
    left = {"more": str(stop), "left": len(found) - stop} if stop < len(found) else {}
    return {"tasks": shown} | left


def _contracts(root: str, place: str, kind: str) -> list[dict[str, Any]]:
    entries = []
    for name in _names(root, place):
        if not name.endswith(".aex"):
            continue
        path = f"{place}/{name}"
        try:
            _, text = read_contract_file(root, path)
        except AdjournError:
            continue
        layer, _ = from_text(text, path)
        tools = [rule.pattern for rule in layer.allow]
        entry = {"name": layer.name or name.removesuffix(".aex"), "path": path, "type": kind}
        entries.append(entry | ({"goal": layer.goal} if layer.goal else {}) | {"tools": tools})
    return entries


def _checkpoints(store: Store, root: str) -> list[dict[str, Any]]:
    """The checkpoints of the store, and those that only a folder has (git brought them)."""
    goals, untrusted = dict[str, str](), set[str]()
    for name in (ref.removeprefix("checkpoint/") for ref in store.refs("checkpoint/")):
        with suppress(InvalidError):  # one that is broken must not hide the others
            found = checkpoint.find(store, name)
            goals[name] = found.data.description
            if not _is_trusted(found):
                untrusted.add(name)
    for name in _names(root, CHECKPOINTS):
        if name not in goals:
            try:
                goals[name] = folder.read_published(folder.path_of(root, name)).file.description
                untrusted.add(name)
            except AdjournError:
                continue
    return [
        {"name": name, "path": f"{CHECKPOINTS}/{name}/", "type": "checkpoint", "goal": goal}
        | ({"describedBy": UNTRUSTED} if name in untrusted else {})
        for name, goal in sorted(goals.items())
    ]


def _is_trusted(found: checkpoint.TaskCheckpoint) -> bool:
    try:
        return bool(checkpoint.trusted_signer(found))
    except IntegrityError:
        return False


def _names(root: str, place: str) -> list[str]:
    try:
        return sorted(os.listdir(resolve_inside(root, place)))[:MAX_FILES]
    except (OSError, AdjournError):
        return []


def read_contract_file(root: str, path: str, within: str = "") -> tuple[str, str]:
    """Real path and text of an `.aex` file in the workspace, or in a folder `within` it.

    Raises `NotFoundError`, the same for every cause.
    """
    try:
        real = resolve_inside(os.path.join(root, within), os.path.join(os.path.realpath(root), path))
        if not real.endswith(".aex"):
            raise NotFoundError("")
        return real, read_file(real, MAX_FILE_BYTES, os.path.realpath(root)).decode()
    except (AdjournError, OSError, ValueError):
        shown = path[:200]
        raise NotFoundError(f"no contract at {shown!r}", "name an .aex file inside the workspace") from None
