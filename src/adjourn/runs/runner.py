"""One session of a run: opens it, runs the steps, records how it ended, saves a last checkpoint, and closes it.

Must never: let a failure of a step end the process without its being written, or one of the last checkpoint hide how it
ended.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin
from weakref import WeakValueDictionary

import msgspec

from adjourn.aex.ast import Document
from adjourn.aex.match import tool_name_ok
from adjourn.aex.permissions import layer
from adjourn.checkpoints.save import close_session
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.clients.client import ClientContext
from adjourn.errors import AdjournError, HeldError, InvalidError
from adjourn.findings import Finding
from adjourn.host.clock import now
from adjourn.host.http import UnansweredError, exchange
from adjourn.log import kinds
from adjourn.policy.calls import encoded
from adjourn.policy.contract import Contract
from adjourn.runs.interpreter import Interpreter, Names
from adjourn.runs.journal import History, Journal, value_of
from adjourn.runs.model import Model
from adjourn.runs.step_calls import AskPerson, BlockedError, Emit, Means, RunPermissions, Stop
from adjourn.runs.tools import Arguments, Tool, ToolError, built_in
from adjourn.tasks.lease import LEASE_MILLISECONDS
from adjourn.tasks.task import Task

MAX_REASON = 2000
_SEATED: WeakValueDictionary[tuple[str, str, str], Run] = WeakValueDictionary()
"""The active runs of this process, by workspace, store and task. A lease keeps out other processes only."""
_OPENING = threading.Lock()


def _log(note: str) -> None:
    logging.getLogger("adjourn").warning("%s", note)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how to run.

    `root` is the workspace, `tree` the work tree of it that the tools work in (default: the same). `task` names the run's task ("": a name is generated). `tools` are added to the built-in ones. `tell` is called with
    messages about checkpoints.
    """

    root: str
    ask: AskPerson
    emit: Emit
    stop: Stop
    tree: str = ""
    store: str = ""
    policy: str = ""
    task: str = ""
    registry: str = ""
    model: Model | None = None
    auto_confirm: bool = False
    tools: dict[str, Tool] = {}
    tell: Callable[[str], None] = _log
    clock: Callable[[], int] = now


class Plan(msgspec.Struct, kw_only=True):
    """A contract that may be run: its text and document, the policy that it is under, warnings about both."""

    text: str
    source: str
    document: Document
    policy: Contract | None
    findings: list[Finding]
    inputs: dict[str, Any] = {}

    @property
    def permissions(self) -> RunPermissions:
        """What the policy and the contract permit together."""
        return RunPermissions.of(self.policy.policy if self.policy else None, layer(self.document))


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a run ended. `output` is the value of its `return`; `reason` and `remedy` say why `step` was blocked."""

    task: str
    status: str
    output: Any = None
    reason: str = ""
    remedy: str = msgspec.field(name="help", default="")
    step: str = ""
    calls_used: int = 0


class Run:
    """A run that is ready to start. `over` is the outcome of a run that has ended earlier."""

    def __init__(self, options: Options, plan: Plan, context: ClientContext) -> None:
        self.plan = plan
        self.over: kinds.RunFinished | None = None
        self._options = options
        self._context = context
        self._tools = self._all_tools()
        self._session: GuardedSession | None = None

    @property
    def task(self) -> str:
        """The id of the task of the run."""
        return self._context.task.current()

    def _all_tools(self) -> dict[str, Tool]:
        """The built-in ones, over them the caller's, over them the registry's."""
        remote: dict[str, Tool] = {}
        if url := self._options.registry:
            with self._options.stop.allowed():
                remote = registered(url)
        return {**built_in(self._options.tree or self._options.root), **self._options.tools, **remote}

    def open(self, first: kinds.RunStarted | kinds.RunResumed) -> None:
        """Open the session, with its first fact. Raises `HeldError` while another process, or another run of this one, runs it."""
        try:
            with _OPENING:
                self._session = self._alone(first)
        except BaseException:
            self._context.close("refused")
            raise

    def _alone(self, first: kinds.RunStarted | kinds.RunResumed) -> GuardedSession:
        if self._seat in _SEATED:
            raise HeldError(f"this process is running task {self.task} already", "wait until that run ends")
        session = self._context.sessions.open(also=[first])
        _SEATED[self._seat] = self
        return session

    @property
    def _seat(self) -> tuple[str, str, str]:
        return os.path.realpath(self._options.root), self._options.store, self.task

    def go(self) -> RunOutcome:
        """Run the steps to the end, or to the step that is blocked.

        Raises `KeyboardInterrupt` when it was stopped, and what the store raises; then it can be resumed.
        """
        walk = self.walk()
        try:
            while True:
                next(walk)
        except StopIteration as ended:
            outcome: RunOutcome = ended.value
            return outcome

    def walk(self) -> Generator[str, None, RunOutcome]:
        """Like `go`, one step at a time: yields the position of each step before running it. Closing the generator stops the run."""
        if self._session is None:
            return self._ended_before()
        reason, why = "failed", ""
        try:
            with self._heartbeats(self._session):
                outcome = yield from self._finish(self._session)
            reason, why = outcome.status, outcome.reason
        except (KeyboardInterrupt, GeneratorExit):
            reason = "interrupted"
            raise
        else:
            return outcome
        finally:
            _SEATED.pop(self._seat, None)
            if reason != "success":
                self._leave(self._session, reason, why)
            self._context.close(reason)

    def _leave(self, session: GuardedSession, reason: str, why: str) -> None:
        """Save a last checkpoint, which shows the state of the run."""
        on = f"`adjourn run --resume --task {self.task}` resumes it"
        try:
            close_session(
                session,
                reason,
                self._options.root,
                description=f"{on}, once this is fixed: {why}" if why else on,
                tell=self._options.tell,
                tree=self._options.tree,
            )
        except (AdjournError, OSError) as error:
            self._options.tell(f"cannot save a last checkpoint: {error}")

    def _finish(self, session: GuardedSession) -> Generator[str, None, RunOutcome]:
        history = History(session.task)
        history.read()
        journal = Journal(session, history, self._options.tell)
        means = Means(
            root=os.path.realpath(self._options.tree or self._options.root),
            tools=self._tools,
            ask=self._options.ask,
            emit=self._options.emit,
            stop=self._options.stop,
            model=self._options.model,
            protected=self._context.watch.places,
        )
        plan = self.plan
        names = Names(plan.inputs, [need.name.text for need in plan.document.needs])
        interpreter = Interpreter(plan.document, names, plan.permissions, journal, means)
        try:
            returned = yield from interpreter.walk()
        except BlockedError as error:
            return self._blocked(journal, error)
        journal.finish(returned.value)
        self._options.emit(kinds.RunFinished.KIND, {"status": "success"})
        return RunOutcome(
            task=self.task, status="success", output=returned.value, calls_used=session.task.ledger.calls_used
        )

    def _blocked(self, journal: Journal, error: BlockedError) -> RunOutcome:
        reason = error.message[:MAX_REASON]
        journal.blocked(reason, error.step)
        self._options.emit(kinds.RunFinished.KIND, {"status": "blocked", "reason": reason})
        return RunOutcome(
            task=self.task,
            status="blocked",
            reason=reason,
            remedy=error.remedy,
            step=error.step,
            calls_used=journal.task.ledger.calls_used,
        )

    def _ended_before(self) -> RunOutcome:
        """The outcome of a run that succeeded in an earlier session: it does not run again."""
        assert self.over is not None  # else there is a session
        task = Task(self._context.store, self.task, clock=self._options.clock, secret=self._context.secret)
        try:
            output = value_of(task, self.over.result)
            return RunOutcome(task=self.task, status="success", output=output, calls_used=task.ledger.calls_used)
        finally:
            self._context.close("over")

    @contextmanager
    def _heartbeats(self, session: GuardedSession) -> Iterator[None]:
        """Renew the session's lease while something takes long."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(LEASE_MILLISECONDS / 3000):
                try:
                    session.heartbeat()
                except AdjournError:  # the next write of the run fails with the reason
                    return

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


# --- tools of a remote registry

ANSWER_SECONDS = 120.0
MAX_REGISTRY = 1_000_000
MAX_ANSWER = 10_000_000
MAX_TOOLS = 1000


class RegistryError(AdjournError):
    """The registry could not be read, or is not a registry."""


class _Listed(msgspec.Struct, frozen=True, rename="camel"):
    url: str = ""
    side_effect: bool = True


class _Registry(msgspec.Struct, frozen=True):
    tools: dict[str, _Listed]


def registered(url: str, *, seconds: float = ANSWER_SECONDS) -> dict[str, Tool]:
    """The tools that the registry at `url` lists, by name. Raises `RegistryError`."""
    try:
        status, body = exchange("GET", url, b"", MAX_REGISTRY, seconds)
    except (UnansweredError, InvalidError) as error:
        raise RegistryError(
            f"the registry {url} cannot be read: {error}", "check the address, and that the registry runs"
        ) from error
    if status != 200:
        raise RegistryError(f"the registry {url} answered {status}", "check the address; redirects are not followed")
    try:
        listed = msgspec.json.decode(body, type=_Registry).tools
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RegistryError(
            f"the registry {url} is not a list of tools: {error}", 'it is {"tools": {NAME: {"url"}}}'
        ) from error
    if len(listed) > MAX_TOOLS:
        raise RegistryError(f"the registry {url} lists more than {MAX_TOOLS} tools", "split it")
    return {
        name: _tool(name, urljoin(url, tool.url), effectful=tool.side_effect, seconds=seconds)
        for name, tool in listed.items()
        if tool.url and tool_name_ok(name)
    }


def _tool(name: str, url: str, *, effectful: bool, seconds: float) -> Tool:
    def run(given: Arguments) -> Any:
        return _call(name, url, given, seconds)

    return Tool(run=run, effectful=effectful)


def _call(name: str, url: str, arguments: Mapping[str, Any], seconds: float) -> Any:
    try:
        status, body = exchange("POST", url, encoded(arguments), MAX_ANSWER, seconds)
    except UnansweredError as error:
        raise ToolError(
            f"{name} gave no answer: {error}",
            "check whether it took effect, then run `adjourn settle`",
            answered=not error.sent,
        ) from error
    except InvalidError as error:
        raise ToolError(f"{name} cannot be called: {error.message}", error.remedy) from error
    if not 200 <= status < 300:
        raise ToolError(f"{name} answered {status}: {body[:200].decode(errors='replace')!r}", "check its own log")
    try:
        return msgspec.json.decode(body) if body.strip() else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ToolError(f"{name} did not answer with JSON: {error}", "check its own log") from error
