"""adjourn for LangGraph: contracts as graphs, and a checkpointer.

`graph` and `plan` make a graph of a contract. `AdjournSaver` keeps the checkpoints of any graph in a store of adjourn. LangGraph itself is
loaded when one of them is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjourn.langgraph.graphs import BEGIN, GraphInput, GraphNode, GraphOutput, GraphPlan, GraphState, graph, plan

if TYPE_CHECKING:
    from adjourn.langgraph.saver import AdjournSaver

__all__ = [
    "BEGIN",
    "AdjournSaver",
    "GraphInput",
    "GraphNode",
    "GraphOutput",
    "GraphPlan",
    "GraphState",
    "graph",
    "plan",
]


def __getattr__(name: str) -> Any:
    if name != "AdjournSaver":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from adjourn.langgraph.saver import AdjournSaver

    return AdjournSaver
