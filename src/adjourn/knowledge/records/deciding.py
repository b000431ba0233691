"""What people, agents and the system decide of a record: the operations of `adjourn.state` under their published names.

Owns: letting what is due take effect first, and that an approval is used once. Must never: hold a rule of who may do what.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import suppress
from typing import Any, Literal

from msgspec import UNSET

from adjourn.errors import ConflictError, InvalidError, RefusedError
from adjourn.knowledge.cognition import Transition, transitions
from adjourn.knowledge.model import CRAuthor, Tree
from adjourn.knowledge.records import decisions, expiry, interventions, merge
from adjourn.knowledge.records.effects import Effects
from adjourn.knowledge.records.interventions import SYSTEM
from adjourn.log import digest
from adjourn.store import Store

Operation = Callable[[Tree, int], Transition]
"""What becomes of a record at a time."""


class Deciding:
    """The part of a `CRStore` that decides."""

    store: Store
    _clock: Callable[[], int]

    @property
    def effects(self) -> Effects:
        """Tool effects: claimed before they are run, settled after."""
        raise NotImplementedError

    def resolve(self, name: str) -> Tree:
        """A version by the id of its record (the newest one) or by its hash."""
        raise NotImplementedError

    def act(self, cr_id: str, operation: Operation, author: CRAuthor) -> Tree:
        """Make a version by an operation of `adjourn.state`. It is asked again when another writer was faster."""
        raise NotImplementedError

    def tick(self, cr_id: str) -> Tree | None:
        """Let what is due take effect: questions that expire, resume points that time out. None when nothing is due."""
        if expiry.expire_due(self.resolve(cr_id), self._clock()) is None:
            return None
        return self.act(
            cr_id, lambda record, at: expiry.expire_due(record, at) or Transition(record, ()), SYSTEM
        )

    def answer_question(
        self, cr_id: str, question_id: str, answer: str, author: CRAuthor, *, learn: bool = False
    ) -> Tree:
        """Answer an open question; with `learn`, the answer becomes a learning, too."""
        answered = interventions.answer_question
        made = self._decide(
            cr_id, lambda record, at: answered(record, question_id, answer, author, at, learn=learn), author
        )
        return self.effects.answered(made, question_id)

    def skip_question(self, cr_id: str, question_id: str, reason: str, author: CRAuthor) -> Tree:
        """Go on without an answer."""
        skipped = interventions.skip_question
        return self._decide(
            cr_id, lambda record, at: skipped(record, question_id, reason, author, at), author
        )

    def approve_resume_point(self, cr_id: str, resume_point_id: str, author: CRAuthor) -> Tree:
        """Open a gate."""
        approved = interventions.approve_resume_point
        return self._decide(cr_id, lambda record, at: approved(record, resume_point_id, author, at), author)

    def auto_approve_resume_point(self, cr_id: str, resume_point_id: str) -> Tree:
        """Open a gate that needs nobody."""
        approved = interventions.auto_approve_resume_point
        return self._decide(cr_id, lambda record, at: approved(record, resume_point_id, at), SYSTEM)

    def deny_resume_point(self, cr_id: str, resume_point_id: str, reason: str, author: CRAuthor) -> Tree:
        """Close a gate for good."""
        denied = interventions.deny_resume_point
        return self._decide(
            cr_id, lambda record, at: denied(record, resume_point_id, reason, author, at), author
        )

    def usable_resume_points(self, cr_id: str) -> list[Tree]:
        """The approved points whose steps may start now."""
        return interventions.usable_resume_points(self.resolve(cr_id), consumed=self.consumed)

    @property
    def consumed(self) -> Container[str]:
        """The keys of all approvals that were ever used: beside the versions, so that an older one revives none."""
        return _Consumed(self.store)

    def consume_resume_point(self, cr_id: str, resume_point_id: str, author: CRAuthor) -> Tree:
        """Use up an approval: its steps start. No version, older one or fork of the record can use it again.

        The use is noted before the version is written: when this process dies between the two, the approval is used up.
        """
        record = self.resolve(cr_id)
        used = interventions.consume_resume_point
        used(record, resume_point_id, self._clock(), consumed=self.consumed)
        name = _consumed(interventions.consumption_key(record, resume_point_id))
        try:
            self.store.swap(name, f"{self._clock()} {record['contentHash']}", expect=None)
        except ConflictError as error:
            raise RefusedError(
                f"the approval of resume point {resume_point_id} was used already",
                "ask anew with a new resume point",
            ) from error
        try:
            return self._decide(cr_id, lambda record, at: used(record, resume_point_id, at), author)
        except (RefusedError, InvalidError, ConflictError):
            with suppress(ConflictError):
                self.store.swap(name, None, expect=self.store.ref(name))
            raise

    def override_decision(
        self, cr_id: str, decision_id: str, new_decision: str, author: CRAuthor, *, rationale: str = ""
    ) -> Tree:
        """Put another decision in the place of one; the old one stays as a variant."""
        override = decisions.override_decision
        return self._decide(
            cr_id,
            lambda record, at: override(record, decision_id, new_decision, author, at, rationale=rationale),
            author,
        )

    def contest_decision(
        self, cr_id: str, decision_id: str, decision: str, rationale: str, author: CRAuthor
    ) -> Tree:
        """Put another view beside a decision, which is not settled from then on."""
        contest = decisions.contest_decision
        return self._decide(
            cr_id,
            lambda record, at: contest(record, decision_id, decision, author, at, rationale=rationale),
            author,
        )

    def settle_decision(
        self,
        cr_id: str,
        decision_id: str,
        status: Literal["accepted", "rejected", "tentative"],
        author: CRAuthor,
        *,
        variant: int | None = None,
    ) -> Tree:
        """Move a decision on; a contested one may take the text of one of its variants."""
        settle = decisions.settle_decision
        return self._decide(
            cr_id, lambda record, at: settle(record, decision_id, status, author, at, variant=variant), author
        )

    def resolve_blocker(self, cr_id: str, blocker_id: str, resolution: str, author: CRAuthor) -> Tree:
        """An obstacle is gone."""
        resolved = transitions.resolve_blocker
        return self._decide(
            cr_id, lambda record, at: resolved(record, blocker_id, resolution, author, at), author
        )

    def check_invariant(
        self, cr_id: str, invariant_id: str, status: str, author: CRAuthor, *, evidence: str = ""
    ) -> Tree:
        """An invariant was looked at."""
        check = transitions.check_invariant
        return self._decide(
            cr_id, lambda record, at: check(record, invariant_id, status, at, evidence=evidence), author
        )

    def resolve_conflict(
        self,
        cr_id: str,
        path: str,
        author: CRAuthor,
        *,
        take: Literal["a", "b", "base"] | None = None,
        value: Any = UNSET,
    ) -> Tree:
        """Settle a conflict that a merge has left in a record, with the value of a side or with another."""
        settle = merge.resolve_conflict
        return self._decide(
            cr_id, lambda record, at: settle(record, path, take, author, at, value=value), author
        )

    def _decide(self, cr_id: str, operation: Operation, author: CRAuthor) -> Tree:
        """What is due takes effect first, and is decided on then."""
        self.tick(cr_id)
        return self.act(cr_id, operation, author)


class _Consumed:
    def __init__(self, store: Store) -> None:
        self._store = store

    def __contains__(self, key: object) -> bool:
        return self._store.ref(_consumed(str(key))) is not None


def _consumed(key: str) -> str:
    return f"consumed/{digest(key.encode())}"
