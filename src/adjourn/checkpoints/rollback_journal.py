"""The journal of a rollback: what is under way, so that a rollback that was killed is finished by the next one.

    .aex/rollback/journal.json   the two snapshots, the page, and what is to be done; sealed (HMAC-SHA256 under the user's secret)
    .aex/rollback/files/         content that is not at its place yet

The folder exists only while a rollback is under way, or after one was killed.

Owns: this folder. Must never: believe a journal that another user wrote, or let two rollbacks run at once.
"""

from __future__ import annotations

import hmac
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from adjourn.errors import InvalidError, NotFoundError, RefusedError
from adjourn.host import create_file, keys, locked, make_folder, read_file, sync_folder, write_file

FOLDER = ".aex/rollback"
_NAME, _FILES = "journal.json", "files"
_MAX_BYTES = 64 * 1024


class RollbackJournal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A rollback under way: of which task, to which page (its id), at which position of the history it began, and whether the page is
    to be made active.

    `commit` is the snapshot to restore ("": no files), `before` the one made just before, as a page keeps it.
    """

    task: str
    page: str
    seq: int
    state: bool
    commit: str = ""
    before: dict[str, Any] = {}
    seal: str = ""


def read(root: str) -> RollbackJournal | None:
    """The journal of a rollback that was killed, or is under way; None if there is none. Raises `InvalidError`, `RefusedError`."""
    path = os.path.join(root, FOLDER, _NAME)
    try:
        found = msgspec.json.decode(read_file(path, _MAX_BYTES, root), type=RollbackJournal)
    except NotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidError(f"{path} is not the journal of a rollback", f"delete {FOLDER}") from error
    if not hmac.compare_digest(found.seal.encode(), _seal(root, found).encode()):
        raise RefusedError(f"{path} was not written by you, here", f"delete {FOLDER}")
    return found


@contextmanager
def alone(root: str) -> Iterator[None]:
    """Keep other rollbacks of a workspace out. Raises `StoreError` when one is under way."""
    with locked(make_folder(root, FOLDER)):
        try:
            yield
        finally:
            if not os.path.lexists(os.path.join(root, FOLDER, _NAME)):
                _remove(root)


def write(root: str, journal: RollbackJournal) -> None:
    """Write the journal, durably, before anything is changed."""
    folder = os.path.join(root, FOLDER)
    create_file(folder, ".gitignore", b"*\n", 0o600)
    sealed = msgspec.structs.replace(journal, seal=_seal(root, journal))
    write_file(folder, _NAME, msgspec.json.encode(sealed), 0o600)


def staging(root: str) -> str:
    """An empty folder for files that are not at their place yet."""
    shutil.rmtree(os.path.join(root, FOLDER, _FILES), ignore_errors=True)
    return make_folder(root, f"{FOLDER}/{_FILES}")


def finish(root: str) -> None:
    """Remove the journal: everything is done, or nothing was changed."""
    folder = os.path.join(root, FOLDER)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, _NAME))
        sync_folder(folder)


def _remove(root: str) -> None:
    shutil.rmtree(os.path.join(root, FOLDER), ignore_errors=True)
    with suppress(OSError):
        os.rmdir(os.path.join(root, os.path.dirname(FOLDER)))  # stays unless it is empty


def _seal(root: str, journal: RollbackJournal) -> str:
    plain = msgspec.structs.replace(journal, seal="")
    text = msgspec.json.encode(["adjourn/rollback/1", os.path.realpath(root), plain])
    return hmac.digest(keys.secret(), text, "sha256").hex()
