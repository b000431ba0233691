"""A LangGraph graph on `AdjournSaver` whose process is killed at any instant goes through all its steps, each once in its state.

Short here; ADJOURN_CAMPAIGN=1 kills 200 times.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adjourn.langgraph.saver import task_of
from adjourn.store import SqliteStore
from adjourn.verification.verify import verify_task

KILLS = 200 if os.environ.get("ADJOURN_CAMPAIGN") == "1" else 6
STEPS = 12
PROGRAM = """
import operator, sys, time
from typing import Annotated, TypedDict
from langgraph.graph import END, START, StateGraph
from adjourn.langgraph import AdjournSaver

class State(TypedDict):
    done: Annotated[list[int], operator.add]

def step(state):
    print("in", flush=True)
    time.sleep(0.01)
    return {"done": [len(state["done"])]}

builder = StateGraph(State).add_node("step", step).add_edge(START, "step")
builder.add_conditional_edges("step", lambda state: "step" if len(state["done"]) < int(sys.argv[2]) else END)
with AdjournSaver.from_conn_string("threads.db") as saver:
    graph = builder.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": sys.argv[1]}, "recursion_limit": 1000}
    there = graph.get_state(config)
    print("at", len(there.values.get("done", [])), flush=True)
    done = graph.invoke(None if there.values.get("done") or there.next else {"done": []}, config)
    print("end", done["done"], flush=True)
"""


def begin(folder: Path, thread: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "ADJOURN_CONFIG": str(folder / "config")}
    command = [sys.executable, "-c", PROGRAM, thread, str(STEPS)]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.timeout(7200 if KILLS > 10 else 600)
def test_no_step_is_lost_or_doubled(tmp_path: Path) -> None:
    """Killed inside of a node, while a checkpoint is written, or between two steps; the next process continues from the last one."""
    chance = random.Random(7)
    kills, number = 0, 0
    while kills < KILLS:
        thread = f"t{number}"
        number += 1
        reached, is_over = 0, False
        while not is_over:
            process = begin(tmp_path, thread)
            assert process.stdout is not None
            steps = chance.randrange(1, 5)
            for line in process.stdout:
                word, _, rest = line.strip().partition(" ")
                if word == "at":
                    assert int(rest) >= reached, "a step that was there is gone"
                    reached = int(rest)
                if word == "end":
                    assert rest.strip() == str(list(range(STEPS)))
                    is_over = True
                steps -= word == "in"
                if not steps and kills < KILLS:
                    time.sleep(chance.random() * 0.03)
                    process.kill()
                    kills += 1
                    break
            process.wait()
            process.stdout.close()
    store = SqliteStore(tmp_path / "threads.db")
    for each in range(number):
        assert verify_task(store, task_of(f"t{each}")).tasks[0].findings == []
    store.close()
