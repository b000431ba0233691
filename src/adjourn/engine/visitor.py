"""A process that a client starts for one answer: who that client is, which task it works on, what is left behind.

- A client whose proxies work here is found among the processes that this one descends from: its visits belong to its
  group, go to its task, and count against the same budget.
- Otherwise the task is the workspace's, whoever asks, and under whatever name: one budget for all of them, which no new
  session and no new process begins anew. `--task` names another.

Owns: that choice, and keeping a store quick to open that only such processes write to. Must never: speak a client's format.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import msgspec

from adjourn.engine import process
from adjourn.engine.contract import for_task
from adjourn.engine.decide import Call
from adjourn.engine.desk import MAX_MOVES, Desk, Setting, group_of
from adjourn.engine.paths import places
from adjourn.engine.process import Process
from adjourn.engine.session import MovedError, Sitting
from adjourn.engine.visit import Decided, Visit, VisitedTask
from adjourn.errors import ConflictError, InvalidError
from adjourn.log import kinds
from adjourn.log.canonical import canonical, digest
from adjourn.store.base import Store

READING_VERBS = frozenset(("file.read", "git.status", "git.diff", "network.search", "todo.read"))
"""Tools of the contract vocabulary that have no effect."""
FOLD_EVERY = 64
"""Events between two cached folds. Each visit loads the task anew, so fewer than between those of a session that stays."""
MAX_EVENTS_OF_VISIT = 6
MAX_ANCESTORS = 30


class Visitor:
    """A process that was started for one answer. Opens the store when it is first needed."""

    def __init__(self, setting: Setting, client: str, client_process: int = 0) -> None:
        """`client` is its name, `client_process` its process where it says so; it must be one that this one descends from."""
        self.desk = Desk(setting)
        self._setting = setting
        self._client = client
        self._groups = {group_of(process_, setting.root): process_ for process_ in _ancestors()}
        """The processes that this one descends from, nearest first, by the name of the group they would be."""
        self._named = next(
            (group for group, process_ in self._groups.items() if process_.pid == client_process), ""
        )

    def behind_proxy(self) -> bool:
        """Whether the client has a proxy in this workspace."""
        return bool(_with_proxies(self.desk.store, self._groups))

    def ask(self, call: Call, working_directory: str = "") -> Decided:
        """Decide on a call and write it down; relative paths among its arguments are of `working_directory`.

        Raises `HeldError` or another `RefusedError`, `StoreError`.
        """
        for _ in range(MAX_MOVES):
            visit = self._visit()
            leads_to = places(visit.policy, call.tool, call.given, self._setting.root, working_directory)
            placed = msgspec.structs.replace(call, paths=leads_to.paths, matcher=leads_to.matcher)
            try:
                decided = visit.ask(placed)
            except MovedError:
                self.desk.close("moved")
                self.desk = Desk(self._setting)
                continue
            self._keep(visit)
            return decided
        raise ConflictError("this client's task is being moved about", "call again")

    def note(self, data: kinds.Data) -> None:
        """Write down what was decided without the rules."""
        visit = self._visit()
        visit.note(data)
        self._keep(visit)

    def _visit(self) -> Visit:
        """The task, and as whom to sit there."""
        desk, own = self.desk, self._setting.task
        workspace = f"workspace/{digest(self._setting.root.encode())[:8]}"
        group = _with_proxies(desk.store, self._groups)
        desk.group = group or workspace
        task = VisitedTask(desk.store, desk.task_id(), clock=desk.clock, secret=desk.secret)
        if own and not group:
            held_by = {holder.group for holder in task.ledger.sessions.values()}
            group = next((one for one in self._groups if one in held_by), "") or self._named
        # A process of no machine is one of which only its lease tells how long it lives.
        client = self._groups.get(group or self._named, Process(workspace, 0, 0))
        sitting = Sitting(client, group or workspace, self._client, "hook")
        return Visit(task, for_task(self._setting.contract, desk.store, task.ledger.contract), sitting)

    def _keep(self, visit: Visit) -> None:
        """Now and then, leave things so that the next visits load little: a cached fold, and a log that was copied."""
        if visit.task.ledger.seq % FOLD_EVERY < MAX_EVENTS_OF_VISIT:
            visit.task.fold()
            self.desk.close("")


def _with_proxies(store: Store, groups: Mapping[str, Process]) -> str:
    """The group whose proxies share a task in this store, "" for none."""
    clients = store.refs("client/")
    return next((group for group in groups if f"client/{group}" in clients), "")


def _ancestors() -> Iterator[Process]:
    host = process.host()
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        if pid <= 1:
            return
        yield Process(host, pid, process.started(pid) or 0)
        pid = _parent(pid)


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read(4096).rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def arguments_digest(arguments: object) -> str:
    """SHA-256 of the canonical arguments; of a sorted encoding for the few values that RFC 8785 cannot hold."""
    try:
        return digest(canonical(arguments))
    except InvalidError:
        return digest(msgspec.json.encode(arguments, order="sorted"))
