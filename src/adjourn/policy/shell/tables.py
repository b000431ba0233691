"""What programs do with their arguments, and what they print: `programs.json` and its readers.

A program in no list may write to the files that it is given, and print anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from adjourn.policy.shell.syntax import FOREIGN, HARMLESS, HERE, UNKNOWN, UNSET, ShellWord, UnreadError


class Tables(msgspec.Struct, frozen=True, rename="camel"):
    """Sets have names of programs, without their folder, in lower case. Texts are regular expressions."""

    printers: frozenset[str]
    """Print their arguments, and open no file."""
    going: frozenset[str]
    """Change the folder of the shell."""
    shells: frozenset[str]
    removers: frozenset[str]
    """Remove or move the files that they are given."""
    movers: frozenset[str]
    """Those of them whose last argument is the destination."""
    writers: frozenset[str]
    """Write to files that they are given: a name that cannot be known may be that of a protected place. Removers are some, too."""
    hosts: frozenset[str]
    """Run code from an argument, or from their input."""
    strict_hosts: frozenset[str]
    """Hosts whose texts are shell lines."""
    lenient_hosts: frozenset[str]
    """Hosts that are often given what another program prints."""
    copiers: frozenset[str]
    """Bring whole folders."""
    readers: frozenset[str]
    """Change none of the files that they are given, whatever their options."""
    readers_by_option: dict[str, str]
    """Change none with options that match, without their first dash."""
    readers_by_command: dict[str, frozenset[str]]
    """Change none under some of their own commands."""
    git_options: frozenset[str]
    """Long options with which those of git neither write a file nor run a program."""
    git_settings: str
    """Settings of git that neither write a file nor run a program."""
    git_texts: frozenset[str]
    """Commands of git that may run an argument."""
    git_flags: frozenset[str]
    """Options of git itself that change nothing which matters here."""
    git_valued: frozenset[str]
    """Options of git itself with a value."""
    orders: str
    """Variables by which a program reads its orders, or where to write."""
    runners: dict[str, tuple[str, str]]
    """Run their remaining arguments as a command: the letters of their options, and of those with a value."""
    runners_long: str
    """Long options of these."""
    runners_long_valued: str
    """Those of them whose value is the next argument."""
    silent: frozenset[str]
    """Print nothing."""
    numbers: frozenset[str]
    """Print what follows from the machine, and nothing which a line can make up."""
    filters: frozenset[str]
    """Print some of what they read."""
    composers: frozenset[str]
    """Can put together any text from what a line gives them."""
    sources: frozenset[str]
    """Print what they find in files, or elsewhere: with plain arguments, not what a line makes up."""
    plain_arguments: dict[str, str]
    """Arguments with which a composer only prints a part of what it reads."""


def _read() -> Tables:
    loader: Any = __spec__ and __spec__.loader  # what reads a module reads what lies beside it
    return msgspec.json.decode(loader.get_data(__file__.rpartition("/")[0] + "/programs.json"), type=Tables)


TABLES = _read()


# --- what programs do with their arguments

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


def only_reads(program: str, shell_words: Sequence[ShellWord]) -> bool:
    """Whether a program changes none of the files that its arguments name."""
    if program in TABLES.readers:
        return True
    words = [word.text for word in shell_words]
    if program == "sed":
        return not any(re.match(r"-[a-zA-Z]*i|--in", word) for word in words) and sed_is_known(sed_scripts(words))
    if (allowed := TABLES.readers_by_option.get(program)) is not None:
        options = [
            word[1:]
            for word in words[: words.index("--") if "--" in words else None]
            if word[:1] in ("-", "+", UNKNOWN) and word != "-"
        ]
        if program == "uniq" and len(words) - len(options) > 1:
            return False
        return all(re.fullmatch(allowed, option) or (program == "date" and "%" in option) for option in options)
    own = TABLES.readers_by_command.get(program)
    if own is None or not ((words and words[0] in own) or " ".join(words[:2]) in own):
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
    return option[1:2] in tuple("SGLUMCXjqmFn") or (letters.isalnum() and "O" not in letters and "o" not in letters[:1])


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
            r"-[nErsuz]+|-[nErsuz]*i(?:\.\w+)?|--(?:in-place(?:=\.?\w+)?|quiet|silent|regexp-extended|null-data)", word
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
        if name not in TABLES.runners or (name == "command" and len(words) > 1 and words[1].text in ("-v", "-V")):
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
            cut = next((index for index, letter in enumerate(option) if index and letter in valued), None)
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
                    ShellWord(word.text.replace(replaced, index.text), word.wild)
                    for word in words
                    for index in (fed if replaced in word.text else [word])
                ]
            else:
                words = [*words, *_fed(given, by_line=False)]
    return words, assigned


def _fed(given: Sequence[str], *, by_line: bool) -> list[ShellWord]:
    """The words that `xargs` makes of its input."""
    words: list[ShellWord] = []
    for text in given or (FOREIGN,):
        known = not set(text) <= {HARMLESS, "\n", "0"}
        if not {"'", '"', "\\"}.isdisjoint(text):  # `xargs` has rules of its own for these
            return [ShellWord(UNKNOWN)]
        pieces = text.split("\n") if by_line else text.split()
        words += [ShellWord(piece.lstrip() if known else HARMLESS) for piece in pieces[:MAX_FED] if piece]
    return words if len(words) < MAX_FED else [ShellWord(UNKNOWN)]


# --- what programs print, as far as a line determines it

_FORMAT = re.compile(r"(?:%[A-Za-z]{1,2}|[\s\d_:T.,/|Z+-])*")
_ASKS_FORMAT = re.compile(r"--(?:format|pretty)[= ](?:format:)?(.*)", re.DOTALL)
_WILD = re.compile(r"[*?[]")
_WILD_NAME = re.compile(r"\*((?:\.\w+)*\.(?!aex|db|json|toml|key|pub)\w+)")
_ESCAPE = re.compile(r"\\(.)|%(.)")


def printed_by(
    name: str, texts: Sequence[str], given: tuple[str, ...], processes: Mapping[str, tuple[str, ...]], *, lists: bool
) -> tuple[str, ...]:
    """The texts that a program may print. `given` is what it reads, `processes` what `<(…)` has; `lists`: names that it lists matter to nobody."""
    name = os.path.basename(name)
    given = given or (FOREIGN,)
    operands = [word for word in texts if word[:1] != "-"]
    if name in TABLES.silent:
        return ("",)
    if name == "echo":
        return _echo(list(texts))
    if name == "printf" and texts:
        return _printf(texts[0], list(texts[1:]))
    if name in ("cat", "tee"):
        if name == "cat" and len(operands) == 1 and operands[0] in processes:
            return processes[operands[0]]
        return given if name == "tee" or not operands else (FOREIGN,)
    if any(UNKNOWN in word for word in texts):
        return (UNKNOWN,)
    if name == "pwd" or (name == "git" and list(texts) == ["rev-parse", "--show-toplevel"]):
        return (HERE,)
    if name in ("basename", "dirname"):
        return _part(name, operands)
    if name in ("which", "type") or (name == "command" and texts[:1] in (["-v"], ["-V"])):
        return (f"/usr/bin/{operands[0]}",) if len(operands) == 1 else (UNKNOWN,)
    if name == "mktemp":
        fine = all(re.fullmatch(r"-[dqt]+|[\w/.-]*X{3,}[\w.]*|[\w-]+", word) for word in texts) and len(operands) < 2
        return (
            (operands[0].replace("X", "0") if operands and operands[0][0] == "/" else "/tmp/tmp.0",)
            if fine and not any(word[:1] == "." for word in operands)
            else (UNKNOWN,)
        )
    if name == "date":
        return (HARMLESS if all(_FORMAT.fullmatch(word) for word in operands) else UNKNOWN,)
    if (
        name in TABLES.numbers
        or (name == "wc" and not operands)
        or (name in ("grep", "rg") and any(re.fullmatch(r"-\w*c\w*", word) for word in texts))
    ):
        return (HARMLESS,)
    made_up = bool(set("".join(given)) - {FOREIGN, HARMLESS, "0", "\n", " "})
    harmless = not made_up and FOREIGN not in "".join(given)
    simple = TABLES.plain_arguments.get("awk" if name == "gawk" else name)
    if (
        simple is not None
        and not made_up
        and all(re.fullmatch(simple, word) for word in (texts if name in ("tr", "column", "nl") else texts[:2]))
    ):
        return (HARMLESS if harmless else FOREIGN,)
    if (
        name in TABLES.composers
        or (name == "docker" and {"run", "exec"} & set(texts))
        or (name == "git" and texts[:1] == ["-c"])
        or "-exec" in texts
        or "-execdir" in texts
    ):
        return (UNKNOWN,)
    if name == "git":
        if texts[:1] == ["rev-parse"] and all(
            word in ("HEAD", "--short", "--verify", "--short=8", "--short=7") for word in texts[1:]
        ):
            return (HARMLESS,)
        for at, word in enumerate(texts):
            match = _ASKS_FORMAT.fullmatch(word if "=" in word else f"{word} {(*texts, '')[at + 1]}")
            if match:
                return (
                    HARMLESS
                    if re.fullmatch(r"(?:%[hHat]{1,2}|[\d -])*", match[1])
                    else UNKNOWN
                    if not _FORMAT.fullmatch(match[1])
                    else FOREIGN,
                )
    if name == "find" and any(word.startswith(("-printf", "-fprintf")) for word in texts):
        return (UNKNOWN,)
    if lists:
        return (HARMLESS,)
    if name in TABLES.filters and not (operands[1:] if "grep" in name or name == "rg" else operands):
        return (UNKNOWN if made_up else HARMLESS if harmless else FOREIGN,)
    if name not in TABLES.sources | TABLES.filters:
        return (UNKNOWN,)
    return (UNKNOWN if made_up and name not in TABLES.filters else FOREIGN,)


def _echo(texts: list[str]) -> tuple[str, ...]:
    options = ""
    while texts and re.fullmatch(r"-[neE]+", texts[0]):
        options += texts.pop(0)
    text = " ".join(texts)
    if "e" in options and "\\" in text:
        return (UNKNOWN,)
    return (text if "n" in options else f"{text}\n",)


def _printf(form: str, texts: list[str]) -> tuple[str, ...]:
    if texts and texts[0] == "--":
        texts = texts[1:]
    if not re.fullmatch(r"(?:[^%\\-]|(?<!^)-|%[s%]|\\[nt])*", form, re.DOTALL):
        return (HARMLESS,) if re.fullmatch(r"(?:[\s\d_.:,-]|%[0-9.]*[dxf]|\\n)*", form) else (UNKNOWN,)
    text = ""
    for _ in range(1000):
        taken = len(texts)

        def filled(match: re.Match[str]) -> str:
            if match[1]:
                return {"n": "\n", "t": "\t"}[match[1]]
            return "%" if match[2] == "%" else texts.pop(0) if texts else ""

        text += _ESCAPE.sub(filled, form)
        if not texts or len(texts) == taken:
            return (text,)
    return (UNKNOWN,)


def _part(name: str, operands: list[str]) -> tuple[str, ...]:
    if not operands or any(FOREIGN in word for word in operands):
        return (FOREIGN,)
    if any(not {UNSET, HERE, HARMLESS}.isdisjoint(word) for word in operands):
        return (HARMLESS if all(set(word) <= {HARMLESS, UNSET, "/"} for word in operands) else UNKNOWN,)
    folder, slash, file = operands[0].rpartition("/")
    if _WILD.search(operands[0]):
        match = _WILD_NAME.fullmatch(file)
        if _WILD.search(folder) or not (match or name == "dirname"):
            return (UNKNOWN,)
        operands = [f"{folder}{slash}0{match[1] if match else ''}", *operands[1:]]
    path = operands[0].rstrip("/") or "/"
    if name == "dirname":
        return (os.path.dirname(path) or ".",) if len(operands) == 1 else (UNKNOWN,)
    base = os.path.basename(path)
    return (
        (base.removesuffix(operands[1]) if len(operands) == 2 and base != operands[1] else base,)
        if len(operands) < 3
        else (UNKNOWN,)
    )
