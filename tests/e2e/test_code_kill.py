"""A whole session on a real project, its server killed after every phase, and in the middle of calls: the end is that of a session nobody
disturbed.

The project is the source of a package that pytest needs, put under git. Short here; ADJOURN_CAMPAIGN=1 kills 200 times.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pluggy
import pytest
from mcp import MCPError

from support.code_server import Repo, Server

QUERY = "is_blocked of the plugin manager must accept several names, and say whether all of them are blocked"
MANAGER = "src/pluggy/_manager.py"
TEST = "testing/test_is_blocked.py"
OLD = "    def is_blocked(self, name: str) -> bool:"
NEW = (
    "    def are_blocked(self, *names: str) -> bool:\n        return all(self.is_blocked(name) for name in names)\n\n"
    + OLD
)
MESSAGE = "Ask for several blocked names at once"
KILLS = 200 if os.environ.get("ADJOURN_CAMPAIGN") == "1" else 20
STRAY = "src/pluggy/trace.log"


@pytest.fixture
def project(tmp_path: Path) -> Any:
    def made(name: str) -> Repo:
        repo = Repo(
            tmp_path / name, {"README.md": "# pluggy\n\nPlugins.\n", ".gitignore": "*.pyc\n__pycache__/\n"}, git=False
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
        files = [change["path"] for change in server.call("review_changes")["changes"] if not change["before"]]
        reviewed: list[Any] = [path for path in files if path != STRAY]
        if STRAY in files:
            reviewed.append({"path": STRAY, "decision": "discard", "reason": "left over"})
        return server.accepted({"reviewed_files": reviewed, "commit_message": MESSAGE})
    return server.accepted(SUBMITTED[str(number)])


def implement(server: Server, repo: Repo, reply: Any) -> Any:
    task = (reply.get("next_task") or reply["task_progress"]["next_task"])["id"]
    path = {"code": MANAGER, "test": TEST}[task]
    if not server.call("check_write_target", {"file_path": path})["allowed"]:
        server.call("add_explored_files", {"files": ["src"]})
    if task == "code" and NEW not in repo.read(MANAGER):
        repo.edit(MANAGER, OLD, NEW)
    elif task == "test":
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
    "15": {
        "passed": True, "failed_tasks": [], "details": "tests pass",
        "evidence": [{"command": "pytest -q", "exit_code": 0, "output": "2 passed"}],
    },
    "18": {"quality_score": "good", "issues": []},
    "19": {},
}  # fmt: skip


def end_of(repo: Repo, session: str) -> tuple[str, list[str], list[str], list[str]]:
    """What a session leaves: the tree, the messages of the commits, branches, and what is not committed."""
    messages = repo.git("log", "--topo-order", "--format=%B", "main").replace(session, "SESSION")
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
            assert (status["session_id"], status["phase"], status["step"]) == (session, reply["phase"], reply["step"])
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


USERS = {
    "README.md": "# pluggy\n\nPlugins, and what I wrote of them.\n",
    "notes.txt": "mine\n",
    "staged.txt": "as it is now\n",
}


def leave_work(repo: Repo) -> None:
    """What the user has not committed: changed, new, and staged in another form than it has now."""
    repo.write("staged.txt", "as it was staged\n")
    repo.git("add", "staged.txt")
    for name, text in USERS.items():
        repo.write(name, text)


def kept_texts(repo: Repo, name: str) -> set[str]:
    """What is kept of a file, under any ref."""
    refs = repo.git("for-each-ref", "--format=%(refname)", "refs/adjourn/kept/").split()
    having = [ref for ref in refs if repo.git("ls-tree", "--name-only", ref, "--", name)]
    return {repo.git("show", f"{ref}:{name}") for ref in having}


def check_work(repo: Repo) -> None:
    """It is all there, whatever was killed when."""
    assert {name: repo.read(name) for name in USERS} == USERS
    if not repo.git("ls-files", "staged.txt"):  # killed while the index was prepared for the merge
        assert "as it was staged" in kept_texts(repo, "staged.txt")
    for path in repo.checkpoints():
        assert json.loads(path.read_text())["checkpoint_version"] == "1.12"


def one_life(server: Server, repo: Repo, session: str, acts: int, kill: threading.Timer | None) -> tuple[str, bool]:
    """Continue with the session as far as the server lives; it is to be killed in the last of some acts. Its id, and whether it is over."""
    reply = server.status()
    if reply.get("error") == "no_active_session":
        if session:  # the merge was done, and the answer did not come
            return session, True
        reply = server.start(QUERY)
    assert session in ("", reply["session_id"])
    session = reply["session_id"]
    for number in range(acts):
        if reply["step"] == 13 and not (repo.root / STRAY).exists():
            repo.write(STRAY, "left over\n")
        if kill is not None and number == acts - 1:
            kill.start()
        try:
            reply = act(server, repo, reply)
        except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            break
        if reply.get("session_complete"):
            return session, True
    return session, False


def killed_in_calls(repo: Repo, chooser: random.Random, most: int) -> tuple[str, int]:
    """Work on a session to its end, through servers of which each is killed at any moment of any call. Its id, and how many were."""
    kills, session, over = 0, "", False
    while not over:
        with Server(repo) as server:
            doom = threading.Timer(chooser.uniform(0, 0.35), server.kill) if kills < most else None
            session, over = one_life(server, repo, session, chooser.randint(1, 2) if doom else 99, doom)
            if doom is not None and doom.ident is not None:
                doom.join()
                kills += 1
        check_work(repo)
    return session, kills


@pytest.mark.timeout(7200)
def test_a_server_killed_in_the_middle_of_calls_loses_nothing(project: Any) -> None:
    """Killed at random moments of random calls, again and again: checkpoints can be read, nothing of the user's is lost, the session continues,
    and what it leaves is what an undisturbed one does."""
    calm = project("calm")
    leave_work(calm)
    session, _ = undisturbed(calm)
    expected = end_of(calm, session)
    assert expected[3] == ["M README.md", "AM staged.txt", "?? notes.txt"]
    chooser = random.Random(6)
    kills = sessions = 0
    began = time.monotonic()
    while kills < KILLS:
        sessions += 1
        repo = project(f"torn{sessions}")
        leave_work(repo)
        torn, more = killed_in_calls(repo, chooser, KILLS - kills)
        kills += more
        assert end_of(repo, torn) == expected
        assert kept_texts(repo, STRAY) == {"left over"}
        assert repo.checkpoints() == []
        assert "valid" in repo.cli("verify")
    print(f"{kills} kills in {sessions} sessions, {time.monotonic() - began:.0f} s")
