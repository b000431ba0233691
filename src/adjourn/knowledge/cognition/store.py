"""A cognitive session as a program uses it: change it, create checkpoints, restore them. Each change is stored.

A change becomes one write with at most one checkpoint, on the newest state that the store has. No caller gets a tree that is still used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from threading import RLock, local
from typing import NamedTuple
from uuid import uuid4

from adjourn.errors import ConflictError, InvalidError, NotFoundError, UsageError
from adjourn.host.clock import now
from adjourn.knowledge.brief.compose import MAX_TOKENS, Tokenizer, format_current_state, format_state_for_prompt
from adjourn.knowledge.cognition import checkpoints
from adjourn.knowledge.cognition.invariants import check_working_state, require
from adjourn.knowledge.cognition.published import RestoredSession
from adjourn.knowledge.cognition.repository import (
    THRESHOLD,
    TRIGGERS,
    FiredTrigger,
    SessionRepository,
    StoredSession,
    Trigger,
    TriggerState,
    as_checkpoint,
    combined_label,
    fired_by_record,
    fired_triggers,
    head_of,
)
from adjourn.knowledge.cognition.verbs import SessionVerbs
from adjourn.knowledge.model import drafts
from adjourn.knowledge.model.cognition import (
    CognitiveCheckpoint,
    CognitiveSession,
    TotalMetrics,
    WorkingState,
    apply_reply,
    parse_reply,
)
from adjourn.knowledge.model.documents import (
    MAX_COUNT,
    Tree,
    accept,
    check,
    copy_of,
    plain,
    require_one_of,
    same,
    tree_of,
    view,
)
from adjourn.knowledge.model.record import ContinuationRecord
from adjourn.store.base import EMPTY, Store, wait_for_turn

_OF_A_RESTORE: tuple[Trigger, ...] = ("branch_created",)
"""What a restore brings back did not happen now: of its changes, only a new branch fires a trigger."""
Edit = Callable[[Tree, int], Tree | WorkingState]
"""Returns the new working state, given a copy of the present one and the time in milliseconds."""
Subscriber = Callable[[CognitiveSession, CognitiveSession], object]
"""Called with the session, and the session before the change."""


class SessionOptions(NamedTuple):
    """What a session takes from its program.

    `threshold` is the confidence at which `high_confidence` fires; `clock` returns milliseconds; `new_id` makes the ids of checkpoints and
    branches; `tokenizer` counts the tokens of a text (None: 4 bytes are a token).
    """

    threshold: float = THRESHOLD
    clock: Callable[[], int] = now
    new_id: Callable[[], str] = lambda: str(uuid4())
    tokenizer: Tokenizer | None = None


class _Change(NamedTuple):
    """A session after a change: the checkpoints that came with it, the reasons for another one, and the triggers that may fire."""

    session: Tree
    due: Sequence[FiredTrigger] = ()
    made: Sequence[Tree] = ()
    triggers: Collection[Trigger] = TRIGGERS
    resumed_from: str | None = None


class CognitiveStore(SessionVerbs):
    """One session over a `Store`: opened if the store has one of that id, else created with `goal` as its root intent.

    A change is durable when its method returns. Threads and processes may change one session at the same time: each change is made on the
    newest state, and none is lost. `triggers` fire checkpoints. What methods return is typed and frozen; what they take is typed or a dict.

    >>> memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
    >>> _ = memory.update_from_response("FACT: the port is 8080")
    >>> [fact.content for fact in memory.get_current_state().epistemic_state.facts]
    ['the port is 8080']
    """

    def __init__(
        self,
        store: Store,
        session_id: str,
        *,
        goal: str = "",
        triggers: Collection[Trigger] = TRIGGERS,
        options: SessionOptions = SessionOptions(),  # noqa: B008  # a constant
    ) -> None:
        drafts.require_store(store, "CognitiveStore")
        if not 0 <= options.threshold <= 1:
            raise UsageError(f"the threshold {options.threshold} is not a confidence", "use a number from 0 to 1")
        self._pages = SessionRepository(store)
        self._options = options
        self._lock = RLock()
        self._is_editing = False
        self._triggers: dict[object, frozenset[Trigger]] = {}
        self.add_triggers(*([triggers] if isinstance(triggers, str) else triggers))
        self._subscribers: dict[object, Subscriber] = {}
        self._telling = local()
        self.failed: list[Exception] = []
        """The last hundred exceptions that subscribers raised."""
        self._warnings: tuple[str, ...] = ()
        stored = self._pages.open(session_id)
        self.resumed = stored is not None
        """Whether the session continues earlier work: it existed when it was opened, or a checkpoint was restored."""
        if stored is None:
            begun = checkpoints.new_session(session_id, options.clock(), session_id=session_id, goal=goal)
            check(begun, CognitiveSession)
            stored = StoredSession(begun, TriggerState(), "", EMPTY)
        self._kept = stored
        self._opened = int(self.resumed)
        self._count_resume()

    # --- reading

    @property
    def session(self) -> CognitiveSession:
        """The present session. Of its checkpoints it has the last one of its branch; `get_checkpoint` returns any."""
        return view(copy_of(self._kept.session), CognitiveSession)

    @property
    def state(self) -> WorkingState:
        """The present working state: its steps, what is known, the goals."""
        return view(copy_of(self._kept.session["workingState"]), WorkingState)

    @property
    def resumed_from(self) -> str:
        """The id of the checkpoint that was restored last; "" if none was."""
        return self._kept.resumed_from

    @property
    def warnings(self) -> list[str]:
        """Warnings of the last restore: what to check first."""
        return list(self._warnings)

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """The triggers that fire checkpoints."""
        chosen = frozenset[Trigger]().union(*self._triggers.values())
        return tuple(trigger for trigger in TRIGGERS if trigger in chosen)

    def get_checkpoint(self, checkpoint_id: str) -> CognitiveCheckpoint | None:
        """A checkpoint of any session in the store; None for an unknown id."""
        checkpoint = self._pages.checkpoint(checkpoint_id)
        return None if checkpoint is None else view(checkpoint, CognitiveCheckpoint)

    def checkpoint_ids(self) -> list[str]:
        """The ids of the checkpoints that this session created, oldest first."""
        return list(self._pages.made(self._kept.session["id"]))

    def get_current_state(self) -> CognitiveCheckpoint:
        """The present state, as a checkpoint that is not stored."""
        return view(copy_of(as_checkpoint(self._kept.session)), CognitiveCheckpoint)

    def prompt(self, max_tokens: int = MAX_TOKENS) -> str:
        """The present state as text for a system prompt, in at most `max_tokens`."""
        return format_state_for_prompt(
            as_checkpoint(self._kept.session),
            self._options.clock(),
            warnings=self._warnings,
            max_tokens=max_tokens,
            tokenizer=self._options.tokenizer,
        )

    def told(self, max_tokens: int = MAX_TOKENS) -> str:
        """The present state as text for the end of a request, in at most `max_tokens`; `STATE_RULES` say how to read it and to reply."""
        return format_current_state(
            as_checkpoint(self._kept.session),
            self._options.clock(),
            resumed=self.resumed,
            warnings=self._warnings,
            max_tokens=max_tokens,
            tokenizer=self._options.tokenizer,
        )

    def refresh(self) -> None:
        """Read the session again if another process changed it."""
        with self._lock:
            if self._pages.head(self._kept.session["id"]) != self._kept.at:
                self._reload()

    # --- changing

    def change(self, edit: Edit) -> CognitiveSession:
        """Change the working state, with one checkpoint if the change fires triggers. Returns the session.

        `edit` gets a copy as a JSON object, and may change it. If it raises, or if what it returns is not a state (`InvalidError`), nothing changes. It is called again on the
        newest state if another process wrote first. It cannot change the session that it edits (`UsageError`).
        """

        def step(before: Tree, at: int) -> _Change:
            self._is_editing = True
            try:
                edited = edit(copy_of(before["workingState"]), at)
            finally:
                self._is_editing = False
            if not isinstance(edited, Mapping | WorkingState):
                raise UsageError(
                    f"the edit of session {before['id']} returned {type(edited).__name__}",
                    "return the new working state",
                )
            made = drafts.DraftContext({}, at, before["currentBranchId"])
            state = accept(drafts.completed(plain(edited), WorkingState, made, before["workingState"]), WorkingState)
            require(check_working_state(state))
            return _Change({**before, "workingState": state, "lastModifiedAt": at})

        return self._commit(step)

    def update_from_response(self, response: str, *, tokens: int = 0, every: int = 0) -> CognitiveSession:
        """Add the statements of a model's reply. `every`: create a checkpoint after this many replies (0: never)."""
        if every < 0:
            raise UsageError("the checkpoint interval is negative", "pass 0 to disable automatic checkpoints")

        def step(before: Tree, at: int) -> _Change:
            counted = _counted(before, requestCount=1, tokensConsumed=max(0, tokens))
            state = apply_reply(before["workingState"], parse_reply(response), at)
            number = counted["totalMetrics"]["requestCount"]
            due: list[FiredTrigger] = []
            if every and number % every == 0:
                due.append(FiredTrigger("automatic", f"Auto-checkpoint #{number}", "Automatic periodic checkpoint"))
            return _Change({**counted, "workingState": state, "lastModifiedAt": at}, due)

        return self._commit(step)

    def create_checkpoint(self, label: str, description: str = "") -> CognitiveCheckpoint:
        """Create a checkpoint, and return it."""
        rows: list[Tree] = []

        def step(before: Tree, _at: int) -> _Change:
            checkpoint, session = self._checkpoint(before, label, description)
            rows[:] = [checkpoint]
            return _Change(session, made=rows, triggers=())

        self._commit(step)
        return view(copy_of(rows[0]), CognitiveCheckpoint)

    def record_changed(
        self, before: Tree | ContinuationRecord, after: Tree | ContinuationRecord
    ) -> CognitiveCheckpoint | None:
        """Create a checkpoint if a change of the task's Continuation Record fires triggers; else return None."""
        records = tree_of(before), tree_of(after)
        fired = [trigger for trigger in fired_by_record(*records) if trigger.trigger in self.triggers]
        return self.create_checkpoint(*combined_label(fired)) if fired else None

    def restore_from_checkpoint(
        self,
        checkpoint: str | Tree | CognitiveCheckpoint,
        *,
        record: Tree | ContinuationRecord | None = None,
        move_head: bool = False,
    ) -> RestoredSession:
        """Restore a checkpoint of this session or another. A tree that the store does not have is stored.

        `record` and `move_head` as in `checkpoints.restore_checkpoint`. Raises `NotFoundError` for an unknown id, `InvalidError` for a
        checkpoint that cannot be restored.
        """
        outcome: list[checkpoints.RestoredTree] = []
        given = checkpoint if isinstance(checkpoint, str) else tree_of(checkpoint)
        known = None if record is None else tree_of(record)

        def step(before: Tree, at: int) -> _Change:
            tree, is_new = self._known(given)
            restored = checkpoints.restore_checkpoint(
                tree, at, session=before, record=known, new_session_id=before["id"], move_head=move_head
            )
            outcome[:] = [restored]
            return _Change(
                restored.session, made=[tree] if is_new else [], triggers=_OF_A_RESTORE, resumed_from=tree["id"]
            )

        def restored() -> None:
            self.resumed, self._warnings = True, tuple(outcome[0].warnings)

        session = self._commit(step, restored)
        return RestoredSession(True, session, list(outcome[0].warnings), outcome[0].forked)

    def resume_from(self, checkpoint_id: str) -> None:
        """Restore a checkpoint, unless it is the one that was restored last: later changes stay then."""
        with self._lock:
            if self.resumed_from != checkpoint_id:
                self.restore_from_checkpoint(checkpoint_id)

    def delete_checkpoint(self, checkpoint_id: str) -> None:
        """Delete a checkpoint of any session permanently. Raises `RefusedError` for the last one of a branch."""
        with self._lock:
            self._pages.delete(checkpoint_id)

    def fork_branch(self, name: str, checkpoint_id: str = "") -> CognitiveSession:
        """Continue on a new branch that starts at a checkpoint: the given one, or the last one of the current branch."""

        def step(before: Tree, at: int) -> _Change:
            source = before
            if checkpoint_id:
                fields, _ = self._known(checkpoint_id)
                source = {**before, "checkpoints": {**before["checkpoints"], checkpoint_id: fields}}
            new_id = self._options.new_id()
            return _Change(checkpoints.fork_branch(source, name, at, new_id=new_id, checkpoint_id=checkpoint_id))

        return self._commit(step)

    # --- what happens after a change

    def add_triggers(self, *triggers: Trigger) -> Callable[[], None]:
        """Let these triggers fire checkpoints too. Returns a function that takes back what this call added."""
        for trigger in triggers:
            require_one_of(trigger, TRIGGERS, "trigger")
        key = object()
        with self._lock:
            self._triggers[key] = frozenset(triggers)

        def remove() -> None:
            with self._lock:
                self._triggers.pop(key, None)

        return remove

    def remove_triggers(self, *triggers: Trigger) -> None:
        """Let these triggers no longer fire checkpoints, whoever added them."""
        with self._lock:
            self._triggers = {key: chosen.difference(triggers) for key, chosen in self._triggers.items()}

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` after each written change. Returns a function that unsubscribes it.

        Changes that a subscriber makes cause no further calls, so a subscriber that creates checkpoints cannot loop.
        """
        key = object()
        self._subscribers[key] = subscriber

        def unsubscribe() -> None:
            self._subscribers.pop(key, None)

        return unsubscribe

    # --- the parts

    def _commit(
        self, step: Callable[[Tree, int], _Change], after: Callable[[], None] | None = None
    ) -> CognitiveSession:
        """Write what `step` makes of the newest session; call it again if another process wrote first. Then do `after`."""
        with self._lock:
            if self._is_editing:
                raise UsageError(
                    f"session {self._kept.session['id']} was changed by the function that edits it",
                    "return the new state from the function, and make other changes after it",
                )
            for number in count():
                before = self._kept.session
                stored, rows = self._with_checkpoint(step(before, self._options.clock()))
                try:
                    self._save(stored, rows)
                    break
                except ConflictError as error:
                    wait_for_turn(error, number, f"session {before['id']}")
                    self._reload()
            if after is not None:
                after()
            session = self._kept.session
        made = view(copy_of(session), CognitiveSession)
        self._notify(before, made)
        return made

    def _with_checkpoint(self, change: _Change) -> tuple[StoredSession, Sequence[Tree]]:
        """What to store of a change, with a checkpoint if it fires triggers."""
        fired, watched = fired_triggers(
            self._kept.session,
            change.session,
            self._kept.watched,
            triggers=[trigger for trigger in self.triggers if trigger in change.triggers],
            threshold=self._options.threshold,
        )
        session, rows = change.session, change.made
        if fired or change.due:
            checkpoint, session = self._checkpoint(session, *combined_label([*change.due, *fired]))
            rows = [*rows, checkpoint]
        resumed_from = self._kept.resumed_from if change.resumed_from is None else change.resumed_from
        return self._kept._replace(session=session, watched=watched, resumed_from=resumed_from), rows

    def _checkpoint(self, session: Tree, label: str, description: str) -> checkpoints.CreatedTree:
        return checkpoints.create_checkpoint(
            session,
            label,
            self._options.clock(),
            new_id=self._options.new_id,
            description=description,
            tokenizer=self._options.tokenizer,
        )

    def _save(self, kept: StoredSession, made: Sequence[Tree]) -> None:
        saved = self._pages.save(kept, made)
        head = head_of(saved.session)
        last = {name: tree for name, tree in saved.session["checkpoints"].items() if name == head}
        self._kept = saved._replace(session={**saved.session, "checkpoints": last})
        self._opened = 0
        if made:
            self._warnings = ()

    def _reload(self) -> None:
        """Take over what another process wrote."""
        stored = self._pages.open(self._kept.session["id"])
        if stored is not None:
            self._kept = stored
            self._count_resume()

    def _count_resume(self) -> None:
        """Count that this object continues the session; the number is stored with its first change."""
        self._kept = self._kept._replace(session=_counted(self._kept.session, resumeCount=self._opened))

    def _known(self, checkpoint: str | Tree) -> tuple[Tree, bool]:
        """A checkpoint, and whether it must still be stored."""
        name = checkpoint if isinstance(checkpoint, str) else checkpoint["id"]
        saved = self._pages.checkpoint(name)
        if isinstance(checkpoint, str):
            if saved is None:
                raise NotFoundError(f"there is no checkpoint {name}", "name one that was made in this store")
            return saved, False
        if saved is not None and not same(saved, checkpoint):
            raise InvalidError(f"the store has another checkpoint under the id {name}", "restore it by its id")
        return accept(checkpoint, CognitiveCheckpoint), saved is None

    def _notify(self, before: Tree, session: CognitiveSession) -> None:
        """Call the subscribers."""
        if not self._subscribers or getattr(self._telling, "now", False):
            return
        self._telling.now, old = True, view(copy_of(before), CognitiveSession)
        try:
            for subscriber in list(self._subscribers.values()):
                try:
                    subscriber(session, old)
                except Exception as error:  # the write is done; the others still get the change
                    self.failed = [*self.failed[-99:], error]
        finally:
            self._telling.now = False


def _counted(session: Tree, **more: int) -> Tree:
    """The session with numbers added to its metrics."""
    metrics = {**tree_of(TotalMetrics()), **session["totalMetrics"]}
    return {
        **session,
        "totalMetrics": metrics | {name: min(MAX_COUNT, metrics[name] + number) for name, number in more.items()},
    }
