"""What a command line runs: its simple commands, without words that are only text.

What a program prints, searches for or shows is not run: `echo "rm x"`, `grep -rn "drop table"`, `git commit -m "rm x"`. Nor is a command
that only explains or rehearses itself (`--help`, `--version`, `--dry-run`). What is printed into a pipe may be run by the program behind it.

Owns: this reading of a line. Must never: run anything, or raise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from adjourn.policy.protected.programs import name_of, only_reads, without_runners
from adjourn.policy.shell.running import Command, Walk
from adjourn.policy.shell.syntax import MARKS, ShellWord, UnreadError
from adjourn.policy.shell.tables import TABLES

MAX_DEPTH = 5
"""Command lines in one another: `ssh host 'bash -c "…"'`."""
MAX_CARRIED = 50
"""Words of such a program that may begin the command it runs."""
_CARRIERS = TABLES.shells | {"docker", "flock", "kubectl", "podman", "script", "ssh", "watch", "wsl"}
"""Programs that run a command line, or the words behind their own."""
_TALKERS = frozenset(("apropos", "comm", "date", "help", "history", "info", "man", "sleep", "uniq", "whatis"))
_GIT_TALKS = frozenset((
    "add", "blame", "commit", "describe", "diff", "grep", "log", "ls-files", "notes", "shortlog", "show", "status",
))  # fmt: skip
_EXPLAINS = ("--help", "--version", "--dry-run")
_REHEARSES = {"git": ("clean", "push"), "rsync": ()}
"""Programs for which `-n` means `--dry-run`, under these of their own commands (none: always)."""


class CommandRun(NamedTuple):
    """A simple command: the names that its program may have, its words as one text in lower case, the files that it truncates,
    and the folder that it changes to.
    """

    programs: tuple[str, ...]
    text: str
    truncates: tuple[str, ...] = ()
    goes_to: str = ""


def commands_run(line: str, depth: int = 0) -> list[CommandRun]:
    """The commands that a line runs, those of shells and other hosts in it included. A line that cannot be read is one command."""
    commands: dict[Command, None] = {}
    try:
        Walk(lambda command: commands.__setitem__(command, None), os.environ).line(line)
    except (UnreadError, RecursionError):
        return [CommandRun((), line.lower())]
    return [found for command in commands for found in _of(command, depth=depth)]


def _of(command: Command, *, depth: int) -> Iterator[CommandRun]:
    truncates = tuple(word.text for word in command.truncates if not MARKS.intersection(word.text))
    try:
        words, _ = without_runners(command.words)
    except UnreadError:  # an option that is not known: any of the words may be the program
        yield CommandRun(
            tuple(map(name_of, command.words)),
            " ".join(word.text for word in command.words).lower(),
            truncates,
        )
        return
    program, rest = (name_of(words[0]), words[1:]) if words else ("", words)
    if _explains(program, rest) or (
        _talks(program, rest) and not (command.feeds and program in TABLES.printers | {"cat"})
    ):
        folder = (
            rest[0].text if program in TABLES.going and rest and not MARKS.intersection(rest[0].text) else ""
        )
        yield CommandRun((), "", truncates, folder)
        return
    programs: tuple[str, ...] = (program,)
    if len(words) < len(command.words):  # `sudo -u ann rm x`: an option's value is not told from a program
        programs += tuple(map(name_of, rest))
    carries = program in _CARRIERS and depth < MAX_DEPTH
    inner = [word.text for word in rest if carries and _is_line(word)]
    shown = [word.text for word in words if word.text not in inner]
    yield CommandRun(programs, " ".join((*shown, *command.given)).lower(), truncates)
    for line in inner:
        yield from commands_run(line, depth + 1)
    if carries:  # `ssh host rm x`
        for at, word in enumerate(rest[:MAX_CARRIED]):
            if word.text[:1] != "-" and not _is_line(word):
                yield CommandRun((name_of(word),), " ".join(one.text for one in rest[at:]).lower())


def _is_line(word: ShellWord) -> bool:
    return any(mark in word.text for mark in " \n;|&>")


def _explains(program: str, rest: Sequence[ShellWord]) -> bool:
    words = [word.text for word in rest]
    options = words[: words.index("--")] if "--" in words else words
    if any(option.startswith(_EXPLAINS) for option in options):
        return True
    own = _REHEARSES.get(program)
    if own is None or (own and not set(own).intersection(words)):
        return False
    return any("n" in option for option in options if option[:1] == "-" and option[:2] != "--")


def _talks(program: str, rest: Sequence[ShellWord]) -> bool:
    """Whether the words of a program are only text: printed, searched for, read."""
    if program == "git":
        words = (word.text for word in rest)
        return next((word for word in words if word[:1] != "-"), "") in _GIT_TALKS
    return program in TABLES.printers or program in _TALKERS or only_reads(program, rest)
