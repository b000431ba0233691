"""A work tree, the repository that it belongs to, which paths in it may be read, and file names as text.

It runs no git, writes only to the index folder, and lets no path out of the work tree.
"""

from __future__ import annotations

import os
import re

from adjourn.errors import InvalidError, NotFoundError
from adjourn.host.finding import main_of, top_of
from adjourn.host.workspace import make_folder, read_file, resolve_inside, write_file
from adjourn.text.near_words import MAX_KNOWN, did_you_mean

FOLDER = ".code-intel"
_IGNORED = b"# Written by adjourn: ignores what can be rebuilt and what belongs to one machine.\n/.gitignore\n/index.*\n/sessions/\n/logs/\n/context.yml\n/agreements/\n"


class CodeRepository:
    """The work tree that contains `path`; `home` is the tree whose folder keeps the index of all its work trees."""

    def __init__(self, path: str = ".") -> None:
        real = os.path.realpath(path)
        if not os.path.isdir(real):
            raise NotFoundError(f"{path} is not a folder", "name a folder of the repository")
        top = top_of(real)
        if (inside := _bare_above(real, top)) is not None:
            raise InvalidError(
                f"{inside} is a bare git repository: it has no files to work on",
                "make a work tree with `git worktree add`, and name that",
            )
        self.root = top or real
        self.is_git = bool(top)
        self.home = main_of(self.root) or self.root

    def index_folder(self) -> str:
        """The folder `.code-intel` of the repository."""
        return own_folder(self.home, FOLDER, _IGNORED)

    def relative(self, path: str) -> str:
        """A path relative to the root, as text (`names`); "" is the root. Raises `RefusedError` if it is outside."""
        path = native(path)
        if os.path.isabs(path):
            path = os.path.relpath(os.path.realpath(path), self.root)
        real = resolve_inside(self.root, path)
        return "" if real == self.root else shown(os.path.relpath(real, self.root))

    def existing(self, path: str) -> str:
        """As `relative`, but raises `NotFoundError` if the path does not exist."""
        relative = self.relative(path)
        if not os.path.isdir(self.root):
            raise NotFoundError(f"{self.root} no longer exists", "start a server in another work tree")
        if not os.path.exists(self.absolute(relative)):
            raise NotFoundError(
                f"{path} does not exist in the repository",
                did_you_mean(os.path.basename(relative), self._beside(relative)) or "list the files with search_files",
            )
        return relative

    def _beside(self, relative: str) -> list[str]:
        """The names in the folder of a path."""
        try:
            return sorted(map(shown, os.listdir(os.path.dirname(self.absolute(relative)))))[:MAX_KNOWN]
        except OSError:
            return []

    def absolute(self, relative: str) -> str:
        """The path of the operating system."""
        return os.path.join(self.root, native(relative)) if relative else self.root

    def read(self, relative: str, limit: int) -> bytes:
        """The bytes of a regular file inside the work tree."""
        path = resolve_inside(self.root, native(relative))
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


# --- names of files as text

_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def as_text(name: bytes) -> str:
    r"""A name as text. A backslash stays as it is, except where it would be read as `\xNN`; so a folder's text begins those of its files."""
    text = _ESCAPED.sub(rb"\\x5cx\1", name).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda match: "".join(f"\\x{byte:02x}" for byte in match[0].encode()), text)


def as_bytes(name: str) -> bytes:
    """The bytes of a name that `as_text` wrote."""
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), name.encode("utf-8", "replace"))


def shown(path: str) -> str:
    """A path of the operating system, as Python has it, as text."""
    return as_text(os.fsencode(path))


def native(path: str) -> str:
    """The path of the operating system that a text stands for."""
    return os.fsdecode(as_bytes(path)) if "\\" in path else path
