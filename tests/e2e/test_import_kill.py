"""An import whose process is killed: the checkpoint is whole or absent, and a repeated import completes it."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.proxy import ProxyWorkspace
from support.terminal import at_terminal

KILLED = """
import os, signal, sys
from adjourn.cli.app import main
from adjourn.handover import importing
from adjourn.store.sqlite import SqliteStore

left = int(sys.argv[1])
importing._CHUNK = 3  # so that a short history has many

def before(write):
    def step(*words, **options):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return write(*words, **options)
    return step

for name in ("append", "swap", "put_blob"):
    setattr(SqliteStore, name, before(getattr(SqliteStore, name)))
sys.exit(main(sys.argv[2:]))
"""
MOST = 10
"""Writes of an import, at the most."""


@pytest.fixture
def colleague(tmp_path: Path) -> Iterator[CommandLine]:
    """Another person's workspace and keys."""
    with ProxyWorkspace(tmp_path / "colleague", "use echo") as workspace:
        yield CommandLine(workspace.root, workspace.config)


def test_an_import_that_is_killed_before_any_of_its_writes_is_completed_by_the_next(
    context: CommandLine, colleague: CommandLine, tmp_path: Path
) -> None:
    """The name stands for no checkpoint until all of its history is there. Then it is the one that was sent, and verified."""
    sent = tmp_path / "sent"
    context.ok("checkpoint", "export", "fix-auth", "--to", str(sent))
    steps = 0
    for step in range(MOST):
        shutil.rmtree(colleague.root / ".aex", ignore_errors=True)
        command = [sys.executable, "-c", KILLED, str(step), "checkpoint", "import", str(sent)]
        done = at_terminal(command, cwd=colleague.root, env=colleague.environment)
        if done.returncode == 0:
            break
        assert done.returncode == 128 + signal.SIGKILL, done
        steps += 1
        names = [one["name"] for one in colleague.run("checkpoint", "list", "--json").json["checkpoints"]]
        assert names == []
        again = colleague.ok("checkpoint", "import", str(sent))
        assert again.out.startswith("imported fix-auth: ")
        assert colleague.ok("resume", "fix-auth", "--json").json["callsUsed"] == 2
        assert colleague.ok("verify", "--json").json["valid"]
    assert 3 <= steps < MOST  # two parts of the history, and its end with the names
