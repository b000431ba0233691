"""`adjourn inbox`, and the commands that answer what it shows."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from adjourn.cli.app import main
from adjourn.host.clock import now
from adjourn.log import kinds
from adjourn.store import Entry
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.task import NewEvent, Task
from support.record_folder import AGENT, BY_AGENT, FIELDS, NOW, RecordFolder

BLOCKER = {
    "id": "b1", "type": "human-required", "description": "the \x1b[31mkey\u202e is missing", "status": "active", "severity": "high",
    "createdBy": BY_AGENT, "createdAt": NOW, "blocksResumePoints": [],
}  # fmt: skip
INVARIANT = {
    "id": "i1", "description": "no note is lost", "scope": [], "severity": "hard", "status": "unknown", "establishedBy": BY_AGENT,
    "establishedAt": NOW,
}  # fmt: skip


class Shell(RecordFolder):
    """Commands that are run in this process."""

    def __call__(self, *arguments: str, code: int = 0) -> str:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert main(list(arguments)) == code, out.getvalue() + err.getvalue()
        return out.getvalue() + err.getvalue()

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def run(unattended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in ("ADJOURN_STORE", "ADJOURN_TASK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    shell = Shell(tmp_path / "work")
    shell.store().create({**FIELDS, "blockers": [BLOCKER], "invariants": [INVARIANT]}, author=AGENT, cr_id="line")
    return shell


def begin_task(run: Shell, name: str) -> None:
    store = SqliteStore(run.root / ".aex" / "adjourn.db")
    Task(store, name, clock=now, secret=b"s" * 32).commit(lambda _: [NewEvent(kinds.TaskOpened(goal="g", contract=""))])
    store.close()


def test_the_first_line_counts_and_each_thing_has_its_command(run: Shell) -> None:
    """Nothing that a terminal would obey is printed; each thing has the text that is needed to answer it."""
    shown = run("inbox")
    assert shown.startswith("3 things wait for you\n")
    assert all(char.isprintable() or char == "\n" for char in shown)
    for part in ("question q1  Keep the old file?", "option 0  yes", "resume point go  Move them", "copy; compare"):
        assert part in shown
    assert "answer: adjourn answer q1 yes\n" in shown
    assert "answer: adjourn record resolve b1 RESOLUTION\n" in shown
    assert run("inbox", "--task", "t1") == shown
    assert "no task has the id 't9'" in run("inbox", "--task", "t9", code=1)


def test_a_task_that_has_only_a_record_is_known(run: Shell) -> None:
    """A record may be of a task whose history is elsewhere: that nothing waits in it does not make it unknown."""
    run.store().create({"task": {**FIELDS["task"], "id": "t2"}}, author=AGENT, cr_id="quiet")
    assert run("inbox", "--task", "t2") == "nothing waits\n"


def test_what_waits_in_a_record_is_a_finding_and_so_is_a_record_that_cannot_be_read(run: Shell) -> None:
    """`doctor` and `status` name both, instead of showing the task as if it had no record."""
    begin_task(run, "t1")
    assert "task t1: 3 waiting in its record, first blocker b1" in run("doctor")
    assert run.json("status", "t1")["waitingInRecord"]
    run.store().create({**FIELDS, "task": {**FIELDS["task"], "id": "t3"}}, author=AGENT, cr_id="t3")
    begin_task(run, "t3")
    store = run.store().store
    store.append("record/t3", [Entry("0" * 64, b"no version")], expect=store.head("record/t3"))
    shown = run("status", "t3")
    assert "record      cannot be read: " in shown
    told = run.json("status", "t3")
    assert told["waitingInRecord"] == []
    assert "record t3 fails verification" in told["recordUnreadable"]
    assert "the record of task t3: " in run("doctor", code=1)


def test_its_commands_answer_it_until_nothing_waits(run: Shell) -> None:
    """Every first command of the JSON, with the person's own words put in, is one that the command line takes."""
    for _ in range(3):
        free = [one for one in run.json("inbox")["waiting"] if "cause" not in one or "unanswered" not in one["cause"]]
        words = shlex.split(free[0]["commands"][0])
        run(*(word.lower() if word == "RESOLUTION" else word for word in words[1:]))
    assert run("inbox") == "nothing waits\n"
    assert run.json("inbox") == {"waiting": [], "troubles": [], "unreadable": []}


def test_blockers_are_resolved(run: Shell) -> None:
    """Without an id the active ones are listed; a resolution is needed; then it is in the record with who did it."""
    assert run("record", "resolve").startswith("1 active: ")
    assert run.json("record", "resolve")["blockers"][0]["id"] == "b1"
    assert "no resolution" in run("record", "resolve", "b1", code=2)
    assert run("record", "resolve", "b", "found it").startswith("resolved: the")
    blocker = run.json("record", "show")["blockers"][0]
    assert (blocker["status"], blocker["resolution"], blocker["resolvedBy"]["type"]) == (
        "resolved",
        "found it",
        "human",
    )
    assert run("record", "resolve") == "no active blockers\n"
    assert "no active blocker" in run("record", "resolve", "b1", "again", code=1)


def test_invariants_are_checked_and_a_violated_hard_one_holds_the_task_open(run: Shell) -> None:
    """A result is needed; a violation refuses the end of the task until it holds again."""
    assert "no note is lost (unknown)" in run("record", "check")
    assert "no result" in run("record", "check", "i1", code=2)
    run("answer", "q1", "yes")
    assert run("record", "check", "i1", "--violated", "--note", "2 missing") == "violated: no note is lost\n"
    assert run.json("record", "show")["invariants"][0]["evidence"] == "2 missing"
    assert "invariant i1 is violated" in run("record", "complete", code=3)
    assert run("record", "check", "i1", "--holding") == "holding: no note is lost\n"
    run("record", "resolve", "b1", "found")
    assert run("record", "complete") == "completed: Move the notes\n"
    assert run.json("record", "show")["task"]["status"] == "completed"
    assert run("inbox") == "nothing waits\n"


def test_without_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking makes no store."""
    monkeypatch.delenv("ADJOURN_STORE", raising=False)
    shell = Shell(tmp_path / "empty")
    assert "there is no store" in shell("inbox", code=1)


def test_a_store_says_what_takes_its_room(run: Shell) -> None:
    """Events, versions of records, documents and files, each with its number and the bytes of its content; the largest first."""
    begin_task(run, "t")
    run("checkpoint", "write", "t", "--name", "one")
    shown = run.json("store", "show")
    parts = {part["what"]: (part["number"], part["size"]) for part in shown["parts"]}
    files = [path for path in (run.root / ".aex" / "checkpoints").rglob("*") if path.is_file()]
    store = SqliteStore(run.root / ".aex" / "adjourn.db")
    events = [len(entry.data) for entry in store.read("t")]
    store.close()
    assert parts["events of tasks"] == (len(events), sum(events))
    assert parts["versions of records"][0] == 1
    assert parts["files of checkpoints"] == (len(files), sum(path.stat().st_size for path in files))
    assert shown["size"] == sum(size for _, size in parts.values())
    assert [part["size"] for part in shown["parts"]] == sorted((size for _, size in parts.values()), reverse=True)
    assert run("store").startswith("WHAT ")
