"""`adjourn record`, `answer`, `approve`, `deny` and `decide`: what a person sees, and what is written."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from adjourn.cli.app import main
from adjourn.store.sqlite import SqliteStore
from support.record_folder import AGENT, FIELDS, RecordFolder


class Shell(RecordFolder):
    """Commands that are run in this process."""

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What a command prints, errors last."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert main(list(arguments)) == code, out.getvalue() + err.getvalue()
        return out.getvalue() + err.getvalue()

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.JSONDecoder().raw_decode(self(*arguments, "--json", code=code))[0]  # errors come behind


@pytest.fixture(autouse=True)
def _own(unattended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of its own, a person who allows it, and no store or task from outside."""
    for name in ("ADJOURN_STORE", "ADJOURN_TASK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))


@pytest.fixture
def run(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path / "work")
    shell.fill()
    return shell


def test_without_a_record(tmp_path: Path) -> None:
    """Reading makes no store; an empty one has no records; both are said with the next step."""
    run = Shell(tmp_path / "empty")
    assert "there is no store" in run("record", code=1)
    assert not (run.root / ".aex" / "adjourn.db").exists()
    run.store().store.close()
    assert run("record") == "no records yet\n"
    assert "no record yet" in run("record", "show", code=1)
    assert run("record", "verify").startswith("valid: 0 records")


def test_reading(run: Shell) -> None:
    """List, show and history: the answer first, nothing that a terminal would obey, all of it as JSON."""
    listed = run("record").splitlines()
    assert listed[1].split()[:3] == ["line", "t1", "0"]
    shown = run("record", "show", "t1")
    assert shown.startswith("blocked: Move the notes\n")
    for part in (
        "Use SQLite (accepted)",
        "Keep the old file? (open)",
        "Move them (pending)",
        "1. copy",
        "all are there",
    ):
        assert part in shown
    assert "\x1b" not in shown
    assert run.json("record", "show") == run.store().resolve("line")
    run("answer", "q1", "yes")
    run("decide", "d1", "--override", "Use a file", "--because", "smaller")
    history = run("record", "history").splitlines()
    assert [line.split()[0] for line in history[1:]] == ["0", "1", "2"]
    assert history[2].endswith("mission, 1 question")
    assert history[3].endswith("1 decision")
    told = run.json("record", "history", "--tail", "1")["versions"]
    assert [(one["sequence"], one["changed"]) for one in told] == [(2, "1 decision")]
    assert run.json("record", "show", "line@1")["sequence"] == 1
    assert "has versions 0 to 2" in run("record", "show", "line@9", code=1)
    assert "no record has the id 'other'" in run("record", "show", "other", code=1)


def test_diff_is_readable_at_a_glance(run: Shell) -> None:
    """The first line says what differs; then each part with what was added, removed and changed."""
    assert "is its first" in run("record", "diff")
    run("answer", "q1", "no", "--learn")
    out = run("record", "diff")
    assert out.startswith("line@0 → line@1: mission, 1 learning, 1 question\n")
    assert "  ~ status: blocked → in-progress\n" in out
    assert "  ~ q1.status: open → answered\n" in out
    assert "  + answer-q1  Keep the old file? no\n" in out
    assert run.json("record", "diff", "line@1", "line@0")["summary"]["learnings"]["removed"] == 1
    assert run("record", "diff", "line", "line").startswith("line@1 → line@1: identical")


def test_merge_with_flags(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clash is shown with both sides, kept, and resolved by a flag; the exit code says what is open."""
    store = run.store()
    head = store.resolve("line")
    store.fork(head["contentHash"], {"task": {**head["task"], "goal": "theirs"}}, AGENT, cr_id="fork")
    store.update("line", {"task": {**head["task"], "goal": "ours"}}, AGENT)
    out = run("record", "merge", "line", "fork", code=1)
    assert out.startswith("merged into line@2; 1 unresolved\n")
    assert "/task/goal: UNRESOLVED" in out
    assert "  b     theirs\n" in out
    assert "no side" in run("record", "merge", "line", "--take", "/task/goal=c", code=2)
    assert "  a is line@1, b is fork@1\n" in out
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert "the unresolved conflicts stay in the record" in run("record", "merge", "line", "--interactive", code=1)
    assert "+ /task/goal" in run("record", "diff", "line")
    assert run("record", "merge", "line", "--set", '/task/goal="all of it"').startswith("resolved in line@3")
    assert store.resolve("line")["task"]["goal"] == "all of it"
    assert run("record", "merge", "line", "fork").startswith("nothing to merge")
    told = run.json("record", "merge", "fork", "line", "--strategy", "prefer-b")
    assert (told["success"], told["unresolved"], told["record"]) == (True, [], "fork")


def test_a_clash_that_is_resolved_at_once_is_not_told_as_open(run: Shell) -> None:
    """With --take in the same command the merge is done, and nothing is left to do."""
    store = run.store()
    head = store.resolve("line")
    store.fork(head["contentHash"], {"task": {**head["task"], "goal": "theirs"}}, AGENT, cr_id="fork")
    store.update("line", {"task": {**head["task"], "goal": "ours"}}, AGENT)
    out = run("record", "merge", "line", "fork", "--take", "/task/goal=b")
    assert out == "merged into line@3\n"
    assert store.resolve("line")["task"]["goal"] == "theirs"


def test_views_of_a_decision_are_told_one_by_one(run: Shell) -> None:
    """Where a decision was contested, the difference has who holds what, and why."""
    run("decide", "d1", "--contest", "Delete them", "--because", "nobody reads them")
    out = run("record", "diff")
    assert "  ~ d1.status: accepted → contested\n" in out
    assert re.search(r"  \+ d1.variants:\n      .*\n      .*: Delete them \(nobody reads them\)\n", out), out


def test_answer_approve_deny(run: Shell) -> None:
    """The lists say what waits and why; a blocked gate stays shut; one command serves calls and resume points."""
    assert "1 open: " in run("answer")
    waiting = run("approve")
    assert "go  Move them" in waiting
    assert "a backup" in waiting
    assert "question q1 is unanswered" in run("approve", "go", code=3)
    assert "one of yes, no" in run("answer", "q1", "maybe", code=1)
    assert run("answer", "q", "yes").startswith("answered: Keep the old file?")
    assert "cannot become answered" in run("answer", "q1", "no", code=3)
    told = run.json("approve", "go")
    assert told["resumePoint"]["approvalStatus"] == "approved"
    assert told["resumePoint"]["approvedBy"]["type"] == "human"
    assert run("approve") == "nothing waits for an answer\n"
    assert run("answer") == "no question is open\n"
    store = run.store()
    assert [one["id"] for one in store.usable_resume_points("line")] == ["go"]


def test_the_same_id_in_two_records_is_told_apart(run: Shell) -> None:
    """After a fork the id alone is not enough, and --record says which."""
    store = run.store()
    store.fork(store.resolve("line")["contentHash"], {}, AGENT, cr_id="fork")
    assert "resume point 'go' is ambiguous: go in fork, go in line" in run("deny", "go", code=1)
    assert "--record" in run("deny", "go", code=1)
    out = run("deny", "go", "--record", "fork", "--because", "not today")
    assert out.startswith("denied: Move them\n")
    store.fork(store.resolve("line")["contentHash"], {}, AGENT, cr_id="line-2")
    assert run("answer", "q1", "no", "--record", "line-2").startswith("answered")
    assert run("answer", "q1", "yes", "--record", "line").startswith("answered")
    assert run("answer", "q1", "no").startswith("answered")  # only one is open by now
    assert [store.resolve(name)["questionsForUser"][0]["answer"] for name in ("line", "line-2", "fork")] == [
        "yes", "no", "no",
    ]  # fmt: skip
    assert "instead, no time: leave them" in out
    assert store.resolve("fork")["resumePoints"][0]["deniedReason"] == "not today"
    assert store.resolve("line")["resumePoints"][0]["approvalStatus"] == "pending"


def test_decide(run: Shell) -> None:
    """A decision is contested with a reason, listed with its sides, and settled with one of them."""
    assert run("decide") == "every decision is settled\n"
    assert "--because" in run("decide", "d1", "--contest", "Use PostgreSQL", code=2)
    assert "--override" in run("decide", "d1", code=2)
    run("decide", "d1", "--contest", "Use PostgreSQL", "--because", "two machines")
    listed = run("decide")
    assert "d1  Use SQLite (contested)" in listed
    assert "Use PostgreSQL (two machines)" in listed
    out = run("decide", "d1", "--accept", "--variant", "1")
    assert out.startswith("accepted: d1 Use PostgreSQL\n")
    assert "review again: go" in out
    assert run.json("decide")["decisions"] == []


def test_verify_and_prove(run: Shell, tmp_path: Path) -> None:
    """A proof is checked without the store; a changed byte is found, with the version."""
    run("answer", "q1", "yes")
    for name, options in {"in": ["line@0"], "grew": ["--since", "1"], "head": ["--sign"]}.items():
        proof = tmp_path / name
        proof.write_text(run("record", "prove", *options))
        assert run("record", "verify", "--proof", str(proof)).startswith("valid: record line")
        proof.write_text(
            proof.read_text()
            .replace('equence": 0', 'equence": 1')
            .replace('Size": 1', 'Size": 2')
            .replace('"sequence": 1,', '"sequence": 0,', 1)
        )
    assert run("record", "verify", "--proof", str(tmp_path / "grew"), code=1).startswith("BROKEN")
    assert run("record", "verify", "--proof", str(tmp_path / "head"), code=1).startswith("BROKEN")
    head = run.store().resolve("line")
    assert run("record", "verify", "--expect-head", head["contentHash"]).startswith("valid: 1 record, 2 versions")
    told = run.json("record", "verify", "line", "--expect-root", "ab" * 32, code=1)
    assert told["records"][0]["reason"] == "head-mismatch"
    backend = run.store().store
    assert isinstance(backend, SqliteStore)
    assert backend._cursor is not None
    backend._cursor.execute(
        "UPDATE event SET data = replace(data, 'SQLite', 'sqlite') WHERE hash <> ?", (head["contentHash"],)
    )
    out = run("record", "verify", code=1)
    assert out.startswith("BROKEN: record line, after 0 versions: hash-mismatch\n")


def test_a_broken_record_is_in_nobodys_way(run: Shell) -> None:
    """It is said, and the others can be listed, answered and approved."""
    run.store().create(FIELDS, author=AGENT, cr_id="broken")
    backend = run.store().store
    assert isinstance(backend, SqliteStore)
    assert backend._cursor is not None
    backend._cursor.execute("UPDATE event SET data = x'00' WHERE instr(data, CAST('\"id\":\"broken\"' AS BLOB))")
    out = run("record", code=1)
    assert "line" in out
    assert "of record broken fails verification" in out
    assert run.json("record", code=1)["unreadable"][0]["record"] == "broken"
    run("answer", "q1", "yes")
    run("approve", "go")


def test_records_are_no_tasks(run: Shell) -> None:
    """The commands about tasks do not stumble over them."""
    assert run("tasks") == "no tasks yet\n"
    assert run("verify").startswith("valid: 0 tasks")
    assert "no task" in run("status", code=1)
