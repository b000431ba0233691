"""The protected place that a call would touch, found in its arguments however it is spelled there.

A call with effects may name none: as a path, inside a command, in the header of a patch, in SQL that opens files. A tool
that removes or moves, by its name, may not name a folder around one either. A call that reads may name all but the keys.

Owns: which argument is examined in which way. Must never: be taken for a sandbox. A tool that runs programs can reach any
file; deny or confirm such tools.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from time import monotonic_ns

from adjourn.policy import protected
from adjourn.policy.protected import texts
from adjourn.policy.protected.places import FOLDER, KEYS, MAX_PATH, ProtectedPlaces
from adjourn.policy.protected.walking import means_another, paths_in, readings
from adjourn.policy.protected.words import (
    BASE_KEYS,
    COMMAND_KEYS,
    CONTENT_KEYS,
    LINE_KEYS,
    MAX_KEY,
    MAYBE_PATCH_KEYS,
    PATCH_KEYS,
    PROGRAM_KEYS,
    SQL_KEYS,
    TARGET_KEYS,
    WORD_KEYS,
    folded_name,
    is_path_key,
    moves,
    removes,
    words_of,
)

_MAX_NAME = 255
_WILD = frozenset("*?[{")
_KEPT = BASE_KEYS | CONTENT_KEYS
"""Arguments that never name what a removing tool removes."""
_PATCHING = frozenset(("patch", "diff"))


def protected_path(
    arguments: object,
    places: ProtectedPlaces,
    working_directory: str = "",
    *,
    tool: str = "",
    reads: bool = False,
) -> str | None:
    """The protected place that a call of a tool would touch, if any.

    Relative paths are of the workspace, of the `working_directory`, or of what the arguments give as one. `reads`: the tool
    changes nothing (`private_path`).
    """
    if reads:
        return private_path(arguments, places, working_directory)
    return _Search(arguments, places, working_directory, tool).found()


# --- a call that reads


def private_path(arguments: object, places: ProtectedPlaces, working_directory: str = "") -> str | None:
    """The private place that a read-only call would touch. Such a call may name every other protected place."""
    base = working_directory or places.root
    for key, value in _texts(arguments):
        if (
            type(value) is str
            and key not in TARGET_KEYS
            and "\0" not in value
            and means_another(value) is None
            and value == value.strip()
        ):
            path = f"{base}/{value}" if value[:1] != "/" else value
            if (
                key not in CONTENT_KEYS
                and monotonic_ns() >= places.spared.get(path, 0)
                and places.opens_private(path)
            ):
                return places.private(os.path.realpath(path)) or KEYS
            # each private place has a slash in it, but for the settings of a gateway
            is_short = "/" not in value and not places.has_settings
            if key not in COMMAND_KEYS and (is_short or not places.mentions_private(value.casefold())):
                continue
        found = _Search(arguments, places, working_directory, "").of(key, value)
        if found and (places.is_private(found) or key in TARGET_KEYS):
            return found
    return None


# --- a call with effects


class _Search:
    def __init__(self, arguments: object, places: ProtectedPlaces, working_directory: str, tool: str) -> None:
        root = places.root
        self._arguments = arguments
        self._places = places
        self._removes, self._kept, self._patches = _traits(tool)
        self._foreign = "powershell" in tool.casefold()
        self._bases = {root: None}
        if working_directory:
            self._bases[os.path.join(root, working_directory.partition("\0")[0] or root)] = None
        if isinstance(arguments, dict):
            for name, value in arguments.items():
                if type(name) is str and len(name) <= MAX_KEY and folded_name(name) in BASE_KEYS:
                    self._add_base(value)

    def _add_base(self, value: object) -> None:
        """The arguments give a working directory."""
        if isinstance(value, str) and "\0" not in value:
            self._bases[os.path.join(self._places.root, os.path.expanduser(value))] = None

    def found(self) -> str | None:
        return next(filter(None, (self.of(key, value) for key, value in _texts(self._arguments))), None)

    def of(self, key: str, value: str | list[str]) -> str | None:
        """The protected place that one text of the arguments leads to, or a command that is given by its words."""
        return self._words(value) if isinstance(value, list) else self._text(key, value)

    def _words(self, words: list[str]) -> str | None:
        return protected.reached_by_words(words, self._places, self._bases)

    def _text(self, key: str, text: str) -> str | None:
        if key in PROGRAM_KEYS:
            return self._program(key, text)
        if key in PATCH_KEYS or key in MAYBE_PATCH_KEYS or (self._patches and "\n" in text):
            names = texts.patched(text)
            if found := self._paths(names):
                return found
            if key in PATCH_KEYS and not names and (found := self._places.mentioned(text)):
                return found
        elif key in SQL_KEYS and (found := self._paths(texts.opened_by_sql(text))):
            return found
        return self._path(key, text.partition("\0")[0])

    def _program(self, key: str, text: str) -> str | None:
        if key not in LINE_KEYS and (found := self._places.mentioned(text)):
            return found
        return protected.reached(
            text, self._places, self._bases, foreign=self._foreign or key not in LINE_KEYS
        )

    def _paths(self, names: Iterable[str]) -> str | None:
        return next(filter(None, (self._path("path", name.partition("\0")[0]) for name in names)), None)

    def _path(self, key: str, text: str) -> str | None:
        around = self._removes and key not in self._kept
        is_itself = means_another(text) is None and text == text.strip()
        for path in (text,) if is_itself else _spellings(text):
            if (not path and not (around and is_path_key(key))) or len(path) - path.rfind(
                "/"
            ) > _MAX_NAME + 1:
                continue  # nothing has so long a name, and none leads back from it
            for base in self._bases:
                if found := self._held(path, base, around=around):
                    return found
        if _WILD.isdisjoint(text) or "\n" in text or len(text) > MAX_PATH:
            return None
        wild = (is_path_key(key) or self._removes) and key not in CONTENT_KEYS - {"pattern"}
        return self._matched(text) if wild else None

    def _held(self, path: str, base: str, *, around: bool) -> str | None:
        places = self._places
        if base == places.root and "/" not in path and path not in ("", ".", ".."):
            full_path = f"{base.rstrip('/')}/{path}"
            if not os.path.islink(full_path):
                return places.held(full_path)  # a bare name can lead elsewhere only by being a link
        try:
            found = readings(path, base, is_real=base == places.root)
        except ValueError:
            return FOLDER
        for real in found:
            if base != places.root and _is_prose(real):
                continue
            if place := places.held(real) or (places.beneath(real) if around else None):
                return place
        return None

    def _matched(self, text: str) -> str | None:
        """The protected place that a tool may expand a pattern to. A removing tool is assumed to match hidden files, too."""
        found = (
            protected.matched(text, self._places, base, around=self._removes, hidden=self._removes)
            for base in self._bases
        )
        return next(filter(None, found), None)


def _is_prose(real: str) -> bool:
    """Whether a path is only prose: its last name has a blank, and it does not exist."""
    return " " in os.path.basename(real) and not os.path.lexists(real)


@lru_cache(maxsize=1024)
def _traits(tool: str) -> tuple[bool, frozenset[str], bool]:
    """What a tool's name says of it: that it removes things, which arguments never name what it removes, that it applies patches."""
    kept = _KEPT | TARGET_KEYS if moves(tool) else _KEPT
    return removes(tool), kept, not _PATCHING.isdisjoint(words_of(tool))


def _spellings(text: str) -> Iterable[str]:
    """The paths that a text may be, and with blanks around it taken off."""
    return dict.fromkeys(
        path for spelling in (text, text.strip()) for path in (*paths_in(spelling), spelling)
    )


def _texts(arguments: object) -> list[tuple[str, str | list[str]]]:
    """Every text in JSON arguments with its key; keys that look like paths are texts, too.

    A command that is given by its words is a list of them.
    """
    found: list[tuple[str, str | list[str]]] = []
    waiting: list[tuple[str, object]] = [("", arguments)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, str):
            found.append((key, value))
        elif isinstance(value, dict):
            members: list[tuple[str, object]] = []
            has_words = False
            for name, item in value.items():
                text = name if type(name) is str else str(name)
                if "/" in text or "." in text:  # from path to content
                    found.append((key, text))
                folded = folded_name(text) if len(text) <= MAX_KEY else text
                has_words = has_words or folded in WORD_KEYS
                members.append((folded, item))
            waiting += _without_command(members, found) if has_words else members
        elif isinstance(value, list | tuple):
            if key in LINE_KEYS and _is_command(value):
                found.append((key, list(value)))
            if key not in COMMAND_KEYS or not _is_command(value):
                waiting += [(key, item) for item in value]
    return found


def _without_command(
    members: list[tuple[str, object]], found: list[tuple[str, str | list[str]]]
) -> list[tuple[str, object]]:
    """The members of an object that are not part of its command, which is added to `found`."""
    if len({name for name, _ in members}) < len(members):
        return members  # two of its members are one to some reader: each is examined
    words = _words_of(dict(members))
    if not words:
        return members
    found.append(("command", words))
    return [(name, item) for name, item in members if name not in WORD_KEYS and name not in LINE_KEYS]


def _words_of(given: dict[str, object]) -> list[str]:
    """A command that is one word, or a list of words, with the words beside it; empty if there is none."""
    more = next((item for key, item in given.items() if key in WORD_KEYS), None)
    command = next((item for key, item in given.items() if key in LINE_KEYS), None)
    words = [command] if isinstance(command, str) else command
    if (
        isinstance(more, list)
        and isinstance(words, list)
        and _is_command(words)
        and _is_command([*words, *more])
    ):
        return [*words, *more]
    return []


def _is_command(words: object) -> bool:
    """Whether a list is one command's words, rather than several commands."""
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) for word in words):
        return False
    return not any(char in words[0].strip() for char in " \t\n;|&")
