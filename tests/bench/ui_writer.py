"""A client at work on several tasks at once: each call is decided, recorded and settled by the code that a proxy runs.

    ui_writer.py ROOT NAME TASKS EVENTS_A_SECOND SECONDS

Says `ready`, begins at a line of its input, and at the end asks a person about a call in each task. Then it says in JSON when it wrote
the last event, how many it wrote, and where each task ends; and stays until its input ends, as the sessions do.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing

from ui_store import POLICY

from adjourn import aex
from adjourn.host import process
from adjourn.host.clock import now
from adjourn.host.keys import secret
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.session import Session
from adjourn.tasks.task import Task

TICK_SECONDS = 0.05
EFFECTS_EVERY = 10
"""Calls of which one has an effect."""


class Writer:
    """One session."""

    def __init__(self, task: Task) -> None:
        self.task = task
        policy, _ = aex.from_text(POLICY, "policy.aex")
        identity = SessionIdentity(process.current(), f"g-{task.id}", client="claude-code", era="legacy")
        self._session = Session(task, policy, identity, policy_text=POLICY.encode())
        self._session.open()
        self._count = 0

    def call(self) -> None:
        """A call and its answer."""
        self._count += 1
        effectful = self._count % EFFECTS_EVERY == 0
        request = ToolRequest(
            tool="notes.set" if effectful else "notes.get",
            digest=digest(b"%d" % self._count),
            effectful=effectful,
            arguments=f'{{"path":"notes/{self._count}.md"}}',
        )
        (admitted,) = self._session.admit([request])
        assert admitted.call, admitted
        self._session.settle([kinds.ToolSettled(call=admitted.call, outcome="ok", milliseconds=3)])

    def ask(self) -> None:
        """A call that a person is asked about: the last that this session does."""
        request = ToolRequest(tool="ops.deploy", digest=digest(b"deploy"), arguments='{"to":"production"}')
        (admitted,) = self._session.admit([request])
        assert admitted.approval is not None


def main() -> None:
    root, name, count, rate, seconds = (
        sys.argv[1],
        sys.argv[2],
        int(sys.argv[3]),
        float(sys.argv[4]),
        float(sys.argv[5]),
    )
    with closing(open_at(root)) as store:
        writers = [
            Writer(Task(store, f"live-{name}-{number:03}", clock=now, secret=secret())) for number in range(count)
        ]
        print("ready", flush=True)
        sys.stdin.readline()
        before = sum(writer.task.ledger.seq for writer in writers)
        began, calls = time.monotonic(), 0
        while (passed := time.monotonic() - began) < seconds:
            while calls < passed * rate / 2:  # a call is two events
                writers[calls % count].call()
                calls += 1
            time.sleep(TICK_SECONDS)
        for writer in writers:
            writer.ask()
        stopped = time.time()
        written = sum(writer.task.ledger.seq for writer in writers) - before
        ends = {writer.task.id: [writer.task.ledger.seq, writer.task.ledger.calls_used] for writer in writers}
        print(json.dumps({"stopped": stopped, "written": written, "ends": ends}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
