"""Cognitive sessions with a clock of their own, and short ways to change and to read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjourn.knowledge.cognition.store import CognitiveStore, SessionOptions
from adjourn.knowledge.model.cognition import CognitiveSession
from adjourn.knowledge.model.documents import Tree
from adjourn.store import Store
from support.clock import Clock

START = 1_800_000_000_000


def opened(store: Store, session: str = "job", **options: Any) -> CognitiveStore:
    made = SessionOptions(clock=options.pop("clock", None) or Clock(START, step=1))
    return CognitiveStore(store, session, **{"goal": "ship it", "triggers": (), "options": made, **options})


def with_nodes(*nodes: Tree) -> Callable[[Tree, int], Tree]:
    return lambda state, _now: {**state, "nodes": list(nodes)}


def contents(session: Tree | CognitiveSession) -> list[str]:
    return [fact["content"] for fact in session["workingState"]["epistemicState"]["facts"]]
