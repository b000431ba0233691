"""What no gated call may touch, whatever the policy says: the store, the checkpoints, the policy itself.

Owns: that list and finding it in a call's arguments. Must never: be taken for a sandbox. A tool that runs programs can
reach any file; deny or confirm such tools.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

PROTECTED = (".aex/adjourn.db", ".aex/checkpoints", ".aex/policy.aex", "aex.policy.aex")
FOLDER = ".aex"
"""Holds the protected ones: its files may be written, itself may not be moved or removed."""
_COMMAND_KEYS = frozenset(("cmd", "command", "script", "code", "diff", "patch"))
_MAX_PATH = 4096


def protected_path(arguments: object, root: str, also: Sequence[str] = ()) -> str | None:
    """The protected place that a call's arguments name, if any: as a path, or inside a command line or patch.

    `root` is the workspace's real path; `also` are further places in it, relative to it.
    """
    places = (*PROTECTED, *also)
    for key, text in _texts(arguments):
        if key in _COMMAND_KEYS:
            folded = text.casefold()
            found = next((place for place in places if place.casefold() in folded), None)
        elif not text or len(text) > _MAX_PATH or "\0" in text or "\n" in text:
            found = None
        else:
            found = _protected(root, os.path.expanduser(text.removeprefix("file://")), places)
        if found:
            return found
    return None


def _protected(root: str, path: str, places: Sequence[str]) -> str | None:
    path = os.path.join(root, path)
    if "/" in path[len(root) + 1 :] or os.path.islink(
        path
    ):  # a bare name can lead elsewhere only by being a link
        path = os.path.realpath(path)
    folded = path.casefold()
    if not folded.startswith(root.casefold()):
        return None
    if folded == f"{root}/{FOLDER}".casefold():
        return FOLDER
    for place in places:
        full = f"{root}/{place}".casefold()
        if folded == full or folded.startswith((full + "/", full + "-")):  # -wal and -shm belong to the store
            return place
    return None


def _texts(arguments: object) -> Iterator[tuple[str, str]]:
    """Every text in JSON arguments with the key it stands under; keys that look like paths are texts, too."""
    stack: list[tuple[str, object]] = [("", arguments)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, list):
            stack += [(key, item) for item in value]
        elif isinstance(value, dict):
            for name, item in value.items():
                stack.append((str(name).casefold(), item))
                if "/" in str(name):  # file.write takes a map from path to content
                    yield key, str(name)
