"""What adjourn leaves in a workspace whose set-up is undone: the history, checkpoints and their pages. Deletes it when a person agrees."""

from __future__ import annotations

import glob
import os
import shutil
from contextlib import suppress

from adjourn.checkpoints.page_writer import IGNORED as PAGES_IGNORED
from adjourn.host.workspace_store import default_store
from adjourn.setup.places import bytes_or_none, check_way
from adjourn.setup.planning import IGNORED_FILES

_PLACES = (
    ".aex/adjourn.db*", ".aex/checkpoints", ".aex/rollback", "tmp/checkpoint*.md", "tmp/.checkpoint*", "output/*/checkpoints",
    ".code-intel",
)  # fmt: skip
"""Patterns of what adjourn alone writes. What a person edits (policies, contracts, `memory/MEMORY.md`) is not among them."""
_IGNORING = {".aex/.gitignore": IGNORED_FILES, "tmp/.gitignore": PAGES_IGNORED}


def remains(root: str) -> list[str]:
    """The patterns, relative to the workspace, of which there is something. A store with a long path is beside the keys."""
    store = default_store(root)
    beside = [] if store.startswith(os.path.join(root, "")) else [f"{glob.escape(store)}*"]
    return [pattern for pattern in (*_PLACES, *beside) if _matching(pattern, root)]


def delete_command(patterns: list[str], root: str) -> str:
    """The command by which a person deletes these."""
    ignoring = [name for name in _IGNORING if _is_ours(name, root)]
    return f"rm -r {' '.join([*patterns, *ignoring])}"


def delete(patterns: list[str], root: str) -> None:
    """Delete what matches, then the files that kept it out of git, then empty folders. Raises `OSError`, `RefusedError`."""
    paths = [os.path.join(root, path) for pattern in patterns for path in _matching(pattern, root)]
    for path in paths:
        check_way(path, root)
    for path in paths:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    if not remains(root):
        ignoring = [os.path.join(root, name) for name in _IGNORING if _is_ours(name, root)]
        for path in ignoring:
            os.unlink(path)
        paths += ignoring
    for folder in {os.path.dirname(path) for path in paths}:
        _remove_if_empty(folder, root)


def _matching(pattern: str, root: str) -> list[str]:
    return sorted(glob.glob(pattern, root_dir=root, include_hidden=True))


def _is_ours(name: str, root: str) -> bool:
    return bytes_or_none(os.path.join(root, name), root) == _IGNORING[name].encode()


def _remove_if_empty(folder: str, root: str) -> None:
    with suppress(OSError):
        while folder.startswith(os.path.join(root, "")):
            os.rmdir(folder)
            folder = os.path.dirname(folder)
