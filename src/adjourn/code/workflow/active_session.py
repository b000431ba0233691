"""An active session: the client that works on it, its checkpoint file, and its task in the store, where each call and each step is a fact."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from adjourn.aex.policy import Policy
from adjourn.checkpoints import checkpoint
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.code import branches, session_state
from adjourn.code.repository import FOLDER, own_folder
from adjourn.code.session_state import ImpactAnalysis, Phase, SessionState, ToolCall, stamp
from adjourn.code.workflow import phases
from adjourn.code.workflow.request import Worktree
from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.host import keys, process
from adjourn.host.clock import now
from adjourn.host.process import group_of
from adjourn.host.workspace import read_file, remove_file, write_file
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import SYSTEM
from adjourn.store.base import Store
from adjourn.tasks.decision import Block, ToolRequest
from adjourn.tasks.heads import recent_facts
from adjourn.tasks.lease import SessionIdentity, is_alive
from adjourn.tasks.task import NewEvent, Task
from adjourn.text.quoting import first_line

MAX_CALLS = 200
SILENCE = 60.0
"""Seconds without a call after which another client may resume a client's session."""


class ClientConnection:
    """One client. It works on one session at a time."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._active: ActiveSession | None = None
        self.heard = time.monotonic()
        self._calls: set[object] = set()

    @property
    def active(self) -> ActiveSession | None:
        """The session that the client works on; None without one."""
        return self._active

    def attach(self, active: ActiveSession) -> None:
        """Make a session the one that the client works on."""
        self._active = active

    def detach(self) -> ActiveSession | None:
        """Forget the client's session, and return it."""
        active, self._active = self._active, None
        return active

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Mark a call as in flight while the block runs."""
        call = object()
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)
            self.heard = time.monotonic()

    @property
    def silent(self) -> bool:
        """Whether the client may have disconnected without notice: no call in flight, none for `SILENCE` seconds."""
        return not self._calls and time.monotonic() - self.heard > SILENCE


class ActiveSession:
    """A session that this server works on."""

    def __init__(self, state: SessionState, worktree: Worktree, journal: SessionJournal) -> None:
        self.worktree = worktree
        self.journal = journal
        self.lock = RLock()
        self._state = state

    @property
    def state(self) -> SessionState:
        """The session as of its last step."""
        return self._state

    def advance(self, state: SessionState) -> None:
        """Replace the state with that after a step."""
        self._state = state

    def record(self, call: ToolCall) -> None:
        """Record a call. Only successful calls count as evidence."""
        with self.lock:
            if "error_type" not in call.result_detail and call.tool not in self.state.tools_in_step:
                self.state.tools_in_step.append(call.tool)
            self.state.tool_calls.append(call)
            del self.state.tool_calls[:-MAX_CALLS]

    def save(self) -> None:
        """Save the checkpoint between two steps."""
        save_checkpoint(self.worktree.repository.root, self.state)

    def note_review(self) -> None:
        """Count the changes that a reply showed as a call of review_changes."""
        if "review_changes" not in self.state.tools_in_step:
            self.state.tools_in_step.append("review_changes")
        self.save()

    def note_impact(self, targets: list[str], answer: dict[str, Any]) -> dict[str, Any]:
        """Record which files must be verified, and return the next steps."""
        with self.lock:
            state = self.state
            wanted = answer.get("confirmation_required", {})
            state.impact_analysis = ImpactAnalysis(
                target_files=targets,
                must_verify=wanted.get("must_verify", []),
                should_verify=wanted.get("should_verify", []),
                mode=answer.get("impact_analysis", {}).get("mode", "standard"),
            )
            frame = state.query_frame
            return {
                "session_id": state.session_id,
                "current_phase": str(state.current_phase),
                **({"query_frame": frame.slots} if frame else {}),
                "next_steps": {
                    "action": "submit_phase",
                    "hint": "read every file of must_verify, then submit your findings",
                },
            }


# --- checkpoints of sessions as files

SESSIONS = f"{FOLDER}/sessions"
MAX_BYTES = 16 << 20
MAX_SESSIONS = 200
"""Number of sessions that are listed, the most recently saved ones."""
_IGNORE = b"# Made by adjourn: where the sessions of this work tree stand.\n*\n"
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


def check_id(session: str) -> str:
    """Return a valid session id unchanged. Raises `InvalidError` for an id that could name another file."""
    if not _ID.fullmatch(session):
        raise InvalidError(f"not a session id: {session[:80]!r}", "list the sessions with get_session_status")
    return session


def save_checkpoint(root: str, state: SessionState) -> None:
    """Write a session's checkpoint, atomically. Raises `StoreError`."""
    state.checkpoint_at = stamp()
    put(root, state)


def put(root: str, state: SessionState) -> None:
    """Write a session's checkpoint as it was saved before. Raises `StoreError`."""
    name = f"{check_id(state.session_id)}.json"
    write_file(own_folder(root, SESSIONS, _IGNORE), name, session_state.encode(state))


def load_checkpoint(root: str, session: str) -> SessionState:
    """A session as it was last saved. Raises `NotFoundError`, `InvalidError`."""
    state = session_state.decode(read_file(os.path.join(_folder(root), f"{check_id(session)}.json"), MAX_BYTES))
    if state.session_id != session:
        raise InvalidError(f"not a checkpoint of {session}: it belongs to session {state.session_id}")
    return state


def list_all(root: str) -> list[SessionState]:
    """Every session that can be resumed here, the oldest first; at most the newest `MAX_SESSIONS`."""
    return read_all(root)[0]


def read_all(root: str) -> tuple[list[SessionState], dict[str, str]]:
    """As `list_all`; and the sessions whose file is damaged, each with what is wrong."""
    sessions, damaged = [], {}
    for name in _names(root)[-MAX_SESSIONS:]:
        try:
            sessions.append(load_checkpoint(root, name))
        except InvalidError as error:
            damaged[name] = error.message
        except AdjournError:
            continue  # it was deleted meanwhile, or cannot be read: that is no damage
    return sorted(sessions, key=lambda each: each.checkpoint_at), damaged


def set_aside(root: str, session: str) -> str:
    """Rename a damaged file, and return its name."""
    folder = _folder(root)
    names = (f"{session}.json.damaged{suffix}" for suffix in ("", *(f"-{number}" for number in range(2, 100))))
    name = next((name for name in names if not os.path.lexists(os.path.join(folder, name))), None)
    if name is None:
        raise InvalidError(f"{folder} has a hundred damaged files of {session}", "remove some")
    os.rename(os.path.join(folder, f"{session}.json"), os.path.join(folder, name))
    return f"{SESSIONS}/{name}"


def exists(root: str, session: str) -> bool:
    return session in _names(root)


def delete(root: str, session: str) -> bool:
    """Delete a session's checkpoint. Returns False if there was none."""
    if not exists(root, session):
        return False
    remove_file(_folder(root), f"{session}.json")
    return True


def summary(state: SessionState) -> dict[str, Any]:
    """The summary of a session that can be resumed."""
    return {
        "session_id": state.session_id,
        "phase": str(state.current_phase),
        "step": phases.step_of(state).step,
        "intent": state.intent,
        "query": state.query[:500],
        "checkpoint_at": state.checkpoint_at,
        "branch": state.task_branch_name,
    }


def _names(root: str) -> list[str]:
    """The sessions that have a file, the most recently saved last."""
    dated: list[tuple[float, str]] = []
    try:
        with os.scandir(_folder(root)) as entries:
            for entry in entries:
                name = entry.name.removesuffix(".json")
                if name != entry.name and _ID.fullmatch(name):
                    dated.append((entry.stat(follow_symlinks=False).st_mtime, name))
    except (OSError, NotFoundError):
        return []
    return [name for _, name in sorted(dated)]


def _folder(root: str) -> str:
    """The sessions folder. Raises `NotFoundError` if a link leads to it."""
    path = os.path.join(root, *SESSIONS.split("/"))
    if os.path.realpath(path) != os.path.join(os.path.realpath(root), *SESSIONS.split("/")):
        raise NotFoundError(f"{path} is reached through a symbolic link", "remove the link")
    return path


# --- what an older or edited checkpoint lacks

_CHANGING = 12
"""The first step of the phases that change files."""
_HASH = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")


def is_fresh(state: SessionState) -> bool:
    """Whether a session that was started beside an interrupted one has no step yet."""
    return len(state.phase_history) <= 1 and bool(state.offered)


def repair(state: SessionState, worktree: Worktree) -> list[str]:
    """Fill in what an older checkpoint form lacks, and return warnings about what changed since."""
    if not worktree.is_git:
        if state.implements and not state.quick_mode and phases.step_of(state).step >= _CHANGING:
            state.quick_mode = True
            return [f"{worktree.why_no_git}: the session ends after the verification, without a commit"]
        return []
    git = worktree.git
    _drop_unsafe_names(state, worktree)
    if not state.task_branch_name:
        mine = [
            name
            for name in git.branches(branches.PREFIX)
            if (parsed := branches.parse(name)) and parsed.session == state.session_id
        ]
        if mine and phases.step_of(state).step >= _CHANGING:
            state.task_branch_name, state.task_branch_enabled = mine[0], True
    branch = state.task_branch_name
    if not (branch and state.task_branch_enabled):
        return []
    if not git.commit(f"refs/heads/{branch}"):
        return [f"branch {branch} no longer exists"]
    state.base_branch = state.base_branch or branches.base_of(git, branch)
    here = git.branch()
    if here == branch or (here == state.base_branch and state.current_phase == Phase.MERGE):
        return []
    return [f"{here or 'no branch'} is checked out; the session works on {branch}: check it out first"]


def _drop_unsafe_names(state: SessionState, worktree: Worktree) -> None:
    """Clear names that git must not receive: anybody may have written a checkpoint file."""
    if state.task_branch_name and not branches.parse(state.task_branch_name):
        state.task_branch_name, state.task_branch_enabled = None, False
    if state.base_branch not in worktree.git.branches():
        state.base_branch = ""
    for name in ("base_commit", "commit_hash"):
        if not _HASH.fullmatch(getattr(state, name)):
            setattr(state, name, "")


# --- the session in the store

MAX_TEXT = 2_000
_STORE_IGNORE = b"# Made by adjourn: the store is one machine's.\n/.gitignore\n/adjourn.db*\n"


class SessionJournal:
    """Records one session in its task."""

    def __init__(self, store: Store, state: SessionState, *, client: str = "") -> None:
        self.task = Task(store, state.session_id, clock=now, secret=keys.secret())
        policy, text = _permissions(state)
        identity = SessionIdentity(process.current(), group_of(process.current(), state.repo_path), client[:100])
        self.session = GuardedSession(self.task, policy, identity, policy_text=text)

    def open(self) -> None:
        """Acquire the session. Raises `HeldError` while a live server holds it."""
        self.session.open()

    def admit(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Decide on a call and record the decision: `(call, "")` if the phase permits it, else `("", reason)`.

        Calls are recorded as effect-free: after a kill, git shows what was left unfinished.
        """
        call = ToolRequest(tool=tool, digest=digest(canonical(_canonical_arguments(arguments))), effectful=False)
        admitted = self.session.admit([call])[0]
        decision = admitted.decision
        if isinstance(decision, Block):
            is_closed = decision.reason == "not_allowed"  # the rules are a phase's: nobody can allow the tool
            return "", f"{tool} cannot be called now" if is_closed else decision.message
        return admitted.call, ""

    def settle(self, call: str, *, error: str, milliseconds: int) -> None:
        """Record the result of a call together with the next fact. `error` says why it failed, "" for a success."""
        outcome = kinds.ToolSettled(
            call=call, message=first_line(error), milliseconds=milliseconds, outcome="tool-error" if error else "ok"
        )
        self.task.deferred.append(NewEvent(outcome, SYSTEM, self.session.id))

    def entered(
        self, before: SessionState | None, state: SessionState, *, reason: str = "", over: bool = False
    ) -> None:
        """Record a completed step with the session's state, and create a checkpoint of the task."""
        document = session_state.encode(state)
        row = phases.step_of(state)
        entered = kinds.PhaseEntered(
            after=str(before.current_phase) if before else "",
            document=digest(document),
            phase="" if over else str(state.current_phase),
            reason=reason[:MAX_TEXT],
            step=0 if over else row.step,
        )
        self.session.hold()
        self.task.commit([NewEvent(entered, self.session.actor, self.session.id)], blobs=[document])
        where = "over" if over else f"step {row.step}, {row.phase}"
        text = f"{where}: {state.query}"[:MAX_TEXT]
        checkpoint.create(self.task, state.session_id, description=text, trigger="phase", session=self.session)
        policy, policy_text = _permissions(state)
        if not over and policy != self.session.policy:
            self.session.change(policy, policy_text, b"")

    def tools_since_step(self) -> list[str]:
        """The tools called since the last step, without known failures: what a killed server had not saved."""
        called: dict[str, str] = {}
        for data in recent_facts(self.task.store, self.task.refresh()):
            if isinstance(data, kinds.PhaseEntered):
                called.clear()
            elif isinstance(data, kinds.ToolAllowed):
                called[data.call] = data.tool
            elif isinstance(data, kinds.ToolSettled) and data.outcome != "ok":
                called.pop(data.call, None)
        return list(dict.fromkeys(called.values()))

    def heartbeat(self) -> None:
        self.session.heartbeat()

    def close(self, reason: str) -> None:
        self.session.close(reason)


def make_store_folder(root: str) -> None:
    """Create the store's folder in a work tree, with a .gitignore for the store."""
    own_folder(root, ".aex", _STORE_IGNORE)


def held_elsewhere(store: Store, sessions: Sequence[str]) -> frozenset[str]:
    """The sessions that another live server holds."""
    here = process.current()
    held = set()
    for session in sessions:
        ledger = Task(store, session, clock=now, secret=keys.secret()).ledger
        for holder in ledger.sessions.values():
            mine = (holder.host, holder.pid, holder.started) == (here.host, here.pid, here.started)
            if not mine and is_alive(store, session, holder, now()):
                held.add(session)
    return frozenset(held)


def _permissions(state: SessionState) -> tuple[Policy, bytes]:
    policy, text = phases.policy_for(state)
    return Policy(allow=policy.allow, goal=state.query[:MAX_TEXT], name=policy.name), text.encode()


def _canonical_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as canonical JSON takes them."""
    return {
        name: value if isinstance(value, str | bool | int) or value is None else repr(value)
        for name, value in arguments.items()
    }
