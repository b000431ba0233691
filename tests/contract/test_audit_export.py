"""Exported events and their proof, on every backend: any change of the file is found, and the store is not needed for that."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from adjourn.aex import from_text, narrowed
from adjourn.errors import IntegrityError
from adjourn.host import keys, process
from adjourn.host.clock import now
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.policy.principal import Principal
from adjourn.store import Store, open_store
from adjourn.store.memory import MemoryStore
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.owners import Period
from adjourn.tasks.session import Session
from adjourn.tasks.task import NewEvent, Task
from adjourn.verification.audit import AuditChoice, audit_lines, verify_lines
from support.task_sessions import READ, SECRET

POLICY = "policy p v1\nallow *\n"
ANN = Principal(id="user:1", name="ann", type="human", label="bob")
BOB = Principal(id="user:2", name="bob", type="human")
ALL = AuditChoice()


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A new store of each backend, with two tasks of two people."""
    if request.param == "memory":
        yield filled(MemoryStore())
        return
    new: Callable[[], str] = request.getfixturevalue("new_postgres_url") if request.param == "postgres" else str
    with closing(open_store(new() or f"sqlite:{tmp_path / 'audit.db'}")) as opened:
        yield filled(opened)


def filled(store: Store, clock: Callable[[], int] = now) -> Store:
    for name, who in (("t1", ANN), ("t2", BOB)):
        task = Task(store, name, clock=clock, secret=SECRET)
        policy = narrowed(from_text(POLICY, "p.aex")[0], who)
        session = Session(task, policy, SessionIdentity(process.current(), "codex", principal=who))
        session.open()
        session.admit([READ])
        session.admit([READ])
    return store


def exported(store: Store, choice: AuditChoice = ALL) -> list[bytes]:
    return list(audit_lines(store, choice, now()))


def reasons(lines: list[bytes]) -> str:
    """What is found, in words; "" for an export that is valid."""
    return "; ".join(f"{one.finding.code}: {one.finding.message}" for one in verify_lines(lines).findings)


def test_each_event_is_exported_as_it_is_stored(store: Store) -> None:
    """A line has the stored bytes, task, position, digest and principal; heads and a signature follow, and the file is valid."""
    lines = exported(store)
    events = [json.loads(line) for line in lines if line.startswith(b'{"digest"')]
    stored = [entry for task in ("t1", "t2") for entry in store.read(task)]
    assert [(one["digest"], one["seq"]) for one in events] == [
        (entry.hash, seq) for task in ("t1", "t2") for seq, entry in enumerate(store.read(task))
    ]
    assert all(
        entry.data in line for entry, line in zip(stored, (one for one in lines if b'"digest"' in one), strict=True)
    )
    assert {(one["task"], one["principal"], one["principalName"]) for one in events if one["event"]["session"]} == {
        ("t1", "user:1", "bob (ann)"), ("t2", "user:2", "bob"),
    }  # fmt: skip
    heads = [json.loads(line)["head"] for line in lines if line.startswith(b'{"head"')]
    assert [(one["task"], one["seq"], one["hash"]) for one in heads] == [
        (task, *store.head(task)) for task in ("t1", "t2")
    ]
    report = verify_lines(lines)
    assert (report.valid, report.events, len(report.tasks)) == (True, len(stored), 2)


def test_every_change_of_an_export_is_found() -> None:
    """A line that is changed, removed, doubled, moved or cut off is found, whichever it is; so is another end of the file."""
    lines = exported(filled(MemoryStore()))
    assert reasons(lines) == ""
    for number, line in enumerate(lines):
        rest = [*lines[:number], *lines[number + 1 :]]
        assert reasons(rest), f"line {number} is missing"
        assert reasons([*lines[: number + 1], *lines[number:]]), f"line {number} is there twice"
        assert reasons(lines[:number]), f"the file ends before line {number}"
        for at in random.Random(number).sample(range(len(line) - 1), 40):
            changed = bytearray(line)
            changed[at] ^= 1
            assert reasons([*lines[:number], bytes(changed), *lines[number + 1 :]]), (number, at)
    for number in range(len(lines) - 1):
        moved = [*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :]]
        assert reasons(moved), f"lines {number} and {number + 1} changed places"


def test_a_whole_export_that_somebody_else_signed_is_not_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who rewrites all lines can sign them only with another key, which is not trusted until a person says so."""
    lines = exported(filled(MemoryStore()))
    public = keys.own_public_key()
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "another"))
    assert reasons(lines).startswith("unknown-signer")
    keys.trust("gateway", public)
    assert reasons(lines) == ""
    ending = json.loads(lines[-1])
    ending["signature"] = ending["signature"][:-4] + "AA=="
    end = json.dumps(ending, separators=(",", ":")).encode()
    assert reasons([*lines[:-1], end]).startswith("signature-mismatch")


def test_a_person_is_meant_by_id_or_name_and_not_by_a_label(store: Store) -> None:
    """Whoever calls itself by another's name does not get into that one's export."""
    for asked, task in (("user:1", "t1"), ("ann", "t1"), ("bob", "t2"), ("user:2", "t2")):
        lines = exported(store, AuditChoice(person=asked))
        assert {json.loads(line)["task"] for line in lines if line.startswith(b'{"digest"')} == {task}, asked
        assert reasons(lines) == ""
    (only,) = exported(store, AuditChoice(person="carl"))
    assert json.loads(only)["export"]["lines"] == 0
    assert reasons([only]) == ""


def test_what_a_person_answers_is_exported_with_it() -> None:
    """An answer stands in no session: it is its author's, whoever works on the task."""
    store = filled(MemoryStore())
    denied = kinds.ConfirmDenied(approval="k", server="s", tool="t", via="page")
    Task(store, "t1", clock=now, secret=SECRET).commit([NewEvent(denied, Actor("carl", "human"))])
    events = [json.loads(line) for line in exported(store, AuditChoice(person="carl"))[:-2]]
    assert [one["event"]["event"] for one in events] == ["confirm.denied"]


def test_a_time_has_a_first_and_a_last_moment() -> None:
    """The first moment is in the export, the last one is not; a task that ended days before is not read."""
    at = [1_777_700_000_000]
    store = filled(MemoryStore(), lambda: at[0])
    first = exported(store)
    at[0] += 10 * 86_400_000
    Task(store, "t2", clock=lambda: at[0], secret=SECRET).commit([NewEvent(kinds.TaskFinished(note=""))])
    since = AuditChoice(period=Period(at[0]))
    assert [json.loads(line).get("seq") for line in exported(store, since)[:-2]] == [store.head("t2").seq]
    assert reasons(exported(store, since)) == ""
    until = exported(store, AuditChoice(period=Period(None, at[0])))
    assert [one for one in until if b'"digest"' in one] == [one for one in first if b'"digest"' in one]
    assert exported(store, AuditChoice(period=Period(None, 1_777_700_000_000)))[:-1] == []


def test_a_history_that_was_changed_is_not_signed() -> None:
    """An export stops at the first event that fails verification: no head of that task, no signed end."""
    store = MemoryStore()
    filled(store)
    entries = store._streams["t2"]
    entries[1] = entries[1]._replace(data=entries[1].data.replace(b"codex", b"other"))
    lines: list[bytes] = []
    with pytest.raises(IntegrityError, match="t2"):
        lines.extend(audit_lines(store, ALL, now()))
    assert {json.loads(line).get("task", "t1") for line in lines} == {"t1"}
    assert reasons(lines).startswith("export-broken")
