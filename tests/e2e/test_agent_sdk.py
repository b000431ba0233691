"""A program on the Claude Agent SDK: its calls are decided on and written down by the hooks of its workspace.

The SDK is the real one, with the Claude Code that it carries; the model is a script on loopback.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.log.event import decode
from adjourn.log.kinds import data_of
from adjourn.tasks.task import tasks_of
from adjourn.verification.verify import verify_task
from support import tools
from support.missing import is_missing
from support.real.clients import CLAUDE
from support.real.model import Use, running

POLICY = """\
policy workspace v0
goal "Read the notes."
use file.*
deny file.write
budget calls=9
"""
PROGRAM = """\
import asyncio, json, sys
from claude_agent_sdk import ClaudeAgentOptions, query

async def main():
    options = ClaudeAgentOptions(
        cwd=".", setting_sources=json.loads(sys.argv[1]), permission_mode="bypassPermissions", max_turns=6
    )
    async for message in query(prompt="Read the notes", options=options):
        print(message)

asyncio.run(main())
"""


@pytest.fixture
def python() -> str:
    found = tools.python_program("python", "agent-sdk")
    if found is None:
        is_missing("the Claude Agent SDK is not installed: python tests/support/tools.py --clients")
    return found[0]


@pytest.mark.parametrize("sources", [["project"], []])
def test_the_hooks_of_the_workspace_run(
    sources: list[str], python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the project's settings each call is decided on and in the chain; without them, nothing is checked."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    work, home = tmp_path / "work", tmp_path / "home"
    (work / ".aex").mkdir(parents=True)
    (work / ".claude").mkdir()
    home.mkdir()
    (work / "notes.txt").write_text("three notes")
    (work / ".aex" / "policy.aex").write_text(POLICY)
    hook = {"type": "command", "command": f"{Path(sys.executable).with_name('adjourn')} hook", "timeout": 30}
    (work / ".claude" / "settings.json").write_text(
        json.dumps({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}})
    )
    script = [
        Use("Read", {"file_path": str(work / "notes.txt")}, own=True),
        Use("Write", {"file_path": str(work / "new.txt"), "content": "x"}, own=True),
    ]
    with running(script, "none") as model:
        environment = CLAUDE.full_environment(home, model.address)
        environment |= {"ADJOURN_CONFIG": str(tmp_path / "config"), "IS_SANDBOX": "1"}
        ended = subprocess.run(
            [python, "-c", PROGRAM, json.dumps(sources)],
            cwd=work, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "three notes" in model.results[0]
    assert (work / "new.txt").exists() is (not sources)
    if not sources:
        return
    assert "denied by policy" in model.results[1]
    store = open_at(str(work))
    try:
        (task,) = tasks_of(store)
        facts = [data_of(decode(entry.data)) for entry in store.read(task)]
        assert [fact.tool for fact in facts if isinstance(fact, kinds.ToolAllowed)] == ["file.read"]
        assert [fact.tool for fact in facts if isinstance(fact, kinds.ToolDenied)] == ["file.write"]
        assert verify_task(store, task).tasks[0].findings == []
    finally:
        store.close()
