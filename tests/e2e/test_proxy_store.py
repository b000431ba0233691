"""When nothing can be written, nothing with an effect is called; and what no call may touch, whatever the policy says."""

from __future__ import annotations

from pathlib import Path

from support.proxy import ProxyWorkspace

# --- what no call may touch


def test_without_a_folder_for_keys_calls_are_refused_with_the_reason(tmp_path: Path) -> None:
    """Nothing that could not be sealed is forwarded, the answer names the file and the remedy, and the proxy lives."""
    with ProxyWorkspace(tmp_path, "use *") as workspace:
        client = workspace.client(env={"ADJOURN_CONFIG": "/proc/nowhere"})
        refused = client.call("echo", {"text": "x"})["result"]
        assert refused["isError"]
        assert "/proc/nowhere/keys/secret" in refused["content"][0]["text"]
        assert "ADJOURN_CONFIG" in refused["content"][0]["text"]
        assert workspace.executed() == []
        assert client.close() == 0
