"""Nothing that an agent, a server or a neighbour keeps busy makes adjourn wait without an end."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.hooks import SETTLE, HookEventWorkspace
from support.processes import children
from support.proxy import NEW, ProxyWorkspace, refused, text_of

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
    """A destructive call is decided on, and the person learns that its page was not written and who to look for."""
    with HookEventWorkspace(tmp_path, "allow *") as work:
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
    with ProxyWorkspace(tmp_path, "allow *") as work:
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
        assert "has no page" in client.meta("aex.checkpoint", name="kept")["warnings"][0]
        assert "warnings" not in client.meta("aex.checkpoint", name="kept")


def test_a_frozen_database_does_not_hold_up_a_proxy(
    tmp_path: Path, postgres_server: Any, new_postgres_url: Callable[[], str]
) -> None:
    """Calls with effects are refused, `ping` and calls that only read pass, each within a bound."""
    url = new_postgres_url() + "%20-cstatement_timeout%3D500&connect_timeout=2"
    postmaster = int(Path(postgres_server.folder, "data", "postmaster.pid").read_text().split()[0])
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client("--store", url, "--task", "t", era=NEW)
        assert not refused(client.call("echo"))
        stopped = [postmaster, *children(postmaster)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            call, ping, reading = (client.begin("deploy.run"), client.message("ping"), client.call_message("file.read"))
            client.post(ping, reading)
            assert "store" in text_of(client.answer(call, SECONDS))
            assert client.answer(ping["id"], SECONDS)["result"] == {}
            assert not refused(client.answer(reading["id"], SECONDS))
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        assert work.executed() == ["echo", "file.read"]


def test_a_hook_that_cannot_decide_in_time_refuses() -> None:
    """Whatever it waits for: the client would continue without an answer after 30 seconds."""
    script = (
        "import time; from adjourn.hooks import main; main.ANSWER_SECONDS = 1; "
        "main._decide = lambda *_: time.sleep(60); raise SystemExit(main.run([]))"
    )
    asked = json.dumps({"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {}})
    done = subprocess.run(
        [sys.executable, "-c", script], input=asked, capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "could not be decided on within 1 s" in done.stderr
