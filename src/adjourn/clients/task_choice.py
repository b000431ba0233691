"""Which task a client works on: the one that a person gave it, or the one that all proxies and hooks of a client process share."""

from __future__ import annotations

from contextlib import suppress

from adjourn.clients.client_process import ClientProcess
from adjourn.errors import ConflictError, RefusedError
from adjourn.host import clock, process
from adjourn.host.process import Process
from adjourn.tasks.heads import KeptHeads
from adjourn.tasks.session import Session
from adjourn.tasks.task import check_task_id

CLIENT, BOUND = "client/", "bound/"
"""How the refs start that say which task the proxies of a group work on: the one they share, the one a person bound one to."""
PROMPT = "prompt/"
"""How the refs start that keep what a person asked a client for, until it opens a session."""
MAX_MOVES = 5
"""How often one call follows a task that switches."""


class TaskChoice:
    """The task of one client process. `id` is its id, as far as it is known; "" before."""

    def __init__(self, client: ClientProcess) -> None:
        self._client = client
        self.bound = client.options.task and check_task_id(client.options.task)
        """The task that a person bound this client to; "" for none."""
        self.id = self.bound

    def current(self) -> str:
        """The task of this client: given, or shared by all proxies that one client process started here."""
        client = self._client
        with client.lock:
            if not self.id:
                self.id = client.store.ref(self._ref) or ""
                if not self.id:
                    if not client.replica:  # the clients of a gateway are no processes
                        self._forget_dead_clients()
                    # A store that has lost what this client worked on is no reason to start at zero.
                    task = self._heads.bound(client.group) or self._new_id()
                    try:
                        client.store.swap(self._ref, task, expect=None)
                        self.id = task
                    except ConflictError:  # another proxy of this client was faster
                        self.id = client.store.ref(self._ref) or task
                    self._heads.bind(client.group, self.id)
            return self.id

    def named(self, name: str) -> str:
        """The id of the task that the client means by a name."""
        space = self._client.options.space
        return space.named(name) if space is not None else name

    def check(self, task: str) -> None:
        """Raise `RefusedError` for another task than the one that a person bound this client to."""
        if self.bound and task not in ("", self.bound):
            raise RefusedError(
                f"this proxy is bound to task {self.bound}, and does not work on {task[:70]!r}",
                "continue without naming a task; a person can start a proxy without --task",
            )

    def begin(self) -> str:
        """Start another task in the place of the client's own, which a person has finished."""
        client = self._client
        with client.lock:
            before = self.current()
            self.id = self._new_id()
            try:
                client.store.swap(self._ref, self.id, expect=before)
            except ConflictError:  # another process of this client was faster
                self.id = client.store.ref(self._ref) or self.id
            self._heads.bind(client.group, self.id)
            return self.id

    def move(self, to: str) -> None:
        """Work on another task from now on."""
        self.id = to
        client = self._client
        if not self.bound:
            with suppress(ConflictError):  # a sister proxy moves too; all follow through the chain
                client.store.swap(self._ref, to, expect=client.store.ref(self._ref))
            self._heads.bind(client.group, to)

    def claim(self) -> str:
        """The task of this client. Its hooks find it from now on, also where it is bound to one."""
        task, store, name = self.current(), self._client.store, f"{BOUND}{self._client.group}"
        if self.bound:
            with suppress(ConflictError):  # another proxy of this client was faster
                store.swap(name, task, expect=store.ref(name))
        return task

    @property
    def _ref(self) -> str:
        return f"{CLIENT}{self._client.group}"

    @property
    def _heads(self) -> KeptHeads:
        return KeptHeads(self._client.store, self._client.secret)

    def _new_id(self) -> str:
        return self.named(clock.task_id(self._client.clock()))

    def _forget_dead_clients(self) -> None:
        store = self._client.store
        for name, value in {**store.refs(CLIENT), **store.refs(BOUND), **store.refs(PROMPT)}.items():
            with suppress(ValueError, ConflictError):  # a name of another make is left alone
                host, pid, started, _ = name.partition("/")[2].rsplit("/", 3)
                if process.lives(Process(host, int(pid), int(started))) is False:
                    store.swap(name, None, expect=value)
                    self._heads.unbind(name.partition("/")[2])

    # --- what the person asked for first: the mission of the task that the client may start

    def keep_prompt(self, prompt: str) -> None:
        """Keep what the person asked the client for first."""
        with suppress(ConflictError):  # it is not the first
            self._client.store.swap(self._prompt_ref, prompt, expect=None)

    def forget_prompt(self) -> None:
        """Forget what `keep_prompt` has kept."""
        store = self._client.store
        if (prompt := store.ref(self._prompt_ref)) is not None:
            with suppress(ConflictError):  # another process does
                store.swap(self._prompt_ref, None, expect=prompt)

    def begin_with_prompt(self, session: Session) -> None:
        """Have a session open with the kept prompt where it starts its task. Opening it forgets the prompt in any case."""
        session.prompt_ref = self._prompt_ref
        if not session.task.ledger.exists:
            session.prompt = self._client.store.ref(self._prompt_ref) or ""

    @property
    def _prompt_ref(self) -> str:
        return f"{PROMPT}{self._client.group}"
