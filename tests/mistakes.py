"""Mistakes that people make, with what adjourn answers: `python tests/mistakes.py` rewrites the answers in tests/data/mistakes.

Each file is read from top to bottom, as a set. A mistake is one or more lines that begin with `> ` (a line in an otherwise correct
document, whose lines stand behind `| ` at the top of the file), `>> ` (the lines of a whole document), or `$ ` (a command). The lines
below it are the answer.

Owns: the form of these files, and making an answer. Must never: judge one.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from adjourn import aex
from adjourn.aex.json_policy import read_json_policy
from adjourn.cli.app import aex_group, group
from adjourn.cli.app import main as adjourn
from adjourn.clients.options import parse_hook, parse_proxy
from adjourn.errors import UsageError
from adjourn.host import own_settings, process
from adjourn.host.clock import now
from adjourn.host.finding import DEFAULT_STORE
from adjourn.host.keys import secret
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.session import Session
from adjourn.tasks.task import Task
from support.task_sessions import DEPLOY, POLICY, READ

FOLDER = Path(__file__).resolve().parent / "data" / "mistakes"
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


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A folder to run commands in, whose store has a task with a checkpoint and a call that waits for approval."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), mock.patch.dict(os.environ):
        settings = Path(folder, "home", own_settings.SETTINGS)
        settings.parent.mkdir(parents=True)
        settings.write_text("allow-unattended = true\nallow-inside-client = true\n", "utf-8")
        for name in [name for name in os.environ if name.startswith(("ADJOURN_", "AEX_"))]:
            del os.environ[name]
        os.environ |= {"ADJOURN_CONFIG": f"{folder}/config", "COLUMNS": "120"}
        root = Path(folder, "work")
        (root / ".aex").mkdir(parents=True)
        os.chdir(root)
        store = SqliteStore(root / DEFAULT_STORE)
        task = Task(store, "release-42", clock=now, secret=secret())
        session = Session(
            task,
            POLICY,
            SessionIdentity(process.current(), "g1", client="claude-code"),
            policy_text=b"policy",
            contract_text=b"",
        )
        session.open()
        session.admit([READ, DEPLOY])
        store.close()
        with mock.patch.object(own_settings, "home", return_value=f"{folder}/home"):
            assert adjourn(["checkpoint", "write", "release-42", "--name", "before-tests", "-m", "Test."]) == 0
            yield root


def answer(mistake: Mistake) -> str:
    """What adjourn answers to a mistake."""
    first = mistake.written[0]
    if first.startswith("$ "):
        return answer_of_command(shlex.split(first[2:]))
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
    program, *arguments = arguments
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _run(program, arguments)
    text = "\n".join(line.rstrip() for line in err.getvalue().splitlines())
    return f"{text or out.getvalue().rstrip()}\nexit code {code}"


def _run(program: str, arguments: list[str]) -> int:
    edges = {"proxy": parse_proxy, "hook": parse_hook}
    if arguments[:1] not in ([each] for each in edges):
        return adjourn(arguments, program, aex_group if program == "aex" else group)
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
    with workspace():
        for file in sorted(FOLDER.glob("*.txt")):
            file.write_text(rewritten(file), "utf-8")
