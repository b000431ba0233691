"""Tool effects: claimed durably before a tool runs, settled after, and what to do about a claim that was never settled.

The ledger of effects is the task's chain of events, for a library that claims here as for the calls of a proxy. A claim is one commit
to it (`tool.allowed`, without a session), which sees the effects of every client of the task. Records show what the chain says
(`effect_lookup`), and keep the inputs and outputs of effects that were claimed here. An effect that is not replayable never runs twice
unless a probe or a person has checked that it did not happen.

Must never: run a tool, or treat an unsettled claim as an effect that did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, NamedTuple, Protocol
from uuid import uuid4

import msgspec

from adjourn.errors import IntegrityError, NotFoundError, RefusedError, UsageError
from adjourn.host import keys
from adjourn.knowledge.cognition.transitions import RecordChange, Transition, derived_id, path_of, put, with_blocking
from adjourn.knowledge.model.documents import Tree, by_id, same, tree_of, view
from adjourn.knowledge.model.record import CRAuthor, CRToolEffect
from adjourn.knowledge.records import effect_lookup, interventions
from adjourn.knowledge.records.effect_lookup import EffectCall, FoundEffect
from adjourn.log import kinds
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import Actor
from adjourn.store.base import Store, Swap
from adjourn.tasks import idempotency
from adjourn.tasks.approvals import settle_doubt
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import NewEvent, Task
from adjourn.text.quoting import first_line
from adjourn.text.redact import preview

DONE, NOT_DONE = "done", "not done"
"""The answers to the question about an effect in doubt."""
_MOOT = "The call is settled: it was done."
Probe = Callable[[Tree], bool | None]
"""Checks whether an effect happened. Returns None if it cannot know."""


class EffectClaim(NamedTuple):
    """`run`: run the tool now, then settle. Else the effect happened before, and `effect` has its `outputs` if they were kept."""

    run: bool
    record: str
    effect: CRToolEffect


class RunningEffect(msgspec.Struct):
    """An effect inside of a block (`Effects.once`). `run`: run the tool in the block, and set `outputs`. Else it happened before, and
    `outputs` are what was kept of it.
    """

    run: bool
    outputs: Mapping[str, Any] | None = None


class Compensation(NamedTuple):
    """The effects since an older version: those to undo, newest first, and those that cannot be undone."""

    undo: list[Tree]
    irreversible: list[Tree]


class RecordWriter(Protocol):
    """Reads and writes the records that show the effects."""

    def ids(self) -> list[str]:
        """The ids of all records."""
        ...

    def resolve(self, name: str) -> Tree:
        """The newest version of the record with this id, or the version with this hash."""
        ...

    def act(self, cr_id: str, operation: Callable[[Tree, int], Transition], author: CRAuthor) -> Tree:
        """Write the version that `operation` makes of the newest one."""
        ...


class Effects:
    """The effects of the tasks whose records are in a store. `records` reads and writes those records.

    `session` is the id of the session that makes the claims, whose end puts them in doubt. Without one, they are in doubt at once.
    """

    def __init__(self, store: Store, records: RecordWriter, clock: Callable[[], int], session: str = "") -> None:
        self._store = store
        self._records = records
        self._clock = clock
        self._session = session
        self._tasks: dict[str, Task] = {}

    def find(self, cr_id: str, call: EffectCall) -> FoundEffect | None:
        """Find an effect and its state, and claim nothing. None if nobody has claimed it."""
        record = self._current(cr_id)
        task = self._task(record)
        task.refresh()
        names = effect_lookup.names_of(task, task.ledger, call)
        return effect_lookup.look_up(task, task.ledger, call, names) or effect_lookup.found_in_record(record, call)

    def claim(self, cr_id: str, call: EffectCall, author: CRAuthor, *, probe: Probe | None = None) -> EffectClaim:
        """Claim an effect before its tool runs, or find that it happened already.

        Effects of a proxy of the task count too, and a proxy sees the claims made here. `probe` checks an effect in doubt. Raises
        `RefusedError` if nobody knows whether the effect happened, or if the key belongs to another call.
        """
        record = self._current(cr_id)
        task = self._task(record)
        existing = self._found(task, record, call, author)
        if existing.state == "free":
            effect = effect_lookup.claimed_effect(existing, call)
            if not self._session:  # else the chain has all that there is
                self._act(_add_claim, cr_id, effect, author)
            return _claim(cr_id, effect, run=True)
        owner = self._named(existing.owner) if existing.owner else task
        effect = effect_lookup.complete_effect(owner, record, existing, call)
        if existing.keyed and not effect_lookup.is_of(effect, call):
            raise RefusedError(
                f"the key {call.idempotency_key!r} belongs to another call: {effect['toolName']} {effect['operation']} with other inputs",
                "use a separate key for each effect",
            )
        if existing.state == "done":
            return _claim(cr_id, effect, run=False)
        if effect["isReplayable"]:
            return _claim(cr_id, effect, run=True)
        if existing.state == "open":
            raise RefusedError(
                f"call {existing.call} for the same effect is under way",
                "complete it if it is yours; else wait for its answer, then retry",
            )
        self._look(owner, cr_id, effect, author, probe)
        return self.claim(cr_id, call, author)

    @contextmanager
    def once(
        self, cr_id: str, call: EffectCall, author: CRAuthor, *, probe: Probe | None = None
    ) -> Iterator[RunningEffect]:
        """Claim an effect for a block, and settle it at the end. After an exception, or a kill, it is in doubt: nobody knows how far it
        came. Raises what `claim` raises.
        """
        claim = self.claim(cr_id, call, author, probe=probe)
        effect = RunningEffect(run=claim.run, outputs=claim.effect.get("outputs"))
        began = self._clock()
        yield effect
        if claim.run:
            if effect.outputs is not None and not isinstance(effect.outputs, Mapping):
                raise UsageError(
                    f"the outputs of {call.tool} {call.operation} are {effect.outputs!r:.80}", "set an object, or None"
                )
            self.complete(claim, effect.outputs, author, took_ms=max(0, self._clock() - began))

    def complete(
        self, claim: EffectClaim, outputs: Mapping[str, Any] | None, author: CRAuthor, *, took_ms: int = 0
    ) -> Tree:
        """Settle a claim: the effect happened. `took_ms` is the tool's run time in milliseconds. Returns the record.

        Raises `RefusedError` if the claim was settled already.
        """
        members = {} if outputs is None else {"outputs": dict(outputs)}
        document = canonical(members["outputs"]) if members else b""
        settled = kinds.ToolSettled(
            answer=digest(document) if document else "", call=claim.effect.id, milliseconds=took_ms, outcome="ok"
        )
        self._settle(claim, settled, author, document)
        done = {**tree_of(claim.effect), **members, "status": "completed", "durationMs": took_ms}
        return self._act(_record_effect, claim.record, done, author)

    def fail(self, claim: EffectClaim, error: str, author: CRAuthor, *, took_ms: int = 0) -> Tree:
        """Settle a claim: the tool reported that nothing happened. Do not settle if that is not certain.

        For the task, an effect that is not replayable is then in doubt: only a person can allow another attempt. Returns the record.
        """
        outcome: Literal["tool-error", "no-answer"] = "tool-error" if claim.effect.is_replayable else "no-answer"
        settled = kinds.ToolSettled(
            call=claim.effect.id, message=first_line(error), milliseconds=took_ms, outcome=outcome
        )
        self._settle(claim, settled, author)
        failed = {**tree_of(claim.effect), "status": "failed", "error": error, "durationMs": took_ms}
        return self._act(_record_effect, claim.record, failed, author)

    def unsettled(self, cr_id: str) -> list[Tree]:
        """The effects of which nobody knows whether they happened. Check them first."""
        tool_effects = self._current(cr_id)["toolEffects"]
        return [effect for effect in tool_effects if effect.get("status") in effect_lookup.UNSETTLED]

    def compensation(self, cr_id: str, content_hash: str) -> Compensation:
        """The effects since a version of the record, for a return to that version."""
        before = self._records.resolve(content_hash)["toolEffects"]
        settled = {effect["id"] for effect in before if effect.get("status", "completed") == "completed"}
        since = [
            effect
            for effect in self._current(cr_id)["toolEffects"]
            if effect["id"] not in settled and effect.get("status") != "failed"
        ]
        since.sort(key=lambda effect: effect["executedAt"])
        since.reverse()  # not reverse=True, which keeps the older of two effects of one millisecond first
        return Compensation(
            [effect for effect in since if effect["reversible"]],
            [effect for effect in since if not effect["reversible"]],
        )

    def bring_up(self, cr_id: str, author: CRAuthor = interventions.SYSTEM) -> Tree:
        """Add the newer effects of the task's chain to a record. Writes no version if there are none."""
        return self._records.act(cr_id, lambda record, at: _update_effects(self._store, record, at), author)

    def answered(self, record: Tree, question_id: str) -> Tree:
        """Settle an effect in doubt by the answer to its question, for every client of the task. Other questions change nothing."""
        effect = next((effect for effect in record["toolEffects"] if _question_id(effect) == question_id), None)
        if effect is None or effect.get("status", "completed") == "completed":
            return record
        question = by_id(record["questionsForUser"])[question_id]
        by = _actor(view(question["answeredBy"], CRAuthor))
        with suppress(NotFoundError):  # settled meanwhile, or it is of a chain that is not here
            settle_doubt(self._task(record), effect["id"], happened=question["answer"] == DONE, by=by)
        return self.bring_up(record["id"])

    # --- the table

    def _found(self, task: Task, record: Tree, call: EffectCall, author: CRAuthor) -> FoundEffect:
        """Find an effect in the chain. If the chain does not have it, claim it in the same commit."""
        new = FoundEffect(str(uuid4()), "free", writes=True)
        effects = [new]
        changes: dict[str, str | None] = {}
        swaps: dict[str, Swap] = {}

        def build(ledger: Ledger) -> list[NewEvent]:
            names = effect_lookup.names_of(task, ledger, call)
            effect = (
                effect_lookup.look_up(task, ledger, call, names) or effect_lookup.found_in_record(record, call) or new
            )
            effects[:] = [effect._replace(stamp=task.stamp)]
            changes.clear()
            swaps.clear()
            if not effect.writes:
                return []
            refs, claimed = idempotency.claims(task, " ".join(names), effect.call)
            changes.update(refs)
            swaps.update(claimed)
            by = _actor(author)
            opened = [] if ledger.exists else [NewEvent(kinds.TaskOpened(goal=record["task"]["goal"]), by)]
            return [*opened, NewEvent(_intent(effect.call, call, names), by, self._session)]

        task.refresh()
        task.commit(build, refs=changes, swaps=swaps)
        return effects[0]

    def _look(self, owner: Task, cr_id: str, effect: Tree, author: CRAuthor, probe: Probe | None) -> None:
        """Settle an effect in doubt by the probe, else by a person's answer. Asks the person if there is no answer yet."""
        happened = probe(effect) if probe else None
        by = author
        if happened is None:
            happened, by = self._answer(cr_id, effect, author)
        with suppress(NotFoundError):  # another process settled it first
            settle_doubt(owner, effect["id"], happened=happened, by=_actor(by))

    def _answer(self, cr_id: str, effect: Tree, author: CRAuthor) -> tuple[bool, CRAuthor]:
        """A person's answer about an effect, from any record of the task. Without one, asks a person and raises `RefusedError`."""
        name, task = _question_id(effect), self._records.resolve(cr_id)["task"]["id"]
        for record_id in dict.fromkeys([cr_id, *self._records.ids()]):
            with suppress(IntegrityError):
                record = self._records.resolve(record_id)
                question = by_id(record["questionsForUser"]).get(name, {})
                if record["task"]["id"] == task and "answer" in question:
                    return question["answer"] == DONE, view(question["answeredBy"], CRAuthor)
        self._act(_ask_about_effect, cr_id, effect, author)
        raise RefusedError(
            f"{effect['toolName']} {effect['operation']} may have run already, and it must not run twice",
            f"check whether it ran, then: adjourn answer {name} '{DONE}' (or '{NOT_DONE}')",
        )

    # --- the parts

    def _task(self, record: Tree) -> Task:
        return self._named(record["task"]["id"])

    def _named(self, name: str) -> Task:
        if name not in self._tasks:
            task = Task(self._store, name, clock=self._clock, secret=keys.secret())
            self._tasks = {name: task}
            return task
        return self._tasks[name]

    def _current(self, cr_id: str) -> Tree:
        return effect_lookup.current(self._store, self._records.resolve(cr_id))

    def _act(
        self, step: Callable[[Store, Tree, int, Tree], Transition], cr_id: str, effect: Tree, author: CRAuthor
    ) -> Tree:
        return self._records.act(cr_id, lambda record, at: step(self._store, record, at, effect), author)

    def _settle(self, claim: EffectClaim, settled: kinds.ToolSettled, author: CRAuthor, data: bytes = b"") -> None:
        task = self._task(self._records.resolve(claim.record))
        changes: dict[str, str | None] = {}

        def build(ledger: Ledger) -> list[NewEvent]:
            if settled.call not in ledger.doubts and settled.call not in ledger.open_calls:
                status = effect_lookup.from_chain(task, settled.call)["status"]
                raise RefusedError(f"effect {settled.call} is {status} already", "claim it again")
            changes.update(idempotency.ended(ledger, settled, idempotency.DONE, task.store.ref))
            return [NewEvent(settled, _actor(author))]

        task.refresh()
        task.commit(build, refs=changes, blobs=[data] if 0 < len(data) <= idempotency.MAX_ANSWER else [])


def _claim(cr_id: str, effect: Tree, *, run: bool) -> EffectClaim:
    return EffectClaim(run, cr_id, view(effect, CRToolEffect))


def _intent(name: str, call: EffectCall, names: Sequence[str]) -> kinds.ToolAllowed:
    """The event that a call is about to be made. A replayable call counts as one without an effect."""
    return kinds.ToolAllowed(
        arguments=preview(call.inputs),
        call=name,
        digest=call.digest,
        effectful=not call.replayable,
        once=" ".join(names),
        tool=call.name,
        uncounted=True,
    )


def _actor(author: CRAuthor) -> Actor:
    return Actor(author.id, author.type)


# --- what a record shows of effects


def _update_effects(store: Store, record: Tree, at: int) -> Transition:
    """A record with the effects of its task's chain, and its questions answered where a person settled the effect there."""
    after = effect_lookup.current(store, record)
    before = by_id(record["toolEffects"])
    changed = [effect for effect in after["toolEffects"] if not same(before.get(effect["id"]), effect)]
    step = Transition(after, tuple(_effect_change(changed_effect) for changed_effect in changed))
    for effect in changed:
        by = effect.get("settledBy", {})
        question = by_id(step.record["questionsForUser"]).get(_question_id(effect), {})
        if question.get("status") != "open":
            continue
        if by.get("type") == "human":
            answer = DONE if effect["status"] == "completed" else NOT_DONE
            person = CRAuthor(id=by["id"], type="human")
            answered = interventions.answer_question(step.record, question["id"], answer, person, at)
            step = Transition(answered.record, (*step.events, *answered.events))
        elif effect.get("status", "completed") == "completed":
            moot = put(step.record, "question", {**question, "status": "skipped", "skippedReason": _MOOT})
            closed = RecordChange("updated", path_of("question", question["id"]), {"skippedReason": _MOOT})
            step = Transition(with_blocking(step.record, moot, at), (*step.events, closed))
    return step


def moot_questions(record: Tree, doubts: Container[str]) -> set[str]:
    """The ids of the questions about effects that nobody needs to answer: the effect is settled, or among the `doubts`, the calls of
    its task in doubt, each of which is shown by itself.
    """
    return {
        _question_id(effect)
        for effect in record["toolEffects"]
        if effect.get("status", "completed") == "completed" or "settledBy" in effect or effect["id"] in doubts
    }


def _add_claim(store: Store, record: Tree, at: int, effect: Tree) -> Transition:
    """A record with the details of a claimed effect, if it has only the effect's event. Its status is the chain's."""
    step = _update_effects(store, record, at)
    recorded = by_id(step.record["toolEffects"]).get(effect["id"])
    if recorded is None or (effect_lookup.is_call(recorded) and recorded["status"] in effect_lookup.UNSETTLED):
        return _recorded(step, effect) if effect_lookup.is_own(effect) else step
    return step


def _record_effect(store: Store, record: Tree, at: int, effect: Tree) -> Transition:
    """A record with an effect as it is now."""
    return _recorded(_update_effects(store, record, at), effect)


def _ask_about_effect(store: Store, record: Tree, at: int, effect: Tree) -> Transition:
    """A record that asks a person whether an effect happened."""
    step = _add_claim(store, record, at, effect)
    name = _question_id(effect)
    if name in by_id(step.record["questionsForUser"]):
        return step
    question = (
        "It failed. Was nothing done, so that it may be run again?"
        if effect.get("status") == "failed"
        else "It was started, and its outcome is unknown. Was it done?"
    )
    item = {
        "id": name,
        "type": "approval",
        "question": f"{effect['toolName']} {effect['operation']}: {question}"[:500],
        "context": canonical(effect["inputs"]).decode()[:2000],
        "options": [DONE, NOT_DONE],
        "status": "open",
        "blocksResumePoints": [],
        "priority": "blocking",
        "askedAt": at,
    }
    change = RecordChange("updated", path_of("question", name))
    return Transition(put(step.record, "question", item), (*step.events, change))


def _question_id(effect: Tree) -> str:
    """The id of the question about one attempt of an effect."""
    return derived_id("effect", f"{effect['id']}.{effect['executedAt']}")


def _recorded(step: Transition, effect: Tree) -> Transition:
    return Transition(put(step.record, "effect", effect), (*step.events, _effect_change(effect)))


def _effect_change(effect: Tree) -> RecordChange:
    detail = {"toolName": effect["toolName"], "status": effect.get("status", "completed")}
    return RecordChange("effect-recorded", path_of("effect", effect["id"]), detail)
