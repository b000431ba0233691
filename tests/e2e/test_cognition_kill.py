"""A cognitive session whose process is killed at any moment has all that was acknowledged, and continues."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from adjourn import CognitiveStore, open_store

PROGRAM = """
import sys
from adjourn import CognitiveStore, open_store
memory = CognitiveStore(open_store(sys.argv[1]), "job", goal="ship it")
while True:
    number = memory.session["totalMetrics"]["requestCount"] + 1
    memory.update_from_response(f"FACT: number {number}", every=3)
    print(number, flush=True)
"""
KILLS = 5


def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    """After SIGKILL at random moments every answer is there, once and in order, and every checkpoint can be restored."""
    path = tmp_path / "work.db"
    chance = random.Random(7)
    acknowledged = 0
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        first = int(process.stdout.readline())
        assert first in (acknowledged + 1, acknowledged + 2)  # one answer may be written and not yet told
        time.sleep(chance.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        told = process.stdout.read().split("\n")[:-1]
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        acknowledged = int(told[-1]) if told else first
    store = open_store(str(path))
    memory = CognitiveStore(store, "job")
    facts = [fact["content"] for fact in memory.session["workingState"]["epistemicState"]["facts"]]
    assert len(facts) in (acknowledged, acknowledged + 1)
    assert facts == [f"number {number}" for number in range(1, len(facts) + 1)]
    made = memory.checkpoint_ids()
    assert len(made) == len(facts) // 3
    for number, name in enumerate(made, 1):
        checkpoint = memory.get_checkpoint(name)
        assert checkpoint is not None
        assert len(checkpoint["epistemicState"]["facts"]) == number * 3
    memory.restore_from_checkpoint(made[0])
    store.close()


CHANGES = 40
CHANGING = """
import sys
from adjourn import CognitiveStore, open_store
memory = CognitiveStore(open_store(sys.argv[1]), "job")
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    def knowing(state, now):
        name = f"{sys.argv[2]}-{number}"
        fact = {"id": name, "content": name, "source": "test", "confidence": 1}
        mind = state["epistemicState"]
        return {**state, "epistemicState": {**mind, "facts": [*mind["facts"], fact]}}
    memory.change(knowing)
"""


def test_two_processes_that_change_one_session_at_once_lose_nothing(tmp_path: Path) -> None:
    """Each change is made on the newest state, whoever wrote it: all are there, those of one process in their order."""
    path = tmp_path / "work.db"
    store = open_store(str(path))
    CognitiveStore(store, "job", goal="ship it")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CHANGING, str(path), name, str(CHANGES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.communicate("go\n", timeout=60)
        assert process.returncode == 0
    facts = CognitiveStore(store, "job").session["workingState"]["epistemicState"]["facts"]
    names = [fact["content"] for fact in facts]
    store.close()
    for name in ("a", "b"):
        assert [one for one in names if one.startswith(name)] == [f"{name}-{n}" for n in range(CHANGES)]
    assert len(names) == 2 * CHANGES
