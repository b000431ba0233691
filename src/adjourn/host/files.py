"""Opening a file through no link.

Owns: `open_plain`. Must never: leave the workspace by a link, wait for a pipe or a device.
"""

from __future__ import annotations

import os

_PLAIN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


_STEP = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW


def relative_inside(path: str, root: str) -> str:
    """The path relative to the workspace `root`, by its text alone; "" for one that leads out of it, or for the root itself."""
    relative = os.path.relpath(path, root)
    return "" if relative in (os.curdir, os.pardir) or relative.startswith("../") else relative


def open_plain(path: str, root: str) -> int:
    """A read handle on a file, of whatever kind; inside the workspace `root` through no link. Raises `OSError`, `ValueError`."""
    relative = relative_inside(path, root) if root else ""
    if not relative:
        return os.open(path, _PLAIN)
    *steps, name = relative.split("/")
    folder = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        for step in steps:
            beneath = os.open(step, _STEP, dir_fd=folder)
            os.close(folder)
            folder = beneath
        return os.open(name, _PLAIN | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)
