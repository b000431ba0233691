"""Whatever moment a session is killed at, the next one receives the newest step that was saved."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path

import pytest

from evaluation.reader import Unit, read
from evaluation.stage import Stage
from evaluation.story import NEXT
from evaluation.vocabulary import CODING
from support.proxy import Client, decoded, text_of

KILLS = 200 if os.environ.get("ADJOURN_CAMPAIGN") else 3
NAME = "killed"

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(3600)]


def _step(number: int) -> str:
    return f"Drain queue-{number} and compare its ledger"


def _session(client: Client, number: int) -> dict[int, int]:
    """Calls, checkpoints and notes, sent at once; by the id of each checkpoint's request, the number of its step."""
    steps = {}
    messages = []
    for turn in range(1, 5):
        for part in range(6):
            path = {CODING.writes.argument: f"src/{number}-{turn}-{part}.py", "text": "…"}
            messages.append(client.call_message(CODING.writes.name, path))
        saved = {"name": NAME, "resumptionPoint": _step(number + turn)}
        message = client.call_message("aex.checkpoint", saved)
        steps[message["id"]] = number + turn
        messages += [message, client.call_message("adjourn.note", {"facts": [f"Fact {number + turn}"]})]
    client.post(*messages)
    return steps


def _acknowledged(client: Client, steps: dict[int, int]) -> int:
    """The newest step whose checkpoint was answered; 0 for none."""
    answers = [body for line in client.received if line.endswith(b"\n") and "result" in (body := decoded(line))]
    return max((steps[body["id"]] for body in answers if body.get("id") in steps), default=0)


def _told(units: list[Unit], first: int, last: int) -> bool:
    """Whether a text tells one of these steps as the next one."""
    return any(
        re.search(rf"{re.escape(_step(number))}", unit.text)
        and re.search(NEXT, f"{unit.context} {unit.text}", re.IGNORECASE)
        for unit in units
        for number in range(first, last + 1)
    )


def test_the_next_step_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    """A session that is killed while it saves steps leaves at least the last one that was acknowledged: hook, command and tool tell it."""
    rng = random.Random(4)
    stage = Stage(tmp_path, CODING.tools, CODING.policy())
    with stage:
        client = stage.begin_session("agent 0")
        began = time.monotonic()
        steps = _session(client, 0)
        for request in steps:
            client.answer(request, 60)
        longest = 1.2 * (time.monotonic() - began)
        kept = _acknowledged(client, steps)
        for kill in range(KILLS):
            number = 10 * (kill + 1)
            steps = _session(client, number)
            time.sleep(rng.uniform(0, longest))
            client.kill()
            kept = _acknowledged(client, steps) or kept
            last = max(steps.values())
            for told in (stage.told_by_hook(), stage.told_by_command(NAME)):
                assert _told(read(told), kept, last), (kill, kept, told)
            client = stage.begin_session(f"agent {number}")
            answer = text_of(client.answer(client.begin("aex.resume", {"name": NAME}), 60))
            assert _told(read(answer), kept, last), (kill, kept, answer)
