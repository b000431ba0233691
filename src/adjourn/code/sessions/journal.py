"""A coding session in the store: each call and each step of the procedure is a fact of one task.

Owns: the task of a session (same id), holding it, and reading its chain when another server resumes it. Must never:
decide what a phase permits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adjourn.aex.policy import Policy
from adjourn.checkpoints import checkpoint
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.code.model import session_state
from adjourn.code.model.repository import own_folder
from adjourn.code.model.session_state import SessionState
from adjourn.code.sessions.last_step import tail
from adjourn.code.workflow import phases
from adjourn.host import keys, process
from adjourn.host.clock import now
from adjourn.host.process import group_of
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.store.base import Store
from adjourn.tasks.decision import Block, ToolRequest
from adjourn.tasks.lease import SessionIdentity, is_alive
from adjourn.tasks.task import SYSTEM, NewEvent, Task
from adjourn.text.quoting import first_line

MAX_TEXT = 2_000
_IGNORE = b"# Made by adjourn: the store is one machine's.\n/.gitignore\n/adjourn.db*\n"


class SessionJournal:
    """Records one session in its task."""

    def __init__(self, store: Store, found: SessionState, *, client: str = "") -> None:
        self.task = Task(store, found.session_id, clock=now, secret=keys.secret())
        policy, text = _permissions(found)
        identity = SessionIdentity(
            process.current(), group_of(process.current(), found.repo_path), client[:100]
        )
        self.session = GuardedSession(self.task, policy, identity, policy_text=text)

    def open(self) -> None:
        """Acquire the session. Raises `HeldError` while a live server holds it."""
        self.session.open()

    def admit(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Decide on a call and record the decision: `(call, "")` if the phase permits it, else `("", reason)`.

        Calls are recorded as effect-free: after a kill, git shows what was left unfinished.
        """
        call = ToolRequest(tool=tool, digest=digest(canonical(_plain(arguments))), effectful=False)
        admitted = self.session.admit([call])[0]
        decision = admitted.decision
        if isinstance(decision, Block):
            return "", decision.message
        return admitted.call, ""

    def settle(self, call: str, *, error: str, milliseconds: int) -> None:
        """Record the result of a call together with the next fact. `error` says why it failed, "" for a success."""
        outcome = kinds.ToolSettled(
            call=call,
            message=first_line(error),
            milliseconds=milliseconds,
            outcome="tool-error" if error else "ok",
        )
        self.task.deferred.append(NewEvent(outcome, SYSTEM, self.session.id))

    def entered(
        self, before: SessionState | None, found: SessionState, *, reason: str = "", over: bool = False
    ) -> None:
        """Record a completed step with the session's state, and create a checkpoint of the task."""
        document = session_state.encode(found)
        row = phases.step_of(found)
        entered = kinds.PhaseEntered(
            after=str(before.current_phase) if before else "",
            document=digest(document),
            phase="" if over else str(found.current_phase),
            reason=reason[:MAX_TEXT],
            step=0 if over else row.step,
        )
        self.session.hold()
        self.task.commit([NewEvent(entered, self.session.actor, self.session.id)], blobs=[document])
        where = "over" if over else f"step {row.step}, {row.phase}"
        text = f"{where}: {found.query}"[:MAX_TEXT]
        checkpoint.create(
            self.task, found.session_id, description=text, trigger="phase", session=self.session
        )
        policy, policy_text = _permissions(found)
        if not over and policy != self.session.policy:
            self.session.change(policy, policy_text, b"")

    def tools_since_step(self) -> list[str]:
        """The tools called since the last step, without known failures: what a killed server had not saved."""
        called: dict[str, str] = {}
        for data in tail(self.task.store, self.task.refresh()):
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
    own_folder(root, ".aex", _IGNORE)


def held_elsewhere(store: Store, sessions: Sequence[str]) -> frozenset[str]:
    """The sessions that another live server holds."""
    here = process.current()
    found = set()
    for session in sessions:
        ledger = Task(store, session, clock=now, secret=keys.secret()).ledger
        for holder in ledger.sessions.values():
            mine = (holder.host, holder.pid, holder.started) == (here.host, here.pid, here.started)
            if not mine and is_alive(store, session, holder, now()):
                found.add(session)
    return frozenset(found)


def _permissions(found: SessionState) -> tuple[Policy, bytes]:
    policy, text = phases.policy_for(found)
    return Policy(allow=policy.allow, goal=found.query[:MAX_TEXT], name=policy.name), text.encode()


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as canonical JSON takes them."""
    return {
        name: value if isinstance(value, str | bool | int) or value is None else repr(value)
        for name, value in arguments.items()
    }
