"""Tool effects: claimed durably before a tool is run, settled after, and what is made of a claim that was never settled.

The ledger of effects is the task's chain of events, for a library that claims here as for the calls of a proxy: a claim is one
commit to it (`tool.allowed`, without a session), which sees what every door of the task has done. Records show what the chain says
(`state.effects`), and keep of an effect that was claimed here the inputs and outputs. What is not replayable is never run twice
without a word from somebody who looked: a probe, or a person.

Owns: the table of what is found for a claim. Must never: run a tool, or take a claim that nobody settled for an effect that did not
happen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import uuid4

from adjourn.engine import keys, once
from adjourn.engine.calls import arguments_digest
from adjourn.engine.people import settle_doubt
from adjourn.engine.records import claims
from adjourn.engine.records.claims import Found
from adjourn.engine.task import Fact, Task
from adjourn.errors import IntegrityError, NotFoundError, RefusedError
from adjourn.log import kinds
from adjourn.log.canonical import canonical, digest
from adjourn.log.event import Actor
from adjourn.state import effects, interventions
from adjourn.state.documents import Tree, by_id, same, view
from adjourn.state.ledger import Ledger
from adjourn.state.machines import Happening, Step, derived_id, path_of, put
from adjourn.state.record import CRAuthor
from adjourn.state.redact import preview

if TYPE_CHECKING:
    from adjourn.engine.records.store import CRStore

Probe = Callable[[Tree], bool | None]
"""Looks whether an effect happened; None where that cannot be told."""
DONE, NOT_DONE = "done", "not done"
"""The answers to the question about an effect in doubt."""


class Call(NamedTuple):
    """What a tool is to do. Prefer a `key` from the business (`invoice:INV-001`): agents word arguments anew after a resume.

    A call of a proxy's tool has the operation `tools/call`; `payments`, `charge` is the tool `payments.charge` to a proxy.
    """

    tool: str
    operation: str
    inputs: dict[str, Any]
    key: str = ""
    replayable: bool = False
    reversible: bool = False
    side_effects: Sequence[str] = ()

    @property
    def idempotency_key(self) -> str:
        named = {"inputs": self.inputs, "operation": self.operation, "toolName": self.tool}
        return self.key or digest(canonical(named))

    @property
    def name(self) -> str:
        """The tool, as the events of the task name it."""
        return effects.event_name(self.tool, self.operation)

    @property
    def digest(self) -> str:
        return arguments_digest(self.inputs)


class Claim(NamedTuple):
    """`run`: run the tool now, and settle. Else it was done before, and `effect` has the `outputs`, where they were kept."""

    run: bool
    record: str
    effect: Tree


class Compensation(NamedTuple):
    """What a return to an older version leaves behind: effects to undo, the newest first, and those that cannot be undone."""

    undo: list[Tree]
    irreversible: list[Tree]


class Effects:
    """The effects of the tasks whose records are in a store."""

    def __init__(self, store: CRStore, clock: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock
        self._tasks: dict[str, Task] = {}

    def claim(self, cr_id: str, call: Call, author: CRAuthor, *, probe: Probe | None = None) -> Claim:
        """Claim an effect, or learn that it happened. `RefusedError` where that is not known, or the key is another call's.

        What happened through a proxy of the task counts too, and a proxy knows what is claimed here.
        """
        record = self._current(cr_id)
        task = self._task(record)
        found = self._found(task, record, call, author)
        if found.state == "free":
            effect = claims.entry(found, call)
            self._store.act(cr_id, lambda record, at: self._entered(record, at, effect), author)
            return Claim(run=True, record=cr_id, effect=effect)
        effect = claims.full(task, record, found, call)
        if found.keyed and not claims.is_of(effect, call):
            raise RefusedError(
                f"the key {call.idempotency_key!r} is of another call: {effect['toolName']} {effect['operation']}, with other inputs",
                "use a key of its own for another effect",
            )
        if found.state == "done":
            return Claim(run=False, record=cr_id, effect=effect)
        if effect["isReplayable"]:
            return Claim(run=True, record=cr_id, effect=effect)
        if found.state == "open":
            raise RefusedError(
                f"call {found.call} for the same effect is under way in another session",
                "wait for its answer",
            )
        self._look(cr_id, effect, author, probe)
        return self.claim(cr_id, call, author)

    def complete(
        self, claim: Claim, outputs: Mapping[str, Any] | None, author: CRAuthor, *, took_ms: int = 0
    ) -> Tree:
        """The tool has answered: the effect happened. Returns the record."""
        given = {} if outputs is None else {"outputs": dict(outputs)}
        kept = canonical(given["outputs"]) if given else b""
        settled = kinds.ToolSettled(
            answer=digest(kept) if kept else "", call=claim.effect["id"], milliseconds=took_ms, outcome="ok"
        )
        self._settle(claim, settled, author, kept)
        return self._noted(
            claim.record, {**claim.effect, **given, "status": "completed", "durationMs": took_ms}, author
        )

    def fail(self, claim: Claim, error: str, author: CRAuthor, *, took_ms: int = 0) -> Tree:
        """The tool has said that nothing happened. Where that is not sure, do not settle.

        To the task, what is not replayable is in doubt then: only a person lets it be tried again.
        """
        outcome: Literal["tool-error", "no-answer"] = (
            "tool-error" if claim.effect["isReplayable"] else "no-answer"
        )
        settled = kinds.ToolSettled(call=claim.effect["id"], milliseconds=took_ms, outcome=outcome)
        self._settle(claim, settled, author)
        failed = {**claim.effect, "status": "failed", "error": error, "durationMs": took_ms}
        return self._noted(claim.record, failed, author)

    def unsettled(self, cr_id: str) -> list[Tree]:
        """Effects of which nobody knows whether they happened: to be looked at first."""
        known = self._current(cr_id)["toolEffects"]
        return [effect for effect in known if effect.get("status") in effects.UNSETTLED]

    def compensation(self, cr_id: str, content_hash: str) -> Compensation:
        """What was done since a version of the record, for those who go back to it."""
        before = self._store.resolve(content_hash)["toolEffects"]
        settled = {effect["id"] for effect in before if effect.get("status", "completed") == "completed"}
        since = [
            effect
            for effect in self._current(cr_id)["toolEffects"]
            if effect["id"] not in settled and effect.get("status") != "failed"
        ]
        since.sort(key=lambda effect: effect["executedAt"], reverse=True)
        return Compensation(
            [effect for effect in since if effect["reversible"]],
            [effect for effect in since if not effect["reversible"]],
        )

    def bring_up(self, cr_id: str, author: CRAuthor = interventions.SYSTEM) -> Tree:
        """Write down in a record what its task's chain says of effects since. No version where that is nothing."""
        return self._store.act(cr_id, self._brought_up, author)

    def answered(self, record: Tree, question_id: str) -> Tree:
        """A question was answered: where it is about an effect in doubt, that is settled for every door of the task."""
        effect = next((one for one in record["toolEffects"] if _question_id(one) == question_id), None)
        if effect is None or effect.get("status", "completed") == "completed":
            return record
        asked = by_id(record["questionsForUser"])[question_id]
        by = _actor(view(asked["answeredBy"], CRAuthor))
        with suppress(NotFoundError):  # settled meanwhile, or it is of a chain that is not here
            settle_doubt(self._task(record), effect["id"], happened=asked["answer"] == DONE, by=by)
        return self.bring_up(record["id"])

    # --- the table

    def _found(self, task: Task, record: Tree, call: Call, author: CRAuthor) -> Found:
        """What the chain knows of an effect. Where that is nothing it is claimed, in the same step."""
        new = Found(str(uuid4()), "free", writes=True)
        found = [new]
        changes: dict[str, str | None] = {}

        def build(ledger: Ledger) -> list[Fact]:
            names = claims.names_of(task, ledger, call)
            known = claims.look_up(task, ledger, call, names) or claims.told(record, call) or new
            found[:] = [known._replace(stamp=task.stamp)]
            changes.clear()
            if not known.writes:
                return []
            changes.update(once.claimed(task.id, " ".join(names), known.call))
            by = _actor(author)
            opened = [] if ledger.exists else [Fact(kinds.TaskOpened(goal=record["task"]["goal"]), by)]
            return [*opened, Fact(_intent(known.call, call, names), by)]

        task.refresh()
        task.commit(build, refs=lambda _: changes)
        return found[0]

    def _look(self, cr_id: str, effect: Tree, author: CRAuthor, probe: Probe | None) -> None:
        """Have an effect in doubt settled: the probe looks, else a person, who is asked."""
        happened = probe(effect) if probe else None
        by = author
        if happened is None:
            happened, by = self._answer(cr_id, effect, author)
        with suppress(NotFoundError):  # another was faster: what it has said counts
            settle_doubt(
                self._task(self._store.resolve(cr_id)), effect["id"], happened=happened, by=_actor(by)
            )

    def _answer(self, cr_id: str, effect: Tree, author: CRAuthor) -> tuple[bool, CRAuthor]:
        """What a person has answered of an effect, in whichever record of the task; else one is asked."""
        name, task = _question_id(effect), self._store.resolve(cr_id)["task"]["id"]
        for record_id in dict.fromkeys([cr_id, *self._store.ids()]):
            with suppress(IntegrityError):
                record = self._store.resolve(record_id)
                asked = by_id(record["questionsForUser"]).get(name, {})
                if record["task"]["id"] == task and "answer" in asked:
                    return asked["answer"] == DONE, view(asked["answeredBy"], CRAuthor)
        failed = effect.get("status") == "failed"
        self._ask(
            cr_id,
            effect,
            author,
            "It failed. Was nothing done, so that it may be run again?"
            if failed
            else "It was begun, and nobody knows whether it was done. Was it?",
        )
        raise RefusedError(
            f"whether {effect['toolName']} {effect['operation']} was done is not known, and it must not be done twice",
            f"look, then: adjourn answer {name} '{DONE}' (or '{NOT_DONE}')",
        )

    def _ask(self, cr_id: str, effect: Tree, author: CRAuthor, question: str) -> None:
        name = _question_id(effect)

        def ask(record: Tree, at: int) -> Step:
            step = self._entered(record, at, effect)
            if name in by_id(step.record["questionsForUser"]):
                return step
            asked = {
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
            told = Happening("updated", path_of("question", name))
            return Step(put(step.record, "question", asked), (*step.events, told))

        self._store.act(cr_id, ask, author)

    # --- the parts

    def _task(self, record: Tree) -> Task:
        name = record["task"]["id"]
        if name not in self._tasks:
            task = Task(self._store.store, name, clock=self._clock, secret=keys.secret())
            self._tasks = {name: task}
            return task
        return self._tasks[name]

    def _current(self, cr_id: str) -> Tree:
        return claims.current(self._store.store, self._store.resolve(cr_id))

    def _settle(self, claim: Claim, settled: kinds.ToolSettled, author: CRAuthor, kept: bytes = b"") -> None:
        task = self._task(self._store.resolve(claim.record))
        changes: dict[str, str | None] = {}

        def build(ledger: Ledger) -> list[Fact]:
            if settled.call not in ledger.doubts and settled.call not in ledger.open_calls:
                known = claims.from_chain(task, settled.call)["status"]
                raise RefusedError(f"effect {settled.call} is {known} already", "claim it anew")
            changes.update(once.ended(ledger, settled, once.DONE, task.store.ref))
            return [Fact(settled, _actor(author))]

        task.refresh()
        task.commit(build, refs=lambda _: changes, blobs=[kept] if 0 < len(kept) <= once.MAX_ANSWER else [])

    def _entered(self, record: Tree, at: int, effect: Tree) -> Step:
        """A record with all that is known of an effect, where it has no more than its event; how that stands, the chain says."""
        step = self._brought_up(record, at)
        known = by_id(step.record["toolEffects"]).get(effect["id"])
        if known is None or (effects.is_call(known) and known["status"] in effects.UNSETTLED):
            return _recorded(step, effect) if claims.is_own(effect) else step
        return step

    def _noted(self, cr_id: str, effect: Tree, author: CRAuthor) -> Tree:
        return self._store.act(
            cr_id, lambda record, at: _recorded(self._brought_up(record, at), effect), author
        )

    def _brought_up(self, record: Tree, at: int) -> Step:
        """A record with what its task's chain says, and questions answered that a person has answered there."""
        after = claims.current(self._store.store, record)
        before = by_id(record["toolEffects"])
        changed = [one for one in after["toolEffects"] if not same(before.get(one["id"]), one)]
        step = Step(after, tuple(_told(one) for one in changed))
        for effect in changed:
            by = effect.get("settledBy", {})
            asked = by_id(step.record["questionsForUser"]).get(_question_id(effect), {})
            if by.get("type") == "human" and asked.get("status") == "open":
                answer = DONE if effect["status"] == "completed" else NOT_DONE
                person = CRAuthor(id=by["id"], type="human")
                said = interventions.answer_question(step.record, asked["id"], answer, person, at)
                step = Step(said.record, (*step.events, *said.events))
        return step


def _question_id(effect: Tree) -> str:
    """An answer counts for the attempt that it is about."""
    return derived_id("effect", f"{effect['id']}.{effect['executedAt']}")


def _intent(name: str, call: Call, names: Sequence[str]) -> kinds.ToolAllowed:
    """That a call is about to be made. What is replayable does no harm twice, as if it had no effect."""
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


def _recorded(step: Step, effect: Tree) -> Step:
    return Step(put(step.record, "effect", effect), (*step.events, _told(effect)))


def _told(effect: Tree) -> Happening:
    detail = {"toolName": effect["toolName"], "status": effect.get("status", "completed")}
    return Happening("effect-recorded", path_of("effect", effect["id"]), detail)
