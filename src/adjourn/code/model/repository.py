"""A work tree, the repository that it belongs to, and which paths may be read.

Owns: `CodeRepository`: its root, where its index lives, and paths given by callers. Must never: run git, write anything but the index
folder, or let a path out of the work tree.
"""

from __future__ import annotations

import os

from adjourn.code.model import names
from adjourn.errors import InvalidError, NotFoundError
from adjourn.host import main_of, make_folder, read_file, resolve_inside, top_of, write_file

FOLDER = ".code-intel"
_IGNORED = b"# Written by adjourn: ignores what can be rebuilt and what belongs to one machine.\n/.gitignore\n/index.*\n/sessions/\n/logs/\n"


class CodeRepository:
    """The work tree that contains `path`; `home` is the tree whose folder keeps the index of all its work trees."""

    def __init__(self, path: str = ".") -> None:
        real = os.path.realpath(path)
        if not os.path.isdir(real):
            raise NotFoundError(f"{path} is not a folder", "name a folder of the repository")
        found = top_of(real)
        if (inside := _bare_above(real, found)) is not None:
            raise InvalidError(
                f"{inside} is a bare git repository: it has no files to work on",
                "make a work tree with `git worktree add`, and name that",
            )
        self.root = found or real
        self.is_git = bool(found)
        self.home = main_of(self.root) or self.root

    def index_folder(self) -> str:
        """The folder `.code-intel` of the repository."""
        return own_folder(self.home, FOLDER, _IGNORED)

    def relative(self, path: str) -> str:
        """A path relative to the root, as text (`names`); "" is the root. Raises `RefusedError` if it is outside."""
        path = names.native(path)
        if os.path.isabs(path):
            path = os.path.relpath(os.path.realpath(path), self.root)
        real = resolve_inside(self.root, path)
        return "" if real == self.root else names.shown(os.path.relpath(real, self.root))

    def existing(self, path: str) -> str:
        """As `relative`, but raises `NotFoundError` if the path does not exist."""
        relative = self.relative(path)
        if not os.path.isdir(self.root):
            raise NotFoundError(f"{self.root} no longer exists", "start a server in another work tree")
        if not os.path.exists(self.absolute(relative)):
            raise NotFoundError(
                f"{path} does not exist in the repository", "list the files with search_files"
            )
        return relative

    def absolute(self, relative: str) -> str:
        """The path of the operating system."""
        return os.path.join(self.root, names.native(relative)) if relative else self.root

    def read(self, relative: str, limit: int) -> bytes:
        """The bytes of a regular file inside the work tree."""
        path = resolve_inside(self.root, names.native(relative))
        if os.path.isdir(path):
            raise InvalidError(f"{relative} is a folder", "name a file")
        return read_file(path, limit)


def _bare_above(folder: str, top: str) -> str | None:
    """The bare repository that a folder is in; None where a work tree is nearer."""
    while folder != top:
        if all(os.path.exists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return None


def own_folder(root: str, relative: str, ignored: bytes) -> str:
    """Create adjourn's own folder in a work tree if needed, with a .gitignore of content `ignored`."""
    folder = make_folder(root, relative)
    if not os.path.lexists(os.path.join(folder, ".gitignore")):
        write_file(folder, ".gitignore", ignored)
    return folder
