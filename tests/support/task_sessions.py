"""Sessions of several clients on one task, over a store in memory."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from adjourn.aex import Policy
from adjourn.host import process
from adjourn.host.process import Process
from adjourn.log import kinds
from adjourn.log.event import decode
from adjourn.log.kinds import Data
from adjourn.store.memory import MemoryStore
from adjourn.tasks.decision import Block, ToolRequest
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.session import Admitted, PendingCalls, Session
from adjourn.tasks.task import Task
from support.clock import Clock
from support.policies import policy_of

SECRET = b"s" * 32
POLICY = policy_of("use read_file", "use write_file", "use deploy", "deny rm", "confirm before deploy")
ONE, TWO = "1" * 64, "2" * 64
"""Digests of two calls' arguments."""
READ = ToolRequest(tool="read_file", digest=ONE, effectful=False)
WRITE = ToolRequest(tool="write_file", digest=ONE, arguments='{"path":"a"}')
DEPLOY = ToolRequest(tool="deploy", digest=ONE, arguments='{"to":"prod"}')


class SharedTask:
    """A store, a clock, and clients that open a session on the task `t1`."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = Clock()

    def task(self, name: str = "t1") -> Task:
        return Task(self.store, name, clock=self.clock, secret=SECRET)

    def session(
        self,
        group: str = "g1",
        *,
        policy: Policy = POLICY,
        at: Process | None = None,
        client: str = "claude-code",
        auto_confirm: bool = False,
    ) -> Session:
        sitting = SessionIdentity(at or process.current(), group, client=client)
        return Session(
            self.task(), policy, sitting, policy_text=b"policy", contract_text=b"", auto_confirm=auto_confirm
        )

    def opened(self, group: str = "g1", *, take_over: bool = False, **options: Any) -> Session:
        session = self.session(group, **options)
        session.open(take_over=take_over)
        return session

    def events(self) -> list[Any]:
        return [decode(entry.data) for entry in self.store.read("t1")]

    def kinds(self) -> list[str]:
        return [event.event for event in self.events()]

    def last(self, kind: type[Data]) -> Any:
        return next(kinds.data_of(event) for event in reversed(self.events()) if event.event == kind.KIND)


REMOTE_PROCESS = Process("elsewhere:1b4e28ba:4026531836", 4711, 90210)
"""A process on a machine that cannot be examined."""


def admit_one(session: Session, call: ToolRequest) -> Admitted:
    (admitted,) = session.admit([call])
    return admitted


def block_reason(admitted: Admitted) -> str:
    assert isinstance(admitted.decision, Block)
    return admitted.decision.reason


def new_pending_calls(before: Sequence[PendingCalls] = ()) -> list[PendingCalls]:
    """Calls to be committed that are in memory, but for those that were `before`: tests share a process."""
    found = [one for one in gc.get_objects() if isinstance(one, PendingCalls)]
    return [one for one in found if not any(one is other for other in before)]
