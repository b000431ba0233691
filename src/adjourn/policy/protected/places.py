"""Protected places: the store, the checkpoints, the policy itself, and the user's keys. No policy can permit a call to touch them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from stat import S_ISDIR

from adjourn.host import folders

PROTECTED = (
    ".aex/adjourn.db", ".aex/checkpoints", ".aex/policy.aex", "aex.policy.aex", "aex.policy.json", ".aex/discipline.json",
    ".aex/undo", ".aex/rollback", ".aex/spaces", "adjourn.toml",
)  # fmt: skip
ANYWHERE = (".aex/policy.aex", "aex.policy.aex", "aex.policy.json", ".aex/adjourn.db")
"""What would make a workspace of a folder below this one, with rules or a budget of its own."""
SIGNATURES = "*.signature.json"
"""Signature files of contracts. Protected if the policy requires signatures."""
FOLDER = ".aex"
"""The folder that contains protected places: its other files may be written, but it may not be moved or removed."""
KEYS = "the folder of your keys"
SOCKET = "the folder of the socket that hooks are answered over"
SETTINGS = "the settings of the gateway, or a file with a secret that they name"
MAX_PATH = 4096
"""Longest path that can be opened directly. A longer one has to be shortened before."""
_MAX_KEPT_FILES = 1000
_URL = re.compile(r"/[a-z+]+:/")
"""Matches how an address looks that was taken for a path."""
_ALONE = re.compile(r"(?<![\w.*?\]})-])\.aex/?(?![\w./\\*?-])")
"""Matches the folder itself, not a file in it, and not a longer name that ends with this one."""
_REMOVING = re.compile(r"\b(?:rm|remove|rename|replace|move|mv|unlink|delete|erase|trash|wipe|shred)")
SPARED_NS = 10_000_000
"""How long the answer that a call opens no key is reused, in nanoseconds."""
MAX_SPARED = 256
_OF_CONFIG = ("keys", "heads", "settings.toml")
"""The protected part of the configuration folder, if the workspace is inside that folder."""

Identity = tuple[int, int]
"""A file's device and inode."""


class ProtectedPlaces:
    """The protected places of one workspace. Paths are compared with them ignoring case."""

    def __init__(self, root: str, also: tuple[str, ...], private: tuple[tuple[str, str], ...], keys: str) -> None:
        """`also` are further places, relative to the workspace or absolute; `private` those that may not even be read; `keys` is
        the folder of the private keys.
        """
        self.root = root
        self._base = root.rstrip("/").casefold()
        names = (*PROTECTED, *also)
        self._endings = {name[1:].casefold(): name for name in names if name[0] == "*"}
        self._endings |= {f"/{name}": name for name in (*ANYWHERE, FOLDER)}
        self._ends = tuple(self._endings)
        self.paths = {name: os.path.join(root, name) for name in (FOLDER, *names) if name[0] != "*"}
        """Of what lies in the workspace, or belongs to it."""
        self._full = [(name, path.casefold()) for name, path in self.paths.items() if name != FOLDER]
        self._where_private = private
        self._private = [(name, path.casefold()) for name, path in private]
        self._keys = keys
        self._settings = tuple(path for name, path in self._private if name == SETTINGS)
        self._own = [path for name, path in private if name == SETTINGS]
        self.has_settings = bool(self._own)
        """Whether settings of a gateway are among the private places, which have no folder of their own."""
        self._begin = (f"{self._base}/{FOLDER}", *(path for _, path in (*self._full, *self._private)))
        home = os.path.expanduser("~").rstrip("/").casefold() + "/"
        spelled = [(name, path.removeprefix(home) if home != "/" else path) for name, path in self._private]
        files = {os.path.basename(path) for path in self._settings}  # they may be named from any folder
        named = "|".join(re.escape(path) for path in (*(path for _, path in spelled), *sorted(files)))
        self.mentions_private = re.compile(named).search
        """Whether a text without case mentions a private place in its usual spelling."""
        self._needles = [(name, name.lstrip("*").casefold()) for name in names] + spelled
        self._identities: dict[Identity, tuple[str, str]] = {}
        self._changed: tuple[object, ...] = ()
        self._ancestors: dict[Identity | None, str] = {}
        self.is_current = False
        """Whether the content of the private places was looked at for this call."""
        self.spared: dict[object, int] = {}
        """Calls that read, were checked recently and reach no private place, and until when the answer is valid."""

    def held(self, real: str) -> str | None:
        """The protected place that contains a real path, or is it."""
        if len(real) > MAX_PATH or "\n" in real:  # a text: nothing protected has a line end in its name
            return None
        folded = real.casefold()
        if self._settings and folded.startswith(self._settings) and (place := self.private(real)):
            return place
        if folded.endswith(self._ends) and folded.startswith(self._base + "/"):
            relative = folded[len(self._base) :]
            if not _URL.match(relative):
                return next(name for ending, name in self._endings.items() if relative.endswith(ending))
        if not folded.startswith(self._begin):
            return None
        for name, path in self._full:
            if folded == path or folded.startswith((path + "/", path + "-")):  # -wal and -shm belong to the store
                return name
        return self.private(real)

    def private(self, real: str) -> str | None:
        """The private place (not even readable) that contains a real path, or is it."""
        folded = real.casefold()
        for name, path in self._private:
            if folded == path or folded.startswith(path + "/"):
                return name
        return None

    def beneath(self, real: str) -> str | None:
        """The protected place that would be removed with the folder at a real path."""
        folded = real.casefold().rstrip("/") + "/"
        if f"{self._base}/{FOLDER}".startswith(folded):
            return FOLDER
        return next((name for name, path in (*self._full, *self._private) if path.startswith(folded)), None)

    def is_private(self, name: str) -> bool:
        """Whether the place of this name must not be read either: the keys, the socket, the gateway's settings."""
        return name in (KEYS, SOCKET, SETTINGS)

    def all_paths(self, *, private: bool = False) -> Iterator[tuple[str, str]]:
        """Every protected place that has a path, with that path; or the private ones."""
        if not private:
            yield from self.paths.items()
        yield from self._where_private

    def mentioned(self, text: str) -> str | None:
        """The protected place that a text mentions in its usual spelling."""
        folded = text.casefold()
        for name, needle in self._needles:
            if needle in folded:
                return name
        return FOLDER if FOLDER in folded and _ALONE.search(folded) and _REMOVING.search(folded) else None

    def opened(self, path: str) -> tuple[str | None, Identity | None, bool]:
        """The private place that opening a path would open, whatever links lead there; what it would open, and if that is a folder."""
        identity, is_folder = identity_of(path)
        return self.private_of(identity) if identity else None, identity, is_folder

    def private_of(self, identity: Identity) -> str | None:
        """The private place that a file of this device and inode is in."""
        place = self._known().get(identity)
        return place and place[0]

    def around_private(self, folder: Identity | None) -> str | None:
        """The private place somewhere below a folder."""
        self._known()
        return self._ancestors.get(folder) if folder else None

    def names_in(self, place: str) -> Iterator[str]:
        """The names of what is known to be in a private place."""
        return (file for name, file in self._known().values() if name == place)

    def _known(self) -> dict[Identity, tuple[str, str]]:
        """What is in the private places, with the folders themselves: place and name by identity; read again after a change."""
        if self.is_current:
            return self._identities
        self.is_current = True
        changed = (
            _changed(self._keys),
            _changed(os.path.dirname(self._keys)),
            *map(identity_of, self._own),  # settings are replaced by other files of their name
        )
        if changed != self._changed:
            self._identities = dict(_inside([(KEYS, self._keys), *self._where_private]))
            above = ((name, folder) for name, path in self._where_private for folder in _folders_above(path))
            self._ancestors = {identity_of(folder)[0]: name for name, folder in above}
            self._changed = changed
        return self._identities


def _folders_above(path: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) != "/":
        yield path
    yield path


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def identity_of(path: str) -> tuple[Identity | None, bool]:
    """Device and inode of what a path leads to, and whether that is a folder."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None, False
    return (status.st_dev, status.st_ino), S_ISDIR(status.st_mode)


def _inside(places: Iterable[tuple[str, str]]) -> Iterator[tuple[Identity, tuple[str, str]]]:
    """The identities of places and of their content, up to a limit, each with its place and its name."""
    count = 0
    for name, place in places:
        paths = (os.path.join(parent, file) for parent, _, files in os.walk(place) for file in (".", *files))
        for path in (place, *islice(paths, max(0, _MAX_KEPT_FILES - count))):
            count += 1
            if (identity := identity_of(path)[0]) is not None:
                yield identity, (name, os.path.basename(os.path.normpath(path)))


def places_of(root: str, also: tuple[str, ...] = (), secret: tuple[str, ...] = ()) -> ProtectedPlaces:
    """The protected places of a workspace, given its real path; made once for the same environment.

    `secret` are the settings of a gateway and the files with secrets that they name, absolute.
    """
    return _made(root, also, secret, (folders.config(), folders.standby(), folders.account()))


@lru_cache(maxsize=64)
def _made(root: str, also: tuple[str, ...], secret: tuple[str, ...], own: tuple[str, str, str]) -> ProtectedPlaces:
    config, standby, account = own
    private = {path: SETTINGS for file in secret for path in (os.path.normpath(file), os.path.realpath(file))}
    for name, folder in ((KEYS, config), (KEYS, account), (SOCKET, standby)):
        full = os.path.normpath(os.path.join(root, folder))
        around = f"{root}/".startswith(os.path.realpath(full).rstrip("/") + "/")
        for path in [os.path.join(full, part) for part in _OF_CONFIG] if around else [full]:
            private |= {path: name, os.path.realpath(path): name}
    keys = os.path.join(os.path.normpath(os.path.join(root, config)), "keys")
    return ProtectedPlaces(root, also, tuple((name, path) for path, name in private.items()), keys)
