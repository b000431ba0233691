"""What a proxy says of waiting work as it greets: in both eras, and only when there is some that could be resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.in_process import ERAS, MODERN, ProxyWorkspace


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, "use echo", "budget calls=9") as work:
        yield work


def said(greeting: dict[str, object]) -> str:
    result = greeting["result"]
    assert isinstance(result, dict)
    return str(result.get("instructions", ""))


@pytest.mark.parametrize("era", ERAS)
def test_a_new_session_is_told_that_work_waits_and_how_to_resume_it(work: ProxyWorkspace, era: str) -> None:
    """The name in the greeting is one that aex.resume takes, with the spent budget; whoever begins alone receives nothing."""
    first = work.client(era=era)
    assert said(first.greeting) == ""
    first.call("echo", {"a": 1})
    first.meta("aex.checkpoint", name="milk", description="bought")
    first.close()
    second = work.client(era=era)
    told = said(second.greeting)
    assert 'checkpoint "milk"' in told
    assert "1 call used" in told
    assert 'call aex.resume with {"name": "milk"}' in told
    assert second.meta("aex.resume", name="milk")["callsUsed"] == 1
    assert [fact.name for fact in work.facts("checkpoint.resumed")] == ["milk"]


def test_a_session_killed_before_its_first_checkpoint_is_offered_all_the_same(work: ProxyWorkspace) -> None:
    """Client and proxy are gone at once: the next greeting names a checkpoint, made then."""
    first = work.client()
    first.call("echo", {"a": 1})
    first.kill()
    second = work.client(foreign=True, era=MODERN)
    [made] = work.facts("checkpoint.created")
    assert f'checkpoint "{made.name}"' in said(second.greeting)
    assert second.meta("aex.resume", name=made.name)["callsUsed"] == 1


@pytest.mark.parametrize("tool", ["adjourn.note", "adjourn.ask"])
def test_what_was_only_noted_or_asked_waits_too(work: ProxyWorkspace, tool: str) -> None:
    """A session that ended or was killed before its first call, and had written something down, has left work behind."""
    first = work.client()
    first.meta(tool, **({"facts": ["it rains"]} if tool == "adjourn.note" else {"question": "Which way?"}))
    if tool == "adjourn.note":
        first.close()
    else:
        first.kill()
    second = work.client(foreign=True)
    [task] = [name for name in work.tasks() if "/" not in name]
    [made] = work.facts("checkpoint.created", task)
    assert f'checkpoint "{made.name}"' in said(second.greeting)
    assert "0 calls used" in said(second.greeting)
    told = json.dumps(second.meta("aex.resume", name=made.name))
    assert ("it rains" if tool == "adjourn.note" else "Which way?") in told


def test_nothing_is_said_of_work_that_cannot_be_resumed(work: ProxyWorkspace) -> None:
    """The policy denies the tool, or this client was given another task; of another client at work it learns only that."""
    first = work.client(foreign=True)
    first.call("echo", {"a": 1})
    first.meta("aex.checkpoint", name="milk")
    busy = said(work.client().greeting)
    assert "another agent is at work" in busy
    assert "aex.resume" not in busy
    first.kill()
    assert said(work.client("--task", "another").greeting) == ""
    assert "milk" in said(work.client().greeting)
    work.write_policy("use echo", "deny aex.resume")
    assert said(work.client().greeting) == ""


def test_a_client_that_takes_no_dots_is_told_the_name_it_knows(work: ProxyWorkspace) -> None:
    """The tool is named as this client lists it."""
    first = work.client()
    first.call("echo", {"a": 1})
    first.close()
    second = work.client(name="claude-ai")
    assert "call aex_resume with" in said(second.greeting)
    assert json.dumps(second.tools()).count("aex_resume") == 1
