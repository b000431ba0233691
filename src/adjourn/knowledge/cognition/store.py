"""A cognitive session as a program uses it: change it, create checkpoints, restore them. Each change is stored.

Owns: `CognitiveStore`, and that a change becomes one write with at most one checkpoint. Must never: let a checkpoint cause another one, or
hold a rule of the state itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from threading import RLock, local
from uuid import uuid4

from adjourn.errors import InvalidError, NotFoundError, UsageError
from adjourn.host import now
from adjourn.knowledge.brief import MAX_TOKENS, Tokenizer, format_state_for_prompt
from adjourn.knowledge.cognition import checkpoints
from adjourn.knowledge.cognition.checkpoints import RestoredSession
from adjourn.knowledge.cognition.invariants import check_working_state, require
from adjourn.knowledge.cognition.replies import apply_reply, parse_reply
from adjourn.knowledge.cognition.repository import SessionRepository, StoredSession, as_checkpoint, head_of
from adjourn.knowledge.cognition.triggers import (
    THRESHOLD,
    TRIGGERS,
    FiredTrigger,
    Trigger,
    TriggerState,
    combined_label,
    fired_by_record,
    fired_triggers,
)
from adjourn.knowledge.model import (
    CognitiveCheckpoint,
    TotalMetrics,
    Tree,
    WorkingState,
    accept,
    same,
    tree_of,
)
from adjourn.store import EMPTY, Store

Edit = Callable[[Tree, int], Tree]
"""Returns the new working state, given the present one and the time in milliseconds."""
Subscriber = Callable[[Tree, Tree], object]
"""Called with the session, and the session before the change."""


class CognitiveStore:
    """One session over a `Store`: opened if the store has one of that id, else created with `goal` as its root intent.

    A change is durable when its method returns. Thread-safe. If several processes change one session, one succeeds and the others get a
    `ConflictError`. `triggers` fire checkpoints; `threshold` is the confidence of `high_confidence`; `clock` returns milliseconds. Do not
    change the trees that methods return.
    """

    def __init__(
        self,
        store: Store,
        session_id: str,
        *,
        goal: str = "",
        triggers: Collection[Trigger] = TRIGGERS,
        threshold: float = THRESHOLD,
        clock: Callable[[], int] = now,
        new_id: Callable[[], str] = lambda: str(uuid4()),
        tokenizer: Tokenizer | None = None,
    ) -> None:
        for trigger in triggers:
            if trigger not in TRIGGERS:
                raise UsageError(f"unknown trigger {trigger!r}", "use one of " + ", ".join(TRIGGERS))
        self._pages = SessionRepository(store)
        self._triggers = triggers
        self._threshold = threshold
        self._clock = clock
        self._new_id = new_id
        self._tokenizer = tokenizer
        self._lock = RLock()
        self._subscribers: dict[object, Subscriber] = {}
        self._telling = local()
        self.failed: list[Exception] = []
        """The last hundred exceptions that subscribers raised."""
        kept = self._pages.open(session_id)
        self.resumed = kept is not None
        """Whether the session continues earlier work: it existed when it was opened, or a checkpoint was restored."""
        self.warnings: list[str] = []
        """Warnings of the last restore: what to check first."""
        if kept is None:
            begun = checkpoints.new_session(session_id, clock(), session_id=session_id, goal=goal)
            kept = StoredSession(begun, TriggerState(), "", EMPTY)
        else:
            kept = kept._replace(session=_counted(kept.session, resumeCount=1))
        self._kept = kept

    # --- reading

    @property
    def session(self) -> Tree:
        """The present session. Of its checkpoints it has the last one of its branch; `get_checkpoint` returns any."""
        return self._kept.session

    @property
    def resumed_from(self) -> str:
        """The id of the checkpoint that was restored last; "" if none was."""
        return self._kept.resumed_from

    def get_checkpoint(self, checkpoint_id: str) -> Tree | None:
        """A checkpoint of any session in the store; None for an unknown id."""
        return self._pages.checkpoint(checkpoint_id)

    def checkpoint_ids(self) -> list[str]:
        """The ids of the checkpoints that this session created, oldest first."""
        return list(self._pages.made(self.session["id"]))

    def get_current_state(self) -> Tree:
        """The present state, as a checkpoint that is not stored."""
        return as_checkpoint(self.session)

    def prompt(self, max_tokens: int = MAX_TOKENS) -> str:
        """The present state as text for a system prompt, in at most `max_tokens`."""
        state, at, warnings = self.get_current_state(), self._clock(), self.warnings
        return format_state_for_prompt(
            state, at, warnings=warnings, max_tokens=max_tokens, tokenizer=self._tokenizer
        )

    # --- changing

    def change(self, edit: Edit) -> Tree:
        """Change the working state, with one checkpoint if the change fires triggers. Raises `InvalidError`, `ConflictError`."""
        with self._lock:
            before, at = self.session, self._clock()
            state = accept(edit(before["workingState"], at), WorkingState)
            require(check_working_state(state))
            self._write({**before, "workingState": state, "lastModifiedAt": at})
        return self._notify(before)

    def update_from_response(self, response: str, *, tokens: int = 0, every: int = 0) -> Tree:
        """Add the statements of a model's reply. `every`: create a checkpoint after this many replies (0: never)."""
        with self._lock:
            before, at = self.session, self._clock()
            counted = _counted(before, requestCount=1, tokensConsumed=max(0, tokens))
            state = apply_reply(before["workingState"], parse_reply(response), at)
            number = counted["totalMetrics"]["requestCount"]
            due = [_automatic(number)] if every and number % every == 0 else []
            self._write({**counted, "workingState": state, "lastModifiedAt": at}, due)
        return self._notify(before)

    def create_checkpoint(self, label: str, description: str = "") -> Tree:
        """Create a checkpoint, and return it."""
        with self._lock:
            before = self.session
            session, made = self._checkpoint(before, label, description)
            self._save(self._kept._replace(session=session), [made])
        self._notify(before)
        return made

    def record_changed(self, before: Tree, after: Tree) -> Tree | None:
        """Create a checkpoint if a change of the task's Continuation Record fires triggers; else return None."""
        found = [one for one in fired_by_record(before, after) if one.trigger in self._triggers]
        return self.create_checkpoint(*combined_label(found)) if found else None

    def restore_from_checkpoint(
        self, checkpoint: str | Tree, *, record: Tree | None = None, move_head: bool = False
    ) -> RestoredSession:
        """Restore a checkpoint of this session or another. A tree that the store does not have is stored.

        `record` and `move_head` as in `checkpoints.restore_checkpoint`. Raises `NotFoundError` for an unknown id, `InvalidError` for a
        checkpoint that cannot be restored.
        """
        with self._lock:
            before = self.session
            tree, is_new = self._known(checkpoint)
            restored = checkpoints.restore_checkpoint(
                tree,
                self._clock(),
                session=before,
                record=record,
                new_session_id=before["id"],
                move_head=move_head,
            )
            self._write(
                restored.session,
                kept=self._kept._replace(resumed_from=tree["id"]),
                made=[tree] if is_new else [],
                triggers={"branch_created"},
            )
            self.resumed, self.warnings = True, restored.warnings
        return restored._replace(session=self._notify(before))

    def resume_from(self, checkpoint_id: str) -> None:
        """Restore a checkpoint, unless it is the one that was restored last: later changes stay then."""
        with self._lock:
            if self.resumed_from != checkpoint_id:
                self.restore_from_checkpoint(checkpoint_id)

    def delete_checkpoint(self, checkpoint_id: str) -> None:
        """Delete a checkpoint of any session for good. Raises `RefusedError` for the last one of a branch."""
        with self._lock:
            self._pages.delete(checkpoint_id)

    def fork_branch(self, name: str, checkpoint_id: str = "") -> Tree:
        """Continue on a new branch that begins at a checkpoint: the given one, or the last one of the current branch."""
        with self._lock:
            before = self.session
            source = before
            if checkpoint_id:
                found, _ = self._known(checkpoint_id)
                source = {**before, "checkpoints": {**before["checkpoints"], checkpoint_id: found}}
            self._write(
                checkpoints.fork_branch(
                    source, name, self._clock(), new_id=self._new_id(), checkpoint_id=checkpoint_id
                )
            )
        return self._notify(before)

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

    def _write(
        self,
        session: Tree,
        due: Sequence[FiredTrigger] = (),
        *,
        kept: StoredSession | None = None,
        made: Sequence[Tree] = (),
        triggers: Collection[Trigger] = TRIGGERS,
    ) -> None:
        """Write a change, with a checkpoint if it fires triggers."""
        found, watched = fired_triggers(
            self.session,
            session,
            self._kept.watched,
            triggers=[trigger for trigger in self._triggers if trigger in triggers],
            threshold=self._threshold,
        )
        if found or due:
            session, checkpoint = self._checkpoint(session, *combined_label([*due, *found]))
            made = [*made, checkpoint]
        self._save((kept or self._kept)._replace(session=session, watched=watched), made)

    def _checkpoint(self, session: Tree, label: str, description: str) -> tuple[Tree, Tree]:
        return checkpoints.create_checkpoint(
            session,
            label,
            self._clock(),
            new_id=self._new_id(),
            description=description,
            tokenizer=self._tokenizer,
        )

    def _save(self, kept: StoredSession, made: Sequence[Tree]) -> None:
        saved = self._pages.save(kept, made)
        head = head_of(saved.session)
        last = {name: tree for name, tree in saved.session["checkpoints"].items() if name == head}
        self._kept = saved._replace(session={**saved.session, "checkpoints": last})
        if made:
            self.warnings = []

    def _known(self, checkpoint: str | Tree) -> tuple[Tree, bool]:
        """A checkpoint, and whether it must still be stored."""
        name = checkpoint if isinstance(checkpoint, str) else checkpoint["id"]
        found = self.get_checkpoint(name)
        if isinstance(checkpoint, str):
            if found is None:
                raise NotFoundError(f"there is no checkpoint {name}", "name one that was made in this store")
            return found, False
        if found is not None and not same(found, checkpoint):
            raise InvalidError(
                f"the store has another checkpoint under the id {name}", "restore it by its id"
            )
        return accept(checkpoint, CognitiveCheckpoint), found is None

    def _notify(self, before: Tree) -> Tree:
        """Call the subscribers with the session, and return it."""
        session = self.session
        if getattr(self._telling, "now", False):
            return session
        self._telling.now = True
        try:
            for subscriber in list(self._subscribers.values()):
                try:
                    subscriber(session, before)
                except Exception as error:  # the write is done; the others still get the change
                    self.failed = [*self.failed[-99:], error]
        finally:
            self._telling.now = False
        return session


def _automatic(number: int) -> FiredTrigger:
    return FiredTrigger("automatic", f"Auto-checkpoint #{number}", "Automatic periodic checkpoint")


def _counted(session: Tree, **more: int) -> Tree:
    """The session with numbers added to its metrics."""
    metrics = {**tree_of(TotalMetrics()), **session["totalMetrics"]}
    return {
        **session,
        "totalMetrics": metrics | {name: metrics[name] + number for name, number in more.items()},
    }
