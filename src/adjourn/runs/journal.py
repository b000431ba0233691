"""A run in its task's history: the results of its steps, calls without an outcome, and adding to it.

Must never: run anything, or hold what the history does not have (but facts that are recomputed if they are lost).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from adjourn.aex.policy import Policy
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.errors import IntegrityError
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import SYSTEM, decode
from adjourn.policy.calls import CallPaths, arguments_digest, encoded
from adjourn.tasks import idempotency
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.session import Admitted
from adjourn.tasks.task import NewEvent, Task
from adjourn.text.redact import preview

MAX_WAITING = 200
"""Most facts of steps without a call that may wait to be written. A kill loses them; they are computed again."""
Result = kinds.ToolResult | kinds.MakeResult
RunOutcome = kinds.CheckPassed | kinds.CheckFailed | kinds.IfTrue | kinds.IfFalse | kinds.ForStart


class Left(msgspec.Struct):
    """A call that was allowed and has no outcome. `done`: a person has settled that its effect happened."""

    call: str
    tool: str
    digest: str
    done: bool = False


class History:
    """The fold of a run's events. `results` and `passed` are by step, `left` by call."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._next = 0
        self._sessions: set[str] = set()
        self.started: kinds.RunStarted | None = None
        self.finished: kinds.RunFinished | None = None
        self.results: dict[str, Result] = {}
        self.passed: dict[str, RunOutcome] = {}
        self.left: dict[str, Left] = {}

    def read(self) -> None:
        """Read the events appended since. `task.refresh` has checked the chain."""
        self.task.refresh()
        head = self.task.head
        for entry in verified_entries_from(self.task.store, self.task.id, self._next, head):
            event = decode(entry.data)
            data = kinds.data_of(event)
            if isinstance(data, kinds.RunStarted | kinds.RunResumed):
                self._sessions.add(event.session)
            if isinstance(data, kinds.EffectSettled) or event.session in self._sessions:
                for fact in kinds.facts_of(event):
                    self._take(kinds.data_of(fact))
        self._next = head.seq + 1

    def _take(self, data: kinds.Data | None) -> None:
        if isinstance(data, kinds.RunStarted):
            self.started = data
        elif isinstance(data, kinds.RunResumed | kinds.RunFinished):
            self.finished = data if isinstance(data, kinds.RunFinished) else None
        elif isinstance(data, Result):
            self.results[data.step] = data
            self.left.pop(data.call, None)
        elif isinstance(data, RunOutcome) and not isinstance(data, kinds.CheckFailed):
            self.passed[data.step] = data
        elif isinstance(data, kinds.ToolAllowed):
            self.left[data.call] = Left(data.call, data.tool, data.digest)
        elif isinstance(data, kinds.ToolSettled) and data.outcome != "no-answer":
            self.left.pop(data.call, None)
        elif isinstance(data, kinds.EffectSettled) and data.call in self.left:
            if data.outcome == "done":
                self.left[data.call].done = True
            else:
                del self.left[data.call]


class Journal:
    """The events of a run, and the only way for its steps to append more."""

    def __init__(self, session: GuardedSession, history: History, tell: Callable[[str], None]) -> None:
        self.session = session
        self._tell = tell
        self.task = session.task
        self.history = history
        self._waiting = 0

    # --- steps with a call

    def result(self, step: str) -> Result | None:
        """The result of a step in an earlier session."""
        return self.history.results.get(step)

    def value(self, result: str) -> Any:
        """A kept document as JSON. Raises `IntegrityError` if it is missing."""
        return value_of(self.task, result)

    def is_done(self, call: ToolRequest) -> str:
        """The id of the call that was left without an outcome, if it is this one and a person said that it happened."""
        if not self.history.left:
            return ""
        self.history.read()
        for call_left in self.history.left.values():
            if call_left.done and (call_left.tool, call_left.digest) == (call.tool, call.digest):
                return call_left.call
        return ""

    def admit(self, call: ToolRequest, policy: Policy) -> Admitted:
        """Decide on a call and write its intent, before anything happens. Raises `HeldError`, `StoreError`."""
        self.session.decide_under(policy)
        self._say(self.session.checkpoint_before([call]))
        return self.session.admit([call])[0]

    def keep(self, result: Result, value: Any, milliseconds: int = 0) -> None:
        """Record the outcome of a call: its settlement and its result are appended together."""
        document = encoded(value)
        name = digest(document)
        settled = kinds.ToolSettled(answer=name, call=result.call, milliseconds=milliseconds, outcome="ok", seen=True)
        facts: list[kinds.Data] = [settled, msgspec.structs.replace(result, result=name)]
        if isinstance(result, kinds.MakeResult) and (tokens := result.input_tokens + result.output_tokens):
            facts.append(kinds.UsageReported(model=result.model, tokens=tokens))
        refs = idempotency.keep(self.task, [settled], {result.call: document})
        self._write(facts, document, refs, durable=isinstance(result, kinds.ToolResult))
        self._say(self.session.checkpoint_after([settled]))

    def take(self, result: kinds.ToolResult, value: Any) -> None:
        """Record the result of a step that made no call: its effect happened before."""
        document = encoded(value)
        self._write([msgspec.structs.replace(result, result=digest(document))], document, {}, durable=True)

    def _write(self, facts: list[kinds.Data], document: bytes, refs: dict[str, str | None], *, durable: bool) -> None:
        written = [NewEvent(data, SYSTEM, self.session.id) for data in facts]
        self.task.commit(written, durable=durable, refs=refs, blobs=[document])

    def settle(self, settled: kinds.ToolSettled) -> None:
        """Record that a call gave no result to bind."""
        self.session.settle([settled])
        self._say(self.session.checkpoint_after([settled]))

    def _say(self, notes: Iterable[str]) -> None:
        """Report the checkpoints that were saved."""
        for note in notes:
            self._tell(note)

    # --- steps without

    def note(self, outcome: RunOutcome) -> bool:
        """Record the result of a step without a call; False when an earlier session did so."""
        if outcome.step in self.history.passed:
            return False
        self.task.deferred.append(NewEvent(outcome, SYSTEM, self.session.id))
        self._waiting += 1
        if self._waiting >= MAX_WAITING:
            self.task.flush()
            self._waiting = 0
        return True

    def finish(self, value: Any) -> None:
        """Write that the run has reached its `return`; `--resume` does not find it."""
        document = encoded(value)
        finished = kinds.RunFinished(result=digest(document), status="success")
        self.task.commit(
            [NewEvent(finished, SYSTEM, self.session.id)], refs={name_of(self.task.id): None}, blobs=[document]
        )

    def blocked(self, reason: str, step: str) -> None:
        """Record why the run is blocked."""
        finished = kinds.RunFinished(reason=reason, status="blocked", step=step)
        self.task.commit([NewEvent(finished, SYSTEM, self.session.id)])


def value_of(task: Task, document: str) -> Any:
    """A document that the store keeps, as JSON. Raises `IntegrityError` if it is missing."""
    data = task.store.get_blob(document)
    if data is None:
        raise IntegrityError(
            f"document {document[:12]} of task {task.id} is not in the store", "start a new run; it cannot be resumed"
        )
    return msgspec.json.decode(data)


def call_of(
    tool: str,
    arguments: Mapping[str, Any],
    where: CallPaths,
    *,
    effectful: bool,
    protected: str = "",
    may_clash: bool = False,
) -> ToolRequest:
    """A call as it is decided on and written down. Raises `InvalidError` for arguments that are no JSON."""
    return ToolRequest(
        tool=tool,
        digest=arguments_digest(arguments),
        effectful=effectful,
        arguments=preview(arguments) if effectful else "",
        given=arguments,
        paths=where.paths,
        matcher=where.matcher,
        protected=protected,
        may_clash=may_clash,
    )


# --- the ref of a run


def name_of(task: str) -> str:
    """The ref that names an unfinished run."""
    return f"run/{task}"
