"""A server that exits, or is never started: what the client receives."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from support.proxy import MODERN, NEW, ProxyWorkspace

FAILS = """
import sys
for number in range(50):
    print("line", number, file=sys.stderr)
print("cannot read config.json: password=hunter2hunter2 \\x1b[31m", file=sys.stderr)
sys.exit(2)
"""
SAYS = "the MCP server exited with code 2 (stderr: "


def failing(work: ProxyWorkspace) -> list[str]:
    script = work.root.parent / "fails.py"
    script.write_text(FAILS)
    return [sys.executable, str(script)]


@pytest.mark.parametrize("era", [NEW, MODERN])
@pytest.mark.parametrize("pause", [0.0, 0.6])
def test_a_server_that_exits_at_once_reaches_the_client_with_its_reason(tmp_path: Path, era: str, pause: float) -> None:
    """Exit code and the last lines of stderr are in the error of the first request, before and after the server exited."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(upstream=failing(work), era=era, greet=False)
        time.sleep(pause)
        first = client.message("initialize" if era == NEW else "tools/list")
        client.post(first)
        error = client.answer(first["id"])["error"]
        assert error["code"] == -31001
        assert SAYS in error["message"]
        assert "line 49" in error["message"]
        assert "line 45" not in error["message"]
        assert "hunter2" not in error["message"]
        assert "\x1b" not in error["message"]
        assert client.ended() == 1
        assert "line 0\n" in client.stderr()


def test_a_request_that_comes_after_the_server_exited_is_told_too(tmp_path: Path) -> None:
    """For a second, the proxy answers with the same reason, so that a client that retries learns it."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        for request in (client.begin("crash", {"code": 7}), client.begin("echo", {"a": 1})):
            message = client.answer(request)["error"]["message"]
            assert "the MCP server exited with code 7 (stderr: crashing)" in message
        client.post(late := client.message("tools/list"))
        assert "exited with code 7" in client.answer(late["id"])["error"]["message"]
        assert client.ended() == 1


@pytest.mark.parametrize("option", ["", "--contract"])
def test_under_a_broken_policy_no_server_is_started(tmp_path: Path, option: str) -> None:
    """The policy and the contract are checked first: a server has effects of its own as it starts."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        mark = work.root / "started"
        (work.root / "broken.aex").write_text("task t v0\nallow [\n")
        if not option:
            work.write_policy("allow [")
        command = [sys.executable, "-c", f"open({str(mark)!r}, 'w')"]
        client = work.client(*([option, "broken.aex"] if option else []), upstream=command, greet=False)
        client.post(first := client.message("initialize"))
        assert "in the policy or contract" in client.answer(first["id"])["error"]["message"]
        assert client.ended() == 1
        assert not mark.exists()
