"""The week of work that tests of the page use: the code that records real work makes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adjourn.host.clock import now
from support.week import make_week


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return dict(os.environ)


def adjourn(root: Path, environment: dict[str, str], *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "adjourn", *arguments],
        cwd=root, env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def test_the_week_is_a_history_like_any_other(tmp_path: Path, environment: dict[str, str]) -> None:
    """It verifies; there are three tasks of two clients, a merge, a refusal, a call in doubt, and questions of every kind."""
    root = tmp_path / "acme-api"
    make_week(root, now())
    assert adjourn(root, environment, "verify").startswith("valid: 3 tasks")
    tasks = {one["task"]: one for one in json.loads(adjourn(root, environment, "tasks", "--json"))["tasks"]}
    assert tasks.keys() == {"release-1-3", "invoices-schema", "tax-rates"}
    waiting = json.loads(adjourn(root, environment, "inbox", "--json"))["waiting"]
    assert sorted(one["kind"] for one in waiting) == [
        "approval", "approval", "decision", "in-doubt", "question", "resume-point",
    ]  # fmt: skip
    log = adjourn(root, environment, "log", "release-1-3", "--json")
    events = [json.loads(line) for line in log.splitlines()]
    assert "tool.denied" in {event["event"] for event in events}
    clients = {event["data"]["client"] for event in events if event["event"] == "session.opened"}
    assert clients == {"claude-code", "codex"}
