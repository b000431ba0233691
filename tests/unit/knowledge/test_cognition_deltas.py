"""A checkpoint kept as a difference is the checkpoint."""

from __future__ import annotations

import copy
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import IntegrityError, InvalidError
from adjourn.knowledge.cognition.deltas import MAX_DIFFS, Snapshot, apply, diff_checkpoints, pack, rebase, unpack
from adjourn.knowledge.model.cognition import CheckpointDiff, CognitiveCheckpoint
from adjourn.knowledge.model.documents import Tree, accept, same, view
from adjourn.log.canonical_json import canonical, digest
from support.strategies import cognitive_checkpoints, structs


@given(cognitive_checkpoints, cognitive_checkpoints)
def test_applying_a_difference_gives_the_checkpoint(base: Tree, current: Tree) -> None:
    """apply(base, diff(base, x)) == x for any two checkpoints, with all that this version does not know, in its order."""
    before = copy.deepcopy((base, current))
    diff = diff_checkpoints(base, current)
    assert same(apply(base, diff), current)
    assert diff["resultHash"] == digest(canonical(current))
    assert (base, current) == before
    accept(diff, CheckpointDiff)


@given(cognitive_checkpoints, cognitive_checkpoints)
def test_a_difference_can_be_turned_round(base: Tree, current: Tree) -> None:
    """Removals, goals, metrics, label and branch are in a difference: the one back leads back."""
    there = apply(base, diff_checkpoints(base, current))
    assert same(apply(there, diff_checkpoints(there, base)), base)


@given(cognitive_checkpoints)
def test_nothing_differs_from_itself(base: Tree) -> None:
    """The difference of a checkpoint from itself names no node, no fact and no goal, whatever the order of keys."""
    turned = {name: base[name] for name in reversed(base)}
    turned["nodes"] = [dict(reversed(node.items())) for node in base["nodes"]]
    diff = view(diff_checkpoints(base, turned), CheckpointDiff)
    parts = (diff.added_nodes, diff.modified_nodes, diff.removed_node_ids, diff.epistemic_changes)
    assert not any(parts)
    more = (diff.intent_changes, diff.intent_removed, diff.epistemic_removed, diff.node_order, diff.epistemic_order)
    assert not any(more)


@given(cognitive_checkpoints, cognitive_checkpoints, st.data())
def test_a_wrong_base_or_a_changed_difference_is_found(base: Tree, current: Tree, data: st.DataObject) -> None:
    """apply raises IntegrityError rather than give out another checkpoint."""
    diff = diff_checkpoints(base, current)
    other = data.draw(cognitive_checkpoints.filter(lambda other: not same(other, base)))
    with suppress(IntegrityError):
        assert same(apply(other, diff), current)
    with pytest.raises(IntegrityError):
        apply(base, {**diff, "timestamp": diff["timestamp"] + 1})
    with pytest.raises(IntegrityError):
        apply({**base, "id": "another"}, diff)


@given(structs(CheckpointDiff), cognitive_checkpoints)
def test_any_difference_applies_or_is_refused(diff: Tree, base: Tree) -> None:
    """A difference of the right types that fits nothing raises IntegrityError, and nothing else."""
    with pytest.raises(IntegrityError):
        apply(base, diff)


def with_nodes(number: int, changed: int) -> Tree:
    nodes = [
        {
            "id": f"n{index}",
            "type": "reasoning",
            "phase": "planning",
            "status": "pending",
            "label": "x" * 50 if index >= changed else "y" * 50,
            "assumptions": [],
            "openQuestions": [],
            "confidence": 0.5,
            "childIds": [],
            "createdAt": 1,
            "branchId": "main",
        }
        for index in range(number)
    ]
    return {
        "id": f"c{changed}",
        "timestamp": changed,
        "label": "l",
        "nodes": nodes,
        "epistemicState": {"facts": [], "assumptions": [], "openQuestions": [], "beliefs": []},
        "intentGraph": {"goals": [], "rootIntentId": "g"},
        "branchId": "main",
        "metrics": {"totalNodes": number, "completedNodes": 0, "tokenEstimate": 1, "elapsedMs": 1},
    }


def test_a_line_of_differences_is_cut_by_a_whole_snapshot() -> None:
    """After 20 differences a checkpoint is kept whole, and each one of the line can be read."""
    line: list[Snapshot] = []
    trees = [with_nodes(60, changed) for changed in range(24)]
    for tree in trees:
        base = (trees[len(line) - 1], line[-1].depth) if line else (None, 0)
        line.append(pack(tree, base[0], base_depth=base[1]))
    assert [snapshot.depth for snapshot in line] == [*range(MAX_DIFFS + 1), 0, 1, 2]
    for number, tree in enumerate(trees, start=1):
        assert unpack(line[:number]) == tree


def test_a_difference_of_more_than_half_is_kept_whole() -> None:
    """What changes most of a checkpoint is kept as a whole snapshot."""
    assert pack(with_nodes(60, 40), with_nodes(0, 0)).base == ""
    assert pack(with_nodes(60, 2), with_nodes(60, 0)).base == "c0"


def test_dependants_are_rebased_before_their_base_goes() -> None:
    """Rebased on the base's own base, or kept whole, a dependant reads as before."""
    old, middle, new = (with_nodes(60, changed) for changed in (0, 1, 2))
    first = pack(old)
    (moved,) = rebase([new], old)
    assert moved.base == middle["id"].replace("1", "0") == "c0"
    assert unpack([first, moved]) == new
    (whole,) = rebase([new])
    assert unpack([whole]) == new


def test_a_line_with_a_hole_is_refused() -> None:
    """A missing or wrong base raises IntegrityError; no snapshots at all are no checkpoint."""
    first, second = pack(with_nodes(60, 0)), pack(with_nodes(60, 1), with_nodes(60, 0))
    with pytest.raises(IntegrityError, match="base c0 of checkpoint c1 is missing"):
        unpack([second])
    wrong = pack({**with_nodes(60, 0), "label": "other"})
    assert unpack([wrong, second]) == with_nodes(60, 1), "the label is in the difference"
    spoilt = with_nodes(60, 0)
    spoilt["nodes"][59]["label"] = "spoilt"
    with pytest.raises(IntegrityError):
        unpack([pack(spoilt), second])
    with pytest.raises(InvalidError):
        unpack([])
    assert unpack([first, second]) == with_nodes(60, 1)


def test_ids_that_stand_twice_are_kept_whole() -> None:
    """A difference names items by id; where an id stands twice there is none."""
    twice = with_nodes(60, 1)
    twice["nodes"].append(twice["nodes"][0])
    assert unpack([pack(twice, with_nodes(60, 0))]) == twice
    with pytest.raises(InvalidError, match="one id for two items"):
        diff_checkpoints(with_nodes(60, 0), twice)


@given(structs(CognitiveCheckpoint))
def test_what_is_unknown_is_kept_on_a_round_trip(tree: Tree) -> None:
    """A checkpoint that is read and written has every member it had, known or not."""
    assert same(accept(tree, CognitiveCheckpoint), tree)
