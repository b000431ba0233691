"""The tools of the server: one row each.

Owns: `TOOLS`, their descriptions, and which of them only look. Must never: do what a tool does (`handlers`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from adjourn.code.server import handlers, inputs
from adjourn.code.server.handlers import ToolInvocation
from adjourn.code.server.inputs import Input


class CodeTool(msgspec.Struct, frozen=True, kw_only=True):
    """A row. `read_only`: it changes nothing; `destructive`: it may drop work (which is kept under a ref first)."""

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
            "Begin a piece of work on this repository. The server leads through it: every reply says which phase comes next, what to do"
            " in it, and what to submit. Work that was cut off earlier is offered as `recovery_available`: ask the user whether to go on"
            " with that (get_session_status) or to go on here (submit_phase), which discards its checkpoint."
        ),
        input_type=inputs.StartSession,
        run=handlers.run_start_session,
        gated=False,
    ),
    CodeTool(
        name="submit_phase",
        title="Submit a phase",
        description=(
            "Finish the phase that the session is in. `data` has the members of `expected_payload` of the last reply; an error repeats"
            " what is needed. Submit only what was really done: the server knows which tools were called."
        ),
        input_type=inputs.SubmitPhase,
        run=lambda call: call.sessions.submit(call.client, call.given.data),
    ),
    CodeTool(
        name="get_session_status",
        title="Where the session stands",
        description=(
            "The phase, what to do in it, and what is done. After a restart or a lost context it takes up the session that was cut off,"
            " with what is known so far: call it first then."
        ),
        input_type=inputs.SessionStatus,
        run=handlers.run_get_session_status,
        gated=False,
    ),
    CodeTool(
        name="search_text",
        title="Search text",
        description="Lines that match a regular expression, in files that git does not ignore. Up to five patterns at once.",
        input_type=inputs.SearchText,
        run=handlers.run_search_text,
        read_only=True,
    ),
    CodeTool(
        name="search_files",
        title="Search files",
        description="Files whose path fits a glob; those that git ignores are left out.",
        input_type=inputs.SearchFiles,
        run=handlers.run_search_files,
        read_only=True,
    ),
    CodeTool(
        name="find_definitions",
        title="Find definitions",
        description="Where functions, classes, methods and variables of a name are defined. Quicker and surer than a text search.",
        input_type=inputs.FindDefinitions,
        run=handlers.run_find_definitions,
        read_only=True,
    ),
    CodeTool(
        name="find_references",
        title="Find references",
        description="Where a symbol is used. Each hit says whether it is exact, a guess by name, or only a mention in a comment or string.",
        input_type=inputs.FindReferences,
        run=handlers.run_find_references,
        read_only=True,
    ),
    CodeTool(
        name="analyze_structure",
        title="Structure of a file",
        description="Functions, classes, imports and exports of one file, or of a piece of code.",
        input_type=inputs.AnalyzeStructure,
        run=handlers.run_analyze_structure,
        read_only=True,
    ),
    CodeTool(
        name="get_symbols",
        title="List symbols",
        description="The symbols of a file, or of every file in a folder, in order.",
        input_type=inputs.GetSymbols,
        run=handlers.run_get_symbols,
        read_only=True,
    ),
    CodeTool(
        name="get_function_at_line",
        title="Function around a line",
        description="The innermost function or method around a line of a file.",
        input_type=inputs.FunctionAtLine,
        run=handlers.run_get_function_at_line,
        read_only=True,
    ),
    CodeTool(
        name="query",
        title="Ask about the code",
        description="Runs the search tools that fit a question and puts what they find in one list. A good first call.",
        input_type=inputs.Query,
        run=handlers.run_query,
        read_only=True,
    ),
    CodeTool(
        name="fetch_chunk_detail",
        title="A hit in full",
        description="The whole text of a hit of semantic_search.",
        input_type=inputs.ChunkDetail,
        run=handlers.run_fetch_chunk_detail,
        read_only=True,
    ),
    CodeTool(
        name="semantic_search",
        title="Search by meaning",
        description="Code that does what a description says, whatever it is called. From the phase SEMANTIC on.",
        input_type=inputs.SemanticSearch,
        run=handlers.run_semantic_search,
        read_only=True,
    ),
    CodeTool(
        name="check_write_target",
        title="May this file be changed?",
        description="Ask before changing a file: only what was explored in this session is a target. In READY.",
        input_type=inputs.WriteTarget,
        run=handlers.run_check_write_target,
        read_only=True,
    ),
    CodeTool(
        name="add_explored_files",
        title="Add explored files",
        description="Add files that were looked at since the exploration, so that they may be changed. In READY.",
        input_type=inputs.ExploredFiles,
        run=handlers.run_add_explored_files,
    ),
    CodeTool(
        name="revert_to_exploration",
        title="Back to exploring",
        description="Go back to EXPLORATION when the plan rests on too little. Branch, tasks and counters stay.",
        input_type=inputs.Revert,
        run=lambda call: call.sessions.revert(call.client, keep_results=call.given.keep_results),
    ),
    CodeTool(
        name="review_changes",
        title="Review changes",
        description="Every file that this session changed, with its difference, and what to look for. Before PRE_COMMIT is submitted.",
        input_type=inputs.ReviewChanges,
        run=handlers.run_review_changes,
        read_only=True,
    ),
    CodeTool(
        name="analyze_impact",
        title="Analyse impact",
        description="What a change of some files may touch: callers that must be looked at, files that should be.",
        input_type=inputs.AnalyzeImpact,
        run=handlers.run_analyze_impact,
        read_only=True,
    ),
    CodeTool(
        name="cleanup_stale_branches",
        title="Clean up",
        description=(
            "Delete or merge the branches that earlier sessions left, and delete all session checkpoints of this work tree. This ends"
            " the current session. Only when the user asked for it."
        ),
        input_type=inputs.Cleanup,
        run=lambda call: call.sessions.clean(call.client, call.given.repo_path, call.given.action),
        destructive=True,
        gated=False,
    ),
    CodeTool(
        name="sync_index",
        title="Bring the index up to date",
        description="Index what changed and wait for it. It also happens by itself, in the background.",
        input_type=inputs.SyncIndex,
        run=handlers.run_sync_index,
    ),
    CodeTool(
        name="update_context",
        title="Keep summaries",
        description="Keep summaries of design documents and project rules, when a reply asked for them by `context_update_required`.",
        input_type=inputs.UpdateContext,
        run=handlers.run_update_context,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
