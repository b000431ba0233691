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
    """A row. `read_only`: changes nothing; `destructive`: may delete branches (after backing them up under a ref).

    `searches`: one of the tools that are useful without a session, which `--search-only` serves.
    `symbols`: only with `--symbols`.
    """

    name: str
    title: str
    description: str
    input_type: type[Input]
    run: Callable[[ToolInvocation], dict[str, Any]]
    read_only: bool = False
    destructive: bool = False
    gated: bool = True
    searches: bool = False
    symbols: bool = False


TOOLS: tuple[CodeTool, ...] = (
    CodeTool(
        name="start_session",
        title="Start a session",
        description=(
            "Start a session: one piece of work on this repository. Every reply says what to do next and what to submit."
            " If it offers an interrupted session as `recovery_available`, ask the user whether to resume it (get_session_status)"
            " or to continue with the new one (submit_phase), which deletes the old checkpoint."
        ),
        input_type=inputs.StartSession,
        run=handlers.run_start_session,
        gated=False,
    ),
    CodeTool(
        name="submit_phase",
        title="Submit a phase",
        description=(
            "Complete the current phase. An error repeats what is required. Submit only work that you did: the server"
            " records which tools were called."
        ),
        input_type=inputs.SubmitPhase,
        run=handlers.run_submit_phase,
    ),
    CodeTool(
        name="get_session_status",
        title="Session status",
        description=(
            "Show the phase and its instruction. After a restart or a lost context, call this first: it resumes the"
            " interrupted session with everything known so far."
        ),
        input_type=inputs.SessionStatus,
        run=handlers.run_get_session_status,
        gated=False,
    ),
    CodeTool(
        name="search_text",
        title="Search text",
        description="Find lines by regular expression, in files that git does not ignore.",
        input_type=inputs.SearchText,
        run=handlers.run_search_text,
        read_only=True,
        searches=True,
    ),
    CodeTool(
        name="search_files",
        title="Search files",
        description="Find files by a glob of their path.",
        input_type=inputs.SearchFiles,
        run=handlers.run_search_files,
        read_only=True,
        searches=True,
    ),
    CodeTool(
        name="find_definitions",
        title="Find definitions",
        description="Find where functions, classes, methods and variables are defined.",
        input_type=inputs.FindDefinitions,
        run=handlers.run_find_definitions,
        read_only=True,
        searches=True,
    ),
    CodeTool(
        name="find_references",
        title="Find references",
        description="Find where a symbol is used. Each hit says how certain it is.",
        input_type=inputs.FindReferences,
        run=handlers.run_find_references,
        read_only=True,
        searches=True,
    ),
    CodeTool(
        name="read_symbol",
        title="Read a symbol",
        description="Read the body of a function, class or method.",
        input_type=inputs.ReadSymbol,
        run=handlers.run_read_symbol,
        read_only=True,
        searches=True,
        symbols=True,
    ),
    CodeTool(
        name="outline",
        title="Outline",
        description="Show the classes and functions of a file or folder as a tree.",
        input_type=inputs.OutlineOf,
        run=handlers.run_outline,
        read_only=True,
        searches=True,
        symbols=True,
    ),
    CodeTool(
        name="rename_symbol",
        title="Rename a symbol",
        description="In READY: rename a symbol everywhere. Shows the changes; with `apply`, writes them.",
        input_type=inputs.RenameSymbol,
        run=handlers.run_rename_symbol,
        symbols=True,
    ),
    CodeTool(
        name="diagnostics",
        title="Diagnostics",
        description="List errors and warnings of files as they are now. Call it after each change.",
        input_type=inputs.Diagnose,
        run=handlers.run_diagnostics,
        read_only=True,
        searches=True,
        symbols=True,
    ),
    CodeTool(
        name="analyze_structure",
        title="Structure of a file",
        description="Outline one file, or a code snippet, with its imports and exports.",
        input_type=inputs.AnalyzeStructure,
        run=handlers.run_analyze_structure,
        read_only=True,
        searches=True,
    ),
    CodeTool(
        name="get_symbols",
        title="List symbols",
        description="List the symbols of a file or folder.",
        input_type=inputs.GetSymbols,
        run=handlers.run_get_symbols,
        read_only=True,
        searches=True,
    ),
    CodeTool(
        name="get_function_at_line",
        title="Function around a line",
        description="Find the function around a line.",
        input_type=inputs.FunctionAtLine,
        run=handlers.run_get_function_at_line,
        read_only=True,
    ),
    CodeTool(
        name="query",
        title="Ask about the code",
        description="Answer a question in words with all search tools that fit it. A good first call.",
        input_type=inputs.Query,
        run=handlers.run_query,
        read_only=True,
        searches=True,
    ),
    CodeTool(
        name="fetch_chunk_detail",
        title="Fetch a search hit",
        description="Fetch the whole text of a semantic_search hit.",
        input_type=inputs.ChunkDetail,
        run=handlers.run_fetch_chunk_detail,
        read_only=True,
        searches=True,
    ),
    CodeTool(
        name="semantic_search",
        title="Search by meaning",
        description="Find code by a description of what it does. In a session: from SEMANTIC on.",
        input_type=inputs.SemanticSearch,
        run=handlers.run_semantic_search,
        read_only=True,
        searches=True,
    ),
    CodeTool(
        name="check_write_target",
        title="Check a write target",
        description="Check whether a file may be changed: explored files may. In READY, before each change.",
        input_type=inputs.WriteTarget,
        run=handlers.run_check_write_target,
        read_only=True,
    ),
    CodeTool(
        name="add_explored_files",
        title="Add explored files",
        description="In READY: add files that you read later, so that they may be changed.",
        input_type=inputs.ExploredFiles,
        run=handlers.run_add_explored_files,
    ),
    CodeTool(
        name="revert_to_exploration",
        title="Revert to exploration",
        description="Return to EXPLORATION for more information. Branch, tasks and counters are kept.",
        input_type=inputs.Revert,
        run=lambda call: call.sessions.revert(call.client, keep_results=call.given.keep_results),
    ),
    CodeTool(
        name="review_changes",
        title="Review changes",
        description="List the files that this session changed, with diffs and a checklist. Before PRE_COMMIT.",
        input_type=inputs.ReviewChanges,
        run=handlers.run_review_changes,
        read_only=True,
    ),
    CodeTool(
        name="analyze_impact",
        title="Analyze impact",
        description="Find what a change may affect: callers that must be verified, files that should be.",
        input_type=inputs.AnalyzeImpact,
        run=handlers.run_analyze_impact,
        read_only=True,
    ),
    CodeTool(
        name="cleanup_stale_branches",
        title="Clean up stale branches",
        description=(
            "Only when the user asks: delete or merge the branches of earlier sessions, and delete their checkpoints."
            " Ends the current session."
        ),
        input_type=inputs.Cleanup,
        run=lambda call: call.sessions.clean(call.client, call.folder, call.given.action),
        destructive=True,
        gated=False,
    ),
    CodeTool(
        name="sync_index",
        title="Update the index",
        description="Wait until changed files are indexed. The server also does so in the background.",
        input_type=inputs.SyncIndex,
        run=handlers.run_sync_index,
    ),
    CodeTool(
        name="update_context",
        title="Store summaries",
        description="Store summaries of documents and rules, when a reply has `context_update_required`.",
        input_type=inputs.UpdateContext,
        run=handlers.run_update_context,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
