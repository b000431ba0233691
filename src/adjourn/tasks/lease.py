"""Who holds a task, and whether they still do: leases of sessions, and of replicas of a gateway.

Two clients never hold a task at once, and nobody loses one silently. A session that lives ends only when a person says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, Literal

import msgspec

from adjourn.aex.rule import SESSION_CALLS
from adjourn.errors import ConflictError, HeldError, RefusedError
from adjourn.host import clock as ids
from adjourn.host.process import Process, lives
from adjourn.log import kinds
from adjourn.log.canonical_json import MAX_SAFE_INTEGER, digest
from adjourn.log.event import SYSTEM, Actor
from adjourn.policy.principal import Principal
from adjourn.store.base import Store
from adjourn.tasks.budgets import started_over
from adjourn.tasks.entries import OpenSession
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import AppendedEvent, NewEvent, Task
from adjourn.text.redact import without_secrets

if TYPE_CHECKING:
    from adjourn.aex.policy import Policy

MAX_LISTED_CALLS = 1000
MAX_PRINCIPAL, MAX_GROUPS = 512, 64
"""Characters of a principal's id and name, and groups, that a session's opening names."""
Reason = Literal["dead", "expired", "taken-over"]


class SessionIdentity(msgspec.Struct, frozen=True):
    """Who opens a session: the client and this process. `group` is one for all processes that one client started, `root` the
    workspace they work in, `tree` the work tree of it that has their files and pages ("" without a workspace). `replica` is the lease of
    the process, where it has one for all its sessions (`ReplicaLease.ref`). `principal` stands behind the client, if somebody is known to;
    its checkpoints and pages are in its `home`, if it has one.
    """

    process: Process
    group: str
    client: str = ""
    era: str = ""
    root: str = ""
    tree: str = ""
    replica: str = ""
    principal: Principal | None = None
    home: str = ""


def describe_holder(holder: OpenSession) -> str:
    """Through what a client holds a task. A hook has no process of its own if the client's is not known."""
    return f"process {holder.pid} on {holder.host.split(':')[0]}" if holder.pid else "through its hook"


def is_alive(store: Store, task: str, holder: OpenSession, now: int) -> bool | None:
    """True: lives. False: seen dead. None: out of sight, and its lease has run out, or that of its replica.

    `now` is the time in milliseconds, where the store has no clock.
    """
    alive = lives(Process(holder.host, holder.pid, holder.started))
    if alive is not None:
        return alive
    end = lease_end(store, store.ref(f"lease/{task}/{holder.id}"))
    return True if end and end > time_of(store, now) else None


def lost(ledger: Ledger, holder: OpenSession, reason: Reason) -> kinds.SessionLost:
    """That a session is over, and which of its effects are in doubt by that."""
    calls = [call.call for call in ledger.open_calls.values() if call.session == holder.id and call.effectful]
    return kinds.SessionLost(calls=calls[:MAX_LISTED_CALLS], lost=holder.id, reason=reason)


def mark_cut_off_calls(task: Task) -> None:
    """Count what dead sessions left as in doubt or unseen, as the next session that opens will. Changes the loaded ledger only."""
    ledger = task.ledger
    gone = {holder.id for holder in ledger.sessions.values() if not is_alive(task.store, task.id, holder, task.clock())}
    for call in ledger.open_calls.values():
        if call.effectful and call.session in gone:
            ledger.doubts[call.call] = call
    ledger.unseen |= {call.call: call for call in ledger.answered.values() if call.session in gone}


def expire_dead_sessions(task: Task) -> None:
    """Write down that sessions which are over without having closed are over, so that their effects can be settled."""

    def build(ledger: Ledger) -> list[NewEvent]:
        alive = {holder.id: is_alive(task.store, task.id, holder, task.clock()) for holder in ledger.sessions.values()}
        return [
            NewEvent(lost(ledger, holder, "dead" if alive[holder.id] is False else "expired"))
            for holder in ledger.sessions.values()
            if not alive[holder.id]
        ]

    task.commit(build, refs=lambda written: _ended_leases(task.id, written))


def _ended_leases(task: str, written: list[AppendedEvent]) -> dict[str, str | None]:
    over = [event.data.lost for event, _ in written if isinstance(event.data, kinds.SessionLost)]
    return {f"lease/{task}/{lost}": None for lost in over}


class TaskLease:
    """A client's hold on a task. Its methods may be called from several threads. Raises `HeldError` once another client took
    over.
    """

    def __init__(
        self,
        task: Task,
        policy: Policy,
        identity: SessionIdentity,
        *,
        policy_text: bytes = b"",
        contract_text: bytes = b"",
    ) -> None:
        self.task = task
        self.policy = policy
        self.identity = identity
        self.id = ids.session_id()
        self.actor = Actor(without_secrets(identity.client) or "agent", "agent")
        self._texts = (policy_text, contract_text)
        self.lock = RLock()
        self._fenced = ""
        self.is_open = False
        self.is_unread = False
        """Whether the client was found not to read an answer any more."""
        self.prompt = ""
        """What the person asked the client for first, if that opens the session."""
        self.prompt_ref = ""
        """The ref that keeps a prompt for the session; opening it takes the ref away."""

    def open(self, *, take_over: bool = False, also: Sequence[kinds.Data] = ()) -> None:
        """Open the session; `also` is written in the same transaction. Raises `HeldError` while another client lives on the task."""
        policy_text, contract_text = self._texts
        with self.lock:
            self.task.refresh()
            self.task.commit(
                lambda ledger: [
                    *self._opening(
                        ledger, take_over=take_over, is_run=any(isinstance(d, kinds.RunStarted) for d in also)
                    ),
                    *(NewEvent(data, self.actor, self.id) for data in also),
                ],
                refs=self._leases,
                blobs=[text for text in (policy_text, contract_text) if text],
            )
            self._fenced = ""
            self.is_open = True
            self.task.keep_head()

    def _opening(self, ledger: Ledger, *, take_over: bool, is_run: bool = False) -> Iterator[NewEvent]:
        policy_text, contract_text = self._texts
        if not ledger.exists:
            contract = digest(contract_text) if contract_text else ""
            goal = self.policy.goal
            what = goal if contract else self.prompt or goal
            # a contract may be run as often as somebody likes: a new run starts nothing over
            over, spent = ("", 0) if is_run else started_over(self.task, what, contract, self.policy.budget)
            opened = kinds.TaskOpened(goal=goal, contract=contract, over=over, spent=spent)
            yield NewEvent(opened, SYSTEM, self.id)
        yield from self.task.unrecorded_loss
        for holder in list(ledger.sessions.values()):
            reason = self._why_over(holder, take_over=take_over)
            if reason:
                yield NewEvent(lost(ledger, holder, reason), SYSTEM, self.id)
        process, principal = self.identity.process, self.identity.principal
        session = kinds.SessionOpened(
            budget=_budget_of(self.policy),
            per_session=_budget_of_session(self.policy),
            client=self.identity.client[:100],
            era=self.identity.era,
            group=self.identity.group,
            host=process.host,
            pid=process.pid,
            policy=digest(policy_text),
            principal=principal.id[:MAX_PRINCIPAL] if principal else "",
            principal_groups=list(principal.groups[:MAX_GROUPS]) if principal else [],
            principal_name=principal.shown[:MAX_PRINCIPAL] if principal else "",
            principal_type=principal.type if principal else "",
            prompt=self.prompt,
            started=process.started,
        )
        yield NewEvent(session, SYSTEM, self.id)

    def _why_over(self, holder: OpenSession, *, take_over: bool) -> Reason | None:
        """Why another session is over, None if it continues beside this one. Raises `HeldError` if it lives elsewhere."""
        alive = is_alive(self.task.store, self.task.id, holder, self.task.clock())
        if not alive:
            return "dead" if alive is False else "expired"
        if holder.group == self.identity.group:
            return None
        if take_over:
            return "taken-over"
        raise HeldError(
            f"task {self.task.id} is held by {holder.client or 'a client'} ({describe_holder(holder)}, session {holder.id}) "
            f"since {holder.since}",
            "end that session, or start the proxy with --take-over to fence it off",
        )

    def _leases(self, written: list[AppendedEvent]) -> dict[str, str | None]:
        """Our lease, and none for those that are over; the kept prompt is used up."""
        ended = _ended_leases(self.task.id, written)
        used = {self.prompt_ref: None} if self.prompt_ref else {}
        return {**ended, **used, self._lease: self._lease_end()}

    @property
    def _lease(self) -> str:
        return f"lease/{self.task.id}/{self.id}"

    def _lease_end(self) -> str:
        return self.identity.replica or str(time_of(self.task.store, self.task.clock()) + LEASE_MILLISECONDS)

    def heartbeat(self) -> None:
        """Renew the lease, and keep the head. To be called at least every third of the lease while the session is open.

        A replica renews its own lease.
        """
        with self.lock:
            if self.is_open:
                self.task.keep_head()
                if self.identity.replica:
                    return
                current = self.task.store.ref(self._lease)
                if current is None:
                    return  # whoever took it away has fenced us; the next call finds out
                with suppress(ConflictError):  # so has who is taking it away
                    self.task.store.swap(self._lease, self._lease_end(), expect=current, durable=False)

    def close(self, reason: str, to: str = "") -> None:
        """Close the session; its open calls become in doubt. `to` names the task that the client switched to."""
        with self.lock:
            if not self.is_open:
                return
            self.is_open = False

            def build(ledger: Ledger) -> list[NewEvent]:
                if self.id not in ledger.sessions:
                    return []
                answered = (call.call for call in ledger.answered.values() if call.session == self.id)
                unread = list(answered) if self.is_unread else []
                return [NewEvent(kinds.SessionClosed(reason=reason, to=to, unread=unread), SYSTEM, self.id)]

            if not self.task.commit(build, refs={self._lease: None}):
                with suppress(ConflictError):  # gone already
                    self.task.store.swap(self._lease, None, expect=self.task.store.ref(self._lease))
            self.task.fold()
            self.task.keep_head()

    def check_held(self, ledger: Ledger) -> None:
        """Raise unless this session still holds the task, and its client still works on it."""
        if self.identity.group in ledger.moved:
            raise TaskSwitchedError(f"this client switched to task {ledger.moved[self.identity.group]}", "call again")
        if self.id in ledger.sessions:
            return
        taken = ledger.fenced.get(self.id)
        others = [other for other in ledger.sessions.values() if other.group != self.identity.group]
        if taken or others:
            by = ", ".join(f"{other.client or 'a client'} since {other.since}" for other in others)
            self._fenced = f"task {ledger.task} was taken over by {by or 'another client at ' + str(taken)}"
            raise HeldError(self._fenced, "stop, or resume it explicitly when that session has ended")
        raise SessionExpiredError(f"session {self.id} was marked as lost: its lease expired", "call again")

    def hold(self) -> None:
        """Open the session again if it was marked as lost: its lease expired meanwhile. Raises `HeldError` when another client has it."""
        with self.lock:
            try:
                self.check_held(self.task.refresh())
            except SessionExpiredError:
                self.open()

    def holds(self) -> bool:
        """Whether this session still holds the task."""
        return self.is_open and self.id in self.task.refresh().sessions

    def change(self, policy: Policy, policy_text: bytes, contract_text: bytes) -> None:
        """Apply permissions that were edited meanwhile. Raises `HeldError`, `StoreError`: then nothing was changed."""
        changed = kinds.PolicyChanged(
            budget=_budget_of(policy),
            per_session=_budget_of_session(policy),
            contract=digest(contract_text) if contract_text else "",
            policy=digest(policy_text),
        )

        def build(ledger: Ledger) -> list[NewEvent]:
            self.check_held(ledger)
            return [NewEvent(changed, SYSTEM, self.id)]

        with self.lock:
            self.hold()
            self.task.commit(build, blobs=[text for text in (policy_text, contract_text) if text])
            self._texts = (policy_text, contract_text)
            self.policy = policy


def _budget_of(policy: Policy) -> int:
    return -1 if policy.budget is None else min(policy.budget, MAX_SAFE_INTEGER)


def _budget_of_session(policy: Policy) -> int:
    rule = policy.budgets.get(SESSION_CALLS)
    return -1 if rule is None else min(int(rule.amount), MAX_SAFE_INTEGER)


class TaskSwitchedError(RefusedError):
    """A sister proxy of the same client resumed another task; this one follows."""


class SessionExpiredError(RefusedError):
    """This session was declared over though it lives, and nobody else has taken the task."""


# --- the lease of a replica

LEASE_MILLISECONDS = 60_000
"""How long a session or a replica that cannot be examined is taken to live without a sign of life, by those who do not watch it."""
RENEW_SECONDS = 0.75
SILENCE_SECONDS = 2.5
MAX_PAUSE_SECONDS = 2.0
"""A longer time between two looks of a watcher says something about the store, or about the watcher: it counts silence from zero."""
MAX_GONE = 100
REPLICA = "replica/"
WANTED = "wanted/"


def time_of(store: Store, otherwise: int) -> int:
    """The store's clock, which all its users share, in milliseconds since the epoch; `otherwise` if it has none."""
    now: Callable[[], int] | None = getattr(store, "now", None)
    return otherwise if now is None else now()


def lease_end(store: Store, lease: str | None) -> int:
    """When a session's lease ends, in milliseconds by the store's clock; 0 if there is none.

    `lease` is the value of its ref: the time, or the ref of the replica that has the session.
    """
    if lease is not None and lease.startswith(REPLICA):
        lease = store.ref(lease)
    return int(lease) if lease is not None and lease.isdigit() else 0


class ReplicaLease:
    """This replica's lease, and what it sees of the others. `renew` and `ended` are for one thread. `monotonic` are seconds."""

    def __init__(
        self, store: Store, process: Process, clock: Callable[[], int], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self.ref = self.ref_of(process)
        self._clock = clock
        self._monotonic = monotonic
        self._value: str | None = None
        self._seen: dict[str, tuple[str, float]] = {}
        """The leases of the others, and since when each has not changed."""
        self._looked = float("-inf")
        self.gone: dict[str, None] = {}
        """The leases that ended last and did not come back, at most `MAX_GONE`."""

    @staticmethod
    def ref_of(process: Process) -> str:
        """The ref that is the lease of a process."""
        return f"{REPLICA}{process}"

    def renew(self) -> None:
        """Say that this replica lives. Raises `StoreError`."""
        end = str(time_of(self._store, self._clock()) + LEASE_MILLISECONDS)
        try:
            self._store.swap(self.ref, end, expect=self._value, durable=False)
        except ConflictError:  # another replica has deleted it, or the answer to an earlier renewal was lost
            self._store.swap(self.ref, end, expect=self._store.ref(self.ref), durable=False)
        self._value = end

    def ended(self) -> list[str]:
        """The leases that ended since the last call. Deletes those of replicas that are silent. To be called after each `renew`.

        Raises `StoreError`.
        """
        begun = self._monotonic()
        leases = self._store.refs(REPLICA)
        now = self._monotonic()
        if now - self._looked > MAX_PAUSE_SECONDS:
            self._seen = dict.fromkeys(self._seen, ("", begun))
        self._looked = now
        ended = [name for name in self._seen if name not in leases]
        for name in ended:
            del self._seen[name]
        for name in self.gone.keys() & leases.keys():
            del self.gone[name]
        for name, value in leases.items():
            before, since = self._seen.get(name, ("", 0.0))
            if value != before or name == self.ref:
                self._seen[name] = (value, begun)
            elif now - since > SILENCE_SECONDS and self._delete(name, value):
                del self._seen[name]
                ended.append(name)
        self.gone |= dict.fromkeys(ended)
        for name in list(self.gone)[:-MAX_GONE]:
            del self.gone[name]
        return ended

    def holders(self, task: str) -> list[str]:
        """The leases of the other replicas that have sessions on a task. Raises `StoreError`."""
        leases = self._store.refs(f"lease/{task}/").values()
        return sorted({lease for lease in leases if lease.startswith(REPLICA) and lease != self.ref})

    def ask(self, holder: str, task: str) -> str:
        """Ask another replica to give a task back. Returns the ref that is there until it has answered. Raises `StoreError`."""
        name = f"{WANTED}{holder.removeprefix(REPLICA)}/{task}"
        with suppress(ConflictError):  # it was asked already
            self._store.swap(name, self.ref, expect=None, durable=False)
        return name

    def is_answered(self, holder: str, text: str) -> bool:
        """Whether the replica has given the task back, or does not, or is gone. Raises `StoreError`."""
        return self._store.ref(text) is None or self._store.ref(holder) is None

    def wanted(self) -> list[str]:
        """The tasks that other replicas ask this one for. Raises `StoreError`."""
        begin = self._wanted_by_others
        return [name.removeprefix(begin) for name in self._store.refs(begin)]

    def answer(self, task: str) -> None:
        """The task was given back, or is not. Raises `StoreError`."""
        self.forget(f"{self._wanted_by_others}{task}")

    def forget(self, text: str) -> None:
        """Ask no longer. Raises `StoreError`."""
        if (value := self._store.ref(text)) is not None:
            self._delete(text, value)

    @property
    def _wanted_by_others(self) -> str:
        return f"{WANTED}{self.ref.removeprefix(REPLICA)}/"

    def _delete(self, name: str, value: str) -> bool:
        try:
            self._store.swap(name, None, expect=value, durable=False)
        except ConflictError:  # it was renewed just now, or another replica was first: the next look says which
            return False
        return True

    def release(self) -> None:
        """Give the lease up: this replica has closed its sessions. Raises `StoreError`."""
        self.forget(self.ref)
