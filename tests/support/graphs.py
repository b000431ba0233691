"""Graphs of contracts for LangGraph, over the runtime of a test."""

from __future__ import annotations

from typing import Any

from adjourn.langgraph import BEGIN, graph
from support.runs import Bench


def made(bench: Bench, *lines: str, use: str = "*, tests.run", **more: Any) -> Any:
    """The graph of a contract with these lines, with the bench's tools."""
    settings: dict[str, Any] = {
        "tools": bench.tools,
        "emit": lambda name, data: bench.events.append((name, data)),
    } | more
    return graph(bench.contract(*lines, use=use), root=str(bench.root), **settings)


def visited(built: Any, **given: Any) -> list[str]:
    """The nodes that an invocation goes through, without the one before the first step."""
    names = [name for update in built.stream({"inputs": given}, stream_mode="updates") for name in update]
    assert names[0] == BEGIN
    return names[1:]
