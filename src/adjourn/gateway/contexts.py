"""The contexts of a gateway's clients: one for each client, task and server, shared by the exchanges that a client has there.

Sessions in the history are those of contexts, so that a client that comes again continues its own work.

It also knows the owner of each task, and the gateway that works on it. Must never: look into a message.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import starmap
from typing import NamedTuple

from adjourn.clients.client import ClientContext
from adjourn.clients.client_process import ClientOptions
from adjourn.clients.policy_watch import PolicyFiles
from adjourn.clients.served_tools import forget_dead
from adjourn.errors import AdjournError, StoreError
from adjourn.gateway.endpoint import Sender
from adjourn.gateway.exchange import Exchange
from adjourn.gateway.incidents import Incidents
from adjourn.host import keys, process
from adjourn.host.clock import now
from adjourn.host.finding import Workspace
from adjourn.host.process import Process
from adjourn.host.workspace import make_folder
from adjourn.policy.contract import Contract, reread_policy
from adjourn.policy.principal import Principal, Space, space_of
from adjourn.relay.ports import StderrLog
from adjourn.store.base import Store
from adjourn.tasks.entries import OpenSession
from adjourn.tasks.lease import RENEW_SECONDS, ReplicaLease, expire_dead_sessions
from adjourn.tasks.together import PendingCommit, commit_together
from adjourn.tasks.workspace_calls import expire_sessions_of

CLOSE_SECONDS = 10.0
LINGER_SECONDS = 2.0
POLICY_SECONDS = 0.25
"""How often the policy's files are looked at for the lists of open sessions. A call looks for itself."""
AGAIN_SECONDS = 0.25
"""How often a gateway that ends tries a store that is away."""
INDEX_REST_SECONDS = 0.1
"""Between two steps that add tasks of an earlier version to the index."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class GatewayContext(NamedTuple):
    """What all calls are decided on with, and recorded in.

    The store is shared by all contexts, and closed by whoever opened it. So is `lease_store`, the same one opened again for this
    process's lease. `incidents` puts errors into words for clients. `url` is the store's ("": the
    usual one). `secret` are files that no call
    may read, whatever the settings are.
    """

    workspace: Workspace
    contract: Contract
    store: Store
    lease_store: Store
    incidents: Incidents
    url: str = ""
    secret: tuple[str, ...] = ()


class ContextKey(NamedTuple):
    """Where a context works: the server ("" for the gateway's own part), as what it is reached, for which client, on whose behalf, whether
    the client's list joins the tools of several servers, and whether the gateway sees how calls end.
    """

    server: str
    command: str
    client: str
    sender: Sender
    names_are_joined: bool = False
    sees_outcomes: bool = True


@dataclass(eq=False)
class SharedContext:
    """A context that several exchanges use."""

    context: ClientContext
    users: set[Exchange] = field(default_factory=set)
    left: float = 0.0
    """When the last one left it (`time.monotonic`)."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is open."""
        return not any(exchange.waiting or exchange.connection.requests for exchange in self.users)

    @property
    def is_over(self) -> bool:
        """Whether nobody has used it for a while, and all of it is written."""
        is_left = not self.users and self.left < time.monotonic() - LINGER_SECONDS
        return is_left and not has_unwritten(self.context)


class Contexts:
    """Of one gateway. `workers` may wait."""

    def __init__(
        self, gateway: GatewayContext, tenants: Tenants, workers: ThreadPoolExecutor, report: StderrLog
    ) -> None:
        self._gateway = gateway
        self._tenants = tenants
        self._workers = workers
        self._report = report
        self._replica = Replica(gateway.lease_store, report, self._wanted)
        self._all: dict[ContextKey, SharedContext] = {}
        self._of_task: dict[str, set[SharedContext]] = {}
        """Those that work on a task of the path."""
        self._secret: tuple[str, ...] = ()
        self._leaving: set[asyncio.Task[None]] = set()
        """For the servers of closed exchanges to end."""
        self._is_ending = threading.Event()

    def start(self) -> None:
        """Take the lease of this process. Raises `StoreError`."""
        self._loop = asyncio.get_running_loop()
        forget_dead(self._gateway.store)
        self._replica.start()
        threading.Thread(target=self._add_earlier_tasks, name="index", daemon=True).start()

    def _add_earlier_tasks(self) -> None:
        """Add the tasks of an earlier version to the index of work, in steps that leave room for calls."""
        from adjourn.handover.pending import add_earlier_tasks

        try:
            for _ in add_earlier_tasks(self._gateway.store, now, keys.secret()):
                if self._is_ending.wait(INDEX_REST_SECONDS):
                    return
        except AdjournError as error:
            self._report.event("store.error", str(error))

    def all(self) -> Iterable[ClientContext]:
        """Those there are now. From any thread."""
        return [shared.context for shared in list(self._all.values())]

    async def follow_policy(self) -> None:
        """Have open sessions take in an edited policy, and their clients list tools again. One look at the files for all."""
        files = PolicyFiles(self._gateway.workspace.root, self._gateway.contract)
        while True:
            await asyncio.sleep(POLICY_SECONDS)
            try:
                if files.are_edited():
                    await self._take_in(files)
            except Exception as error:  # whatever it is, later edits have to be followed
                self._report.event("gateway.bug", f"{type(error).__name__}: {error}")

    async def _take_in(self, files: PolicyFiles) -> None:
        with suppress(AdjournError):  # each context reports a policy with errors; the one before stays
            files.follow(reread_policy(self._gateway.workspace.root, self._gateway.contract))
            files.are_edited()
        for shared in list(self._all.values()):
            with suppress(AdjournError):
                shared.context.sessions.follow_policy()
            for exchange in list(shared.users):
                exchange.compare_tools()
            await asyncio.sleep(0)  # requests come first

    def keep_secret(self, files: tuple[str, ...]) -> None:
        """Let no call read these files from now on."""
        self._secret = files
        for context in self.all():
            context.watch.keep_secret(files)

    # --- their use

    def context_of(self, key: ContextKey) -> SharedContext:
        """The context of a key, made if there is none."""
        shared = self._all.get(key)
        if shared is None:
            shared = self._all[key] = SharedContext(self._new(key))
            if task := key.sender.task:
                self._of_task.setdefault(task, set()).add(shared)
        return shared

    def _new(self, key: ContextKey) -> ClientContext:
        workspace, sender = self._gateway.workspace, key.sender
        options = ClientOptions(
            root=workspace.root,
            tree=workspace.tree,
            contract=self._gateway.contract,
            task=sender.task,
            store=self._gateway.url,
            server=key.server,
            command=key.command,
            principal=sender.principal,
            space=self._tenants.space(sender.principal),
            home=self._tenants.home(sender.principal),
            secret=self._secret,
            words=self._gateway.incidents.words,
            names_are_joined=key.names_are_joined,
            sees_outcomes=key.sees_outcomes,
        )
        context = ClientContext(options, on_event=self._report.event, store=self._gateway.store)
        name = _UNSAFE.sub("-", key.client)[:40] or "client"
        own = f"{options.space.own}/" if options.space is not None else ""
        context.join(f"gateway/{own}{name}", self._replica.ref)
        context.sessions.on_held = self._replica.ask
        with suppress(AdjournError):
            context.meet_servers()
        return context

    def use(self, shared: SharedContext, exchange: Exchange, task: str) -> None:
        """An exchange of a context starts; `task` is that of the path."""
        shared.users.add(exchange)
        exchange.on_close = partial(self._left, shared, exchange)
        if task:
            exchange.on_use = partial(self._hand_over, task, shared.context)

    def _left(self, shared: SharedContext, exchange: Exchange) -> None:
        """A client has ended a session; it may start another one at once."""
        shared.users.discard(exchange)
        shared.left = time.monotonic()
        self._leaving.add(task := asyncio.get_running_loop().create_task(exchange.link.left(CLOSE_SECONDS)))
        task.add_done_callback(self._leaving.discard)

    def give_back(self) -> None:
        """End the work of clients that have ended their last session a moment ago."""
        for key, shared in list(self._all.items()):
            if shared.is_over:
                del self._all[key]  # from now on another context is made
                if (others := self._of_task.get(key.sender.task)) is not None:
                    others.discard(shared)
                    if not others:
                        del self._of_task[key.sender.task]
                self._workers.submit(self._end, shared.context, "client-end")

    # --- tasks that others ask for

    def _hand_over(self, task: str, to: ClientContext) -> None:
        """Have other clients that are not at work on a task give it back: `to` is about to work on it."""
        for shared in self._of_task.get(task, ()):
            context = shared.context
            if context.group != to.group and context.sessions and shared.is_idle:
                self._end(context, "handed-over")

    def _wanted(self, task: str) -> None:
        """Another replica asks for a task. In the thread of the lease."""
        self._loop.call_soon_threadsafe(self._give, task)

    def _give(self, task: str) -> None:
        """Give a task of the path back to another replica, unless calls are open: then it asks again."""
        contexts = [shared for shared in self._of_task.get(task, ()) if shared.context.sessions]
        if not all(shared.is_idle for shared in contexts):
            return
        for shared in contexts:
            self._end(shared.context, "handed-over")
        self._workers.submit(self._replica.answer, task)

    # --- what is kept, and the end

    def keep(self, beats: bool) -> None:
        """Write what waits to be written, and with `beats` keep leases. In a worker, one at a time."""
        sessions = [session for context in self.all() for session in context.sessions]
        late = [PendingCommit(session.task) for session in sessions if session.task.deferred]
        commit_together(late)
        for error in (commit.error for commit in late if commit.error is not None):
            self._report.event("store.error", str(error))
        for session in sessions:
            try:
                if beats:
                    session.heartbeat()
                if self._replica.is_gone(session.task.ledger.sessions.values()):
                    expire_dead_sessions(session.task)
            except AdjournError as error:
                self._report.event("store.error", str(error))

    async def close(self, until: float) -> None:
        """End all sessions. Exchanges are closed. What is not written yet may wait for the store until a time (`time.monotonic`)."""
        while any(map(has_unwritten, self.all())) and time.monotonic() < until:
            await self._loop.run_in_executor(self._workers, self.keep, False)
            await asyncio.sleep(AGAIN_SECONDS)
        ended = [self._loop.run_in_executor(self._workers, self._end, context, "gateway-end") for context in self.all()]
        if waited := [*ended, *self._leaving]:
            await asyncio.wait(waited, timeout=CLOSE_SECONDS)

    async def release(self) -> None:
        """Give up the lease of this process."""
        self._is_ending.set()
        await self._loop.run_in_executor(None, self._replica.stop)

    def _end(self, context: ClientContext, reason: str) -> None:
        """Close the sessions of a context, with a last checkpoint. It may open others later."""
        from adjourn.checkpoints.save import close_session

        options = context.options
        for session in context.sessions:
            try:
                close_session(session, reason, options.checkpoint_root, tree=options.page_tree)
            except AdjournError as error:
                self._report.event("checkpoint.failed", str(error))
        if not has_unwritten(context):  # else the store is away, and is tried again
            context.close(reason)


def has_unwritten(context: ClientContext) -> bool:
    """Whether something that has happened waits for the store."""
    return any(session.task.deferred for session in context.sessions)


# --- this gateway among the others that share its store

HAND_OVER_SECONDS = 5.0
"""How long another replica may take to give back a task. It looks once a second, and its open calls end first."""
POLL_SECONDS = 0.1
MAX_WAITING = 4
"""Threads that may wait for other replicas at once: the others open sessions."""


class Replica:
    """`wanted` is called in the thread of the lease with a task that another replica asks for: it has it given back, and answered."""

    def __init__(self, store: Store, report: StderrLog, wanted: Callable[[str], None]) -> None:
        """`store` may be a connection of its own to the store that the sessions use, so that no append keeps the lease waiting."""
        self._lease = ReplicaLease(store, process.current(), now)
        self._store = store
        self._report = report
        self._wanted = wanted
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._trouble = ""

    @property
    def ref(self) -> str:
        """The lease of this replica."""
        return self._lease.ref

    def start(self) -> None:
        """Take the lease, and keep it from now on. Raises `StoreError`."""
        self._lease.renew()
        self._thread.start()

    def stop(self) -> None:
        """Give the lease up. All sessions are closed."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            self._lease.release()
        except AdjournError as error:
            self._report.event("store.error", str(error))

    def is_gone(self, holders: Iterable[OpenSession]) -> bool:
        """Whether the replica that has one of these sessions is gone."""
        gone = self._lease.gone
        return bool(gone) and any(
            ReplicaLease.ref_of(Process(holder.host, holder.pid, holder.started)) in gone for holder in list(holders)
        )

    def ask(self, task: str) -> bool:
        """Ask the replica that holds a task for it; returns whether it may be free now. Waits, at most `HAND_OVER_SECONDS`."""
        if not self._waiting.acquire(blocking=False):
            return False
        try:
            holders = self._lease.holders(task)
            questions = {holder: self._lease.ask(holder, task) for holder in holders}
            end = time.monotonic() + HAND_OVER_SECONDS
            while not (answered := all(starmap(self._lease.is_answered, questions.items()))):
                if time.monotonic() > end:
                    break
                time.sleep(POLL_SECONDS)
            for question in questions.values():
                self._lease.forget(question)
            return bool(holders) and answered
        finally:
            self._waiting.release()

    def answer(self, task: str) -> None:
        """Say that a task was given back, or is not."""
        try:
            self._lease.answer(task)
        except AdjournError as error:
            self._report.event("store.error", str(error))

    def _expire_sessions(self, lease: str) -> None:
        """Have what the sessions of another replica left open be in doubt."""
        try:
            expire_sessions_of(self._store, lease, clock=now, secret=keys.secret())
        except AdjournError as error:
            self._report.event("store.error", str(error))

    def _keep(self) -> None:
        while not self._ending.wait(RENEW_SECONDS):
            try:
                self._lease.renew()
                for name in self._lease.ended():
                    self._report.event("replica.gone", name)
                    threading.Thread(target=self._expire_sessions, args=(name,), name="expire", daemon=True).start()
                for task in self._lease.wanted():
                    self._wanted(task)
                self._trouble = ""
            except StoreError as error:
                if str(error) != self._trouble:  # not once a second
                    self._trouble = str(error)
                    self._report.event("store.error", self._trouble)
            except Exception as error:  # whatever it is, the lease has to be kept
                self._report.event("gateway.bug", f"{type(error).__name__}: {error}")


# --- owners behind a gateway

FOLDER = ".aex/spaces"


class Tenants:
    """The principals of a workspace. Members of the groups in `shared` share their tasks."""

    def __init__(self, root: str, shared: tuple[str, ...]) -> None:
        self._root = root
        self._shared = shared

    def space(self, principal: Principal | None) -> Space | None:
        """The tasks that a principal sees; None for all."""
        return space_of(principal, self._shared) if principal is not None else None

    def home(self, principal: Principal | None) -> str:
        """The folder that has a principal's checkpoints and pages, which is made; "" for the workspace itself."""
        space = self.space(principal)
        return make_folder(self._root, os.path.join(FOLDER, space.home)) if space is not None else ""

    def task_named(self, principal: Principal | None, name: str) -> str:
        """The id of the task that a principal means by a name."""
        space = self.space(principal)
        return space.named(name) if space is not None else name
