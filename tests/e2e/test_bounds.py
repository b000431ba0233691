"""Nothing that an agent, a server or a neighbour keeps busy makes adjourn wait without an end."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import NEW, Workspace, refused, text_of
from test_hook_events import SETTLE, Told

RM = {"command": "rm -rf build"}
SECONDS = 45.0
"""More than every bound together takes on a busy machine."""


@contextmanager
def locking(*folders: Path) -> Iterator[None]:
    """Keep folders locked, as `flock tmp sleep 999` does."""
    handles = [os.open(folder, os.O_RDONLY) for folder in folders]
    try:
        for handle in handles:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        for handle in handles:
            os.close(handle)


def test_a_locked_folder_of_pages_does_not_hold_up_a_hook(tmp_path: Path) -> None:
    """A destructive call is decided on, and the person is told that its page was not written and who to look for."""
    with Told(tmp_path, "allow *") as work:
        (work.root / "tmp").mkdir()
        with locking(work.root / "tmp"):
            asked = work.ask("Bash", RM, SETTLE, tool_use_id="u1")
            assert asked.decision == "allow"
            said = json.loads(asked.out)["systemMessage"]
            assert "has no page" in said
            assert "tmp is locked by another process" in said
            ended = work.tell(
                "PostToolUse", tool_name="Bash", tool_input=RM, tool_use_id="u1", tool_response={"ok": True}
            )
            assert "is locked by another process" in json.loads(ended.out)["systemMessage"]
            over = work.tell("SessionEnd", reason="exit")
            assert (over.code, "is locked by another process" in over.out) == (0, True)


def test_locked_folders_do_not_hold_up_a_proxy(tmp_path: Path) -> None:
    """Destructive calls and `aex.checkpoint` are answered without a page; a locked checkpoint's folder is an error that names it."""
    with Workspace(tmp_path, "allow *") as work:
        client = work.client("--task", "t", era=NEW)
        client.meta("aex.checkpoint", name="kept")
        with locking(work.root / "tmp"):
            assert not refused(client.answer(client.begin("deploy.run"), SECONDS))
            made = client.answer(client.begin("aex.checkpoint", {"name": "again"}), SECONDS)
            told = json.loads(text_of(made))
            assert told["path"] == ".aex/checkpoints/again/"
            assert "is locked by another process" in told["warnings"][0]
        with locking(work.root / ".aex" / "checkpoints" / "kept"):
            assert not refused(client.answer(client.begin("deploy.run"), SECONDS))
            failed = client.answer(client.begin("aex.checkpoint", {"name": "kept"}), SECONDS)
            assert "checkpoints/kept is locked by another process" in text_of(failed)
        assert "warnings" not in client.meta("aex.checkpoint", name="kept")
