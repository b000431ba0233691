"""What no gated call may touch, whatever the policy says: the store, the checkpoints, the policy itself.

Owns: that list and finding it in a call's arguments; the paths that a text may be, and the places that a path may lead
to. Must never: be taken for a sandbox. A tool that runs programs can reach any file; deny or confirm such tools.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence

PROTECTED = (
    ".aex/adjourn.db", ".aex/checkpoints", ".aex/policy.aex", "aex.policy.aex", "aex.policy.json", ".aex/discipline.json",
)  # fmt: skip
SIGNATURES = "*.signature.json"
"""Of contracts. Touched by nobody where the policy requires them."""
FOLDER = ".aex"
"""Holds the protected ones: its files may be written, itself may not be moved or removed."""
MAX_PATH = 4096
"""No file can be opened by a longer one, but one that is made shorter before."""
MAX_NAMES = 500_000
"""Of one path that are followed. Beyond it nobody knows where it leads."""
_MAX_NAME = 255
COMMAND_KEYS = frozenset(("cmd", "command"))
"""Arguments that hold a command."""
PROGRAM_KEYS = COMMAND_KEYS | {"commands", "script", "code"}
"""Arguments that hold what is run."""
PATCH_KEYS = frozenset(("diff", "patch"))
"""Arguments that name files inside their text."""
_FILE_URL = re.compile(r"file:(?://[^/\\]*)?(?=[/\\])", re.IGNORECASE)
_DROPPED = str.maketrans("\\", "/", "\t\n\r")
"""What a reader of URLs takes for a slash, and what it passes over."""
_NAME = re.compile(r"[^/]+")


def protected_path(
    arguments: object, root: str, also: Sequence[str] = (), working_directory: str = ""
) -> str | None:
    """The protected place that a call's arguments name, if any: as a path, or inside a command line or patch.

    `root` is the workspace's real path, of which relative paths are, or of the `working_directory`; `also` are further
    places in it, relative to it; `*.ending` stands for every file whose name ends so.
    """
    places = (*PROTECTED, *also)
    working_directory = os.path.join(root, working_directory.partition("\0")[0] or root)
    bases = dict.fromkeys((root, working_directory))
    for key, text in _texts(arguments):
        if key in PROGRAM_KEYS or key in PATCH_KEYS:
            folded = text.casefold()
            found = next((place for place in places if place.lstrip("*").casefold() in folded), None)
        else:
            found = _named(text.partition("\0")[0], root, bases, places)
        if found:
            return found
    return None


# --- what a text may mean


def paths_in(text: str) -> Iterable[str]:
    """The paths that a text may be: in a `file:` URL, under the home folder for `~`, or just what it says."""
    if text[:1] == "~":
        return dict.fromkeys((os.path.expanduser(text), text))
    url = _FILE_URL.match(text)
    if url is None:
        return (text,)
    from urllib.parse import unquote  # noqa: PLC0415  # few arguments are URLs

    path = text[url.end() :]
    read = re.split(r"[?#]", path, maxsplit=1)[0].translate(_DROPPED)
    as_written = (path, text) if ".." in path else ()  # another place for who does not know URLs
    return dict.fromkeys((unquote(path).partition("\0")[0], unquote(read).partition("\0")[0], *as_written))


def readings(path: str, base: str) -> Iterable[str]:
    """The real places that a path may lead to from a folder.

    `..` leads back from where a link leads, for the system; for a tool that takes it out of the text before it opens the
    file, from where the link stands. Raises ValueError for what cannot be followed to its end.
    """
    full_path = os.path.join(base, path)
    real = _followed(full_path)
    if "/.." not in full_path:
        return (real,)
    texts = dict.fromkeys((full_path, os.path.join(_followed(base), path)))
    return dict.fromkeys((real, *(_followed(os.path.normpath(text)) for text in texts)))


def _followed(path: str) -> str:
    """What `os.path.realpath` says, in time linear in a path of any length. Raises ValueError for too many names."""
    real = ""
    missing: list[str] = []
    known: dict[str, str | None] = {}
    for count, match in enumerate(_NAME.finditer(path)):
        if count > MAX_NAMES:
            raise ValueError(f"a path of more than {MAX_NAMES} names")
        name, end = match[0], match.end()
        if name == "..":
            real = real if missing else real.rpartition("/")[0]
            del missing[-1:]
        elif missing and name != ".":
            missing.append(name)
        elif name != ".":
            place = f"{real}/{name}"
            target = known[place] if place in known else known.setdefault(place, _target(place))
            if target is None and path.find("/..", end) >= 0:  # there may be a way back to what exists
                missing.append(name)
            elif target is None or target.endswith("/"):
                return os.path.normpath((target or place) + path[end:])
            else:
                real = target
    return "/".join((real, *missing)) or "/"


def _target(place: str) -> str | None:
    """Where one more name leads, with `/` at the end for a link that leads round; None where there is nothing."""
    try:
        if not stat.S_ISLNK(os.lstat(place).st_mode):
            return place
    except (OSError, ValueError):
        return None
    real = os.path.realpath(place).rstrip("/")
    try:
        os.stat(place)
    except OSError as error:
        return f"{real}/" if error.errno == errno.ELOOP else real
    return real


# --- holding it against the places


def _named(text: str, root: str, bases: Iterable[str], places: Sequence[str]) -> str | None:
    for spelling in dict.fromkeys((text, text.strip())):
        for path in dict.fromkeys((*paths_in(spelling), spelling)):
            if not path or len(path) - path.rfind("/") > _MAX_NAME + 1:
                continue  # nothing has so long a name, and none leads back from it
            for base in bases:
                if found := _protected(path, base, root, places):
                    return found
    return None


def _protected(path: str, base: str, root: str, places: Sequence[str]) -> str | None:
    full_path = os.path.join(base, path)
    if base == root and "/" not in path and not os.path.islink(full_path):
        return _held(full_path, root, places)  # a bare name can lead elsewhere only by being a link
    try:
        found = readings(path, base)
    except ValueError:
        return FOLDER
    held = (_held(real, root, places) for real in found if base == root or not _is_prose(real))
    return next(filter(None, held), None)


def _is_prose(real: str) -> bool:
    """Whether it is words, and no file of a working directory that is itself protected."""
    return " " in os.path.basename(real) and not os.path.lexists(real)


def _held(real: str, root: str, places: Sequence[str]) -> str | None:
    """The protected place that a real one is, or is in."""
    if len(real) > MAX_PATH or "\n" in real:  # a text: nothing protected has a line end in its name
        return None
    folded, base = real.casefold(), root.rstrip("/").casefold()
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
