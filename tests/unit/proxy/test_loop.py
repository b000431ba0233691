"""The loop of a proxy: pipes that are full, readers that are gone, work beside it, and the time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from select import POLLIN
from typing import Any

import pytest

from adjourn.proxy.loop import Loop, PipeWriter
from adjourn.relay.ports import NEVER, Outcome, Unread

MIB = 1 << 20


def failed(error: Exception) -> None:
    """No call of the loop is expected to raise."""
    raise error


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    yield reading, writing
    for end in (reading, writing):
        with suppress(OSError):  # a test has closed it
            os.close(end)


def _fill(writing: int) -> int:
    """Write until there is no room; returns how many bytes that were."""
    size = 0
    while True:
        try:
            size += os.write(writing, b"x" * 4096)
        except BlockingIOError:
            return size


def test_what_a_full_pipe_has_no_room_for_is_written_in_order_when_it_is_read(pipe: tuple[int, int]) -> None:
    """The writer never waits, and the reader gets every byte once."""
    reading, writing = pipe
    loop = Loop(failed)
    lost: list[Unread] = []
    writer = PipeWriter(loop, writing, lost.extend)
    sent = [bytes([65 + n]) * MIB + b"\n" for n in range(3)]
    for data in sent:
        writer.send(data)
    assert writer.size > 2 * MIB
    assert writer.since < NEVER
    got = bytearray()

    def read(events: int) -> None:
        del events
        got.extend(os.read(reading, 1 << 16))
        if len(got) == 3 * (MIB + 1):
            loop.stop()

    loop.watch(reading, POLLIN, read)
    loop.run()
    assert bytes(got) == b"".join(sent)
    assert (writer.size, writer.since, lost) == (0, NEVER, [])


def test_of_what_was_not_read_it_is_known_whether_a_part_was(pipe: tuple[int, int]) -> None:
    """A line of which nothing was taken had no effect; of one that was begun nobody knows."""
    reading, writing = pipe
    lost: list[Unread] = []
    writer = PipeWriter(Loop(failed), writing, lost.extend)
    writer.send(b"x" * MIB, "begun")
    writer.send(b"b\n", "waits")
    os.close(reading)
    writer.drain(5)
    assert lost == [Unread("begun", True), Unread("waits", False)]
    writer.send(b"c\n", "after")
    assert lost[2:] == [Unread("after", False)]


def test_a_line_that_finds_no_reader_was_not_read(pipe: tuple[int, int]) -> None:
    """The first write says so, however long the line is."""
    reading, writing = pipe
    lost: list[Unread] = []
    os.close(reading)
    PipeWriter(Loop(failed), writing, lost.extend).send(b"x" * MIB, "all")
    assert lost == [Unread("all", False)]


def test_nothing_follows_a_line_that_was_given_up(pipe: tuple[int, int]) -> None:
    """A reader that takes nothing for too long and then reads again must not take the next line for the end of one."""
    reading, writing = pipe
    lost: list[Unread] = []
    writer = PipeWriter(Loop(failed), writing, lost.extend)
    _fill(writing)
    writer.send(b"a\n", "a")
    writer.lose()
    writer.send(b"b\n", "b")
    writer.close()
    writer.close()
    got = b"".join(iter(lambda: os.read(reading, 1 << 16), b""))
    assert set(got) == {ord("x")}
    assert [one.about for one in lost] == ["a", "b"]


def test_waiting_for_a_reader_has_an_end(pipe: tuple[int, int]) -> None:
    """Draining ends after its time, and leaves what is not written."""
    _, writing = pipe
    writer = PipeWriter(Loop(failed), writing, lambda _unread: None)
    writer.send(b"x" * MIB)
    writer.drain(0.05)
    assert writer.size > 0


def test_work_runs_beside_the_loop_and_is_taken_up_in_it() -> None:
    """The loop continues while the worker works; results, and errors too, come in the order of the work."""
    loop = Loop(failed)
    seen: list[Any] = []
    may_end = threading.Event()

    def slow() -> str:
        assert may_end.wait(10)
        return threading.current_thread().name

    def then(outcome: Outcome[Any]) -> None:
        assert threading.current_thread() is threading.main_thread()
        try:
            seen.append(outcome.get())
        except ZeroDivisionError as error:
            seen.append(error)
            loop.stop()

    loop.work(slow, then)
    loop.work(lambda: 1 // 0, then)

    def timer() -> None:
        seen.append("timer")
        may_end.set()

    loop.after(0.01, timer)
    loop.run()
    assert seen[0] == "timer"
    assert seen[1] != threading.main_thread().name
    assert isinstance(seen[2], ZeroDivisionError)


def test_a_timer_goes_off_once_and_may_be_set_anew() -> None:
    """A later time takes the place of an earlier one of the same action."""
    loop = Loop(failed)
    times: list[float] = []
    began = time.monotonic()

    def action() -> None:
        times.append(time.monotonic() - began)
        if len(times) < 2:
            loop.after(0.01, action)
        else:
            loop.stop()

    loop.after(0, action)
    loop.after(0.05, action)
    loop.run()
    assert len(times) == 2
    assert times[0] >= 0.05


def test_a_paused_descriptor_is_read_when_it_may_be(pipe: tuple[int, int]) -> None:
    """Nothing of it is reported meanwhile, its end included, and nothing is lost."""
    reading, writing = pipe
    loop = Loop(failed)
    open_again: list[bool] = []
    seen: list[object] = []

    def read(events: int) -> None:
        del events
        if not open_again:
            seen.append("paused")
            loop.pause(reading, POLLIN, lambda: bool(open_again))
            return
        seen.append(os.read(reading, 10))
        loop.stop()

    loop.watch(reading, POLLIN, read)
    os.write(writing, b"x")
    os.close(writing)
    loop.after(0.05, lambda: open_again.append(True))
    loop.run()
    assert seen == ["paused", b"x"]


def test_other_threads_and_signals_wake_the_loop() -> None:
    """However often it is woken, each action runs once, in the loop's thread."""
    loop = Loop(failed)
    ran: list[int] = []

    def wake() -> None:
        for _ in range(1000):
            loop.soon(lambda: ran.append(1))

    threads = [threading.Thread(target=wake) for _ in range(4)]
    for thread in threads:
        thread.start()

    def look() -> None:
        if len(ran) < 4000:
            loop.after(0.001, look)
        else:
            loop.stop()

    loop.after(0, look)
    loop.run()
    assert len(ran) == 4000


def test_a_call_that_raises_does_not_end_the_loop(pipe: tuple[int, int]) -> None:
    """Whatever a handler, a timer or another thread's action raises is reported, and the loop continues."""
    reading, writing = pipe
    errors: list[str] = []
    loop = Loop(lambda error: errors.append(str(error)))

    def fail(what: str) -> None:
        raise ValueError(what)

    def read(events: int) -> None:
        del events
        loop.unwatch(reading)
        fail("handler")

    loop.watch(reading, POLLIN, read)
    os.write(writing, b"x")
    loop.soon(lambda: fail("soon"))
    loop.after(0.01, lambda: fail("timer"))
    loop.after(0.05, loop.stop)
    loop.run()
    assert sorted(errors) == ["handler", "soon", "timer"]
