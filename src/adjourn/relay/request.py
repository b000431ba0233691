"""A client's request on its way, from its line to the answer, and the plan of its tool."""

from __future__ import annotations

from time import monotonic_ns
from typing import Any

import msgspec

from adjourn.checkpoints.triggers import GuardedSession
from adjourn.mcp.frames import Message
from adjourn.tasks.decision import ToolRequest


class ToolPlan(msgspec.Struct, frozen=True):
    """What all calls of one tool have in common until the server lists its tools again.

    `tool` is its name as rules have it. `is_named_only`: no rule need allow it, since it is a meta-tool or a method of the protocol;
    `is_vendors`: a method that the protocol does not have. `only_reads`: it may name all places but the private ones.
    """

    tool: str
    is_named_only: bool = False
    is_vendors: bool = False
    effectful: bool = False
    destructive: bool = False
    only_reads: bool = False
    definition: str = ""


class BatchAnswers:
    """The answers to one JSON-RPC batch, sent as one line when the last is there."""

    __slots__ = ("due", "parts")

    def __init__(self, due: int) -> None:
        self.due = due
        """How many of its requests have no answer yet."""
        self.parts: list[bytes] = []

    def add(self, line: bytes) -> bytes:
        """Take an answer, or nothing in its place. Returns all answers as one line when this was the last, else nothing."""
        if line:
            self.parts.append(line.rstrip(b"\n"))
        self.due -= 1
        return b"[" + b",".join(self.parts) + b"]\n" if self.due == 0 and self.parts else b""


class Request(Message, eq=False):
    """A message of the client, and its outcome if it is a request.

    `kind` says what its answer is examined for: `call`, `list`, `initialize`, `discover`, or `other`. `call` is what is decided
    on, `task` the task it names. Once it is admitted, `session` and `call_id` say where the history has it. `kept`: the answer
    is stored, since the effect may happen only once. `is_keyed`: the client will repeat it with its idempotency key if it gets no
    answer. `is_sent`: the server may answer it. `cancelled`: the client does not wait for it; an answer may still arrive, and then
    says the outcome of the call. `started` is when it was sent, in nanoseconds. `tool` is its name once it is admitted, `watched`
    what an observer keeps with it.
    """

    batch: BatchAnswers | None = None
    kind: str = "other"
    call: ToolRequest | None = None
    task: str = ""
    session: GuardedSession | None = None
    call_id: str = ""
    tool: str = ""
    effectful: bool = False
    kept: bool = False
    is_keyed: bool = False
    is_sent: bool = False
    cancelled: bool = False
    started: int = 0
    watched: Any = None

    def expect_answer(self, kind: str) -> None:
        """It goes to the server. Nothing of its text is kept: the answer may be long in coming."""
        self.kind = kind
        self.is_sent = True
        self.started = monotonic_ns()
        self.raw = b""
        self.body = self.params = self.meta = _NOTHING
        self.call = None


_NOTHING: dict[str, Any] = {}
