"""Which protected place a command line reaches: named by a word, written to by a redirection, or taken away with a folder.

A command that only reads may name the policy and the store (`cat .aex/policy.aex`), any other may not, even in the midst of
a program's text (`python -c "…"`). A command that removes or moves may not name a folder around them.

Owns: going through the commands of a line. Must never: be taken for a sandbox: a script that is run from a file, a
program that changes a whole tree by itself, or a name that is put together at run time is not seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from adjourn.policy.protected.personal import OURS, personal
from adjourn.policy.protected.places import FOLDER, ProtectedPlaces
from adjourn.policy.protected.programs import (
    GOING,
    PRINTERS,
    REMOVERS,
    SHELLS,
    SPECIAL,
    name_of,
    only_reads,
    removed,
    without_runners,
)
from adjourn.policy.protected.reach import Reach, mentioned
from adjourn.policy.protected.shell import (
    UNKNOWN,
    ShellWord,
    Simple,
    TooLongError,
    lists_hidden,
    simple_commands,
)

MAX_TEXT = 1024 * 1024
"""Longest command line that is analyzed. A longer one counts as reaching a protected place."""
_SHOW_HIDDEN = ("dotglob", "globdots", "glob_dots", "GLOB_DOTS")
"""Options of shells under which patterns match names that begin with a dot."""
MAX_DEPTH = 5
"""Deepest nesting of shells in shells. Deeper ones count as reaching a protected place, too."""


def reached(line: str, places: ProtectedPlaces, bases: Iterable[str], depth: int = 0) -> str | None:
    """The protected place that a command line reaches, if any. It may run in any of the `bases`."""
    if len(line) > MAX_TEXT or depth > MAX_DEPTH:
        return FOLDER
    line = line.replace("\0", "")  # as a shell that reads one
    try:
        commands = simple_commands(line)
    except TooLongError:
        return FOLDER
    if "\\" in line and not places.mentioned(line) and (place := mentioned(line, places)):
        return place  # not every shell takes a backslash for an escape
    hidden = any(option in line for option in _SHOW_HIDDEN)
    return next(
        (found for base in bases if (found := _Line(places, base, depth, hidden=hidden).judge(commands))),
        None,
    )


def reached_by_words(words: Sequence[str], places: ProtectedPlaces, bases: Iterable[str]) -> str | None:
    """The same for a program and its arguments, run without a shell."""
    command = Simple((0,))
    command.words = [ShellWord(word.partition("\0")[0]) for word in words]
    return next((found for base in bases if (found := _Line(places, base, 0).judge([command]))), None)


class _Line:
    """The commands of one line that starts in one folder."""

    def __init__(self, places: ProtectedPlaces, base: str, depth: int, *, hidden: bool = False) -> None:
        self._places = places
        self._hidden = hidden
        self._bases: dict[tuple[int, ...], str] = {(): base}
        self._depth = depth

    def judge(self, commands: Sequence[Simple]) -> str | None:
        for command in commands:
            reach = Reach(self._places, self._base_of(command.scope), self._hidden)
            found = (
                reach.named(command.writes)
                or reach.private(command.reads)
                or self._substituted(command.substituted, reach.base)
                or self._run(command.words, command, reach)
            )
            if found:
                return found
        return None

    def _base_of(self, scope: tuple[int, ...]) -> str:
        """The working folder of a shell; at first that of the shell around it."""
        if scope not in self._bases:
            self._bases[scope] = self._base_of(scope[:-1])
        return self._bases[scope]

    def _substituted(self, bodies: Iterable[str], base: str) -> str | None:
        """The protected place that a substitution in a here-document reaches. The reading command is checked separately."""
        quoted = ('"' + body.replace('"', '\\"') + '"' for body in bodies if "$(" in body or "`" in body)
        return next((found for one in quoted if (found := self._inner(one, base))), None)

    def _inner(self, line: str, base: str) -> str | None:
        return reached(line, self._places, [base], self._depth + 1)

    def _run(self, words: Sequence[ShellWord], command: Simple, reach: Reach) -> str | None:
        words, fed = without_runners(words)
        if not words:
            return None
        if fed and command.before is not None and (found := self._fed(words, command.before, reach)):
            return found
        if words[0].text == UNKNOWN:  # one of the words behind it may be the program
            words = next((words[at:] for at, word in enumerate(words) if word.text in REMOVERS), words)
        line = words[0].text.removeprefix("-S").removeprefix("--split-string=")
        if " " in line and (found := self._inner(line, reach.base)):  # `env -S "rm -rf ."`
            return found
        program, rest = name_of(words[0]), words[1:]
        if program in OURS or not (program in PRINTERS or only_reads(program, rest)):
            piped = command.before.words if command.before is not None else ()
            read = (*_given(command), *(word.text for word in piped))
            if (found := personal(words, read, fed=fed)) is not None:
                return found
        if program in GOING:
            self._go(rest, command.scope, reach)
        if program in SHELLS:
            return self._shell(rest, command, reach.base)
        return self._judged(program, words, command, reach)

    def _judged(self, program: str, words: Sequence[ShellWord], command: Simple, reach: Reach) -> str | None:
        rest = words[1:]
        if (special := SPECIAL.get(program)) is not None:
            found = special(reach, rest, lambda words: self._run(words, Simple(command.scope), reach))
            return found or reach.spoken_of((), _given(command))
        if program in PRINTERS:
            return None
        if only_reads(program, rest):
            return reach.private(rest) or reach.written_by_option(rest)
        found = removed(reach, program, rest) if program in REMOVERS else None
        return found or reach.spoken_of(words, _given(command))

    def _fed(self, words: Sequence[ShellWord], before: Simple, reach: Reach) -> str | None:
        """The protected place that a program reaches when `xargs` appends the output of another program to its arguments."""
        named, _ = without_runners(before.words)
        program = name_of(words[0])
        if not named or only_reads(program, words[1:]) or program in PRINTERS:
            return None
        if name_of(named[0]) == "find":
            return self._judged("find", [*named, ShellWord("-delete")], before, reach)
        listed = [ShellWord(".*", wild=True)] if lists_hidden(named) else []
        found = reach.named([*named[1:], *listed])
        removes = name_of(named[0]) in PRINTERS and program in REMOVERS
        return found or (reach.around(named[1:]) if removes else None)

    def _shell(self, rest: Sequence[ShellWord], command: Simple, base: str) -> str | None:
        """The protected place that a script for a shell reaches: given as an argument, as input, or as a here-document."""
        piped = command.before.words[1:] if command.before is not None else []
        scripts = [word.text for word in (*rest, *piped) if word.text[:1] not in ("-", "")]
        if rest and rest[0].text[:1] != "-":
            scripts.append(" ".join(word.text for word in rest))  # eval joins its words
        if piped:
            scripts.append(" ".join(word.text for word in piped))
        scripts = [script for script in dict.fromkeys((*scripts, *_given(command))) if script not in SHELLS]
        return next((found for script in scripts if (found := self._inner(script, base))), None)

    def _go(self, rest: Sequence[ShellWord], scope: tuple[int, ...], reach: Reach) -> None:
        to = next((word.text for word in rest if word.text[:1] != "-"), "~")
        there = reach.from_folder(os.path.expanduser(to)).base
        if UNKNOWN not in to and os.path.isdir(there):
            self._bases[scope] = there


def _given(command: Simple) -> list[str]:
    """The texts that a command reads: its own, those of the command before it, and what that one prints."""
    before = command.before
    if before is None:
        return command.bodies
    words, _ = without_runners(before.words)
    printed = [word.text for word in words[1:]] if words and name_of(words[0]) in PRINTERS else []
    return [*command.bodies, *before.bodies, *printed]
