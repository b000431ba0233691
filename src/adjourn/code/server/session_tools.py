"""The tools of a coding session, each declared once: its phases, what may be changed, its review, and the index and summaries beside it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

from adjourn.code.changes import FileChange, changed_submodules, with_diffs
from adjourn.code.search.context import sync_index, update_context
from adjourn.code.search.impact import analyze_impact
from adjourn.code.server.replies import MAX_REPLY, MAX_TEXT, error_of, returned
from adjourn.code.server.tool import CodeTool, Cursor, Path, Reply, Repo, ToolInvocation
from adjourn.code.session_state import GateLevel, Intent, Phase
from adjourn.code.workflow import evidence, payloads
from adjourn.code.workflow.phases import FlowError
from adjourn.code.workflow.request import GARBAGE, Flags, SessionRequest, parse_flags, resume_not_alone
from adjourn.errors import AdjournError

MAX_REVIEW_FILES = 50
MAX_REVIEW = 64 << 10
"""Limits of the review that comes with the reply that enters PRE_COMMIT: a larger one is read page by page."""


class DocSummary(msgspec.Struct, kw_only=True):
    path: str
    summary: str
    file: str = ""


class StartSession(CodeTool, kw_only=True):
    name = "start_session"
    title = "Start a session"
    description = (
        "Start a session: one piece of work on this repository. Every reply says what to do next and what to submit."
        " If it offers an interrupted session as `recovery_available`, ask the user whether to resume it (get_session_status)"
        " or to continue with the new one (submit_phase), which deletes the old checkpoint."
    )
    gated = False

    intent: Annotated[Intent, msgspec.Meta(description="Only IMPLEMENT and MODIFY change files.")]
    query: Annotated[str, msgspec.Meta(min_length=1, description="The user's own words.")]
    repo_path: Repo = "."
    gate_level: Annotated[
        GateLevel, msgspec.Meta(description="full: no phase is skipped; auto: Q1, Q2 and Q3 decide.")
    ] = "auto"
    flags: Annotated[Flags | str, msgspec.Meta(description="Only what the user typed, such as `--fast -g=f`.")] = (
        msgspec.field(default_factory=Flags)
    )

    def run(self, call: ToolInvocation) -> Reply:
        flags, gate = self.flags, self.gate_level
        if isinstance(flags, str):
            flags, gate = parse_flags(flags, gate)
        if flags.resume:
            raise resume_not_alone()
        wanted = SessionRequest(self.intent, self.query, gate, flags)
        started = call.sessions.start(call.client, wanted, call.folder(self.repo_path))
        return {**started, **call.codebases.context_of(call.root)}


class SubmitPhase(CodeTool, kw_only=True):
    name = "submit_phase"
    title = "Submit a phase"
    description = (
        "Complete the current phase. An error repeats what is required. Submit only work that you did: the server"
        " records which tools were called."
    )

    data: Annotated[
        dict[str, Any] | list[dict[str, Any] | str] | str,
        msgspec.Meta(
            description="What `expected_payload` of the last reply names; or a list: that object, then one for each entry of `then`."
        ),
    ]

    def run(self, call: ToolInvocation) -> Reply:
        """Submit one payload, or several in order until one is refused: those before it stay accepted."""
        several = payloads.as_list(self.data)
        if several is None:
            return _with_review(call, call.sessions.submit(call.client, self.data, call.deadline))
        reply: dict[str, Any] = {}
        for number, data in enumerate(several):
            try:
                reply = call.sessions.submit(call.client, data, call.deadline)
            except FlowError as refused:
                return {**refused.reply(), "accepted": number}
            except AdjournError as error:
                return {**error_of(error), "accepted": number}
        return _with_review(call, {**reply, "accepted": len(several)})


class SessionStatus(CodeTool, kw_only=True):
    name = "get_session_status"
    title = "Session status"
    description = (
        "Show the phase and its instruction. After a restart or a lost context, call this first: it resumes the"
        " interrupted session with everything known so far."
    )
    gated = False

    repo_path: Repo = "."

    def run(self, call: ToolInvocation) -> Reply:
        return call.sessions.status(call.client, call.folder(self.repo_path))


class WriteTarget(CodeTool, kw_only=True):
    name = "check_write_target"
    title = "Check a write target"
    description = "Check whether a file may be changed: explored files may. In READY, before each change."
    read_only = True

    file_path: Path
    allow_new_files: bool = True

    def run(self, call: ToolInvocation) -> Reply:
        active = call.sessions.require_active(call.client)
        with active.lock:
            noted = active.state.refused_targets
            answer = evidence.check_target(
                active.state, active.worktree, self.file_path, allow_new_files=self.allow_new_files
            )
            if active.state.refused_targets != noted:
                active.save()
            return answer


class ExploredFiles(CodeTool, kw_only=True):
    name = "add_explored_files"
    title = "Add explored files"
    description = "In READY: add files that you read later, so that they may be changed."

    files: Annotated[list[str], msgspec.Meta(description="Files or folders.")]

    def run(self, call: ToolInvocation) -> Reply:
        active = call.sessions.require_active(call.client)
        with active.lock:
            added = evidence.add_explored(active.state, active.worktree, self.files)
            active.save()
            return added


class Revert(CodeTool, kw_only=True):
    name = "revert_to_exploration"
    title = "Revert to exploration"
    description = "Return to EXPLORATION for more information. Branch, tasks and counters are kept."

    keep_results: Annotated[
        bool, msgspec.Meta(description="false: drop results of semantic search and verification.")
    ] = True

    def run(self, call: ToolInvocation) -> Reply:
        return call.sessions.revert(call.client, keep_results=self.keep_results)


class ReviewChanges(CodeTool, kw_only=True):
    name = "review_changes"
    title = "Review changes"
    description = "List the files that this session changed, with diffs and a checklist. Before PRE_COMMIT."
    read_only = True

    cursor: Cursor = ""

    def run(self, call: ToolInvocation) -> Reply:
        active = call.sessions.require_active(call.client)
        active.worktree.check_branch(active.state)
        review = _review(call, call.changes(), skip=returned(self.cursor, "changes"), room=MAX_REPLY)
        return {"success": True, "session_id": active.state.session_id, **review}


class AnalyzeImpact(CodeTool, kw_only=True):
    name = "analyze_impact"
    title = "Analyze impact"
    description = "Find what a change may affect: callers that must be verified, files that should be."
    read_only = True
    limit = MAX_TEXT

    target_files: Annotated[list[str], msgspec.Meta(description="The files that will be changed.")]
    change_description: Annotated[str, msgspec.Meta(description="What will be changed, in words.")] = ""
    cursor: Cursor = ""

    def run(self, call: ToolInvocation) -> Reply:
        impact = analyze_impact(call.codebase, self.target_files, self.change_description, deadline=call.deadline)
        active = call.client.active
        return {**impact, **active.note_impact(self.target_files, impact)} if active else impact


class Cleanup(CodeTool, kw_only=True):
    name = "cleanup_stale_branches"
    title = "Clean up stale branches"
    description = (
        "Only when the user asks: delete or merge the branches of earlier sessions, and delete their checkpoints."
        " Ends the current session."
    )
    destructive = True
    gated = False

    repo_path: Repo = "."
    action: Annotated[
        Literal["delete", "merge"],
        msgspec.Meta(description="Delete branches (a ref keeps their commits), or merge each into its base."),
    ] = "delete"

    def run(self, call: ToolInvocation) -> Reply:
        return call.sessions.clean(call.client, call.folder(self.repo_path), self.action)


class SyncIndex(CodeTool, kw_only=True):
    name = "sync_index"
    title = "Update the index"
    description = "Wait until changed files are indexed. The server also does so in the background."

    path: Path = "."
    force: Annotated[bool, msgspec.Meta(description="Rebuild the index from scratch.")] = False
    sync_map: bool = True

    def run(self, call: ToolInvocation) -> Reply:
        return sync_index(call.codebase, self.path, force=self.force, sync_map=self.sync_map, deadline=call.deadline)


class UpdateContext(CodeTool, kw_only=True):
    name = "update_context"
    title = "Store summaries"
    description = "Store summaries of documents and rules, when a reply has `context_update_required`."

    design_doc_summaries: list[DocSummary] = msgspec.field(default_factory=list)
    project_rules_summary: str = ""

    def run(self, call: ToolInvocation) -> Reply:
        summaries: list[Mapping[str, str]] = [msgspec.to_builtins(summary) for summary in self.design_doc_summaries]
        return update_context(
            call.codebase.repository, summaries, self.project_rules_summary or None, now=datetime.now(UTC)
        )


FIRST: tuple[type[CodeTool], ...] = (StartSession, SubmitPhase, SessionStatus)
"""The tools that clients list before those that search."""
LAST: tuple[type[CodeTool], ...] = (
    WriteTarget, ExploredFiles, Revert, ReviewChanges, AnalyzeImpact, Cleanup, SyncIndex, UpdateContext,
)  # fmt: skip


# --- the changes of a session, for its review


def _with_review(call: ToolInvocation, reply: dict[str, Any]) -> dict[str, Any]:
    """The reply, if it enters PRE_COMMIT with what is known to be wrong and the changes to review. That counts as a call of
    review_changes.
    """
    active = call.client.active
    if active is None or reply.get("phase") != Phase.PRE_COMMIT:
        return reply
    with suppress(AdjournError):
        if troubles := call.sessions.known_troubles(call.root):
            reply = reply | {"open_troubles": troubles}
    with active.lock, suppress(AdjournError):  # the step was accepted: review_changes reports what failed
        listed = call.changes()
        if len(listed) <= MAX_REVIEW_FILES:
            review = _review(call, listed, room=MAX_REVIEW)
            if len(msgspec.json.encode(review)) <= MAX_REVIEW:
                active.note_review()
                return {name: value for name, value in reply.items() if name != "call_first"} | {"review": review}
    return reply


def _review(call: ToolInvocation, listed: list[FileChange], *, room: int, skip: int = 0) -> dict[str, Any]:
    """The session's changes. The first `skip` have no diffs, nor those that are beyond `room` bytes."""
    active = call.sessions.require_active(call.client)
    state, worktree = active.state, active.worktree
    reviewed = []
    for change in with_diffs(worktree.git, worktree.base_commit(state), listed, skip=skip, room=room):
        call.deadline.expired()
        reviewed.append({**msgspec.to_builtins(change), "refused": change.path in state.refused_targets})
        call.deadline.report(len(reviewed), len(listed))
    said = [
        f"files changed in {path}, a repository of its own: this session does not commit them; commit or undo them there"
        for path in changed_submodules(worktree.git)
    ]
    more = {"review_prompt": worktree.prompt(GARBAGE), "warnings": said}
    return {
        "total_changes": len(reviewed),
        "changes": reviewed,
        **{name: value for name, value in more.items() if value},
    }
