"""Threads of LangGraph: what a turn and reading the state cost on `AdjournSaver` and on `SqliteSaver`, and the bytes that are left.

The same graph answers the same messages on both, in turns. Its node does nothing: all that is timed is LangGraph and the checkpointer.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sizes import Sizes
from tables import Table, median

WORDS = [
    "release", "the", "state", "of", "invoices", "table", "fails", "since", "migration", "was", "not", "applied", "please", "check", "whether",
    "a", "rollback", "is", "needed", "and", "write", "tests", "for", "rounding", "in", "tax", "rates", "before", "we", "deploy",
]  # fmt: skip
READS = 15
"""How often the state is read at the end."""


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; files are made in `folder`."""
    table = Table(
        "LangGraph: a thread",
        [
            "checkpointer, bytes of a message",
            "turn p50, ms",
            "all turns, s",
            "get_state p50, ms",
            "file, bytes",
            "of the messages",
        ],
        note=f"{sizes.thread_turns} turns of a message and an answer. SqliteSaver stores all messages again at each of its three checkpoints. The last column "
        "is the file's size by that of the messages as LangGraph serialises them. One process, files on one disk, turns interleaved.",
    )
    for size in sizes.thread_messages:
        place = Path(folder, str(size))
        place.mkdir(parents=True)
        for row in _rows(place, sizes.thread_turns, size):
            table.add(*row)
    return [table]


def _rows(place: Path, turns: int, size: int) -> list[tuple[str, float, float, float, int, float]]:
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver

    from adjourn.langgraph import AdjournSaver

    texts = [_text(number, size) for number in range(2 * turns)]
    config: Any = {"configurable": {"thread_id": "t"}}
    seconds: dict[str, list[float]] = {}
    reading: dict[str, list[float]] = {}
    with ExitStack() as stack:
        savers = {
            "SqliteSaver": stack.enter_context(SqliteSaver.from_conn_string(str(place / "SqliteSaver"))),
            "AdjournSaver": stack.enter_context(AdjournSaver.from_conn_string(str(place / "AdjournSaver"))),
        }
        graphs = {name: _graph(saver, texts) for name, saver in savers.items()}
        for turn in range(turns):
            for name in list(graphs)[:: -1 if turn % 2 else 1]:
                message = HumanMessage(texts[2 * turn], id=f"h{turn}")
                began = time.perf_counter()
                graphs[name].invoke({"messages": [message]}, config)
                seconds.setdefault(name, []).append(time.perf_counter() - began)
        for _ in range(READS):
            for name, graph in graphs.items():
                began = time.perf_counter()
                state = graph.get_state(config).values["messages"]
                reading.setdefault(name, []).append(time.perf_counter() - began)
                assert len(state) == 2 * turns
        whole = sum(len(JsonPlusSerializer().dumps_typed(message)[1]) for message in state)
    sizes_ = {name: sum(os.path.getsize(path) for path in place.glob(f"{name}*")) for name in graphs}
    return [
        (
            f"{name}, {size:,}",
            median(seconds[name]) * 1e3,
            sum(seconds[name]),
            median(reading[name]) * 1e3,
            sizes_[name],
            sizes_[name] / whole,
        )
        for name in graphs
    ]


def _graph(saver: Any, texts: list[str]) -> Any:
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    def model(state: MessagesState) -> dict[str, Any]:
        number = len(state["messages"])
        return {"messages": [AIMessage(texts[number], id=f"a{number}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def _text(number: int, size: int) -> str:
    chance = random.Random(number)
    words = chance.choices(WORDS, k=size // 4)
    return f"{number} {' '.join(words)}"[:size]
