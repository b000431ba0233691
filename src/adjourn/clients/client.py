"""What one client of a workspace works with: its task, the policy as it stands, its sessions, and the tools that servers list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from adjourn.aex.match import KnownTool
from adjourn.clients.client_process import ClientOptions, ClientProcess
from adjourn.clients.policy_watch import PolicyWatch
from adjourn.clients.served_tools import ServedTools
from adjourn.clients.session_pool import SessionPool
from adjourn.clients.task_choice import TaskChoice
from adjourn.errors import AdjournError
from adjourn.host.clock import now
from adjourn.store.base import Store


class ClientContext(ClientProcess):
    """The process of a client with its `task`, the `watch` on its policy, the tools `served` to it, and its `sessions`. One per proxy."""

    def __init__(
        self,
        options: ClientOptions,
        clock: Callable[[], int] = now,
        on_event: Callable[[str, str], None] = lambda _event, _text: None,
        store: Store | None = None,
    ) -> None:
        super().__init__(options, clock, on_event, store)
        self.task = TaskChoice(self)
        self.served = ServedTools(self)
        self.watch = PolicyWatch(self, self.served)
        self.sessions = SessionPool(self, self.task, self.watch, self.served)

    # --- the server behind the client

    def name_server(self, name: str) -> None:
        """Take the server's own name, where no person gave it one. Rules name its tools by it from now on.

        A name that another server has is not taken: only refusals, questions and limits count by it.
        """
        with self.lock:
            if self.served.claim(name):
                with suppress(AdjournError):
                    self._settle_name()

    def meet_servers(self) -> None:
        """Take in the servers of the workspace, where this one may have a name that it did not have before. Raises `StoreError`."""
        self.served.forget_own_name()
        self.look_at_tools()

    def look_at_tools(self) -> None:
        """Take in which tools the servers of the workspace have listed, and whose names they have. Raises `StoreError`."""
        with self.lock:
            self._settle_name()
            if self.served.look():
                self.sessions.judge_server_again()

    def keep_tools(self, tools: Iterable[KnownTool]) -> None:
        """Keep the whole list of the server's tools, where its name is known. Raises `StoreError`."""
        with self.lock:
            self._settle_name()
        if self.served.name:
            self.served.keep(tools)
            self.look_at_tools()

    def _settle_name(self) -> None:
        if self.served.settle_name():
            self.sessions.judge_server_again()

    def close(self, reason: str) -> None:
        """End every session, and close the store. Failures are left to the next session, which finds this process dead."""
        with self.lock:
            self.sessions.close(reason)
            self.served.withdraw()
            self.close_store()
