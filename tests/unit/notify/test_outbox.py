"""What is still to be delivered: kept through a kill, put off after a failure, bounded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from adjourn.errors import AdjournError, StoreError
from adjourn.notify import notifier as module
from adjourn.notify.notifier import Outbox
from adjourn.notify.senders import Notification

HOUR = 3_600_000


@pytest.fixture(autouse=True)
def _config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))


def told(name: str) -> Notification:
    return Notification(id=name, kind="approval", title="deploy", task="t1", since="", workspace="shop")


@contextmanager
def reopened() -> Iterator[Outbox]:
    """The outbox as a new process finds it."""
    with Outbox.opened("/srv/shop/.aex/adjourn.db") as outbox:
        yield outbox


def test_each_target_is_told_once() -> None:
    """What was queued is not queued again, by any process; each target has it until it was delivered."""
    with reopened() as outbox:
        assert outbox.add([told("a")], ["one", "two"], 0) == 1
        assert outbox.add([told("a")], ["one", "two"], 0) == 0
        first = outbox.due("one", 0)
        assert first is not None
        outbox.delivered(first)
        assert (outbox.due("one", 0), outbox.count) == (None, 1)
    with reopened() as outbox:
        assert outbox.add([told("a")], ["one", "two"], 0) == 0
        assert (outbox.due("one", 0), outbox.count) == (None, 1)
        assert outbox.due("two", 0) is not None


def test_a_failure_is_repeated_ever_later_for_a_day() -> None:
    """Attempts follow after 1, 2, 4 … seconds, then every five minutes, also in a later process; after a day it is given up."""
    with reopened() as outbox:
        outbox.add([told("a")], ["one"], 0)
    now, delays = 0, []
    while True:
        with reopened() as outbox:
            one = outbox.due("one", now)
            assert one is not None
            if not outbox.failed(one, now):
                break
            delays.append(one.due - now)
            assert outbox.due("one", one.due - 1) is None
            now = one.due
    assert delays[:5] == [1_000, 2_000, 4_000, 8_000, 16_000]
    assert max(delays) == 300_000
    assert 24 * HOUR <= now <= 25 * HOUR
    assert outbox.count == 0


def test_one_that_fails_keeps_no_other_waiting() -> None:
    """While one notification is put off, the next one for the same target is due."""
    with reopened() as outbox:
        outbox.add([told("a"), told("b")], ["one"], 0)
        first = outbox.due("one", 0)
        assert first is not None
        outbox.failed(first, 0)
        second = outbox.due("one", 0)
        assert second is not None
        assert second.told.id == "b"


def test_the_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many the oldest are left out, and targets that are not named any more lose theirs."""
    monkeypatch.setattr(module, "MAX_QUEUED", 3)
    with reopened() as outbox:
        outbox.add([told(str(number)) for number in range(5)], ["one"], 0)
        assert outbox.count == 3
        outbox.forget_others(["two"])
        assert outbox.count == 0


def test_one_process_at_a_time() -> None:
    """A second opening is refused while the first lasts; another store has an outbox of its own."""
    with reopened(), ExitStack() as more:
        with pytest.raises(StoreError, match="locked by another process"):
            more.enter_context(reopened())
        more.enter_context(Outbox.opened("/other.db"))


def test_a_file_that_is_not_ours_is_an_error(tmp_path: Path) -> None:
    """A state that cannot be read is reported with its path, and not overwritten."""
    with reopened() as outbox:
        outbox.add([told("a")], ["one"], 0)
    (state,) = tmp_path.glob("config/notify/*/state.json")
    state.write_text("{")
    with ExitStack() as more, pytest.raises(AdjournError, match=r"cannot read .*state\.json"):
        more.enter_context(reopened())
    assert state.read_text() == "{"
