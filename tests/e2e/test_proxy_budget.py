"""The budget reaches the agent: a line in an answer at 75 % and 90 %, and one last checkpoint when it is spent."""

from __future__ import annotations

import json
from pathlib import Path

from support.proxy import ProxyWorkspace, refused


def test_racing_and_killed_proxies_count_each_call_of_the_workspace_once(tmp_path: Path) -> None:
    """Two proxies on two tasks call at once, one is killed with calls in flight: the count is that of the recorded intents."""
    with ProxyWorkspace(tmp_path, "allow *", "budget calls=60 per day", version="v1") as work:
        clients = [work.client("--task", task) for task in ("one", "two")]
        for number in range(40):
            for client in clients:
                client.begin("write", {"n": number})
        clients[0].kill()
        while not refused(clients[1].call("write", {"n": "more"})):
            pass
        allowed = sum(len(work.facts("tool.allowed", task)) for task in ("one", "two"))
        assert allowed == 60
        assert len(work.executed()) <= 60
        with work.store() as store:
            counted = json.loads(store.ref("budget/calls/86400") or "[]")
        assert sum(calls for _, calls in counted) == allowed
