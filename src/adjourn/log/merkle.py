"""Merkle trees over event hashes and record versions (RFC 6962 section 2.1; RFC 9162 sections 2.1.3 and 2.1.4).

Owns: the tree hash, the frontier that makes an append O(log n), inclusion and consistency proofs and their checks.
Must never: read a store. Leaves are bytes (for an event: the 32 bytes of its hash).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec

from adjourn.errors import InvalidError


def leaf_hash(leaf: bytes) -> bytes:
    return sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


MAX_LATE = 256
"""Leaves that wait to be hashed: 73 bytes each, in every task that is worked on."""


class Frontier(msgspec.Struct, eq=False):
    """The roots of the perfect subtrees of an append-only tree, largest first: enough to append and to get the root.

    Leaves appended last wait in `late`, unhashed, until the root is asked for: an append costs next to nothing then.
    `size` counts the leaves in `nodes` only.
    """

    size: int = 0
    nodes: list[bytes] = []
    late: list[bytes] = []

    def __post_init__(self) -> None:
        if self.size < 0 or len(self.nodes) != self.size.bit_count() or any(len(node) != 32 for node in self.nodes):
            raise InvalidError(f"a Merkle frontier of {self.size} leaves does not have {len(self.nodes)} nodes")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frontier) and self.root() == other.root() and self.size == other.size

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __len__(self) -> int:
        """The number of leaves."""
        return self.size + len(self.late)

    def __bool__(self) -> bool:
        return True

    def append(self, leaf: bytes) -> None:
        self.late.append(leaf)
        if len(self.late) > MAX_LATE:
            self.settle()

    def settle(self) -> None:
        """Hash the leaves that wait: level by level, and what is left as far up as there is a neighbour."""
        level, size, nodes = [sha256(b"\x00" + leaf).digest() for leaf in self.late], self.size, self.nodes
        self.size += len(level)
        self.late.clear()
        alone = []
        while len(level) > 1:
            if size & 1:
                level.insert(0, nodes.pop())
            if len(level) & 1:
                alone.append(level.pop())
            pairs = zip(level[::2], level[1::2], strict=True)
            level = [sha256(b"\x01" + left + right).digest() for left, right in pairs]
            size >>= 1
        if level:
            (node,) = level
            while size & 1:
                node = sha256(b"\x01" + nodes.pop() + node).digest()
                size >>= 1
            nodes.append(node)
        nodes += reversed(alone)

    def root(self) -> bytes:
        self.settle()
        if not self.nodes:
            return sha256().digest()
        node = self.nodes[-1]
        for left in reversed(self.nodes[:-1]):
            node = node_hash(left, node)
        return node


def root(leaves: Iterable[bytes]) -> bytes:
    """MTH(D[n]) of RFC 6962 section 2.1."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier.root()


def _split(size: int) -> int:
    """The largest power of two smaller than `size` (size >= 2)."""
    return 1 << ((size - 1).bit_length() - 1)


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """PATH(m, D[n]) of RFC 6962 section 2.1.1, nearest sibling first."""
    if not 0 <= index < len(leaves):
        raise InvalidError(f"no leaf {index} in a tree of {len(leaves)}")
    path = []
    low, high = 0, len(leaves)
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(root(leaves[middle:high]))
            high = middle
        else:
            path.append(root(leaves[low:middle]))
            low = middle
    return path[::-1]


def consistency_proof(leaves: Sequence[bytes], old_size: int) -> list[bytes]:
    """PROOF(m, D[n]) of RFC 6962 section 2.1.2: that the first `old_size` leaves are a prefix of all."""
    if not 0 < old_size <= len(leaves):
        raise InvalidError(f"no tree of {old_size} leaves before one of {len(leaves)}")
    proof = []
    low, high, whole = 0, len(leaves), True
    while old_size != high:
        middle = low + _split(high - low)
        if old_size <= middle:
            proof.append(root(leaves[middle:high]))
            high = middle
        else:
            proof.append(root(leaves[low:middle]))
            low, whole = middle, False
    if not whole:
        proof.append(root(leaves[low:high]))
    return proof[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], expected_root: bytes) -> bool:
    """RFC 9162 section 2.1.3.2."""
    if not 0 <= index < size:
        return False
    sides = _sides(index, size - 1, len(path))
    node = leaf_hash(leaf)
    for sibling, left in zip(path, sides or (), strict=False):
        node = node_hash(sibling, node) if left else node_hash(node, sibling)
    return sides is not None and node == expected_root


def _sides(position: int, last: int, count: int) -> list[bool] | None:
    """Whether each of `count` siblings is on the left, on the way up from `position`; None if the way has another length."""
    sides = []
    for _ in range(count):
        if last == 0:
            return None
        left = bool(position & 1) or position == last
        while left and position and not position & 1:
            position >>= 1
            last >>= 1
        sides.append(left)
        position >>= 1
        last >>= 1
    return sides if last == 0 else None


def verify_consistency(old_size: int, new_size: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """RFC 9162 section 2.1.4.2."""
    if old_size == new_size and old_size > 0:
        return not proof and old_root == new_root
    if not 0 < old_size < new_size or not proof:
        return False
    path = list(proof)
    if old_size & (old_size - 1) == 0:
        path.insert(0, old_root)
    position, last = old_size - 1, new_size - 1
    while position & 1:
        position >>= 1
        last >>= 1
    sides = _sides(position, last, len(path) - 1)
    old_node = new_node = path[0]
    for node, left in zip(path[1:], sides or (), strict=False):
        if left:
            old_node = node_hash(node, old_node)
        new_node = node_hash(node, new_node) if left else node_hash(new_node, node)
    return sides is not None and old_node == old_root and new_node == new_root
