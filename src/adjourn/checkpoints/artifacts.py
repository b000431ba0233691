"""What the files held that a page lists, so that the next session learns which of them are others by now.

Owns: their digests, bounded, and comparing them. Must never: leave the workspace, or change a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import msgspec

from adjourn.checkpoints.page import Artifact
from adjourn.errors import AdjournError
from adjourn.host import read_inside, resolve_inside
from adjourn.log import digest

MAX_HELD = 16 * 1024 * 1024
"""Bytes that are read of all files of a page together. One that there is no room for is not kept in mind."""
_SHOWN = 10


class FileDigest(msgspec.Struct, frozen=True):
    """What a file held."""

    size: int
    sha256: str


def held(root: str, artifacts: Iterable[Artifact]) -> dict[str, Any]:
    """What each file in the workspace holds, by its path on the page, as JSON."""
    found: dict[str, Any] = {}
    room = MAX_HELD
    for artifact in artifacts:
        try:
            data = read_inside(root, artifact.path, room)
        except AdjournError:  # no file, too large, or outside
            continue
        found[artifact.path] = {"size": len(data), "sha256": digest(data)}
        room -= len(data)
    return found


def changed(root: str, written: Any) -> list[str]:
    """What is to be said of the files that `held` told of: which hold something else since, and which are gone."""
    try:
        files = msgspec.convert(written, dict[str, FileDigest])
    except msgspec.ValidationError:  # nothing that we wrote
        return []
    others: list[str] = []
    gone: list[str] = []
    room = MAX_HELD
    for path, was in files.items():
        room -= was.size
        if room < 0:
            break
        try:
            real = resolve_inside(root, path)
            if not os.path.lexists(real):
                gone.append(path)
            elif digest(read_inside(root, path, was.size)) != was.sha256:
                others.append(path)
        except AdjournError:  # larger, no file any more, or a link that leads out
            others.append(path)
    told = (("changed", others), ("gone", gone))
    return [f"{what} since the page was written: {_listed(paths)}" for what, paths in told if paths]


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more
