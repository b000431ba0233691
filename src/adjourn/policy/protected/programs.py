"""What programs do with their arguments: read, remove or move the files that they name, or run them as commands.

Owns: which program does what. Must never: take a command line apart.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
from collections.abc import Callable, Mapping, Sequence

from adjourn.policy.protected.places import FOLDER
from adjourn.policy.protected.reach import Reach
from adjourn.policy.protected.shell import ShellWord

PRINTERS = frozenset(("echo", "printf", ":", "true", "false"))
GOING = frozenset(("cd", "pushd", "set-location"))
SHELLS = frozenset(
    ("ash", "bash", "cmd", "dash", "eval", "fish", "ksh", "powershell", "pwsh", "sh", "su", "zsh")
)
REMOVERS = frozenset((
    "del", "erase", "mv", "move", "move-item", "rd", "remove-item", "ren", "rename", "ri", "rimraf", "rm", "rmdir", "shred", "srm",
    "trash", "trash-put", "truncate", "unlink", "wipe",
))  # fmt: skip
_MOVERS = frozenset(("mv", "move", "move-item"))
"""Programs whose last argument is the destination."""
_READERS = frozenset((
    "[", "[[", "ag", "basename", "bat", "cat", "cd", "cksum", "cmp", "column", "cut", "diff", "dirname", "du", "egrep", "fgrep",
    "file", "grep", "head", "hexdump", "jq", "less", "ls", "md5sum", "more", "nl", "od", "popd", "pushd", "pwd", "readlink",
    "realpath", "rg", "sha1sum", "sha256sum", "sort", "stat", "strings", "tac", "tail", "test", "tr", "tree", "type", "wc", "which",
    "dir", "get-content", "gc", "get-childitem", "gci", "get-item", "select-string", "test-path", "set-location",
))  # fmt: skip
"""Programs that change none of the files they are given, except with an option."""
_READERS_BY_WORD = {
    "git": frozenset((
        "add", "annotate", "blame", "cat-file", "check-attr", "check-ignore", "commit", "describe", "diff", "fetch", "grep", "log",
        "ls-files", "ls-tree", "push", "rev-list", "rev-parse", "shortlog", "show", "status",
    )),
    "adjourn": frozenset(("check", "verify")),
}  # fmt: skip
"""Programs for which that is true of some subcommands."""
_RUNNERS = frozenset((
    "builtin", "busybox", "chronic", "command", "doas", "env", "exec", "ionice", "nice", "nohup", "setsid", "stdbuf", "sudo", "time",
    "timeout", "unbuffer", "xargs", "parallel",
))  # fmt: skip
"""Programs that run their remaining arguments as a command."""
_WITH_VALUE = {
    "doas": "u", "env": "u", "ionice": "cnpPu", "nice": "n", "parallel": "aCdEIjLlNnPS", "stdbuf": "eio", "sudo": "CghpRrTtUu",
    "time": "fo", "timeout": "ks", "xargs": "adEILnPs",
}  # fmt: skip
"""The letters of their options whose value may be the next word. A folder to run in is examined like a program."""
_LONG_WITH_VALUE = frozenset((
    "--adjustment", "--arg-file", "--class", "--classdata", "--close-from", "--command-timeout", "--delimiter",
    "--error", "--format", "--group", "--host", "--input", "--jobs", "--kill-after", "--max-args", "--max-chars", "--max-lines",
    "--max-procs", "--other-user", "--output", "--prompt", "--role", "--signal", "--type", "--unset", "--user",
))  # fmt: skip
_FEEDERS = frozenset(("xargs", "parallel"))
"""Of these, the programs that append arguments read from their input."""
_KEYWORDS = frozenset(
    ("!", "{", "}", "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "coproc")
)
_RUN_BY_FIND = ("-exec", "-execdir", "-ok", "-okdir")
_PICTURES_OF_LINES = "0123456789,$;p "

Run = Callable[[Sequence[ShellWord]], str | None]
"""Returns the protected place that a command with these words reaches."""


def name_of(word: ShellWord) -> str:
    """A program's name, without its folder."""
    return os.path.basename(word.text).casefold().removesuffix(".exe")


def only_reads(program: str, rest: Sequence[ShellWord]) -> bool:
    """Whether a program changes none of the files that its arguments name."""
    if program == "sed":
        return len(rest) > 1 and rest[0].text == "-n" and not rest[1].text.strip(_PICTURES_OF_LINES)
    own = _READERS_BY_WORD.get(program)
    return program in _READERS if own is None else bool(rest) and rest[0].text in own


def without_runners(words: Sequence[ShellWord]) -> tuple[Sequence[ShellWord], bool]:
    """A command without what runs it: keywords, assignments, `sudo`, `xargs` with their options; whether it is fed further words."""
    at, runner, fed = 0, "", False
    while at < len(words):
        text, name = words[at].text, name_of(words[at])
        assigns = "=" in text and text.partition("=")[0].rstrip("+").isidentifier()
        if name in _RUNNERS:
            runner, fed = name, fed or name in _FEEDERS
        elif runner and text[:1] == "-" and " " not in text:
            at += _takes_next(runner, text)
        elif not (text in _KEYWORDS or assigns or (runner and (text[:1].isdigit() or text == "{}"))):
            break
        at += 1
    return words[at:], fed


def _takes_next(runner: str, option: str) -> bool:
    """Whether the value of a runner's option is the next word: `sudo -u ann`, but not `sudo -uann`."""
    if option[:2] == "--":
        return option in _LONG_WITH_VALUE
    letters = _WITH_VALUE.get(runner, "")
    return next((at for at, letter in enumerate(option) if letter in letters), 0) == len(option) - 1 > 0


def removed(reach: Reach, program: str, rest: Sequence[ShellWord]) -> str | None:
    """The protected place that a program would remove or move."""
    operands = _operands(rest)
    return reach.around(operands[:-1] if program in _MOVERS and len(operands) > 1 else operands)


# --- programs with ways of their own


def _git(reach: Reach, rest: Sequence[ShellWord], run: Run) -> str | None:
    del run
    words = list(rest)
    while words and words[0].text[:1] == "-":
        option, _, value = words.pop(0).text.partition("=")
        if option in ("-C", "--work-tree") and (value or words):
            reach = reach.from_folder(value or words[0].text)
        if not value and option in ("-C", "-c", "--git-dir", "--work-tree", "--namespace"):
            del words[:1]
    name, words = (words[0].text, words[1:]) if words else ("", [])
    options = {word.text for word in words if word.text[:1] == "-"}
    letters = {letter for option in options if option[:2] != "--" for letter in option}
    if name == "clean":
        return _cleaned(reach, words, options, letters)
    if name == "stash" and not {"a", "u", "--all", "--include-untracked"}.isdisjoint(options | letters):
        return FOLDER
    if name in ("rm", "mv") and (found := removed(reach, name, words)):
        return found
    if name in _READERS_BY_WORD["git"]:
        return reach.private(words) or reach.written_by_option(words)
    return reach.spoken_of(words)


def _cleaned(reach: Reach, words: Sequence[ShellWord], options: set[str], letters: set[str]) -> str | None:
    """The protected place that `git clean` would remove."""
    if not {"n", "--dry-run"}.isdisjoint(options | letters) or {"f", "--force"}.isdisjoint(options | letters):
        return None
    if any(word.text.removeprefix("--exclude=").strip("/*") == FOLDER for word in words):
        return None  # it is left out
    return reach.around(_operands(words) or [ShellWord(".")])


def _find(reach: Reach, rest: Sequence[ShellWord], run: Run) -> str | None:
    """The protected place that `find` acts on: below its folders, and not excluded by its tests."""
    words = [word.text for word in rest]
    first = next((at for at, text in enumerate(words) if text[:1] in ("-", "(", "!")), len(words))
    folders, tests = list(rest[:first]) or [ShellWord(".")], words[first:]
    if found := reach.private(folders) or reach.named(
        ShellWord(tests[at + 1]) for at in _places_of_files(tests)
    ):
        return found
    runs = next((tests[at + 1 :] for at, text in enumerate(tests) if text in _RUN_BY_FIND), None)
    if runs is not None:
        program = name_of(ShellWord(runs[0])) if runs else ""
        if program not in PRINTERS and not only_reads(program, [ShellWord(text) for text in runs[1:]]):
            found = run([ShellWord(text.replace("{}", "")) for text in runs])
            return found or _come_upon(reach, folders, tests)
    return _come_upon(reach, folders, tests) if "-delete" in tests else None


def _places_of_files(tests: Sequence[str]) -> list[int]:
    return [at for at, test in enumerate(tests[:-1]) if test.startswith(("-fprint", "-fls"))]


def _come_upon(reach: Reach, folders: Sequence[ShellWord], tests: Sequence[str]) -> str | None:
    """The protected place that `find` would list."""
    files, ways = _files(reach), _alternatives(tests)
    for folder in folders:
        found = reach.around([folder])
        if found is not None and "-empty" not in tests:
            top = os.path.normpath(os.path.join(reach.base, folder.text))
            known = [path for path in files if path.startswith(top.rstrip("/") + "/")]
            if not known or any(
                _passes(os.path.relpath(path, top), folder.text, way) for path in known for way in ways
            ):
                return found
    return None


def _files(reach: Reach) -> list[str]:
    """The protected places that exist, and some of their content."""
    found = [path for _, path in reach.places.all_paths() if os.path.lexists(path)]
    for parent, _, files in os.walk(os.path.join(reach.places.root, FOLDER, "checkpoints")):
        found += [os.path.join(parent, file) for file in files[:10]]
        if len(found) > 100:
            break
    return found


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
    name, whole, negated = os.path.basename(path), os.path.join(folder, path), False
    named: Mapping[str, str] = {
        "-name": name,
        "-iname": name,
        "-path": whole,
        "-wholename": whole,
        "-ipath": whole,
    }
    for at, test in enumerate(tests[:-1]):
        if test in ("!", "-not"):
            negated = True
            continue
        if test in named:
            text, pattern = (
                one.casefold() if test[:2] == "-i" else one for one in (named[test], tests[at + 1])
            )
            if fnmatch.fnmatchcase(text, pattern) is negated:
                return False
        negated = False
    return True


def _mkdir(reach: Reach, rest: Sequence[ShellWord], run: Run) -> str | None:
    del run
    found = reach.named(rest)
    return None if found == FOLDER else found  # it is there, and stays as it is


def _rsync(reach: Reach, rest: Sequence[ShellWord], run: Run) -> str | None:
    del run
    deletes = any(word.text.startswith("--del") for word in rest)
    return (reach.around(rest[-1:]) if deletes else None) or reach.spoken_of(rest)


SPECIAL: Mapping[str, Callable[[Reach, Sequence[ShellWord], Run], str | None]] = {
    "git": _git, "find": _find, "mkdir": _mkdir, "rsync": _rsync,
}  # fmt: skip
"""Programs whose arguments mean more than places."""


def _operands(words: Sequence[ShellWord]) -> list[ShellWord]:
    return [word for word in words if word.text[:1] != "-"]
