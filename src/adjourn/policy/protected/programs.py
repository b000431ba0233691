"""What programs do with their arguments: read, remove or move the files that they name, or run them as commands.

A program is a reader by its name and its options: with an option that is not listed here it is none.

Owns: which program does what. Must never: take a command line apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from adjourn.policy.shell.syntax import FOREIGN, HARMLESS, UNKNOWN, ShellWord, UnreadError
from adjourn.policy.shell.tables import TABLES

MAX_FED = 200
"""Most words that `xargs` is followed with."""
WRITERS = TABLES.writers | TABLES.removers
ASSIGNS = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL | re.ASCII)
_SCRIPT = (
    r"(?s:(?:\s|;|[{}]|!|(?:\d+|\$|/(?:\\.|\[[^]]*\]|[^/\\])*/I?)(?:,\s*(?:[+~]?\d+|\$|/(?:\\.|\[[^]]*\]|[^/\\])*/I?))?\s*"
    r"|[pdqQ=nNgGhHxDPlz](?=[\s;}]|$)|[qQ]\s*\d+|s([^\w\s\\])(?:\\.|\[\^?\]?[^]\n]*\]|(?!\1)[^\\])*\1(?:\\.|(?!\1)[^\\])*\1[gpIiMm\d]*(?=[\s;}]|$)"
    r"|y/(?:\\.|[^/\\])*/(?:\\.|[^/\\])*/|[aic](?:\\?\s|\\)?[^\n]*(?:\\\n[^\n]*)*(?:\n|$)|[btT](?:\s*\w+)?(?=[\s;}]|$)|:\s*\w+)*)"
)
"""Matches a script of sed that neither writes to a file nor runs a program."""


def name_of(word: ShellWord) -> str:
    """A program's name, without its folder."""
    return os.path.basename(word.text).casefold().removesuffix(".exe")


def only_reads(program: str, rest: Sequence[ShellWord]) -> bool:
    """Whether a program changes none of the files that its arguments name."""
    if program in TABLES.readers:
        return True
    words = [word.text for word in rest]
    if program == "sed":
        return not any(re.match(r"-[a-zA-Z]*i|--in", word) for word in words) and sed_is_known(
            sed_scripts(words)
        )
    if (allowed := TABLES.readers_by_option.get(program)) is not None:
        options = [
            word[1:]
            for word in words[: words.index("--") if "--" in words else None]
            if word[:1] in ("-", "+", UNKNOWN) and word != "-"
        ]
        if program == "uniq" and len(words) - len(options) > 1:
            return False
        return all(
            re.fullmatch(allowed, option) or (program == "date" and "%" in option) for option in options
        )
    own = TABLES.readers_by_command.get(program)
    if own is None or not words or words[0] not in own:
        return False
    if program != "git":
        return True
    if words[0] in ("fetch", "push", "ls-remote") and any("::" in word for word in words):
        return False
    return all(map(_is_known_to_git, _options(words[1:]))) and words[1:2] not in (["set-url"], ["add"])


def _is_known_to_git(option: str) -> bool:
    if option[:2] == "--":
        return option == "--" or option[2:].partition("=")[0] in TABLES.git_options
    letters = option[1:].partition("=")[0]
    return option[1:2] in tuple("SGLUMCXjqmFn") or (
        letters.isalnum() and "O" not in letters and "o" not in letters[:1]
    )


def _options(words: Sequence[str]) -> list[str]:
    words = words[: words.index("--") if "--" in words else None]
    return [
        word
        for at, word in enumerate(words)
        if word[:1] in ("-", UNKNOWN)
        and not re.fullmatch(r"-\w*m|--message|--grep|--author|-[SG]", words[at - 1] if at else "")
    ]


def sed_scripts(words: Sequence[str]) -> list[str] | None:
    """The scripts in the arguments of sed; None for an option that is not known."""
    scripts: list[str] = []
    operands: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if match := re.fullmatch(r"-[nErszu]*e(.*)|--expression(?:=(.*))?", word, re.DOTALL):
            value = match[1] or match[2]
            at += not value
            scripts.append(value or (words[at] if at < len(words) else ""))
        elif re.fullmatch(
            r"-[nErsuz]+|-[nErsuz]*i(?:\.\w+)?|--(?:in-place(?:=\.?\w+)?|quiet|silent|regexp-extended|null-data)",
            word,
        ):
            pass
        elif word[:1] == "-" and len(word) > 1:
            return None
        else:
            operands.append(word)
        at += 1
    return scripts or operands[:1]


def sed_is_known(scripts: Sequence[str] | None) -> bool:
    """Whether scripts of sed neither write to a file that they name nor run a program."""
    return scripts is not None and all(re.fullmatch(_SCRIPT, script) for script in scripts)


def without_runners(
    words: Sequence[ShellWord], given: Sequence[str] = ()
) -> tuple[Sequence[ShellWord], list[ShellWord]]:
    """A command without what runs it (`sudo`, `timeout 5`), and the words that assign variables to it; `given` is what `xargs` adds to it.

    Raises `UnreadError` for an option that is not known.
    """
    assigned: list[ShellWord] = []
    while words:
        name = name_of(words[0])
        if name not in TABLES.runners or (
            name == "command" and len(words) > 1 and words[1].text in ("-v", "-V")
        ):
            break
        letters, valued = TABLES.runners[name]
        at, replaced = 1 + (name == "env" and len(words) > 1 and words[1].text == "-"), ""
        while at < len(words) and words[at].text[:1] == "-" and words[at].text != "-":
            option = words[at].text
            at += 1
            if option == "--":
                break
            if name == "env" and option.startswith(("-S", "--split-string")):
                return [
                    ShellWord("eval"),
                    ShellWord(option.removeprefix("-S").removeprefix("--split-string").removeprefix("=")),
                    *words[at:],
                ], assigned
            if option[:2] == "--":
                if not re.fullmatch(TABLES.runners_long, option) and not re.fullmatch(
                    TABLES.runners_long_valued, option
                ):
                    raise UnreadError
                at += bool(re.fullmatch(TABLES.runners_long_valued, option))
                continue
            cut = next((one for one, letter in enumerate(option) if one and letter in valued), None)
            if not set(option[1:cut]) <= set(letters):
                raise UnreadError
            if cut is not None:
                value = option[cut + 1 :] or (words[at].text if at < len(words) else "")
                at += not option[cut + 1 :]
                replaced = value if option[cut] == "I" else replaced
                if name == "xargs" and option[cut] == "a":
                    given = [UNKNOWN]
        if name in ("timeout", "gtimeout"):
            at += 1
        while name in ("env", "sudo", "doas") and at < len(words) and ASSIGNS.fullmatch(words[at].text):
            assigned.append(words[at])
            at += 1
        words = words[at:]
        if name == "xargs":
            words = words or [ShellWord("echo")]
            if replaced:
                fed = _fed(given, by_line=True)
                words = [
                    ShellWord(word.text.replace(replaced, one.text), word.wild)
                    for word in words
                    for one in (fed if replaced in word.text else [word])
                ]
            else:
                words = [*words, *_fed(given, by_line=False)]
    return words, assigned


def _fed(given: Sequence[str], *, by_line: bool) -> list[ShellWord]:
    """The words that `xargs` makes of its input."""
    found: list[ShellWord] = []
    for text in given or (FOREIGN,):
        known = not set(text) <= {HARMLESS, "\n", "0"}
        if not {"'", '"', "\\"}.isdisjoint(text):  # `xargs` has rules of its own for these
            return [ShellWord(UNKNOWN)]
        pieces = text.split("\n") if by_line else text.split()
        found += [ShellWord(piece.lstrip() if known else HARMLESS) for piece in pieces[:MAX_FED] if piece]
    return found if len(found) < MAX_FED else [ShellWord(UNKNOWN)]
