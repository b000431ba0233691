"""How many calls a coding session takes, and what may be left out of them, through a real MCP client."""

from __future__ import annotations

import json
from typing import Any

from support.code_server import FIX, FRAME, MESSAGE, QUERY, SIMPLE, Repo, Server, shared_server, to

server = shared_server()


def test_a_session_takes_few_calls(server: Server, repo: Repo) -> None:
    """Several phases are submitted in one call: every phase at the full gate in 10 calls and 14 kB of replies, a quick session in 3."""
    calls = size = 0

    def call(name: str, **arguments: Any) -> Any:
        nonlocal calls, size
        calls += 1
        reply = server.text(name, arguments)
        size += len(reply.encode())
        return json.loads(reply) if reply.startswith("{") else reply

    def submit(*payloads: Any) -> Any:
        return call("submit_phase", data=list(payloads))

    task = {"id": "t1", "description": "fix apply_discount", "files": ["app/cart.py"]}
    tasks = {"tasks": [task]}
    repo.prompts()
    call("start_session", intent="IMPLEMENT", query=QUERY, repo_path=str(repo.root), gate_level="full")
    assert submit(SIMPLE["DOCUMENT_RESEARCH"], FRAME)["phase"] == "EXPLORATION"
    call("query", question="where is apply_discount used?")
    submit(SIMPLE["EXPLORATION"], SIMPLE["Q1"])
    call("semantic_search", query="discount of a price")
    submit(*(SIMPLE[name] for name in ("SEMANTIC", "Q2", "VERIFICATION", "Q3")))
    call("analyze_impact", target_files=["app/cart.py"], change_description="discount")
    submit(SIMPLE["IMPACT_ANALYSIS"], tasks)
    repo.edit("app/cart.py", *FIX)
    done = {"task_id": "t1", "summary": "took it off"}
    entered = submit(done, {}, SIMPLE["POST_IMPL_VERIFY"])
    assert (entered["accepted"], "call_first" in entered) == (3, False)
    files = [change["path"] for change in entered["review"]["changes"]]
    commit = {"reviewed_files": files, "commit_message": MESSAGE}
    last = submit(commit, SIMPLE["QUALITY_REVIEW"], {})
    assert (last["session_complete"], last["accepted"], calls) == (True, 3, 10)
    assert size <= 14_000
    calls = 0
    call("start_session", intent="IMPLEMENT", query=QUERY, repo_path=str(repo.root), flags="--quick --no-doc")
    submit(FRAME, tasks)
    reply = submit(done, {}, SIMPLE["POST_IMPL_VERIFY"])
    assert (reply.get("session_complete"), calls) == (True, 3), reply


def test_replies_say_what_may_be_submitted_together(server: Server, repo: Repo) -> None:
    """Who does what the last reply says, and no more, takes at most 16 calls and 14 kB at the full gate."""
    repo.prompts()
    sizes = list[int]()

    def call(name: str, **arguments: Any) -> Any:
        reply = server.text(name, arguments)
        sizes.append(len(reply.encode()))
        return json.loads(reply) if reply.startswith("{") else reply

    first: dict[str, tuple[str, dict[str, Any]]] = {
        "EXPLORATION": ("query", {"question": "where is apply_discount used?"}),
        "SEMANTIC": ("semantic_search", {"query": "discount of a price"}),
        "IMPACT_ANALYSIS": ("analyze_impact", {"target_files": ["app/cart.py"], "change_description": "discount"}),
    }
    payloads = {
        **SIMPLE,
        "12": {"tasks": [{"id": "t1", "description": "fix apply_discount", "files": ["app/cart.py"]}]},
        "13": {"task_id": "t1", "summary": "took it off"},
        "PRE_COMMIT": {"reviewed_files": ["app/cart.py"], "commit_message": MESSAGE},
    }
    reply = call("start_session", intent="IMPLEMENT", query=QUERY, repo_path=str(repo.root), gate_level="full")
    while not reply.get("session_complete"):
        if reply["phase"] in first:
            name, arguments = first[reply["phase"]]
            call(name, **arguments)
        if reply["step"] == 13:
            repo.edit("app/cart.py", *FIX)
        steps = [reply, *reply.get("then", ())]
        data = [payloads[str(each["step"]) if each["phase"] == "READY" else each["phase"]] for each in steps]
        reply = call("submit_phase", data=data)
        assert reply.get("accepted") == len(data), reply
    assert len(sizes) <= 16
    assert sum(sizes) <= 14_000


def test_files_of_tasks_are_checked_with_the_plan(server: Server, repo: Repo) -> None:
    """A plan that names a file which may not be changed is refused with the reason, and registers nothing."""
    to(server, repo, "READY")
    task = {"id": "t1", "description": "d", "files": ["app/cart.py", "../outside.py", "README.md"]}
    refused = server.submit({"tasks": [task]})
    assert (refused["error"], refused["step"]) == ("payload_mismatch", 12)
    assert set(refused["refused_files"]) == {"../outside.py", "README.md"}
    assert "add_explored_files" in refused["recovery_options"]
    planned = server.accepted({"tasks": [{**task, "files": ["app/cart.py"]}]})
    assert "call_first" not in planned
    assert server.accepted({"tasks": [{"id": "t1", "description": "d"}]})["call_first"] == ["check_write_target"]


def test_a_review_is_not_counted_before_it_was_shown(server: Server, repo: Repo) -> None:
    """A commit in the same call as the step that leads to its review is refused: nobody saw the changes."""
    to(server, repo, "POST_IMPL_VERIFY")
    commit = {"reviewed_files": ["app/cart.py"], "commit_message": MESSAGE}
    refused = server.submit([SIMPLE["POST_IMPL_VERIFY"], commit])
    assert (refused["accepted"], refused["missing_tools"]) == (1, ["review_changes"])
