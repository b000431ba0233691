"""Growth: the bytes that the same calls leave in files, of `adjourn proxy` and of LangGraph's checkpointers.

Nothing is timed. An agent of LangGraph makes its calls in parallel, one step for all calls of a turn, as its tool node does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from peer import ADJOURN, ARGUMENTS
from relays import EFFECTFUL, READING, UPSTREAM, Relay, started
from sizes import Sizes
from tables import Table

ANSWER = "x" * 200
"""What a tool returns to an agent of LangGraph. The proxy stores no answers."""


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; files are made in `folder`."""
    turns, calls = sizes.growth_turns, sizes.growth_calls
    table = Table(
        "Growth: the files after so many calls",
        ["", "bytes", "bytes a call"],
        f"{turns * calls:,} calls in {turns} turns. Of LangGraph, the messages with the calls and their answers of {len(ANSWER)} bytes are "
        "included. Of adjourn, each call is an entry of the history: tool, digest of the arguments, decision, outcome, time; the folder of the "
        "session's checkpoint has the history once more.",
    )
    for name, work in _subjects(turns, calls).items():
        place = Path(folder, f"growth {name}")
        place.mkdir()
        work(place)
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file() and "config" not in path.parts)
        table.add(name, size, size / (turns * calls))
    return [table]


def _subjects(turns: int, calls: int) -> dict[str, Callable[[Path], None]]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    from adjourn.langgraph import AdjournSaver

    def proxied(place: Path, tool: str, in_flight: int) -> None:
        with started(str(place), "work", Relay((ADJOURN, "proxy", "--", *UPSTREAM))) as peer:
            for _ in range(turns):
                if in_flight == 1:
                    peer.sequential(tool, calls)
                else:
                    peer.pipelined(tool, calls, in_flight)

    def saved(place: Path, saver: Any) -> None:
        with saver.from_conn_string(str(place / "store")) as open_saver:
            _converse(open_saver, turns, calls)

    return {
        "adjourn proxy, readings, one by one": lambda place: proxied(place, READING, 1),
        "adjourn proxy, readings, in parallel": lambda place: proxied(place, READING, calls),
        "adjourn proxy, effects": lambda place: proxied(place, EFFECTFUL, calls),
        "LangGraph, AdjournSaver": lambda place: saved(place, AdjournSaver),
        "LangGraph, SqliteSaver": lambda place: saved(place, SqliteSaver),
    }


def _converse(saver: Any, turns: int, calls: int) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langgraph.graph import START, MessagesState, StateGraph

    def model(state: MessagesState) -> dict[str, Any]:
        number = len(state["messages"])
        asked = [{"name": READING, "args": ARGUMENTS, "id": f"{number}-{call}"} for call in range(calls)]
        return {"messages": [AIMessage("", id=f"a{number}", tool_calls=asked)]}

    def tools(state: MessagesState) -> dict[str, Any]:
        asked = state["messages"][-1].tool_calls  # type: ignore[union-attr]  # `model` made it
        return {"messages": [ToolMessage(ANSWER, id=f"t{call['id']}", tool_call_id=call["id"]) for call in asked]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", tools)
    builder.add_edge(START, "model")
    builder.add_edge("model", "tools")
    graph = builder.compile(checkpointer=saver)
    for turn in range(turns):
        graph.invoke({"messages": [HumanMessage(f"turn {turn}", id=f"h{turn}")]}, {"configurable": {"thread_id": "t"}})
