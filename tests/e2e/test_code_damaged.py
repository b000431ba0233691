"""Checkpoints that are damaged, or of the published server: the session continues, and nothing is thrown away.

Through a real MCP client over stdio.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.code_server import FIX, Repo, Server, changed, shared_server, walk

server = shared_server()


def interrupted(repo: Repo, until: str) -> Path:
    """The checkpoint of a session whose server was killed in a phase."""
    with Server(repo) as server:
        walk(server, repo, server.start(flags="--no-doc"), until=until)
        server.kill()
    (path,) = repo.checkpoints()
    return path


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.7, 0.99, 1.0])
def test_a_truncated_checkpoint_is_restored_from_the_store(repo: Repo, part: float) -> None:
    """Wherever the file was cut: it is named and kept aside, and the session is where it was, with what it knew."""
    path = interrupted(repo, "13")
    whole = path.read_bytes()
    left = whole[: int(part * len(whole)) - (part == 1.0)]
    path.write_bytes(left)
    with Server(repo) as server:
        status = server.status()
        assert (status["phase"], status["step"]) == ("READY", 13)
        assert status["known"]["explored_files"] == ["app/cart.py", "app/shop.py"]
        (warning,) = status["warnings"]
        assert f"{path.name}.damaged" in warning
        assert walk(server, repo, status)["merged"] is True
    assert Path(f"{path}.damaged").read_bytes() == left
    assert FIX[1] in repo.git("show", "main:app/cart.py")


@pytest.mark.parametrize("text", ["[]", "{}", '{"session_id": "another"}', "\0" * 100, "[" * 100_000])
def test_what_is_no_checkpoint_is_kept_aside(repo: Repo, text: str) -> None:
    """A file with other text in it is as damaged as one that was cut."""
    path = interrupted(repo, "Q1")
    path.write_text(text)
    with Server(repo) as server:
        assert server.status()["phase"] == "Q1"
        path.write_text(text)
        server.kill()
    with Server(repo) as server:
        assert server.status()["phase"] == "Q1"
    assert Path(f"{path}.damaged").read_text() == Path(f"{path}.damaged-2").read_text() == text


def test_a_damaged_checkpoint_that_the_store_does_not_know(repo: Repo) -> None:
    """It is named, and kept aside; a new session can start."""
    repo.write(".code-intel/sessions/session_20260101_000000.json", "{")
    with Server(repo) as server:
        reply = server.status()
        assert reply["error"] == "no_active_session"
        assert "session_20260101_000000.json.damaged" in reply["message"]
        repo.write(".code-intel/sessions/session_20260101_000001.json", "")
        (warning,) = server.start(flags="--no-doc")["warnings"]
        assert "session_20260101_000001.json.damaged" in warning


def test_a_damaged_checkpoint_of_a_session_at_work_is_left(repo: Repo) -> None:
    """While a server works on the session, nobody else touches its file; its next step replaces it."""
    with Server(repo) as first, Server(repo) as second:
        reply = walk(first, repo, first.start(flags="--no-doc"), until="Q1")
        (path,) = repo.checkpoints()
        path.write_text("{")
        assert second.status()["error"] == "no_active_session"
        assert path.read_text() == "{"
        walk(first, repo, reply, until="READY")
        assert json.loads(path.read_text())["current_phase"] == "READY"


def published(session: str, **more: Any) -> dict[str, Any]:
    """A checkpoint as the published server writes it, of a session that was told to make no branch."""
    return {
        "session_id": session, "intent": "IMPLEMENT", "query": "take off the share", "repo_path": ".",
        "current_phase": "READY", "ready_substep": "implement", "_gate_level": "auto",
        "task_branch_name": None, "task_branch_enabled": False,
        "exploration": {"files_analyzed": ["app/cart.py"], "symbols_identified": ["apply_discount"]},
        "tasks": [{"id": "t1", "description": "mend apply_discount", "status": "pending"}],
        "checkpoint_version": "1.12", "checkpoint_at": "2026-01-31T12:34:56", **more,
    }  # fmt: skip


def finish(server: Server, repo: Repo) -> dict[str, Any]:
    """The rest of the session from its task on, until it is verified."""
    assert server.call("check_write_target", {"file_path": "app/cart.py"})["allowed"] is True
    if FIX[0] in repo.read("app/cart.py"):
        repo.edit("app/cart.py", *FIX)
    server.accepted({"task_id": "t1", "summary": "mended"})
    server.accepted({})
    evidence = [{"command": "pytest", "exit_code": 0, "output": "ok"}]
    return server.accepted({"passed": True, "evidence": evidence})


@pytest.mark.parametrize("dirty", [False, True])
def test_a_published_session_without_a_branch_continues(server: Server, repo: Repo, dirty: bool) -> None:
    """Before the review it gets its branch: every change needs a decision, for nobody knows whose it is; then it is merged."""
    session = "session_20260131_120000"
    if dirty:
        repo.edit("app/cart.py", *FIX)
    repo.write(f".code-intel/sessions/{session}.json", json.dumps(published(session)))
    server.call("cleanup_stale_branches", {"repo_path": str(server.repo.root)})
    status = server.call("get_session_status", {"repo_path": str(repo.root)})
    assert (status["session_id"], status["step"], repo.branch) == (session, 13, "main")
    reply = finish(server, repo)
    assert (reply["phase"], reply["branch"]["base"]) == ("PRE_COMMIT", "main")
    assert repo.branch == f"llm_task_{session}_from_main"
    assert server.submit({"reviewed_files": [], "commit_message": "x"})["unreviewed_files"] == ["app/cart.py"]
    assert changed(server) == ["app/cart.py"]
    server.accepted({"reviewed_files": ["app/cart.py"], "commit_message": "Take off the share"})
    assert server.accepted({})["merged"] is True
    assert FIX[1] in repo.git("show", "main:app/cart.py")


def test_a_published_session_without_git_continues(tmp_path: Path) -> None:
    """Without git it ends after the verification, and says so."""
    repo = Repo(tmp_path, git=False)
    session = "session_20260131_120000"
    repo.write(f".code-intel/sessions/{session}.json", json.dumps(published(session)))
    with Server(repo) as server:
        (warning,) = server.status()["warnings"]
        assert "without a commit" in warning
        assert finish(server, repo)["session_complete"] is True
