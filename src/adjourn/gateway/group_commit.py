"""Group commits: what all exchanges have to write in one turn of the event loop, as one transaction of the store.

A request that arrives while others are being read, decided on or written waits for the next turn, with all that arrive with it. So the
more are in flight, the more share a commit, and one that is alone waits for nobody.

Calls that are refused since their commit failed are settled as soon as the store can be reached, where it has them after all.

Must never: keep a call for later than the next turn, or give one exchange's outcome to another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from adjourn.checkpoints.triggers import GuardedSession
from adjourn.clients.session_pool import SessionPool
from adjourn.errors import StoreError
from adjourn.relay.ports import Outcome, Settled
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.session import Admitted, PendingCalls
from adjourn.tasks.together import PendingCommit, commit_together

AGAIN_SECONDS, SETTLE_SECONDS = 0.5, 60.0
"""How often, and how long, a session is looked after that refused calls. Then its next call settles them."""
Decided = tuple[GuardedSession, list[Admitted]] | None


class _PendingAdmission(NamedTuple):
    """Calls of one exchange."""

    calls: Sequence[ToolRequest]
    forward: Callable[[GuardedSession, Sequence[Admitted]], None]
    then: Callable[[Outcome[Decided]], None]


class _PendingSettlement(NamedTuple):
    """What the server answered in one exchange."""

    settled: Mapping[GuardedSession, Settled]
    then: Callable[[Mapping[GuardedSession, Exception]], None]


class GroupCommit:
    """See `relay.SharedCommits`. One for all exchanges of a gateway."""

    def __init__(self, report: Callable[[Exception], None]) -> None:
        self._report = report
        self._asked: dict[tuple[SessionPool, str], list[_PendingAdmission]] = {}
        self._answered: list[_PendingSettlement] = []
        self._is_due = False
        self._refused: dict[GuardedSession, float] = {}
        """Sessions with calls that were refused since their commit failed, and until when they are looked after."""

    def admit(
        self,
        sessions: SessionPool,
        calls: Sequence[ToolRequest],
        task: str,
        forward: Callable[[GuardedSession, Sequence[Admitted]], None],
        then: Callable[[Outcome[Decided]], None],
    ) -> None:
        self._asked.setdefault((sessions, task), []).append(_PendingAdmission(calls, forward, then))
        self._begin()

    def settle(
        self, settled: Mapping[GuardedSession, Settled], then: Callable[[Mapping[GuardedSession, Exception]], None]
    ) -> None:
        self._answered.append(_PendingSettlement(settled, then))
        self._begin()

    def _begin(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """Commit all that has come, and give everybody the outcome."""
        self._is_due = False
        answered, self._answered = self._answered, []
        admissions, self._asked = self._asked, {}
        settling = _settling(answered)
        groups: list[_SessionCalls] = []
        for (sessions, task), theirs in admissions.items():
            groups.append(group := _SessionCalls(sessions, theirs))
            group.prepare(task)
        pending = [group.pending for group in groups if group.pending is not None]
        commit_together([*settling.values(), *pending])
        for settlement in answered:
            failed = {
                session: error for session in settlement.settled if (error := settling[session].error) is not None
            }
            self._tell(partial(settlement.then, failed))
        for group in groups:
            for then in group.outcomes():
                self._tell(then)
            if (session := group.session) is not None and session.unsent.calls:
                if not self._refused:
                    asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._settle_unsent)
                self._refused[session] = time.monotonic() + SETTLE_SECONDS

    def _settle_unsent(self) -> None:
        """Settle calls that were refused, up to the first of them for which the store is away."""
        now = time.monotonic()
        self._refused = {session: until for session, until in self._refused.items() if until > now}
        for session in list(self._refused):
            try:
                session.settle_unsent()
            except StoreError:
                break
            except Exception as error:  # of one session; the others continue
                self._report(error)
                del self._refused[session]
                continue
            if not session.unsent.calls:
                del self._refused[session]
        if self._refused:
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._settle_unsent)

    def _tell(self, then: Callable[[], None]) -> None:
        try:
            then()
        except Exception as error:  # of one exchange; the others continue
            self._report(error)


class _SessionCalls:
    """Calls of several exchanges that one session decides on."""

    def __init__(self, sessions: SessionPool, theirs: Sequence[_PendingAdmission]) -> None:
        self._sessions = sessions
        self._theirs = theirs
        self.session: GuardedSession | None = None
        self._error: Exception | None = None
        self.pending: PendingCalls | None = None

    def prepare(self, task: str) -> None:
        calls = [call for admission in self._theirs for call in admission.calls]
        try:
            if prepared := self._sessions.admitting(calls, task, self._forward):
                self.session, self.pending = prepared
        except Exception as error:  # whoever asked handles it
            self._error = error

    def _forward(self, session: GuardedSession, admitted: Sequence[Admitted]) -> None:
        for admission, part in zip(self._theirs, self._parts(admitted), strict=True):
            admission.forward(session, part)

    def _parts(self, admitted: Sequence[Admitted]) -> Iterator[list[Admitted]]:
        remaining = iter(admitted)
        return (list(islice(remaining, len(admission.calls))) for admission in self._theirs)

    def outcomes(self) -> Iterator[Callable[[], None]]:
        """The outcome for each, to be called. Once it is asked for, the calls are kept no longer: they know this group."""
        pending, self.pending = self.pending, None
        session = self.session
        error = self._error if pending is None else pending.error
        if error or pending is None or session is None:
            failure = None if self._sessions.is_for_later(error, pending) else error

            def fail() -> None:
                if failure is not None:
                    raise failure

            outcome: Outcome[Decided] = Outcome(fail)
            for admission in self._theirs:
                yield partial(admission.then, outcome)
            return
        for admission, part in zip(self._theirs, self._parts(pending.decided), strict=True):
            yield partial(admission.then, Outcome(partial(_decided, session, part)))


def _settling(answered: Sequence[_PendingSettlement]) -> dict[GuardedSession, PendingCommit]:
    """One commit for each session."""
    merged: dict[GuardedSession, Settled] = {}
    for settlement in answered:
        for session, settled in settlement.settled.items():
            into = merged.setdefault(session, Settled())
            into.facts.extend(settled.facts)
            into.answers.update(settled.answers)
    return {session: session.settling(settled.facts, answers=settled.answers) for session, settled in merged.items()}


def _decided(session: GuardedSession, admitted: list[Admitted]) -> Decided:
    return session, admitted
