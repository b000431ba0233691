"""Effects that may not be repeated, wanted by two doors of one task, a library and a proxy's session, and killed at any moment.

Short here; ADJOURN_CAMPAIGN=1 kills 1,000 times.
"""

from __future__ import annotations

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
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.effect_lookup import EffectCall
from adjourn.knowledge.records.effects import DONE, NOT_DONE
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log.chain import verify_chain
from adjourn.log.event import Actor
from adjourn.store import open_store
from adjourn.tasks.approvals import settle_doubt
from adjourn.tasks.lease import expire_dead_sessions
from adjourn.tasks.task import Task

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
KILLS = 1000 if CAMPAIGN else 30
KILLS_OF_ONE = 25 if CAMPAIGN else 15
"""How many of them one task has to bear."""
ANN = CRAuthor(id="ann", type="human")
PROGRAM = """
import os, random, sys, time
from adjourn.aex import from_text
from adjourn.tasks.session import Session
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.task import Task
from adjourn.tasks import decision as decide; from adjourn.host import keys, process
from adjourn.policy.calls import arguments_digest
from adjourn.clients.client import now
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.effect_lookup import EffectCall
from adjourn.errors import RefusedError
from adjourn.log.kinds import ToolSettled
from adjourn.knowledge.model.record import CRAuthor
from adjourn.store import open_store

folder, first, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
chance = random.Random(seed)
AGENT = CRAuthor(id="agent", type="agent")
POLICY = "policy p v1\\nallow files.append\\nonce files.append by key\\n"
store = open_store(f"{folder}/work.db")
records = RecordTrees(store)
if "line" not in records.ids():
    records.create({"task": {"id": "job", "goal": "append"}}, author=AGENT, cr_id="line")
task = Task(store, "job", clock=now, secret=keys.secret())
session = Session(task, from_text(POLICY, "p")[0], SessionIdentity(process.current(), "group"), policy_text=POLICY.encode())
session.open()
file = os.open(f"{folder}/effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def append(key):
    time.sleep(chance.random() * 0.005)
    os.write(file, f"{key}\\n".encode())
    time.sleep(chance.random() * 0.01)

def happened(effect):
    with open(f"{folder}/effects") as lines:
        return effect["inputs"]["key"] in lines.read().split()

def by_library(key, probe):
    try:
        claim = records.effects.claim("line", EffectCall("files", "append", {"key": key}, key=f"append:{key}"), AGENT, probe=probe)
    except RefusedError:
        return  # a person has to look
    if claim.run:
        append(key)
        records.effects.complete(claim, {"appended": key}, AGENT)

def by_session(key):
    given = {"key": key}
    call = decide.ToolRequest(tool="files.append", digest=arguments_digest(given), arguments="", given=given)
    (admitted,) = session.admit([call])
    if isinstance(admitted.decision, decide.Forward):
        append(key)
        session.settle([ToolSettled(call=admitted.call, outcome="ok")], answers={admitted.call: b'{"content":[]}'})

print("ready", flush=True)
number = first
while True:
    key = f"k{number}"
    door = chance.random()
    if door < 0.5:
        by_session(key)
    else:
        by_library(key, happened if door < 0.75 else None)
    if chance.random() < 0.2 and number > first:  # somebody tries an earlier one again
        by_session(f"k{chance.randrange(first, number)}")
        by_library(f"k{chance.randrange(first, number)}", None)
    number += 1
"""


@pytest.mark.timeout(7200 if CAMPAIGN else 300)
def test_no_effect_is_doubled_and_none_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each kill every key is in the file at most once; once somebody has looked, exactly once, for both doors."""
    chance = random.Random(int(os.environ.get("ADJOURN_SEED", "7")))
    kills = total = doubts = happened = tasks = 0
    while kills < KILLS:
        tasks += 1
        one = _Job(tmp_path / str(tasks), chance, monkeypatch)
        for _ in range(min(KILLS_OF_ONE, KILLS - kills)):
            one.run_and_kill()
            kills += 1
        one.end()
        total, doubts, happened = total + len(one.effects()), doubts + one.doubts, happened + one.happened
    print(f"{kills} kills, {tasks} tasks, {total} effects, {doubts} in doubt, of which {happened} had happened")
    assert doubts


class _Job:
    """One task that is worked on and killed, again and again."""

    def __init__(self, folder: Path, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.chance = folder, chance
        folder.mkdir()
        monkeypatch.setenv("ADJOURN_CONFIG", str(folder / "config"))
        self.doubts = self.happened = self.sittings = self.known = 0

    def effects(self) -> list[str]:
        path = self.folder / "effects"
        return path.read_text().split() if path.exists() else []

    def run_and_kill(self) -> None:
        first = max(0, self.known - 3)
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(self.folder), str(first), str(self.chance.random())],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        if self.chance.random() < 0.9:  # else while it is opening the task
            process.stdout.readline()
        time.sleep(self.chance.random() * 0.25)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        done = self.effects()
        assert max(Counter(done).values(), default=0) <= 1, Counter(done).most_common(3)
        self.known = max([self.known, *(int(key[1:]) + 1 for key in done)])
        if self.chance.random() < 0.5:  # else it is left to a probe of the next sitting
            self.settle()

    def settle(self) -> None:
        """What a person does: examine the file, and say of each effect in doubt whether it happened; through either door."""
        store = open_store(str(self.folder / "work.db"))
        records = RecordTrees(store)
        if "job" in store.streams():
            task = Task(store, "job", clock=now, secret=keys.secret())
            expire_dead_sessions(task)
            for doubt in list(task.ledger.doubts.values()):
                done = any(doubt.digest == EffectCall("", "", {"key": key}).digest for key in self.effects())
                self.doubts, self.happened = self.doubts + 1, self.happened + done
                open_ = [one["id"] for one in records.resolve("line")["questionsForUser"] if one["status"] == "open"]
                question = next((name for name in open_ if f"effect-{doubt.call}." in name), "")
                if question:
                    records.answer_question("line", question, DONE if done else NOT_DONE, ANN)
                else:
                    settle_doubt(task, doubt.call, happened=done, by=Actor("ann", "human"))
            assert not task.refresh().doubts
        store.close()

    def end(self) -> None:
        """Whoever asks now learns that all of it was done, or does what was not."""
        self.settle()
        store = open_store(str(self.folder / "work.db"))
        records, agent = RecordTrees(store), CRAuthor(id="agent", type="agent")
        for number in range(self.known):
            key = f"k{number}"
            call = EffectCall("files", "append", {"key": key}, key=f"append:{key}")
            claim = records.effects.claim("line", call, agent)
            assert claim.run is (key not in self.effects())
            if claim.run:
                with (self.folder / "effects").open("a") as file:
                    file.write(f"{key}\n")
                records.effects.complete(claim, None, agent)
        assert Counter(self.effects()) == {f"k{number}": 1 for number in range(self.known)}
        assert verify_chain(store.read("job")).valid
        assert records.verify_chain("line").valid
        store.close()
