"""The verifier itself, on stores in memory: every single change of a history is found, at the right event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints import checkpoint
from adjourn.errors import NotFoundError
from adjourn.host import keys
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import GENESIS, Actor, Event, encode, timestamp
from adjourn.store.base import EMPTY, Entry
from adjourn.store.memory import MemoryStore
from adjourn.tasks.task import NewEvent, Task
from adjourn.verification.report import CODES
from adjourn.verification.verify import CHUNK, verify_store, verify_task

NOON = 1_777_735_812_345
AGENT = Actor("claude-code", "agent")


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))


def history() -> tuple[MemoryStore, list[Entry]]:
    """A task with two checkpoints of one name and one of another."""
    store = MemoryStore()
    task = Task(store, "t", clock=lambda: NOON, secret=b"s" * 32)
    task.commit(lambda _: [NewEvent(kinds.TaskOpened(goal="g"))])
    for number in range(12):
        call = kinds.ToolAllowed(call=f"s.{number}", digest="0" * 64, effectful=True, tool="echo")
        task.commit(lambda _, call=call: [NewEvent(call, AGENT, "s")])  # type: ignore[misc]
        if number % 4 == 3:
            checkpoint.create(task, "one" if number < 8 else "two", by=AGENT)
    return store, list(store.read("t"))


def filled(entries: list[Entry]) -> MemoryStore:
    store = MemoryStore()
    store.append("t", entries, expect=EMPTY)
    return store


def found(store: MemoryStore, **options: Any) -> list[tuple[str, int]]:
    report = verify_store(store, **options)
    assert report.valid == all(one.finding.severity != "error" for one in report.findings)
    return [(one.finding.code, one.seq) for one in report.findings if one.finding.severity == "error"]


def chain(*facts: kinds.Data | dict[str, Any], task: str = "t", shift: int = 0) -> list[Entry]:
    """Well-chained events of whatever data."""
    entries, after = [], GENESIS
    for seq, fact in enumerate(facts):
        if isinstance(fact, kinds.Data):
            data, kind = msgspec.Raw(msgspec.json.encode(fact)), fact.KIND
        else:
            data, kind = msgspec.Raw(msgspec.json.encode(fact["data"])), fact["event"]
        event = Event(
            after=after, by=AGENT, data=data, event=kind, seq=seq + shift, session="s", task=task, timestamp=timestamp(NOON)
        )  # fmt: skip
        after, stored = encode(event)
        entries.append(Entry(after, stored))
    return entries


def test_a_good_history_is_valid_and_counted() -> None:
    """An unchanged store is valid, and the report counts its events, checkpoints and documents."""
    store, entries = history()
    report = verify_store(store)
    assert report.valid
    assert report.findings == []
    assert (report.events, report.checkpoints, report.documents) == (len(entries), 3, 3)
    assert report.tasks[0].head == entries[-1].hash


@pytest.mark.parametrize("before", ["read", "head", "ref", "refs"])
def test_a_session_may_write_meanwhile(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that is saved between any two steps of the verification makes no finding, of its own task or of a new one."""
    store, _ = history()
    original = getattr(store, before)
    steps: list[int] = []

    def saving(*arguments: Any, **options: Any) -> Any:
        if len(steps) < 40:
            steps.append(1)
            monkeypatch.setattr(store, before, original)
            for name in ("t", f"new{len(steps)}"):
                task = Task(store, name, clock=lambda: NOON, secret=b"s" * 32)
                task.commit(lambda ledger: [] if ledger.exists else [NewEvent(kinds.TaskOpened(goal="g"))])
                checkpoint.create(task, f"one{len(steps)}" if name != "t" else "one", by=AGENT)
            monkeypatch.setattr(store, before, saving)
        return original(*arguments, **options)

    monkeypatch.setattr(store, before, saving)
    report = verify_store(store)
    assert (bool(steps), report.findings) == (True, [])


@given(st.data())
def test_every_changed_byte_is_found_at_its_event(data: st.DataObject) -> None:
    """A changed byte in any event is a hash mismatch at that event, also in a quick verification."""
    _, entries = history()
    seq = data.draw(st.integers(0, len(entries) - 1))
    at = data.draw(st.integers(0, len(entries[seq].data) - 1))
    changed = bytearray(entries[seq].data)
    changed[at] ^= data.draw(st.integers(1, 255))
    entries[seq] = Entry(entries[seq].hash, bytes(changed))
    assert found(filled(entries))[0] == ("hash-mismatch", seq)
    assert found(filled(entries), deep=False)[0] == ("hash-mismatch", seq)


@given(st.data())
def test_every_dropped_or_swapped_event_is_found(data: st.DataObject) -> None:
    """An event that is missing or out of order is a parent mismatch at the first position that differs."""
    _, entries = history()
    seq = data.draw(st.integers(0, len(entries) - 2))
    assert found(filled(entries[:seq] + entries[seq + 1 :]))[0] == ("parent-mismatch", seq)
    swapped = [*entries[:seq], entries[seq + 1], entries[seq], *entries[seq + 2 :]]
    assert found(filled(swapped))[0] == ("parent-mismatch", seq)


def test_what_is_chained_but_makes_no_sense_is_found() -> None:
    """An event whose hash fits but whose data, task, position or form does not is an error."""
    opened = kinds.TaskOpened(goal="g")
    bad = {"event": "tool.allowed", "data": {"tool": 5}}
    assert found(filled(chain(opened, bad, opened))) == [("data-misfit", 1)]
    assert found(filled(chain(opened, task="other"))) == [("wrong-task", 0)]
    assert found(filled(chain(opened, shift=3))) == [("wrong-seq", 0)]
    assert found(filled(chain(opened, bad)), deep=False) == []
    data = b'{"after":"' + GENESIS.encode() + b'","junk":1}'
    assert found(filled([Entry(digest(data), data)])) == [("not-an-event", 0)]


def test_a_newer_format_is_chain_checked_and_said_so() -> None:
    """An event of a newer format version is valid if its chain is, and the report names it."""
    (first,) = chain(kinds.TaskOpened(goal="g"))
    data = first.data.replace(b'"v":1', b'"v":3')
    report = verify_store(filled([Entry(digest(data), data)]))
    assert report.valid
    assert [one.finding.code for one in report.findings] == ["newer-format"]


def test_an_unknown_kind_is_kept_and_is_no_finding() -> None:
    """An event of an unknown kind is valid."""
    entries = chain(kinds.TaskOpened(goal="g"), {"event": "from.the.future", "data": {"x": "y"}})
    report = verify_store(filled(entries))
    assert report.valid
    assert report.findings == []


def test_a_forged_checkpoint_is_found_even_when_the_root_is_right() -> None:
    """A checkpoint that was renamed after it was signed is a signature mismatch, which a quick verification does not look for."""
    store, entries = history()
    made = next(i for i, entry in enumerate(entries) if b"checkpoint.created" in entry.data)
    data = entries[made].data.replace(b'"name":"one"', b'"name":"two"')
    forged = [*entries[:made], Entry(digest(data), data)]
    copy = filled(forged)
    for entry in entries:
        if b"checkpoint.created" in entry.data:
            event = msgspec.json.decode(entry.data)
            document = store.get_blob(event["data"]["document"])
            assert document is not None
            copy.put_blob(document)
    assert ("signature-mismatch", made) in found(copy)
    assert found(copy, deep=False) == []


def test_a_strangers_checkpoint_is_a_warning_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints of a signer who is not trusted here cause one warning, and verifying creates no key."""
    store, _ = history()
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "another"))
    report = verify_store(store)
    assert report.valid
    assert [one.finding.code for one in report.findings] == ["unknown-signer"]
    assert not (tmp_path / "another").exists(), "reading makes no key"


def test_a_missing_contract_is_found() -> None:
    """A task whose contract is not in the store is an error of the whole task."""
    store = filled(chain(kinds.TaskOpened(goal="g", contract="0" * 64)))
    assert found(store) == [("contract-missing", -1)]


def test_the_expected_head_is_held_to() -> None:
    """A task is valid only if its last event has the expected hash."""
    store, entries = history()
    assert verify_task(store, "t", expect_head=entries[-1].hash).valid
    behind = verify_task(store, "t", expect_head=entries[3].hash)
    assert not behind.valid
    assert "event 3" in behind.findings[0].finding.message
    assert not verify_task(store, "t", expect_head="f" * 64).valid


def test_progress_is_told_and_reaches_the_end() -> None:
    """The progress callback gets the count after each chunk and at the end."""
    count = CHUNK + 10
    call = kinds.ToolAllowed(call="s.1", digest="0" * 64, effectful=False, tool="echo")
    store = filled(chain(kinds.TaskOpened(goal="g"), *[call] * (count - 1)))
    told: list[tuple[int, int]] = []
    verify_store(store, deep=False, progress=lambda done, total: told.append((done, total)))
    assert told == [(CHUNK, count), (count, count)]


def test_every_code_is_documented_and_used() -> None:
    """The source of the package uses each code of the table of findings."""
    room = Path(__file__).parents[3] / "src/adjourn/verification"
    source = "".join(path.read_text() for path in room.glob("*.py"))
    assert all(source.count(f'"{code}"') >= (1 if code.endswith("mismatch") else 2) for code in CODES)


def test_keys_made_by_reading_are_none() -> None:
    """Looking for trusted keys and checkpoints in an empty place creates none."""
    assert keys.trusted() == {}
    with pytest.raises(NotFoundError):
        checkpoint.find(MemoryStore(), "x")
