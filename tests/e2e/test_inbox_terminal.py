"""The interactive inbox at a real terminal: a proxy's call waits for its keys, and the terminal is as before however it ends."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from adjourn.knowledge.records.store import RecordTrees
from adjourn.store.sqlite import SqliteStore
from support.confirming import ARGUMENTS, POLICY
from support.proxy import Client, ProxyWorkspace, refused, text_of, wait_for
from support.record_folder import AGENT, BY_AGENT, FIELDS, NOW
from support.screen import Screen

CTRL_C, ESCAPE, ENTER = b"\x03", b"\x1b", b"\r"
PASTED = b"\x1b[200~a\rd\r\x1b[201~"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, *POLICY) as workspace:
        yield workspace


def waiting(work: ProxyWorkspace) -> tuple[Client, object]:
    """A client whose call waits for a person, and the call."""
    client = work.client(elicits=False)
    call = client.begin("file.write", ARGUMENTS)
    wait_for(lambda: work.tasks() and work.facts("confirm.required"))
    return client, call


def opened(work: ProxyWorkspace, **options: object) -> Screen:
    environment = dict(work.environment)
    environment.pop("NO_COLOR", None)
    environment.update(options.pop("env", {}))  # type: ignore[call-overload]
    screen = Screen("inbox", cwd=work.root, env=environment, rows=24, **options)  # type: ignore[arg-type]
    screen.wait_for("d deny")
    return screen


def test_keys_deny_a_waiting_call_with_a_reason(work: ProxyWorkspace) -> None:
    """`d`, a reason and Enter refuse the call that a proxy holds, and its agent reads the reason; a paste answers nothing."""
    client, call = waiting(work)
    screen = opened(work, apart=True)
    assert "s3cret" not in screen.shown
    screen.press(PASTED + b"d")
    screen.wait_for("the agent reads it")
    screen.press(b"use staging" + ENTER)
    screen.wait_for("u undo")
    assert work.facts("confirm.denied") == []
    screen.press(b"n" + ENTER)
    answer = client.answer(call)
    assert refused(answer)
    assert "use staging" in text_of(answer)
    screen.wait_for("nothing waits")
    screen.press(b"q")
    assert screen.finish().endswith("Denied: echo.file.write.\n")
    assert (screen.code, screen.left_sane) == (0, True)
    assert [(one.via, one.reason) for one in work.facts("confirm.denied")] == [("cli", "use staging")]


def test_a_key_revokes_the_last_approval(work: ProxyWorkspace) -> None:
    """`u` and Enter take an approval back while no call has used it."""
    client, _ = waiting(work)
    client.process.kill()
    client.process.wait()
    screen = opened(work, apart=True)
    screen.press(b"a" + ENTER)
    screen.wait_for("u undo")
    screen.press(b"n" + ENTER)
    screen.wait_for("Approved:")
    screen.press(b"u")
    screen.wait_for("Revoke the approval")
    screen.press(ENTER)
    screen.wait_for("Revoked: echo.file.write.")
    screen.press(b"q")
    screen.finish()
    assert [fact.via for fact in work.facts("confirm.denied")] == ["cli"]


def test_an_answer_is_undone_before_it_is_recorded(work: ProxyWorkspace) -> None:
    """The item waits again, and the history has no answer; the next one is recorded when the person quits."""
    waiting(work)
    screen = opened(work, apart=True)
    screen.press(b"a" + ENTER)
    screen.wait_for("then it is recorded")
    screen.press(b"u" + ENTER)
    screen.wait_for("It waits again")
    screen.wait_for("d deny")
    assert work.facts("confirm.approved") == []
    screen.press(b"d" + ENTER)
    screen.wait_for("then it is recorded")
    screen.press(b"q")
    assert screen.finish().endswith("Denied: echo.file.write.\n")
    assert (len(work.facts("confirm.approved")), len(work.facts("confirm.denied"))) == (0, 1)


@pytest.mark.parametrize("ends", ["in time", "interrupted"])
def test_an_answer_that_nobody_undoes_is_recorded_in_time(work: ProxyWorkspace, ends: str) -> None:
    """It is recorded by itself after ten seconds; Ctrl-C before that records nothing, and says so."""
    waiting(work)
    screen = opened(work, apart=True)
    screen.press(b"a" + ENTER)
    screen.wait_for("then it is recorded")
    if ends == "in time":
        screen.wait_for("Approved: echo.file.write")
        screen.press(b"q")
        screen.finish()
    else:
        screen.press(CTRL_C)
        assert "Not recorded: Approve echo.file.write. It still waits." in screen.finish()
    assert len(work.facts("confirm.approved")) == (ends == "in time")


def test_a_snoozed_item_comes_last(work: ProxyWorkspace) -> None:
    """`z` and Enter put the first of two blockers behind the second, also for the next terminal."""
    (work.root / ".aex").mkdir(exist_ok=True)
    store = SqliteStore(work.root / ".aex" / "adjourn.db")
    blockers: list[dict[str, Any]] = [
        {
            "id": name, "type": "human-required", "description": f"the {name} key", "status": "active", "severity": "high",
            "createdBy": BY_AGENT, "createdAt": NOW, "blocksResumePoints": [],
        } for name in ("first", "second")
    ]  # fmt: skip
    RecordTrees(store).create({**FIELDS, "blockers": blockers}, author=AGENT, cr_id="line")
    store.close()

    def listed(screen: Screen) -> list[str]:
        return re.findall(r"the (first|second) key", screen.shown)[:2]

    screen = Screen("inbox", cwd=work.root, env=dict(work.environment), rows=24)
    screen.wait_for("resolved")
    assert listed(screen) == ["first", "second"]
    screen.press(b"z")
    screen.wait_for("Snooze for 1 h")
    screen.press(ENTER)
    screen.wait_for("it comes last")
    screen.press(b"q")
    screen.finish()
    again = Screen("inbox", cwd=work.root, env=dict(work.environment), rows=24)
    again.wait_for("resolved")
    assert listed(again) == ["second", "first"]
    again.press(b"q")
    again.finish()


def test_what_an_agent_starts_cannot_answer(work: ProxyWorkspace) -> None:
    """At a terminal that a governed client opened, the keys record nothing, and the screen says why."""
    waiting(work)
    screen = opened(work)
    screen.press(b"a" + ENTER)
    screen.wait_for("speaks for a person")
    screen.press(b"q")
    screen.finish()
    assert work.facts("confirm.approved") == []


@pytest.mark.parametrize(("signal_sent", "code"), [(None, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_terminal_is_as_before_however_it_ends(
    work: ProxyWorkspace, signal_sent: signal.Signals | None, code: int
) -> None:
    """Ctrl-C in the middle of a reason, SIGTERM and SIGHUP leave echo, lines, screen and cursor as they were."""
    waiting(work)
    screen = opened(work, env={"NO_COLOR": "1"})
    assert not screen.looks_sane()
    screen.press(b"d" + b"half a rea")
    screen.wait_for("half a rea")
    if signal_sent is None:
        screen.press(CTRL_C)
    else:
        os.kill(screen.process, signal_sent)
    assert "Traceback" not in screen.finish()
    assert (screen.code, screen.left_sane) == (code, True)
    assert b"\x1b[3" not in screen.sent
    assert work.facts("confirm.denied") == []


def test_a_locked_store_is_said_and_survived(work: ProxyWorkspace) -> None:
    """While another process locks the store, the screen stays, and the next look shows what waits again."""
    waiting(work)
    screen = opened(work)
    with closing(sqlite3.connect(work.root / ".aex" / "adjourn.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        screen.press(b"?")
        screen.wait_for("scroll the item")
    screen.press(ESCAPE + b"q")
    screen.finish()
    assert (screen.code, screen.left_sane) == (0, True)
