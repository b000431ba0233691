"""The protected place that a call would touch, found in its arguments however it is spelled there.

A call with effects may name none: as a path, inside a command, in the header of a patch, in SQL that opens files. A tool
that removes or moves, by its name, may not name a folder around one either. A call that reads may name all but the keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from stat import S_ISDIR, S_ISLNK
from time import monotonic_ns
from typing import NamedTuple

from adjourn.policy.protected import texts
from adjourn.policy.protected.places import (
    FOLDER,
    MAX_PATH,
    MAX_SPARED,
    SPARED_NS,
    Identity,
    ProtectedPlaces,
    identity_of,
)
from adjourn.policy.protected.reach import alternatives, linked, matched
from adjourn.policy.protected.texts import means_another, paths_in, readings
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
MAX_PAIRS = 20_000
"""Most paths that are looked for in folders of the arguments. A call with more may reach anything."""
MAX_BASES = 64
"""Most folders in which a command may run."""
_MAX_REMEMBERED = 20
"""Most texts of a call whose answer is reused."""
_WILD = re.compile(r"[*?[{]|[@+!|]\(|\|").search
_DATA = CONTENT_KEYS | {
    "comment", "commitmessage", "filetext", "instructions", "newstr", "newtext", "note", "oldstr", "oldtext", "question", "reason",
    "replacement", "search", "searchquery", "searchterm", "subject", "summary", "task", "thought", "title",
}  # fmt: skip
"""Arguments with text that is not taken apart: it may speak of any file."""
_KEPT = BASE_KEYS | CONTENT_KEYS
"""Arguments that never name what a removing tool removes."""
_PATCHING = frozenset(("patch", "diff"))
_GREPPING = frozenset(("ack", "grep", "rg", "ripgrep", "search"))
_OF_NAMES = frozenset(("directories", "file", "filenames", "files", "find", "folder", "glob", "list", "ls"))
"""Words of tools that find files by their names, with a pattern of those."""
_OF_TEXTS = frozenset(("code", "content", "contents", "in", "text"))
_LIMITS = frozenset(
    ("fileglob", "filepattern", "filter", "glob", "globs", "include", "includepattern", "includes", "type")
)
"""Arguments with patterns for files in any folder below."""
_READ_AS_TEXT = PROGRAM_KEYS | PATCH_KEYS
_TAKEN_APART = _READ_AS_TEXT | MAYBE_PATCH_KEYS | SQL_KEYS | TARGET_KEYS
_JSON = frozenset('{["')
_EXCEPT = ("exclude", "ignore")
Texts = list[tuple[str, str | tuple[str, ...]]]
"""Every text of a call with its key. A command that is given by its words is a tuple of them."""


def protected_path(
    arguments: object, places: ProtectedPlaces, working_directory: str = "", *, tool: str = "", reads: bool = False
) -> str | None:
    """The protected place that a call of a tool would touch, if any.

    Relative paths are of the workspace, of the `working_directory`, or of any folder that the arguments name. `reads`: the tool
    changes nothing. It may name every place but the private ones.
    """
    given = _texts(arguments)
    call = (working_directory, tool, *given) if reads and len(given) < _MAX_REMEMBERED else ()
    if call and monotonic_ns() < places.spared.get(call, 0):
        return None
    places.is_current = False
    is_plain = False
    if working_directory in ("", places.root):
        is_plain = (_opens_plain_files if reads else _names_plain_places)(given, places, _traits(tool))
    place = None if is_plain else _Search(places, working_directory, tool, reads=reads).found(given)
    if call and place is None and (is_plain or max(map(len, call), default=0) < MAX_PATH):
        # reuse the answer to a call that reaches no private place: but not for long, since a link can be exchanged after any look
        if len(places.spared) >= MAX_SPARED:
            places.spared.clear()
        places.spared[call] = monotonic_ns() + SPARED_NS
    return place


class _Traits(NamedTuple):
    """What a tool's name says of it: what it does, which arguments never name what it removes, and which are only text."""

    removes: bool
    patches: bool
    greps: bool
    kept: frozenset[str]
    data: frozenset[str]


@lru_cache(maxsize=1024)
def _traits(tool: str) -> _Traits:
    words = words_of(tool)
    of_names = not _OF_NAMES.isdisjoint(words) and _OF_TEXTS.isdisjoint(words)
    return _Traits(
        removes(tool),
        not _PATCHING.isdisjoint(words),
        not _GREPPING.isdisjoint(words) and not of_names,
        _KEPT | TARGET_KEYS if moves(tool) else _KEPT,
        _DATA - {"pattern"} if of_names else _DATA,
    )


def _opens_plain_files(given: Texts, places: ProtectedPlaces, traits: _Traits) -> bool:
    """Whether the texts of a call that reads name nothing but files that are no keys: no search can find more in them."""
    for key, text in given:
        if key in _TAKEN_APART or type(text) is not str or "SEARCH" in text:
            return False
        if key in traits.data:
            if "/" in text:
                return False
        elif (
            not texts.is_plain(text)
            or ".." in text
            or "*" in text
            or "?" in text
            or text[-1] in "/."
            or len(text) > _MAX_NAME
        ):
            return False
        else:
            path = text if text[:1] == "/" else f"{places.root.rstrip('/')}/{text}"
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                if places.mentions_private(path.casefold()):
                    return False
            else:
                if S_ISDIR(status.st_mode) or places.private_of((status.st_dev, status.st_ino)):
                    return False
    return True


def _names_plain_places(given: Texts, places: ProtectedPlaces, traits: _Traits) -> bool:
    """Whether the texts of a call with effects lead, through no link, to what is neither protected nor a folder: no search can find more."""
    if traits.removes or traits.patches:
        return False
    for key, text in given:
        if key in _TAKEN_APART or key in BASE_KEYS or type(text) is not str or "SEARCH" in text:
            return False
        is_data = key in traits.data
        if not texts.is_plain(text):
            if not is_data or "\0" in text or means_another(text) or text.strip() != text:
                return False
            if "\n" in text and "/.." not in text:
                continue  # no name has a line end
        if _WILD(text) and (not is_data or is_path_key(key) or key == "pattern"):
            return False
        if not _leads_to_plain_place(text, places, is_data=is_data):
            return False
    return True


_is_spelled_out = re.compile(r"(?!\.\.?(?:/|$))[^/]+(?:/(?!\.\.?(?:/|$))[^/]+)*").fullmatch
"""Whether a relative path has a name between all of its slashes, and none of them leads back."""


def _leads_to_plain_place(text: str, places: ProtectedPlaces, *, is_data: bool) -> bool:
    """Whether a text names a place in the workspace that no link stands before, and that is neither protected nor, unless it is only
    text, a folder.
    """
    top = places.root.rstrip("/")
    path = text[len(top) + 1 :] if text.startswith(f"{top}/") else text
    if len(path) > _MAX_NAME or not _is_spelled_out(path):
        return False
    step, mode = top, 0
    for name in path.split("/"):
        step = f"{step}/{name}"
        try:
            mode = os.lstat(step).st_mode
        except (OSError, ValueError):
            mode = 0
            break
        if S_ISLNK(mode):
            return False
    return not (S_ISDIR(mode) and not is_data) and not places.held(f"{top}/{path}")


class _Search:
    def __init__(self, places: ProtectedPlaces, working_directory: str, tool: str, *, reads: bool) -> None:
        self._places = places
        self._reads = reads
        self._traits = _traits(tool)
        self._foreign = "powershell" in tool.casefold()
        self._removes = self._traits.removes and not reads
        self._limits = _LIMITS if tool == "Grep" else frozenset[str]()
        self._bases = [places.root]
        if working_directory:
            self._bases.append(os.path.join(places.root, working_directory.partition("\0")[0] or places.root))
        self._own = len(self._bases)
        self._folders: set[Identity | None] = set()
        """Identities of the folders that names were found to be of."""
        self._names: list[tuple[str, str]] = []
        self._are_patterns = False
        self._spoken = 0
        """How many of the names are only text."""

    def found(self, given: Texts) -> str | None:
        """The protected place that the texts of a call name."""
        for key, text in given:
            if key in BASE_KEYS and type(text) is str and "\0" not in text:
                joined = (os.path.join(self._places.root, path) for path in paths_in(text))
                self._bases += (base for base in joined if base not in self._bases[-MAX_BASES:])
        try:
            for key, text in given:
                if type(text) is str and key not in _READ_AS_TEXT and texts.is_plain(text):
                    self._names.append((key, text))
                    self._spoken += key in self._traits.data
                elif place := self._text(key, text) if isinstance(text, str) else self._words(text):
                    return place
            return self._named() or (self._above(given) if self._reads and self._traits.greps else None)
        except ValueError:  # too many of something
            return FOLDER

    def _named(self) -> str | None:
        """The place that a name leads to from a folder: the workspace, the working directory, any that the call names."""
        pairs, data = 0, self._traits.data if self._reads else frozenset[str]()
        for at, base in enumerate(self._bases):  # it grows meanwhile
            is_there = at < self._own or os.path.isdir(base)
            for key, name in self._names:
                if at >= self._own:
                    if name[:1] == "/" or key in data or (not is_there and ".." not in name):
                        continue
                    pairs += 1
                    if pairs > MAX_PAIRS:
                        raise ValueError("too many names in too many folders")
                if place := self._name(key, name, base):
                    return place
        return next(filter(None, self._below_patterns()), None) if self._are_patterns else None

    def _below_patterns(self) -> Iterator[str | None]:
        """The places that names lead to from a folder that a pattern stands for."""
        names = [
            (key, name)
            for key, name in self._names
            if name and key not in self._traits.data and key not in _LIMITS and not key.startswith(_EXCEPT)
        ]
        patterns = [
            (key, name) for key, name in names if _WILD(name) and (key in BASE_KEYS or self._is_pattern(key, name))
        ]
        if len({key for key, _ in names}) > 1 and len(patterns) * len(names) * len(self._bases) > MAX_PAIRS:
            raise ValueError("too many names in too many folders")
        for (folder_key, folder), (key, name), base in product(patterns, names, self._bases):
            if key != folder_key and name[0] != "/":
                yield self._expanded("path", f"{folder}/{name}", base)

    # --- a text: the names in it, and what it runs

    def _text(self, key: str, text: str) -> str | None:
        from adjourn.policy.protected.commands import reached

        places, names = self._places, self._names
        if key in PROGRAM_KEYS:
            self._check_bases()
            place = places.mentioned(text) if key not in LINE_KEYS else None
            foreign = self._foreign or key not in LINE_KEYS
            return self._run(place or reached(text, places, self._bases, foreign=foreign), text)
        if key in SQL_KEYS:
            self._add("path", texts.opened_by_sql(text))
        elif (place := self._patched(key, text)) is not None:
            return place
        if "\n" in text and key in self._traits.data and "/.." not in text:
            return None  # no name has a line end, and none is taken back
        if key not in self._traits.data and len(text) <= texts.MAX_TEXT:
            is_list = is_path_key(key) or key in BASE_KEYS or key in TARGET_KEYS or self._speaks_of_keys(text)
            if self._reads or "\n" not in text:
                separators = texts.LISTS if is_list or texts.is_path_list(text) else ""
            else:  # the content of a Dockerfile, too, has a name that looks like that of a path
                separators = "\n" if is_list else ""
            self._add(key, [text], separators)
        elif not self._reads or self._speaks_of_keys(text):
            text = text.partition("\0")[0]
            if (stripped := text.strip()) != text or means_another(text):
                names += ((key, path) for path in (*paths_in(text), *paths_in(stripped)))
            names.append((key, text))
            self._spoken += 1
        return None

    def _check_bases(self) -> None:
        if len(self._bases) > MAX_BASES:
            raise ValueError(f"a command that may run in more than {MAX_BASES} folders")

    def _patched(self, key: str, text: str) -> str | None:
        """The names in a patch are added; the place that one without names mentions."""
        is_patch = key in PATCH_KEYS or key in MAYBE_PATCH_KEYS or ("\n" in text and self._traits.patches)
        if not is_patch and ("SEARCH" not in text or key in CONTENT_KEYS):
            return None
        patched = texts.patched(text)
        self._add("path", patched)
        return self._seen(self._places.mentioned(text)) if key in PATCH_KEYS and not patched else None

    def _add(self, key: str, collected: list[str], separators: str = "") -> None:
        names = (name for text in collected for name in texts.names_in(text.partition("\0")[0], separators))
        self._names += ((key, name) for name in names)

    def _speaks_of_keys(self, text: str) -> bool:
        is_long = "/" in text or self._places.has_settings  # each private place has a slash in it, but for settings
        return self._reads and is_long and self._places.mentions_private(text.casefold()) is not None

    def _words(self, words: tuple[str, ...]) -> str | None:
        from adjourn.policy.protected.commands import reached_by_words

        self._check_bases()
        return self._run(reached_by_words(words, self._places, self._bases), " ".join(words))

    def _run(self, place: str | None, text: str) -> str | None:
        return place if self._seen(place) or (place and self._speaks_of_keys(text)) else None

    def _seen(self, place: str | None) -> str | None:
        """The place, unless the call may name it: it only reads."""
        return place if not self._reads or self._places.is_private(place or "") else None

    # --- a name

    def _name(self, key: str, name: str, base: str) -> str | None:
        around = self._removes and key not in self._traits.kept
        if len(name) > _MAX_NAME and len(name) - name.rfind("/") > _MAX_NAME + 1:
            return None  # nothing has so long a name, and none leads back from it
        if not name and not (around and is_path_key(key)):
            return None
        if self._reads and key not in TARGET_KEYS:
            place = self._private(key, name, base, _joined(base, name))
        else:
            place = self._held(name, base, around=around)
            if not place and key not in self._traits.data and len(self._names) > self._spoken + 1:
                full_path = _joined(base, name)
                self._starts_from(full_path, *identity_of(full_path))
        if place or not _WILD(name):
            return place
        self._are_patterns = self._are_patterns or len(self._names) > self._spoken + 1
        return self._expanded(key, name, base)

    def _starts_from(self, path: str, identity: Identity | None, is_folder: bool) -> None:
        """Names may be of the folder that a name leads to."""
        is_new = identity not in self._folders and path.rstrip("/").removesuffix("/.") != self._places.root
        if is_folder and is_new:
            self._folders.add(identity)
            self._bases.append(path)

    def _private(self, key: str, name: str, base: str, full_path: str) -> str | None:
        """The private place that a name leads to, for the system or by its text."""
        if key not in self._traits.data:
            place, identity, is_folder = self._places.opened(full_path)
            self._starts_from(full_path, identity, is_folder)
            if place or (identity is not None and "/.." not in full_path):
                return place
        if "/.." in full_path or len(full_path) > MAX_PATH or full_path.endswith(("/", "/.")):
            for real in readings(name, base):
                if place := self._places.private(real) or self._places.opened(real)[0]:
                    return place
        elif self._places.mentions_private(full_path.casefold()):
            return self._places.private(os.path.normpath(full_path))
        return None

    def _held(self, name: str, base: str, *, around: bool) -> str | None:
        places = self._places
        if base == places.root and "/" not in name and name not in ("", ".", ".."):
            full_path = _joined(base, name)
            if not os.path.islink(full_path):
                return places.held(full_path)  # a bare name can lead elsewhere only by being a link
        for real in readings(name, base, is_real=base == places.root):
            if base != places.root and " " in os.path.basename(real) and not os.path.lexists(real):
                continue
            if place := places.held(real) or (places.beneath(real) if around else None):
                return place
        return None

    def _is_pattern(self, key: str, name: str) -> bool:
        """Whether a tool may expand what an argument of this name says."""
        if "\n" in name or len(name) > MAX_PATH or key.startswith(_EXCEPT) or name[0] == "!":
            return False
        if self._reads:
            return key not in self._traits.data
        return (is_path_key(key) or self._removes) and key not in CONTENT_KEYS - {"pattern"}

    def _expanded(self, key: str, name: str, base: str) -> str | None:
        """The place that a tool may expand a pattern to. One that reads or removes is assumed to match hidden files, too."""
        if not self._is_pattern(key, name):
            return None
        private, hidden = self._reads and key not in TARGET_KEYS, self._removes or self._reads
        is_whole = self._reads and base == self._places.root and not name.strip("*?/.")
        for pattern in alternatives(f"**/{name}" if key in _LIMITS and "/" not in name else name):
            ways = {(base, pattern)}
            if ".." in pattern or ".." in base:  # led back from where links lead, and by its text
                ways.add(("/", os.path.normpath(os.path.join(base, pattern))))
            for folder, glob in ways:
                for only in () if is_whole else {private, True}:
                    shown = hidden or only
                    around = self._removes and not only
                    if place := matched(glob, self._places, folder, around=around, hidden=shown, private=only):
                        return place
                if place := linked(glob, self._places, folder):
                    return place
        return None

    def _above(self, given: Texts) -> str | None:
        """The private place beneath a folder in whose files a tool looks for text, unless it looks in few of them."""
        if any(key in self._limits and text and text[0] != "!" for key, text in given):
            return None
        folders = {*self._folders, *(identity_of(base)[0] for base in self._bases[1 : self._own])}
        folders.discard(identity_of(self._places.root)[0])
        return next(filter(None, map(self._places.around_private, folders)), None)


def _joined(base: str, name: str) -> str:
    return name if name[:1] == "/" else f"{base.rstrip('/')}/{name}"


def _texts(arguments: object) -> Texts:
    """Every text in JSON arguments, and in texts that are JSON, with its key; keys that look like paths are texts, too.

    A command that is given by its words is a list of them.
    """
    collected: Texts = []
    waiting: list[tuple[str, object]] = [("", arguments)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, str):
            collected.append((key, value))
            if value.lstrip()[:1] in _JSON and key not in CONTENT_KEYS:
                waiting.append((key, texts.json_in(value)))
        elif isinstance(value, dict):
            members: list[tuple[str, object]] = []
            has_words = False
            for name, item in value.items():
                text = name if type(name) is str else str(name)
                if "/" in text or "." in text:  # from path to content
                    collected.append((key, text))
                folded = folded_name(text) if len(text) <= MAX_KEY else text
                has_words = has_words or folded in WORD_KEYS
                members.append((folded, item))
            waiting += _without_command(members, collected) if has_words else members
        elif isinstance(value, list | tuple):
            if key in LINE_KEYS and _is_command(value):
                collected.append((key, tuple(value)))
            if key not in COMMAND_KEYS or not _is_command(value):
                waiting += [(key, item) for item in value]
    return collected


def _without_command(members: list[tuple[str, object]], texts: Texts) -> list[tuple[str, object]]:
    """The members of an object that are not part of its command, which is added to `found`."""
    if len({name for name, _ in members}) < len(members):
        return members  # two of its members are one to some reader: each is examined
    words = _words_of(dict(members))
    if not words:
        return members
    texts.append(("command", tuple(words)))
    return [(name, item) for name, item in members if name not in WORD_KEYS and name not in LINE_KEYS]


def _words_of(given: dict[str, object]) -> list[str]:
    """A command that is one word, or a list of words, with the words beside it; empty if there is none."""
    more = next((item for key, item in given.items() if key in WORD_KEYS), None)
    command = next((item for key, item in given.items() if key in LINE_KEYS), None)
    words = [command] if isinstance(command, str) else command
    if isinstance(more, list) and isinstance(words, list) and _is_command(words) and _is_command([*words, *more]):
        return [*words, *more]
    return []


def _is_command(words: object) -> bool:
    """Whether a list is one command's words, rather than several commands."""
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) for word in words):
        return False
    return not any(char in words[0].strip() for char in " \t\n;|&")
