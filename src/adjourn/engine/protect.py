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
    """The protected place that a call's arguments name, if any: as a path, or inside a command line or patch."""
    real_root = os.path.realpath(root)
    places = [os.path.join(real_root, place).casefold() for place in PROTECTED]
    for count, (key, text) in enumerate(_texts(arguments, "", 0)):
        if count > _MAX_VALUES:
            return None
        if key in _COMMAND_KEYS or "\n" in text:
            folded = text.casefold() if key in _COMMAND_KEYS else ""
            for place in PROTECTED:
                if place in folded:
                    return place
            continue
        if not text or len(text) > _MAX_PATH or "\0" in text:
            continue
        path = text.removeprefix("file://")
        real = os.path.realpath(os.path.join(real_root, os.path.expanduser(path))).casefold()
        for place, shown in zip(places, PROTECTED, strict=True):
            if real == place or real.startswith((place + "/", place + "-")):
                return shown
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
