"""A workspace that adjourn 0.1.0 set up and worked in is taken over: tests/data/workspace_of_before.tar.xz, made once by that version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import make_workspace_of_before as before
from make_store_of_before import ElsewhereThen
from make_workspace_of_before import BEFORE, CHECKPOINT, DOUBTFUL, NEXT, POLICY, WAITING, start
from support.proxy import refused, text_of, wait_for

NAMED = '"proxy", "--name", "files", "--", "python3"'


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ElsewhereThen]:
    with before.unpack(tmp_path) as work:
        yield work


def test_the_session_goes_on_behind_the_command_of_then(work: ElsewhereThen) -> None:
    """The registered proxy resumes with the budget of then; the doubt stands; the waiting call is approved and made; the chain is valid."""
    assert work.adjourn("verify", "--json").json["valid"]
    stored = [bytes(event.data) for event in work.events()]
    client = start(work, "codex")
    told = client.meta("aex.resume", name=CHECKPOINT)
    assert (told["callsUsed"], told["budgetRemaining"]) == (3, 17)
    assert told["nextStep"] == [f"{NEXT} (stated before these calls: slow out/report.txt: in doubt; is it done?)"]
    client.tools()
    waiting = client.begin("slow", DOUBTFUL)
    wait_for(lambda: "slow" in _questions(work))
    work.adjourn("deny", _questions(work)["slow"])
    assert "in doubt" in text_of(client.answer(waiting))
    work.adjourn("approve", _questions(work)["file.write"])
    assert not refused(client.call("file.write", WAITING))
    assert refused(client.call("secrets.read"))
    assert (work.root / "calls").read_text().split() == ["echo", "slow", "file.write"]
    assert client.close() == 0
    assert [bytes(event.data) for event in work.events()][: len(stored)] == stored
    assert work.adjourn("verify", "--json").json["valid"]


def _questions(work: ElsewhereThen) -> dict[str, str]:
    return {one["tool"]: one["approval"] for one in work.adjourn("approve", "--json").json["questions"]}


def test_doctor_finds_nothing_that_stops_work(work: ElsewhereThen) -> None:
    """Before `init` is run again the policy is valid, the servers start, and names are what is missing; afterwards nothing is."""
    work.adjourn("check", ".aex/policy.aex")
    assert _missing(work) == {".aex/.gitignore", ".claude/settings.json", ".mcp.json", ".codex/config.toml"}
    work.adjourn("init", "--yes")
    assert _missing(work) == set()


def _missing(work: ElsewhereThen) -> set[str]:
    told = work.adjourn("doctor", "--yes", "--json").json
    assert [one for one in told["findings"] if one["severity"] == "error"] == []
    return {one["source"] for one in told["findings"] if one["code"] == "client-incomplete"}


def test_init_again_gives_servers_their_names(work: ElsewhereThen) -> None:
    """The proxies get the server's name once, and the edited policy stays as it is."""
    work.adjourn("init", "--yes")
    for name in (".mcp.json", ".codex/config.toml"):
        assert (work.root / name).read_text().count(NAMED) == 1
    assert work.policy_file.read_text() == POLICY
    assert work.adjourn("init", "--yes").first.startswith("nothing to change")
    assert not refused(start(work).call("echo"))


@pytest.mark.parametrize("renewed", [False, True], ids=["of then", "and of now"])
def test_undo_restores_what_was_there_before(work: ElsewhereThen, renewed: bool) -> None:
    """The clients' files are the bytes from before the first `init`; the policy was edited since, and stays."""
    if renewed:
        work.adjourn("init", "--yes")
    said = work.adjourn("init", "--undo", "--yes").out
    assert ".aex/policy.aex: was edited since, and was not restored" in said
    assert {name: (work.root / name).read_text() for name in BEFORE} == BEFORE
    assert not (work.root / ".codex" / "hooks.json").exists()
    assert not (work.root / ".aex" / "undo").exists()
    assert work.policy_file.read_text() == POLICY
    assert work.adjourn("verify", "--json").json["valid"]
