"""Commands by which a person decides: approving, denying and settling, in the workspace of a real proxy session."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from support.command_line import PERSON_SECONDS, CommandLine, question
from support.proxy import ProxyWorkspace


def test_a_yes_lets_the_repeated_call_pass_once(context: CommandLine) -> None:
    """After `adjourn approve`, the same call passes in another session, and the event names a person."""
    listed = context.ok("approve").out
    assert "ann@example.org" in listed
    assert "confirm secrets.read" in listed
    assert "min left" in listed
    name = question(context)
    assert context.ok("approve", name[:3]).out.startswith('approved: echo.secrets.read {"to":"ann@example.org"}')
    assert context.ok("approve").out == "nothing waits for an answer\n"
    with ProxyWorkspace(context.root.parent, name=context.root.name) as workspace:
        client = workspace.client(name="other")
        client.meta("aex.resume", name="fix-auth")
        assert not client.call("secrets.read", {"to": "ann@example.org"})["result"].get("isError")
        events = workspace.events()
    answered = [event for event in events if event.event == "confirm.approved"]
    assert [event.by.type for event in answered] == ["human"]


def test_a_yes_reaches_the_call_that_waits(tmp_path: Path) -> None:
    """`adjourn approve` releases a call that is waiting in the proxy."""
    with ProxyWorkspace(tmp_path, "use echo", "confirm before echo") as workspace:
        client = workspace.client()
        call = client.begin("echo", {"text": "x"})
        context = CommandLine(workspace.root, workspace.config)
        deadline = time.monotonic() + PERSON_SECONDS
        while not (context.database.exists() and context.run("approve", "--json").out.count("approval")):
            assert time.monotonic() < deadline
        context.ok("approve", question(context))
        assert not client.answer(call)["result"].get("isError")


def test_the_inbox_shows_a_waiting_call_and_a_note_and_its_commands_answer_both(tmp_path: Path) -> None:
    """What `adjourn inbox --json` names as the command releases the call and resolves the blocker; then nothing waits."""
    with ProxyWorkspace(tmp_path, "use echo", "confirm before echo") as workspace:
        client = workspace.client()
        blocker = {"description": "the release key is missing", "type": "human-required"}
        client.meta("adjourn.note", blockers=[blocker])
        call = client.begin("echo", {"text": "x"})
        context = CommandLine(workspace.root, workspace.config)
        deadline = time.monotonic() + PERSON_SECONDS
        while len(waiting := context.ok("inbox", "--json").json["waiting"]) < 2:
            assert time.monotonic() < deadline
        assert [one["kind"] for one in waiting] == ["approval", "blocker"]
        assert waiting[0]["context"] == '{"text":"x"}'
        assert context.ok("inbox").out.startswith("2 things wait for you\n")
        assert "2 waiting" in context.ok("status").out.splitlines()[0]
        for one in waiting:
            words = shlex.split(one["commands"][0].replace("RESOLUTION", "'it is in CI'"))
            context.ok(*words[1:])
        assert not client.answer(call)["result"].get("isError")
        assert context.ok("inbox").out == "nothing waits\n"


def test_a_no_is_written_down(context: CommandLine) -> None:
    """`adjourn deny` appends an event, and an unknown question exits with 1."""
    done = context.ok("deny", question(context), "--json")
    assert done.json["answer"] == "denied"
    assert "confirm.denied" in context.ok("log", "-v", "--tail", "1").out
    assert context.run("approve", "zzzzzz").code == 1


def test_settling_ends_the_doubt(context: CommandLine) -> None:
    """`adjourn settle` needs exactly one outcome and leaves no call in doubt."""
    call = context.ok("settle", "--json").json["inDoubt"][0]["call"]
    assert context.run("settle", call).code == 2
    assert context.run("settle", call, "--done", "--not-done").code == 2
    assert context.run("settle", "zzz", "--done").code == 1
    done = context.ok("settle", call, "--not-done", "--note", "looked")
    assert done.out.startswith(f"settled as not-done: {call} echo.silent")
    assert context.ok("settle").out == "no call is in doubt\n"
    assert context.ok("status", "--json").json["sessions"] == []
    assert context.ok("verify").code == 0


def test_an_ambiguous_or_unknown_id_is_refused_with_the_next_step(left: CommandLine) -> None:
    """An id that no task has exits with 1 and names the command that lists tasks."""
    done = left.run("status", "nope")
    assert done.code == 1
    assert "adjourn tasks" in done.err
