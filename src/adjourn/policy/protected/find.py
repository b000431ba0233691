"""What `find` does with the files that it comes upon."""

from __future__ import annotations

import fnmatch
import itertools
import os
from collections.abc import Callable, Mapping, Sequence

from adjourn.policy.protected.places import FOLDER
from adjourn.policy.protected.reach import Reach
from adjourn.policy.protected.words import UNREAD
from adjourn.policy.shell.syntax import FOREIGN, UNKNOWN, ShellWord
from adjourn.policy.shell.tables import TABLES, name_of, only_reads

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
