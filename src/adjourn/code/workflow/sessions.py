"""The sessions of a server: starting, resuming after a restart, advancing, ending.

INVARIANT: a step is recorded in the order journal, checkpoint, reply; and no two servers work on one session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from time import gmtime, strftime
from typing import Any

import msgspec

from adjourn.code import branches, session_state
from adjourn.code.branches import Action
from adjourn.code.deadline import Deadline
from adjourn.code.repository import CodeRepository, list_backups, native
from adjourn.code.session_state import Phase, SessionState, Strictness, ToolCall
from adjourn.code.workflow import active_session, flow, payloads, phases
from adjourn.code.workflow.active_session import ActiveSession, ClientConnection, SessionJournal, is_fresh, repair
from adjourn.code.workflow.delivery import learn
from adjourn.code.workflow.phases import FlowError
from adjourn.code.workflow.request import RecordedCommand, SessionRequest, Worktree
from adjourn.code.workflow.tasks import known_troubles, progress, recorded_commands
from adjourn.errors import AdjournError
from adjourn.host import clock, keys
from adjourn.host.clock import now
from adjourn.host.finding import workspace_of
from adjourn.host.workspace_store import open_at
from adjourn.store.base import Store
from adjourn.tasks.heads import last_phase
from adjourn.tasks.task import Task

_MAX_STALE = 20
"""How many of the stale branches are named; session names begin with their time, so those are the newest."""
_MOVES = ("submit_phase", "revert_to_exploration")
NO_SESSION = "no active session, and no checkpoint was found in {root}: start one with start_session"
HELD = "no active session; other clients hold the sessions of {root}. A session is released when its client or server ends, or stops calling"
INACTIVE = "no active session: resume an interrupted one with get_session_status, or start one with start_session"


class Sessions:
    """The active sessions of a server. `root` is its working folder; each session names its own work tree."""

    def __init__(
        self,
        root: str = ".",
        *,
        strictness: Strictness = "standard",
        store: str = "",
        test_commands: Sequence[tuple[str, ...]] = (),
    ) -> None:
        self.root = os.path.realpath(root)
        self._strictness = strictness
        self._url = store
        self._test_commands = test_commands
        self._stores: dict[str, Store] = {}
        self._open: dict[str, ClientConnection] = {}
        self._lock = RLock()

    # --- starting and finding again

    def start(self, client: ClientConnection, wanted: SessionRequest, repo_path: str) -> dict[str, Any]:
        """Start a session. An interrupted one is offered, and kept until the first step of this one."""
        repository = self.repository(repo_path)
        worktree = self._worktree(repository, "")
        if not worktree.is_git and wanted.needs_branch:
            raise FlowError(
                "branch_setup_failed",
                f"{wanted.intent} needs a branch: {worktree.why_no_git}, or start with the flag quick; search works without git",
            )
        with self._lock:
            self._leave(client, "another session was started")
            store = self._store(repository.root)
            damaged = restore_damaged(repository.root, self._store)
            others = self._resumable(repository.root)
            state = wanted.state(self._new_id(repository.root), repository.root, self._strictness)
            state.offered = others[-1].session_id if others else ""
            worktree = self._worktree(repository, state.session_id)
            stale = branches.find_stale(worktree.git, worktree.excluded_sessions()) if worktree.is_git else []
            flow.begin(state, phases.first(state, stale=bool(stale)))
            active = ActiveSession(state, worktree, SessionJournal(store, state, client=client.name))
            active.journal.open()
            active.journal.entered(None, state)
            active_session.save_checkpoint(repository.root, state)
            self._open[state.session_id] = client
            client.attach(active)
        reply = {"success": True, "session_id": state.session_id, **wanted.summary(), **phases.block(state)}
        reply |= {"strictness": state.strictness, "query_frame_extraction_prompt": payloads.FRAME_PROMPT}
        if stale:
            reply["stale_branches"] = msgspec.to_builtins(stale[-_MAX_STALE:])
            reply["stale_branches_total"] = len(stale)
        if damaged:
            reply["warnings"] = damaged
        if others:
            reply |= {"recovery_available": True, "checkpoint_info": active_session.summary(others[-1])}
        return reply

    def status(self, client: ClientConnection, repo_path: str) -> dict[str, Any]:
        """The status of the client's session; without one, resume the most recently interrupted session.

        A session without any step yields to the interrupted one that was offered with it.
        """
        with self._lock:
            active = client.active
            if active is not None:
                if not is_fresh(active.state) or not self._has_offer(active.state):
                    return status(active.state, active.worktree)
                return self._take_offer(client, active.state)
            root = self.repository(repo_path).root
            damaged = restore_damaged(root, self._store)
            resumable = self._resumable(root)
            if not resumable:
                others = [session.session_id for session in active_session.list_all(root)]
                why = (HELD if others else NO_SESSION).format(root=root)
                why = "; ".join([why, *damaged])
                raise FlowError("no_active_session", why, sessions_of_others=others)
            newest = resumable[-1]
            if is_fresh(newest) and self._has_offer(newest):
                reply = self._take_offer(client, newest)
            else:
                reply = self._recover(client, newest)
            return {**reply, "warnings": [*damaged, *reply.get("warnings", ())]} if damaged else reply

    def _has_offer(self, state: SessionState) -> bool:
        return any(session.session_id == state.offered for session in self._resumable(state.repo_path))

    def _take_offer(self, client: ClientConnection, fresh: SessionState) -> dict[str, Any]:
        """Resume the session that was offered, and delete the new one."""
        self._leave(client, "an earlier session was restored")
        recovered = self._recover(client, active_session.load_checkpoint(fresh.repo_path, fresh.offered))
        active_session.delete(fresh.repo_path, fresh.session_id)
        return recovered

    def _recover(self, client: ClientConnection, state: SessionState) -> dict[str, Any]:
        repository = self.repository(state.repo_path)
        worktree = self._worktree(repository, state.session_id)
        state.offered = ""
        if (silent := self._open.get(state.session_id)) is not None:
            self._leave(silent, "another client resumed the session")
        warnings = repair(state, worktree)
        active = ActiveSession(state, worktree, SessionJournal(self._store(repository.root), state, client=client.name))
        active.journal.open()
        for tool in active.journal.tools_since_step():
            if tool not in state.tools_in_step:
                state.tools_in_step.append(tool)
        self._open[state.session_id] = client
        client.attach(active)
        reply = status(state, worktree)
        reply |= {
            "recovered_from_checkpoint": True,
            "checkpoint_session_id": state.session_id,
            "known": session_knowledge(state, worktree),
        }
        return reply | ({"warnings": warnings} if warnings else {})

    # --- moving on

    def submit(self, client: ClientConnection, data: Any, deadline: Deadline | None = None) -> dict[str, Any]:
        """Handle a submission for the current phase of the client's session. Raises `FlowError`."""
        active = self.require_active(client)
        with active.lock:
            before = active.state
            result = flow.submit(active.worktree, before, data, deadline)
            state = result.state
            reason = state.phase_history[-1].reason if state.phase_history else ""
            active.journal.entered(before, state, reason=reason, over=result.over)
            root = active.worktree.repository.root
            offered, state.offered = state.offered, ""
            if result.over:
                active_session.delete(root, state.session_id)
                active.advance(state)
                self._leave(client, "completed")
            else:
                active_session.save_checkpoint(root, state)
                active.advance(state)
            if offered:
                active_session.delete(root, offered)
            return {**result.reply, "session_id": state.session_id}

    def revert(self, client: ClientConnection, *, keep_results: bool) -> dict[str, Any]:
        """Return the client's session to EXPLORATION."""
        active = self.require_active(client)
        with active.lock:
            before = active.state
            state = flow.revert(before, keep_results=keep_results)
            active.journal.entered(before, state, reason="revert_to_exploration")
            active_session.save_checkpoint(active.worktree.repository.root, state)
            active.advance(state)
            return {
                "success": True,
                "previous_phase": str(before.current_phase),
                "current_phase": str(state.current_phase),
                "kept_exploration": state.exploration is not None,
                "message": "explore again, then submit; branch, tasks and counters are kept",
                **phases.block(state),
            }

    def clean(self, client: ClientConnection, repo_path: str, action: Action) -> dict[str, Any]:
        """Clean up branches and checkpoints of finished and abandoned sessions, the client's own included."""
        with self._lock:
            repository = self.repository(repo_path)
            self._leave(client, "cleaned up")
            worktree = self._worktree(repository, "")
            cleaned = branches.CleanupResult()
            if worktree.is_git:
                cleaned = branches.clean_up(
                    worktree.git, self._new_id(repository.root), action, worktree.excluded_sessions()
                )
            remaining = worktree.git.branches(branches.PREFIX) if worktree.is_git else []
            deleted = [
                state.session_id
                for state in self._resumable(repository.root)
                if not any(parsed.session == state.session_id for parsed in map(branches.parse, remaining) if parsed)
            ]  # INVARIANT: a checkpoint goes only after its branch
            for session in deleted:
                active_session.delete(repository.root, session)
            done = f"{len(cleaned.deleted_branches)} branches and {len(deleted)} checkpoints deleted"
            return {
                "success": not cleaned.errors,
                "action": action,
                "deleted_branches": [],
                "errors": [],
                **msgspec.to_builtins(cleaned),
                "checkpoints_deleted": len(deleted),
                "message": done + (f"; {len(cleaned.errors)} failed" if cleaned.errors else ""),
            }

    # --- calls

    def require_active(self, client: ClientConnection) -> ActiveSession:
        """The session that a client works on. Raises `FlowError`."""
        if client.active is None:
            raise FlowError("no_active_session", INACTIVE)
        return client.active

    def admit(
        self, client: ClientConnection, tool: str, arguments: Mapping[str, Any]
    ) -> tuple[str, dict[str, Any] | None]:
        """Admit a call in the current phase of the client's session: `(call id, None)`, or `("", refusal)`."""
        active = client.active
        if active is None:
            return "", None
        call, why = active.journal.admit(tool, arguments)
        return (call, None) if call else ("", phases.refusal(active.state, tool, why))

    def settle(self, active: ActiveSession, call: str, record: ToolCall) -> None:
        """Record the result of an admitted call."""
        error = str(record.result_detail.get("error_type", ""))
        with suppress(AdjournError):  # the session is over, or the store fails: the next step reports it
            active.journal.settle(call, error=error, milliseconds=int(record.duration_seconds * 1000))
        if record.tool not in _MOVES:
            active.record(record)

    def repository(self, path: str = ".") -> CodeRepository:
        """The repository that contains a path, relative to the server's working folder."""
        return CodeRepository(os.path.join(self.root, native(path or ".")))

    def heartbeat(self) -> None:
        for client in list(self._open.values()):
            if (active := client.active) is not None:
                with suppress(AdjournError):
                    active.journal.heartbeat()

    def leave(self, client: ClientConnection) -> None:
        """Release the session of a disconnected client, so that another client can resume it."""
        with self._lock:
            self._leave(client, "the client disconnected")

    def close(self) -> None:
        """Release every session and close the stores. Checkpoints stay."""
        with self._lock:
            for client in list(self._open.values()):
                self._leave(client, "the server stopped")
            for store in self._stores.values():
                store.close()
            self._stores.clear()

    # --- parts

    def _leave(self, client: ClientConnection, reason: str) -> None:
        active = client.detach()
        if active is not None:
            self._open.pop(active.state.session_id, None)
            with suppress(AdjournError):  # the next client finds this server's process dead
                active.journal.close(reason)

    def _resumable(self, root: str) -> list[SessionState]:
        """Sessions of a work tree that no client holds, the oldest first."""
        worked_on = {session for session, client in self._open.items() if not client.silent}
        free = [state for state in active_session.list_all(root) if state.session_id not in worked_on]
        if not free:
            return []
        held = active_session.held_elsewhere(self._store(root), [state.session_id for state in free])
        return [msgspec.structs.replace(state, repo_path=root) for state in free if state.session_id not in held]

    def _worktree(self, repository: CodeRepository, session: str) -> Worktree:
        def excluded_sessions() -> frozenset[str]:
            """Sessions whose branches are not stale: other clients hold them."""
            names = [state.session_id for state in active_session.list_all(repository.root)]
            elsewhere = active_session.held_elsewhere(self._store(repository.root), names) if names else frozenset()
            return elsewhere | (self._open.keys() - {session})

        def recorded(state: SessionState) -> Sequence[RecordedCommand] | None:
            """What the journal has of the commands of the session's client."""
            client = self._open.get(state.session_id)
            root = workspace_of(repository.root).root
            return recorded_commands(self._store(root), root, client.name if client else "", state.created_at)

        return Worktree(
            repository,
            excluded_sessions=excluded_sessions,
            on_merged=_learn,
            test_commands=self._test_commands,
            recorded=recorded,
        )

    def known_troubles(self, root: str) -> list[str]:
        """What is known to be wrong with the tasks of the workspace that a work tree belongs to."""
        return known_troubles(self._store(root), workspace_of(root).root)

    def _store(self, root: str) -> Store:
        """The store of the workspace that a work tree belongs to."""
        root = workspace_of(root).root
        with self._lock:
            if root not in self._stores:
                active_session.make_store_folder(root)
                self._stores[root] = open_at(root, self._url)
            return self._stores[root]

    def _new_id(self, root: str) -> str:
        """A new session id such as `session_20261121_101500_7k3f`: the time in UTC and a random suffix."""
        seconds = now() // 1000
        name = strftime("session_%Y%m%d_%H%M%S_", gmtime(seconds)) + clock.short(4)
        return name if not active_session.exists(root, name) else self._new_id(root)


def _learn(worktree: Worktree, state: SessionState) -> None:
    """Write the agreement of a merged session; a failure must not fail the merge."""
    with suppress(AdjournError, OSError):
        learn(worktree, state)


# --- sessions whose checkpoint file is damaged


def restore_damaged(root: str, store_of: Callable[[str], Store]) -> list[str]:
    """Restore every damaged checkpoint of a work tree from the store. Returns what was done, file by file."""
    _, damaged = active_session.read_all(root)
    if not damaged:
        return []
    store = store_of(root)
    held = active_session.held_elsewhere(store, list(damaged))
    return [_restore_checkpoint(root, store, session, why) for session, why in damaged.items() if session not in held]


def _restore_checkpoint(root: str, store: Store, session: str, why: str) -> str:
    aside = active_session.set_aside(root, session)
    state = _last_state(store, session)
    if state is None:
        return f"the checkpoint of {session} is damaged ({why}), and the store has no step of it: it is kept as {aside}"
    state.repo_path = root
    active_session.put(root, state)
    return (
        f"the checkpoint of {session} was damaged ({why}): it is kept as {aside}, and the session was restored from the"
        " store, as of its last step"
    )


def _last_state(store: Store, session: str) -> SessionState | None:
    """The session after its last step, as the store has it; None for one that it does not know, or that is over."""
    with suppress(AdjournError):
        step = last_phase(store, Task(store, session, clock=now, secret=keys.secret()).ledger)
        document = store.get_blob(step.document) if step is not None and step.phase else None
        if document is not None:
            state = session_state.decode(document)
            return state if state.session_id == session else None
    return None


# --- the status of a session

_MAX_LISTED = 100


def status(state: SessionState, worktree: Worktree) -> dict[str, Any]:
    """The phase and progress of a session, and its next step."""
    steps = sorted({visit.step for visit in state.phase_history if visit.ended_at and visit.step} | {1})
    members: dict[str, Any] = {
        "session_id": state.session_id,
        "intent": state.intent,
        "query": state.query,
        **phases.block(state),
        "completed_steps": steps,
        "task_progress": progress(state) if state.tasks else None,
    }
    if state.task_branch_enabled:
        members["task_branch"] = {
            "enabled": True,
            "branch": state.task_branch_name,
            "base": state.base_branch,
            "checked_out": worktree.git.branch() == state.task_branch_name,
        }
    if state.current_phase == Phase.POST_IMPL_VERIFY and worktree.test_commands:
        members["server_runs"] = worktree.server_runs
    if state.tools_in_step:
        members["called_in_this_step"] = state.tools_in_step
    return members


def session_knowledge(state: SessionState, worktree: Worktree) -> dict[str, Any]:
    """Everything known so far, for a client that lost its context."""
    frame, exploration, verification = state.query_frame, state.exploration, state.verification
    members: dict[str, Any] = {
        "flags": [name for name in _FLAGS if getattr(state, name)],
        "strictness": state.strictness,
        "gate_level": state.gate_level,
        "summaries": {name: entry.get("summary", "") for name, entry in state.phase_payloads.items()},
    }
    if frame is not None:
        members["query_frame"] = frame.slots
        members["scope"], members["constraints"] = frame.scope, frame.constraints
        members["target_symbols"] = [symbol.name for symbol in frame.mapped_symbols]
    if exploration is not None:
        members["explored_files"] = state.explored[:_MAX_LISTED]
        members["findings"] = exploration.findings[:_MAX_LISTED]
    if state.semantic is not None:
        members["search_results"] = state.semantic.search_results[:_MAX_LISTED]
    if state.map_hit:
        members["agreements"] = state.map_results
    if verification is not None:
        members["hypotheses"] = msgspec.to_builtins(verification.verified)[:_MAX_LISTED]
    if state.impact_analysis is not None:
        members["impact_summary"] = state.impact_analysis.summary
    if state.prepared_commit_message:
        members["commit_message"] = state.prepared_commit_message
    if worktree.is_git and (held := list_backups(worktree.git, state.session_id)):
        members["kept"] = msgspec.to_builtins(held)
    return members


_FLAGS = (
    "no_verify", "no_quality", "fast_mode", "quick_mode", "no_doc", "no_intervention", "only_explore", "only_verify",
)  # fmt: skip
