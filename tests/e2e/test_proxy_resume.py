"""aex.resume: published fields and their order, pages of bounded size, and the checkpoints that it refuses."""

from __future__ import annotations

from pathlib import Path

from support.proxy import ProxyWorkspace, refused, text_of
from support.requirements import requirement


@requirement("D4")
def test_a_checkpoint_of_another_user_needs_a_persons_trust(tmp_path: Path) -> None:
    """A checkpoint that an untrusted key signed is not resumed."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client(env={"ADJOURN_CONFIG": str(tmp_path / "bob")})
        client.call("echo")
        client.meta("aex.checkpoint", name="a")
        client.close()
        client = work.client("--store", "other.db", foreign=True)
        answer = client.call("aex.resume", {"name": "a"})
        assert refused(answer)
        assert "not trusted" in text_of(answer)
