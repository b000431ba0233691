"""The tools of the server: one row each.

Owns: `TOOLS`, their descriptions, and which of them are read-only. Must never: run a tool (`handlers` does).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from adjourn.code.server import handlers, inputs
from adjourn.code.server.handlers import ToolInvocation
from adjourn.code.server.inputs import Input


class CodeTool(msgspec.Struct, frozen=True, kw_only=True):
    """A row. `read_only`: changes nothing; `destructive`: may delete branches (after backing them up under a ref)."""

    name: str
    title: str
    description: str
    input_type: type[Input]
    run: Callable[[ToolInvocation], dict[str, Any]]
    read_only: bool = False
    destructive: bool = False
    gated: bool = True


TOOLS: tuple[CodeTool, ...] = (
    CodeTool(
        name="start_session",
        title="Start a session",
        description=(
            "Start a session: one piece of work on this repository. Every reply says which phase comes next, what to do"
            " in it, and what to submit. An interrupted session is offered as `recovery_available`: ask the user whether to resume"
            " it (get_session_status) or to continue with the new one (submit_phase), which deletes the old checkpoint."
        ),
        input_type=inputs.StartSession,
        run=handlers.run_start_session,
        gated=False,
    ),
    CodeTool(
        name="submit_phase",
        title="Submit a phase",
        description=(
            "Complete the current phase. `data` has the members that `expected_payload` of the last reply names; an error repeats"
            " what is required. Submit only work that you did: the server records which tools were called."
        ),
        input_type=inputs.SubmitPhase,
        run=lambda call: call.sessions.submit(call.client, call.given.data),
    ),
    CodeTool(
        name="get_session_status",
        title="Session status",
        description=(
            "Show the phase, its instruction and the progress. After a restart or a lost context, resume the interrupted session"
            " with everything known so far: call this tool first in that case."
        ),
        input_type=inputs.SessionStatus,
        run=handlers.run_get_session_status,
        gated=False,
    ),
    CodeTool(
        name="search_text",
        title="Search text",
        description="Find lines that match a regular expression, in files that git does not ignore. Takes up to five patterns.",
        input_type=inputs.SearchText,
        run=handlers.run_search_text,
        read_only=True,
    ),
    CodeTool(
        name="search_files",
        title="Search files",
        description="Find files whose path matches a glob, without files that git ignores.",
        input_type=inputs.SearchFiles,
        run=handlers.run_search_files,
        read_only=True,
    ),
    CodeTool(
        name="find_definitions",
        title="Find definitions",
        description="Find where functions, classes, methods and variables are defined. Faster and more precise than a text search.",
        input_type=inputs.FindDefinitions,
        run=handlers.run_find_definitions,
        read_only=True,
    ),
    CodeTool(
        name="find_references",
        title="Find references",
        description="Find where a symbol is used. Each hit says whether it is exact, a guess by name, or a mention in a comment or string.",
        input_type=inputs.FindReferences,
        run=handlers.run_find_references,
        read_only=True,
    ),
    CodeTool(
        name="analyze_structure",
        title="Structure of a file",
        description="List the functions, classes, imports and exports of one file, or of a code snippet.",
        input_type=inputs.AnalyzeStructure,
        run=handlers.run_analyze_structure,
        read_only=True,
    ),
    CodeTool(
        name="get_symbols",
        title="List symbols",
        description="List the symbols of a file, or of every file in a folder, in order.",
        input_type=inputs.GetSymbols,
        run=handlers.run_get_symbols,
        read_only=True,
    ),
    CodeTool(
        name="get_function_at_line",
        title="Function around a line",
        description="Find the innermost function or method around a line of a file.",
        input_type=inputs.FunctionAtLine,
        run=handlers.run_get_function_at_line,
        read_only=True,
    ),
    CodeTool(
        name="query",
        title="Ask about the code",
        description="Answer a question: run the search tools that fit it and merge their results into one list. A good first call.",
        input_type=inputs.Query,
        run=handlers.run_query,
        read_only=True,
    ),
    CodeTool(
        name="fetch_chunk_detail",
        title="Fetch a search hit",
        description="Fetch the whole text of a semantic_search hit.",
        input_type=inputs.ChunkDetail,
        run=handlers.run_fetch_chunk_detail,
        read_only=True,
    ),
    CodeTool(
        name="semantic_search",
        title="Search by meaning",
        description="Find code by a description of what it does, whatever its names. Allowed from phase SEMANTIC on.",
        input_type=inputs.SemanticSearch,
        run=handlers.run_semantic_search,
        read_only=True,
    ),
    CodeTool(
        name="check_write_target",
        title="Check a write target",
        description="Check whether a file may be changed: only files explored in this session may. Call it before each change, in READY.",
        input_type=inputs.WriteTarget,
        run=handlers.run_check_write_target,
        read_only=True,
    ),
    CodeTool(
        name="add_explored_files",
        title="Add explored files",
        description="Add files that you read after the exploration, so that they may be changed. In READY.",
        input_type=inputs.ExploredFiles,
        run=handlers.run_add_explored_files,
    ),
    CodeTool(
        name="revert_to_exploration",
        title="Revert to exploration",
        description="Return to EXPLORATION when the plan lacks information. Branch, tasks and counters are kept.",
        input_type=inputs.Revert,
        run=lambda call: call.sessions.revert(call.client, keep_results=call.given.keep_results),
    ),
    CodeTool(
        name="review_changes",
        title="Review changes",
        description="List every file that this session changed, with its diff and a review checklist. Call it before submitting PRE_COMMIT.",
        input_type=inputs.ReviewChanges,
        run=handlers.run_review_changes,
        read_only=True,
    ),
    CodeTool(
        name="analyze_impact",
        title="Analyze impact",
        description="Find what a change of some files may affect: callers that must be verified, and files that should be.",
        input_type=inputs.AnalyzeImpact,
        run=handlers.run_analyze_impact,
        read_only=True,
    ),
    CodeTool(
        name="cleanup_stale_branches",
        title="Clean up stale branches",
        description=(
            "Delete or merge the branches of earlier sessions, and delete all session checkpoints of this work tree. Ends"
            " the current session. Call it only when the user asks for it."
        ),
        input_type=inputs.Cleanup,
        run=lambda call: call.sessions.clean(call.client, call.given.repo_path, call.given.action),
        destructive=True,
        gated=False,
    ),
    CodeTool(
        name="sync_index",
        title="Update the index",
        description="Index changed files and wait until done. The server also does so in the background.",
        input_type=inputs.SyncIndex,
        run=handlers.run_sync_index,
    ),
    CodeTool(
        name="update_context",
        title="Store summaries",
        description="Store summaries of design documents and project rules, when a reply asks for them with `context_update_required`.",
        input_type=inputs.UpdateContext,
        run=handlers.run_update_context,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
