"""Reading and replacing a client's file: whole, through no link, with its permissions kept.

Owns: that. Must never: follow a link, or write over what changed since it was read.
"""

from __future__ import annotations

import os
import stat

from adjourn.errors import ConflictError, InvalidError, NotFoundError, RefusedError
from adjourn.host.workspace import open_regular, remove_file, write_file
from adjourn.setup.jsonc import MAX_BYTES


def read_bytes(path: str, root: str) -> bytes:
    """A file's bytes. Raises `NotFoundError`, `InvalidError`; `RefusedError` for a link on the way through the workspace."""
    check_way(path, root)
    with os.fdopen(open_regular(path, MAX_BYTES), "rb") as file:
        return file.read()


def read_plain(path: str, root: str) -> str:
    """The same as text."""
    try:
        return read_bytes(path, root).decode()
    except UnicodeDecodeError as error:
        raise InvalidError("it is not UTF-8", "save it as UTF-8") from error


def bytes_or_none(path: str, root: str) -> bytes | None:
    """A file's bytes; None when it is not there."""
    try:
        return read_bytes(path, root)
    except NotFoundError:
        return None


def check_way(path: str, root: str) -> None:
    """Refuse a path with a link inside the workspace: a foreign repository could point it anywhere."""
    relative = os.path.relpath(path, root)
    if relative.startswith(".."):
        return
    place = root
    for part in os.path.dirname(relative).split("/"):
        place = os.path.join(place, part) if part else place
        if os.path.lexists(place) and not stat.S_ISDIR(os.lstat(place).st_mode):
            raise RefusedError(
                f"{place} is a link or not a folder", "remove it; adjourn follows no link here"
            )


def replace(path: str, root: str, data: bytes | None, *, expect: bytes | None) -> None:
    """Replace a file's bytes, or remove it (None), if its content is still what is expected. Durable."""
    if bytes_or_none(path, root) != expect:
        raise ConflictError(f"{path} changed while it was edited", "close the client, and try again")
    folder, name = os.path.split(path)
    if data is None:
        remove_file(folder, name)
        return
    os.makedirs(folder, exist_ok=True)
    mode = stat.S_IMODE(os.lstat(path).st_mode) if expect is not None else 0o644
    write_file(folder, name, data, mode)
