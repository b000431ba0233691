"""Work in the formats of other tools becomes a task that can be resumed; hostile files are refused with nothing written.

tests/data/imports has files that langgraph-checkpoint-sqlite 3.1 and continuum-agent 0.1 wrote.
"""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import AdjournError, InvalidError, NotFoundError, UsageError
from adjourn.handover.foreign import langgraph
from adjourn.handover.foreign.reading import detect, read_work
from adjourn.handover.foreign.work import ForeignWork, ImportedWork, import_work
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.task_record import record_of
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.verification.verify import verify_store
from support.cases import for_each
from support.workspace import ANN, Workspace

DATA = Path(__file__).parents[2] / "data" / "imports"
LANGGRAPH, STATE = DATA / "langgraph.sqlite", DATA / "continuum_state.json"
AGENT = {"id": "claude", "type": "agent"}
HANDOFF = """# Handoff: the login

## Goal
Fix the login.

## What's done
- [x] read src/login.py
- found the bug in the token check

## Next steps
1. Write the test
   with two cases
2. Deploy

```
## Decisions
- not a decision
```

## Decisions made
- Keep the cookies.

## Open questions
- May I deploy?

## Gotchas
- Staging is down.

## Files
- `src/login.py`: the bug

## Who to ask
Ann, on Monday.
"""
RECORD: dict[str, Any] = {
    "id": "cr-7",
    "version": "1.0.0",
    "contentHash": "0" * 64,
    "parentCRHash": "1" * 64,
    "task": {"id": "t", "goal": "Fix the login.", "successCriteria": ["tests pass"], "status": "in-progress",
             "startedAt": 1_777_735_812_345.6, "completedAt": None},
    "createdBy": AGENT, "createdAt": 1_777_735_812_345, "lastModifiedBy": AGENT, "lastModifiedAt": 1_777_735_812_345,
    "executionSummary": {"stepsCompleted": 1, "stepsFailed": 0, "tokensConsumed": 10, "elapsedMs": 1234.5, "actions": []},
    "decisions": [{"id": "d1", "description": "Keep the cookies.", "status": "accepted", "rationale": "fewer logins",
                   "madeBy": AGENT, "madeAt": 1.5, "variants": None, "affects": [], "overridableBy": ["human"]}],
    "learnings": [], "questionsForUser": [], "blockers": [],
    "resumePoints": [{"id": "r1", "label": "Deploy", "description": "", "when": "", "preconditions": [],
                      "requiredAuthority": "human", "safeToAutoExecute": False, "onTimeout": "escalate",
                      "approvalStatus": "approved", "approvedBy": {"id": "ann", "type": "human"}, "approvedAt": 5,
                      "nextSteps": ["deploy to staging"]}],
    "toolEffects": [{"id": "e1", "toolName": "shell", "operation": "run", "inputs": {"n": 1.5}, "isReplayable": False,
                     "sideEffects": [], "reversible": False, "executedAt": 5, "durationMs": 12.7}],
    "invariants": [], "metadata": {"tags": [], "priority": "high"},
}  # fmt: skip
MIND: dict[str, Any] = {
    "id": "cp-1", "timestamp": 1_777_735_812_345.2, "label": "Half-way", "description": None,
    "nodes": [{"id": "n1", "type": "tool-call", "phase": "execution", "status": "active", "label": "Deploy to staging",
               "assumptions": [], "openQuestions": [], "confidence": 0.8, "childIds": [], "createdAt": 1, "branchId": "main"}],
    "epistemicState": {"facts": [{"id": "f1", "content": "The check ignores exp.", "source": "tool", "confidence": 0.9}],
                       "assumptions": [], "openQuestions": [], "beliefs": []},
    "intentGraph": {"goals": [{"id": "g1", "description": "Fix the login.", "status": "active", "subGoalIds": [],
                               "priority": 1}], "rootIntentId": "g1"},
    "branchId": "main", "metrics": {"totalNodes": 1, "completedNodes": 0, "tokenEstimate": 9, "elapsedMs": 12.5},
}  # fmt: skip


def brought(tmp_path: Path, name: str, content: object) -> str:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return str(path)


def imported(workspace: Workspace, work: ForeignWork) -> ImportedWork:
    return import_work(workspace.task("t1"), str(workspace.root), work, ANN)


def told(workspace: Workspace, work: ForeignWork) -> dict[str, Any]:
    imported(workspace, work)
    assert verify_store(workspace.store).valid
    (fact,) = workspace.facts("t1", kinds.TaskImported)
    assert (fact.source, fact.document) == (work.source, digest(work.documents[0]))
    assert workspace.store.get_blob(fact.document) == work.documents[0]
    answer = workspace.resume(workspace.context(), work.name)
    page = (workspace.root / "tmp" / "checkpoint-active.md").read_text()
    return answer | {"page": page}


def test_a_handover_page_is_resumed(memory_workspace: Workspace, tmp_path: Path) -> None:
    """Its goal, steps, decisions, questions, files and other text reach the next session; a heading in a fence is none."""
    path = brought(tmp_path, "handoff.md", HANDOFF)
    assert detect(path) == "handoff"
    work = read_work(path)
    answer = told(memory_workspace, work)
    assert (answer["goal"], answer["callsUsed"]) == ("Fix the login.", 0)
    assert answer["imported"] == {"from": ["handoff"], "entries": 0, "verified": False}
    for line in ("- [x] read src/login.py", "- [x] found the bug", "- [ ] Deploy", "May I deploy?", "src/login.py",
                 "Who to ask: Ann, on Monday."):  # fmt: skip
        assert line in answer["page"]
    assert "## Resumption Point\nWrite the test\nwith two cases" in answer["page"]
    record = record_of(memory_workspace.store, "t1")
    assert record is not None
    assert [(one["description"], one["status"]) for one in record["decisions"]] == [("Keep the cookies.", "tentative")]
    assert [(one["content"], one["type"]) for one in record["learnings"]] == [("Staging is down.", "constraint")]


def test_a_page_without_known_headings_keeps_its_text(memory_workspace: Workspace, tmp_path: Path) -> None:
    """The title is the goal, and what stands under it is the state."""
    answer = told(memory_workspace, read_work(brought(tmp_path, "n.md", "\ufeff# Mend it\r\n\r\nIt is half done.\r\n")))
    assert answer["goal"] == "Mend it"
    assert "It is half done." in answer["page"]


def test_a_checkpoints_page_is_imported_whole(memory_workspace: Workspace, tmp_path: Path) -> None:
    """A page that adjourn wrote is read as one: each section stays what it was."""
    imported(memory_workspace, read_work(brought(tmp_path, "handoff.md", HANDOFF)))
    page = (memory_workspace.root / "tmp" / "checkpoint-active.md").read_text()
    again = read_work(brought(tmp_path, "page.md", page))
    assert again.kept == ("a checkpoint's page: all of its sections",)
    assert again.report.resumption_point == "Write the test\nwith two cases"


@pytest.mark.parametrize(
    "path", [LANGGRAPH, STATE], ids=["langgraph", "continuum"]
)  # fmt: skip
def test_a_file_that_the_real_tool_wrote_is_resumed(memory_workspace: Workspace, path: Path) -> None:
    """Goal, next step and what is known of it reach the next session, and nothing counts as spent."""
    work = read_work(str(path))
    assert work.source == path.stem.partition("_")[0]
    answer = told(memory_workspace, work)
    assert (answer["goal"], answer["callsUsed"]) == ("Fix the login.", 0)
    known = {"langgraph": ("Continue with node deploy", "May I deploy?", "The bug is in the token check."),
             "continuum": ("write the test", "- [x] read src/login.py", "deploy to staging")}[work.source]  # fmt: skip
    for text in known:
        assert text in answer["page"]
    said = {"langgraph": 'plan = ["read","mend","deploy"]', "continuum": "The token check ignores exp."}
    assert said[work.source] in answer["facts"]
    assert answer["nextStep"] == [known[0]]


def test_a_langgraph_thread_shows_tool_calls_and_plain_values() -> None:
    """Objects of LangChain are shown by their members; a date and a decimal number are their text."""
    work = read_work(str(LANGGRAPH), thread="Login 42")
    assert [(one.entry, one.tool, one.reason) for one in work.entries] == [
        ("langgraph.tool_call", "file.read", '{"path":"src/login.py"}')
    ]
    assert 'since = "2026-05-02T15:30:00+00:00"' in work.note.facts
    assert 'amount = "1.50"' in work.note.facts
    document = json.loads(work.documents[0])
    (human, *_) = document["checkpoint"]["channel_values"]["messages"]
    assert (human["type"], human["value"]["content"]) == (
        "langchain_core.messages.human.HumanMessage",
        "Fix the login.",
    )


def test_a_continuation_record_in_the_published_shape_is_resumed(memory_workspace: Workspace, tmp_path: Path) -> None:
    """A version of three parts, fractional times and null are read. Decisions and effects stay; an approval must be given again."""
    path = brought(tmp_path, "cr.json", RECORD)
    assert detect(path) == "continuum"
    work = read_work(path)
    answer = told(memory_workspace, work)
    assert answer["goal"] == "Fix the login."
    record = record_of(memory_workspace.store, "t1")
    assert record is not None
    assert (record["version"], record["task"]["successCriteria"]) == ("1.0", ["tests pass"])
    assert record["decisions"][0]["description"] == "Keep the cookies."
    assert (record["toolEffects"][0]["durationMs"], record["toolEffects"][0]["inputs"]) == (13, {"n": 1.5})
    assert record["resumePoints"][0]["approvalStatus"] == "pending"
    assert "approvedBy" not in record["resumePoints"][0]
    assert "1 approval: ask for them again" in work.left_out
    assert RecordTrees(memory_workspace.store).verify_chain("t1").valid


def test_a_cognitive_checkpoint_is_resumed(memory_workspace: Workspace, tmp_path: Path) -> None:
    """Its facts and goals are the state of mind of the new task."""
    answer = told(memory_workspace, read_work(brought(tmp_path, "mind.json", MIND)))
    assert answer["goal"] == "Fix the login."
    assert "The check ignores exp." in answer["facts"]
    assert "Continue with: Deploy to staging" in answer["page"]


def test_the_store_reads_records_in_the_published_shape(memory_workspace: Workspace) -> None:
    """`RecordTrees.create` takes the same document, without what names other versions."""
    cr = {name: value for name, value in RECORD.items() if name not in ("parentCRHash", "resumePoints")}
    made = RecordTrees(memory_workspace.store).create(cr)
    assert (made["version"], made["executionSummary"]["elapsedMs"]) == ("1.0", 1235)
    assert "completedAt" not in made["task"]


def _changed(**changes: object) -> str:
    return json.dumps(RECORD | changes)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.md", b"\xff\xfe", "not UTF-8"),
        ("a.md", b"  \n", "is empty"),
        ("a.md", b"x\n" * 30_000, "more than 20,000 lines"),
        ("a.md", b"x" * 2_000_000, "regular file of at most"),
        ("a.json", b"{}", "cannot tell its format"),
        ("a.json", b"[" * 100_000, "cannot tell its format"),
        ("a.txt", b"hello", "cannot tell its format"),
        ("a.json", _changed(version="2.0.0").encode(), "version"),
        ("a.json", _changed(task={"id": "t"}).encode(), "goal"),
        ("a.json", _changed(decisions=[{"id": "d1"}]).encode(), "decisions"),
        ("a.json", _changed(resumePoints=[5]).encode(), "a.json"),
        ("a.json", _changed().replace('"id": "cr-7"', '"id": "cr-7", "id": "x"').encode(), "'id' appears twice"),
        ("a.json", json.dumps(MIND | {"nodes": 5}).encode(), "nodes"),
        ("a.sqlite", langgraph.MAGIC + b"\0" * 4096, "cannot be read"),
    ],
)  # fmt: skip
def test_a_hostile_document_is_refused(
    memory_workspace: Workspace, tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    """The refusal says why, in bounded time, and nothing is written."""
    path = tmp_path / name
    path.write_bytes(content)
    begun = time.monotonic()
    with pytest.raises(InvalidError, match=reason):
        read_work(str(path))
    assert time.monotonic() - begun < 10
    assert memory_workspace.everything() == ({}, {})


@pytest.mark.parametrize("name", ["a.md", "a.json", "a.sqlite"])
def test_a_pipe_or_a_link_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing waits for a writer, and no link is followed."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(InvalidError, match="not a regular file"):
        read_work(str(tmp_path / name))
    (tmp_path / name).unlink()
    os.symlink(LANGGRAPH, tmp_path / name)
    with pytest.raises(InvalidError, match="symbolic link"):
        read_work(str(tmp_path / name))
    with pytest.raises(NotFoundError):
        read_work(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "line", ["# " + "#" * 900_000 + "x", "# " + "# " * 450_000 + "x", "- " + " \t" * 450_000 + "x", "`" * 900_000]
)
def test_a_page_with_a_line_of_any_kind_is_read_at_once(tmp_path: Path, line: str) -> None:
    """No line makes reading take longer than its length."""
    path = brought(tmp_path, "h.md", f"# Goal\n\n{line}\n")
    begun = time.process_time()
    read_work(path)
    assert time.process_time() - begun < 5


def test_what_a_page_says_is_stored_without_secrets(memory_workspace: Workspace, tmp_path: Path) -> None:
    """The document, the events, the record and the page have no token."""
    secret = "ghp_" + "a1B2" * 9
    work = read_work(brought(tmp_path, "h.md", HANDOFF.replace("Deploy", f"Deploy with {secret}")))
    assert secret.encode() not in b"".join(work.documents)
    imported(memory_workspace, work)
    assert not any(secret.encode() in entry.data for entry in memory_workspace.entries("t1"))
    assert secret not in (memory_workspace.root / "tmp" / "checkpoint-active.md").read_text()


# --- the file of LangGraph


def a_copy(tmp_path: Path, *statements: tuple[str, tuple[object, ...]]) -> str:
    path = tmp_path / "copy.sqlite"
    path.write_bytes(LANGGRAPH.read_bytes())
    with sqlite3.connect(path) as database:
        for statement, values in statements:
            database.execute(statement, values)
    database.close()
    return str(path)


def test_a_file_with_several_threads_needs_one_named(tmp_path: Path) -> None:
    """The refusal lists them, and only LangGraph has threads."""
    path = a_copy(tmp_path, ("UPDATE checkpoints SET thread_id = 'b'", ()),
                  ("INSERT INTO checkpoints SELECT 'a', '', 'x', NULL, type, checkpoint, metadata FROM checkpoints", ()))  # fmt: skip
    with pytest.raises(InvalidError, match=r"several threads: a, b .*--thread ID"):
        read_work(path)
    assert read_work(path, thread="a").name == "a"
    with pytest.raises(NotFoundError, match="thread 'c' has no checkpoint"):
        read_work(path, thread="c")
    with pytest.raises(UsageError, match="has no threads"):
        read_work(str(STATE), thread="a")


class _Mark:
    """What leaves a file behind when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, (self.path,)


def test_nothing_is_unpickled_or_imported(tmp_path: Path) -> None:
    """A pickled value, and an object that names a function, are shown as what they are."""
    run = tmp_path / "run"
    called = b"\x93" + b"".join(b"\xd9" + bytes([len(one)]) + one for one in (b"os", b"mkdir", str(run).encode()))
    extension = b"\xc7" + bytes([len(called), 0]) + called
    path = a_copy(
        tmp_path,
        ("INSERT INTO writes SELECT thread_id, '', checkpoint_id, 'x', '', 7, 'a', 'pickle', ? FROM checkpoints",
         (pickle.dumps(_Mark(str(run))),)),
        ("INSERT INTO writes SELECT thread_id, '', checkpoint_id, 'x', '', 8, 'b', 'msgpack', ? FROM checkpoints",
         (extension,)),
    )  # fmt: skip
    writes = dict(json.loads(read_work(path).documents[0])["writes"])
    assert writes["a"]["type"] == "pickle, not decoded"
    assert writes["b"] == {"type": "os.mkdir", "value": str(run)}
    assert not run.exists()


@for_each(
    ("statements", "reason"),
    [
        (("DROP TABLE writes",), "has no table writes"),
        (("DROP TABLE writes", "CREATE VIEW writes AS SELECT 1 AS thread_id"), "has no table writes"),
        (("DROP TABLE writes", "CREATE TABLE writes (thread_id)"), "no column checkpoint_ns"),
        (("UPDATE checkpoints SET checkpoint = x'dd7fffffff'",), "truncated"),
        (("UPDATE checkpoints SET checkpoint = x'93'",), "truncated"),
        (("UPDATE checkpoints SET checkpoint = x'c0'",), "is not a map"),
        (("UPDATE checkpoints SET checkpoint = x'c1'",), "invalid opcode"),
        (("UPDATE checkpoints SET metadata = '{'",), "is not JSON"),
        (("DELETE FROM checkpoints",), "no thread"),
        (("UPDATE checkpoints SET checkpoint = zeroblob(20000000)",), "cannot be read|bytes follow"),
    ],
)  # fmt: skip
def test_a_hostile_database_is_refused(tmp_path: Path, statements: tuple[str, ...], reason: str) -> None:
    """Views, missing tables and values that are cut or too large are refused by name."""
    path = a_copy(tmp_path, *((one, ()) for one in statements))
    with pytest.raises(AdjournError, match=reason):
        read_work(path)


def test_the_database_is_read_as_it_is(tmp_path: Path) -> None:
    """An import changes neither the file nor its folder, and reads what is still in the write-ahead log."""
    path = tmp_path / "live.sqlite"
    path.write_bytes(LANGGRAPH.read_bytes())
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("UPDATE checkpoints SET thread_id = 'moved'")
    database.commit()
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir() if not one.name.endswith("-shm")}
    assert read_work(str(path)).name == "moved"
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir() if not one.name.endswith("-shm")} == before
    database.close()


@for_each(
    ("data", "value"),
    [
        (b"\x00", 0), (b"\xff", -1), (b"\xc0", None), (b"\xc2", False), (b"\xc3", True),
        (b"\xcc\xff", 255), (b"\xd1\xff\xfe", -2), (b"\xcf" + b"\xff" * 8, 2**64 - 1),
        (b"\xcb" + struct.pack(">d", 1.5), 1.5), (b"\xa1a", "a"), (b"\xd9\x01a", "a"), (b"\xc4\x01\x00", b"\0"),
        (b"\x92\x01\x02", [1, 2]), (b"\xdc\x00\x01\x01", [1]), (b"\x81\xa1a\x01", {"a": 1}), (b"\x81\x05\x01", {5: 1}),
        (b"\xd4\x05\x01", langgraph.Extension(5, b"\x01")), (b"\xc7\x02\x07ab", langgraph.Extension(7, b"ab")),
    ],
)  # fmt: skip
def test_messagepack_is_read(data: bytes, value: object) -> None:
    """Each kind of value; an extension is its number and its bytes."""
    assert langgraph.decode(data) == value


@for_each(
    "data",
    [b"", b"\xc1", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff\x01", b"\xa5ab", b"\xa1\xff", b"\x91" * 100 + b"\x01",
     b"\x01\x01", b"\xc9\xff\xff\xff\xff\x00", b"\xdd\x00\x08\x00\x00" + b"\x01" * 0x80000],
)  # fmt: skip
def test_hostile_messagepack_is_refused(data: bytes) -> None:
    """Lengths that the data do not have, depth, count and rest bytes."""
    with pytest.raises(InvalidError):
        langgraph.decode(data)


def test_a_crowded_messagepack_is_refused_before_its_values_are_made() -> None:
    """Sixteen million empty lists take no more memory than their bytes."""
    data = b"\xdd\x00\xff\xff\xfb" + b"\x90" * (langgraph.MAX_VALUE_BYTES - 5)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidError, match="more than 500,000 values"):
            langgraph.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
