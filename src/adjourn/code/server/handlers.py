"""Runs each tool: unpacks the arguments and calls the function that does the work.

Owns: `ToolInvocation`, and one function per tool (`run_` and the tool's name). Must never: know a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from adjourn.code.git import changes
from adjourn.code.git.changes import FileChange, with_diffs
from adjourn.code.index.codebase import Codebase
from adjourn.code.model.deadline import Deadline
from adjourn.code.model.session_state import Phase, QueryFrame
from adjourn.code.search import relations
from adjourn.code.search.context import sync_index, update_context
from adjourn.code.search.definitions import find_definitions, get_symbols
from adjourn.code.search.impact import analyze_impact
from adjourn.code.search.references import find_references
from adjourn.code.search.relations import changed_paths, definition_at, diagnose, related
from adjourn.code.search.routing import Question, query
from adjourn.code.search.semantic import fetch_chunk_detail, semantic_search
from adjourn.code.search.structure import analyze_structure, get_function_at_line, outline_files, read_symbol
from adjourn.code.search.text import TextOptions, search_files, search_text
from adjourn.code.server import inputs
from adjourn.code.server.codebases import ClientRoots, Codebases, check_folder, no_roots
from adjourn.code.server.replies import MAX_REPLY, error_of, returned
from adjourn.code.sessions.connection import ClientConnection
from adjourn.code.sessions.findings import note_search
from adjourn.code.sessions.sessions import Sessions
from adjourn.code.workflow import evidence, payloads
from adjourn.code.workflow.flags import SessionRequest, parse_flags, resume_not_alone
from adjourn.code.workflow.phases import FlowError
from adjourn.code.workflow.worktree import GARBAGE
from adjourn.errors import AdjournError

MAX_REVIEW_FILES = 50
MAX_REVIEW = 64 << 10
"""Limits of the review that comes with the reply that enters PRE_COMMIT: a larger one is read page by page."""


class ToolInvocation(msgspec.Struct):
    """A tool call: the client, its arguments and its deadline."""

    sessions: Sessions
    codebases: Codebases
    client: ClientConnection
    given: Any
    deadline: Deadline
    roots: ClientRoots = no_roots

    @property
    def folder(self) -> str:
        """The folder that the call names. Raises `RefusedError` if the client has not opened it."""
        return check_folder(self.sessions.root, self.given.repo_path, self.roots)

    @property
    def root(self) -> str:
        """The work tree of the call: the session's, else the server's working folder."""
        active = self.client.active
        return active.worktree.repository.root if active else self.sessions.root

    @property
    def frame(self) -> QueryFrame | None:
        """What the session's request says so far; None without a session."""
        return self.client.active.state.query_frame if self.client.active else None

    @property
    def codebase(self) -> Codebase:
        return self.codebases.of(self.root)


def run_start_session(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.StartSession = call.given
    flags, gate = given.flags, given.gate_level
    if isinstance(flags, str):
        flags, gate = parse_flags(flags, gate)
    if flags.resume:
        raise resume_not_alone()
    wanted = SessionRequest(given.intent, given.query, gate, flags)
    started = call.sessions.start(call.client, wanted, call.folder)
    return {**started, **call.codebases.context_of(call.root)}


def run_submit_phase(call: ToolInvocation) -> dict[str, Any]:
    """Submit one payload, or several in order until one is refused: those before it stay accepted."""
    several = payloads.as_list(call.given.data)
    if several is None:
        return _with_review(call, call.sessions.submit(call.client, call.given.data, call.deadline))
    reply: dict[str, Any] = {}
    for number, data in enumerate(several):
        try:
            reply = call.sessions.submit(call.client, data, call.deadline)
        except FlowError as refused:
            return {**refused.reply(), "accepted": number}
        except AdjournError as error:
            return {**error_of(error), "accepted": number}
    return _with_review(call, {**reply, "accepted": len(several)})


def _with_review(call: ToolInvocation, reply: dict[str, Any]) -> dict[str, Any]:
    """The reply, with the changes to review if it enters PRE_COMMIT. That counts as a call of review_changes."""
    active = call.client.active
    if active is None or reply.get("phase") != Phase.PRE_COMMIT:
        return reply
    with active.lock, suppress(AdjournError):  # the step was accepted: review_changes reports what failed
        listed = _changes(call)
        if len(listed) <= MAX_REVIEW_FILES:
            review = _review(call, listed, room=MAX_REVIEW)
            if len(msgspec.json.encode(review)) <= MAX_REVIEW:
                active.note_review()
                return {name: value for name, value in reply.items() if name != "call_first"} | {
                    "review": review
                }
    return reply


def run_get_session_status(call: ToolInvocation) -> dict[str, Any]:
    return call.sessions.status(call.client, call.folder)


def run_search_text(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.SearchText = call.given
    options = TextOptions(given.file_type, given.case_sensitive, given.context_lines, given.max_results)
    return search_text(call.codebase.repository, given.pattern, given.path, options, deadline=call.deadline)


def run_search_files(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.SearchFiles = call.given
    return search_files(
        call.codebase.repository, given.pattern, given.path, file_type=given.file_type, deadline=call.deadline
    )


def run_find_definitions(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.FindDefinitions = call.given
    if given.at:
        return definition_at(call.codebase, given.symbol, given.at, call.deadline)
    return find_definitions(
        call.codebase,
        given.symbol,
        given.path,
        language=given.language,
        exact_match=given.exact_match,
        deadline=call.deadline,
    )


def run_find_references(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.FindReferences = call.given
    if given.relation != "uses":
        return related(
            call.codebase,
            given.symbol,
            given.path,
            relation=given.relation,
            language=given.language,
            deadline=call.deadline,
        )
    return find_references(
        call.codebase,
        given.symbol,
        given.path,
        language=given.language,
        deadline=call.deadline,
    )


def run_read_symbol(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.ReadSymbol = call.given
    return read_symbol(
        call.codebase, given.symbol, given.path, language=given.language, deadline=call.deadline
    )


def run_outline(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.OutlineOf = call.given
    return outline_files(call.codebase, given.path, depth=given.depth, deadline=call.deadline)


def run_rename_symbol(call: ToolInvocation) -> dict[str, Any]:
    """Show a renaming; with `apply`, write it if the session may change all the files."""
    given: inputs.RenameSymbol = call.given
    active = call.sessions.require_active(call.client)
    shown, files = relations.preview_rename(
        call.codebase, given.symbol, given.new_name, given.path, call.deadline
    )
    if not given.apply:
        return shown

    def refusal(path: str) -> str:
        answer = evidence.check_target(active.state, active.worktree, path, allow_new_files=False)
        return "" if answer["allowed"] else str(answer["error"])

    with active.lock:
        return {**shown, **relations.apply_rename(call.codebase, files, given.apply, refusal)}


def run_diagnostics(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.Diagnose = call.given
    paths = given.paths
    if not paths and call.client.active is not None:
        paths = changed_paths(call.codebase, [change.path for change in _changes(call)])
    return diagnose(call.codebase, paths, call.deadline)


def run_analyze_structure(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.AnalyzeStructure = call.given
    return analyze_structure(
        call.codebase.repository, given.file_path, code=given.code, language=given.language
    )


def run_get_symbols(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.GetSymbols = call.given
    return get_symbols(
        call.codebase, given.path, kind=given.kind, language=given.language, deadline=call.deadline
    )


def run_get_function_at_line(call: ToolInvocation) -> dict[str, Any]:
    return get_function_at_line(call.codebase.repository, call.given.file_path, call.given.line_number)


def run_query(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.Query = call.given
    active, frame = call.client.active, call.frame
    return query(
        call.codebase,
        Question(
            given.question,
            given.intent or (active.state.intent if active else "INVESTIGATE"),
            given.path,
            given.symbol,
            given.file_path,
            frame.slots if frame else {},
        ),
        show_plan=given.show_plan,
        deadline=call.deadline,
    )


def run_fetch_chunk_detail(call: ToolInvocation) -> dict[str, Any]:
    return fetch_chunk_detail(call.codebase, call.given.chunk_id)


def run_semantic_search(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.SemanticSearch = call.given
    active, frame = call.client.active, call.frame
    answer = semantic_search(
        call.codebase,
        given.query,
        given.path,
        target_feature=given.target_feature or (frame.target_feature if frame else None),
        collection=given.collection,
        n_results=given.n_results,
    )
    if active is None:
        return answer
    with active.lock:
        answer = note_search(active.state, call.codebase, answer, call.deadline)
        active.save()
        return answer


def run_check_write_target(call: ToolInvocation) -> dict[str, Any]:
    active = call.sessions.require_active(call.client)
    given: inputs.WriteTarget = call.given
    with active.lock:
        noted = active.state.refused_targets
        answer = evidence.check_target(
            active.state, active.worktree, given.file_path, allow_new_files=given.allow_new_files
        )
        if active.state.refused_targets != noted:
            active.save()
        return answer


def run_add_explored_files(call: ToolInvocation) -> dict[str, Any]:
    active = call.sessions.require_active(call.client)
    with active.lock:
        added = evidence.add_explored(active.state, active.worktree, call.given.files)
        active.save()
        return added


def run_review_changes(call: ToolInvocation) -> dict[str, Any]:
    active = call.sessions.require_active(call.client)
    active.worktree.check_branch(active.state)
    review = _review(call, _changes(call), skip=returned(call.given.cursor, "changes"), room=MAX_REPLY)
    return {"success": True, "session_id": active.state.session_id, **review}


def _changes(call: ToolInvocation) -> list[FileChange]:
    """The files that the session changed."""
    active = call.sessions.require_active(call.client)
    state, worktree = active.state, active.worktree
    return changes.list_changes(worktree.git, worktree.base_commit(state), state.dirty_before)


def _review(call: ToolInvocation, listed: list[FileChange], *, room: int, skip: int = 0) -> dict[str, Any]:
    """The session's changes. The first `skip` have no diffs, nor those that are beyond `room` bytes."""
    active = call.sessions.require_active(call.client)
    state, worktree = active.state, active.worktree
    found = []
    for change in with_diffs(worktree.git, worktree.base_commit(state), listed, skip=skip, room=room):
        call.deadline.expired()
        found.append({**msgspec.to_builtins(change), "refused": change.path in state.refused_targets})
        call.deadline.report(len(found), len(listed))
    return {"total_changes": len(found), "changes": found, "review_prompt": worktree.prompt(GARBAGE)}


def run_analyze_impact(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.AnalyzeImpact = call.given
    found = analyze_impact(
        call.codebase, given.target_files, given.change_description, deadline=call.deadline
    )
    active = call.client.active
    return {**found, **active.note_impact(given.target_files, found)} if active else found


def run_sync_index(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.SyncIndex = call.given
    return sync_index(
        call.codebase, given.path, force=given.force, sync_map=given.sync_map, deadline=call.deadline
    )


def run_update_context(call: ToolInvocation) -> dict[str, Any]:
    given: inputs.UpdateContext = call.given
    summaries: list[Mapping[str, str]] = [msgspec.to_builtins(one) for one in given.design_doc_summaries]
    return update_context(
        call.codebase.repository, summaries, given.project_rules_summary or None, now=datetime.now(UTC)
    )
