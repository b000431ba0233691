"""The rules for parts of a record that both sides of a merge changed differently, by class of part.

A rule is symmetric, except if the strategy prefers one side. Must never: drop the value of a side without listing it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from adjourn.knowledge.model.documents import MAX_ID, MAX_TEXT, Tree, load, pointer, same, without
from adjourn.knowledge.model.record import CRConflict, Resolution, Strategy
from adjourn.knowledge.records.updating import variant_of, with_variants
from adjourn.log.canonical_json import MAX_SAFE_INTEGER, canonical, digest

Path = tuple[str, ...]
KEPT = ("learnings", "toolEffects", "invariants")
"""Collections that lose an item only if both sides removed it."""
CLASH: Any = object()
"""Both sides changed it differently."""


class Sides(NamedTuple):
    """A value in the base and on both sides; UNSET where it is absent."""

    base: Any
    a: Any
    b: Any

    @classmethod
    def of(cls, name: str, base: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any]) -> Sides:
        return cls(base.get(name, UNSET), a.get(name, UNSET), b.get(name, UNSET))

    def only(self, names: Sequence[str]) -> Sides:
        """Objects with some of their members."""
        return Sides(*({n: side[n] for n in names if n in side} if side is not UNSET else {} for side in self))

    @property
    def settled(self) -> Any:
        """The value if at most one side changed it, or both in the same way; else CLASH."""
        if same(self.a, self.b) or same(self.b, self.base):
            return self.a
        return self.b if same(self.a, self.base) else CLASH


Rule = Callable[["Merger", Path, Sides], Any]
"""Returns the merged value of a member that both sides changed differently."""


class Merger:
    """One merge: its strategy, conflicts and warnings."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.conflicts: list[CRConflict] = []
        self.warnings: list[str] = []

    def conflict(self, path: Path, sides: Sides, resolution: Resolution) -> None:
        stated = {name: value for name, value in sides._asdict().items() if value is not UNSET}
        self.conflicts.append(CRConflict(path=pointer(*path), resolution=resolution, **stated))

    def preferred(self) -> Resolution | None:
        """The side that wins by the strategy."""
        return {"prefer-a": "a", "prefer-b": "b"}.get(self.strategy)  # type: ignore[return-value]  # its values are

    def scalar(self, path: Path, sides: Sides) -> Any:
        """The preferred side's value; with `manual`, the base's, with an unresolved conflict. A change wins over a removal."""
        if sides.a is UNSET or sides.b is UNSET:
            self.conflict(path, sides, "b" if sides.a is UNSET else "a")
            return sides.b if sides.a is UNSET else sides.a
        side = self.preferred()
        self.conflict(path, sides, side or "unresolved")
        if side:
            return getattr(sides, side)
        return sides.base

    def member(self, path: Path, sides: Sides, rule: Rule | None = None, *, based: bool = True) -> Tree:
        """A member of an object after the merge: `{name: value}`, or `{}` if it is absent.

        Without a base for the whole object, the member may be required: then one side's value is taken.
        """
        value = sides.settled
        if value is CLASH:
            value = (rule or Merger.scalar)(self, path, sides)
            if value is UNSET and not based:
                value = min(sides.a, sides.b, key=canonical)
        return {} if value is UNSET else {path[-1]: value}

    def members(self, path: Path, sides: Sides, rules: Mapping[str, Rule], but: Sequence[str] = ()) -> Tree:
        """An object after the merge, member by member."""
        base, a, b = (({} if side is UNSET else side) for side in sides)
        result: Tree = {}
        for name in dict.fromkeys([*base, *a, *b]):
            if name not in but:
                inner = Sides.of(name, base, a, b)
                result |= self.member((*path, name), inner, rules.get(name), based=bool(base))
        return result

    def task(self, sides: Sides) -> Tree:
        """The merged task. The status and its times come from the same side."""
        names = ("status", "startedAt", "completedAt")
        group = sides.only(names)
        state = group.settled
        if state is CLASH:
            status = self.member(("task", "status"), Sides.of("status", *group), based=bool(group.base))["status"]
            state = next((side for side in (group.a, group.b, group.base) if side.get("status") == status), {})
            times = [side["startedAt"] for side in group if side.get("status") == status and "startedAt" in side]
            state = {**state, "status": status, **({"startedAt": min(times)} if times else {})}
            ends = [side["completedAt"] for side in group if side.get("status") == status and "completedAt" in side]
            state |= {"completedAt": min(ends)} if ends else {}
        return {**self.members(("task",), sides, {}, names), **state}

    def summary(self, sides: Sides) -> Tree:
        counters = ("stepsCompleted", "stepsFailed", "tokensConsumed", "elapsedMs")
        rules: dict[str, Rule] = {**dict.fromkeys(counters, _sum), "actions": _union}
        return self.members(("executionSummary",), sides, rules)

    def metadata(self, sides: Sides) -> Tree:
        return self.members(("metadata",), sides, {"tags": _set, "priority": _higher})

    def pointer_of_lineage(self, sides: Sides) -> Tree:
        """`checkpointId`: that of the record that gets the merge."""
        value = sides.settled
        if value is CLASH:
            self.conflict(("checkpointId",), sides, "a" if sides.a is not UNSET else "b")
            value = sides.a if sides.a is not UNSET else sides.b
        return {} if value is UNSET else {"checkpointId": value}


# --- rules of members


def _sum(merger: Merger, path: Path, sides: Sides) -> int:
    """A counter: the sum of what each side added."""
    del merger, path
    base = 0 if sides.base is UNSET else sides.base
    return int(min(max(sides.a + sides.b - base, 0), MAX_SAFE_INTEGER))


def _union(merger: Merger, path: Path, sides: Sides) -> list[Tree]:
    """Actions: those of both sides, equal ones once."""
    del merger, path
    base, a, b = (Counter[bytes]() if side is UNSET else Counter(map(canonical, side)) for side in sides)
    members = list(sides.base) if sides.base is not UNSET else []
    added = [load(item) for item in ((a | b | base) - base).elements()]
    return members + sorted(added, key=lambda action: (action["timestamp"], canonical(action)))


def _set(merger: Merger, path: Path, sides: Sides) -> list[str]:
    """A set: without what either side removed, with what either side added."""
    del merger, path
    base = [] if sides.base is UNSET else sides.base
    a, b = set(sides.a), set(sides.b)
    return [tag for tag in base if tag in a and tag in b] + sorted((a | b) - set(base))


def _ranked(*order: str) -> Rule:
    def rule(merger: Merger, path: Path, sides: Sides) -> str:
        del merger, path
        return str(min(sides.a, sides.b, key=order.index))

    return rule


_higher = _ranked("critical", "high", "medium", "low")
_harder = _ranked("hard", "soft")


def _latest(merger: Merger, path: Path, sides: Sides) -> int:
    del merger, path
    return int(max(side for side in (sides.a, sides.b) if side is not UNSET))


def _earliest(merger: Merger, path: Path, sides: Sides) -> int:
    del merger, path
    return int(min(side for side in (sides.a, sides.b) if side is not UNSET))


# --- rules of items

ItemRule = Callable[[Merger, Path, Sides], list[Tree]]


def _group(merger: Merger, path: Path, sides: Sides, names: Sequence[str], rank: Callable[[Tree], Any]) -> Tree:
    """Members that belong together: those of the side with the lowest rank."""
    group = sides.only(names)
    settled: Tree = group.settled
    if settled is not CLASH:
        return settled
    a_wins = (rank(group.a), canonical(group.a)) < (rank(group.b), canonical(group.b))
    merger.conflict(path, group, "a" if a_wins else "b")
    winner: Tree = group.a if a_wins else group.b
    return winner


_TEXT = ("description", "rationale", "status", "madeBy", "madeAt")


def _decision(merger: Merger, path: Path, sides: Sides) -> list[Tree]:
    """With `manual`, both sides become variants of a contested decision; else the side that loses becomes a variant."""
    members = merger.members(path, sides, {"affects": _set, "overridableBy": _set}, (*_TEXT, "variants"))
    group = sides.only(_TEXT)
    text = group.settled
    variants = [] if sides.base is UNSET else sides.base.get("variants", [])
    others = [variant for side in (sides.a, sides.b) for variant in side.get("variants", [])]
    if text is CLASH:
        side = merger.preferred()
        merger.conflict(path, sides, side or "contested")
        oldest = min(group.a, group.b, key=lambda text: (text["madeAt"], canonical(text)))
        text = getattr(group, side) if side else {**(group.base or oldest), "status": "contested"}
        if not side and sides.base is not UNSET:
            variants = _with_side(variants, sides.base)
        for name, loser in (("a", sides.a), ("b", sides.b)):
            others = others if name == side else _with_side(others, loser)
    variants = with_variants([], *variants, *sorted(others, key=lambda v: (v.get("madeAt", 0), canonical(v))))
    return [{**members, **text, **({"variants": variants} if variants else {})}]


def keeping_variants(decision: Tree, base: Tree) -> Tree:
    """A decision that one side changed, with its earlier variants."""
    variants = decision.get("variants", [])
    rows = with_variants(variants, *base.get("variants", []))
    return decision if len(rows) == len(variants) else {**decision, "variants": rows}


def _with_side(variants: list[Tree], decision: Tree) -> list[Tree]:
    """Variants with the text of a decision. A contested decision has its text among its own variants."""
    return variants if decision["status"] == "contested" else [*variants, variant_of(decision)]


_APPROVAL = ("approvalStatus", "approvedBy", "approvedAt", "deniedBy", "deniedAt", "deniedReason")


def _resume_point(merger: Merger, path: Path, sides: Sides) -> list[Tree]:
    """The safer side's approval, whatever the strategy. An approval that either side used is used."""

    def rank(point: Tree) -> tuple[int, int]:
        status = point["approvalStatus"]
        by = point.get("approvedBy", {}).get("type")
        order = ("denied", "pending", "approved by human", "auto-approved", "approved")
        safety = order.index("approved by human" if status == "approved" and by == "human" else status)
        return safety, int(point.get("deniedAt") or point.get("approvedAt") or 0)

    approval = _group(merger, (*path, "approvalStatus"), sides, _APPROVAL, rank)
    rules: dict[str, Rule] = {"consumedAt": _earliest, "attempts": _latest, "createdAt": _latest}
    members = merger.members(path, sides, rules, _APPROVAL)
    return [{**members, **approval}]


_ANSWER = ("status", "answer", "answeredBy", "answeredAt", "skippedReason")
_ANSWERED_FIRST = ("answered", "expired", "skipped", "open")


def _question(merger: Merger, path: Path, sides: Sides) -> list[Tree]:
    """An answer wins over none. Of two answers, the preferred side's; with `manual`, the question is open and has both as context."""
    members = merger.members(path, sides, {"blocksResumePoints": _set}, _ANSWER)
    group = sides.only(_ANSWER)
    answers = [side.get("answer", "") for side in (group.a, group.b) if side.get("status") == "answered"]
    if group.settled is CLASH and len(set(answers)) == 2:
        side = merger.preferred()
        merger.conflict((*path, "answer"), group, side or "both")
        if side:
            return [{**members, **getattr(group, side)}]
        both = sorted((group.a, group.b), key=lambda answer: (answer.get("answeredAt", 0), canonical(answer)))
        lines = [f"{answer.get('answeredBy', {}).get('id', '?')} answered: {answer['answer']}" for answer in both]
        context = "\n".join([*([members["context"]] if members["context"] else []), *lines])
        return [{**members, "context": context[-MAX_TEXT:], "status": "open"}]
    answer = _group(
        merger,
        (*path, "status"),
        sides,
        _ANSWER,
        lambda question: (_ANSWERED_FIRST.index(question["status"]), question.get("answeredAt", 0)),
    )
    return [{**members, **answer}]


_RESOLUTION = ("status", "resolvedBy", "resolvedAt", "resolution")


def _blocker(merger: Merger, path: Path, sides: Sides) -> list[Tree]:
    """Resolved if both sides resolved it, else active."""
    members = merger.members(path, sides, {"severity": _higher, "blocksResumePoints": _set}, _RESOLUTION)
    group = sides.only(_RESOLUTION)
    if group.a["status"] != group.b["status"]:
        active: Resolution = "a" if group.a["status"] == "active" else "b"
        merger.conflict((*path, "status"), group, active)
        return [{**members, **getattr(group, active)}]
    state = _group(merger, (*path, "status"), sides, _RESOLUTION, lambda item: item.get("resolvedAt", 0))
    return [{**members, **state}]


_CHECKED = ("status", "lastCheckedAt", "evidence")


def _invariant(merger: Merger, path: Path, sides: Sides) -> list[Tree]:
    """A violation wins; else the side that was checked last."""
    state = _group(
        merger,
        (*path, "status"),
        sides,
        _CHECKED,
        lambda item: (item["status"] != "violated", -item.get("lastCheckedAt", 0)),
    )
    return [{**merger.members(path, sides, {"severity": _harder, "scope": _set}, _CHECKED), **state}]


def _learning(merger: Merger, path: Path, sides: Sides) -> list[Tree]:
    return _both(merger, path, sides, "learnedAt")


_FURTHEST = ("completed", "failed", "unknown", "claimed")


def _effect(merger: Merger, path: Path, sides: Sides) -> list[Tree]:
    """The further status of an effect. If both sides have the same status but differ, the effect ran twice."""
    rank_a, rank_b = (_FURTHEST.index(side.get("status", "completed")) for side in (sides.a, sides.b))
    if rank_a == rank_b:
        merger.warnings.append(f"executed twice: effect {path[-1]} differs on the two sides")
        return _both(merger, path, sides, "executedAt")
    merger.conflict(path, sides, "a" if rank_a < rank_b else "b")
    return [sides.a if rank_a < rank_b else sides.b]


def _both(merger: Merger, path: Path, sides: Sides, time: str) -> list[Tree]:
    """Keep both: the older one under the id, the other under an id derived from it and its content."""
    merger.conflict(path, sides, "both")
    first, second = sorted((sides.a, sides.b), key=lambda item: (item[time], canonical(item)))
    mark = digest(canonical(without(second, "id")))[:16]
    return [first, {**second, "id": f"{second['id'][: MAX_ID - 17]}~{mark}"}]


ITEM_RULES: dict[str, ItemRule] = {
    "decisions": _decision,
    "learnings": _learning,
    "questionsForUser": _question,
    "blockers": _blocker,
    "resumePoints": _resume_point,
    "toolEffects": _effect,
    "invariants": _invariant,
}
