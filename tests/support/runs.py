"""A workspace in which contracts are run in process, with tools and a person that the test provides."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adjourn.host import keys
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.log.event import Actor, decode
from adjourn.runs.model import Completion
from adjourn.runs.runner import Options, RunOutcome
from adjourn.runs.start import resume_run, start_run
from adjourn.runs.step_calls import Stop
from adjourn.runs.tools import Arguments, Tool
from adjourn.tasks.approvals import answer, settle_doubt
from adjourn.tasks.entries import Approval
from adjourn.tasks.lease import expire_dead_sessions
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task
from support.clock import Clock
from support.kills import Killed

ANN = Actor("ann", "human")


class Bench:
    """A workspace with a policy, tools of its own, and a person who says what the test wants."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root / "work"
        self.patch = patch
        (self.root / ".aex").mkdir(parents=True)
        patch.setenv("ADJOURN_CONFIG", str(root / "config"))
        patch.setattr(os, "fsync", lambda _handle: None)
        self.clock = Clock()
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[Approval] = []
        self.says: bool | None = True
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.tools: dict[str, Tool] = {}
        self.model: Any = None
        self.policy("allow *", "allow tests.run:*")
        for name in ("note.add", "note.list", "net_work/get"):
            self.tool(name, lambda given: {"given": given})

    def policy(self, *lines: str) -> None:
        text = "\n".join(["policy work v0", 'goal "do it"', *lines, ""])
        (self.root / ".aex" / "policy.aex").write_text(text)

    def tool(self, name: str, run: Callable[[Any], Any], *, effectful: bool = True) -> None:
        def called(given: Arguments) -> Any:
            self.calls.append((name, dict(given)))
            return run(given)

        self.tools[name] = Tool(run=called, effectful=effectful)

    def contract(self, *lines: str, use: str = "*, tests.run", name: str = "task.aex") -> str:
        text = "\n".join(["task work v0", 'goal "do it"', f"use {use}", *lines, ""])
        (self.root / name).write_text(text)
        return name

    def options(self, **more: Any) -> Options:
        settings = {"task": "run-1"} | more
        return Options(
            root=str(self.root),
            ask=self._person,
            emit=lambda name, data: self.events.append((name, data)),
            stop=settings.pop("stop", None) or Stop(),
            tools=self.tools,
            model=self.model,
            clock=self.clock,
            **settings,
        )

    def _person(self, task: Task, question: Approval) -> None:
        self.asked.append(question)
        if self.says is not None:
            answer(task, question.id, yes=self.says, via="terminal", by=ANN)

    def run(self, *lines: str, inputs: dict[str, Any] | None = None, **more: Any) -> RunOutcome:
        """A new run of a contract with these lines."""
        self.events.clear()
        return start_run(self.options(**more), self.contract(*lines), inputs or {}).go()

    def resume(self, file: str = "", **more: Any) -> RunOutcome:
        self.events.clear()
        return resume_run(self.options(**more), file).go()

    def output(self, *lines: str, inputs: dict[str, Any] | None = None) -> Any:
        """The value of the `return` of a run that has to succeed."""
        outcome = self.run(*lines, inputs=inputs, task="")
        assert outcome.status == "success", outcome
        return outcome.output

    def blocked(self, *lines: str, inputs: dict[str, Any] | None = None, **more: Any) -> str:
        """The reason for which a run is blocked."""
        outcome = self.run(*lines, inputs=inputs, **({"task": ""} | more))
        assert outcome.status == "blocked", outcome
        return outcome.reason

    def cut(self, tool: str = "note.add") -> None:
        """Make a tool have its effect and then end the process, as a kill would."""

        def die(_given: Any) -> Any:
            raise Killed

        self.tool(tool, die)

    def mend(self, tool: str = "note.add") -> None:
        self.tool(tool, lambda given: {"given": given})

    def killed(self, *lines: str, **more: Any) -> None:
        """A run that dies in mid-call. Its process is one that is gone."""
        from adjourn.host import process

        gone = subprocess.Popen(["true"])
        gone.wait()
        with self.patch.context() as patch:
            patch.setattr(process, "current", lambda: process.Process(process.host(), gone.pid, 1))
            patch.setattr("adjourn.clients.client.ClientContext.close", lambda _self, _reason: None)
            with pytest.raises(Killed):
                self.run(*lines, **more)

    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def done(self) -> list[Any]:
        """The `n` of each call of note.add that was made."""
        return [given.get("n") for name, given in self.calls if name == "note.add"]

    def task(self, name: str = "run-1") -> Task:
        return Task(open_at(str(self.root)), name, clock=self.clock, secret=keys.secret())

    def ledger(self, name: str = "run-1") -> Ledger:
        task = self.task(name)
        task.store.close()
        return task.ledger

    def facts(self, kind: type[kinds.Data], name: str = "run-1") -> list[Any]:
        store = open_at(str(self.root))
        try:
            events = [fact for entry in store.read(name) for fact in kinds.facts_of(decode(entry.data))]
        finally:
            store.close()
        return [kinds.data_of(event) for event in events if event.event == kind.KIND]

    def streams(self) -> list[str]:
        store = open_at(str(self.root))
        try:
            return list(store.streams())
        finally:
            store.close()

    def settle(self, *, happened: bool) -> None:
        task = self.task()
        expire_dead_sessions(task)
        for call in list(task.ledger.doubts):
            settle_doubt(task, call, happened=happened, by=ANN)
        task.store.close()


class Answers:
    """A model that gives these answers, one after the other, the last one for ever."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.asked: list[tuple[str, str]] = []

    def complete(self, system: str, prompt: str) -> Completion:
        self.asked.append((system, prompt))
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return Completion(text=text, model="m-1", input_tokens=3, output_tokens=2)
