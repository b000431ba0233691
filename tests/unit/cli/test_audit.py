"""`adjourn store export` and `adjourn verify FILE.jsonl`: a file for an audit, from the command line."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest

from adjourn.cli.app import main
from adjourn.host.clock import now
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.task import NewEvent, Task


def run(*arguments: str, code: int = 0) -> str:
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(list(arguments)) == code, err.getvalue()
    out.seek(0)
    return out.read() + err.getvalue()


@pytest.fixture
def root(unattended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with two tasks."""
    monkeypatch.delenv("ADJOURN_STORE", raising=False)
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    work = tmp_path / "work"
    (work / ".aex").mkdir(parents=True)
    store = SqliteStore(work / ".aex" / "adjourn.db")
    for name in ("first", "second"):
        opened = NewEvent(kinds.TaskOpened(goal=f"the \x9b31m goal of {name}"), Actor("codex", "agent"))
        Task(store, name, clock=now, secret=b"s" * 32).commit([opened])
    store.close()
    monkeypatch.chdir(work)
    return work


def test_a_file_is_exported_verified_and_found_changed(root: Path) -> None:
    """The file is valid without the store; one changed letter makes the exit code 1 and names the line."""
    assert run("store", "export", "--out", "audit.jsonl").startswith("wrote audit.jsonl: ")
    (root / ".aex" / "adjourn.db").rename(root / "elsewhere.db")
    assert run("verify", "audit.jsonl") == "valid: 2 tasks, 2 events, 0 checkpoints, 0 documents\n"
    found = json.loads(run("verify", "audit.jsonl", "--json"))
    assert (found["valid"], [task["task"] for task in found["tasks"]]) == (True, ["first", "second"])
    file = root / "audit.jsonl"
    file.write_bytes(file.read_bytes().replace(b"goal of second", b"goal of nobody"))
    said = run("verify", "audit.jsonl", code=1)
    assert "BROKEN: this file: export-broken" in said
    assert "line 3: the bytes of event 0 of task second" in said


def test_tasks_are_named_by_a_prefix_and_printed(root: Path) -> None:
    """Without --out the lines go to stdout; a task that is not there is an error before any line."""
    lines = [json.loads(line) for line in run("store", "export", "sec").splitlines()]
    assert [line.get("task") for line in lines] == ["second", None, None]
    assert lines[-1]["export"]["tasks"] == ["second"]
    assert "no task has the id 'third'" in run("store", "export", "third", "--out", "x.jsonl", code=1)
    assert not (root / "x.jsonl").exists()


def test_a_period_may_end_in_the_future(root: Path) -> None:
    """The month that is not over yet is exported so far; a backup of the future cannot be accepted."""
    run("store", "export", "--since", "2020-01-01", "--until", "2999-01-01", "--out", "audit.jsonl")
    assert run("verify", "audit.jsonl").startswith("valid: 2 tasks")
    assert run("tasks", "spend", "--until", "2999-01-01")
    assert "is in the future" in run("verify", "--accept", "--since", "2999-01-01", code=2)


def test_wrong_times_and_options_are_named(root: Path) -> None:
    """A time that is none, and an option of contracts, are wrong usage."""
    assert "not a time: 'soon'" in run("store", "export", "--since", "soon", code=2)
    run("store", "export", "--out", "audit.jsonl")
    assert "leave them out for a file" in run("verify", "audit.jsonl", "--quick", code=2)
    assert "have their signature in the file" in run("verify", "audit.jsonl", "--id", "ann", code=2)
    (root / "link.jsonl").symlink_to(root / "audit.jsonl")
    assert "is a symbolic link" in run("verify", "link.jsonl", code=1)
