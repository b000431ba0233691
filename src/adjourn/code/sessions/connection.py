"""An active session, and the client connection that works on it.

Owns: `ClientConnection`, `ActiveSession`, and the record of calls. Must never: change a session's phase.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from adjourn.code.model.session_state import ImpactAnalysis, SessionState, ToolCall
from adjourn.code.sessions import checkpoint_file
from adjourn.code.sessions.journal import SessionJournal
from adjourn.code.workflow.worktree import Worktree

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
        checkpoint_file.save(self.worktree.repository.root, self.state)

    def note_review(self) -> None:
        """Count the changes that a reply showed as a call of review_changes."""
        if "review_changes" not in self.state.tools_in_step:
            self.state.tools_in_step.append("review_changes")
        self.save()

    def note_impact(self, targets: list[str], found: dict[str, Any]) -> dict[str, Any]:
        """Record which files must be verified, and return the next steps."""
        with self.lock:
            state = self.state
            wanted = found.get("confirmation_required", {})
            state.impact_analysis = ImpactAnalysis(
                target_files=targets,
                must_verify=wanted.get("must_verify", []),
                should_verify=wanted.get("should_verify", []),
                mode=found.get("impact_analysis", {}).get("mode", "standard"),
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
