"""A proxy is killed at random points while its agent works and reports: the next session receives the agent's next step.

Short here; ADJOURN_CAMPAIGN=1 kills 200 times.
"""

from __future__ import annotations

import json
import os
import queue
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from adjourn.log.kinds import CheckpointCreated
from support.proxy import NEW, Client, ProxyWorkspace, decoded, run
from support.requirements import requirement

CAMPAIGN = os.environ.get("ADJOURN_CAMPAIGN") == "1"
KILLS = 200 if CAMPAIGN else 10
TASK, NAME = "killed", "work"
STEPS = 6
_STEP = re.compile(r"Continue with step (\d+)")


def _work(client: Client, first: int) -> Iterator[Any]:
    """What the agent sends: after every call and destructive call, where the next session has to begin."""
    for number in range(first, first + STEPS):
        yield client.message("tools/call", {"name": "echo", "arguments": {"n": number}}, request_id=f"e{number}")
        yield client.message(
            "tools/call", {"name": "echo", "arguments": {"command": f"rm file-{number}"}}, request_id=f"d{number}"
        )
        report = {"name": NAME, "resumptionPoint": f"Continue with step {number}", "description": f"did {number}"}
        yield client.message("tools/call", {"name": "aex_checkpoint", "arguments": report}, request_id=f"c{number}")


def _acknowledged(client: Client, seconds: float) -> int:
    """The last step whose report was answered, -1 for none."""
    last, end = -1, time.monotonic() + seconds
    while True:
        try:
            line = client.line(max(0.0, end - time.monotonic()))
        except queue.Empty:
            return last
        if line is None:
            return last
        body = decoded(line)
        name = str(body.get("id", ""))
        if name.startswith("c") and "result" in body and not body["result"].get("isError"):
            last = max(last, int(name[1:]))


def _life(work: ProxyWorkspace, chooser: random.Random, first: int, how: signal.Signals) -> int:
    """One life of a proxy: it works until the signal comes. Returns the last acknowledged step."""
    client = work.client("--task", TASK, era=NEW)
    client.tools()
    delay = chooser.uniform(0, 0.6)
    with suppress(BrokenPipeError):
        for message in _work(client, first):
            client.post(message)
            time.sleep(delay / (3 * STEPS) * chooser.random())
    time.sleep(delay * chooser.random())
    os.kill(client.process.pid, how)
    client.process.wait(30)
    last = _acknowledged(client, 1)
    client.kill()
    work.clients.clear()
    return last


def _told(work: ProxyWorkspace, root: Path | None = None) -> int:
    """The step that a reader of the checkpoint is told to begin with."""
    done = run("resume", NAME, "--json", cwd=root or work.root, env=work.environment)
    assert done.code == 0, done
    found = [int(number) for number in _STEP.findall(json.dumps(json.loads(done.out)))]
    assert found, done.out
    return found[0]


@requirement("End")
@pytest.mark.timeout(3600 if CAMPAIGN else 300)
def test_the_next_step_survives_every_end(tmp_path: Path) -> None:
    """After SIGKILL at any moment, and every fourth time SIGTERM, what is shown is the last acknowledged step, or a later one."""
    seed = int(os.environ.get("ADJOURN_SEED", "7"))
    chooser, last = random.Random(seed), -1
    with ProxyWorkspace(tmp_path, "use echo", "budget calls=1000000") as work:
        for number in range(KILLS):
            how = signal.SIGTERM if number % 4 == 3 else signal.SIGKILL
            first = (number + 1) * 100
            last = max(last, _life(work, chooser, first, how))
            if last < 0:
                continue
            assert last <= _told(work) < first + STEPS, f"seed {seed}, life {number}"
            if number % 5 == 4:  # somebody empties tmp/: the store has it
                shutil.rmtree(work.root / "tmp")
                assert last <= _told(work) < first + STEPS, f"seed {seed}, life {number}, without a page"
        assert last >= 0
        assert any(one.trigger.startswith("before ") for one in work.facts(CheckpointCreated.KIND, TASK))
        other = tmp_path / "elsewhere"
        (other / ".aex" / "checkpoints").mkdir(parents=True)
        shutil.copytree(work.root / ".aex" / "checkpoints" / NAME, other / ".aex" / "checkpoints" / NAME)
        shutil.copy(work.policy_file, other / ".aex" / "policy.aex")
        carried = _told(work, other)
        assert last <= carried
