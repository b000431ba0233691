"""Branches, reviews, commits and merges of coding sessions: nothing of the user's is lost, nothing is reported that was not done.

Through a real MCP client over stdio. Each test has a repository of its own; they share one server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.code_server import (
    FAST,
    FIX,
    FRAME,
    MESSAGE,
    SIMPLE,
    Repo,
    Server,
    begin,
    changed,
    commit_all,
    ready_to_commit,
    shared_server,
    step,
    walk,
)

server = shared_server()


@pytest.mark.parametrize("flags", ["--fast", "--no-quality", ""], ids=["fast", "no-quality", "no-prompt"])
def test_a_commit_without_quality_review_is_made_at_once(server: Server, repo: Repo, flags: str) -> None:
    """Where no review comes first the commit is made, the merge brings it, and nothing stays behind uncommitted."""
    ready_to_commit(server, repo, flags)
    reply = commit_all(server)
    assert (reply["phase"], reply["prepared"]) == ("MERGE", False)
    assert reply["commit_hash"] == repo.git("rev-parse", "HEAD")
    done = server.accepted({})
    assert (done["merged"], done["to_branch"], done["session_complete"]) == (True, "main", True)
    assert repo.git("show", "main:app/cart.py").endswith(FIX[1])
    assert (repo.dirty, repo.branches) == ([], ["main"])


def test_a_forced_end_of_the_quality_review_commits(server: Server, repo: Repo) -> None:
    """After three reviews with issues the commit is made, with a warning."""
    repo.prompts()
    reply = ready_to_commit(server, repo, "")
    for count in (1, 2, 3):
        assert commit_all(server)["prepared"] is True
        reply = server.accepted({"quality_score": "3", "issues": ["no test"]})
        assert reply["quality_revert_count"] == count
        if count < 3:
            assert (reply["phase"], reply["revert_to"]) == ("READY", "READY")
            tasks = [*reply["existing_tasks"], {"id": f"more{count}", "description": "a test", "status": "pending"}]
            server.accepted({"tasks": tasks})
            server.call("check_write_target", {"file_path": "app/cart.py"})
            server.accepted({"task_id": f"more{count}", "summary": "added"})
            reply = walk(server, repo, server.accepted({}), until="PRE_COMMIT")
    assert (reply["phase"], reply["forced_completion"]) == ("MERGE", True)
    assert reply["warning"]
    assert server.accepted({})["merged"] is True
    assert repo.git("log", "--format=%s", "-1", "main^2") == MESSAGE


def test_files_that_nobody_decided_on_are_not_reverted(server: Server, repo: Repo) -> None:
    """A review that names no file, or not every file, changes nothing and says which are missing."""
    ready_to_commit(server, repo)
    changed(server)
    for reviewed in ([], ["app/cart.py"]):
        reply = server.submit({"reviewed_files": reviewed, "commit_message": MESSAGE})
        assert reply["error"] == "payload_mismatch"
        assert set(reply["unreviewed_files"]) == {"app/cart.py", "app/NOTES.md"} - set(reviewed)
        assert reply["phase"] == "PRE_COMMIT"
    assert FIX[1] in repo.read("app/cart.py")
    assert repo.git("log", "--format=%s", "-1") == "Begin"


def test_a_review_needs_a_message_and_reasons(server: Server, repo: Repo) -> None:
    """PRE_COMMIT is refused without a commit message, and without a reason for what is discarded."""
    ready_to_commit(server, repo)
    files = ["app/cart.py", "app/NOTES.md"]
    assert server.submit({"reviewed_files": files, "commit_message": " "})["error"] == "missing_commit_message"
    discard = [{"path": path, "decision": "discard"} for path in files]
    assert server.submit({"reviewed_files": discard, "commit_message": MESSAGE})["missing_reason"] == "app/cart.py"
    assert commit_all(server)["commit_hash"]


def test_a_new_file_that_is_discarded_is_not_committed_and_is_kept(server: Server, repo: Repo) -> None:
    """A discarded new file is gone from the tree and from the commit, and can be had back from the ref in the reply."""
    ready_to_commit(server, repo)
    repo.write("app/debug/trace.log", "left over\n")
    repo.git("add", "app/debug/trace.log")  # also when it was staged
    repo.edit("README.md", "prices", "PRICES")
    shown = {change["path"]: change for change in server.call("review_changes")["changes"]}
    assert {path: change["change_type"] for path, change in shown.items()} == {
        "README.md": "modified", "app/NOTES.md": "added", "app/cart.py": "modified", "app/debug/trace.log": "added",
    }  # fmt: skip
    assert "+left over" in shown["app/debug/trace.log"]["diff"]
    assert FIX[1] in shown["app/cart.py"]["diff"]
    reviewed = [
        {"path": "app/cart.py", "decision": "keep"},
        {"path": "app/NOTES.md", "decision": "keep"},
        {"path": "app/debug/trace.log", "decision": "discard", "reason": "a log"},
        {"path": "README.md", "decision": "discard", "reason": "not asked for"},
    ]
    reply = server.accepted({"reviewed_files": reviewed, "commit_message": MESSAGE})
    assert not (repo.root / "app/debug").exists()
    assert "PRICES" not in repo.read("README.md")
    kept = reply["kept"]
    assert set(kept["files"]) == {"app/debug/trace.log", "README.md"}
    assert kept["ref"].startswith("refs/adjourn/kept/session_")
    assert repo.git("show", f"{kept['ref']}:app/debug/trace.log") == "left over"
    assert "PRICES" in repo.git("show", f"{kept['ref']}:README.md")
    assert server.accepted({})["merged"] is True
    assert repo.git("ls-tree", "-r", "--name-only", "main", "app").split("\n") == [
        "app/NOTES.md", "app/__init__.py", "app/cart.py", "app/shop.py",
    ]  # fmt: skip


def test_a_deletion_can_be_kept_or_taken_back(server: Server, repo: Repo) -> None:
    """A deleted file is a change like any other: kept it is committed, discarded the file is back."""
    ready_to_commit(server, repo)
    (repo.root / "app/shop.py").unlink()
    (repo.root / "lib/__init__.py").unlink()
    files: list[Any] = [path for path in changed(server) if path != "lib/__init__.py"]
    discard = {"path": "lib/__init__.py", "decision": "discard", "reason": "still used"}
    server.accepted({"reviewed_files": [*files, discard], "commit_message": MESSAGE})
    assert server.accepted({})["merged"] is True
    assert repo.dirty == []
    assert not (repo.root / "app/shop.py").exists()
    assert (repo.root / "lib/__init__.py").exists()


def test_work_that_was_not_committed_before_the_session_stays(server: Server, repo: Repo) -> None:
    """What the user had changed and nobody decides on is neither committed nor reverted, and was kept under a ref at the start."""
    repo.edit("README.md", "prices", "PRICES")
    repo.write("todo.txt", "mine\n")
    reply = walk(server, repo, begin(server, repo, FAST), until="12")
    kept = reply["kept"]
    assert set(kept["files"]) == {"README.md", "todo.txt"}
    assert repo.git("show", f"{kept['ref']}:todo.txt") == "mine"
    walk(server, repo, reply, until="PRE_COMMIT")
    before = {change["path"]: change["before"] for change in server.call("review_changes")["changes"]}
    assert before == {"README.md": True, "todo.txt": True, "app/cart.py": False, "app/NOTES.md": False}
    done = server.accepted({"reviewed_files": ["app/cart.py", "app/NOTES.md"], "commit_message": MESSAGE})
    assert done["left_uncommitted"] == ["README.md", "todo.txt"]
    assert server.accepted({})["merged"] is True
    assert (repo.branch, "PRICES" in repo.read("README.md"), repo.read("todo.txt")) == ("main", True, "mine\n")
    assert set(repo.git("show", "--name-only", "--format=", "main^2").split("\n")) == {"app/NOTES.md", "app/cart.py"}


def test_work_of_the_user_that_the_session_went_on_with_needs_a_decision(server: Server, repo: Repo) -> None:
    """A file that was changed before, and again since, is not passed over."""
    repo.edit("app/cart.py", "sum(prices)", "sum(list(prices))")
    ready_to_commit(server, repo)
    changed(server)
    reply = server.submit({"reviewed_files": ["app/NOTES.md"], "commit_message": MESSAGE})
    assert reply["unreviewed_files"] == ["app/cart.py"]


def test_the_base_of_a_branch_is_read_from_its_name(server: Server, repo: Repo) -> None:
    """A stale branch says its base and how many commits it has, also where the base has a slash or what a slash is written as."""
    for base in ("feature/login", "a__b"):
        repo.git("checkout", "-q", "-b", base, "main")
        ready_to_commit(server, repo)
        commit_all(server)
        name = repo.branch
        reply = begin(server, repo, FAST)
        (stale,) = reply["stale_branches"]
        assert stale == {
            "name": name,
            "session_id": name.removeprefix("llm_task_").partition("_from_")[0],
            "base_branch": base,
            "has_changes": True,
            "commit_count": 1,
        }
        assert reply["phase"] == "BRANCH_INTERVENTION"
        tip = repo.git("rev-parse", name)
        reply = server.accepted({"choice": "delete"})
        result = reply["cleanup_result"]
        assert (result["deleted_branches"], result["checked_out_to"], repo.branch) == ([name], base, base)
        assert repo.git("rev-parse", result["kept"][0]["ref"]) == tip
        server.call("cleanup_stale_branches", {"repo_path": str(repo.root)})
        repo.git("checkout", "-q", "main")


def test_stale_branches_are_merged_or_left_alone(server: Server, repo: Repo) -> None:
    """The choice merge brings the commits into the base; continue leaves the branch and works on it."""
    ready_to_commit(server, repo)
    commit_all(server)
    name = repo.branch
    begin(server, repo, FAST)
    assert server.submit({"choice": "burn"})["error"] == "payload_mismatch"
    reply = server.accepted({"choice": "continue"})
    assert (reply["cleanup_result"], repo.branch) == (None, name)
    assert server.accepted(FRAME)["branch"] == {"name": name, "base": "main"}
    merged = server.call("cleanup_stale_branches", {"repo_path": str(repo.root), "action": "merge"})
    assert (merged["merged_branches"], merged["errors"], repo.branches) == ([name], [], ["main"])
    assert FIX[1] in repo.git("show", "main:app/cart.py")


def test_a_conflict_is_undone_and_named(server: Server, repo: Repo) -> None:
    """A merge that conflicts leaves the base clean, names the files, and can be submitted again once it is resolved."""
    ready_to_commit(server, repo)
    commit_all(server)
    branch = repo.branch
    repo.git("checkout", "-q", "main")
    repo.edit("app/cart.py", *(FIX[0], "return price - share"))
    repo.commit("Meanwhile")
    repo.git("checkout", "-q", branch)
    reply = server.submit({})
    assert (reply["error"], reply["conflicts"], reply["requires_user_intervention"]) == (
        "merge_failed", ["app/cart.py"], True,
    )  # fmt: skip
    assert "app/cart.py" in reply["message"]
    assert (repo.branch, repo.dirty, reply["phase"]) == (branch, [], "MERGE")
    repo.git("merge", "-q", "-X", "ours", "-m", "Resolve", "main")
    assert server.accepted({})["merged"] is True
    assert (repo.branches, FIX[1] in repo.read("app/cart.py")) == (["main"], True)


def test_the_merge_goes_where_the_branch_came_from(repo: Repo) -> None:
    """After a restart the target is the branch's base, not one that looks like a main branch."""
    repo.git("checkout", "-q", "-b", "work/cart")
    with Server(repo) as server:
        walk(server, repo, server.start(flags=FAST), until="PRE_COMMIT")
        server.kill()
    with Server(repo) as server:
        server.status()
        commit_all(server)
        done = server.accepted({})
    assert (done["to_branch"], repo.branch) == ("work/cart", "work/cart")
    assert repo.git("log", "--format=%s", "main") == "Begin"
    assert FIX[1] in repo.read("app/cart.py")


@pytest.mark.parametrize(
    ("flags", "answer"), [("", True), ("", False), ("--fast", False)], ids=["impact", "q3", "fast"]
)
def test_every_way_into_ready_makes_the_branch(server: Server, repo: Repo, flags: str, answer: bool) -> None:
    """By IMPACT_ANALYSIS, past it, or with --fast: READY begins on the session's branch."""
    reply = begin(server, repo, f"{flags} --no-doc")
    if not flags:
        walk(server, repo, reply, until="Q3")
        reply = server.accepted({"needs_impact_analysis": answer, "reason": "because of that"})
    reply = walk(server, repo, reply, until="12")
    assert reply["branch"]["name"] == repo.branch
    assert repo.branch.endswith("_from_main")


def test_quick_makes_no_branch(server: Server, repo: Repo) -> None:
    """--quick works where the user is, commits nothing, and ends after the verification."""
    done = walk(server, repo, begin(server, repo, "--quick --no-doc"))
    assert (done["session_complete"], repo.branches, repo.branch) == (True, ["main"], "main")
    assert repo.git("log", "--format=%s") == "Begin"
    assert FIX[1] in repo.read("app/cart.py")


def test_a_hook_of_the_user_that_says_no_stops_the_commit(server: Server, repo: Repo) -> None:
    """When a pre-commit hook refuses, the phase stays, its words are passed on, and a person is asked for."""
    ready_to_commit(server, repo)
    hook = repo.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho 'no tabs here' >&2\nexit 1\n")
    hook.chmod(0o755)
    reply = server.submit({"reviewed_files": changed(server), "commit_message": MESSAGE})
    assert (reply["error"], reply["requires_user_intervention"]) == ("commit_execution_failed", True)
    assert "no tabs here" in reply["message"]
    hook.unlink()
    assert commit_all(server)["commit_hash"]


def test_what_the_user_had_staged_is_not_committed(server: Server, repo: Repo) -> None:
    """The commit has the files that were decided on, and nothing else that stands in the index; the merge leaves that there."""
    repo.write("staged.txt", "mine\n")
    repo.git("add", "staged.txt")
    ready_to_commit(server, repo)
    changed(server)
    server.accepted({"reviewed_files": ["app/cart.py", "app/NOTES.md"], "commit_message": MESSAGE})
    assert set(repo.git("show", "--name-only", "--format=").split("\n")) == {"app/NOTES.md", "app/cart.py"}
    assert server.accepted({})["merged"] is True
    assert repo.dirty == ["A  staged.txt"]


def test_no_configuration_is_touched(server: Server, repo: Repo) -> None:
    """A whole session leaves the configuration of repository and user as it was."""
    before = (repo.root / ".git/config").read_text()
    repo.prompts()
    walk(server, repo, begin(server, repo, ""))
    assert (repo.root / ".git/config").read_text() == before
    assert not (repo.home / ".gitconfig").exists()


def test_odd_names_are_names(server: Server, repo: Repo) -> None:
    """Files whose names look like patterns or options, or have blanks and quotes, are reviewed and committed as they are."""
    ready_to_commit(server, repo)
    odd = ["app/a b.py", "app/[x].py", "app/-q", 'app/"é".py', ":(top)x"]
    for name in odd:
        repo.write(name, "x = 1\n")
    repo.write("app/x.py", "y = 1\n")
    files = changed(server)
    assert set(odd) <= set(files)
    reviewed = [
        {"path": path, "decision": "discard" if path == "app/[x].py" else "keep", "reason": "r"} for path in files
    ]
    server.accepted({"reviewed_files": reviewed, "commit_message": MESSAGE})
    assert server.accepted({})["merged"] is True
    assert repo.dirty == []
    assert (repo.root / "app/x.py").exists()
    assert not (repo.root / "app/[x].py").exists()


def test_repositories_in_the_repository_are_left_alone(server: Server, repo: Repo) -> None:
    """A linked work tree or a clone inside the work tree is no change of the session."""
    repo.git("worktree", "add", "-q", "-b", "inner", str(repo.root / "trees/inner"))
    ready_to_commit(server, repo)
    assert changed(server) == ["app/NOTES.md", "app/cart.py"]


def test_a_checkpoint_that_somebody_wrote_cannot_command_git(server: Server, repo: Repo) -> None:
    """Names and commits of a checkpoint go to git only as what they claim to be."""
    victim = repo.home / "victim"
    hostile = {
        "session_id": "session_1", "query": "q", "intent": "MODIFY", "current_phase": "PRE_COMMIT",
        "task_branch_enabled": True, "task_branch_name": "--orphan=x", "base_branch": "--output=x",
        "base_commit": f"--output={victim}", "commit_hash": f"--output={victim}", "repo_path": "/",
    }  # fmt: skip
    for session in ("session_1", "../../session_2"):
        server.call("cleanup_stale_branches", {"repo_path": str(server.repo.root)})
        repo.write(".code-intel/sessions/session_1.json", json.dumps({**hostile, "session_id": session}))
        status = server.call("get_session_status", {"repo_path": str(repo.root)})
        if session == "session_1":
            assert status["phase"] == "PRE_COMMIT"
            assert server.call("review_changes")["error"] == "task_branch_not_enabled"
            assert "error" in server.submit({"reviewed_files": [], "commit_message": "m"})
        else:
            assert status["error"] == "no_active_session"
    assert (victim.exists(), repo.branch, repo.branches) == (False, "main", ["main"])


def test_the_branch_that_is_checked_out_has_to_be_the_sessions(server: Server, repo: Repo) -> None:
    """When somebody has gone to another branch, nothing is committed there."""
    ready_to_commit(server, repo)
    repo.git("stash", "-q", "-u")
    repo.git("checkout", "-q", "-b", "elsewhere")
    reply = server.call("review_changes")
    assert (reply["error"], reply["requires_user_intervention"]) == ("branch_operation_failed", True)


@pytest.mark.parametrize("state", ["detached", "unborn"])
def test_no_branch_to_come_back_to(server: Server, tmp_path: Path, state: str) -> None:
    """On a detached HEAD, or before the first commit, no session goes into READY, and it says why."""
    repo = Repo(tmp_path)
    if state == "detached":
        repo.git("checkout", "-q", "--detach")
    else:
        repo.git("checkout", "-q", "--orphan", "fresh")
    begin(server, repo, FAST)
    reply = server.submit(FRAME)
    assert (reply["error"], reply["phase"], reply["requires_user_intervention"]) == (
        "branch_creation_failed", "QUERY_FRAME", True,
    )  # fmt: skip


def test_a_session_that_changed_nothing_merges_nothing(server: Server, repo: Repo) -> None:
    """Nothing to commit is said, and so is that nothing was merged."""
    walk(server, repo, begin(server, repo, FAST), until="12")
    server.accepted({"tasks": [{"id": "t1", "description": "look", "status": "pending"}]})
    server.call("check_write_target", {"file_path": "app/cart.py"})
    server.accepted({"task_id": "t1", "summary": "nothing to do"})
    walk(server, repo, server.accepted({}), until="PRE_COMMIT")
    reply = commit_all(server)
    assert (reply["commit_hash"], reply["nothing_to_commit"]) == (None, True)
    done = server.accepted({})
    assert (done["merged"], done["session_complete"], repo.branches) == (False, True, ["main"])


def test_a_full_walk_uses_only_what_was_submitted(server: Server, repo: Repo) -> None:
    """The simple submissions of these tests lead from the first phase to the last."""
    repo.prompts()
    reply = begin(server, repo, "")
    seen = set()
    while not reply.get("session_complete"):
        seen.add(str(reply["step"]) if reply["phase"] == "READY" else reply["phase"])
        reply = step(server, reply, repo)
    assert seen >= SIMPLE.keys() - {"BRANCH_INTERVENTION"}


def test_a_file_of_a_submodule_is_no_target(server: Server, repo: Repo) -> None:
    """A session commits its own repository only, so a file of another one inside it is refused."""
    inner = repo.root / "inner"
    inner.mkdir()
    repo.git("init", "-q", "-b", "main", cwd=inner)
    (inner / "lib.py").write_text("x = 1\n")
    begin(server, repo, FAST)
    server.accepted(FRAME)
    answer = server.call("check_write_target", {"file_path": "inner/lib.py"})
    assert (answer["allowed"], "repository of its own" in answer["error"]) == (False, True)


def test_a_checkpoint_outlives_a_branch_that_remains(server: Server, repo: Repo) -> None:
    """A cleanup that cannot delete the branch of a session keeps the session's checkpoint."""
    begin(server, repo, FAST)
    server.accepted(FRAME)
    repo.write("app/cart.py", "committed = True\n")
    repo.git("commit", "-qam", "wip")
    repo.write("app/cart.py", "uncommitted = True\n")
    reply = server.call("cleanup_stale_branches", {"repo_path": str(repo.root)})
    assert (reply["success"], reply["checkpoints_deleted"], reply["deleted_branches"]) == (False, 0, [])
    assert repo.saved()["session_id"]
