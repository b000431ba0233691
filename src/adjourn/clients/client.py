"""What one client process works with: the store, its task, and its session on it.

Owns: opening the store when it is first needed (and again after it failed), which task a client's processes share,
moving to another task. Must never: speak MCP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from threading import RLock
from time import monotonic
from typing import TypeVar

import msgspec

from adjourn.aex.layers import narrowed
from adjourn.aex.match import KnownTool
from adjourn.aex.policy import Policy
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.clients import served_tools
from adjourn.clients.client_options import ClientOptions
from adjourn.clients.served_tools import ServedTools
from adjourn.errors import AdjournError, ConflictError, HeldError, RefusedError
from adjourn.host import clock, keys, process
from adjourn.host.clock import now
from adjourn.host.process import group_of
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.policy.calls import call_paths
from adjourn.policy.contract import Contract, PolicyFile, for_task
from adjourn.policy.principal import SpaceStore
from adjourn.policy.protected.places import ProtectedPlaces, places_of
from adjourn.store.base import EMPTY, Store
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.heads import KeptHeads
from adjourn.tasks.lease import SessionIdentity, TaskSwitchedError
from adjourn.tasks.session import Admitted, PendingCalls, Session, is_effectful
from adjourn.tasks.task import Task, check_task_id

MAX_MOVES = 5
LOOK_SECONDS = 0.01
"""How long an edited policy may not count yet."""
CLIENT, BOUND = "client/", "bound/"
"""How the refs begin that say which task the proxies of a group work on: the one they share, the one a person bound one to."""
PROMPT = "prompt/"
"""How the refs begin that keep what a person asked a client for, until it opens a session."""

_S = TypeVar("_S", bound=Session)


class ClientContext:
    """One per proxy. Thread-safe. `group` names the client process in this workspace: what its proxies share.

    `on_event` is called with an event's name and text when an edited policy or a checkpoint page is worth a line.
    """

    def __init__(
        self,
        options: ClientOptions,
        clock: Callable[[], int] = now,
        on_event: Callable[[str, str], None] = lambda _event, _text: None,
        store: Store | None = None,
    ) -> None:
        """`store` is one that others use, too: it stays open."""
        self.options = options
        self.clock = clock
        self._on_event = on_event
        self.client = ""
        self.era = ""
        self.process = process.current()
        self.group = group_of(process.parent(), options.root)
        self.replica = ""
        """The lease of this process, where it has one for all its sessions."""
        self.on_held: Callable[[str], bool] = _nobody_gives_back
        """Asks another process for a task that it holds; returns whether it gave it back."""
        self._lock = RLock()
        space = options.space
        self._store = SpaceStore(store, space) if store is not None and space is not None else store
        self._owns_store = store is None
        self._secret = b""
        self._sessions: dict[str, GuardedSession] = {}
        self._task = options.task and check_task_id(options.task)
        self.served = ServedTools(options.server, options.command, on_event)
        self.contract = self._at_server(options.contract)
        self._policy_file = PolicyFile(options.root, options.contract, on_event)
        self._broken: kinds.PolicyBroken | None = None
        """That an edited policy is broken, as long as no session has it."""
        self._look_again = 0.0
        """When the policy file is examined again (`time.monotonic`)."""
        self._is_registered = False
        self._may_list = False
        self._behind: set[GuardedSession] = set()
        """Sessions that still work under the policy as it was before it was edited."""
        self._compared: set[GuardedSession] = set()
        """Sessions whose task knows how the server lists its tools now."""

    def identify(self, client: str, era: str) -> None:
        """Take note of the client's name and protocol era; an empty name keeps the earlier one."""
        self.client = client or self.client
        self.era = era

    def name_server(self, name: str) -> None:
        """Take the server's own name, where no person gave it one. Rules name its tools by it from now on.

        A name that another server has is not taken: only refusals, questions and limits count by it.
        """
        with self._lock:
            if self.served.claim(name):
                with suppress(AdjournError):
                    self._settle_name()

    def _settle_name(self) -> None:
        if self.served.settle_name(self.store):
            self._bind()

    def meet_servers(self) -> None:
        """Take in the servers of the workspace, where this one may have a name that it did not have before. Raises `StoreError`."""
        self.served.forget_own_name(self.store)
        self.look_at_tools()

    def look_at_tools(self) -> None:
        """Take in which tools the servers of the workspace have listed, and whose names they have. Raises `StoreError`."""
        with self._lock:
            self._settle_name()
            if self.served.look(self.store):
                self._bind()

    def keep_tools(self, tools: Iterable[KnownTool]) -> None:
        """Keep the whole list of the server's tools, where its name is known. Raises `StoreError`."""
        with self._lock:
            self._settle_name()
        if self.served.name:
            self.served.keep(self.store, tools)
            self.look_at_tools()

    def _bind(self) -> None:
        """Judge the server's tools by what is known now."""
        self.contract = self._at_server(self.contract)
        for session in self._sessions.values():
            session.decide_under(self._bound(session.policy))

    def _at_server(self, contract: Contract) -> Contract:
        return msgspec.structs.replace(contract, policy=self._bound(contract.policy))

    def _bound(self, policy: Policy) -> Policy:
        """The policy as it holds for whoever stands behind the client, and for the tools of the server."""
        return self.served.judged_by(narrowed(policy, self.options.principal))

    def join(self, group: str, replica: str = "") -> None:
        """Work as one of the processes of another client's `group`; `replica` is the lease of this one (`ReplicaLease.ref`)."""
        self.group = group
        self.replica = replica

    # --- the store and the task

    @property
    def store(self) -> Store:
        """The store, opened when first used. Raises `StoreError`; the next use tries again."""
        with self._lock:
            if self._store is None:
                opened, space = open_at(self.options.root, self.options.store), self.options.space
                self._store = SpaceStore(opened, space) if space is not None else opened
            return self._store

    @property
    def secret(self) -> bytes:
        with self._lock:
            if not self._secret:
                self._secret = keys.secret()
            return self._secret

    @property
    def _heads(self) -> KeptHeads:
        return KeptHeads(self.store, self.secret)

    def task_id(self) -> str:
        """The task of this client: given, or shared by all proxies that one client process started here."""
        with self._lock:
            if not self._task:
                name = f"{CLIENT}{self.group}"
                self._task = self.store.ref(name) or ""
                if not self._task:
                    self._forget_dead_clients()
                    # A store that has lost what this client worked on is no reason to begin at zero.
                    task = self._heads.bound(self.group) or self._new_task()
                    try:
                        self.store.swap(name, task, expect=None)
                        self._task = task
                    except ConflictError:  # another proxy of this client was faster
                        self._task = self.store.ref(name) or task
                    self._heads.bind(self.group, self._task)
            return self._task

    def task_named(self, name: str) -> str:
        """The id of the task that the client means by a name."""
        space = self.options.space
        return space.named(name) if space is not None else name

    def _new_task(self) -> str:
        return self.task_named(clock.task_id(self.clock()))

    def begin_task(self) -> str:
        """Begin another task in the place of the client's own, which a person has finished."""
        with self._lock:
            before, name = self.task_id(), f"{CLIENT}{self.group}"
            self._task = self._new_task()
            try:
                self.store.swap(name, self._task, expect=before)
            except ConflictError:  # another process of this client was faster
                self._task = self.store.ref(name) or self._task
            self._heads.bind(self.group, self._task)
            return self._task

    def claim(self) -> str:
        """The task of this client. Its hooks find it from now on, also where it is bound to one."""
        task, name = self.task_id(), f"{BOUND}{self.group}"
        if self.options.task:
            with suppress(ConflictError):  # another proxy of this client was faster
                self.store.swap(name, task, expect=self.store.ref(name))
        return task

    def register(self, tools: Iterable[str]) -> None:
        """Write down that the client's hooks may leave these tools to this proxy. Raises `StoreError`, `RefusedError`."""
        with self._lock:
            self._is_registered = True
            served_tools.register(self.store, self.secret, self.group, self.process, tools)

    def become_lister(self, tools: Sequence[str]) -> served_tools.Lister:
        """Which proxy of this client gives it the meta-tools: another that lives, else this one from now on. Raises `StoreError`."""
        with self._lock:
            self._may_list = True
            return served_tools.become_lister(self.store, self._lister, self.process, tools)

    def stop_listing(self) -> None:
        """Leave the meta-tools to another proxy of this client: this one ends."""
        if self._may_list:
            with self._lock, suppress(AdjournError):
                served_tools.stop_listing(self.store, self._lister, self.process)

    def lists_for_others(self) -> bool:
        """Whether this proxy alone gives the client the meta-tools, and others that live rely on it. Raises `StoreError`."""
        with self._lock:
            if not self._may_list or served_tools.lister(self.store, self._lister) != self.process:
                return False
            return served_tools.has_sisters(self.store, self.group, self.process)

    def keep_prompt(self, prompt: str) -> None:
        """Keep what the person asked the client for first: the mission of the task that it may begin."""
        with suppress(ConflictError):  # it is not the first
            self.store.swap(self._prompt_ref, prompt, expect=None)

    def forget_prompt(self) -> None:
        """Forget what `keep_prompt` has kept."""
        if (kept := self.store.ref(self._prompt_ref)) is not None:
            with suppress(ConflictError):  # another process does
                self.store.swap(self._prompt_ref, None, expect=kept)

    def begin_with_prompt(self, session: Session) -> None:
        """Have a session open with the kept prompt where it begins its task. Opening it forgets the prompt in any case."""
        session.prompt_ref = self._prompt_ref
        if not session.task.ledger.exists:
            session.prompt = self.store.ref(self._prompt_ref) or ""

    @property
    def _prompt_ref(self) -> str:
        return f"{PROMPT}{self.group}"

    @property
    def _lister(self) -> str:
        return served_tools.lister_ref(self.group, self.options.task)

    def _forget_dead_clients(self) -> None:
        refs = self.store.refs
        for name, value in {**refs(CLIENT), **refs(BOUND), **refs(PROMPT)}.items():
            with suppress(ValueError, ConflictError):  # a name of another make is left alone
                host, pid, started, _ = name.partition("/")[2].rsplit("/", 3)
                if process.lives(process.Process(host, int(pid), int(started))) is False:
                    self.store.swap(name, None, expect=value)
                    self._heads.unbind(name.partition("/")[2])

    @cached_property
    def protected(self) -> tuple[str, ...]:
        """Places that no gated call may touch, beside the usual ones."""
        return self.options.protected_under(self.contract)

    @cached_property
    def places(self) -> ProtectedPlaces:
        """All places that no gated call may touch."""
        return places_of(self.options.tree, self.protected, self.options.secret)

    def keep_secret(self, files: tuple[str, ...]) -> None:
        """Let no gated call read these files from now on."""
        if files != self.options.secret:
            self.options = msgspec.structs.replace(self.options, secret=files)
            self.__dict__.pop("places", None)

    # --- sessions

    @property
    def policy(self) -> Policy:
        """The effective permissions now: of the open session on the client's task, else of the workspace."""
        session = self._sessions.get(self._task)
        return session.policy if session else self.contract.policy

    def session(self, task: str = "", *, also: Sequence[kinds.Data] = ()) -> GuardedSession:
        """The open session on a task (default: the client's). Opens it, with `also`, when there is none.

        Raises `HeldError` when another client's living session holds the task, `StoreError` when it cannot be written,
        `RefusedError` for another task than the one that a person bound this client to.
        """
        with self._lock:
            self._check_bound(task)
            if not task and self._task not in self._sessions and not self.options.task:
                self._task = ""  # a sister proxy may have moved on meanwhile
            task = task or self.task_id()
            session = self._sessions.get(task)
            if session is None:
                session = self._sessions[task] = self._opened_session(task, also)
            elif to := session.task.ledger.moved.get(self.group):
                to = self.options.task or to  # a bound client opens its session again
                session.close("moved", "" if to == task else to)
                del self._sessions[task]
                if task == self._task:
                    self._task = to
                return self.session(to, also=also)
            return session

    def _opened_session(self, task: str, also: Sequence[kinds.Data]) -> GuardedSession:
        session = self._new_session(task, GuardedSession)
        self.begin_with_prompt(session)
        take_over = self.options.take_over
        try:
            session.open(take_over=take_over, also=also)
        except HeldError:
            if not self.on_held(task):
                raise
            session.open(take_over=take_over, also=also)
        return session

    def _check_bound(self, task: str) -> None:
        bound = self.options.task
        if bound and task not in ("", bound):
            raise RefusedError(
                f"this proxy is bound to task {bound}, and does not work on {task[:70]!r}",
                "continue without naming a task; a person can start a proxy without --task",
            )

    def _new_session(self, task: str, kind: type[_S]) -> _S:
        opened = Task(self.store, task, clock=self.clock, secret=self.secret)
        contract = self._at_server(for_task(self.contract, self.store, opened.ledger.contract))
        return kind(
            opened,
            contract.policy,
            SessionIdentity(
                self.process,
                self.group,
                self.client,
                self.era,
                self.options.root,
                self.options.tree,
                self.replica,
                self.options.principal,
                self.options.home,
            ),
            policy_text=contract.policy_text.encode(),
            contract_text=contract.contract_text.encode(),
            auto_confirm=self.options.auto_confirm,
        )

    def move(self, to: str, also: Sequence[kinds.Data]) -> GuardedSession:
        """Switch to another task: open a session there first (which may be refused), then close the one here."""
        with self._lock:
            self._check_bound(to)
            here = self.task_id()
            session = self._sessions.get(to)
            if session is not None and session.holds():
                for data in also:
                    session.note(data)
            else:
                self._sessions.pop(
                    to, None
                )  # fenced off or declared dead: open another, if no other client holds the task
                session = self.session(to, also=also)
            self._task = to
            name = f"{CLIENT}{self.group}"
            if not self.options.task:
                with suppress(ConflictError):  # a sister proxy moves too; all follow through the chain
                    self.store.swap(name, to, expect=self.store.ref(name))
                self._heads.bind(self.group, to)
            if to != here:
                self._leave(here, to)
            return session

    def _leave(self, here: str, to: str) -> None:
        """Close the session on a task in the chain, where sister proxies with a session on it see it."""
        left: Session | None = self._sessions.pop(here, None)
        if left is None and self.store.head(here) != EMPTY:
            left = self._new_session(here, Session)
            if not any(session.group == self.group for session in left.task.ledger.sessions.values()):
                return
            left.open()
        if left is not None:
            left.close("moved", to)

    def admit(
        self,
        calls: Sequence[ToolRequest],
        task: str = "",
    ) -> tuple[GuardedSession, list[Admitted]]:
        """Decide on calls and write their intents, in the session of `task` (default: the client's task).

        An edited policy counts from here on; a checkpoint that it asks for is made before any call is decided on.
        """
        self._look_at_policy()
        for attempt in range(MAX_MOVES):
            session = self.session(task)
            session.settle_unsent()
            try:
                placed = self._prepare(session, calls)
                for note in session.checkpoint_before(placed):
                    self._on_event("page", note)
                decided = session.admit(placed)
            except TaskSwitchedError:
                continue
            except HeldError:
                if attempt or not self.gives_up(session):
                    raise
                continue
            session.remember(placed, decided)
            return session, decided
        raise ConflictError("the task switched repeatedly during this call", "retry")

    def admitting(
        self,
        calls: Sequence[ToolRequest],
        task: str,
        forward: Callable[[GuardedSession, list[Admitted]], None],
    ) -> tuple[GuardedSession, PendingCalls] | None:
        """The same, to be committed at once, or with those of other sessions: where nothing has to be done first that takes long (open
        a session, verify its history, make a checkpoint). None where something has; nothing has happened then.

        `forward` is called before the intents are written, where all calls pass, have no effect, and count for nothing. For what is
        raised, here and when they are committed, see `is_for_later`.
        """
        if monotonic() >= self._look_again:
            self._look_at_policy()
        session = self._sessions.get(task or self._task)
        if session is None or session.task.ledger.moved:
            return None
        if session.unsent.calls:
            session.settle_unsent()
        if self._broken or self._behind or session not in self._compared or session.policy.is_guarded:
            calls = self._prepare(session, calls)
        durable = any(map(is_effectful, calls))
        # what counts is not forwarded before it is recorded
        if (durable or session.policy.counts) and session.is_due_before(calls):
            return None
        pending = PendingCalls(
            session.task, session=session, calls=calls, durable=durable, forward=partial(forward, session)
        )
        return session, pending

    def is_for_later(self, error: Exception | None, pending: PendingCalls | None) -> bool:
        """Whether calls that could not be committed are to be given to `admit`, since it may still decide on them."""
        if isinstance(error, HeldError) and pending is not None:
            return self.gives_up(pending.session) and not pending.is_sent
        return isinstance(error, TaskSwitchedError)

    def gives_up(self, session: Session) -> bool:
        """Another client took the task of a session over. Returns whether the next call opens a session again, if it may."""
        with self._lock:
            if self.replica and self._sessions.get(session.task.id) is session:
                del self._sessions[session.task.id]
        return bool(self.replica)

    def expect_edited_policy(self) -> None:
        """Look at the policy file before the next call, though it was just looked at."""
        self._look_again = 0.0

    def _look_at_policy(self) -> None:
        """Take in a policy that was edited."""
        self._look_again = monotonic() + LOOK_SECONDS
        if self._policy_file.is_edited() and (broken := self._take_in_policy()) is not None:
            self._broken = broken

    def _prepare(self, session: GuardedSession, calls: Sequence[ToolRequest]) -> Sequence[ToolRequest]:
        """Write down what the session does not know yet. Returns the calls with the places that they lead to."""
        if self._broken is not None:
            session.note(self._broken)
            self._broken = None
        if session in self._behind:
            self._bring_up(session)
        if session not in self._compared:
            self._compare(session)
        policy = session.policy
        return [self._placed(policy, call) for call in calls] if policy.is_guarded else calls

    def listed(self, definitions: Mapping[str, str]) -> None:
        """Take in how the server lists its tools. What changed is written down now, or before the next call of a session."""
        with self._lock:
            self.served.listed(definitions)
            self._compared.clear()
            for session in self._sessions.values():
                with suppress(AdjournError):  # it is tried again before the session's next call
                    self._compare(session)

    def _compare(self, session: GuardedSession) -> None:
        """Record how the server lists its tools now. Raises what recording raises; no call may pass then."""
        with self._lock:
            self.served.record_changes(session)
            self._compared.add(session)

    def _placed(self, policy: Policy, call: ToolRequest) -> ToolRequest:
        """The call with the places it leads to, where a rule of this very policy wants to know them."""
        if not policy.looks_at_arguments(call.tool):
            return call
        options = self.options
        paths, matcher = call_paths(
            policy, call.tool, call.given, options.tree, options.start, around=options.root
        )
        return msgspec.structs.replace(call, paths=paths, matcher=matcher)

    def _take_in_policy(self) -> kinds.PolicyBroken | None:
        """Read the policy as it was edited. A broken one changes nothing; what is wrong with it is returned."""
        with self._lock:
            edited = self._policy_file.read(self.contract)
            if not isinstance(edited, Contract):
                return edited
            self.contract = self._at_server(edited)
            self.__dict__.pop("protected", None)  # made again: it may extend others now
            self.__dict__.pop("places", None)
            self._behind.update(self._sessions.values())
            for session in list(self._behind):
                with suppress(AdjournError):  # it is tried again before the session's next call
                    self._bring_up(session)
            self._on_event(
                "policy.changed", f"{self.contract.policy_source} was edited; the new version is in force"
            )
            return None

    def _bring_up(self, session: GuardedSession) -> None:
        """Put a session under the policy as it is now. Raises what writing that down raises; no call may pass then."""
        changed = self._at_server(for_task(self.contract, self.store, session.task.ledger.contract))
        session.change(changed.policy, changed.policy_text.encode(), changed.contract_text.encode())
        self._behind.discard(session)

    @property
    def sessions(self) -> list[GuardedSession]:
        """The open sessions, without waiting for one that is being opened."""
        return list(self._sessions.values())

    def close(self, reason: str) -> None:
        """End every session. Failures are left to the next session, which finds this process dead."""
        with self._lock:
            for session in self._sessions.values():
                with suppress(AdjournError):
                    session.settle_unsent()
                    session.close(reason)
            self._sessions.clear()
            if self._is_registered:
                with suppress(AdjournError):
                    served_tools.withdraw(self.store, self.group, self.process)
            if self._store is not None and self._owns_store:
                self._store.close()
                self._store = None


def _nobody_gives_back(_task: str) -> bool:
    return False
