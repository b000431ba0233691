"""What no gated call may touch, whatever the policy says: the store, the checkpoints, the policy itself.

Owns: that list and finding it in a call's arguments. Must never: be taken for a sandbox. A tool that runs programs can
reach any file; deny or confirm such tools.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

PROTECTED = (".aex/adjourn.db", ".aex/checkpoints", ".aex/policy.aex", "aex.policy.aex")
_COMMAND_KEYS = frozenset(("cmd", "command", "script", "code", "diff", "patch"))
_MAX_VALUES = 2000
_MAX_PATH = 4096


def protected_path(arguments: object, root: str) -> str | None:
    """The protected place that a call's arguments name, if any: as a path, or inside a command line or patch.

    `root` is the workspace's real path.
    """
    for count, (key, text) in enumerate(_texts(arguments, "", 0)):
        if count > _MAX_VALUES:
            return None
        if key in _COMMAND_KEYS:
            folded = text.casefold()
            found = next((place for place in PROTECTED if place in folded), None)
        elif not text or len(text) > _MAX_PATH or "\0" in text or "\n" in text:
            found = None
        else:
            found = _protected(root, os.path.expanduser(text.removeprefix("file://")))
        if found:
            return found
    return None


def _protected(root: str, path: str) -> str | None:
    path = os.path.join(root, path)
    if "/" in path[len(root) + 1 :] or os.path.islink(
        path
    ):  # a bare name can lead elsewhere only by being a link
        path = os.path.realpath(path)
    folded = path.casefold()
    if not folded.startswith(root.casefold()):
        return None
    for place in PROTECTED:
        full = f"{root}/{place}".casefold()
        if folded == full or folded.startswith((full + "/", full + "-")):
            return place
    return None


def _texts(value: object, key: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif depth < 20 and isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, str(name).casefold(), depth + 1)
            if isinstance(name, str) and "/" in name:
                yield key, name  # file.write takes a map of paths
    elif depth < 20 and isinstance(value, list):
        for item in value:
            yield from _texts(item, key, depth + 1)
