"""Merkle trees are RFC 6962's, and their proofs convince only of what is so."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import InvalidError
from adjourn.log import merkle
from adjourn.log.merkle import (
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root,
    verify_consistency,
    verify_inclusion,
)

SIZES = range(1, 41)
LEAVES = [sha256(b"%d" % number).digest() for number in range(41)]


def plain_root(leaves: Sequence[bytes]) -> bytes:
    """The definition, word for word: split at the largest power of two below the size."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha256(b"\1" + plain_root(leaves[:split]) + plain_root(leaves[split:])).digest()


@given(st.lists(st.binary(max_size=40), max_size=70))
def test_the_frontier_gives_the_root_of_the_definition(leaves: list[bytes]) -> None:
    """Appending leaf by leaf gives, at every size, the root that the recursive definition gives."""
    frontier = Frontier()
    for size, leaf in enumerate(leaves):
        assert frontier.root() == plain_root(leaves[:size])
        frontier.append(leaf)
    assert frontier.root() == plain_root(leaves) == root(leaves)
    assert len(frontier.nodes) == len(leaves).bit_count()


@given(st.lists(st.booleans(), max_size=70), st.integers(0, 9))
def test_when_the_root_is_asked_for_does_not_matter(asked: list[bool], late: int) -> None:
    """A frontier has the same root however often it was asked before, and however few leaves may wait."""
    frontier = Frontier()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merkle, "MAX_LATE", late)
        for size, ask in enumerate(asked):
            frontier.append(LEAVES[size % 41])
            if ask:
                frontier.root()
            assert len(frontier.late) <= late
    assert frontier.root() == plain_root([LEAVES[size % 41] for size in range(len(asked))])


def test_leaves_and_nodes_are_told_apart() -> None:
    """Leaf and node hashes have different prefixes, so that a node cannot be passed off as a leaf."""
    assert leaf_hash(LEAVES[0] + LEAVES[1]) != node_hash(LEAVES[0], LEAVES[1])


def test_every_inclusion_proof_convinces() -> None:
    """For all trees of up to 40 leaves, each leaf's proof holds, and has as many nodes as its depth."""
    for size in SIZES:
        tree = plain_root(LEAVES[:size])
        for index in range(size):
            path = inclusion_proof(LEAVES[:size], index)
            assert verify_inclusion(LEAVES[index], index, size, path, tree)
            assert len(path) <= (size - 1).bit_length()


def test_no_other_inclusion_is_proved() -> None:
    """A proof fails for another leaf, index, size or root, with a changed node, and with one more or fewer."""
    for size in SIZES:
        tree = plain_root(LEAVES[:size])
        for index in range(size):
            leaf, path = LEAVES[index], inclusion_proof(LEAVES[:size], index)
            assert not verify_inclusion(LEAVES[40], index, size, path, tree)
            assert not verify_inclusion(leaf, index, size, path, LEAVES[40])
            assert not verify_inclusion(leaf, index, size, [*path, tree], tree)
            assert not verify_inclusion(leaf, index, size, [tree, *path], tree)
            assert not verify_inclusion(leaf, index, size, path[1:], tree) or not path
            assert not verify_inclusion(leaf, index, size, path[:-1], tree) or not path
            for other in {-1, index - 1, index + 1, size, size - 1 - index} - {index}:
                assert not verify_inclusion(leaf, other, size, path, tree)
            for at in range(len(path)):
                forged = [*path[:at], LEAVES[40], *path[at + 1 :]]
                assert not verify_inclusion(leaf, index, size, forged, tree)


def test_an_inner_node_is_not_a_leaf() -> None:
    """A tree of four cannot be shown as a tree of two whose leaves are its inner nodes."""
    left, right = plain_root(LEAVES[:2]), plain_root(LEAVES[2:4])
    assert not verify_inclusion(left, 0, 2, [right], plain_root(LEAVES[:4]))


def test_every_consistency_proof_convinces() -> None:
    """For all pairs of trees of up to 40 leaves, the proof that one begins the other holds."""
    roots = {size: plain_root(LEAVES[:size]) for size in SIZES}
    for new in SIZES:
        for old in range(1, new + 1):
            proof = consistency_proof(LEAVES[:new], old)
            assert verify_consistency(old, new, roots[old], roots[new], proof)
            assert bool(proof) is (old != new)


def test_no_other_consistency_is_proved() -> None:
    """A proof fails for other roots or sizes, with a changed node, and with one more or fewer."""
    roots = {size: plain_root(LEAVES[:size]) for size in SIZES}
    bad = LEAVES[40]
    for new in SIZES:
        for old in range(1, new + 1):
            proof = consistency_proof(LEAVES[:new], old)
            first, last = roots[old], roots[new]
            assert not verify_consistency(old, new, bad, last, proof)
            assert not verify_consistency(old, new, first, bad, proof)
            assert not verify_consistency(old, new, first, last, [*proof, bad])
            assert not verify_consistency(old, new, first, last, [bad, *proof])
            assert not proof or not verify_consistency(old, new, first, last, proof[:-1])
            for at in range(len(proof)):
                forged = [*proof[:at], bad, *proof[at + 1 :]]
                assert not verify_consistency(old, new, first, last, forged)
            for other in {old - 1, old + 1} - {new}:
                assert not verify_consistency(other, new, first, last, proof)
            if old != new:
                assert not verify_consistency(new, old, last, first, proof)
                assert not verify_consistency(old, new, last, first, proof)


def test_a_rewritten_history_is_not_consistent() -> None:
    """A tree whose earlier leaves differ has no proof that it continues the old one."""
    for new in range(2, 41):
        for old in range(1, new):
            rewritten = [LEAVES[40], *LEAVES[1:new]]
            proof = consistency_proof(rewritten, old)
            assert not verify_consistency(old, new, plain_root(LEAVES[:old]), plain_root(rewritten), proof)


@pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0)])
def test_there_is_no_proof_for_a_leaf_that_is_not_there(index: int, size: int) -> None:
    """Asking for a proof outside the tree raises InvalidError."""
    with pytest.raises(InvalidError, match=rf"no leaf {index} in a tree of {size}"):
        inclusion_proof(LEAVES[:size], index)


@pytest.mark.parametrize(("old", "size"), [(0, 3), (4, 3), (-1, 3), (1, 0)])
def test_there_is_no_proof_from_a_tree_that_was_not(old: int, size: int) -> None:
    """Asking for consistency with no tree, or with a later one, raises InvalidError."""
    with pytest.raises(InvalidError, match="no tree of"):
        consistency_proof(LEAVES[:size], old)


@pytest.mark.parametrize(
    ("size", "nodes"), [(-1, []), (1, []), (0, [LEAVES[0]]), (2, [LEAVES[0], LEAVES[1]]), (1, [b"short"])]
)
def test_a_frontier_that_cannot_be_is_refused(size: int, nodes: list[bytes]) -> None:
    """A frontier with the wrong number or length of nodes raises InvalidError."""
    with pytest.raises(InvalidError, match="Merkle frontier"):
        Frontier(size, nodes)
