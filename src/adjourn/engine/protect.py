"""What no gated call may touch, whatever the policy says: the store, the checkpoints, the policy itself.

Owns: that list and finding it in a call's arguments. Must never: be taken for a sandbox. A tool that runs programs can
reach any file; deny or confirm such tools.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

PROTECTED = (
    ".aex/adjourn.db", ".aex/checkpoints", ".aex/policy.aex", "aex.policy.aex", "aex.policy.json", ".aex/discipline.json",
)  # fmt: skip
SIGNATURES = "*.signature.json"
"""Of contracts. Touched by nobody where the policy requires them."""
FOLDER = ".aex"
"""Holds the protected ones: its files may be written, itself may not be moved or removed."""
_COMMAND_KEYS = frozenset(("cmd", "command", "script", "code", "diff", "patch"))
_MAX_PATH = 4096
_FILE_URL = re.compile(r"file:(?://[^/]*)?(?=/)", re.IGNORECASE)


def protected_path(arguments: object, root: str, also: Sequence[str] = ()) -> str | None:
    """The protected place that a call's arguments name, if any: as a path, or inside a command line or patch.

    `root` is the workspace's real path; `also` are further places in it, relative to it; `*.ending` stands for every file
    whose name ends so.
    """
    places = (*PROTECTED, *also)
    for key, text in _texts(arguments):
        path = text.strip()
        if key in _COMMAND_KEYS:
            folded = text.casefold()
            found = next((place for place in places if place.lstrip("*").casefold() in folded), None)
        elif not path or len(path) > _MAX_PATH or "\0" in path or "\n" in path:
            found = None
        else:
            found = _protected(root, as_path(path), places)
        if found:
            return found
    return None


def as_path(text: str) -> str:
    """The path that a text is, or that it is a `file:` URL of."""
    url = _FILE_URL.match(text)
    if url is None:
        return os.path.expanduser(text)
    from urllib.parse import unquote  # noqa: PLC0415  # few arguments are URLs

    return unquote(text[url.end() :]).partition("\0")[0]


def _protected(root: str, path: str, places: Sequence[str]) -> str | None:
    full_path = os.path.join(root, path)
    if "/" in path or os.path.islink(full_path):  # a bare name can lead elsewhere only by being a link
        full_path = os.path.realpath(full_path)
    folded, base = full_path.casefold(), root.rstrip("/").casefold()
    if folded == f"{base}/{FOLDER}":
        return FOLDER
    for place in places:
        if place[0] == "*" and folded.startswith(base + "/") and folded.endswith(place[1:].casefold()):
            return place
        full = f"{base}/{place.casefold()}"
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
                if "/" in str(name) or "." in str(name):  # file.write takes a map from path to content
                    yield key, str(name)
