"""A hostile policy file, seen from an agent: it is refused, nobody waits for it, and no answer quotes what is in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hooks import HookWorkspace

SECRET = "zanzibar-7f3a"
SHADOW = f"root:{SECRET}:19000:0:99999:7:::\nuse {SECRET}(\n"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[HookWorkspace]:
    with HookWorkspace(tmp_path, "use *") as work:
        (tmp_path / "shadow").write_text(SHADOW)
        yield work


def make(work: HookWorkspace, what: str) -> None:
    work.policy_file.unlink()
    if what == "link":
        work.policy_file.symlink_to(work.root.parent / "shadow")
    elif what == "pipe":
        os.mkfifo(work.policy_file)
    else:
        work.policy_file.write_text(SHADOW)


@pytest.mark.parametrize("what", ["link", "pipe", "file"])
def test_a_hook_quotes_nothing_of_a_policy(work: HookWorkspace, what: str) -> None:
    """It denies, and says code and place; neither on its output nor on stderr a word of the file."""
    make(work, what)
    said = work.ask("Read", {"file_path": "a"})
    assert (said.code, said.decision) == (0, "deny")
    assert "AEX" in said.reason
    assert ".aex/policy.aex" in said.reason
    assert SECRET not in said.out + said.err


@pytest.mark.parametrize("what", ["link", "pipe", "file"])
def test_a_proxy_quotes_nothing_of_a_policy(work: HookWorkspace, what: str) -> None:
    """It answers the first request with an error that says code and place."""
    make(work, what)
    client = work.client(greet=False)
    client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    answer = client.find(lambda message: message.get("id") == 1, 20)
    assert "AEX" in answer["error"]["message"]
    assert client.process.wait(30) == 1
    assert SECRET not in str(answer) + client.stderr()


@pytest.mark.parametrize("what", ["link", "pipe", "file"])
def test_a_policy_that_is_edited_into_something_else_does_not_count(work: HookWorkspace, what: str) -> None:
    """The earlier one does, the history says so, and nothing of the file is in either."""
    client = work.client()
    assert "result" in client.call("echo", {"a": 1})
    make(work, what)
    work.wait_until_it_counts()
    assert "result" in client.call("echo", {"a": 2})
    (broken,) = work.facts("policy.broken")
    assert "AEX" in broken.message
    assert SECRET not in broken.message + client.stderr()


def test_a_review_quotes_nothing_that_is_no_rule(work: HookWorkspace) -> None:
    """Of a file that is no contract, the agent gets codes and lines."""
    (work.root / "odd.aex").write_text(SHADOW)
    client = work.client()
    answer = str(client.call("aex.review_task", {"task": "odd.aex"}))
    assert "AEX" in answer
    assert f"root:{SECRET}" not in answer
