"""Pictures that are kept: new events are added to them, and what fails verification is shown in none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adjourn.errors import IntegrityError
from adjourn.handover import lanes as lanes_module
from adjourn.handover.lanes import KeptLanes, SessionLanes, session_lanes
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.store.base import Entry, Store
from adjourn.store.memory import MemoryStore
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import NewEvent, Task
from adjourn.ui.site import EventAddresses
from support.page_in_memory import PageInMemory
from support.task_sessions import SECRET, SharedTask

AGENT = Actor("claude-code", "agent")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)


def work(shared: SharedTask, calls: int, name: str = "c") -> Task:
    """So many calls, each a minute after the one before."""
    task = shared.task()
    (session,) = task.ledger.sessions
    for number in range(calls):
        call = f"{name}{number}"
        facts = [
            kinds.ToolAllowed(call=call, digest=f"{number:064x}", effectful=True, tool=f"tool{number % 3}"),
            kinds.ToolSettled(call=call, outcome="ok" if number % 4 else "error"),
        ]
        task.commit(lambda _: [NewEvent(fact, AGENT, session) for fact in facts])  # noqa: B023  # it is called at once
        shared.clock.move(seconds=60)
    return task


def addresses(drawn: int = 5_000) -> EventAddresses:
    return EventAddresses("t1", drawn, range(10), 400)


def whole(task: Task, address: EventAddresses, start: int = 0) -> object:
    """The picture that is drawn from all events again."""
    return session_lanes(
        verified_entries_from(task.store, task.id, start, task.head), list(task.ledger.doubts), address
    )


def picture(kept: KeptLanes, store: Store, ledger: Ledger, address: EventAddresses) -> SessionLanes:
    return kept.lanes(store, ledger, address.drawn, address)


def reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where reading began, each time."""
    starts: list[int] = []
    read = store.read

    def counted(stream: str, start: int = 0, end: int | None = None) -> object:
        starts.append(start)
        return read(stream, start, end)

    monkeypatch.setattr(store, "read", counted)
    return starts


def test_new_events_are_added_to_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the one that all events together give, and no event is read twice but the last."""
    shared = SharedTask()
    shared.opened()
    kept, address = KeptLanes(), addresses()
    task = work(shared, 9)
    assert picture(kept, shared.store, task.ledger, address) == whole(task, address)
    end = task.ledger.seq
    task = work(shared, 5, "d")
    task.commit(
        lambda _: [
            NewEvent(
                kinds.ToolAllowed(call="e", digest="0" * 64, effectful=True, tool="pay"),
                AGENT,
                next(iter(task.ledger.sessions)),
            )
        ]
    )
    expected = whole(task, address)
    starts = reads(shared.store, monkeypatch)
    assert picture(kept, shared.store, task.ledger, address) == expected
    assert picture(kept, shared.store, task.ledger, address) == expected
    assert starts == [end]


def test_a_picture_of_the_last_events_begins_later_as_the_task_grows() -> None:
    """It has at least as many events as were asked for, and at most a tenth more."""
    shared = SharedTask()
    shared.opened()
    kept, address = KeptLanes(), addresses(40)
    for number in range(30):
        task = work(shared, 2, f"{number}.")
        drawn = picture(kept, shared.store, task.ledger, address)
        assert min(40, task.ledger.seq + 1) <= drawn.events <= 44
        assert drawn == whole(task, address, task.ledger.seq + 1 - drawn.events)


class _Edited(MemoryStore):
    """A store in which somebody changes an event."""

    changed = -1

    def read(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        for seq, entry in enumerate(super().read(stream, start, stop), start):
            yield Entry(entry.hash, entry.data.replace(b"tool", b"fool")) if seq == self.changed else entry


def test_a_changed_event_is_drawn_by_no_picture() -> None:
    """Neither at first nor among the new ones; once it is as it was, the picture is whole."""
    shared = SharedTask()
    shared.store = store = _Edited()
    shared.opened()
    kept, address = KeptLanes(), addresses()
    picture(kept, store, work(shared, 3).ledger, address)
    task = work(shared, 3, "d")
    store.changed = task.ledger.seq - 1
    with pytest.raises(IntegrityError, match="fails verification"):
        picture(kept, store, task.ledger, address)
    store.changed = -1
    assert picture(kept, store, task.ledger, address) == whole(task, address)


def test_another_history_is_drawn_from_its_beginning() -> None:
    """A task of the same name in another store shares nothing with the one that was drawn."""
    kept, address = KeptLanes(), addresses()
    for calls, name in ((4, "a"), (4, "b"), (2, "a")):
        shared = SharedTask()
        shared.opened()
        task = work(shared, calls, name)
        assert picture(kept, shared.store, task.ledger, address) == whole(task, address)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture that was used longest ago is read again."""
    monkeypatch.setattr(lanes_module, "MAX_EVENTS", 60)
    shared = SharedTask()
    shared.opened()
    task = work(shared, 20)
    kept = KeptLanes()
    picture(kept, shared.store, task.ledger, addresses(400))
    picture(kept, shared.store, task.ledger, addresses(30))
    starts = reads(shared.store, monkeypatch)
    picture(kept, shared.store, task.ledger, addresses(30))
    assert starts == []
    picture(kept, shared.store, task.ledger, addresses(400))
    assert starts == [0]


def test_the_page_of_a_task_is_not_drawn_again_for_another_task() -> None:
    """An open page gets its last answer until an event is about its task."""
    shared = SharedTask()
    shared.opened()
    work(shared, 2)
    page = PageInMemory(shared.store, shared.clock).enter()

    def shown() -> str:
        page.get("/tasks")  # looks at the store
        return page.request("GET", "/task?id=t1", headers={"HX-Request": "true"}).text

    before = shown()
    shared.clock.move(seconds=7200)
    shared.task("t2").commit(lambda _: [NewEvent(kinds.TaskOpened(goal="another"), AGENT)])
    assert shown() == before
    work(shared, 1, "d")
    assert "5 calls" not in before
    assert shown() != before
