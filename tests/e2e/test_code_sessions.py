"""Coding sessions side by side, through a real MCP client: sessions of several servers and work trees, and the server's own tools.

Tests share one server where they need no restart; each has a repository of its own.
"""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

from support.code_server import FIX, FRAME, SIMPLE, Repo, Server, begin, changed, look, shared_server, to, walk

server = shared_server()


# --- sessions


def test_ids_do_not_collide_and_a_finished_session_is_over(server: Server, repo: Repo) -> None:
    """Sessions begun within a second have ids of their own, and one that is complete is not active any more."""
    ids = {begin(server, repo, "--no-doc")["session_id"] for _ in range(5)}
    assert len(ids) == 5
    assert all(re.fullmatch(r"session_\d{8}_\d{6}_\w+", name) for name in ids)
    walk(server, repo, begin(server, repo, "-q --no-doc --no-verify"))
    reply = server.submit({})
    assert reply["error"] == "no_active_session"
    assert "get_session_status" in reply["message"]


def test_the_record_of_calls_is_bounded(server: Server, repo: Repo) -> None:
    """However many calls are made, the checkpoint keeps the last ones, and evidence that is older still counts."""
    to(server, repo, "EXPLORATION")
    server.call("find_definitions", {"symbol": "apply_discount"})
    for number in range(220):
        server.call("search_files", {"pattern": f"*{number}.py"})
    server.accepted(SIMPLE["EXPLORATION"])
    calls = repo.saved()["tool_calls"]
    assert len(calls) == 200
    assert calls[-1]["params"]["pattern"] == '"*219.py"'
    assert (calls[-1]["phase"], calls[-1]["result_detail"]["status"]) == ("EXPLORATION", "success")


def test_an_edit_is_seen_by_the_next_search(server: Server, repo: Repo) -> None:
    """No cache of a session answers with what a file was before it was edited."""
    to(server, repo, "EXPLORATION")
    assert (
        server.call("find_definitions", {"symbol": "apply_discount", "exact_match": True})["definitions"][0]["line"]
        == 5
    )
    repo.write("app/cart.py", "# one\n# two\n" + repo.read("app/cart.py"))
    assert (
        server.call("find_definitions", {"symbol": "apply_discount", "exact_match": True})["definitions"][0]["line"]
        == 7
    )


def test_two_work_trees_have_two_sessions(repo: Repo, tmp_path: Path) -> None:
    """Sessions of two work trees continue side by side, each with its branch and checkpoint, and neither takes the other's for left over."""
    other = tmp_path / "linked"
    repo.git("worktree", "add", "-q", "-b", "side", str(other), "main")
    flags = "--fast --no-doc"
    with Server(repo) as here, Server(repo, root=other) as there:
        first = walk(here, repo, here.start(flags=flags), until="13")
        second = there.start("another thing in the cart", flags=flags)
        assert "stale_branches" not in second
        assert "recovery_available" not in second
        there.accepted({**FRAME, "target_feature": None})
        assert repo.git("branch", "--show-current", cwd=other).endswith("_from_side")
        assert len(repo.checkpoints()) == len(repo.checkpoints(other)) == 1
        done = walk(here, repo, first)
        assert (done["merged"], repo.branch) == (True, "main")
        assert there.status()["query"] == "another thing in the cart"
        there.kill()
    with Server(repo, root=other) as there:
        assert there.status()["session_id"] == second["session_id"]
    assert FIX[1] not in (other / "app/cart.py").read_text()


def test_a_session_that_another_server_works_on_is_not_taken(repo: Repo) -> None:
    """While its server lives a session is neither offered nor taken up, nor is its branch left over; once it is dead it is."""
    with Server(repo) as first, Server(repo) as second:
        started = walk(first, repo, first.start(flags="--fast --no-doc"), until="13")
        assert second.status()["error"] == "no_active_session"
        cleaned = second.call("cleanup_stale_branches")
        assert (cleaned["deleted_branches"], cleaned["checkpoints_deleted"]) == ([], 0)
        first.kill()
        assert second.status()["recovered_from_checkpoint"] is True
        assert second.status()["session_id"] == started["session_id"]


def test_calls_made_before_a_kill_still_count(repo: Repo) -> None:
    """What was called since the last step is read from the journal: the next server does not ask for it again. What failed is no
    evidence then either."""
    with Server(repo) as server:
        walk(server, repo, server.start(flags="--no-doc"), until="EXPLORATION")
        assert "error" in server.call("get_symbols", {"path": "nowhere"})
        look(server)
        server.kill()
    with Server(repo) as server:
        assert server.status()["called_in_this_step"] == ["search_text", "find_definitions"]
        server.accepted(SIMPLE["EXPLORATION"])


def test_the_store_tells_the_same_story(repo: Repo) -> None:
    """tasks, log, status, checkpoints and verify see the session: calls, refusals, phases, and a signed checkpoint a step."""
    with Server(repo) as server:
        session = server.start(flags="--no-doc")["session_id"]
        server.call("semantic_search", {"query": "x"})
        walk(server, repo, server.status(), until="Q1")
    assert session in repo.cli("tasks")
    events = [json.loads(line) for line in repo.cli("log", session, "--json").splitlines()]
    phases = [
        (event["data"].get("after", ""), event["data"]["phase"])
        for event in events
        if event["event"] == "phase.entered"
    ]
    assert phases == [("", "QUERY_FRAME"), ("QUERY_FRAME", "EXPLORATION"), ("EXPLORATION", "Q1")]
    denied = [event["data"]["tool"] for event in events if event["event"] == "tool.denied"]
    assert denied == ["semantic_search"]
    status = repo.cli("status", session)
    assert "nothing in doubt" in status
    assert "/code --resume (at step 6, Q1)" in status
    assert session in repo.cli("checkpoint", "list")
    assert "valid" in repo.cli("verify")
    shown = repo.cli("code", "--resume")
    assert shown.startswith(f"{session}: step 6, Q1")
    assert repo.dirty == []
    with Server(repo) as server:
        walk(server, repo, server.status())
    assert "the coding session has ended" in repo.cli("status", session)


def test_a_checkpoint_of_the_later_form_is_read(server: Server, repo: Repo) -> None:
    """The grouped form is understood, and the branch that it does not name is found."""
    session = "session_20260301_101010"
    branch = f"llm_task_{session}_from_main"
    repo.git("checkout", "-q", "-b", branch)
    later = {
        "checkpoint_version": "1.13",
        "checkpoint_at": "2026-03-01T10:20:00",
        "orchestrator_state": {
            "ids": {"session_id": session, "intent": "IMPLEMENT", "query": "a later one"},
            "flags": {"fast": True, "no_doc": True},
            "phase_state": {"current_phase": "READY", "ready_substep": "implement"},
            "counters": {"intervention_count": 1},
            "tasks": [{"id": "t1", "description": "d", "status": "pending"}],
        },
        "phase_payloads": {"step_05_EXPLORATION": {"summary": "looked at the cart"}},
    }
    repo.write(f".code-intel/sessions/{session}.json", json.dumps(later))
    server.call("cleanup_stale_branches", {"repo_path": str(server.repo.root)})
    status = server.call("get_session_status", {"repo_path": str(repo.root)})
    assert (status["step"], status["query"], status["task_branch"]["base"]) == (13, "a later one", "main")
    assert status["known"]["summaries"] == {"step_05_EXPLORATION": "looked at the cart"}
    assert "fast_mode" in status["known"]["flags"]


# --- the server


def test_without_git_searching_works_and_changing_says_why_not(tmp_path: Path) -> None:
    """In a folder that is no repository the search tools answer, a question can be worked on, an implementation is refused."""
    repo = Repo(tmp_path, git=False)
    with Server(repo) as server:
        assert server.call("search_text", {"pattern": "apply_discount"})["total_matches"] == 1
        assert server.call("find_definitions", {"symbol": "total"})["total"] == 1
        reply = server.start()
        assert reply["error"] == "branch_setup_failed"
        assert "not a git repository" in reply["message"]
        done = walk(server, repo, server.start("what is total?", "QUESTION", flags="--no-doc"))
        assert done["session_complete"] is True
        assert walk(server, repo, server.start(flags="-q --no-doc"))["session_complete"] is True


def test_tools_without_a_session(server: Server) -> None:
    """Without a session everything that looks is permitted, and what needs one says so."""
    server.call("cleanup_stale_branches", {"repo_path": str(server.repo.root)})
    for tool, arguments in (
        ("review_changes", {}), ("check_write_target", {"file_path": "x"}), ("add_explored_files", {"files": ["x"]}),
        ("revert_to_exploration", {}), ("submit_phase", {"data": {}}),
    ):  # fmt: skip
        assert server.call(tool, arguments)["error"] == "no_active_session"
    assert "error" not in server.call("semantic_search", {"query": "anything at all"})


def test_a_long_call_tells_how_far_it_is_and_others_are_answered_meanwhile(tmp_path: Path) -> None:
    """sync_index sends progress; other calls do not wait for it; a cancelled one leaves the server well."""
    files = {f"pkg/m{number}.py": f"def f{number}(a):\n    return a\n\n\n" * 40 for number in range(400)}
    repo = Repo(tmp_path, files)
    with Server(repo) as server:
        told: list[float] = []
        result: list[Any] = []
        thread = threading.Thread(
            target=lambda: result.append(server.call("sync_index", {"force": True}, progress=told.append))
        )
        thread.start()
        began = time.monotonic()
        assert server.call("search_files", {"pattern": "m7.py"})["total_files"] == 1
        quick = time.monotonic() - began
        thread.join()
        assert result[0]["success"] is True
        assert told == sorted(told)
        assert told
        assert quick < 5
        assert server.cancelled("sync_index", {"force": True}, after=0.3)
        assert server.call("search_files", {"pattern": "m8.py"})["total_files"] == 1


def test_the_skill_is_written_once(repo: Repo) -> None:
    """init --code writes command, skills, prompts and .mcp.json, overwrites nothing, and names only tools that exist."""
    repo.write(".mcp.json", "{}")
    said = repo.cli("init", "--code")
    assert "skipped: .mcp.json" in said
    assert repo.read(".mcp.json") == "{}"
    command = repo.read(".claude/commands/code.md")
    for text in (command, repo.read(".agents/skills/code/SKILL.md")):
        assert "`--resume` | `-r`" in text
        assert "| `--rebuild` |  |" in text
        assert "Restore" in text
        assert "Discard and start new" in text
    with Server(repo) as server:
        names = {tool.name for tool in server.tools().tools}
        assert server.start(flags="--no-doc")["success"] is True
    called = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", command)) & {*names, "record_outcome", "submit_exploration"}
    assert called == {"start_session", "submit_phase", "get_session_status", "cleanup_stale_branches", "sync_index",
                      "update_context", "check_write_target", "add_explored_files", "revert_to_exploration", "review_changes"}  # fmt: skip
    repo.write(".claude/commands/code.md", "mine")
    repo.cli("init", "--code")
    assert repo.read(".claude/commands/code.md") == "mine"


def test_a_merged_session_leaves_an_agreement(server: Server, repo: Repo) -> None:
    """The server itself keeps what the words of the request meant: the symbols that were changed."""
    walk(server, repo, begin(server, repo, "--no-doc"))
    (path,) = (repo.root / ".code-intel/agreements").glob("*.md")
    text = path.read_text()
    assert "nl_term: apply_discount" in text
    assert "- apply_discount" in text
    to(server, repo, "SEMANTIC")
    assert server.call("semantic_search", {"query": "apply_discount"})["source"] == "map"


def test_a_map_hit_comes_with_definitions_that_outlive_the_server(repo: Repo) -> None:
    """What the words meant, and where it is defined, is in the checkpoint; of a file that has changed since, it is looked up again."""
    asked = {"query": "apply_discount"}
    with Server(repo) as server:
        walk(server, repo, server.start(flags="--no-doc"))
        to(server, repo, "SEMANTIC")
        found = server.call("semantic_search", asked)
        assert [(one["name"], one["file"]) for one in found["definitions"]] == [("apply_discount", "app/cart.py")]
        assert "5-6 def apply_discount(price, share)" in server.text("semantic_search", asked)
        assert server.call("semantic_search", {"query": "total of prices", "collection": "forest"})["hits"]
        server.kill()
    saved = repo.saved()
    assert (saved["map_hit"], saved["map_results"][0]["symbols"]) == (True, ["apply_discount"])
    assert "app/cart.py:total:1" in [hit["id"] for hit in saved["forest_results"]]
    assert list(saved["definitions_cache"]) == [
        json.dumps(["apply_discount", str(repo.root), None, True], separators=(",", ":"))
    ]
    with Server(repo) as server:
        assert server.status()["known"]["agreements"] == saved["map_results"]
        assert server.call("semantic_search", asked)["definitions"] == found["definitions"]
        assert repo.saved()["cache_stats"] == {"misses": 1, "hits": 2}
        repo.write("app/cart.py", "# above\n" + repo.read("app/cart.py"))
        (one,) = server.call("semantic_search", asked)["definitions"]
        assert (one["line"], repo.saved()["cache_stats"]["misses"]) == (6, 2)


def test_review_shows_what_was_changed_and_nothing_of_its_own(server: Server, repo: Repo) -> None:
    """Neither checkpoints nor the store are changes of the session; binary files are said to be."""
    to(server, repo, "PRE_COMMIT", "--fast --no-doc")
    (repo.root / "app/picture.bin").write_bytes(b"\0\1\2")
    changes = server.call("review_changes")["changes"]
    assert [(one["path"], one["is_binary"]) for one in changes] == [
        ("app/NOTES.md", False), ("app/cart.py", False), ("app/picture.bin", True),
    ]  # fmt: skip
    assert set(changed(server)) == {"app/NOTES.md", "app/cart.py", "app/picture.bin"}
