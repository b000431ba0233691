"""Types of `adjourn.adapters`, as their users see them. mypy checks this file (`make lint`); nothing runs it."""

from __future__ import annotations

from typing import Any, assert_type

from adjourn.adapters.models import choose
from adjourn.adapters.otlp import Exporter
from adjourn.langgraph import GraphNode, GraphPlan, graph, plan
from adjourn.runs.model import Completion, Model


def models() -> None:
    """Whichever provider is chosen, it is a `Model`, which answers a system prompt and a prompt."""
    model = choose("anthropic:some-model")
    assert_type(model, Model)
    assert_type(model.complete("system", "prompt"), Completion)
    choose(7)  # type: ignore[arg-type]


def exporting(exporter: Exporter) -> None:
    """Spans go to an OTLP endpoint; closing says what could not be sent."""
    exporter.add("run.started", {"agent": "work"}, trace="0" * 32, span="0" * 16)
    assert_type(exporter.close(), str)


def graphs() -> None:
    """A contract as a LangGraph graph, and its plan as plain data."""
    made = plan("task.aex")
    assert_type(made, GraphPlan)
    assert_type(made.nodes, dict[str, GraphNode])
    built: Any = graph("task.aex", root=".")
    print(built)
