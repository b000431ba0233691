"""Running git: commands that take too long."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from adjourn.code.repository import Git, GitError
from support.processes import is_running


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """git and its hook are gone, the lock that it held is, too, and the next command works."""
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env=environment)
    hook, mark = tmp_path / ".git/hooks/pre-commit", tmp_path / "pid"
    hook.write_text(f"#!/bin/sh\necho $$ >'{mark}'\nsleep 60 >/dev/null\n")
    hook.chmod(0o755)
    git = Git(str(tmp_path))
    who = {"GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e", "GIT_COMMITTER_NAME": "n", "GIT_COMMITTER_EMAIL": "e"}
    with pytest.raises(GitError, match="timed out"):
        git.run("commit", "--allow-empty", "-q", "-m", "m", environment=who, seconds=2)
    pid = int(mark.read_text())
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)
    assert list((tmp_path / ".git").glob("*.lock")) == []
    hook.unlink()
    git.run("commit", "--allow-empty", "-q", "-m", "m", environment=who)
