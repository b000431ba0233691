"""A proxy under load is killed at random times, again and again: nothing answered is forgotten, nothing is uncounted, and what the
next session starts from is whole: the newest checkpoint and its page.

The load crosses thresholds of budgets, spends them, and destroys things, so checkpoints are made all the time.

Short here; ADJOURN_CAMPAIGN=1 kills 1,000 times.
"""

from __future__ import annotations

import os
import queue
import random
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from adjourn.checkpoints import folder, folder_verification, page_files
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.chain import verify_chain
from adjourn.log.event import GENESIS, Event, decode
from adjourn.log.kinds import CheckpointCreated, ToolAllowed, ToolSettled, data_of, facts_of
from adjourn.store import Store
from adjourn.tasks.ledger import Ledger
from adjourn.verification.verify import verify_task
from support.proxy import ERAS, Client, Message, ProxyWorkspace, decoded, text_of

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
KILLS = 1000 if CAMPAIGN else 20
KILLS_A_TASK = 25 if CAMPAIGN else 10
WINDOW = 12
WISH = "aex.checkpoint"
TOOLS = ("echo",) * 8 + ("file.read",) * 4 + ("slow", "slow", "fail", "error", "deploy.run", "shell.exec", WISH)
DESTRUCTIVE = {"fail": "fail", "deploy.run": "deploy.run: deploy", "shell.exec": "shell.exec: rm"}
"""And how the triggers name them: the policy names one, another's name tells, the third's command."""


class Round(NamedTuple):
    """One life of a proxy: the calls that were answered, those the budget had no room for, those without an answer. By number,
    with the tool.
    """

    answered: dict[int, str]
    refused: dict[int, str]
    in_flight: dict[int, str]


class Figures:
    """The outcome of all lives together."""

    def __init__(self) -> None:
        self.calls = self.answers = self.refusals = self.doubts = self.most = self.pages = self.checkpoints = 0

    def __str__(self) -> str:
        return (
            f"{self.calls} calls counted, {self.answers} answered, {self.refusals} refused by a spent budget, {self.doubts} in "
            f"doubt (at most {self.most} after one kill), {self.checkpoints} checkpoints, {self.pages} pages read"
        )


def _arguments(number: int, tool: str) -> Message:
    if tool == WISH:
        return {"name": "wished", "description": f"as of {number}"}
    more: dict[str, Message] = {"slow": {"seconds": 0.02}, "shell.exec": {"command": "rm -rf build"}}
    return {"n": number} | more.get(tool, {})


def _work_until_killed(client: Client, chooser: random.Random, number: int) -> Round:
    """Keep a window of calls in flight until the time is up, then kill. Numbers make every call's arguments unique."""
    client.tools()
    life = Round({}, {}, {})
    until = time.monotonic() + chooser.uniform(0, 0.3)
    while time.monotonic() < until:
        while len(life.in_flight) < WINDOW and chooser.random() < 0.9:
            number += 1
            tool = life.in_flight[number] = chooser.choice(TOOLS)
            params: Message = {"name": tool, "arguments": _arguments(number, tool)}
            client.post(client.message("tools/call", params, request_id=f"k{number}"))
        try:
            _take(client.line(0.005), life)
        except queue.Empty:
            continue
    client.kill()
    while (line := client.line()) is not None:
        if line.endswith(b"\n"):
            _take(line, life)
    return life


def _take(line: bytes | None, life: Round) -> None:
    assert line is not None
    body = decoded(line)
    number = int(body["id"][1:])
    tool = life.in_flight.pop(number)
    assert "result" in body or tool == "error", body
    spent = "result" in body and "budget exhausted" in text_of(body).lower()
    (life.refused if spent else life.answered)[number] = tool


class _Watch:
    """One task, over all lives that work on it: what its chain says, against what the client was answered."""

    def __init__(self, work: ProxyWorkspace, task: str) -> None:
        self.work, self.task = work, task
        self.head, self.events = GENESIS, list[Event]()
        self.allowed: dict[str, ToolAllowed] = {}
        self.settled: set[str] = set()
        self.checkpoints: dict[str, tuple[int, CheckpointCreated]] = {}
        self.needed = -1
        """The position of the last checkpoint whose page has to be there, since what waited for it continued."""
        self.executed = len(work.executed())
        self.doubts = 0
        self.wished: set[str] = set()
        """The names of checkpoints that were confirmed."""

    def ledger(self) -> Ledger:
        return self.work.ledger(self.task)

    def look(self, life: Round, figures: Figures) -> None:
        with self.work.store() as store, self.work._config():
            if self.task not in store.streams():
                assert not life.answered
                return
            if not self._read(store):
                assert not life.answered  # it was killed before it did anything
                return
            assert verify_task(store, self.task).findings == []
        self._check_calls(life, figures)
        self._check_pages()
        figures.pages += self._check_newest()

    def _read(self, store: Store) -> bool:
        """Take in what the chain says since; whether it says anything."""
        entries = list(store.read(self.task, len(self.events)))
        result = verify_chain(entries, after=self.head)
        assert result.valid
        self.head = result.head
        before = -1
        for entry in entries:
            event = decode(entry.data)
            self.events.append(event)
            for data in map(data_of, facts_of(event)):
                if isinstance(data, ToolAllowed):
                    self.allowed[data.digest] = data
                    self.needed = max(self.needed, before if data.tool in DESTRUCTIVE else -1)
                elif isinstance(data, ToolSettled):
                    self.settled.add(data.call)
                elif isinstance(data, CheckpointCreated):
                    self.checkpoints[entry.hash] = event.seq, data
                    before = event.seq if data.trigger.startswith("before ") else before
        return bool(entries)

    def _check_calls(self, life: Round, figures: Figures) -> None:
        for number, tool in life.answered.items():
            if tool == WISH:
                wishes = [seq for seq, made in self.checkpoints.values() if made.description == f"as of {number}"]
                assert len(wishes) == 1  # the checkpoint that was confirmed is there
                self.needed = max(self.needed, *wishes)
                self.wished.add("wished")
                continue
            fact = self.allowed[digest(canonical(_arguments(number, tool)))]
            assert (fact.tool, fact.effectful) == (tool, tool != "file.read")
            assert fact.call in self.settled or not fact.effectful
            if tool in DESTRUCTIVE:
                self._check_made_after(fact)
        for number, tool in life.refused.items():
            assert digest(canonical(_arguments(number, tool))) not in self.allowed
        ledger = self.ledger()
        executed = len(self.work.executed()) - self.executed
        assert ledger.calls_used == len(self.allowed) >= executed
        open_now = [call for call in ledger.open_calls.values() if call.effectful]
        assert len(open_now) <= len([tool for tool in life.in_flight.values() if tool not in ("file.read", WISH)])
        assert len(ledger.doubts) == self.doubts  # those of this life are shown by the next one
        self.doubts += len(open_now)
        figures.answers += len(life.answered)
        figures.refusals += len(life.refused)
        figures.doubts += len(open_now)
        figures.most = max(figures.most, len(open_now))

    def _check_made_after(self, fact: ToolAllowed) -> None:
        """The checkpoint after a destructive call was there before its answer was."""
        word = "failed" if fact.tool == "fail" else "after"
        at = next(n for n, event in enumerate(self.events) if fact.call.encode() in bytes(event.data))
        what = DESTRUCTIVE[fact.tool]
        triggers = f"{word} {what}", f"{word} echo.{what}"  # with the server's name, once it has told that
        made = [seq for seq, data in self.checkpoints.values() if data.trigger in triggers]
        assert [seq for seq in made if seq > at]
        self.needed = max(self.needed, next(seq for seq in made if seq > at))

    def _check_pages(self) -> None:
        """Every page there can be read, and says what its checkpoint's event says."""
        found = page_files.search(str(self.work.root), task=self.task)
        assert found.broken == []
        for page in found.pages:
            seq, made = self.checkpoints[page.id]
            assert (page.seq, page.machine["trigger"]) == (seq, made.trigger)
            assert page.page.iterations_used == page.machine["used"]
            assert not page.reading.edited
        assert len([page for page in found.pages if page.is_active]) <= 1

    def _check_newest(self) -> int:
        """What the next session starts from: the newest page, no older than it may be, and folders that hold together."""
        root = str(self.work.root)
        with self.work._config():
            for name in folder.names(root):
                there = (self.work.root / ".aex" / "checkpoints" / name / folder.JSON_FILE).exists()
                assert there or name not in self.wished  # it is written last
                if there:
                    assert folder_verification.verify_named(root, name)
        newest = page_files.find_active(root, self.task)
        if newest is None:
            assert self.needed < 0
            return 0
        assert newest.is_active
        assert newest.seq >= self.needed
        return 1


@pytest.mark.timeout(7200 if CAMPAIGN else 300)
def test_kills_at_any_time_lose_nothing_that_was_answered_and_refund_nothing(tmp_path: Path) -> None:
    """After a kill at any moment, each answered call is in the history and no used call is given back."""
    chooser = random.Random(int(os.environ.get("ADJOURN_SEED", "11")))
    figures, number = Figures(), 0
    tasks = [f"kill-{n}" for n in range((KILLS + KILLS_A_TASK - 1) // KILLS_A_TASK)]
    with ProxyWorkspace(tmp_path, version="v1") as work:
        for task in tasks:
            watch = _Watch(work, task)
            for kill in range(min(KILLS_A_TASK, KILLS)):
                used = len(watch.allowed)
                work.write_policy(
                    "allow *",
                    "checkpoint before fail, at 50%, 75%, 90%",
                    f"budget calls={used + chooser.randint(10, 90)}",
                    goal=task,  # a task of the same goal would start the spent one over
                )
                client = work.client("--task", task, era=ERAS[kill % 3], name=f"client-{kill % 2}")
                life = _work_until_killed(client, chooser, number)
                work.clients.clear()
                number = max([number, *life.answered, *life.refused, *life.in_flight])
                watch.look(life, figures)
            _end(watch, figures)
        assert work.tasks() == sorted(tasks)
        print(f"{KILLS} kills, {len(work.executed())} executed upstream, {figures}")


def _end(watch: _Watch, figures: Figures) -> None:
    """The next session reports every call in doubt, once; then everything is closed."""
    watch.work.write_policy("allow *", goal=watch.task)
    client = watch.work.client("--task", watch.task)
    client.call("echo", {"last": True})
    assert client.close() == 0
    client.kill()  # of what is left: our ends of its pipes
    ledger = watch.ledger()
    assert len(ledger.doubts) == watch.doubts
    assert not ledger.sessions
    assert not ledger.open_calls
    assert ledger.calls_used == len(watch.allowed) + 1
    assert watch.work.events(watch.task)[-1].seq == ledger.seq
    figures.calls += ledger.calls_used
    figures.checkpoints += len(watch.checkpoints)
