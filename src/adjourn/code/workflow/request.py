"""What a session is begun with.

Owns: `Request`, and the state that it makes. Must never: begin the session.
"""

from __future__ import annotations

from typing import Any

import msgspec

from adjourn.code.model.session_state import GateLevel, Intent, State, Strictness
from adjourn.code.sessions.checkpoint_file import stamp
from adjourn.code.workflow.flags import Flags

MAX_QUERY = 100_000


class Request(msgspec.Struct, frozen=True):
    """What the user wants, and how."""

    intent: Intent
    query: str
    gate_level: GateLevel
    flags: Flags

    @property
    def needs_branch(self) -> bool:
        """Whether the session will work on a branch of its own."""
        looks_only = self.flags.only_explore or self.intent in ("INVESTIGATE", "QUESTION")
        return not (self.flags.quick or looks_only)

    def state(self, session: str, root: str, strictness: Strictness) -> State:
        """A new session's state, not yet in a phase."""
        flags = self.flags
        return State(
            session_id=session,
            intent=self.intent,
            query=self.query[:MAX_QUERY],
            created_at=stamp(),
            repo_path=root,
            gate_level=self.gate_level,
            skip_implementation=flags.only_explore,
            only_explore=flags.only_explore,
            no_verify=flags.no_verify,
            no_quality=flags.no_quality,
            quality_review_enabled=not flags.no_quality,
            fast_mode=flags.fast,
            quick_mode=flags.quick,
            no_doc=flags.no_doc,
            no_intervention=flags.no_intervention,
            strictness=strictness,
        )

    def told(self) -> dict[str, Any]:
        """What the reply repeats of it."""
        flags = {name: on for name, on in msgspec.to_builtins(self.flags).items() if name != "resume"}
        return {"intent": self.intent, "gate_level": self.gate_level, "flags": flags}
