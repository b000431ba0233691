"""What a proxy says of waiting work as it greets: in both eras, and only when there is some that could be resumed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.proxy import ProxyWorkspace


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, "use echo", "budget calls=9") as work:
        yield work


def said(greeting: dict[str, object]) -> str:
    result = greeting["result"]
    assert isinstance(result, dict)
    return str(result.get("instructions", ""))


def test_archived_work_that_is_noted_for_waits_again(work: ProxyWorkspace) -> None:
    """What was put away is not offered, until somebody writes something down in it."""
    first = work.client()
    first.call("echo", {"a": 1})
    first.meta("adjourn.note", facts=["it rains"])
    first.meta("aex.checkpoint", name="milk")
    first.close()
    [task] = [name for name in work.tasks() if "/" not in name]
    subprocess.run(
        [sys.executable, "-m", "adjourn", "page", "archive"],
        cwd=work.root, env=work.environment, capture_output=True, check=True, timeout=30,
    )  # fmt: skip
    assert said(work.client(foreign=True).greeting) == ""
    again = work.client("--task", task)
    again.meta("adjourn.note", facts=["it stopped"])
    again.kill()
    assert "unfinished work" in said(work.client(foreign=True).greeting)


def test_the_brief_of_a_session_s_start_holds_what_the_agent_noted(work: ProxyWorkspace) -> None:
    """Decisions and facts of the task's record are in it, fenced, beside the goal and what is to be resumed."""
    first = work.client()
    first.call("echo", {"a": 1})
    first.meta("adjourn.note", decisions=[{"decision": "Use SQLite"}], facts=["The parser is in p.py."])
    first.close()
    done = subprocess.run(
        [sys.executable, "-m", "adjourn", "hook", "--settle", "--proxied", "files"],
        input=json.dumps({"hook_event_name": "SessionStart", "cwd": str(work.root)}),
        cwd=work.root, env=work.environment, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    told = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    lines = told.splitlines()
    assert [line[:2] for line in lines if "Use SQLite" in line] == ["| "]
    assert any("The parser is in p.py." in line for line in lines)
    assert "mcp__files__aex_resume" in told
    assert len(told.encode()) <= 8192
