"""A lookup of another principal's work: its answer, and what it costs, are those of work that never was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adjourn.errors import NotFoundError
from adjourn.policy.principal import KEY_CHARACTERS, Principal, SpaceStore, checkpoint_ref, space_of
from adjourn.store import EMPTY, Append, Entry, MemoryStore, Store

ANN, BOB = (Principal(id=f"key:{name}", name=name, type="human") for name in ("ann", "bob"))
THEIRS = space_of(ANN).named("release")
NEVER = f"nothing{THEIRS[-KEY_CHARACTERS - 1 :]}"
"""Of Ann's space, too, but nobody has begun it."""
ENTRY = Entry("a" * 64, b"{}")


class Asked(MemoryStore):
    """Keeps by which methods it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.methods: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in Store.__abstractmethods__:
            self.methods.append(name)
        return super().__getattribute__(name)


@pytest.fixture
def below() -> Asked:
    store = Asked()
    checkpoint = checkpoint_ref("half", THEIRS)
    SpaceStore(store, space_of(ANN)).append(
        THEIRS, [ENTRY], expect=EMPTY, refs={f"lease/{THEIRS}": "held", "checkpoint/half": f"{THEIRS} 1"}
    )
    assert store.refs() == {f"lease/{THEIRS}": "held", checkpoint: f"{THEIRS} 1"}
    return store


def _append(store: Store, task: str) -> str:
    with pytest.raises(NotFoundError) as refused:
        store.append(task, [ENTRY], expect=EMPTY)
    with pytest.raises(NotFoundError):
        store.append_many([Append(task, [ENTRY], EMPTY)])
    return str(refused.value).replace(task, "TASK")


LOOKUPS: dict[str, Callable[[Store, str], object]] = {
    "the head of its history": lambda store, task: store.head(task),
    "its history": lambda store, task: list(store.read(task)),
    "the head of its record": lambda store, task: store.head(f"record/{task}"),
    "a change of it": lambda store, task: store.watch(task, EMPTY, 0.0),
    "its lease": lambda store, task: store.ref(f"lease/{task}"),
    "its refs": lambda store, task: store.refs(f"lease/{task}"),
    "its checkpoint by the ref below": lambda store, task: store.ref(checkpoint_ref("half", task)),
    "more to its history": _append,
}


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_lookup_of_anothers_task_is_one_of_none(below: Asked, lookup: str) -> None:
    """Whatever is asked for by its id: the store below is asked the same, and the answer is the same."""
    store, ask = SpaceStore(below, space_of(BOB)), LOOKUPS[lookup]
    found = []
    for task in (THEIRS, NEVER):
        below.methods.clear()
        found.append((ask(store, task), tuple(below.methods)))
    assert found[0] == found[1]


def test_names_of_another_are_free(below: Asked) -> None:
    """Bob finds no checkpoint of the name that Ann's has, lists none, and may use the name; hers stays."""
    store = SpaceStore(below, space_of(BOB))
    assert store.ref("checkpoint/half") is None
    assert store.refs("checkpoint/") == {}
    assert store.streams() == {}
    mine = space_of(BOB).named("release")
    store.append(mine, [ENTRY], expect=EMPTY, refs={"checkpoint/half": f"{mine} 1"})
    assert store.refs("checkpoint/") == {"checkpoint/half": f"{mine} 1"}
    assert SpaceStore(below, space_of(ANN)).ref("checkpoint/half") == f"{THEIRS} 1"
