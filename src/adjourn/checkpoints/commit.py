"""Which commit a workspace is at, so that the next session learns that it has moved since.

Owns: reading that from `.git`. Must never: run git, leave the workspace, or fail: what cannot be told is not told.
"""

from __future__ import annotations

import re
from contextlib import suppress

from adjourn.errors import AdjournError
from adjourn.host import read_inside

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"ref: (refs/[\w./+@-]{1,200})")
_MAX_HEAD, _MAX_PACKED = 4096, 4 * 1024 * 1024
_SHOWN = 12


def commit(root: str) -> str:
    """The commit that is checked out; empty where there is none, or `.git` is not a folder of the workspace."""
    head = _read(root, "HEAD", _MAX_HEAD)
    ref = _REF.fullmatch(head)
    found = (_read(root, ref[1], _MAX_HEAD) or _packed(root, ref[1])) if ref else head
    return found if _HASH.fullmatch(found) else ""


def moved(root: str, written: object) -> list[str]:
    """What is to be said where the workspace is at another commit than the one that was `written` down."""
    if not isinstance(written, str) or not _HASH.fullmatch(written):  # nothing that we wrote
        return []
    now = commit(root)
    if not now or now == written:
        return []
    return [f"git is at {now[:_SHOWN]} now, and was at {written[:_SHOWN]}: look at what came in since"]


def _read(root: str, name: str, limit: int) -> str:
    with suppress(AdjournError, UnicodeDecodeError):
        return read_inside(root, f".git/{name}", limit).decode().strip()
    return ""


def _packed(root: str, ref: str) -> str:
    lines = (line.partition(" ") for line in _read(root, "packed-refs", _MAX_PACKED).splitlines())
    return next((found for found, _, name in lines if name == ref), "")
