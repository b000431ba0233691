"""A policy that only observes, as people see it in the proxy's log; and one that is edited while a proxy runs."""

from __future__ import annotations

from pathlib import Path

from support.proxy import ProxyWorkspace, refused, wait_for
from support.requirements import requirement


@requirement("V1 observe")
def test_the_log_says_that_the_policy_only_observes(tmp_path: Path) -> None:
    """A proxy under `mode observe` says at its start that nothing is blocked."""
    with ProxyWorkspace(tmp_path, "mode observe", "deny echo", version="v1") as work:
        client = work.client()
        assert not refused(client.call("echo"))
        assert "mode observe: nothing is blocked" in client.stderr()


@requirement("V1 reload")
def test_a_running_proxy_sees_an_edit_by_itself(tmp_path: Path) -> None:
    """A proxy decides by the edited file soon after it was written, and tells its client that the tools changed."""
    with ProxyWorkspace(tmp_path, "allow echo", version="v1") as work:
        client = work.client()
        assert "echo" in client.tools()
        assert not refused(client.call("echo"))
        work.write_policy("allow file.read")
        assert refused(client.call("echo"))
        wait_for(lambda: any(b"notifications/tools/list_changed" in line for line in client.received))
