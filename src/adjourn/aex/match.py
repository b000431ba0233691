"""Patterns: which tool names a rule names, and how a name is looked up among a thousand rules.

Owns: the alphabet of tool names, the three pattern forms (`*`, `prefix.*`, exact), folding for refusals,
scopes (`tool:glob`) and the compiled `PatternIndex`. Must never: read a document, know about allow or deny, do I/O.

An allow is matched as written. A refusal or a question is matched on *folded* names: lower case, and every
run of `_`, `/`, `-` and `.` taken as one separator, so that `deny network.*` also names `Network/fetch`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

TOOL_NAME_MAX = 128
TOOL_NAME_CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/"
_NONE: list[int] = []
_SEPARATORS = str.maketrans("_/-", "...")


def tool_name_ok(name: object) -> bool:
    """True for a string of 1 to 128 characters of MCP's tool-name alphabet, to which `/` is added."""
    return isinstance(name, str) and 0 < len(name) <= TOOL_NAME_MAX and not name.strip(TOOL_NAME_CHARS)


def fold(name: str) -> str:
    """The spelling under which a refusal looks a name up: `Net__Work/get` and `net.work-get` are one name."""
    folded = name.lower().translate(_SEPARATORS)
    while ".." in folded:
        folded = folded.replace("..", ".")
    return folded


def split_scope(pattern: str) -> tuple[str, str]:
    """`file.read:src/**` is the tool pattern `file.read` and the scope `src/**`; no colon, no scope."""
    tool, _, scope = pattern.partition(":")
    return tool.rstrip(), scope.strip()


def matches(pattern: str, name: str) -> bool:
    """Whether an unscoped pattern names this tool, as written: case and separators count."""
    if pattern.endswith(".*"):
        prefix = pattern[:-2]
        return name == prefix or name.startswith(prefix + ".")
    return pattern in ("*", name)


def matches_folded(pattern: str, name: str) -> bool:
    """Whether a refusal's unscoped pattern names this tool: case and the kind of separator do not count."""
    return matches(fold_pattern(pattern), fold(name))


def fold_pattern(pattern: str) -> str:
    """A tool pattern in folded spelling; its final `.*` stays a wildcard."""
    if pattern.endswith(".*"):
        return fold(pattern[:-2]) + ".*"
    return fold(pattern)


def never_matches(pattern: str) -> str:
    """Why no tool name can ever match this pattern; empty when one can."""
    tool, scope = split_scope(pattern)
    if ":" in pattern and not scope:
        return "there is no scope after the colon"
    if tool == "*":
        return ""
    stem = tool.removesuffix(".*")
    if not tool:
        return "it names no tool"
    if "*" in stem:
        return "`*` is a wildcard only alone or after a final dot"
    if other := stem.strip(TOOL_NAME_CHARS)[:1]:
        return f"no tool name contains {'a blank' if other.isspace() else f'`{other}`'}"
    if len(stem) > TOOL_NAME_MAX:
        return f"it is longer than the {TOOL_NAME_MAX} characters of a tool name"
    return ""


def glob_path(glob: str, path: str) -> bool:
    """Whether a `/`-separated relative path is in the scope: `**` spans folders, `*` and `?` stay inside one."""
    globs, parts = glob.split("/"), path.split("/")
    at = here = 0
    retry: tuple[int, int] | None = None
    while here < len(parts):
        if at < len(globs) and globs[at] == "**":
            retry = (at, here)
            at += 1
        elif at < len(globs) and glob_text(globs[at], parts[here]):
            at, here = at + 1, here + 1
        elif retry:
            at, here = retry[0] + 1, retry[1] + 1
            retry = (retry[0], here)
        else:
            return False
    return all(rest == "**" for rest in globs[at:])


def glob_text(glob: str, text: str) -> bool:
    """Whether the whole text matches: `*` is any run of characters, `?` is one. For commands and file names.

    Linear in the text: what stands between two stars is taken where it is first found.
    """
    pieces = _pieces(glob)
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return len(text) == len(glob) and first.at(text, 0)
    end = len(text) - last.length
    at = first.length
    if at > end or not first.at(text, 0) or not last.at(text, end):
        return False
    for piece in pieces[1:-1]:
        found = piece.find(text, at, end)
        if found < 0:
            return False
        at = found + piece.length
    return True


class _Literals:
    """The text between two stars of a glob; the parts between its `?` with their offsets, the longest one first."""

    __slots__ = ("length", "parts")

    def __init__(self, piece: str) -> None:
        self.length = len(piece)
        self.parts: list[tuple[int, str]] = []
        at = 0
        for part in piece.split("?"):
            if part:
                self.parts.append((at, part))
            at += len(part) + 1
        self.parts.sort(key=lambda part: -len(part[1]))

    def at(self, text: str, start: int) -> bool:
        """Whether it occurs at `start`; the text is long enough."""
        return all(text.startswith(part, start + offset) for offset, part in self.parts)

    def find(self, text: str, start: int, end: int) -> int:
        """The first position at which it occurs between two offsets, or -1."""
        if not self.parts:
            return start if start + self.length <= end else -1
        offset, longest = self.parts[0]
        rest = self.length - offset - len(longest)
        at = text.find(longest, start + offset, end - rest)
        while at >= 0:
            if self.at(text, at - offset):
                return at - offset
            at = text.find(longest, at + 1, end - rest)
        return -1


@lru_cache(maxsize=4096)
def _pieces(glob: str) -> tuple[_Literals, ...]:
    return tuple(_Literals(piece) for piece in glob.split("*"))


class PatternIndex:
    """Tool patterns compiled for look-up: the positions of those that name a tool, without a scan.

    A look-up costs one dictionary probe, and one for each dot of the name up to the deepest prefix.
    """

    __slots__ = ("_depth", "_exact", "_prefix", "_star")

    def __init__(self, patterns: Iterable[tuple[int, str]]) -> None:
        self._exact: dict[str, list[int]] = {}
        self._prefix: dict[str, list[int]] = {}
        self._star: list[int] = []
        for position, pattern in patterns:
            if pattern == "*":
                self._star.append(position)
            elif pattern.endswith(".*"):
                self._prefix.setdefault(pattern[:-2], []).append(position)
            else:
                self._exact.setdefault(pattern, []).append(position)
        self._depth = max((prefix.count(".") + 1 for prefix in self._prefix), default=0)

    def __bool__(self) -> bool:
        return bool(self._exact or self._prefix or self._star)

    def all(self, name: str) -> list[int]:
        """Positions of every pattern that names the tool, in ascending order."""
        found = self._star + self._exact.get(name, _NONE)
        if self._prefix:
            found += self._prefix.get(name, ())
            dot = name.find(".")
            for _ in range(self._depth):
                if dot < 0:
                    break
                found += self._prefix.get(name[:dot], ())
                dot = name.find(".", dot + 1)
        if len(found) > 1:
            found.sort()
        return found

    def first(self, name: str) -> int | None:
        """Position of the first pattern that names the tool."""
        found = self.all(name)
        return found[0] if found else None
