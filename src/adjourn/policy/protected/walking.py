"""The paths that a text may be, and the real places that a path may lead to.

Owns: that. Must never: know what is protected.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable

MAX_NAMES = 500_000
"""Most links of one path that are followed. Beyond that, the target counts as unknown."""
_FILE_URL = re.compile(r"file:(?://[^/\\]*)?(?=[/\\])", re.IGNORECASE)
means_another = re.compile("~|file:", re.IGNORECASE).match
"""Whether a text begins as one that may be another path than just what it says."""
_DROPPED = str.maketrans("\\", "/", "\t\n\r")
"""Characters that a URL parser treats as a slash, and those that it ignores."""
_UP = re.compile(r"(?:^|[/\\])\.\.(?=[/\\]|$)")
_NAME = re.compile(r"[^/]+")


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
    as_written = (path, text) if _UP.search(path) else ()  # another place for who does not know URLs
    return dict.fromkeys((unquote(path).partition("\0")[0], unquote(read).partition("\0")[0], *as_written))


def readings(path: str, base: str, *, is_real: bool = False) -> Iterable[str]:
    """The real places that a path may lead to from a folder; `is_real`: no link leads to that.

    `..` leads back from where a link leads, for the system; for a tool that takes it out of the text before it opens the
    file, from where the link stands. Raises ValueError for what cannot be followed to its end.
    """
    if is_real and ".." not in path:
        top = base.rstrip("/")
        if path[:1] != "/":
            return (_followed(path, top),)
        if path.startswith(f"{top}/"):
            return (_followed(path[len(top) :], top),)
    full_path = os.path.join(base, path)
    real = _followed(full_path)
    if "/.." not in full_path:
        return (real,)
    texts = dict.fromkeys((full_path, os.path.join(_followed(base), path)))
    return dict.fromkeys((real, *(_followed(os.path.normpath(text)) for text in texts)))


def _followed(path: str, real: str = "") -> str:
    """What `os.path.realpath` says of a path, absolute or from a real one, in time linear in its length.

    Raises ValueError for too many names.
    """
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
                rest = path[end:]
                return os.path.normpath((target or place) + rest) if rest else (target or place).rstrip("/")
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
