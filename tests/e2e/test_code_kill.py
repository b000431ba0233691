"""A whole session on a real project, its server killed after every phase: the end is that of a session nobody disturbed.

The project is the source of a package that pytest needs, put under git.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pluggy
import pytest
from code_harness import Repo, Server

QUERY = "is_blocked of the plugin manager must accept several names, and say whether all of them are blocked"
MANAGER = "src/pluggy/_manager.py"
TEST = "testing/test_is_blocked.py"
OLD = "    def is_blocked(self, name: str) -> bool:"
NEW = (
    "    def are_blocked(self, *names: str) -> bool:\n        return all(self.is_blocked(name) for name in names)\n\n"
    + OLD
)
MESSAGE = "Ask for several blocked names at once"


@pytest.fixture
def project(tmp_path: Path) -> Any:
    def made(name: str) -> Repo:
        repo = Repo(
            tmp_path / name,
            {"README.md": "# pluggy\n\nPlugins.\n", ".gitignore": "*.pyc\n__pycache__/\n"},
            git=False,
        )
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(pluggy.__file__).parent, repo.root / "src/pluggy", ignore=ignored)
        assert OLD in repo.read(MANAGER)
        repo.prompts()
        repo.git("init", "-q", "-b", "main")
        repo.commit("The package as it was published")
        return repo

    return made


def act(server: Server, repo: Repo, reply: Any) -> Any:
    """What a model does in the phase that a reply shows, knowing nothing but the reply."""
    phase, number = reply["phase"], reply["step"]
    if phase == "EXPLORATION":
        assert server.call("find_definitions", {"symbol": "is_blocked", "exact_match": True})["total"] == 1
        server.call("find_references", {"symbol": "is_blocked"})
    elif phase == "SEMANTIC":
        server.call("semantic_search", {"query": "is this plugin name blocked"})
    elif phase == "IMPACT_ANALYSIS":
        server.call("analyze_impact", {"target_files": [MANAGER]})
    elif number == 13:
        return implement(server, repo, reply)
    elif phase == "PRE_COMMIT":
        files = [change["path"] for change in server.call("review_changes")["changes"]]
        return server.accepted({"reviewed_files": files, "commit_message": MESSAGE})
    return server.accepted(SUBMITTED[str(number)])


def implement(server: Server, repo: Repo, reply: Any) -> Any:
    task = (reply.get("next_task") or reply["task_progress"]["next_task"])["id"]
    path = {"code": MANAGER, "test": TEST}[task]
    if not server.call("check_write_target", {"file_path": path})["allowed"]:
        server.call("add_explored_files", {"files": ["src"]})
    if task == "code":
        repo.edit(MANAGER, OLD, NEW)
    else:
        repo.write(TEST, "def test_none():\n    assert all([])\n")
    return server.accepted({"task_id": task, "summary": f"wrote {path}"})


SUBMITTED: dict[str, Any] = {
    "3": {"documents_reviewed": ["README.md"]},
    "4": {
        "action_type": "extend", "target_symbols": ["is_blocked"], "scope": MANAGER, "constraints": "",
        "target_feature": {"value": "is_blocked", "quote": "is_blocked of the plugin manager"},
    },
    "5": {"explored_files": [MANAGER], "findings": ["is_blocked looks one name up"]},
    "6": {"needs_more_information": True, "reason": "who else asks whether a name is blocked"},
    "7": {"search_results": [f"{MANAGER}: is_blocked"]},
    "8": {"has_unverified_hypotheses": True, "reason": "does anything override it?"},
    "9": {"hypotheses_verified": [{"hypothesis": "nothing overrides it", "result": True, "evidence": f"{MANAGER}:1"}]},
    "10": {"needs_impact_analysis": True, "reason": "it is a public class"},
    "11": {"impact_summary": {"callers": "register"}},
    "12": {
        "tasks": [
            {"id": "code", "description": f"add are_blocked to {MANAGER}", "status": "pending"},
            {"id": "test", "description": f"test it in {TEST}", "status": "pending"},
        ]
    },
    "14": {},
    "15": {"passed": True, "failed_tasks": [], "details": "tests pass"},
    "18": {"quality_score": "good", "issues": []},
    "19": {},
}  # fmt: skip


def end_of(repo: Repo, session: str) -> tuple[str, list[str], list[str], list[str]]:
    """What a session leaves: the tree, the messages of the commits, branches, and what is not committed."""
    messages = repo.git("log", "--format=%B", "main").replace(session, "SESSION")
    subjects = [line for line in messages.split("\n") if line]
    return repo.git("rev-parse", "main^{tree}"), subjects, repo.branches, repo.dirty


def undisturbed(repo: Repo) -> tuple[str, Any]:
    with Server(repo) as server:
        reply = server.start(QUERY)
        session = reply["session_id"]
        while not reply.get("session_complete"):
            reply = act(server, repo, reply)
        return session, reply


def killed_after_each_step(repo: Repo) -> tuple[str, Any, int]:
    kills = 0
    with Server(repo) as server:
        reply = server.start(QUERY)
        session = reply["session_id"]
        server.kill()
    while not reply.get("session_complete"):
        kills += 1
        with Server(repo) as server:
            status = server.status()
            assert status["recovered_from_checkpoint"] is True
            assert (status["session_id"], status["phase"], status["step"]) == (
                session,
                reply["phase"],
                reply["step"],
            )
            assert status["expected_payload"] == reply["expected_payload"]
            reply = act(server, repo, status)
            server.kill()
    return session, reply, kills


def test_a_session_killed_after_every_phase_ends_like_one_that_was_not(project: Any) -> None:
    """Every phase is done by a process of its own, each killed with -9: same tree, same commits, nothing left over."""
    calm, torn = project("calm"), project("torn")
    session, last = undisturbed(calm)
    other, same, kills = killed_after_each_step(torn)
    assert kills == 17
    assert end_of(torn, other) == end_of(calm, session)
    assert same["merged"] is last["merged"] is True
    subjects = end_of(torn, other)[1]
    assert subjects == ["Merge llm_task_SESSION_from_main", MESSAGE, "The package as it was published"]
    assert torn.checkpoints() == []
    assert "valid" in torn.cli("verify")


@pytest.mark.parametrize("phase", ["PRE_COMMIT", "QUALITY_REVIEW", "MERGE"])
def test_a_kill_between_git_and_checkpoint_is_made_good(project: Any, phase: str) -> None:
    """When git was done with and the checkpoint was not yet written, submitting again comes to the same end."""
    repo = project("half")
    with Server(repo) as server:
        reply = server.start(QUERY, flags="--no-doc")
        while reply["phase"] != phase:
            reply = act(server, repo, reply)
        (path,) = repo.checkpoints()
        before = path.read_bytes()
        act(server, repo, reply)
        server.kill()
    path.write_bytes(before)  # as if the server had not come to it
    with Server(repo) as server:
        reply = server.status()
        assert reply["phase"] == phase
        while not reply.get("session_complete"):
            reply = act(server, repo, reply)
        session = reply["session_id"]
    assert end_of(repo, session)[1:] == (
        ["Merge llm_task_SESSION_from_main", MESSAGE, "The package as it was published"], ["main"], [],
    )  # fmt: skip
    assert "are_blocked" in repo.git("show", f"main:{MANAGER}")
