"""The folders that a client has opened for its servers (MCP roots).

A call may name a folder outside of the server's own repository only if it is in one of these. A client without roots may name any.

Owns: that rule, and reading what a client answers. Must never: ask a client about a folder of the server's own repository.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from adjourn.code.model.names import native
from adjourn.errors import RefusedError
from adjourn.host import top_of

KEY = "roots"
"""What our one question is called where a client answers it by repeating its call."""
METHOD = "roots/list"
_MAX_ROOTS = 1_000

ClientRoots = Callable[[], list[str] | None]
"""Asks a client for its folders; None if it has no roots. Raises `RootsNeededError`."""


class RootsNeededError(Exception):
    """The client has to repeat its call with its roots: in its protocol a server sends no requests."""


class _Root(msgspec.Struct):
    uri: str


class _Roots(msgspec.Struct):
    roots: list[_Root]


def no_roots() -> list[str] | None:
    return None


def folders_of(answer: Any) -> list[str]:
    """The folders in a client's answer, as real paths; none if it is malformed."""
    try:
        listed = msgspec.convert(answer, _Roots).roots[:_MAX_ROOTS]
    except msgspec.ValidationError:
        return []
    parts = [urlsplit(root.uri) for root in listed]
    paths = [unquote(one.path, errors="surrogateescape") for one in parts if one.scheme == "file"]
    return [os.path.realpath(path) for path in paths if os.path.isabs(path) and "\0" not in path]


def check_folder(home: str, path: str, roots: ClientRoots) -> str:
    """A folder that a call names, relative to the server's folder `home`. Raises `RefusedError`, `RootsNeededError`."""
    full = os.path.realpath(os.path.join(home, native(path)))
    if "\0" in path or _is_inside(full, top_of(home) or home):
        return path
    opened = roots()
    if opened is None or any(_is_inside(full, root) for root in opened):
        return path
    raise RefusedError(
        f"{path} is outside of the folders that the client has opened",
        "open the folder in the client, or start a server there",
    )


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
