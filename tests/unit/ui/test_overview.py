"""What the pages know of all tasks: each is read once, and again when it has another event; a history that was cut is never shown as whole."""

from __future__ import annotations

from typing import Any

import pytest

from adjourn.handover import inbox as handover_inbox
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.store import Entry, Head, Store
from adjourn.tasks import lease
from adjourn.tasks.task import NewEvent, Task
from adjourn.ui import site
from adjourn.ui.site import Overview
from support.task_sessions import READ, SECRET, WRITE, SharedTask, admit_one
from support.waiting import asked, noted, opened

AGENT = Actor("agent", "agent")


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that were loaded, in their order."""
    names: list[str] = []

    class Seen(Task):
        def __init__(self, store: Store, task: str, **options: Any) -> None:
            names.append(task)
            super().__init__(store, task, **options)

    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)
    monkeypatch.setattr(site, "Task", Seen)
    monkeypatch.setattr(handover_inbox, "Task", Seen)
    return names


def add(shared: SharedTask, name: str) -> None:
    facts = [NewEvent(kinds.TaskOpened(goal="g"), AGENT)]
    shared.task(name).commit(lambda _: facts)


def test_a_task_is_loaded_once_for_all_pages(loaded: list[str]) -> None:
    """The list and the inbox read the same tasks, each once; after another event that task alone."""
    shared = SharedTask()
    add(shared, "t2")
    asked(opened(shared))
    noted(shared)
    known = Overview(shared.clock)
    for _ in range(2):
        assert [row.id for row in known.look(shared.store).rows] == ["t2", "t1"]
        inbox, left = known.waiting(shared.store)
        assert ({one.kind for one in inbox.items} >= {"approval", "question"}, left) == (True, 0)
    assert loaded == ["t2", "t1"]
    add(shared, "t3")
    known.waiting(shared.store)
    assert loaded == ["t2", "t1", "t3"]


def test_a_task_at_work_is_kept_open(loaded: list[str]) -> None:
    """What an agent adds is read, without loading its task again."""
    shared = SharedTask()
    session = shared.opened()
    known = Overview(shared.clock)
    known.look(shared.store)
    for number in range(1, 4):
        admit_one(session, READ)
        assert known.look(shared.store).rows[0].used == number
    assert loaded == ["t1"]


def test_a_question_that_expires_leaves_the_inbox(loaded: list[str]) -> None:
    """Without an event."""
    shared = SharedTask()
    asked(opened(shared))
    known = Overview(shared.clock)
    assert len(known.waiting(shared.store)[0].items) == 1
    shared.clock.move(seconds=3600)
    assert known.waiting(shared.store)[0].items == []


def test_a_call_whose_session_died_shows_as_in_doubt(loaded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an event: whether the session lives is looked at again."""
    shared = SharedTask()
    admitted = admit_one(shared.opened(), WRITE)
    known = Overview(shared.clock)
    assert known.waiting(shared.store)[0].items == []
    monkeypatch.setattr(lease, "lives", lambda process: False)
    assert [one.id for one in known.waiting(shared.store)[0].items] == [admitted.call]


class Cut:
    """A store whose history was cut after it was read."""

    def __init__(self, store: Store, at: int) -> None:
        self._store = store
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def streams(self) -> dict[str, Head]:
        return {name: self.head(name) for name in self._store.streams()}

    def head(self, name: str) -> Head:
        last = list(self._store.read(name, 0, self._at + 1))[-1]
        return Head(min(self._at, self._store.head(name).seq), last.hash)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> list[Entry]:
        end = self._at + 1
        return list(self._store.read(name, start, end if stop is None else min(stop, end)))


def test_a_history_that_was_cut_is_read_again(loaded: list[str]) -> None:
    """A task that is kept open does not hide that the store has less of it now."""
    shared = SharedTask()
    session = shared.opened()
    admit_one(session, READ)
    whole: Any = Cut(shared.store, 1000)
    known = Overview(shared.clock)
    assert known.look(whole).rows[0].used == 1
    whole._at = 1
    assert known.look(whole).rows[0].used == 0
    assert loaded == ["t1", "t1"]


def test_a_look_that_is_not_old_is_shared(loaded: list[str]) -> None:
    """A page that follows the store takes the look that had it ask; one that is opened looks for itself."""
    shared = SharedTask()
    add(shared, "t1")
    known = Overview(shared.clock)
    known.look(shared.store)
    add(shared, "t2")
    assert len(known.look(shared.store, within=3600).rows) == 1
    assert len(known.look(shared.store).rows) == 2


def test_tasks_that_could_not_be_read_in_time_come_with_the_next_looks(
    loaded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inbox says how many are left, and shows what waits in the others. Each look reads one at least."""
    shared = SharedTask()
    asked(opened(shared))
    add(shared, "t2")
    known = Overview(shared.clock)
    monkeypatch.setattr(site, "READ_SECONDS", -1.0)
    inbox, left = known.waiting(shared.store)
    assert (inbox.items, left) == ([], 1)
    inbox, left = known.waiting(shared.store)
    assert (len(inbox.items), left) == (1, 0)
    monkeypatch.setattr(site, "READ_SECONDS", 60.0)
    inbox, left = known.waiting(shared.store)
    assert (len(inbox.items), left) == (1, 0)
