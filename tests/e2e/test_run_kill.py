"""A run is killed at random times, again and again: no effect is doubled, no finished step is run again, it ends.

Short here; ADJOURN_CAMPAIGN=1 kills 500 times.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from adjourn.host import keys
from adjourn.host.clock import now
from adjourn.host.workspace_store import open_at
from adjourn.log.chain import verify_chain
from adjourn.log.event import Actor, decode
from adjourn.log.kinds import Data, RunFinished, ToolAllowed, ToolResult, data_of, facts_of
from adjourn.tasks.approvals import settle_doubt
from adjourn.tasks.lease import expire_dead_sessions
from adjourn.tasks.task import Task
from support.processes import works_in
from support.proxy import wait_for

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
KILLS = 500 if CAMPAIGN else 30
TURNS = 100 if CAMPAIGN else 60
PERSON = Actor("ann", "human")
APPEND = 'echo "$1" >> effects\n'
POLICY = """policy work v0
goal "count"
allow file.read, file.write, tests.run:sh append.sh*
budget calls=100000
"""
CONTRACT = """task count v0
goal "append each item once"
use file.read, file.write, tests.run
need items: list[json]
for item in items
  do file.read(paths="append.sh") -> script
  if item.even
    do tests.run(cmd=item.cmd) -> even
    check script does not include "nothing"
  do file.write(path=item.file, contents=item.file)
  do tests.run(cmd=item.cmd2) -> last
return {count: items}
"""


def _workspace(root: Path) -> dict[str, str]:
    (root / ".aex").mkdir(parents=True)
    (root / ".aex" / "policy.aex").write_text(POLICY)
    (root / "append.sh").write_text(APPEND)
    (root / "count.aex").write_text(CONTRACT)
    items = [
        {
            "even": turn % 2 == 0,
            "cmd": f"sh append.sh even-{turn}",
            "cmd2": f"sh append.sh last-{turn}",
            "file": f"out/{turn}.txt",
        }
        for turn in range(TURNS)
    ]
    (root / "inputs.json").write_text(json.dumps({"items": items}))
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ADJOURN_")}
    return kept | {"ADJOURN_CONFIG": str(root.parent / "config")}


def _effects(root: Path) -> list[str]:
    path = root / "effects"
    return path.read_text().split() if path.exists() else []


def _settle(root: Path) -> tuple[int, int]:
    """What a person does after a kill: examine the file, and say of each call in doubt whether it happened."""
    store = open_at(str(root))
    try:
        task = Task(store, "count", clock=now, secret=keys.secret())
        expire_dead_sessions(task)
        doubts = list(task.ledger.doubts.values())
        happened = 0
        for doubt in doubts:
            arguments = json.loads(doubt.arguments)
            if doubt.tool == "tests.run":
                done = arguments["cmd"].split()[-1] in _effects(root)
            else:
                done = (root / arguments["path"]).exists()
            happened += done
            settle_doubt(task, doubt.call, happened=done, by=PERSON)
        return len(doubts), happened
    finally:
        store.close()


def _facts(root: Path) -> list[Data | None]:
    store = open_at(str(root))
    try:
        entries = list(store.read("count"))
        assert verify_chain(entries).valid
        return [data_of(fact) for entry in entries for fact in facts_of(decode(entry.data))]
    finally:
        store.close()


class Round:
    """One run from its start to its end, with kills as long as there are some left."""

    def __init__(self, path: Path, chooser: random.Random, kills_left: int) -> None:
        self.path, self.root = path, path / "work"
        self.environment = _workspace(self.root)
        self.kills = self.doubts = self.happened = 0
        self._chooser, self._left = chooser, kills_left
        arguments = ["count.aex", "--inputs", "inputs.json", "--task", "count"]
        while (code := self._sitting(arguments)) == -signal.SIGKILL:
            self.kills += 1
            wait_for(lambda: not works_in(self.root))  # what it had started may still be finishing
            if (self.root / ".aex" / "adjourn.db").exists() and _started(self.root):
                found, done = _settle(self.root)
                self.doubts, self.happened = self.doubts + found, self.happened + done
                arguments = ["--resume", "--task", "count"]
        told = (path / "output").read_text()
        assert code == 0, told
        assert "runtime success" in told

    def _sitting(self, arguments: list[str]) -> int:
        place = self.path / "output"
        with place.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "adjourn", "run", *arguments],
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            if self.kills < self._left:
                while process.poll() is None and not place.stat().st_size:
                    time.sleep(0.005)  # what it prints first is its first event
                time.sleep(self._chooser.uniform(0, 0.12))
                process.kill()
            return process.wait(120)


def test_kills_at_any_time_double_no_effect_and_repeat_no_finished_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each effect is there exactly once in the end, each step has one result, and the budget counts every attempt."""
    chooser = random.Random(int(os.environ.get("ADJOURN_SEED", "7")))
    kills = doubts = happened = rounds = counted = 0
    while kills < KILLS:
        rounds += 1
        monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / str(rounds) / "config"))
        one = Round(tmp_path / str(rounds), chooser, KILLS - kills)
        kills, doubts, happened = kills + one.kills, doubts + one.doubts, happened + one.happened

        expected = [f"even-{turn}" for turn in range(0, TURNS, 2)] + [f"last-{turn}" for turn in range(TURNS)]
        assert Counter(_effects(one.root)) == Counter(expected)
        assert all((one.root / f"out/{turn}.txt").read_text() == f"out/{turn}.txt" for turn in range(TURNS))
        facts = _facts(one.root)
        results = [fact for fact in facts if isinstance(fact, ToolResult)]
        allowed = [fact for fact in facts if isinstance(fact, ToolAllowed)]
        assert max(Counter(fact.step for fact in results).values()) == 1
        assert len(results) == TURNS * 3 + (TURNS + 1) // 2
        assert len(allowed) >= len(results)
        assert [fact.status for fact in facts if isinstance(fact, RunFinished)] == ["success"]
        counted += len(allowed)
    print(
        f"{kills} kills of {rounds} runs, {doubts} calls in doubt, of which {happened} had happened; {counted} calls counted"
    )


def _started(root: Path) -> bool:
    store = open_at(str(root))
    try:
        return "count" in store.streams()
    finally:
        store.close()
