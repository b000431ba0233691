"""The open sessions of one client process: on which tasks, under which policy, and the calls that they admit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TypeVar

import msgspec

from adjourn.aex.policy import Policy
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.clients.client_process import ClientProcess
from adjourn.clients.policy_watch import PolicyWatch
from adjourn.clients.served_tools import ServedTools
from adjourn.clients.task_choice import MAX_MOVES, TaskChoice
from adjourn.errors import AdjournError, ConflictError, HeldError
from adjourn.log import kinds
from adjourn.policy.calls import call_paths
from adjourn.store.base import EMPTY
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.lease import SessionIdentity, TaskSwitchedError
from adjourn.tasks.session import Admitted, PendingCalls, Session, is_effectful
from adjourn.tasks.task import Task

_S = TypeVar("_S", bound=Session)


class SessionPool:
    """Iterates over the open sessions, without waiting for one that is being opened. Thread-safe."""

    def __init__(self, client: ClientProcess, task: TaskChoice, watch: PolicyWatch, served: ServedTools) -> None:
        self._client = client
        self._task = task
        self._watch = watch
        self._served = served
        self._lock = client.lock
        self.on_held: Callable[[str], bool] = _nobody_gives_back
        """Asks another process for a task that it holds; returns whether it gave it back."""
        self._sessions: dict[str, GuardedSession] = {}
        self._behind: set[GuardedSession] = set()
        """Sessions that still work under the policy as it was before it was edited."""
        self._compared: set[GuardedSession] = set()
        """Sessions whose task knows how the server lists its tools now."""

    def __iter__(self) -> Iterator[GuardedSession]:
        return iter(list(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def policy(self) -> Policy:
        """The effective permissions now: of the open session on the client's task, else of the workspace."""
        session = self._sessions.get(self._task.id)
        return session.policy if session else self._watch.contract.policy

    # --- opening

    def open(self, task: str = "", *, also: Sequence[kinds.Data] = ()) -> GuardedSession:
        """The open session on a task (default: the client's). Opens it, with `also`, when there is none.

        Raises `HeldError` when another client's living session holds the task, `StoreError` when it cannot be written,
        `RefusedError` for another task than the one that a person bound this client to.
        """
        choice = self._task
        with self._lock:
            choice.check(task)
            if not task and choice.id not in self._sessions and not choice.bound:
                choice.id = ""  # a sister proxy may have moved on meanwhile
            task = task or choice.current()
            session = self._sessions.get(task)
            if session is None:
                session = self._new_session(task, GuardedSession)
                choice.begin_with_prompt(session)
                take_over = self._client.options.take_over
                try:
                    session.open(take_over=take_over, also=also)
                except HeldError:
                    if not self.on_held(task):
                        raise
                    session.open(take_over=take_over, also=also)
                self._sessions[task] = session
            elif to := session.task.ledger.moved.get(self._client.group):
                to = choice.bound or to  # a bound client opens its session again
                session.close("moved", "" if to == task else to)
                del self._sessions[task]
                if task == choice.id:
                    choice.id = to
                return self.open(to, also=also)
            return session

    def _new_session(self, task: str, kind: type[_S]) -> _S:
        client, options = self._client, self._client.options
        loaded = Task(client.store, task, clock=client.clock, secret=client.secret)
        contract = self._watch.for_task(loaded.ledger.contract)
        session = kind(
            loaded,
            contract.policy,
            SessionIdentity(
                client.process,
                client.group,
                client.client,
                client.era,
                options.root,
                options.tree,
                client.replica,
                options.principal,
                options.home,
            ),
            policy_text=contract.policy_text.encode(),
            contract_text=contract.contract_text.encode(),
            auto_confirm=options.auto_confirm,
        )
        session.sees_outcomes = options.sees_outcomes
        return session

    def move(self, to: str, also: Sequence[kinds.Data]) -> GuardedSession:
        """Switch to another task: open a session there first (which may be refused), then close the one here."""
        with self._lock:
            self._task.check(to)
            here = self._task.current()
            session = self._sessions.get(to)
            if session is not None and session.holds():
                for data in also:
                    session.note(data)
            else:
                # fenced off or declared dead: open another, if no other client holds the task
                self._sessions.pop(to, None)
                session = self.open(to, also=also)
            self._task.move(to)
            if to != here:
                self._leave(here, to)
            return session

    def _leave(self, here: str, to: str) -> None:
        """Close the session on a task in the chain, where sister proxies with a session on it see it."""
        session: Session | None = self._sessions.pop(here, None)
        if session is None and self._client.store.head(here) != EMPTY:
            session = self._new_session(here, Session)
            if not any(other.group == self._client.group for other in session.task.ledger.sessions.values()):
                return
            session.open()
        if session is not None:
            session.close("moved", to)

    # --- calls

    def admitting(
        self, calls: Sequence[ToolRequest], task: str, forward: Callable[[GuardedSession, list[Admitted]], None]
    ) -> tuple[GuardedSession, PendingCalls] | None:
        """What `admit` does, to be committed at once, or with the calls of other sessions: where nothing has to be done first that takes
        long (open a session, verify its history, make a checkpoint). None where something has; nothing has happened then.

        `forward` is called before the intents are written, where all calls pass, have no effect, and count for nothing. For what is
        raised, here and when they are committed, see `is_for_later`.
        """
        if monotonic() >= self._watch.files.look_again and self._watch.files.are_edited():
            self._read_policy()
        session = self._sessions.get(task or self._task.id)
        if session is None or session.task.ledger.moved:
            return None
        if session.unsent.calls:
            session.settle_unsent()
        policy = session.policy
        if (
            self._watch.broken
            or self._behind
            or session not in self._compared
            or (
                policy.is_guarded
                and any((policy.tools.get(call.tool) or policy.rules_of(call.tool)).guarded for call in calls)
            )
        ):
            calls = self._prepare(session, calls)
        durable = any(map(is_effectful, calls))
        # what counts is not forwarded before it is recorded
        may_be_due = policy.counts and (policy.checkpoints or session.task.ledger.calls_used >= session.due_at)
        if (durable or may_be_due) and session.is_due_before(calls):
            return None
        pending = PendingCalls(
            session.task, session=session, calls=calls, durable=durable, forward=partial(forward, session)
        )
        return session, pending

    def is_for_later(self, error: Exception | None, pending: PendingCalls | None) -> bool:
        """Whether calls that could not be committed are to be given to `admit`, since it may still decide on them."""
        if isinstance(error, HeldError) and pending is not None:
            return self._gives_up(pending.session) and not pending.is_sent
        return isinstance(error, TaskSwitchedError)

    def admit(self, calls: Sequence[ToolRequest], task: str = "") -> tuple[GuardedSession, list[Admitted]]:
        """Decide on calls and write their intents, in the session of `task` (default: the client's task).

        An edited policy counts from here on; a checkpoint that it asks for is made before any call is decided on.
        """
        if self._watch.files.are_edited():
            self._read_policy()
        for attempt in range(MAX_MOVES):
            session = self.open(task)
            session.settle_unsent()
            try:
                placed = self._prepare(session, calls)
                for note in session.checkpoint_before(placed):
                    self._client.on_event("page", note)
                decided = session.admit(placed)
            except TaskSwitchedError:
                continue
            except HeldError:
                if attempt or not self._gives_up(session):
                    raise
                continue
            session.remember(placed, decided)
            return session, decided
        raise ConflictError("the task switched repeatedly during this call", "retry")

    def _gives_up(self, session: Session) -> bool:
        """Another client took the task of a session over. Returns whether the next call opens a session again, if it may."""
        replica = self._client.replica
        with self._lock:
            if replica and self._sessions.get(session.task.id) is session:
                del self._sessions[session.task.id]
        return bool(replica)

    def _prepare(self, session: GuardedSession, calls: Sequence[ToolRequest]) -> Sequence[ToolRequest]:
        """Write down what the session does not know yet. Returns the calls with the places that they lead to."""
        if self._watch.broken is not None:
            session.note(self._watch.broken)
            self._watch.broken = None
        if session in self._behind:
            self._bring_up(session)
        if session not in self._compared:
            self._compare(session)
        policy = session.policy
        if not policy.is_guarded:
            return calls
        options, placed = self._client.options, list[ToolRequest]()
        for call in calls:
            if (policy.tools.get(call.tool) or policy.rules_of(call.tool)).guarded:
                paths, matcher = call_paths(
                    policy, call.tool, call.given, options.tree, options.start, around=options.root
                )
                call = msgspec.structs.replace(call, paths=paths, matcher=matcher)  # noqa: PLW2901
            placed.append(call)
        return placed

    # --- what changes while sessions are open

    def follow_policy(self) -> None:
        """Take in an edited policy, for who shows what is permitted. A call looks for itself."""
        if self._watch.files.are_edited():
            self._read_policy()

    def _read_policy(self) -> None:
        """Take in a policy that was edited."""
        with self._lock:
            if not self._watch.read_again():
                return
            self._behind.update(self._sessions.values())
            for session in list(self._behind):
                with suppress(AdjournError):  # it is tried again before the session's next call
                    self._bring_up(session)
            source = self._watch.contract.policy_source
            self._client.on_event("policy.changed", f"{source} was edited; the new version is in force")

    def _bring_up(self, session: GuardedSession) -> None:
        """Put a session under the policy as it is now. Raises what writing that down raises; no call may pass then."""
        contract = self._watch.for_task(session.task.ledger.contract)
        session.change(contract.policy, contract.policy_text.encode(), contract.contract_text.encode())
        self._behind.discard(session)

    def judge_server_again(self) -> None:
        """Narrow the policy of each session to the server's tools as they are known now."""
        self._watch.judge_server_again()
        for session in self._sessions.values():
            session.decide_under(self._watch.narrowed(session.policy))

    def listed(self, definitions: Mapping[str, str]) -> None:
        """Take in how the server lists its tools. What changed is written down now, or before the next call of a session."""
        with self._lock:
            self._served.listed(definitions)
            self._compared.clear()
            for session in self._sessions.values():
                with suppress(AdjournError):  # it is tried again before the session's next call
                    self._compare(session)

    def _compare(self, session: GuardedSession) -> None:
        """Record how the server lists its tools now. Raises what recording raises; no call may pass then."""
        with self._lock:
            self._served.record_changes(session)
            self._compared.add(session)

    def close(self, reason: str) -> None:
        """End every session. Failures are left to the next session, which finds this process dead."""
        for session in self._sessions.values():
            with suppress(AdjournError):
                session.settle_unsent()
                session.close(reason)
        self._sessions.clear()


def _nobody_gives_back(_task: str) -> bool:
    return False
