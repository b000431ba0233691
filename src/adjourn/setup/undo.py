"""Making the changes of a plan, and taking them back: every file as it was, byte for byte.

    .aex/undo/NUMBER/manifest.json    which files were changed: where, what they hold since, what they held
    .aex/undo/NUMBER/0, 1, …          what they held

Both are written and durable before any file is changed, readable by their owner only (a client's file may hold secrets), and ignored by
git. A file that was changed since is not taken back.

An agent can write in `.aex/undo`. So nothing is restored that is not in the table of clients' files, and nothing without showing it.

Owns: that folder. Must never: lose what a file held.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from adjourn.engine.workspace import create_file, make_folder, read_file, sync_folder, write_file
from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.log.canonical import digest
from adjourn.setup.files import bytes_or_none, check_way, replace
from adjourn.setup.jsonc import MAX_BYTES
from adjourn.setup.places import CLAUDE_HOOKS, CODEX_HOOKS, POLICY, SERVER_FILES, Home
from adjourn.setup.plan import Change

FOLDER = ".aex/undo"
MANIFEST = "manifest.json"
MAX_RUNS = 1000


class Kept(msgspec.Struct, frozen=True, rename="camel"):
    """A file that was changed. `now` is the digest of what it was changed to; `held` names its copy, "" if it was not there."""

    path: str
    now: str
    held: str = ""


class Manifest(msgspec.Struct, frozen=True):
    files: list[Kept]


class Restored(NamedTuple):
    """A file that can be taken back: what it holds, and what it held (None: it was not there)."""

    path: str
    before: bytes | None
    after: bytes | None


class Left(NamedTuple):
    """A file that was changed since it was set up, and where it is as it was before ("": it was not there)."""

    path: str
    copy: str


def make(changes: Iterable[Change], root: str) -> None:
    """Make the changes, all or, when one cannot be made, none."""
    wanted = list(changes)
    for change in wanted:
        check_way(change.path, root)
    number = _keep(wanted, root)
    done: list[Change] = []
    try:
        for change in wanted:
            replace(change.path, root, change.after.encode(), expect=_encoded(change.before))
            done.append(change)
    except (AdjournError, OSError):
        for change in reversed(done):
            replace(change.path, root, _encoded(change.before), expect=change.after.encode())
        _forget(root, number)
        raise


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _keep(changes: list[Change], root: str) -> str:
    folder = make_folder(root, FOLDER)
    os.chmod(folder, 0o700)
    create_file(folder, ".gitignore", b"*\n", 0o600)
    number = str(max(map(int, _numbers(root)), default=0) + 1)
    path = make_folder(root, f"{FOLDER}/{number}")
    kept = []
    for place, change in enumerate(changes):
        if change.before is not None:
            create_file(path, str(place), change.before.encode(), 0o600)
        kept.append(
            Kept(change.path, digest(change.after.encode()), "" if change.before is None else str(place))
        )
    manifest = msgspec.json.format(msgspec.json.encode(Manifest(kept)), indent=2) + b"\n"
    write_file(path, MANIFEST, manifest, mode=0o600)  # whole or not at all: without it nothing was changed
    return number


def _runs(root: str) -> list[str]:
    """The numbers of the runs that can be taken back, newest first. One without a manifest was cut off before it changed anything."""
    return [
        number for number in _numbers(root) if os.path.lexists(os.path.join(root, FOLDER, number, MANIFEST))
    ]


def _numbers(root: str) -> list[str]:
    path = os.path.join(root, FOLDER)
    check_way(os.path.join(path, MANIFEST), root)
    with suppress(FileNotFoundError):
        numbers = [name for name in os.listdir(path) if name.isdecimal() and name.isascii()]
        return sorted(numbers, key=int, reverse=True)[:MAX_RUNS]
    return []


def _forget(root: str, number: str) -> None:
    shutil.rmtree(os.path.join(root, FOLDER, number))
    sync_folder(os.path.join(root, FOLDER))


# --- taking it back


def undoable(root: str, home: Home) -> tuple[list[Restored], list[Left]]:
    """Every file as it was before the first run that has not been taken back, and the files that were changed since.

    Raises `NotFoundError` when nothing was set up, `InvalidError` for a manifest that is not ours.
    """
    runs = _runs(root)
    if not runs:
        raise NotFoundError(
            "nothing was set up here that could be taken back", "`adjourn init` sets clients up"
        )
    known = _known(root, home)
    found: dict[str, Restored] = {}
    left: dict[str, Left] = {}
    for number in runs:
        for kept in _manifest(root, number).files:
            if kept.path not in known or (kept.held and not kept.held.isdecimal()):
                raise InvalidError(
                    f"{FOLDER}/{number} names {kept.path}, which adjourn never changes",
                    "remove that folder: it is not adjourn's",
                )
            if kept.path in left:
                continue
            held = read_file(os.path.join(root, FOLDER, number, kept.held), MAX_BYTES) if kept.held else None
            there = bytes_or_none(kept.path, root)
            now = found[kept.path].after if kept.path in found else there
            if now == held or (now is not None and digest(now) == kept.now):
                found[kept.path] = Restored(kept.path, there, held)
            else:
                found.pop(kept.path, None)
                left[kept.path] = Left(kept.path, f"{FOLDER}/{number}/{kept.held}" if kept.held else "")
    return [one for one in found.values() if one.before != one.after], list(left.values())


def _manifest(root: str, number: str) -> Manifest:
    path = os.path.join(root, FOLDER, number, MANIFEST)
    try:
        return msgspec.json.decode(read_file(path, MAX_BYTES), type=Manifest)
    except msgspec.DecodeError as error:
        raise InvalidError(
            f"{path}: {error}", "restore the files by hand from the copies beside it"
        ) from error


def _known(root: str, home: Home) -> set[str]:
    """The files that a set-up of this workspace may have changed."""
    relative = [*(entry.path for entry in SERVER_FILES), CLAUDE_HOOKS, CODEX_HOOKS, POLICY]
    return {home.claude, *(os.path.join(root, path) for path in relative)}


def take_back(files: Iterable[Restored], root: str, *, keep: bool) -> None:
    """Restore them. What was not there goes, with the folders that were made for it. `keep` the copies for what is left."""
    for one in files:
        replace(one.path, root, one.after, expect=one.before)
        if one.after is None:
            _remove_empty(os.path.dirname(one.path), root)
    if not keep:
        shutil.rmtree(os.path.join(root, FOLDER))
        _remove_empty(os.path.join(root, os.path.dirname(FOLDER)), root)


def _remove_empty(folder: str, root: str) -> None:
    with suppress(OSError):
        while folder.startswith(root + "/"):
            os.rmdir(folder)
            folder = os.path.dirname(folder)
