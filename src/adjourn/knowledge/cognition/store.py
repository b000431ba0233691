"""A cognitive session as a program works with it: changed, checkpointed, restored, and kept after each change.

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
"""What becomes of a working state at a time."""
Subscriber = Callable[[Tree, Tree], object]
"""Is given the session, and the session as it was before."""


class CognitiveStore:
    """One session over a `Store`: opened where there is one of that id, else begun with `goal` as its root intent.

    What a method has done is durable when it returns. Safe to use from several threads; of several processes with one session, one goes
    on and the others get a `ConflictError`. `triggers` are the events that make a checkpoint. Trees that are handed out are not to be changed.
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
        """What subscribers have raised, the last hundred."""
        kept = self._pages.open(session_id)
        self.resumed = kept is not None
        """Whether the session goes on from earlier work: it was there when it was opened, or a checkpoint was restored."""
        self.warnings: list[str] = []
        """What to look at first since the last restore."""
        if kept is None:
            begun = checkpoints.new_session(session_id, clock(), session_id=session_id, goal=goal)
            kept = StoredSession(begun, TriggerState(), "", EMPTY)
        else:
            kept = kept._replace(session=_counted(kept.session, resumeCount=1))
        self._kept = kept

    # --- reading

    @property
    def session(self) -> Tree:
        """The session now. Of its checkpoints it has the last one of its branch; `get_checkpoint` gives any."""
        return self._kept.session

    @property
    def resumed_from(self) -> str:
        """The checkpoint that was restored last; empty where none was."""
        return self._kept.resumed_from

    def get_checkpoint(self, checkpoint_id: str) -> Tree | None:
        """A checkpoint of any session in the store."""
        return self._pages.checkpoint(checkpoint_id)

    def checkpoint_ids(self) -> list[str]:
        """The checkpoints that this session has made, oldest first."""
        return list(self._pages.made(self.session["id"]))

    def get_current_state(self) -> Tree:
        """What the session has in mind, in the form of a checkpoint that is not kept."""
        return as_checkpoint(self.session)

    def prompt(self, max_tokens: int = MAX_TOKENS) -> str:
        """The current state as text for a system prompt."""
        state, at, warnings = self.get_current_state(), self._clock(), self.warnings
        return format_state_for_prompt(
            state, at, warnings=warnings, max_tokens=max_tokens, tokenizer=self._tokenizer
        )

    # --- changing

    def change(self, edit: Edit) -> Tree:
        """Change the working state. What triggers see in the change makes one checkpoint. Raises `InvalidError`."""
        with self._lock:
            before, at = self.session, self._clock()
            state = accept(edit(before["workingState"], at), WorkingState)
            require(check_working_state(state))
            self._write({**before, "workingState": state, "lastModifiedAt": at})
        return self._notify(before)

    def update_from_response(self, response: str, *, tokens: int = 0, every: int = 0) -> Tree:
        """Take in what a model said; with `every`, that many answers make a checkpoint."""
        with self._lock:
            before, at = self.session, self._clock()
            counted = _counted(before, requestCount=1, tokensConsumed=max(0, tokens))
            state = apply_reply(before["workingState"], parse_reply(response), at)
            number = counted["totalMetrics"]["requestCount"]
            due = [_automatic(number)] if every and number % every == 0 else []
            self._write({**counted, "workingState": state, "lastModifiedAt": at}, due)
        return self._notify(before)

    def create_checkpoint(self, label: str, description: str = "") -> Tree:
        """Take a checkpoint."""
        with self._lock:
            before = self.session
            session, made = self._checkpoint(before, label, description)
            self._save(self._kept._replace(session=session), [made])
        self._notify(before)
        return made

    def record_changed(self, before: Tree, after: Tree) -> Tree | None:
        """Take the checkpoint that a change of the work's Continuation Record is an occasion for; None where it is none."""
        found = [one for one in fired_by_record(before, after) if one.trigger in self._triggers]
        return self.create_checkpoint(*combined_label(found)) if found else None

    def restore_from_checkpoint(
        self, checkpoint: str | Tree, *, record: Tree | None = None, move_head: bool = False
    ) -> RestoredSession:
        """Go on from a checkpoint, of this session or another; a tree that the store does not have is kept in it.

        Raises `NotFoundError` for an unknown id, `InvalidError` for what cannot be restored.
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
        """Restore a checkpoint, unless it is the one that was restored last: what came since then stays."""
        with self._lock:
            if self.resumed_from != checkpoint_id:
                self.restore_from_checkpoint(checkpoint_id)

    def delete_checkpoint(self, checkpoint_id: str) -> None:
        """Delete a checkpoint of any session for good. `RefusedError` for one that a branch ends with."""
        with self._lock:
            self._pages.delete(checkpoint_id)

    def fork_branch(self, name: str, checkpoint_id: str = "") -> Tree:
        """Go on on a new branch, which begins at a checkpoint: that one, or the last one of the current branch."""
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
        """Tell `subscriber` of each change after it was written, until the function that is returned is called.

        Changes that a subscriber makes itself cause no further calls, so a subscriber that takes checkpoints cannot loop.
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
        """Write a change, with the checkpoint that it is an occasion for."""
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
        """A checkpoint, and whether the store is still to keep it."""
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
                except (
                    Exception
                ) as error:  # the write is done, and the other subscribers still get the change
                    self.failed = [*self.failed[-99:], error]
        finally:
            self._telling.now = False
        return session


def _automatic(number: int) -> FiredTrigger:
    return FiredTrigger("automatic", f"Auto-checkpoint #{number}", "Automatic periodic checkpoint")


def _counted(session: Tree, **more: int) -> Tree:
    """The session with more in its metrics."""
    metrics = {**tree_of(TotalMetrics()), **session["totalMetrics"]}
    return {
        **session,
        "totalMetrics": metrics | {name: metrics[name] + number for name, number in more.items()},
    }
