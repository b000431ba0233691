"""What programs print, as far as a line determines it: needed for `$(…)`, for pipes and for what `read` reads.

Must never: run a program, or take for known what it cannot compute.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from adjourn.policy.shell.syntax import FOREIGN, HARMLESS, HERE, UNKNOWN, UNSET
from adjourn.policy.shell.tables import TABLES

_FORMAT = re.compile(r"(?:%[A-Za-z]{1,2}|[\s\d_:T.,/|Z+-])*")
_ASKS_FORMAT = re.compile(r"--(?:format|pretty)[= ](?:format:)?(.*)", re.DOTALL)
_WILD = re.compile(r"[*?[]")
_WILD_NAME = re.compile(r"\*((?:\.\w+)*\.(?!aex|db|json|toml|key|pub)\w+)")
_ESCAPE = re.compile(r"\\(.)|%(.)")


def printed_by(
    name: str,
    rest: Sequence[str],
    given: tuple[str, ...],
    processes: Mapping[str, tuple[str, ...]],
    *,
    lists: bool,
) -> tuple[str, ...]:
    """The texts that a program may print. `given` is what it reads, `processes` what `<(…)` has; `lists`: names that it lists matter to nobody."""
    name = os.path.basename(name)
    given = given or (FOREIGN,)
    operands = [word for word in rest if word[:1] != "-"]
    if name in TABLES.silent:
        return ("",)
    if name == "echo":
        return _echo(list(rest))
    if name == "printf" and rest:
        return _printf(rest[0], list(rest[1:]))
    if name in ("cat", "tee"):
        if name == "cat" and len(operands) == 1 and operands[0] in processes:
            return processes[operands[0]]
        return given if name == "tee" or not operands else (FOREIGN,)
    if any(UNKNOWN in word for word in rest):
        return (UNKNOWN,)
    if name == "pwd" or (name == "git" and list(rest) == ["rev-parse", "--show-toplevel"]):
        return (HERE,)
    if name in ("basename", "dirname"):
        return _part(name, operands)
    if name in ("which", "type") or (name == "command" and rest[:1] in (["-v"], ["-V"])):
        return (f"/usr/bin/{operands[0]}",) if len(operands) == 1 else (UNKNOWN,)
    if name == "mktemp":
        fine = (
            all(re.fullmatch(r"-[dqt]+|[\w/.-]*X{3,}[\w.]*|[\w-]+", word) for word in rest)
            and len(operands) < 2
        )
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
        or (name in ("grep", "rg") and any(re.fullmatch(r"-\w*c\w*", word) for word in rest))
    ):
        return (HARMLESS,)
    made_up = bool(set("".join(given)) - {FOREIGN, HARMLESS, "0", "\n", " "})
    harmless = not made_up and FOREIGN not in "".join(given)
    simple = TABLES.plain_arguments.get("awk" if name == "gawk" else name)
    if (
        simple is not None
        and not made_up
        and all(re.fullmatch(simple, word) for word in (rest if name in ("tr", "column", "nl") else rest[:2]))
    ):
        return (HARMLESS if harmless else FOREIGN,)
    if (
        name in TABLES.composers
        or (name == "docker" and {"run", "exec"} & set(rest))
        or (name == "git" and rest[:1] == ["-c"])
        or "-exec" in rest
        or "-execdir" in rest
    ):
        return (UNKNOWN,)
    if name == "git":
        if rest[:1] == ["rev-parse"] and all(
            word in ("HEAD", "--short", "--verify", "--short=8", "--short=7") for word in rest[1:]
        ):
            return (HARMLESS,)
        for at, word in enumerate(rest):
            match = _ASKS_FORMAT.fullmatch(word if "=" in word else f"{word} {(*rest, '')[at + 1]}")
            if match:
                return (
                    HARMLESS
                    if re.fullmatch(r"(?:%[hHat]{1,2}|[\d -])*", match[1])
                    else UNKNOWN
                    if not _FORMAT.fullmatch(match[1])
                    else FOREIGN,
                )
    if name == "find" and any(word.startswith(("-printf", "-fprintf")) for word in rest):
        return (UNKNOWN,)
    if lists:
        return (HARMLESS,)
    if name in TABLES.filters and not (operands[1:] if "grep" in name or name == "rg" else operands):
        return (UNKNOWN if made_up else HARMLESS if harmless else FOREIGN,)
    if name not in TABLES.sources | TABLES.filters:
        return (UNKNOWN,)
    return (UNKNOWN if made_up and name not in TABLES.filters else FOREIGN,)


def _echo(rest: list[str]) -> tuple[str, ...]:
    options = ""
    while rest and re.fullmatch(r"-[neE]+", rest[0]):
        options += rest.pop(0)
    text = " ".join(rest)
    if "e" in options and "\\" in text:
        return (UNKNOWN,)
    return (text if "n" in options else f"{text}\n",)


def _printf(form: str, rest: list[str]) -> tuple[str, ...]:
    if rest and rest[0] == "--":
        rest = rest[1:]
    if not re.fullmatch(r"(?:[^%\\-]|(?<!^)-|%[s%]|\\[nt])*", form, re.DOTALL):
        return (HARMLESS,) if re.fullmatch(r"(?:[\s\d_.:,-]|%[0-9.]*[dxf]|\\n)*", form) else (UNKNOWN,)
    found = ""
    for _ in range(1000):
        taken = len(rest)

        def filled(match: re.Match[str]) -> str:
            if match[1]:
                return {"n": "\n", "t": "\t"}[match[1]]
            return "%" if match[2] == "%" else rest.pop(0) if rest else ""

        found += _ESCAPE.sub(filled, form)
        if not rest or len(rest) == taken:
            return (found,)
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
