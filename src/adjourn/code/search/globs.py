"""Globs over paths of a repository, as ripgrep reads them.

Owns: `compiled`. Must never: decide what is ignored; ripgrep's own `--glob` would list ignored files, which is why this is here.
"""

from __future__ import annotations

import re

from adjourn.errors import InvalidError

_MAX = 1_000


def compiled(glob: str) -> re.Pattern[str]:
    """A pattern for `fullmatch` on a relative path. A glob without `/` is of the name alone, in any folder.

    `*` and `?` stay in one folder, `**` does not, `[ab]` and `{one,two}` choose. `InvalidError` where brackets are not closed.
    """
    if not glob or len(glob) > _MAX or "\0" in glob:
        raise InvalidError(f"not a glob: {glob[:50]!r}", "give one such as *.py")
    plain = glob.removeprefix("/")
    pattern = "" if "/" in glob else "(?:.*/)?"
    place = depth = 0
    while place < len(plain):
        part, place = _part(plain, place, depth)
        depth += (part == "(?:") - (part == ")" and depth > 0)
        pattern += part
    if depth:
        raise InvalidError(f"the glob {glob!r} has a brace that is not closed", "close it")
    return re.compile(pattern, re.DOTALL)


def _part(glob: str, place: int, depth: int) -> tuple[str, int]:
    """What one element of a glob is as a pattern, and where the next begins."""
    char = glob[place]
    if glob.startswith("**/", place):
        return "(?:.*/)?", place + 3
    if glob.startswith("**", place):
        return ".*", place + 2
    if char == "[":
        close = glob.find("]", place + 2 + glob.startswith("!", place + 1))
        if close < 0:
            raise InvalidError(
                f"the glob {glob!r} has a bracket that is not closed", "close it, or write [[] for it"
            )
        inner = glob[place + 1 : close]
        negated = inner[0] in "!^"
        return (
            f"[{'^' if negated else ''}{re.escape(inner[negated:]).replace(chr(92) + '-', '-')}]",
            close + 1,
        )
    if char == "\\" and place + 1 < len(glob):
        return re.escape(glob[place + 1]), place + 2
    special = {
        "*": "[^/]*",
        "?": "[^/]",
        "{": "(?:",
        "}": ")" if depth else r"\}",
        ",": "|" if depth else ",",
    }
    return special.get(char) or re.escape(char), place + 1
