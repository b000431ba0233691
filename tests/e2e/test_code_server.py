"""The published behaviour of the code server, case by case, through a real MCP client over stdio.

Classes and names are those of the published test plan; tests that need no restart share one server, each with a repository of its own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from adjourn.code import session_state
from adjourn.code.server.replies import MAX_REPLY
from adjourn.code.session_state import Phase, SessionState
from support.code_checkpoint import FULL
from support.code_server import FRAME, LARGE, QUERY, SIMPLE, Repo, Server, begin, look, shared_server, step, walk

REMOVED = [
    "check_phase_necessity", "set_query_frame", "begin_phase_gate", "submit_for_review", "submit_exploration",
    "submit_semantic", "submit_verification", "submit_impact_analysis", "submit_quality_review", "finalize_changes",
    "merge_to_base", "record_verification_failure", "record_intervention_used", "get_intervention_status",
    "record_outcome", "get_outcome_stats", "validate_symbol_relevance", "confirm_symbol_relevance",
]  # fmt: skip
RETAINED = [
    "start_session", "submit_phase", "get_session_status", "search_text", "search_files", "find_definitions",
    "find_references", "analyze_structure", "get_symbols", "get_function_at_line", "query", "fetch_chunk_detail",
    "semantic_search", "check_write_target", "add_explored_files", "revert_to_exploration", "review_changes",
    "analyze_impact", "cleanup_stale_branches", "sync_index", "update_context",
]  # fmt: skip
shared = shared_server()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    files = {**LARGE, "src/small.py": "one = 'straw'\n"}
    with Server(Repo(tmp_path_factory.mktemp("large"), files)) as server:
        yield server


def leave_checkpoint(repo: Repo, **changes: Any) -> str:
    """A checkpoint of a session that is over without having ended."""
    found = {**FULL, **changes}
    repo.write(f".code-intel/sessions/{found['session_id']}.json", json.dumps(found))
    return str(found["session_id"])


def recover(server: Server, repo: Repo) -> Any:
    """Take up the session of a repository by a client that has none."""
    server.call("cleanup_stale_branches", {"repo_path": str(server.repo.root)})  # leaves what the client works on
    return server.call("get_session_status", {"repo_path": str(repo.root)})


def subset(small: Any, large: Any, where: str = "") -> None:
    """Whatever `small` says, `large` says, too."""
    if isinstance(small, dict):
        for key, value in small.items():
            assert key in large, f"{where}.{key} is gone"
            subset(value, large[key], f"{where}.{key}")
    elif isinstance(small, list):
        assert len(small) == len(large), where
        for number, value in enumerate(small):
            subset(value, large[number], f"{where}[{number}]")
    else:
        assert small == large, where


class TestCheckpointSerialization:
    def test_round_trip_all_fields(self, shared: Server, repo: Repo) -> None:
        """A checkpoint with every field set is read and written again with nothing lost."""
        leave_checkpoint(repo)
        recover(shared, repo)
        assert shared.call("add_explored_files", {"files": ["README.md"]})["success"] is True
        expected = json.loads(json.dumps(FULL))
        del expected["definitions_cache"]["no key"], expected["query_frame"]["missing_slots"]
        for name in ("checkpoint_at", "repo_path"):
            del expected[name]
        saved = repo.saved()
        saved["tool_calls"] = saved["tool_calls"][: len(expected["tool_calls"])]  # those of now come behind
        subset(expected, saved)
        assert {"repo_path", "tool_calls", "checkpoint_at"} < repo.saved().keys()

    def test_definitions_cache_tuple_keys(self, shared: Server, repo: Repo) -> None:
        """Keys of the definitions cache are JSON arrays in the file and tuples in meaning; others are left out."""
        leave_checkpoint(repo)
        recover(shared, repo)
        shared.call("add_explored_files", {"files": ["README.md"]})
        (key,) = repo.saved()["definitions_cache"]
        assert json.loads(key) == ["apply_discount", "/x/app", None, True]
        assert session_state.from_cache_key(key) == ("apply_discount", "/x/app", None, True)

    @pytest.mark.parametrize("phase", list(Phase))
    def test_phase_enum_round_trip(self, shared: Server, repo: Repo, phase: Phase) -> None:
        """A session in any phase is taken up in that phase."""
        leave_checkpoint(repo, current_phase=str(phase), strictness="lenient")
        assert recover(shared, repo)["phase"] == phase

    def test_partial_checkpoint_defaults(self, shared: Server, repo: Repo) -> None:
        """Fields that are missing or do not fit take their defaults."""
        text = {
            "session_id": "session_1",
            "query": "q",
            "current_phase": "LUNCH",
            "gate_level": "half",
            "tasks": [{"id": 3}],
        }
        repo.write(".code-intel/sessions/session_1.json", json.dumps(text))
        status = recover(shared, repo)
        assert (status["phase"], status["intent"], status["task_progress"]) == ("EXPLORATION", "IMPLEMENT", None)
        assert status["known"]["gate_level"] == "auto"

    def test_nested_dataclass_restore(self, shared: Server, repo: Repo) -> None:
        """Frame, exploration, semantic, verification, impact and review come back as what they were."""
        leave_checkpoint(repo)
        known = recover(shared, repo)["known"]
        assert known["query_frame"]["target_feature"] == "discount"
        assert known["target_symbols"] == ["apply_discount"]
        assert known["explored_files"] == ["app/cart.py", "app/shop.py"]
        assert known["hypotheses"][0]["evidence"]["files"] == ["app/shop.py"]

    def test_task_model_round_trip(self, shared: Server, repo: Repo) -> None:
        """Tasks keep status, failures and reason; zero and none are not written."""
        leave_checkpoint(repo)
        progress = recover(shared, repo)["task_progress"]
        assert progress["tasks"] == FULL["tasks"]
        assert progress["next_task"]["id"] == "t2"


class TestCheckpointIO:
    def test_save_and_load(self, shared: Server, repo: Repo) -> None:
        """After each accepted submission the file says where the session stands."""
        begin(shared, repo)
        assert repo.saved()["current_phase"] == "DOCUMENT_RESEARCH"
        shared.accepted(SIMPLE["DOCUMENT_RESEARCH"])
        shared.accepted(FRAME)
        saved = repo.saved()
        assert (saved["current_phase"], saved["checkpoint_version"]) == ("EXPLORATION", "1.12")
        assert saved["query_frame"]["slot_quotes"] == {"target_feature": "apply_discount in the cart"}
        assert shared.submit({})["error"] == "payload_mismatch"
        assert repo.saved() == saved

    def test_atomic_write(self, shared: Server, repo: Repo) -> None:
        """The file is replaced, never written into; nothing temporary stays, and a folder behind a link is not written to."""
        begin(shared, repo)
        (path,) = repo.checkpoints()
        before = path.stat().st_ino
        shared.accepted(SIMPLE["DOCUMENT_RESEARCH"])
        assert path.stat().st_ino != before
        assert [entry for entry in os.listdir(path.parent) if entry != ".gitignore"] == [path.name]
        outside = repo.home / "outside"
        path.parent.rename(outside)
        path.parent.symlink_to(outside)
        assert "error" in shared.submit(FRAME)
        assert json.loads((outside / path.name).read_text())["current_phase"] == "QUERY_FRAME"

    def test_list_checkpoints(self, shared: Server, repo: Repo) -> None:
        """Of several sessions the newest is taken up; files that cannot be read are passed by."""
        leave_checkpoint(repo, session_id="old", checkpoint_at="2026-01-01T00:00:00")
        leave_checkpoint(repo, session_id="new", checkpoint_at="2026-02-01T00:00:00")
        repo.write(".code-intel/sessions/broken.json", "{")
        listed = json.loads(repo.cli("code", "--resume", "--json"))
        assert (listed["session_id"], [one["session_id"] for one in listed["others"]]) == ("new", ["old"])
        assert recover(shared, repo)["checkpoint_session_id"] == "new"

    def test_delete_checkpoints(self, shared: Server, repo: Repo) -> None:
        """All checkpoints of a work tree are deleted at once, and counted."""
        for name in ("one", "two", "three"):
            leave_checkpoint(repo, session_id=name)
        cleaned = shared.call("cleanup_stale_branches", {"repo_path": str(repo.root)})
        assert (cleaned["checkpoints_deleted"], repo.checkpoints()) == (3, [])

    def test_merge_deletes_checkpoint(self, shared: Server, repo: Repo) -> None:
        """When a session was merged its checkpoint is gone, and its branch."""
        reply = walk(shared, repo, begin(shared, repo), until="MERGE")
        assert len(repo.checkpoints()) == 1
        assert step(shared, reply, repo)["session_complete"] is True
        assert (repo.checkpoints(), repo.branches, repo.dirty) == ([], ["main"], [])
        assert "1 - share" in repo.read("app/cart.py")


class TestCheckpointRecovery:
    def test_get_session_status_recovers_from_checkpoint(self, repo: Repo) -> None:
        """A new server process takes up the session of one that was killed, with what was known."""
        with Server(repo) as server:
            walk(server, repo, server.start(), until="EXPLORATION")
            server.kill()
        with Server(repo) as server:
            status = server.status()
            assert status["recovered_from_checkpoint"] is True
            assert status["checkpoint_session_id"] == status["session_id"]
            assert (status["phase"], status["known"]["query_frame"]["target_feature"]) == (
                "EXPLORATION",
                "apply_discount",
            )
            assert status["expected_payload"] == {"explored_files": "list[str]", "findings": "list[str]"}
            assert "recovered_from_checkpoint" not in server.status()

    def test_start_session_shows_recovery_available(self, shared: Server, repo: Repo) -> None:
        """Starting where a session was cut off says so, with what it was about."""
        session = leave_checkpoint(repo)
        reply = begin(shared, repo)
        assert reply["recovery_available"] is True
        info = reply["checkpoint_info"]
        assert (info["session_id"], info["phase"], info["step"], info["query"]) == (session, "READY", 13, QUERY)
        assert info["checkpoint_at"] == "2026-01-31T12:34:56"

    def test_recovered_session_has_correct_phase(self, repo: Repo) -> None:
        """A session that was cut off between two tasks continues at the second, with its branch."""
        with Server(repo) as server:
            reply = walk(server, repo, server.start(), until="13")
            step(server, reply, repo)
            server.kill()
        with Server(repo) as server:
            status = server.status()
            assert (status["phase"], status["step"], status["task_progress"]["next_task"]["id"]) == ("READY", 13, "t2")
            assert status["task_branch"] == {
                "enabled": True, "branch": repo.branch, "base": "main", "checked_out": True,
            }  # fmt: skip
            assert status["completed_steps"] == [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]


class TestLegacyToolRemoval:
    def test_tool_count(self, shared: Server) -> None:
        """There are just the 21 tools, each with a description, a schema, and hints about what it does."""
        tools = shared.tools().tools
        assert sorted(tool.name for tool in tools) == sorted(RETAINED)
        assert len(tools) == 21
        assert shared.greeting.server_info.name == "code-intel"
        for tool in tools:
            assert tool.description
            assert tool.input_schema["type"] == "object"
            assert tool.annotations is not None
        looking = {tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint}
        assert {"search_text", "review_changes", "check_write_target"} <= looking
        assert not {"submit_phase", "sync_index", "cleanup_stale_branches"} & looking
        assert [tool.name for tool in tools if tool.annotations and tool.annotations.destructive_hint] == [
            "cleanup_stale_branches"
        ]

    @pytest.mark.parametrize("name", REMOVED)
    def test_removed_tools_return_error(self, shared: Server, name: str) -> None:
        """A removed tool answers that it is unknown, and nothing else."""
        assert shared.call(name, {"anything": 1}) == {"error": f"Unknown tool: {name}"}

    def test_submit_phase_still_works(self, shared: Server, repo: Repo) -> None:
        """One tool leads through all phases to the merge."""
        repo.prompts()
        reply, phases = begin(shared, repo), []
        while not reply.get("session_complete"):
            phases.append((reply["phase"], reply["step"]))
            reply = step(shared, reply, repo)
        assert [number for _, number in phases] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 17, 18, 19]
        assert (reply["merged"], reply["to_branch"]) == (True, "main")


class TestCleanupExtension:
    def test_clean_deletes_session_files(self, shared: Server, repo: Repo) -> None:
        """Cleaning up deletes branches and checkpoints of sessions, the current one included."""
        walk(shared, repo, begin(shared, repo), until="12")
        cleaned = shared.call("cleanup_stale_branches", {"repo_path": str(repo.root)})
        assert cleaned["success"] is True
        assert (cleaned["checkpoints_deleted"], len(cleaned["deleted_branches"])) == (1, 1)
        assert (repo.checkpoints(), repo.branches, repo.branch) == ([], ["main"], "main")
        assert shared.submit({})["error"] == "no_active_session"


class TestResumeFlag:
    def test_resume_skips_start_session(self, shared: Server, repo: Repo) -> None:
        """Resuming is get_session_status alone: no session is begun, and the work continues from there."""
        session = leave_checkpoint(repo, current_phase="Q1", fast_mode=False, quick_mode=False, gate_level="auto")
        status = recover(shared, repo)
        assert (status["session_id"], len(repo.checkpoints())) == (session, 1)
        assert shared.accepted({"needs_more_information": False, "reason": "seen enough"})["phase"] == "Q2"

    def test_resume_no_checkpoint_returns_error(self, shared: Server, repo: Repo) -> None:
        """Without a checkpoint there is an error that says so; in a terminal, too."""
        reply = recover(shared, repo)
        assert reply["error"] == "no_active_session"
        assert "no checkpoint was found" in reply["message"]
        assert "no interrupted session was found here" in repo.cli("code", "--resume", code=1)

    @pytest.mark.parametrize("flags", ["--resume --no-verify", "-r -f", {"resume": True, "no_verify": True}])
    def test_resume_rejects_other_flags(self, shared: Server, repo: Repo, flags: Any) -> None:
        """--resume beside another flag is refused, and no session is begun."""
        reply = begin(shared, repo, flags=flags)
        assert (reply["error"], repo.checkpoints()) == ("invalid_flags", [])
        assert "--resume must be used alone" in reply["message"]

    def test_resume_restores_saved_flags(self, shared: Server, repo: Repo) -> None:
        """The flags of a resumed session are those it was begun with, and they count."""
        leave_checkpoint(
            repo, tasks=[{"id": "t1", "description": "d", "status": "completed"}], ready_substep="complete"
        )
        status = recover(shared, repo)
        assert set(status["known"]["flags"]) == {
            "no_verify", "no_quality", "fast_mode", "quick_mode", "no_doc", "no_intervention", "only_verify",
        }  # fmt: skip
        assert shared.accepted({})["session_complete"] is True  # quick and no_verify: READY is the last


class TestRecoveryPrompt:
    def test_start_session_returns_checkpoint_info(self, shared: Server, repo: Repo) -> None:
        """Restoring after the offer really continues with the old session; the one begun beside it is gone."""
        old = leave_checkpoint(repo)
        new = begin(shared, repo)
        assert new["recovery_available"] is True
        status = shared.status()
        assert (status["session_id"], status["phase"], status["recovered_from_checkpoint"]) == (old, "READY", True)
        assert [path.stem for path in repo.checkpoints()] == [old]

    def test_discard_deletes_old_checkpoint(self, shared: Server, repo: Repo) -> None:
        """Continuing with the new session deletes the checkpoint of the old one."""
        leave_checkpoint(repo)
        new = begin(shared, repo)
        assert len(repo.checkpoints()) == 2
        shared.accepted(SIMPLE["DOCUMENT_RESEARCH"])
        assert [path.stem for path in repo.checkpoints()] == [new["session_id"]]
        assert shared.status()["session_id"] == new["session_id"]


class TestResponseTruncation:
    def test_small_response_unchanged(self, large: Server) -> None:
        """A reply that fits has nothing added."""
        reply = large.call("search_text", {"pattern": "straw"})
        assert (reply["total_matches"], len(reply["matches"])) == (1, 1)
        assert not {"truncated", "cursor"} & reply.keys()

    def test_large_response_truncated(self, large: Server) -> None:
        """A reply that does not fit is cut to at most 262,144 bytes and is still JSON."""
        text = large.text("search_text", {"pattern": "needle", "max_results": 10_000, "format": "json"})
        assert 100_000 < len(text.encode()) <= MAX_REPLY
        assert json.loads(text)["truncated"] is True

    def test_truncation_includes_warning(self, large: Server) -> None:
        """A cut reply says how many there are and how many it has, and a cursor brings the rest."""
        asked = {"pattern": "needle", "max_results": 10_000}
        reply = large.call("search_text", asked)
        assert (reply["total_matches"], reply["returned_matches"]) == (10_000, len(reply["matches"]))
        assert "cursor" in reply["message"]
        seen = reply["matches"]
        while "cursor" in reply:
            reply = large.call("search_text", {**asked, "cursor": reply["cursor"]})
            seen += reply["matches"]
        assert len({(one["file"], one["line_number"]) for one in seen}) == len(seen) == 10_000

    def test_truncation_applies_to_all_tools(self, large: Server) -> None:
        """Other tools are cut, too: symbols, changes, and whatever a session says of itself."""
        with Server(large.repo) as server:
            server.call("sync_index")
            assert server.call("get_symbols", {"path": "src"})["truncated"] is True
            query = "why is it so? " + "x" * 90_000
            started = server.text("start_session", {"intent": "QUESTION", "query": query, "flags": "--no-doc"})
            assert len(started.encode()) <= MAX_REPLY
            server.accepted({**FRAME, "target_symbols": ["é" * 1000] * 300})
            look(server)
            server.accepted({"explored_files": ["src/small.py"], "findings": ["€" * 3000] * 60})
            server.kill()
        with Server(large.repo) as again:
            text = again.text("get_session_status")
            assert len(text.encode()) <= MAX_REPLY
            assert json.loads(text)["phase"] == "Q1"


def test_the_server_answers_while_the_index_is_made(repo: Repo) -> None:
    """Greeting and listing tools wait for nothing; start_session says the state of the index and does not wait for it."""
    with Server(repo) as server:
        began = time.monotonic()
        server.tools()
        assert time.monotonic() - began < 5
        started = server.start()
        assert started["index_state"]["state"] in {"building", "updating", "ready"}
        assert started["chromadb"]["available"] is True


def test_state_without_fields_of_ours_is_the_published_form() -> None:
    """Every published field is one of ours, under its name."""
    assert FULL.keys() <= set(SessionState.__struct_fields__)
