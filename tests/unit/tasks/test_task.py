"""A task's ledger stays current, and facts are decided on and written in one step."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adjourn.errors import ConflictError, IntegrityError, InvalidError, NotFoundError, StoreError
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.chain import verify_chain
from adjourn.log.event import decode, timestamp
from adjourn.store import base as retry
from adjourn.store.base import NO_REFS, NO_SWAPS, Entry, Head, Swap
from adjourn.store.memory import MemoryStore
from adjourn.tasks import task as module
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import NewEvent, Task, check_task_id, existing
from support.cases import for_each
from support.clock import NOON, Clock

SECRET = b"s" * 32
OPENED = NewEvent(kinds.TaskOpened(goal="g"))
READ = kinds.ToolAllowed(call="c1", digest="1" * 64, effectful=False, tool="read_file")


class Spy(MemoryStore):
    """A memory store that tells from where it was read, and can fail to append."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[int] = []
        self.failures: list[Exception] = []
        self.durable: list[bool] = []

    def read(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        self.starts.append(start)
        return super().read(stream, start, stop)

    def append(
        self,
        stream: str,
        entries: Sequence[Entry],
        *,
        expect: Head,
        refs: Mapping[str, str | None] = NO_REFS,
        blobs: Sequence[bytes] = (),
        durable: bool = True,
        swaps: Mapping[str, Swap] = NO_SWAPS,
    ) -> Head:
        if self.failures:
            raise self.failures.pop(0)
        self.durable.append(durable)
        return super().append(stream, entries, expect=expect, refs=refs, blobs=blobs, durable=durable, swaps=swaps)


@pytest.fixture
def store() -> Spy:
    return Spy()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def a_task(store: MemoryStore, clock: Clock | None = None, name: str = "t1", secret: bytes = SECRET) -> Task:
    return Task(store, name, clock=clock or Clock(), secret=secret)


def allowed(call: str) -> NewEvent:
    return NewEvent(msgspec.structs.replace(READ, call=call), session="s1")


def write(task: Task, *facts: NewEvent) -> None:
    task.commit(lambda _: facts)


def kinds_in(store: MemoryStore, name: str = "t1") -> list[str]:
    return [decode(entry.data).event for entry in store.read(name)]


# --- writing


def test_facts_become_a_chain_in_the_store(store: Spy) -> None:
    """Committed facts are events of the task, in order, at the clock's time, and in the ledger at once."""
    task = a_task(store)
    written = task.commit(lambda _: [OPENED, allowed("c1")])
    assert verify_chain(store.read("t1"), expect_head=task.ledger.hash).checked == 2
    assert [(item.event.seq, item.event.event, item.event.session) for item in written] == [
        (0, "task.opened", ""),
        (1, "tool.allowed", "s1"),
    ]
    assert {item.event.timestamp for item in written} == {timestamp(NOON)}
    assert (task.ledger.goal, task.ledger.calls_used) == ("g", 1)


def test_no_facts_are_no_event(store: Spy) -> None:
    """A builder that has nothing to say writes nothing."""
    task = a_task(store)
    assert task.commit(lambda _: []) == []
    assert store.streams() == {}


def test_refs_and_documents_are_written_in_the_same_step(store: Spy) -> None:
    """Refs made from what was written, and blobs, arrive with the events, and not at all when those do not."""
    task = a_task(store)
    task.commit(lambda _: [OPENED], refs=lambda written: {"last": written[-1].hash}, blobs=[b"text"])
    assert store.ref("last") == task.ledger.hash
    assert store.get_blob(digest(b"text")) == b"text"
    store.failures = [StoreError("full")]
    with pytest.raises(StoreError, match="full"):
        task.commit(lambda _: [allowed("c1")], refs=lambda _: {"last": "new"}, blobs=[b"other"])
    assert store.ref("last") == task.ledger.hash
    assert store.get_blob(digest(b"other")) is None


def test_a_failed_write_leaves_the_ledger(store: Spy) -> None:
    """When the store fails nothing has happened, and the next commit continues from there."""
    task = a_task(store)
    write(task, OPENED)
    store.failures = [StoreError("full")]
    with pytest.raises(StoreError):
        write(task, allowed("c1"))
    assert (task.ledger.seq, task.ledger.calls_used) == (0, 0)
    write(task, allowed("c1"))
    assert (task.ledger.seq, task.ledger.calls_used) == (1, 1)


def test_a_fact_that_cannot_be_written_is_refused_whole(store: Spy) -> None:
    """An oversized fact raises, and the facts beside it are not written either."""
    task = a_task(store)
    with pytest.raises(InvalidError, match="more than 65536"):
        write(task, OPENED, NewEvent(kinds.UpstreamError(message="x" * 70_000)))
    assert store.streams() == {}
    assert not task.ledger.exists


# --- conflicts


def test_a_conflict_is_decided_anew(store: Spy) -> None:
    """When another process was faster, the builder is asked again, with what that one wrote in its ledger."""
    one, other = a_task(store), a_task(store)
    write(one, OPENED)
    seen: list[int] = []

    def only_the_first(ledger: Ledger) -> list[NewEvent]:
        seen.append(ledger.calls_used)
        return [allowed("c2")] if ledger.calls_used == 0 else []

    other.refresh()
    write(one, allowed("c1"))
    assert other.commit(only_the_first) == []
    assert seen == [0, 1]
    assert kinds_in(store) == ["task.opened", "tool.allowed"]


def test_many_writers_make_one_chain(store: Spy) -> None:
    """Threads with a task object each lose no fact and break no link."""
    tasks = [a_task(store) for _ in range(4)]
    write(tasks[0], OPENED)

    def work(number: int) -> None:
        for count in range(20):
            write(tasks[number], allowed(f"{number}.{count}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify_chain(store.read("t1")).checked == 81
    assert a_task(store).ledger.calls_used == 80
    assert {task.refresh().calls_used for task in tasks} == {80}


def test_one_task_object_serves_many_threads(store: Spy) -> None:
    """Threads that share a task object lose nothing either."""
    task = a_task(store)
    threads = [
        threading.Thread(target=lambda number=number: write(task, allowed(f"c{number}"))) for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(task.ledger.open_calls) == 20
    assert verify_chain(store.read("t1"), expect_head=task.ledger.hash).valid


def test_endless_conflicts_end(store: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that always says conflict ends the attempts, with an error that says what to do."""
    monkeypatch.setattr(retry, "MAX_ATTEMPTS", 5)
    task = a_task(store)
    store.failures = [ConflictError("moved") for _ in range(5)]
    with pytest.raises(ConflictError, match=r"too many concurrent writers on task t1 \(retry\)"):
        write(task, OPENED)


# --- deferring


def test_deferred_facts_come_before_the_next_ones(store: Spy) -> None:
    """A deferred fact is written by the next commit, ahead of its own facts, once."""
    task = a_task(store)
    write(task, OPENED, allowed("c1"))
    task.deferred.append(NewEvent(kinds.ToolSettled(call="c1", outcome="ok"), session="s1"))
    assert len(kinds_in(store)) == 2
    assert task.ledger.open_calls
    write(task, allowed("c2"))
    write(task, allowed("c3"))
    assert kinds_in(store)[2:] == ["tool.readings", "tool.allowed"]
    assert set(task.ledger.open_calls) == {"c2", "c3"}


def test_deferred_facts_are_written_by_an_empty_commit_too(store: Spy) -> None:
    """A commit with nothing of its own, and a flush, write what was deferred."""
    task = a_task(store)
    task.deferred.append(OPENED)
    task.commit(lambda _: [])
    task.deferred.append(allowed("c1"))
    task.flush()
    task.flush()
    assert kinds_in(store) == ["task.opened", "tool.allowed"]
    assert store.durable == [True, False]


def test_deferred_facts_survive_a_failed_write(store: Spy) -> None:
    """They are kept until some commit succeeds, then written once, whatever failed before."""
    task = a_task(store)
    write(task, OPENED, allowed("c1"))
    task.deferred.append(NewEvent(kinds.ToolSettled(call="c1", outcome="ok")))
    store.failures = [StoreError("full"), ConflictError("moved")]
    with pytest.raises(StoreError, match="full"):
        write(task, allowed("c2"))
    with pytest.raises(ZeroDivisionError):
        task.commit(lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
    write(task, allowed("c3"))
    assert kinds_in(store)[2:] == ["tool.settled", "tool.allowed"]
    assert set(task.ledger.open_calls) == {"c3"}


# --- reading


def test_what_others_write_is_taken_in(store: Spy) -> None:
    """Refreshing brings the ledger to the store's head and reads only what is new."""
    one, other = a_task(store), a_task(store)
    write(one, OPENED, allowed("c1"))
    store.starts.clear()
    assert other.refresh() == one.ledger
    assert other.refresh() == one.ledger
    assert store.starts == [0, 2]


def test_unknown_kinds_are_carried(store: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of a kind of the future is chained and counted, and does not stop the task."""
    monkeypatch.setattr(kinds, "REGISTRY", dict(kinds.REGISTRY))
    task = a_task(store)
    write(task, OPENED)

    class Future(kinds.Data, frozen=True, kw_only=True):
        KIND = "moon.landed"
        crater: int

    write(task, NewEvent(Future(crater=1)))
    del kinds.REGISTRY["moon.landed"]
    again = a_task(store)
    assert again.ledger == task.ledger
    write(again, allowed("c1"))
    assert verify_chain(store.read("t1")).checked == 3


def tamper(store: MemoryStore, at: int, old: bytes, new: bytes, *, mend: bool) -> None:
    entry = store._streams["t1"][at]
    data = entry.data.replace(old, new)
    assert data != entry.data
    store._streams["t1"][at] = Entry(digest(data) if mend else entry.hash, data)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_changed_event_is_found_on_loading(store: Spy, at: int) -> None:
    """An event whose bytes are not those that were hashed raises IntegrityError that names it."""
    write(a_task(store), OPENED, allowed("c1"), allowed("c2"))
    tamper(store, at, b'"adjourn"', b'"anybody"', mend=False)
    with pytest.raises(IntegrityError, match=rf"event {at} of task t1 was changed in the store"):
        a_task(store)


def test_a_changed_event_with_a_mended_hash_is_found_at_the_next(store: Spy) -> None:
    """Whoever mends the hash breaks the link that the next event holds."""
    write(a_task(store), OPENED, allowed("c1"), allowed("c2"))
    tamper(store, 1, b'"adjourn"', b'"anybody"', mend=True)
    with pytest.raises(IntegrityError, match="event 2 of t1 does not follow event 1"):
        a_task(store)


def test_a_changed_event_is_found_while_running(store: Spy) -> None:
    """An open task checks what it takes in later as well, and keeps what it knew."""
    task, other = a_task(store), a_task(store)
    write(other, OPENED)
    tamper(store, 0, b'"adjourn"', b'"anybody"', mend=False)
    with pytest.raises(IntegrityError):
        task.refresh()
    assert not task.ledger.exists


# --- folds


def folded(store: Spy) -> Task:
    task = a_task(store)
    write(task, OPENED, allowed("c1"), allowed("c2"))
    task.fold()
    return task


def test_a_fold_saves_reading_the_past(store: Spy) -> None:
    """Loading continues from the kept ledger: it reads the event of the fold and what came after."""
    task = folded(store)
    write(task, allowed("c3"))
    store.starts.clear()
    again = a_task(store)
    assert again.ledger == task.ledger
    assert store.starts == [2, 3]
    write(again, allowed("c4"))
    assert verify_chain(store.read("t1")).checked == 5


def forge(text: str) -> str:
    seal, _, ledger = text.partition(":")
    return seal + ":" + ledger.replace('"callsUsed":2', '"callsUsed":0')


def other_hash(text: str) -> str:
    task = Task(MemoryStore(), "t1", clock=Clock(), secret=SECRET)
    ledger = msgspec.json.decode(text.partition(":")[2], type=Ledger)
    ledger.hash = "f" * 64
    body = msgspec.json.encode(ledger)
    return f"{task._seal(body)}:{body.decode()}"


def other_shape(text: str) -> str:
    del text
    task = Task(MemoryStore(), "t1", clock=Clock(), secret=SECRET)
    return f"{task._seal(b'[]')}:[]"


def broken_tree(text: str) -> str:
    task = Task(MemoryStore(), "t1", clock=Clock(), secret=SECRET)
    ledger = msgspec.json.decode(text.partition(":")[2])
    ledger["tree"]["size"] += 1
    body = msgspec.json.encode(ledger)
    return f"{task._seal(body)}:{body.decode()}"


@pytest.mark.parametrize(
    "change",
    [forge, other_shape, broken_tree, lambda _: "", lambda _: "garbage", lambda text: text[1:]],
    ids=["forged", "another-shape", "broken-tree", "empty", "garbage", "cut"],
)
def test_a_fold_that_is_not_ours_is_passed_over(store: Spy, change: Any) -> None:
    """A fold with a wrong seal, or that cannot be read, costs time and changes nothing."""
    task = folded(store)
    text = store.ref("fold/t1")
    assert text is not None
    assert '"callsUsed":2' in text
    store.swap("fold/t1", change(text), expect=text)
    store.starts.clear()
    again = a_task(store)
    assert again.ledger == task.ledger
    assert again.ledger.calls_used == 2
    assert 0 in store.starts


def test_a_history_that_its_own_fold_contradicts_is_refused(store: Spy) -> None:
    """A sealed fold of an event that the chain does not have says that the chain was changed, and is not passed over."""
    folded(store)
    text = store.ref("fold/t1")
    assert text is not None
    store.swap("fold/t1", other_hash(text), expect=text)
    with pytest.raises(IntegrityError, match="history of task t1 in this store was cut or changed"):
        a_task(store)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_history_that_was_cut_below_its_fold_is_refused(store: Spy, left: int) -> None:
    """A chain whose end is missing, or all of it, is not continued at what the rest says was spent."""
    folded(store)
    del store._streams["t1"][left:]
    with pytest.raises(IntegrityError, match="lacks event 2, which its own cached fold was made at"):
        a_task(store)


def test_an_open_task_does_not_go_on_over_a_history_that_was_cut(store: Spy) -> None:
    """A process that lives finds out at its next append, at once."""
    task = a_task(store)
    write(task, OPENED, allowed("c1"), allowed("c2"))
    store._streams["t1"].clear()
    with pytest.raises(IntegrityError, match="lacks event 2, which this process has followed it to"):
        write(task, allowed("c3"))
    assert len(store.durable) <= 5


def test_a_fold_of_another_user_is_passed_over(store: Spy) -> None:
    """A fold sealed with another secret is not believed."""
    task = folded(store)
    store.starts.clear()
    again = a_task(store, secret=b"x" * 32)
    assert again.ledger == task.ledger
    assert store.starts == [0]


def test_a_fold_of_another_task_is_passed_over(store: Spy) -> None:
    """A well-sealed fold that was copied under another task's name is not believed."""
    folded(store)
    other = a_task(store, name="t2")
    write(other, OPENED)
    store.swap("fold/t2", store.ref("fold/t1"), expect=None)
    assert a_task(store, name="t2").ledger == other.ledger


def test_folds_are_kept_every_so_often(store: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long history is folded by itself, whenever enough events have come since."""
    monkeypatch.setattr(module, "FOLD_EVERY", 3)
    task = a_task(store)
    seen = []
    for number in range(7):
        write(task, allowed(f"c{number}"))
        text = (store.ref("fold/t1") or "").partition(":")[2]
        seen.append(msgspec.json.decode(text, type=Ledger).seq if text else -1)
    assert seen == [-1, -1, 2, 2, 2, 5, 5]


def test_a_ledger_that_is_too_large_is_not_kept(store: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold beyond the bound is left out; the task continues without."""
    monkeypatch.setattr(module, "MAX_FOLD_BYTES", 10)
    assert folded(store).ledger.seq == 2
    assert store.ref("fold/t1") is None


def test_the_largest_fold_fits_in_a_ref(store: Spy) -> None:
    """A ledger at the bound, with its seal, is within what every store takes."""
    task = a_task(store)
    write(task, allowed("c0"))
    task.ledger.goal = "g" * (module.MAX_FOLD_BYTES - len(msgspec.json.encode(task.ledger)) - 300)
    task.fold()
    assert len(store.ref("fold/t1") or "") > module.MAX_FOLD_BYTES - 300
    assert a_task(store).ledger == task.ledger


# --- names


@pytest.mark.parametrize("name", ["a", "20260502-7k3f9q2m", "A.b_c-9", "x" * 64])
def test_task_ids_are_plain(name: str) -> None:
    """Letters, digits, dots, dashes and underscores make a task id, up to 64 of them."""
    assert check_task_id(name) == name


@for_each("name", ["", ".", ".hidden", "-x", "a/b", "../a", "a b", "ä", "a\n", "x" * 65, "a\0"])
def test_other_task_ids_are_refused(name: str) -> None:
    """What could be an option, a path or an unreadable name is no task id."""
    with pytest.raises(InvalidError, match="not a task id"):
        check_task_id(name)


def test_a_task_is_found_by_the_beginning_of_its_id(store: Spy) -> None:
    """A unique beginning names a task; an ambiguous, empty or unknown one raises NotFoundError."""
    for name in ("aa1", "aa2", "b"):
        write(a_task(store, name=name), OPENED)
    assert existing(store, "b", clock=Clock(), secret=SECRET).id == "b"
    assert existing(store, "aa2", clock=Clock(), secret=SECRET).id == "aa2"
    write(a_task(store, name="bb"), OPENED)
    assert existing(store, "b", clock=Clock(), secret=SECRET).id == "b"
    for name, words in (("aa", "2 tasks have an id that starts with 'aa'"), ("zz", "no task has the id 'zz'")):
        with pytest.raises(NotFoundError, match=words):
            existing(store, name, clock=Clock(), secret=SECRET)


def test_nothing_is_written_to_disk(store: Spy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task over a memory store leaves no file."""
    monkeypatch.chdir(tmp_path)
    folded(store)
    assert list(tmp_path.iterdir()) == []
