"""Mistakes that people make, with what adjourn answers: `python tests/mistakes.py` rewrites the answers in tests/data/mistakes.

Each file is read from top to bottom, as a set. A mistake is one or more lines that begin with `> ` (a line in an otherwise correct
document, whose lines stand behind `| ` at the top of the file), `>> ` (the lines of a whole document), or `$ ` (a command). The lines
below it are the answer.

Owns: the form of these files, and making an answer. Must never: judge one.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from adjourn import aex
from adjourn.aex.json_policy import read_json_policy
from adjourn.cli.app import main as adjourn
from adjourn.errors import UsageError
from adjourn.hooks import options as hook_options
from adjourn.proxy import options as proxy_options

FOLDER = Path(__file__).parent / "data" / "mistakes"
_MARKS = ("> ", ">> ", "$ ")


class Mistake(NamedTuple):
    """What was written, and what is answered. `context` is the document around it."""

    context: tuple[str, ...]
    written: tuple[str, ...]
    answer: str

    @property
    def name(self) -> str:
        return " / ".join(self.written)


def read(path: Path) -> Iterator[Mistake]:
    """The mistakes of a file, which are separated by blank lines."""
    head, *blocks = path.read_text("utf-8").strip("\n").split("\n\n")
    context = tuple(line[2:] for line in head.splitlines() if line.startswith("|"))
    for block in blocks:
        lines = block.splitlines()
        written = tuple(line for line in lines if line.startswith(_MARKS))
        yield Mistake(context, written, "\n".join(lines[len(written) :]))


def answer(mistake: Mistake) -> str:
    """What adjourn answers to a mistake."""
    first = mistake.written[0]
    if first.startswith("$ "):
        return answer_of_command(shlex.split(first[2:])[1:])
    whole = first.startswith(">> ")
    lines = [line[3 if whole else 2 :] for line in mistake.written]
    place = mistake.context.index("...") if "..." in mistake.context else len(mistake.context)
    around = () if whole else mistake.context
    text = "\n".join([*around[:place], *lines, *around[place + 1 :]]) + "\n"
    if text.startswith("{"):
        return _json_policy(text)
    return "\n".join(aex.render(found) for found in aex.examine(text).findings) or "no finding"


def _json_policy(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "policy.json")
        path.write_text(text, "utf-8")
        found = read_json_policy(str(path), folder, "policy.json").findings
    return "\n".join(aex.render(each) for each in found) or "no finding"


def answer_of_command(arguments: list[str]) -> str:
    """What a command prints on stderr, and how it ends."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _run(arguments)
    text = "\n".join(line.rstrip() for line in err.getvalue().splitlines())
    return f"{text or out.getvalue().rstrip()}\nexit code {code}"


def _run(arguments: list[str]) -> int:
    edges = {"proxy": proxy_options.parse, "hook": hook_options.parse}
    if arguments[0] not in edges:
        return adjourn(arguments)
    try:
        edges[arguments[0]](arguments[1:])
    except UsageError as error:
        print(f"adjourn: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def rewritten(path: Path) -> str:
    """The text of a file with the answers as they are now."""
    head = path.read_text("utf-8").partition("\n\n")[0]
    blocks = ("\n".join([*mistake.written, answer(mistake)]) for mistake in read(path))
    return "\n\n".join([head, *blocks]) + "\n"


if __name__ == "__main__":
    for file in sorted(FOLDER.glob("*.txt")):
        file.write_text(rewritten(file), "utf-8")
