"""The phases of a coding session, through a real MCP client: what each asks for, what it permits, and loops that end.

Tests share one server where they need no restart; each has a repository of its own.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.code_server import FIX, FRAME, MESSAGE, SIMPLE, Repo, Server, begin, look, shared_server, step, to, walk

server = shared_server()
strict = shared_server("--strictness", "strict")
lenient = shared_server("--strictness", "lenient")
# --- what a phase asks for


EMPTY = [
    ("DOCUMENT_RESEARCH", {"documents_reviewed": []}),
    ("EXPLORATION", {"explored_files": [], "findings": ["f"]}),
    ("EXPLORATION", {"explored_files": ["app/cart.py"], "findings": []}),
    ("SEMANTIC", {"search_results": []}),
    ("VERIFICATION", {"hypotheses_verified": []}),
    ("IMPACT_ANALYSIS", {"impact_summary": {}}),
]


@pytest.mark.parametrize(("phase", "data"), EMPTY, ids=[row[0] for row in EMPTY])
def test_an_empty_payload_does_not_pass(server: Server, repo: Repo, phase: str, data: Any) -> None:
    """Where a phase has to bring something, an empty list or object is refused, with the block to try again."""
    begin(server, repo, "")
    walk(server, repo, server.status(), until=phase)
    look(server)
    server.call("semantic_search", {"query": "discount"})
    server.call("analyze_impact", {"target_files": ["app/cart.py"]})
    reply = server.submit(data)
    assert (reply["error"], reply["current_phase"], reply["call"]) == ("payload_mismatch", phase, "submit_phase")
    assert set(reply["expected_payload"]) == set(data)
    step(server, reply, repo)


NEEDED = [("SEMANTIC", "semantic_search"), ("IMPACT_ANALYSIS", "analyze_impact"), ("13", "check_write_target")]


@pytest.mark.parametrize(("phase", "tool"), NEEDED)
def test_a_phase_rests_on_tools_that_were_called_in_it(server: Server, repo: Repo, phase: str, tool: str) -> None:
    """What the server did not see called does not count, whatever `tools_used` says."""
    reply = to(server, repo, phase)
    assert reply["call_first"] == [tool]
    data = SIMPLE.get(phase, {"task_id": "t1", "summary": "s"})
    reply = server.submit({**data, "tools_used": [tool]})
    assert (reply["error"], reply["missing_tools"]) == ("payload_mismatch", [tool])
    arguments: dict[str, Any] = {
        "semantic_search": {"query": "discount"},
        "analyze_impact": {"target_files": ["app/cart.py"]},
        "check_write_target": {"file_path": "app/cart.py"},
    }
    server.call(tool, arguments[tool])
    assert server.submit({**data, "tools_used": ["search_text"]})["missing_tools"] == [tool]
    server.accepted({**data, "tools_used": [tool]})


def test_an_exploration_needs_two_different_tools_and_files_that_exist(server: Server, repo: Repo) -> None:
    """One tool called twice is not enough, a failed call is none, and files outside or unknown are named."""
    to(server, repo, "EXPLORATION")
    exploration = SIMPLE["EXPLORATION"]
    for _ in range(2):
        server.call("search_text", {"pattern": "x"})
    assert "error" in server.call("get_symbols", {"path": "nowhere"})
    assert server.submit(exploration)["tools_called"] == ["search_text"]
    server.call("find_definitions", {"symbol": "total"})
    files = ["app/cart.py", "nowhere.py", "../secret", "/etc/passwd"]
    assert server.submit({**exploration, "explored_files": files})["unknown_files"] == files[1:]
    assert server.accepted(exploration)["explored_files_count"] == 2


def test_a_hypothesis_that_does_not_hold_keeps_the_session_there(server: Server, repo: Repo) -> None:
    """`result: false` is not verified; a rejection in words is, with a warning."""
    to(server, repo, "VERIFICATION")
    one = {"hypothesis": "h", "evidence": "app/cart.py:6"}
    assert server.submit({"hypotheses_verified": [{**one, "result": False}]})["unverified_hypotheses"] == ["h"]
    assert server.accepted({"hypotheses_verified": [{**one, "result": "rejected"}]})["rejected"] == ["h"]


def test_slots_are_checked_against_the_request(server: Server, repo: Repo) -> None:
    """A slot whose quote is not in the request is dropped; a plain text that is not in it is only supposed; nothing else is lost."""
    to(server, repo, "QUERY_FRAME")
    reply = server.accepted(
        {
            **FRAME,
            "observed_issue": {"value": "multiply", "quote": "it crashes"},
            "trigger_condition": {"value": "unrelated", "quote": "take off the share"},
            "desired_action": "take off the share",
            "scope": "app only",
        }
    )
    assert reply["query_frame"] == {
        "target_feature": "apply_discount", "observed_issue": None, "trigger_condition": None, "desired_action": "fix",
    }  # fmt: skip
    frame = repo.saved()["query_frame"]
    assert frame["slot_source"] == {"target_feature": "FACT", "desired_action": "HYPOTHESIS"}
    assert (frame["scope"], frame["constraints"]) == ("app only", "none")
    assert [one["name"] for one in frame["mapped_symbols"]] == ["apply_discount"]


def test_arrays_objects_and_flags_may_be_json_text(server: Server, repo: Repo) -> None:
    """Clients that send nested values as text are understood; text that is no JSON is `invalid_data`."""
    begin(server, repo, flags='{"no_doc": true}')
    assert server.submit("{not json")["error"] == "invalid_data"
    assert server.submit([1])["error"] in {"invalid_data", "invalid_arguments"}
    server.accepted(json.dumps({**FRAME, "target_symbols": '["apply_discount"]'}))
    both = server.call("search_text", {"pattern": '["apply_discount", "total"]'})
    assert list(both["results"]) == ["apply_discount", "total"]
    assert server.call("search_text", {"pattern": "[tz]otal", "case_sensitive": "false"})["total_matches"] > 0
    server.call("find_definitions", {"symbol": "total"})
    server.accepted({"explored_files": '["app/cart.py"]', "findings": '["f"]'})
    assert server.accepted({"needs_more_information": "false", "reason": "r"})["decision"] == "SEMANTIC skipped"


def test_several_payloads_stop_at_the_first_refusal(server: Server, repo: Repo) -> None:
    """What was accepted before stays; the reply says how many that were, and what the next phase takes."""
    begin(server, repo, "--no-doc")
    refused = server.submit([FRAME, {"explored_files": []}, SIMPLE["Q1"]])
    assert (refused["accepted"], refused["current_phase"]) == (1, "EXPLORATION")
    assert "expected_payload" in refused
    assert server.status()["phase"] == "EXPLORATION"
    assert server.submit([])["error"] == "invalid_arguments"
    assert server.submit(json.dumps([{}]))["accepted"] == 0


def test_errors_bring_what_is_needed_to_go_on(server: Server, repo: Repo) -> None:
    """A wrong phase, an unknown one, a wrong type: each names itself, the phase, and its block."""
    to(server, repo, "Q1")
    for data, code in (
        ({"phase": "MERGE"}, "phase_mismatch"),
        ({"phase": "LUNCH"}, "unknown_phase"),
        ({"needs_more_information": "perhaps", "reason": "r"}, "payload_mismatch"),
        ({}, "payload_mismatch"),
    ):
        reply = server.submit(data)
        assert (reply["error"], reply["current_phase"], reply["phase"], reply["step"]) == (code, "Q1", "Q1", 6)
        assert reply["instruction"]
        assert reply["expected_payload"] == {"needs_more_information": "bool", "reason": "str"}
    assert "flim" in server.call("search_text", {"pattern": "x", "flim": 1})["message"]


def test_the_task_list_has_its_rules(server: Server, repo: Repo) -> None:
    """Empty, double, finished, unknown, repeated and skipped tasks each have their own error."""
    to(server, repo, "12")
    one, two = ({"id": name, "description": "d", "status": "pending"} for name in ("t1", "t2"))
    assert server.submit({})["error"] == "no_tasks_registered"
    assert server.submit({"task_id": "t1", "summary": "s"})["error"] == "payload_mismatch"  # nothing was asked for
    server.call("check_write_target", {"file_path": "app/cart.py"})
    assert server.submit({"task_id": "t1", "summary": "s"})["error"] == "no_tasks"
    assert server.submit({"tasks": []})["error"] == "empty_tasks"
    assert server.submit({"tasks": [one, one]})["duplicates"] == ["t1"]
    assert server.submit({"tasks": [{**one, "status": "completed"}]})["error"] == "no_pending_tasks"
    server.accepted({"tasks": [one, two]})
    server.call("check_write_target", {"file_path": "app/cart.py"})
    assert server.submit({"task_id": "t9", "summary": "s"})["registered_tasks"] == ["t1", "t2"]
    assert server.submit({"task_id": "t2", "summary": "s"})["expected_task"] == "t1"
    assert [task["id"] for task in server.submit({})["pending_tasks"]] == ["t1", "t2"]
    server.accepted({"task_id": "t1", "summary": "s"})
    server.call("check_write_target", {"file_path": "app/cart.py"})
    assert server.submit({"task_id": "t1", "summary": "s"})["error"] == "already_completed"
    assert server.accepted({"task_id": "t2", "summary": "s"})["all_complete"] is True


def test_a_checklist_is_shown_by_places(server: Server, repo: Repo) -> None:
    """Each item is answered by lines that exist and do something, or passed over for a reason."""
    to(server, repo, "12")
    repo.write("app/new.py", "def f():\n    pass\n\n\nx = 1\n")
    server.accepted({"tasks": [{"id": "t1", "description": "d", "status": "pending", "checklist": ["a", "b"]}]})
    server.call("check_write_target", {"file_path": "app/new.py"})

    def done(*items: dict[str, str]) -> Any:
        return server.submit({"task_id": "t1", "summary": "s", "checklist": list(items)})

    good = {"item": "a", "evidence": "app/new.py:5"}
    assert done(good)["missing_items"] == ["b"]
    for evidence in ("app/new.py", "app/new.py:9", "app/new.py:2", "../x:1", "app/new.py:5-1"):
        assert done(good, {"item": "b", "evidence": evidence})["item"] == "b"
    assert done(good, {"item": "b", "skip_reason": "no"})["error"] == "payload_mismatch"
    assert done(good, {"item": "b", "skip_reason": "it is done elsewhere"})["success"] is True


def test_strict_weighs_what_was_found(strict: Server, repo: Repo) -> None:
    """Under `strict` a thin exploration goes to SEMANTIC whatever Q1 says, with what is missing; reasons have to be reasons."""
    to(strict, repo, "EXPLORATION", "--no-doc")
    look(strict)
    reply = strict.accepted(SIMPLE["EXPLORATION"])
    assert reply["confidence"] == "low"
    assert {"symbols_identified", "find_references"} <= set(reply["missing_requirements"])
    assert strict.submit({"needs_more_information": False, "reason": "no"})["error"] == "payload_mismatch"
    reply = strict.accepted({"needs_more_information": False, "reason": "I have seen enough"})
    assert (reply["decision"], reply["phase"]) == ("SEMANTIC required", "SEMANTIC")
    strict.call("semantic_search", {"query": "discount"})
    found = {"search_results": ["r"], "hypotheses": ["h"]}
    assert "semantic_reason" in strict.submit(found)["message"]
    strict.accepted({**found, "semantic_reason": "architecture_unknown"})
    strict.accepted({"has_unverified_hypotheses": True, "reason": "it is only supposed"})
    vague = {"hypothesis": "h", "result": "yes", "evidence": "I looked"}
    assert "evidence" in strict.submit({"hypotheses_verified": [vague]})["message"]
    evidence = {"tool": "search_text", "target": "discount", "result": "found", "files": ["app/cart.py"]}
    strict.accepted({"hypotheses_verified": [{**vague, "evidence": evidence}]})


def test_lenient_is_the_published_flow(lenient: Server, repo: Repo) -> None:
    """Under `lenient` nothing but the types is asked for, and still nothing that was not reviewed is reverted."""
    begin(lenient, repo, "")
    published: list[Any] = [
        {"documents_reviewed": []}, FRAME, {"files_analyzed": ["app/cart.py"], "existing_patterns": ["p"]},
        {"needs_more_information": True, "reason": ""}, {"search_results": []},
        {"has_unverified_hypotheses": False, "reason": ""}, {"needs_impact_analysis": False, "reason": ""},
        SIMPLE["12"], {"task_id": "t1", "summary": "s"}, {"task_id": "t2", "summary": "s"}, {}, {"passed": True},
    ]  # fmt: skip
    for data in published:
        lenient.accepted(data)
    repo.edit("app/cart.py", *FIX)
    reply = lenient.accepted({"reviewed_files": [], "commit_message": MESSAGE})
    assert (reply["left_uncommitted"], reply["phase"]) == (["app/cart.py"], "MERGE")
    assert FIX[1] in repo.read("app/cart.py")


# --- what a phase permits


def test_looking_is_permitted_in_every_phase_and_meaning_from_semantic_on(server: Server, repo: Repo) -> None:
    """In each phase the plain search tools answer; semantic_search only from SEMANTIC on, and the refusal says what is allowed."""
    reply = begin(server, repo, "")
    early = {"DOCUMENT_RESEARCH", "QUERY_FRAME", "EXPLORATION", "Q1"}
    while not reply.get("session_complete"):
        phase = reply["phase"]
        assert "error" not in server.call("search_text", {"pattern": "total"}), phase
        assert "error" not in server.call("find_references", {"symbol": "total"}), phase
        meaning = server.call("semantic_search", {"query": "sum of prices"})
        assert ("error" in meaning) is (phase in early), phase
        if phase in early:
            assert (meaning["error"], meaning["current_phase"], meaning["phase"]) == ("phase_blocked", phase, phase)
            assert "search_text" in meaning["allowed_tools"]
            assert "semantic_search" not in meaning["allowed_tools"]
            assert meaning["hint"]
        reviewing = phase in {"POST_IMPL_VERIFY", "PRE_COMMIT", "QUALITY_REVIEW", "MERGE"}
        assert ("error" in server.call("review_changes")) is not reviewing, phase
        writing = server.call("check_write_target", {"file_path": "app/cart.py"})
        assert (writing.get("error") == "phase_blocked") is (phase != "READY"), phase
        reply = step(server, reply, repo)


def test_a_hit_of_semantic_search_can_be_fetched(server: Server, repo: Repo) -> None:
    """fetch_chunk_detail is permitted in SEMANTIC."""
    to(server, repo, "SEMANTIC")
    synced = server.call("sync_index")
    found = server.call("semantic_search", {"query": "apply discount to a price"})
    hits = found["hits"]
    assert hits, (synced, found)
    assert "price * share" in server.call("fetch_chunk_detail", {"chunk_id": hits[0]["id"]})["content"]


def test_write_targets_are_what_was_explored(server: Server, repo: Repo) -> None:
    """By whole path in the repository, not by base name; folders count with all in them; nothing explored is not everything."""
    to(server, repo, "12")

    def allowed(path: str, **more: Any) -> bool:
        found: bool = server.call("check_write_target", {"file_path": path, **more})["allowed"]
        return found

    assert allowed("app/cart.py")
    assert allowed(str(repo.root / "app/cart.py"))
    assert allowed("app/brand_new.py")
    assert not allowed("app/brand_new.py", allow_new_files=False)
    refused = server.call("check_write_target", {"file_path": "lib/__init__.py"})
    assert refused["allowed"] is False
    assert set(refused["recovery_options"]) == {"add_explored_files", "revert_to_exploration"}
    assert "app/cart.py" in refused["explored_files"]
    assert not allowed("app/deep/new.py")
    assert not allowed("/etc/passwd")
    assert not allowed("../outside.py")
    assert server.call("add_explored_files", {"files": []})["error"] == "payload_mismatch"
    assert server.call("add_explored_files", {"files": ["lib"]})["added"] == ["lib"]
    assert allowed("lib/__init__.py")
    assert allowed("lib/very/deep/new.py")
    server.call("revert_to_exploration", {"keep_results": False})
    assert server.call("check_write_target", {"file_path": "app/cart.py"})["error"] == "phase_blocked"


def test_nothing_explored_means_nothing_may_be_changed(server: Server, repo: Repo) -> None:
    """An exploration without files makes no file a target, except where the user asked to skip it."""
    session = {"session_id": "s1", "query": "q", "current_phase": "READY", "ready_substep": "plan"}
    for name, flags, expected in (("one", {}, False), ("two", {"fast_mode": True}, True)):
        other = Repo(repo.home / name)
        other.write(".code-intel/sessions/s1.json", json.dumps({**session, **flags}))
        server.call("cleanup_stale_branches", {"repo_path": str(server.repo.root)})
        server.call("get_session_status", {"repo_path": str(other.root)})
        assert server.call("check_write_target", {"file_path": "app/cart.py"})["allowed"] is expected


def test_going_back_to_exploring_keeps_branch_and_tasks(server: Server, repo: Repo) -> None:
    """revert_to_exploration keeps branch, tasks and counters, and the way back leads onto the same branch."""
    to(server, repo, "13")
    branch = repo.branch
    reply = server.call("revert_to_exploration")
    assert (reply["previous_phase"], reply["current_phase"], reply["kept_exploration"]) == (
        "READY",
        "EXPLORATION",
        True,
    )
    reply = walk(server, repo, reply, until="12")
    assert (repo.branch, repo.branches) == (branch, [branch, "main"])
    assert len(repo.saved()["tasks"]) == 2


# --- loops that end


def failed(server: Server, repo: Repo, names: list[str]) -> Any:
    """Fail the verification, and plan and do everything again if it comes to that."""
    reply = server.accepted({"passed": False, "failed_tasks": names, "details": "still wrong"})
    return reply if reply["phase"] != "READY" else again(server, repo, reply)


def again(server: Server, repo: Repo, reply: Any) -> Any:
    reply = server.accepted({"tasks": reply["existing_tasks"]})
    return walk(server, repo, reply, until="POST_IMPL_VERIFY")


def test_a_failure_without_names_counts(server: Server, repo: Repo) -> None:
    """Three verdicts that name no task lead to an intervention: the loop has an end."""
    to(server, repo, "POST_IMPL_VERIFY", "--fast --no-doc")
    failed(server, repo, [])
    failed(server, repo, [])
    reply = failed(server, repo, [])
    assert (reply["phase"], reply["high_failure_tasks"]) == ("VERIFY_INTERVENTION", ["t1", "t2"])
    assert repo.saved()["verification_failure_count"] == 3


def test_a_client_cannot_reset_the_count_of_failures(server: Server, repo: Repo) -> None:
    """The plan that is submitted again keeps the server's own counts, and unknown tasks are refused."""
    to(server, repo, "POST_IMPL_VERIFY", "--fast --no-doc")
    reply = server.submit({"passed": False, "failed_tasks": ["t7"], "details": ""})
    assert reply["registered_tasks"] == ["t1", "t2"]
    reply = server.accepted({"passed": False, "failed_tasks": ["t1"], "details": "d"})
    assert reply["existing_tasks"][0] == {
        "id": "t1", "description": "mend apply_discount", "status": "pending", "failure_count": 1, "revert_reason": "d",
    }  # fmt: skip
    server.accepted({"tasks": [{"id": "t1", "description": "again", "status": "pending", "failure_count": 0}]})
    assert repo.saved()["tasks"][0]["failure_count"] == 1


@pytest.mark.parametrize("decision", ["retry", "accept", "stop"])
def test_the_user_decides_after_two_interventions(server: Server, repo: Repo, decision: str) -> None:
    """The second intervention asks the user, and each answer leads out of the phase."""
    to(server, repo, "POST_IMPL_VERIFY", "--fast --no-doc")
    stepping_in = {"prompt_used": "step_back.md", "action_taken": "looked again"}
    for count in (1, 2):
        for _ in range(3):
            reply = failed(server, repo, ["t1"])
        assert reply["phase"] == "VERIFY_INTERVENTION"
        reply = server.accepted(stepping_in)
        assert (reply["intervention_count"], reply["failure_counts_reset"]) == (count, True)
        if count == 1:
            assert reply["phase"] == "READY"
            again(server, repo, reply)
    assert (reply["user_escalation"], reply["phase"]) == (True, "VERIFY_INTERVENTION")
    assert reply["expected_payload"] == {"user_decision": "retry | accept | stop"}
    assert server.submit(stepping_in)["error"] == "payload_mismatch"
    branch = repo.branch
    reply = server.accepted({"user_decision": decision})
    if decision == "stop":
        assert (reply["session_complete"], reply["stopped"], repo.branch) == (True, True, branch)
        assert repo.checkpoints() == []
    else:
        assert reply["phase"] == {"retry": "READY", "accept": "PRE_COMMIT"}[decision]


def test_without_interventions_a_failure_goes_back_to_the_plan(server: Server, repo: Repo) -> None:
    """--no-intervention never steps in."""
    to(server, repo, "POST_IMPL_VERIFY", "--fast --no-doc -ni")
    for _ in range(3):
        reply = failed(server, repo, ["t1"])
    assert reply["phase"] == "POST_IMPL_VERIFY"


@pytest.mark.parametrize(
    ("flags", "intent", "steps"),
    [
        ("--gate=full --no-doc", "IMPLEMENT", [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 17, 19]),
        ("--no-verify", "MODIFY", [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 13, 14, 17, 19]),
        ("--fast", "IMPLEMENT", [3, 4, 12, 13, 13, 14, 15, 17, 19]),
        ("-q --no-verify --no-doc", "IMPLEMENT", [4, 12, 13, 13, 14]),
        ("-e", "MODIFY", [3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ("", "QUESTION", [3, 4, 5, 6, 7, 8, 9, 10, 11]),
    ],
)
def test_flags_skip_phases(server: Server, repo: Repo, flags: str, intent: str, steps: list[int]) -> None:
    """Each flag leads through just its phases."""
    repo.prompts()
    reply, seen = begin(server, repo, f"{flags} --no-quality", intent=intent), []
    while not reply.get("session_complete"):
        seen.append(reply["step"])
        reply = step(server, reply, repo)
    assert seen == steps
    assert (repo.checkpoints(), repo.branches) == ([], ["main"])
