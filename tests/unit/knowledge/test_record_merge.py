"""Merging: the laws, the table of classes, and conflicts as values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from adjourn.errors import InvalidError, NotFoundError, RefusedError
from adjourn.knowledge.cognition.invariants import check_record, require
from adjourn.knowledge.model.documents import Tree, accept, by_id, same, view, without, write
from adjourn.knowledge.model.record import COLLECTIONS, CRAuthor, RecordContent, Strategy
from adjourn.knowledge.records.merge import Merged, changes_between, merge, resolve_conflict
from adjourn.knowledge.records.versions import ENVELOPE
from support.documents import AGENT, ANN, BOB, NOW
from support.strategies import forks

Fork = tuple[Tree, Tree, Tree]


STRATEGIES: list[Strategy] = ["manual", "prefer-a", "prefer-b"]
strategies = st.sampled_from(STRATEGIES)
PERSON = view(ANN, CRAuthor)


def said(record: Tree) -> Tree:
    return without(record, *ENVELOPE)


def edited(record: Tree, path: str, value: Any) -> Tree:
    """A copy with one member other; a path is like decisions.d/1.status."""
    result = copy.deepcopy(record)
    *parts, last = path.split(".")
    inner: Any = result
    for part in parts:
        inner = by_id(inner)[part] if isinstance(inner, list) else inner[part]
    if isinstance(inner, list):
        inner[:] = [item for item in inner if item["id"] != last] + ([value] if value is not None else [])
    elif value is None:
        del inner[last]
    else:
        inner[last] = value
    return result


def both(record: Tree, path: str, a: Any, b: Any, strategy: Strategy = "manual") -> Merged:
    """The merge of two records that differ from a base in one place."""
    return merge(edited(record, path, a), edited(record, path, b), record, strategy)


# --- laws


@given(forks, strategies)
def test_what_one_side_did_is_taken(fork: Fork, strategy: Strategy) -> None:
    """merge(base, x, base) = x = merge(base, base, x), and merge(base, x, x) = x: nothing is asked, nothing added."""
    base, a, _ = fork
    for merged in (merge(a, base, base, strategy), merge(base, a, base, strategy), merge(a, a, base, strategy)):
        assert same(said(merged.record), said(a))
        assert (merged.success, merged.conflicts, merged.fast_forward) == (True, (), True)


@given(forks, strategies)
def test_a_merge_of_records_is_a_record(fork: Fork, strategy: Strategy) -> None:
    """Merging any records gives a valid record with valid conflicts and leaves the inputs unchanged."""
    base, a, b = fork
    before = copy.deepcopy(fork)
    merged = merge(a, b, base, strategy)
    write(without(merged.record, "contentHash"), RecordContent)
    require(check_record(merged.record))
    assert merged.record["id"] == a["id"]
    assert fork == before
    stored = [conflict["path"] for conflict in merged.record.get("conflicts", [])]
    unresolved = sorted(c.path for c in merged.conflicts if c.resolution == "unresolved")
    assert stored == ([] if merged.fast_forward else unresolved)
    assert merged.success == (not unresolved)


@given(forks)
def test_records_without_a_common_ancestor_merge_too(fork: Fork) -> None:
    """Without a base everything counts as added: the result is a record, and a warning says so."""
    _, a, b = fork
    merged = merge(a, b, None, "manual")
    write(without(merged.record, "contentHash"), RecordContent)
    assert merged.fast_forward or "no common ancestor" in merged.warnings[0]


@given(forks)
def test_by_hand_the_sides_are_alike(fork: Fork) -> None:
    """A merge by hand says the same whichever side is A, but for the line it lands on and the names of the sides."""
    base, a, b = (without(record, "checkpointId") for record in fork)
    one, other = merge(a, b, base, "manual"), merge(b, a, base, "manual")
    assert same(without(said(one.record), "conflicts"), without(said(other.record), "conflicts"))
    swap = {"a": "b", "b": "a"}
    turned = {(c.path, c.b, c.a, swap.get(c.resolution, c.resolution)) for c in map(_frozen, other.conflicts)}
    assert {(c.path, c.a, c.b, c.resolution) for c in map(_frozen, one.conflicts)} == turned


class _frozen:  # noqa: N801  # a conflict that can be in a set
    def __init__(self, conflict: Any) -> None:
        self.path, self.resolution = conflict.path, conflict.resolution
        self.a, self.b = repr(conflict.a), repr(conflict.b)


@given(forks, strategies)
def test_preferring_a_is_preferring_b_turned_round(fork: Fork, strategy: Strategy) -> None:
    """merge(a, b, prefer-a) says what merge(b, a, prefer-b) says."""
    base, a, b = (without(record, "checkpointId") for record in fork)
    turned: Strategy = {"prefer-a": "prefer-b", "prefer-b": "prefer-a"}.get(strategy, strategy)  # type: ignore[assignment]
    one, other = merge(a, b, base, strategy), merge(b, a, base, turned)
    assert same(without(said(one.record), "conflicts"), without(said(other.record), "conflicts"))


@given(forks, strategies)
def test_nothing_is_lost(fork: Fork, strategy: Strategy) -> None:
    """Each item of either side is in the result, or in a conflict, or was removed by the other side untouched."""
    base, a, b = fork
    merged = merge(a, b, base, strategy)
    if merged.fast_forward:
        return
    paths = [conflict.path for conflict in merged.conflicts]
    for name in COLLECTIONS:
        result, old = by_id(merged.record[name]), by_id(base[name])
        for side, other in ((a, b), (b, a)):
            for key, item in by_id(side[name]).items():
                removed = key not in by_id(other[name]) and key in old and same(old[key], item)
                if not removed or name in ("learnings", "toolEffects", "invariants"):
                    assert key in result, (name, key)
                if key in result and not same(result[key], item) and not same(item, old.get(key)):
                    told = any(path.startswith(f"/{name}/") for path in paths)
                    assert told or key in by_id(other[name]), (name, key)
                    assert _is_found(item, result[key], merged, name) or told
    _variants_are_kept(merged, a, b)


def _is_found(item: Tree, result: Tree, merged: Merged, name: str) -> bool:
    """Every member of an item is that of the result, or the other side's that came later, or a copy has it."""
    twins = [other for other in merged.record[name] if other["id"].startswith(item["id"][:200])]
    return any(item[key] == other.get(key) for other in [result, *twins] for key in item)


def _variants_are_kept(merged: Merged, a: Tree, b: Tree) -> None:
    result = by_id(merged.record["decisions"])
    for decision in [*a["decisions"], *b["decisions"]]:
        if (
            decision["id"] in result
            and decision["id"] in by_id(a["decisions"])
            and decision["id"] in by_id(b["decisions"])
        ):
            texts = [variant["decision"] for variant in result[decision["id"]].get("variants", [])]
            assert all(variant["decision"] in texts for variant in decision.get("variants", []))


@given(forks, forks)
def test_merging_in_another_order_is_the_same_where_nothing_clashes(fork: Fork, more: Fork) -> None:
    """merge(merge(a, b), c) says what merge(a, merge(b, c)) says, if no two of them clash."""
    base, a, b = fork
    c = {**base, "learnings": [*base["learnings"], *_renamed(more[1]["learnings"])], "id": "C"}
    base, a, b, c = (_counting(record, steps) for record, steps in ((base, 0), (a, 1), (b, 10), (c, 100)))
    one = merge(merge(a, b, base, "manual").record, c, base, "manual")
    other = merge(a, merge(b, c, base, "manual").record, base, "manual")
    if one.conflicts or other.conflicts or merge(a, b, base, "manual").conflicts:
        return
    assert not list(changes_between(one.record, other.record))


def _counting(record: Tree, steps: int) -> Tree:
    """Counters that no two sides have alike: what both changed alike is taken once."""
    counters = dict.fromkeys(("stepsCompleted", "stepsFailed", "tokensConsumed", "elapsedMs"), steps)
    return {**record, "executionSummary": {**record["executionSummary"], **counters}}


def _renamed(items: list[Tree]) -> list[Tree]:
    return [{**item, "id": f"c-{item['id']}"} for item in items]


@given(forks, st.sampled_from(["a", "b"]))
def test_conflicts_resolve(fork: Fork, side: Any) -> None:
    """Each conflict that is kept can be resolved for a side; then none is left, and that side's value stands."""
    base, a, b = fork
    merged = merge(a, b, base, "manual")
    if merged.fast_forward:
        return
    record = merged.record
    for conflict in merged.record.get("conflicts", []):
        record = resolve_conflict(record, conflict["path"], side, PERSON, NOW).record
    assert "conflicts" not in record
    write(without(record, "contentHash"), RecordContent)
    for conflict in merged.conflicts:
        if conflict.resolution == "unresolved" and conflict.path.startswith("/task/"):
            assert record["task"][conflict.path.split("/")[2]] == getattr(conflict, side)


# --- the table


def test_a_scalar_that_both_changed_waits_for_a_person(record: Tree) -> None:
    """By hand the base's value is kept and the conflict is in the record; with a preference that side's is taken."""
    merged = both(record, "task.goal", "A", "B")
    assert (merged.success, merged.record["task"]["goal"]) == (False, record["task"]["goal"])
    (conflict,) = merged.record["conflicts"]
    assert conflict == {
        "path": "/task/goal", "base": record["task"]["goal"], "a": "A", "b": "B", "resolution": "unresolved",
    }  # fmt: skip
    for strategy, value in (("prefer-a", "A"), ("prefer-b", "B")):
        merged = both(record, "task.goal", "A", "B", strategy)  # type: ignore[arg-type]
        assert (merged.success, merged.record["task"]["goal"]) == (True, value)
        assert [c.path for c in merged.conflicts] == ["/task/goal"]
        assert "conflicts" not in merged.record


@pytest.mark.parametrize(
    ("path", "sides", "expected"),
    [
        ("executionSummary.stepsCompleted", (15, 17), 22),
        ("executionSummary.tokensConsumed", (2**53 - 1, 2**53 - 2), 2**53 - 1),
        ("metadata.tags", (["one"], ["three", "two"]), ["three"]),
        ("metadata.tags", (["one", "two", "z"], ["one", "two", "y"]), ["one", "two", "y", "z"]),
        ("metadata.priority", ("low", "critical"), "critical"),
    ],
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_counters_sets_and_priorities_need_nobody(
    record: Tree, path: str, sides: tuple[Any, Any], expected: Any, strategy: Strategy
) -> None:
    """Counters add what each side added, within what JSON can hold; sets merge three-way; the higher priority wins."""
    base = edited(record, "metadata.tags", ["one", "two"])
    merged = both(base, path, *sides, strategy)
    object_, name = path.split(".")
    assert merged.record[object_][name] == expected
    assert merged.conflicts == ()


def test_actions_are_united(record: Tree) -> None:
    """Actions of both sides are kept, in time; the same action once, and twice where a side has it twice."""
    first, second, third = (
        {"description": d, "timestamp": t, "outcome": "success"} for d, t in (("x", 1), ("y", 3), ("z", 2))
    )
    base = edited(record, "executionSummary.actions", [first])
    merged = both(base, "executionSummary.actions", [first, second, second], [first, third, second])
    assert merged.record["executionSummary"]["actions"] == [first, third, second, second]


def test_a_decision_that_both_changed_is_contested(record: Tree) -> None:
    """By hand all sides stand as variants with their authors and it succeeds; a preference keeps the loser as a variant."""
    path = "decisions.d/1"
    old = record["decisions"][0]
    a = {**old, "description": "A", "madeBy": ANN, "madeAt": NOW + 1, "affects": ["n1", "n2"]}
    b = {**old, "description": "B", "madeBy": BOB, "madeAt": NOW + 2, "affects": ["n1", "n3"]}
    merged = both(record, path, a, b)
    (decision,) = merged.record["decisions"]
    assert merged.success
    assert (decision["status"], decision["description"]) == ("contested", old["description"])
    sides = [(variant["author"]["id"], variant["decision"]) for variant in decision["variants"]]
    assert sides == [("agent-1", old["description"]), ("ann", "A"), ("bob", "B")]
    assert decision["affects"] == ["n1", "n2", "n3"]
    merged = both(record, path, a, b, "prefer-b")
    (decision,) = merged.record["decisions"]
    assert (decision["status"], decision["description"]) == ("accepted", "B")
    assert [variant["decision"] for variant in decision["variants"]] == ["A"]
    assert [c.resolution for c in merged.conflicts] == ["b"]


def test_a_decision_of_which_the_sides_disagree_in_status_only_has_its_variants(record: Tree) -> None:
    """Accepted here and rejected there: contested, with a variant for each."""
    base = edited(record, "decisions.d/1.status", "tentative")
    merged = both(base, "decisions.d/1.status", "accepted", "rejected")
    (decision,) = merged.record["decisions"]
    assert [variant["status"] for variant in decision["variants"]] == ["tentative", "accepted", "rejected"]
    require(check_record(merged.record))


APPROVALS = {
    "denied": {"approvalStatus": "denied", "deniedBy": ANN, "deniedAt": NOW},
    "pending": {"approvalStatus": "pending", "attempts": 2},
    "human": {"approvalStatus": "approved", "approvedBy": ANN, "approvedAt": NOW},
    "auto": {"approvalStatus": "auto-approved", "approvedBy": AGENT, "approvedAt": NOW},
    "agent": {"approvalStatus": "approved", "approvedBy": AGENT, "approvedAt": NOW},
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("winner", range(4))
def test_the_safer_approval_wins(record: Tree, winner: int, strategy: Strategy) -> None:
    """denied > pending > approved by a person > auto-approved > approved by others, under every strategy; it is listed."""
    names = list(APPROVALS)
    point = without(record["resumePoints"][0], "approvalStatus", "createdAt")
    for loser in range(winner + 1, 5):
        bare = edited(record, "resumePoints.p1", None)
        a, b = ({**point, **APPROVALS[names[number]]} for number in (winner, loser))
        for one, other in ((a, b), (b, a)):
            merged = merge(edited(bare, "resumePoints.p1", one), edited(bare, "resumePoints.p1", other), bare, strategy)
            (result,) = merged.record["resumePoints"]
            assert result["approvalStatus"] == a["approvalStatus"]
            assert result.get("approvedBy") == a.get("approvedBy")
            assert "/resumePoints/p1/approvalStatus" in [c.path for c in merged.conflicts]


def test_a_used_approval_is_used_in_the_merge(record: Tree) -> None:
    """Whichever side has started the steps, and whatever else became of the point, the approval is consumed, at the earlier time."""
    opened = edited(record, "resumePoints.p1", {**record["resumePoints"][0], **APPROVALS["human"]})
    merged = merge(
        edited(opened, "resumePoints.p1.consumedAt", 7),
        edited(opened, "resumePoints.p1.label", "L"),
        opened,
        "prefer-b",
    )
    assert merged.record["resumePoints"][0]["consumedAt"] == 7
    merged = both(opened, "resumePoints.p1.consumedAt", 9, 7, "prefer-a")
    assert merged.record["resumePoints"][0]["consumedAt"] == 7


def answered(question: Tree, answer: str, by: Tree, at: int = NOW) -> Tree:
    return {**question, "status": "answered", "answer": answer, "answeredBy": by, "answeredAt": at}


def test_answers_win_and_two_answers_open_the_question_again(record: Tree) -> None:
    """An answer beats expiry; two answers by hand: open, both in the context; with a preference: that side's."""
    question = record["questionsForUser"][0]
    yes, no = answered(question, "yes", ANN), answered(question, "no", BOB, NOW + 1)
    expired = {**question, "status": "expired"}
    for a, b in ((yes, expired), (expired, yes)):
        assert both(record, "questionsForUser.q1", a, b).record["questionsForUser"] == [yes]
    merged = both(record, "questionsForUser.q1", yes, no)
    (result,) = merged.record["questionsForUser"]
    assert (merged.success, result["status"]) == (True, "open")
    assert result["context"] == "why\nann answered: yes\nbob answered: no"
    assert not {"answer", "answeredBy", "answeredAt"} & result.keys()
    assert both(record, "questionsForUser.q1", yes, no, "prefer-b").record["questionsForUser"] == [no]


def test_a_blocker_is_resolved_where_the_other_side_did_not_touch_it(record: Tree) -> None:
    """Resolved here and untouched there: resolved. Worked on there: active. Resolved by both: resolved, the earlier one."""
    blocker = record["blockers"][0]
    ann = {**blocker, "status": "resolved", "resolvedBy": ANN, "resolvedAt": 2, "resolution": "r"}
    bob = {**ann, "resolvedBy": BOB, "resolvedAt": 1}
    touched = {**blocker, "severity": "critical"}
    merged = merge(edited(record, "blockers.b1", ann), edited(record, "task.goal", "x"), record, "manual")
    assert merged.record["blockers"] == [ann]
    merged = both(record, "blockers.b1", ann, touched)
    assert merged.record["blockers"] == [touched]
    assert [(c.path, c.resolution) for c in merged.conflicts] == [("/blockers/b1/status", "b")]
    assert both(record, "blockers.b1", ann, bob).record["blockers"] == [bob]


def test_a_violation_wins_and_an_invariant_stays(record: Tree) -> None:
    """violated beats a later check; a removal by one side does not count, by both it does."""
    item = record["invariants"][0]
    bad, good = ({**item, "status": "violated", "lastCheckedAt": 1}, {**item, "status": "holding", "lastCheckedAt": 2})
    assert both(record, "invariants.i1", bad, good).record["invariants"] == [bad]
    gone = edited(record, "invariants.i1", None)
    assert merge(gone, edited(record, "task.goal", "x"), record, "manual").record["invariants"] == [item]
    other = edited(gone, "task.goal", "x")
    assert merge(gone, other, record, "manual").record["invariants"] == []


def test_one_effect_known_better_on_one_side_is_one_effect(record: Tree) -> None:
    """Completed beats unknown and claimed; completed differently on both sides ran twice: both are kept, and it is said."""
    effect = record["toolEffects"][0]
    done, lost = {**effect, "status": "completed", "outputs": {"n": 1}}, {**effect, "status": "unknown"}
    assert both(record, "toolEffects.e1", done, lost).record["toolEffects"] == [done]
    again = {**done, "outputs": {"n": 2}, "executedAt": NOW + 9}
    merged = both(record, "toolEffects.e1", done, again)
    first, second = merged.record["toolEffects"]
    assert (first, second["outputs"]) == (done, {"n": 2})
    assert second["id"].startswith("e1~")
    assert sum("executed twice" in warning for warning in merged.warnings) == 2


def test_two_effects_with_one_key_are_both_kept(record: Tree) -> None:
    """Sides that did the same thing under other ids: both stand, with the warning that it ran twice."""
    effect = record["toolEffects"][0]
    bare = edited(record, "toolEffects.e1", None)
    a, b = edited(bare, "toolEffects.e1", effect), edited(bare, "toolEffects.e2", {**effect, "id": "e2"})
    merged = merge(a, b, bare, "manual")
    assert [item["id"] for item in merged.record["toolEffects"]] == ["e1", "e2"]
    assert merged.warnings == ("executed twice: 2 effects have the idempotency key invoice:1",)


def test_what_was_changed_wins_over_what_was_removed(record: Tree) -> None:
    """Removed here, changed there: it stays as changed, and it is listed. Removed here, untouched there: it is gone."""
    changed = edited(record, "questionsForUser.q1.context", "more")
    gone = edited(record, "questionsForUser.q1", None)
    merged = merge(changed, gone, record, "prefer-b")
    assert merged.record["questionsForUser"][0]["context"] == "more"
    assert [(c.path, c.resolution, c.b) for c in merged.conflicts] == [("/questionsForUser/q1", "a", UNSET)]
    assert merge(gone, edited(record, "task.goal", "x"), record, "manual").record["questionsForUser"] == []


def test_one_id_for_two_learnings_keeps_both(record: Tree) -> None:
    """Learnings that were added under one id on both sides are two: the older keeps the id."""
    learning = {
        "id": "l", "type": "insight", "source": "success", "content": "A", "learnedBy": AGENT, "learnedAt": 2, "affects": [],
    }  # fmt: skip
    merged = both(record, "learnings.l", learning, {**learning, "content": "B", "learnedAt": 1})
    assert [(item["id"][:2], item["content"]) for item in merged.record["learnings"]] == [("l", "B"), ("l~", "A")]


def test_the_status_of_a_task_goes_with_its_times(record: Tree) -> None:
    """A side that wins with its status wins with its times; the same status on both sides has the earlier start."""
    task = record["task"]
    done, failed = ({**task, "status": s, "completedAt": t} for s, t in (("completed", 5), ("failed", 6)))
    assert both(record, "task", done, failed, "prefer-b").record["task"] == failed
    merged = both(record, "task", done, failed)
    assert merged.record["task"] == task
    assert [c["path"] for c in merged.record["conflicts"]] == ["/task/status"]
    late, early = ({**task, "startedAt": t, "goal": "g"} for t in (9, 8))
    assert both(record, "task", late, early).record["task"] == early


# --- conflicts are values


def test_a_conflict_that_was_resolved_on_one_side_is_resolved(record: Tree) -> None:
    """Conflicts travel with the record: resolved by one side and untouched by the other, they are gone from the merge."""
    base = both(record, "task.goal", "A", "B").record
    fixed = resolve_conflict(base, "/task/goal", "b", PERSON, NOW).record
    assert (fixed["task"]["goal"], "conflicts" in fixed) == ("B", False)
    other = edited(base, "metadata.priority", "critical")
    merged = merge(fixed, other, base, "manual")
    assert (merged.record["task"]["goal"], "conflicts" in merged.record) == ("B", False)
    waiting = merge(edited(base, "checkpointId", "c"), other, base, "manual")
    assert waiting.record["conflicts"] == base["conflicts"]


def test_a_conflict_takes_any_value_once(record: Tree) -> None:
    """It can be resolved with a value of its own; what is no conflict, or says both or neither, is refused."""
    base = both(record, "task.goal", "A", "B").record
    assert resolve_conflict(base, "/task/goal", None, PERSON, NOW, value="C").record["task"]["goal"] == "C"
    with pytest.raises(NotFoundError, match="/task/goal"):
        resolve_conflict(base, "/task/status", "a", PERSON, NOW)
    for take, value in ((None, UNSET), ("a", "C")):
        with pytest.raises(InvalidError):
            resolve_conflict(base, "/task/goal", take, PERSON, NOW, value=value)  # type: ignore[arg-type]


def test_a_gate_in_conflict_is_a_persons_to_resolve(record: Tree) -> None:
    """An agent cannot weaken a resume point by resolving a conflict about it."""
    path = "resumePoints.p1.requiredAuthority"
    base = both(record, path, "agent", "any").record
    assert base["resumePoints"][0]["requiredAuthority"] == "human"
    with pytest.raises(RefusedError):
        resolve_conflict(base, "/resumePoints/p1/requiredAuthority", "a", view(AGENT, CRAuthor), NOW)
    fixed = resolve_conflict(base, "/resumePoints/p1/requiredAuthority", "a", PERSON, NOW).record
    assert fixed["resumePoints"][0]["requiredAuthority"] == "agent"


def test_a_task_with_an_open_question_is_not_completed_by_resolving(record: Tree) -> None:
    """Resolving a conflict about the status keeps the rule of completion."""
    task = record["task"]
    done, failed = ({**task, "status": s, "completedAt": 5} for s in ("completed", "failed"))
    base = both(record, "task", done, failed).record
    with pytest.raises(RefusedError, match="question q1"):
        resolve_conflict(base, "/task/status", "a", PERSON, NOW)
    fixed = resolve_conflict(base, "/task/status", "b", PERSON, NOW).record
    assert (fixed["task"]["status"], fixed["task"]["completedAt"]) == ("failed", NOW)


def test_the_record_of_the_tests_holds(record: Tree) -> None:
    """The sample is of the right types and breaks no rule."""
    assert same(accept(without(record, "contentHash"), RecordContent), without(record, "contentHash"))
    assert check_record(record) == []
