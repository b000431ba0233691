"""A LangGraph graph on `AdjournSaver` whose process is killed at any instant: no step is lost, and no effect happens twice.

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

from adjourn.langgraph.thread import task_of
from adjourn.store import SqliteStore
from adjourn.verification.verify import verify_task

KILLS = 200 if os.environ.get("ADJOURN_CAMPAIGN") == "1" else 6
STEPS = 12
PROGRAM = """
import operator, sys, time
from contextlib import suppress
from typing import Annotated, TypedDict
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from adjourn.langgraph import AdjournSaver

class State(TypedDict):
    done: Annotated[list[int], operator.add]

def sent():
    with suppress(FileNotFoundError), open(sys.argv[1] + ".log") as log:
        return log.read().split()
    return []

def step(state, config: RunnableConfig):
    print("in", flush=True)
    number = len(state["done"])
    happened = lambda effect: str(number) in sent()
    with saver.effect(config, "mail", "send", {"number": number}, key=f"mail {number}", probe=happened) as effect:
        time.sleep(0.005)
        if effect.run:
            with open(sys.argv[1] + ".log", "a") as log:
                print(number, file=log)
            time.sleep(0.005)
            effect.outputs = {"number": number}
    return {"done": [effect.outputs["number"] if effect.outputs else number]}

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
    with (folder / "stderr").open("w") as errors:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)


@pytest.mark.timeout(7200 if KILLS > 10 else 600)
def test_no_step_is_lost_and_no_effect_doubled(tmp_path: Path) -> None:
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
            code = process.wait()
            process.stdout.close()
            assert code in (0, -9), (tmp_path / "stderr").read_text()
    store = SqliteStore(tmp_path / "threads.db")
    for each in range(number):
        assert (tmp_path / f"t{each}.log").read_text().split() == [str(step) for step in range(STEPS)]
        assert verify_task(store, task_of(f"t{each}")).tasks[0].findings == []
    store.close()
