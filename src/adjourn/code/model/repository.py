"""A work tree, the repository that it belongs to, and which paths may be read.

Owns: `CodeRepository`: its root, where its index lives, and paths given by callers. Must never: run git, write anything but the index
folder, or let a path out of the work tree.
"""

from __future__ import annotations

import os
import stat

from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.host import make_folder, read_file, resolve_inside, write_file

FOLDER = ".code-intel"
_IGNORED = b"# Written by adjourn: ignores what can be rebuilt and what belongs to one machine.\n/.gitignore\n/index.*\n/sessions/\n/logs/\n"
_MAX_LINK = 4_096


class CodeRepository:
    """The work tree that contains `path`; `home` is the tree whose folder keeps the index of all its work trees."""

    def __init__(self, path: str = ".") -> None:
        real = os.path.realpath(path)
        if not os.path.isdir(real):
            raise NotFoundError(f"{path} is not a folder", "name a folder of the repository")
        found = _upwards(real)
        self.root = found or real
        self.is_git = found is not None
        self.home = _home(self.root) if found else self.root

    def index_folder(self) -> str:
        """The folder `.code-intel` of the repository."""
        return own_folder(self.home, FOLDER, _IGNORED)

    def relative(self, path: str) -> str:
        """A path relative to the root, with `/`; "" is the root. Raises `RefusedError` if it is outside."""
        if os.path.isabs(path):
            path = os.path.relpath(os.path.realpath(path), self.root)
        real = resolve_inside(self.root, path)
        return "" if real == self.root else os.path.relpath(real, self.root).replace(os.sep, "/")

    def existing(self, path: str) -> str:
        """As `relative`, but raises `NotFoundError` if the path does not exist."""
        relative = self.relative(path)
        if not os.path.exists(self.absolute(relative)):
            raise NotFoundError(
                f"{path} does not exist in the repository", "list the files with search_files"
            )
        return relative

    def absolute(self, relative: str) -> str:
        return os.path.join(self.root, relative) if relative else self.root

    def read(self, relative: str, limit: int) -> bytes:
        """The bytes of a regular file inside the work tree."""
        path = resolve_inside(self.root, relative)
        if os.path.isdir(path):
            raise InvalidError(f"{relative} is a folder", "name a file")
        return read_file(path, limit)


def own_folder(root: str, relative: str, ignored: bytes) -> str:
    """Create adjourn's own folder in a work tree if needed, with a .gitignore of content `ignored`."""
    folder = make_folder(root, relative)
    if not os.path.lexists(os.path.join(folder, ".gitignore")):
        write_file(folder, ".gitignore", ignored)
    return folder


def _upwards(path: str) -> str | None:
    while True:
        if os.path.lexists(os.path.join(path, ".git")):
            return path
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent


def _home(root: str) -> str:
    """The main work tree of a linked one.

    A `.git` file is a claim of whoever wrote it: it counts only where the folder it names points back, as git has it.
    """
    link = os.path.join(root, ".git")
    try:
        if not stat.S_ISREG(os.lstat(link).st_mode):
            return root
        folder = os.path.realpath(os.path.join(root, _line(link).removeprefix("gitdir:").strip()))
        if os.path.realpath(_line(os.path.join(folder, "gitdir"))) != os.path.realpath(link):
            return root
        common = os.path.realpath(os.path.join(folder, _line(os.path.join(folder, "commondir"))))
    except (OSError, AdjournError, UnicodeDecodeError):
        return root
    home = os.path.dirname(common)
    return home if os.path.basename(common) == ".git" and os.path.isdir(common) else root


def _line(path: str) -> str:
    return read_file(path, _MAX_LINK).decode().strip()
