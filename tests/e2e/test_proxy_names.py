"""Names with servers at the proxy: rules of the form SERVER.TOOL take effect, and so does the short form."""

from __future__ import annotations

from pathlib import Path

from support.proxy import ProxyWorkspace


def test_a_name_that_is_none_is_wrong_usage(tmp_path: Path) -> None:
    """A server's name needs a letter or a digit: the proxy says so, and starts nothing."""
    with ProxyWorkspace(tmp_path, "use *") as workspace:
        client = workspace.client("--name", "--", greet=False)
        assert client.process.wait(10) == 2
        assert "--name takes a server's name" in client.stderr()
        assert workspace.forwarded() == []
