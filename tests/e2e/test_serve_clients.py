"""Clients of other makers over HTTP: the TypeScript SDK in both eras, Claude Code and Codex, and the gateway killed under their calls.

The coding agents are large, and installed on request only: `python tests/support/tools.py --clients`. Their models are scripts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types

from support import tools
from support.gateway import GatewayWorkspace, text_of
from support.missing import is_missing
from support.proxy import wait_for
from support.real.clients import CLAUDE, CODEX, SERVER, Agent
from support.real.model import Model, Script, Use, running
from support.terminal import at_terminal

RULES = ("allow up.echo, up.write, up.slow", "deny up.drop", "confirm before up.write", "budget calls=20")
PROGRAM = Path(__file__).parents[1] / "support" / "typescript_client.mjs"
SDK = tools.TOOLS / "sdk/node_modules/@modelcontextprotocol/client/dist/index.mjs"
TASK = "/up/t/ship/mcp"
SECONDS = 40.0
PAIRS = [pytest.param(CLAUDE, CODEX, id="claude-then-codex"), pytest.param(CODEX, CLAUDE, id="codex-then-claude")]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[GatewayWorkspace]:
    with GatewayWorkspace(tmp_path, *RULES) as workspace:
        yield workspace


def started(
    work: GatewayWorkspace, mode: str, name: str, *calls: tuple[str, object], answer: str = ""
) -> subprocess.Popen[str]:
    """The program with the TypeScript SDK. Skips where it is not installed, except in CI."""
    node = tools.node()
    if node is None or not SDK.exists():
        missing = "the TypeScript SDK is not installed: run `python tests/support/tools.py`"
        is_missing(missing)
    words = [str(node), str(PROGRAM), str(SDK), work.url(TASK), mode, name, json.dumps(calls)]
    environment = {**os.environ, "ANSWER": answer}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def said(program: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, errors = program.communicate(timeout=60)
    assert program.returncode == 0, errors
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_client_of_the_typescript_sdk_works_and_continues(work: GatewayWorkspace, mode: str) -> None:
    """It lists, calls, sees progress and confirms. The gateway is killed in a call, which the next client finds in doubt."""
    calls = [("echo", {"text": "hi"}), ("write", {"text": "one"}), ("drop", {}), ("aex.checkpoint", {"name": "half"})]
    program = started(work, mode, "first", *calls, ("slow", {"text": "two"}))
    wait_for(lambda: work.called() == ["one", "two"], SECONDS)
    work.stop(signal.SIGKILL)
    listed, echoed, written, dropped, saved, slow = said(program)
    assert listed["tools"][:3] == ["echo", "write", "slow"]
    assert (echoed["text"], echoed["progress"]) == ("hi", ["half"])
    assert (written["text"], written["asked"]) == ("written", 1)
    assert dropped["isError"]
    assert "half" in saved["text"]
    assert "failed" in slow

    work.start()
    calls = [("aex.resume", {"name": "half"}), ("slow", {"text": "two"}), ("echo", {"text": "on"})]
    resumed, again, echoed = continued(work, mode, calls)
    assert [doubt["tool"] for doubt in json.loads(resumed["text"])["inDoubt"]] == ["slow"]
    assert "in doubt" in again["text"]
    assert echoed["text"] == "on"
    assert work.called() == ["one", "two"]
    assert work.adjourn("verify").startswith("valid: 1 task")


def continued(work: GatewayWorkspace, mode: str, calls: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The answers to the next client, which declines what it is asked: of the Python SDK, or in the handshake era of TypeScript's."""
    if mode == "legacy":
        return said(started(work, mode, "second", *calls, answer="decline"))[1:]

    async def decline(context: Any, params: Any) -> types.ElicitResult:
        del context, params
        return types.ElicitResult(action="decline")

    async def session(client: Client) -> list[dict[str, Any]]:
        return [{"text": text_of(await client.call_tool(tool, given))} for tool, given in calls]

    return work.run(session, TASK, mode=mode, elicitation_callback=decline)


@contextmanager
def at_work(
    agent: Agent, work: GatewayWorkspace, script: Script, *, answers: bool
) -> Iterator[tuple[subprocess.Popen[bytes], Model]]:
    """An agent that reaches the gateway over HTTP; killed at the end, if it still runs. `answers`: it says yes where it can be asked."""
    home = work.root.parent / "home" / agent.name
    (home / ".claude").mkdir(parents=True, exist_ok=True)
    hooks = {"Elicitation": [{"hooks": [YES]}]} if answers else {}
    (home / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    with running(script, SERVER) as model:
        process = agent.start(work.root, home, model.address, [work.url(TASK)], {})
        try:
            yield process, model
        finally:
            process.kill()
            process.wait()


YES = {
    "type": "command",
    "command": "echo '"
    + json.dumps({
        "hookSpecificOutput": {"hookEventName": "Elicitation", "action": "accept", "content": {"decision": "yes"}}
    })
    + "'",
}  # fmt: skip
"""What a person sets up in Claude Code, so that it answers questions without being at the screen."""


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_coding_agent_continues_over_http_where_another_was_cut_off(
    first: Agent, second: Agent, work: GatewayWorkspace
) -> None:
    """Lists, calls, confirms in its own way; the gateway is killed in a call; the other agent resumes, and repeats nothing."""
    missing = [agent.name for agent in (CLAUDE, CODEX) if agent.program() is None]
    if missing:
        is_missing(f"{' and '.join(missing)} not installed: python tests/support/tools.py --clients")

    def approved(context: str) -> dict[str, Any]:
        """The same call again, once a person has approved it elsewhere, where the client itself could not ask."""
        if found := re.findall(r"adjourn approve ([\w-]+)", context):
            words = [sys.executable, "-m", "adjourn", "approve", found[-1]]
            done = at_terminal(words, cwd=work.root, env=work.environment)
            assert done.returncode == 0, done.stderr
        return {"text": "one"}

    begin = [
        Use("echo", {"text": "hi"}),
        Use("write", {"text": "one"}),
        *([Use("write", approved)] if first is CODEX else []),
        Use("aex.checkpoint", {"name": "half"}),
        Use("slow", {"text": "two"}),
    ]
    with at_work(first, work, begin, answers=True) as (process, model):
        wait_for(lambda: work.called() == ["one", "two"] or process.poll() is not None, SECONDS)
        assert work.called() == ["one", "two"], "\n".join(map(str, model.results.items())) + model.context[-3000:]
        work.stop(signal.SIGKILL)
        wait_for(lambda: process.poll() is not None, SECONDS)
    assert "hi" in model.results[0]

    work.start()
    go_on = [Use("aex.resume", {"name": "half"}), Use("slow", {"text": "two"}), Use("echo", {"text": "on"})]
    with at_work(second, work, go_on, answers=False) as (process, model):
        wait_for(lambda: process.poll() is not None, SECONDS)
    assert len(model.results) == len(go_on), model.results
    told = json.loads(model.results[0][model.results[0].index("{") : model.results[0].rindex("}") + 1])
    assert [doubt["tool"] for doubt in told["inDoubt"]] == ["slow"]
    assert "in doubt" in model.results[1]
    assert "on" in model.results[2]
    assert work.called() == ["one", "two"]
    assert work.adjourn("verify").startswith("valid: 1 task")
