"""Which protected place a command line reaches: named by a word, written to by a redirection, or taken away with a folder.

A command that only reads may name the policy and the store (`cat .aex/policy.aex`), any other may not, even in the midst of
a program's text (`python -c "…"`). A command that removes or moves may not name a folder around them. A program that writes may not
get a name that nobody knows before the line runs. A line that cannot be read as bash reads it is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from adjourn.policy.protected.personal import OURS, personal, personal_in
from adjourn.policy.protected.places import FOLDER, ProtectedPlaces
from adjourn.policy.protected.reach import Reach, found_by, mentioned
from adjourn.policy.protected.words import UNREAD
from adjourn.policy.shell.running import Command, Walk, field_of
from adjourn.policy.shell.syntax import ANYWHERE, FOREIGN, HARMLESS, UNKNOWN, UNSET, ShellWord, UnreadError
from adjourn.policy.shell.tables import (
    ASSIGNS,
    TABLES,
    WRITERS,
    name_of,
    only_reads,
    sed_is_known,
    sed_scripts,
    without_runners,
)

_NOT_KNOWN = re.compile(f"[{UNKNOWN}{FOREIGN}]")
_BLANKS = re.compile(r"\s")
_ORDER = re.compile(
    r"-[\w-]*(?:action|command|cmd|exec|pager|pre|program|rsh|run|shell)[\w-]*=(?:exec=)?(.*\s.*)", re.DOTALL
)
"""Matches an option that has a program run a command."""
_CODE = re.compile(r"[\s(;'\"]")
_GIT = "git"
_NESTED = WRITERS | TABLES.shells | frozenset("find xargs env sed git awk gawk curl wget mkdir".split())
"""Programs that are looked for in the words of a host, which may run them."""


class _FoundError(Exception):
    """A protected place is reached."""


def reached(line: str, places: ProtectedPlaces, bases: Iterable[str], *, foreign: bool = False) -> str | None:
    """The protected place that a command line reaches, if any. It may run in any of the `bases`; `foreign`: it is of a shell that is
    not like bash, and what cannot be read is not refused.
    """
    try:
        _Judge(places, tuple(bases)).walk.line(line)
    except _FoundError as found:
        return str(found)
    except (UnreadError, RecursionError):
        return personal_in(line) or mentioned(line, places) or (None if foreign else UNREAD)
    if "\\" in line and not places.mentioned(line) and (place := mentioned(line, places)):
        return place  # not every shell takes a backslash for an escape
    return None


def reached_by_words(words: Sequence[str], places: ProtectedPlaces, bases: Iterable[str]) -> str | None:
    """The same for a program and its arguments, run without a shell."""
    judge = _Judge(places, tuple(bases))
    try:
        judge.report(Command(tuple(ShellWord(word.partition("\0")[0]) for word in words), tuple(bases)))
    except _FoundError as found:
        return str(found)
    except (UnreadError, RecursionError):
        return UNREAD
    return None


class _Judge:
    """Takes the commands of one line."""

    def __init__(self, places: ProtectedPlaces, bases: tuple[str, ...]) -> None:
        self._places = places
        self._hidden = False
        self.walk = Walk(self.report, os.environ, bases)

    def report(self, command: Command) -> bool:
        """Look at a command; returns whether the names that it lists are none of a protected place. Raises where one is reached."""
        if any(_NOT_KNOWN.search(word.text) for word in command.writes):
            raise _FoundError(UNREAD)
        for name, text in command.assigned:
            self._hidden = self._hidden or name == "GLOBIGNORE"
            if re.fullmatch(TABLES.orders, name):
                self._ordered(text, command)
        reaches = self._reaches(command.bases)
        for reach in reaches:
            self._raise(reach.named(command.writes) or reach.private(command.reads))
        words = command.words
        while words and words[0].text == UNSET:
            self._raise(personal(words))
            words = words[1:]
        return self._run(words, command, reaches) if words else False

    def _raise(self, place: str | None) -> None:
        if place is not None:
            raise _FoundError(place)

    def _reaches(self, bases: Iterable[str]) -> list[Reach]:
        folders: dict[str, None] = {}
        for base in bases:
            if base == ANYWHERE:
                for _, place in self._places.all_paths():
                    folders |= dict.fromkeys(place[:at] or "/" for at, char in enumerate(place) if char == "/")
            else:
                folders[os.path.join(self._places.root, base)] = None
        return [Reach(self._places, base, self._hidden) for base in folders]

    def _ordered(self, text: str, command: Command) -> None:
        """A program takes its orders from a text: a file to write to, a command to run."""
        if _NOT_KNOWN.search(text) or text.startswith(("/dev/fd/", "/dev/stdin", "/proc/")):
            raise _FoundError(UNREAD)
        for reach in self._reaches(command.bases):
            self._raise(reach.named([ShellWord(text), *map(ShellWord, text.split())]) or mentioned(text, self._places))
        self._raise(personal_in(text))
        self._hinted(text.lstrip("!"), strict=text[:1] == "!" or "$(" in text or "`" in text)

    def _hinted(self, text: str, *, strict: bool = False) -> None:
        """A program may take a text for a command line; `strict`: it does."""
        try:
            self.walk.child(text)
        except UnreadError:
            self._raise(personal_in(text) or mentioned(text, self._places) or (UNREAD if strict else None))

    def _run(self, words: Sequence[ShellWord], command: Command, reaches: Sequence[Reach]) -> bool:
        first = words[0]
        words, assigned = without_runners(words, command.given)
        for word in assigned:
            match = ASSIGNS.fullmatch(word.text)
            if match and re.fullmatch(TABLES.orders, match[1]):
                self._ordered(match[2], command)
            if match:
                self.walk.export(match[1], match[2])
        if not words:
            return False
        shell_words = words
        words = [words[0], *(word for word in words[1:] if word.text != UNSET)]
        program, rest = name_of(words[0]), words[1:]
        if _NOT_KNOWN.search(program) or (words[0].wild and program != "["):
            self._raise(personal(words) or UNREAD)
        if first is not words[0] and (
            program in TABLES.going or program in (".", "source", "trap", "set", "exec", "export", "alias")
        ):
            raise UnreadError
        if program == "shopt":
            self._hidden = self._hidden or any("glob" in word.text for word in rest)
        if program in ("setopt", "set") and any("glob" in word.text.casefold() for word in rest):
            self._hidden = True
        if program in TABLES.printers or (
            program in TABLES.going and not any(reach.private(rest) for reach in reaches)
        ):
            return False
        reads = only_reads(program, rest) and not any(
            re.fullmatch(TABLES.orders, name) and name != "LESSCHARSET" for name, _ in command.assigned
        )
        if program in OURS or not reads:
            self._raise(personal(shell_words))
        if reads:
            for reach in reaches:
                self._raise(reach.private(rest))
            return self._lists(program, rest, reaches)
        if program in TABLES.shells:
            for word in rest:
                self._raise(personal_in(word.text) if UNSET in word.text else None)
            self._shell(program, rest, command)
            return False
        if program in ("trap", ".", "source"):  # they are followed
            self._raise(next((place for reach in reaches if (place := reach.private(rest))), None))
            return False
        return self._judged(program, words, command, reaches)

    def _judged(self, program: str, words: Sequence[ShellWord], command: Command, reaches: Sequence[Reach]) -> bool:
        shell_words = words[1:]
        if program == "find":
            return self._find(shell_words, command, reaches)
        if program == "mkdir":
            self._raise(UNREAD if any(UNKNOWN in word.text for word in shell_words) else None)
            for reach in reaches:
                place = reach.named(shell_words)
                self._raise(place if place != FOLDER else None)  # it is there, and stays as it is
            return False
        if program in {"git", "rsync"}:
            shell_words, reaches = getattr(self, f"_{program}")(shell_words, command, reaches)
            if not shell_words:
                return False
            if program == "git":
                program = f"git-{shell_words[0].text}"
                self._raise(UNREAD if any(UNKNOWN in word.text for word in shell_words) else None)
        if program == "sed":
            shell_words = self._sed(shell_words)
        if program in ("awk", "gawk", "mawk", "nawk"):
            self._awk(shell_words)
        edits = program in WRITERS or (
            program == "sed" and any(re.match(r"-\w*i|--in", word.text) for word in shell_words)
        )
        finds = program in {"fd", "fdfind"} and any(
            re.match(r"-\w*[HuxX]|--(?:hid|unr|no-ig|exec)", word.text) for word in shell_words
        )
        if finds and not self._reads_by_fd(shell_words):
            raise _FoundError(UNREAD)
        if program in TABLES.copiers and self._brings(shell_words, reaches):
            raise _FoundError(FOLDER)
        if edits and any(_NOT_KNOWN.search(word.text) for word in shell_words):
            raise _FoundError(UNREAD)
        if program in ("ln", "cp", "mv", "install", "link") and any(name_of(word) in OURS for word in shell_words):
            raise _FoundError(UNREAD)  # another name for our program
        recursive = program in ("chmod", "chown", "chgrp") and any(
            re.match(r"-\w*R|--rec", word.text) for word in shell_words
        )
        is_host = program.rstrip("0123456789.") in TABLES.hosts
        texts = [word.text for word in shell_words]
        given = (*command.given, *(text for word in texts for text in self.walk.processes(word)))
        for match in filter(None, map(_ORDER.match, texts)):
            self._ordered(match[1], command)
        for reach in reaches:
            if program in TABLES.removers or recursive:
                operands = [word for word in shell_words if word.text[:1] != "-"]
                self._raise(reach.around(operands[:-1] if program in TABLES.movers and len(operands) > 1 else operands))
            named = (
                [word for word in shell_words[:-1] if not word.wild]
                + list(
                    shell_words[-1:]
                    if program in TABLES.movers or not shell_words[-1:] or not shell_words[-1].wild
                    else ()
                )
                if program in TABLES.removers
                else shell_words
            )
            self._raise(reach.spoken_of((words[0], *named), given))
        if is_host:
            if any(UNKNOWN in text for text in texts) and (
                program not in TABLES.lenient_hosts or any(_CODE.search(text) for text in texts)
            ):
                raise _FoundError(UNREAD)
            for at, word in enumerate(shell_words):
                if name_of(word) in _NESTED:
                    self._nested(shell_words[at:], command)
        if is_host or program.removeprefix("git-") in TABLES.git_texts:
            for text in (*texts, *given):
                self._raise(personal_in(text))
                if _BLANKS.search(text.strip()) or text[:1] == "!":
                    self._hinted(text.lstrip("!:"), strict=program in TABLES.strict_hosts)
        return False

    def _reads_by_fd(self, words: Sequence[ShellWord]) -> bool:
        at = next((at for at, word in enumerate(words) if re.match(r"-[xX]$|--exec", word.text)), None)
        shows = any(re.match(r"-\w*[Hu]|--(?:hid|unr|no-ig)", word.text) for word in words)
        return at is None or not shows or (at + 1 < len(words) and only_reads(name_of(words[at + 1]), words[at + 2 :]))

    def _brings(self, words: Sequence[ShellWord], reaches: Sequence[Reach]) -> bool:
        """Whether a program unpacks into the folder of protected places, or copies a folder that has such places."""
        unpacks = any(reach.is_inside() for reach in reaches)
        folders = (
            os.path.join(reach.base, word.text, FOLDER) for reach in reaches for word in words if word.text[:1] != "-"
        )
        root = os.path.realpath(os.path.join(self._places.root, FOLDER))
        return unpacks or any(os.path.isdir(folder) and os.path.realpath(folder) != root for folder in folders)

    # --- programs with ways of their own

    def _shell(self, program: str, shell_words: Sequence[ShellWord], command: Command) -> None:
        """A shell that runs a script: given as an argument, as input, or as a file."""
        if program in ("cmd", "powershell", "pwsh", "fish"):
            for word in shell_words:
                self._hinted(word.text)
            return
        words = list(shell_words)
        if program == "eval":
            if len(words) != len(shell_words) or command.words[0].text != "eval":  # behind `sudo`, or from `env -S`
                self.walk.child(" ".join(word.text for word in words))
            return
        takes_line = program == "su"
        while words and (words[0].text[:1] in ("-", "+") and words[0].text != "-"):
            option = words.pop(0).text
            if option in ("--norc", "--noprofile", "--login", "--posix"):
                continue
            if program != "su" and not re.fullmatch(r"[-+](?:[ceilsuxvnrf]*|[euxc]*o)", option):
                raise UnreadError
            if option[-1] == "o" and words:
                words.pop(0)
            takes_line = takes_line or "c" in option
            if "s" in option:
                words.insert(0, ShellWord("-"))
                break
            if option == "--":
                break
        if takes_line:
            line = next((word.text for word in words if program != "su" or _BLANKS.search(word.text)), None)
            if line is not None:
                self.walk.child(line, [field_of(word) for word in words[1:]] or [HARMLESS], command.given)
            return
        if words and words[0].text != "-" and not words[0].text.startswith(("/dev/", "/proc/")):
            if _NOT_KNOWN.search(words[0].text):
                raise _FoundError(UNREAD)
            self._raise(next((place for reach in self._reaches(command.bases) if (place := reach.named(words))), None))
            return
        scripts = self.walk.processes(words[0].text if words else "") or command.given or (FOREIGN,)
        for script in scripts:
            self.walk.child(script, [HARMLESS, *map(field_of, words[1:])], ())

    def _git(
        self, shell_words: Sequence[ShellWord], command: Command, reaches: Sequence[Reach]
    ) -> tuple[Sequence[ShellWord], Sequence[Reach]]:
        words = list(shell_words)
        configured = False
        while words and words[0].text[:1] == "-":
            option, _, value = words.pop(0).text.partition("=")
            if option in TABLES.git_valued and not value and words:
                value = words.pop(0).text
            if option in ("-C", "--work-tree") and value:
                if _NOT_KNOWN.search(value):
                    reaches = [*reaches, *self._reaches([ANYWHERE])]
                else:
                    reaches = [reach.from_folder(value) for reach in reaches]
                configured = configured or option != "-C"
            elif option == "-c":
                key, _, setting = value.partition("=")
                if not re.fullmatch(TABLES.git_settings, key, re.IGNORECASE):
                    configured = True
                    self._ordered(setting, command)
                    if key.casefold().startswith("alias.") and setting[:1] != "!":
                        self._hinted(f"git {setting}")
            elif option not in TABLES.git_flags:
                raise UnreadError
            elif option == "--git-dir":
                configured = True
                self._ordered(value, command)
        if not words:
            return (), reaches
        name, words = words[0].text, words[1:]
        if _NOT_KNOWN.search(name) or (words and words[0].wild and name == UNSET):
            raise _FoundError(UNREAD)
        options = {word.text for word in words if word.text[:1] == "-"}
        letters = {letter for option in options if option[:2] != "--" for letter in option}
        if name == "clean" and {"n", "--dry-run"}.isdisjoint(options | letters):
            forced = (
                configured
                or not {"f", "--force", "i", "--interactive"}.isdisjoint(options | letters)
                or any(option.startswith("--f") for option in options)
            )
            excluded = [
                at for at, word in enumerate(words) if at and re.fullmatch(r"-[a-z]*e|--exclude", words[at - 1].text)
            ]
            kept = any(
                ((at in excluded and word.text) or word.text.partition("=")[2]).strip("/*") == FOLDER
                or word.text == f"-e{FOLDER}"
                for at, word in enumerate(words)
            )
            operands = [word for at, word in enumerate(words) if word.text[:1] != "-" and at not in excluded]
            for reach in reaches:
                self._raise(reach.around(operands or [ShellWord(".")]) if forced and not kept else None)
            if any(_NOT_KNOWN.search(word.text) for word in words):
                raise _FoundError(UNREAD)
            return (), reaches
        if name == "stash" and (
            not {"a", "u"}.isdisjoint(letters) or any(option.startswith(("--a", "--i")) for option in options)
        ):
            raise _FoundError(FOLDER)
        if name in ("rm", "mv"):
            operands = [word for word in words if word.text[:1] != "-"]
            for reach in reaches:
                self._raise(reach.around(operands[:-1] if name == "mv" and len(operands) > 1 else operands))
        if name in ("checkout", "restore", "reset") and ("--" in options or name == "restore"):
            at = [word.text for word in words].index("--") if "--" in options else 0
            tree = (name == "restore" and any(option.startswith(("-s", "--so")) for option in options)) or (
                name == "checkout" and any(word.text[:1] != "-" for word in words[:at])
            )
            for reach in reaches:
                self._raise(reach.around(word for word in words[at:] if word.text[:1] != "-") if tree else None)
        if (
            name == "config"
            or (name == "rebase" and letters & {"x"})
            or any(option.startswith("--ex") for option in options)
        ):
            values = (
                [word.text for word in words if word.text[:1] != "-"][1:]
                if name == "config"
                else [word.text.partition("=")[2] or word.text for word in words]
            )
            key = next((word.text for word in words if word.text[:1] != "-"), "")
            if not (name == "config" and re.fullmatch(TABLES.git_settings, key, re.IGNORECASE)):
                for value in values:
                    self._ordered(value, command)
                    if key.casefold().startswith("alias.") and value[:1] != "!":
                        self._hinted(f"git {value}")
        if (
            not configured
            and only_reads(_GIT, [ShellWord(name), *words])
            and not any(re.fullmatch(TABLES.orders, risky) for risky, _ in command.assigned)
        ):
            for reach in reaches:
                self._raise(reach.private(words) or reach.written_by_option(words))
            return (), reaches
        for word in words:  # the value of an option that runs a program
            option, _, value = word.text.partition("=")
            if option[:1] == "-" and _BLANKS.search(value or option):
                self._ordered(value or option[2:], command)
        return [ShellWord(name), *words], reaches

    def _rsync(
        self, words: Sequence[ShellWord], command: Command, reaches: Sequence[Reach]
    ) -> tuple[Sequence[ShellWord], Sequence[Reach]]:
        del command
        if any(word.text.startswith("--del") for word in words):
            for reach in reaches:
                self._raise(reach.around(words[-1:]))
        return words, reaches

    def _sed(self, words: Sequence[ShellWord]) -> Sequence[ShellWord]:
        """The words of sed without its scripts, if those do nothing but edit."""
        scripts = sed_scripts([word.text for word in words])
        if any(UNKNOWN in text for text in scripts or ()):
            raise _FoundError(UNREAD)
        if (
            not sed_is_known([re.sub(f"[{FOREIGN}{UNSET}{HARMLESS}]", "0", text) for text in scripts or ()])
            or scripts is None
        ):
            for word in words:
                for text in re.split(r"[\n;]", word.text):
                    run = re.search(r"(?:^|[\s\d$/,{])e\s+(.*)|^s(.).*?\2(.*)\2\w*e\w*$", text)
                    if run:
                        self._ordered(run[1] or run[3] or "", Command(()))
            raise UnreadError
        return [word for word in words if word.text not in scripts]

    def _awk(self, words: Sequence[ShellWord]) -> None:
        """Refuse a program of awk that writes to a file, or runs a command, by a name that it puts together."""
        for word in words:
            if "{" not in word.text and "(" not in word.text:
                continue
            text = re.sub(r'"(?:\\.|[^"\\])*"', '"', word.text)
            if re.search(
                r'print[^;}\n]*>|\bsystem\b|\bgetline\b|[^|]\|&?\s*"|\|\s*getline|-i\s*inplace|@', text
            ) and not re.fullmatch(
                r"[^>|]*print[^;}>|]*>>?\s*\"(?:/dev/stderr|[\w./-]+)\"\s*\}?[^>|]*", word.text.replace(FOREIGN, "0")
            ):
                self._raise(mentioned(word.text, self._places) or UNREAD)

    def _find(self, shell_words: Sequence[ShellWord], command: Command, reaches: Sequence[Reach]) -> bool:
        harmless = True
        for reach in reaches:
            harmless = (
                found_by(reach, shell_words, lambda words: self._nested(words, command), self._raise) and harmless
            )
        return harmless

    def _nested(self, words: Sequence[ShellWord], command: Command) -> None:
        self._run(words, Command(tuple(words), command.bases), self._reaches(command.bases))

    def _lists(self, program: str, shell_words: Sequence[ShellWord], reaches: Sequence[Reach]) -> bool:
        """Whether a program that lists names lists none of a protected place."""
        words = [word for word in shell_words if word.text[:1] != "-"]
        options = [word.text for word in shell_words if word.text[:1] == "-"]
        if any(_NOT_KNOWN.search(word.text) for word in shell_words):
            return False
        if program == "ls":
            return bool(words) and not any(reach.around(words) for reach in reaches)
        if program in ("grep", "egrep", "fgrep", "rg") and words:
            if not (
                any(
                    (option[:2] == "--" and "files-with" in option) or (option[:2] != "--" and {"l", "L"} & set(option))
                    for option in options
                )
                or "--files" in options
            ):
                return False
            included = [option.partition("=")[2] for option in options if option.startswith("--include=")]
            if included and all(re.fullmatch(r"\*\.\w+", pattern) and pattern != "*.aex" for pattern in included):
                return True
            folders = words if "--files" in options else words[1:]
            if program == "rg" and not folders:
                return not any(option.startswith(("--hid", "-u", "-.", "--un", "--no-ig")) for option in options)
            return not any(reach.around(folders or [ShellWord(".")]) for reach in reaches)
        if program == "git" and shell_words[0].text in ("ls-files", "diff", "grep"):
            if "-d" in options or "--deleted" in options or "--diff-filter=D" in options:
                return True
            specs = [word.text for word in words[2 if shell_words[0].text == "grep" else 1 :]]
            return (
                shell_words[0].text != "diff"
                and bool(specs)
                and not any(
                    spec in (".", "*", "/")
                    or spec[:1] in (":", ".")
                    or "aex" in spec
                    or "adjourn" in spec
                    or spec == "**"
                    for spec in specs
                )
            )
        return False
