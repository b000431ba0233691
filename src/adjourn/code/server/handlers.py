"""Runs each tool: unpacks the arguments and calls the function that does the work.

Owns: `Call`, and one function per tool (`run_` and the tool's name). Must never: know a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from adjourn.code.git import changes
from adjourn.code.index.codebase import Codebase
from adjourn.code.model.deadline import Pace
from adjourn.code.search.context import update_context
from adjourn.code.search.definitions import find_definitions, get_symbols
from adjourn.code.search.impact import analyze_impact
from adjourn.code.search.references import find_references
from adjourn.code.search.routing import query
from adjourn.code.search.semantic import fetch_chunk_detail, semantic_search
from adjourn.code.search.structure import analyze_structure, get_function_at_line
from adjourn.code.search.sync import sync_index
from adjourn.code.search.text import search_files, search_text
from adjourn.code.server import inputs
from adjourn.code.server.worktrees import Trees
from adjourn.code.sessions.connection import Client
from adjourn.code.sessions.sessions import Sessions
from adjourn.code.workflow import write_targets
from adjourn.code.workflow.flags import Request, resume_alone, typed
from adjourn.code.workflow.worktree import GARBAGE


class Call(msgspec.Struct):
    """A call under way: of which client, with what, and how long it may take."""

    sessions: Sessions
    trees: Trees
    client: Client
    given: Any
    pace: Pace

    @property
    def root(self) -> str:
        """The work tree that is meant: the session's, else the one that the server was started in."""
        work = self.client.work
        return work.place.repository.root if work else self.sessions.root

    @property
    def tree(self) -> Codebase:
        return self.trees.of(self.root)


def run_start_session(call: Call) -> dict[str, Any]:
    given: inputs.StartSession = call.given
    flags, gate = given.flags, given.gate_level
    if isinstance(flags, str):
        flags, gate = typed(flags, gate)
    if flags.resume:
        raise resume_alone()
    wanted = Request(given.intent, given.query, gate, flags)
    started = call.sessions.start(call.client, wanted, given.repo_path)
    return {**started, **call.trees.context_of(call.root)}


def run_get_session_status(call: Call) -> dict[str, Any]:
    return call.sessions.status(call.client, call.given.repo_path)


def run_search_text(call: Call) -> dict[str, Any]:
    given: inputs.SearchText = call.given
    return search_text(
        call.tree.repository,
        given.pattern,
        given.path,
        file_type=given.file_type,
        case_sensitive=given.case_sensitive,
        context_lines=given.context_lines,
        max_results=given.max_results,
        pace=call.pace,
    )


def run_search_files(call: Call) -> dict[str, Any]:
    given: inputs.SearchFiles = call.given
    return search_files(
        call.tree.repository, given.pattern, given.path, file_type=given.file_type, pace=call.pace
    )


def run_find_definitions(call: Call) -> dict[str, Any]:
    given: inputs.FindDefinitions = call.given
    return find_definitions(
        call.tree,
        given.symbol,
        given.path,
        language=given.language,
        exact_match=given.exact_match,
        pace=call.pace,
    )


def run_find_references(call: Call) -> dict[str, Any]:
    given: inputs.FindReferences = call.given
    return find_references(call.tree, given.symbol, given.path, language=given.language, pace=call.pace)


def run_analyze_structure(call: Call) -> dict[str, Any]:
    given: inputs.AnalyzeStructure = call.given
    return analyze_structure(call.tree.repository, given.file_path, code=given.code, language=given.language)


def run_get_symbols(call: Call) -> dict[str, Any]:
    given: inputs.GetSymbols = call.given
    return get_symbols(call.tree, given.path, kind=given.kind, language=given.language, pace=call.pace)


def run_get_function_at_line(call: Call) -> dict[str, Any]:
    return get_function_at_line(call.tree.repository, call.given.file_path, call.given.line_number)


def run_query(call: Call) -> dict[str, Any]:
    given: inputs.Query = call.given
    work = call.client.work
    frame = work.state.query_frame if work else None
    return query(
        call.tree,
        given.question,
        intent=given.intent or (work.state.intent if work else "INVESTIGATE"),
        path=given.path,
        symbol=given.symbol,
        file_path=given.file_path,
        frame=frame.slots if frame else None,
        show_plan=given.show_plan,
        pace=call.pace,
    )


def run_fetch_chunk_detail(call: Call) -> dict[str, Any]:
    return fetch_chunk_detail(call.tree, call.given.chunk_id)


def run_semantic_search(call: Call) -> dict[str, Any]:
    given: inputs.SemanticSearch = call.given
    work = call.client.work
    frame = work.state.query_frame if work else None
    return semantic_search(
        call.tree,
        given.query,
        given.path,
        target_feature=given.target_feature or (frame.target_feature if frame else None),
        collection=given.collection,
        n_results=given.n_results,
    )


def run_check_write_target(call: Call) -> dict[str, Any]:
    work = call.sessions.work(call.client)
    given: inputs.WriteTarget = call.given
    return write_targets.check_target(
        work.state, work.place, given.file_path, allow_new_files=given.allow_new_files
    )


def run_add_explored_files(call: Call) -> dict[str, Any]:
    work = call.sessions.work(call.client)
    with work.lock:
        added = write_targets.add_explored(work.state, work.place, call.given.files)
        work.save()
        return added


def run_review_changes(call: Call) -> dict[str, Any]:
    work = call.sessions.work(call.client)
    state, place = work.state, work.place
    place.check_branch(state)
    base = place.base_commit(state)
    found = []
    listed = changes.listed(place.git, base, state.dirty_before)
    for number, change in enumerate(listed):
        call.pace.over()
        found.append(msgspec.to_builtins(changes.shown(place.git, base, change)))
        call.pace.tell(number + 1, len(listed))
    return {
        "success": True,
        "session_id": state.session_id,
        "total_changes": len(found),
        "changes": found,
        "review_prompt": place.prompt(GARBAGE),
    }


def run_analyze_impact(call: Call) -> dict[str, Any]:
    given: inputs.AnalyzeImpact = call.given
    found = analyze_impact(call.tree, given.target_files, given.change_description, pace=call.pace)
    work = call.client.work
    return {**found, **work.note_impact(given.target_files, found)} if work else found


def run_sync_index(call: Call) -> dict[str, Any]:
    given: inputs.SyncIndex = call.given
    return sync_index(call.tree, given.path, force=given.force, sync_map=given.sync_map, pace=call.pace)


def run_update_context(call: Call) -> dict[str, Any]:
    given: inputs.UpdateContext = call.given
    summaries: list[Mapping[str, str]] = [msgspec.to_builtins(one) for one in given.design_doc_summaries]
    return update_context(
        call.tree.repository, summaries, given.project_rules_summary or None, now=datetime.now(UTC)
    )
