"""What the words of a command reach from a folder: protected places that they name, that are below what they name, or that `find` finds."""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from adjourn.policy.protected import texts
from adjourn.policy.protected.places import FOLDER, MAX_PATH, PROTECTED, ProtectedPlaces
from adjourn.policy.protected.texts import paths_in, readings
from adjourn.policy.protected.words import UNREAD
from adjourn.policy.shell.syntax import FOREIGN, HARMLESS, HERE, UNKNOWN, UNSET, ShellWord
from adjourn.policy.shell.tables import TABLES, name_of, only_reads

_MAX_GLOB = 256
"""Longest pattern for one name, in characters."""
MAX_FILLED = 2000
"""Most files that a pattern is filled in with; one that matches more may reach anything."""
_WILDCARD = re.compile(r"[*?[{]")
_OF_PROCESS = re.compile("/(?:cwd|root|fd)(?:/|$)")
_DOUBLED = re.compile(r"/(?:\.?/)+")
_FILLED = str.maketrans({HARMLESS: "0", UNSET: None})
_BRACES = re.compile(r"\{([^{}]*)\}")
_GROUPED = frozenset("{([")
_GROUP = re.compile(r"[@?*+!]\([^()]*\)|\([^()|]*\|[^()]*\)")
_CLASS = re.compile(r"\[[^\]/]*\[[:.=][^/]*?[:.=]\][^\]/]*\]")
_MAX_ALTERNATIVES = 500
_MAX_LISTED = 1000


class Reach(NamedTuple):
    """The places, and the folder that words are read in; `hidden`: patterns match names that start with a dot."""

    places: ProtectedPlaces
    base: str
    hidden: bool = False

    def from_folder(self, folder: str) -> Reach:
        return self._replace(base=os.path.join(self.base, folder))

    def is_inside(self) -> bool:
        """Whether the folder itself is that of protected places."""
        return os.path.basename(os.path.realpath(self.base)) == FOLDER

    def around(self, words: Iterable[ShellWord]) -> str | None:
        """The protected place that a word names, or that is below what it names."""
        return next((place for word in words if (place := self._named(word, around=True))), None)

    def named(self, words: Iterable[ShellWord]) -> str | None:
        """The protected place that a word, or the value of an option, names."""
        return next((place for word in words for value in _values(word) if (place := self._named(value))), None)

    def private(self, words: Iterable[ShellWord]) -> str | None:
        """The private place that a word names."""
        values = (value for word in words for value in _values(word))
        return next(
            (place for value in values if (place := self._named(value)) and self.places.is_private(place)), None
        )

    def written_by_option(self, words: Sequence[ShellWord]) -> str | None:
        """The files that an option of a reading program makes it write or run."""
        named: list[ShellWord] = []
        for at, word in enumerate(words):
            option, _, value = word.text.partition("=")
            if option in ("-o", "--output", "--pre") or option.startswith("--output-"):
                named += [ShellWord(value)] if value else words[at + 1 : at + 2]
        return self.named(named)

    def spoken_of(self, words: Iterable[ShellWord], bodies: Iterable[str] = ()) -> str | None:
        """The protected place that an unknown program may reach: named by a word, or mentioned in any text."""
        words, bodies = list(words), list(bodies)
        if self.is_inside():
            texts_ = [word.text for word in words] + bodies
            if place := next(
                (name for name in PROTECTED for text in texts_ if name.removeprefix(f"{FOLDER}/") in text), None
            ):
                return place
        if place := self.named(words):
            return place
        for text in (*(word.text for word in words), *bodies):
            if place := mentioned(text, self.places):
                return place
        return self.named(ShellWord(name.partition("\0")[0]) for body in bodies for name in texts.patched(body))

    def _named(self, word: ShellWord, *, around: bool = False) -> str | None:
        text = word.text.translate(_FILLED).replace(HERE, self.base)
        if not text or "\n" in text or UNKNOWN in text or FOREIGN in text:
            return None
        if text.startswith("/proc/") and _OF_PROCESS.search(text):
            return FOLDER
        if len(text) > MAX_PATH:  # a text, or a pattern that nobody writes
            return FOLDER if word.wild and " " not in text else None
        if word.wild:
            place = matched(text, self.places, self.base, around=around, hidden=self.hidden)
            return place or self._filled(text, around=around)
        try:
            for path in paths_in(text):
                for real in readings(path, self.base, is_real=self.base == self.places.root):
                    if place := self.places.held(real) or (self.places.beneath(real) if around else None):
                        return place
        except (OSError, ValueError):
            return FOLDER
        return None

    def _filled(self, pattern: str, *, around: bool) -> str | None:
        """The protected place that one of the files leads to which a pattern matches now."""
        paths = glob.iglob(
            os.path.join(glob.escape(self.base), os.path.expanduser(pattern)), include_hidden=self.hidden
        )
        for count, path in enumerate(paths):
            if count > MAX_FILLED:
                return FOLDER
            is_link = around and os.path.islink(path)  # the link itself goes
            real = (
                os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
                if is_link
                else os.path.realpath(path)
            )
            if place := self.places.held(real) or (self.places.beneath(real) if around and not is_link else None):
                return place
        return None


def mentioned(text: str, places: ProtectedPlaces) -> str | None:
    """The protected place that a text mentions, with either kind of slash."""
    plain = _DOUBLED.sub("/", text.replace("\\", "/"))
    return places.mentioned(text) or (places.mentioned(plain) if plain != text else None)


def matched(
    pattern: str,
    places: ProtectedPlaces,
    base: str,
    *,
    around: bool = False,
    hidden: bool = False,
    private: bool = False,
) -> str | None:
    """The place that a shell would expand a pattern to, or to something in it; with `around`, or one beneath what it expands to.

    `hidden`: wildcards also match names that start with a dot; `private`: only those places. `**` matches any number of folders.
    """
    pattern = os.path.expanduser(pattern)
    wildcard = _WILDCARD.search(pattern)
    end = pattern.rfind("/", 0, wildcard.start() if wildcard else None) + 1
    folder = os.path.join(base, pattern[:end])
    if private:
        place, identity, _ = places.opened(folder)
        if not (place or places.around_private(identity)):
            return None
    globs = _parts(f"{os.path.realpath(folder)}/{pattern[end:]}".replace("[^", "[!"))
    for name, path in places.all_paths(private=private):
        at, ends_before = _matched_to(globs, _parts(path), hidden=hidden)
        inside = at and len(globs) not in at
        if inside and (name == FOLDER or ("**" in globs and not _may_be_in(globs[-1], places.names_in(name)))):
            continue
        if (at or (around and ends_before)) and os.path.lexists(path):
            return name
    return None


def linked(pattern: str, places: ProtectedPlaces, base: str) -> str | None:
    """The private place to which a link leads that a pattern matches. Looks at `_MAX_LISTED` entries of folders, and behind no `**`."""
    room = _MAX_LISTED
    reached = [(os.path.join(base, "/" if pattern[:1] == "/" else ""), False)]
    for part_glob in filter(None, pattern.split("/")):
        if part_glob == "**":
            return None
        folders, reached = reached, []
        for folder, is_link in folders:
            if not _WILDCARD.search(part_glob):
                path = os.path.join(folder, part_glob)
                reached.append((path, is_link or os.path.islink(path)))
                continue
            with suppress(OSError, ValueError), os.scandir(folder) as entries:
                for entry in itertools.islice(entries, room):
                    room -= 1
                    if glob_matches(part_glob, entry.name):
                        reached.append((entry.path, is_link or entry.is_symlink()))
    paths = (path for path, is_link in reached if is_link and os.path.lexists(path))
    return next(filter(None, (places.private(os.path.realpath(path)) for path in paths)), None)


def _matched_to(globs: list[str], parts: list[str], *, hidden: bool) -> tuple[set[int], bool]:
    """How much of a pattern may match a path (empty: it cannot), and whether the pattern may match a folder around it."""
    at, ends_before = _with_folders({0}, globs), False
    for part in parts:
        ends_before = ends_before or len(globs) in at
        following = set[int]()
        for here in at - {len(globs)}:
            if globs[here] != "**" and glob_matches(globs[here], part, hidden=hidden):
                following.add(here + 1)
            elif globs[here] == "**" and (hidden or part[:1] != "."):
                following.add(here)
        at = _with_folders(following, globs)
    return at, ends_before


def _with_folders(at: set[int], globs: list[str]) -> set[int]:
    """Also the positions behind a `**`, which may match no folder."""
    for here, part_glob in enumerate(globs):
        if here in at and part_glob == "**":
            at.add(here + 1)
    return at


def _may_be_in(glob: str, names: Iterable[str]) -> bool:
    return not glob.strip("*.") or any(glob_matches(glob, name) for name in names)


def alternatives(pattern: str) -> Iterator[str]:
    """The patterns that one with braces stands for; what else some readers expand becomes `*`. Raises `ValueError` for too many."""
    if _GROUPED.isdisjoint(pattern):
        yield pattern
        return
    waiting, count = [_GROUP.sub("*", _CLASS.sub("?", pattern))], 0
    while waiting:
        text = waiting.pop()
        if count > _MAX_ALTERNATIVES:
            raise ValueError(f"a pattern of more than {_MAX_ALTERNATIVES} alternatives")
        if braces := _BRACES.search(text):
            count += braces[1].count(",") + 1
            choices = braces[1].split(",") if "," in braces[1] else ["*" if ".." in braces[1] else braces[1]]
            waiting += [text[: braces.start()] + choice + text[braces.end() :] for choice in choices]
        else:
            yield text


def _values(word: ShellWord) -> Iterable[ShellWord]:
    """A word; of an option, the text after `=` or after its letter."""
    if word.text[:1] != "-":
        yield word
    elif len(word.text) > 2:
        yield ShellWord(word.text[2:], word.wild)
    if ":" in word.text and "://" not in word.text:
        yield from (ShellWord(text, word.wild) for text in word.text.split(":"))
    if "=" in word.text:
        yield ShellWord(word.text.partition("=")[2], word.wild)


def glob_matches(glob: str, part: str, *, hidden: bool = True) -> bool:
    """Whether a pattern matches a name, in any case of letters; one that is too long to check may."""
    if len(glob) > _MAX_GLOB:
        return True  # it may, and checking takes long
    glob, part = glob.casefold(), part.casefold()
    if not _WILDCARD.search(glob):
        return glob == part
    return fnmatch.fnmatchcase(part, glob) and (hidden or part[:1] != "." or glob[:1] in (".", "["))


def _parts(path: str) -> list[str]:
    return [part for part in os.path.normpath(path).split("/") if part]


# --- what `find` does with the files that it comes upon

_RUNS = ("-exec", "-execdir", "-ok", "-okdir")


def found_by(
    reach: Reach,
    shell_words: Sequence[ShellWord],
    run: Callable[[Sequence[ShellWord]], None],
    refuse: Callable[[str | None], None],
) -> bool:
    """Give what `find` would run to `run`, and what it would change to `refuse`; returns whether it comes upon no protected place."""
    words = [word.text for word in shell_words]
    while words[:1] and (words[0] in ("-L", "-P", "-H") or words[0].startswith(("-O", "-D"))):
        words.pop(0)
    first = next((at for at, text in enumerate(words) if text[:1] in ("-", "(", "!")), len(words))
    folders, tests = ([word for word in shell_words if word.text in words[:first]] or [ShellWord(".")], words[first:])
    refuse(reach.private(folders))
    acts = "-delete" in tests
    for at, test in enumerate(tests):
        if test.startswith(("-fprint", "-fls")):
            name = (*shell_words[len(shell_words) - len(tests) :], ShellWord(""))[at + 1]
            refuse(UNREAD if UNKNOWN in name.text or FOREIGN in name.text else reach.named([name]))
        if test in _RUNS:
            end = next((index for index in range(at, len(tests)) if tests[index] in (";", "+")), len(tests))
            runs = [ShellWord(text) for text in tests[at + 1 : end]]
            if runs and name_of(runs[0]) not in TABLES.printers and not only_reads(name_of(runs[0]), runs[1:]):
                acts = True
                run([ShellWord(word.text.replace("{}", "0")) for word in runs])
    hits = None
    if any(UNKNOWN in text or FOREIGN in text for text in words):
        hits = (
            UNREAD
            if UNKNOWN in "".join(words) or any(FOREIGN in word.text for word in folders)
            else _come_upon(reach, folders, [])
        )
    else:
        hits = _come_upon(reach, folders, tests)
    if acts:
        refuse(hits)
    return hits is None


def _come_upon(reach: Reach, folders: Sequence[ShellWord], tests: Sequence[str]) -> str | None:
    """The protected place that `find` would list."""
    files, ways = _files(reach), _alternatives(tests)
    for folder in folders:
        place = reach.around([folder])
        if place is not None and "-empty" not in tests:
            top = os.path.normpath(os.path.join(reach.base, folder.text))
            texts = [path for path in files if path.startswith(top.rstrip("/") + "/")]
            if not texts or any(
                _passes(os.path.relpath(path, top), folder.text, way) for path in texts for way in ways
            ):
                return place
    return None


def _files(reach: Reach) -> list[str]:
    """The protected places that exist, and some of their content."""
    paths = [path for _, path in reach.places.all_paths() if os.path.lexists(path)]
    for parent, _, files in os.walk(os.path.join(reach.places.root, FOLDER, "checkpoints")):
        paths += [os.path.join(parent, file) for file in files[:10]]
        if len(paths) > 100:
            break
    return paths


def _alternatives(tests: Sequence[str]) -> list[list[str]]:
    """The tests of which all of one list have to pass; what is only left out (`-prune`) has no list."""
    grouped = "(" in tests
    if grouped and any(test in ("!", "-not") and after == "(" for test, after in itertools.pairwise(tests)):
        return [[]]
    ways: list[list[str]] = [[]]
    for test in tests:
        if test in ("-o", "-or", ","):
            ways.append([])
        elif test not in ("(", ")"):
            ways[-1].append(test)
    return ways if grouped or len(ways) == 1 else [way for way in ways if way[-1:] != ["-prune"]]


def _passes(path: str, folder: str, tests: Sequence[str]) -> bool:
    """Whether `find` would keep a path after the tests of its name. Other tests are taken to pass."""
    name, word, negated = os.path.basename(path), os.path.join(folder, path), False
    named: Mapping[str, str] = {"-name": name, "-iname": name, "-path": word, "-wholename": word, "-ipath": word}
    for at, test in enumerate(tests[:-1]):
        if test in ("!", "-not"):
            negated = True
            continue
        if test in named:
            text, pattern = (
                operand.casefold() if test[:2] == "-i" else operand for operand in (named[test], tests[at + 1])
            )
            if fnmatch.fnmatchcase(text, pattern) is negated:
                return False
        negated = False
    return True
