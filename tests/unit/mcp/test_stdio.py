"""Lines over descriptors: split at line feeds only, whole, bounded; written whole, or an error says they were not."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.mcp.frames import CHUNK, ENDS, LineReader, write_all
from adjourn.mcp.lenient import Oversize


@pytest.fixture
def pipe() -> tuple[int, int]:
    """Both ends. Tests close what must be closed; a number that was closed may soon be that of another file."""
    return os.pipe()


def _read_all(reading: int, limit: int = 1 << 30) -> list[bytes]:
    reader, lines = LineReader(reading, limit), []
    while (more := reader.read()) is not None:
        lines += more
    return lines


@given(st.lists(st.binary(max_size=50).map(lambda data: data.replace(b"\n", b"\r")), max_size=20), st.integers(1, 40))
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines: list[bytes], piece: int) -> None:
    """Lines are read whole, in whatever pieces they arrive."""
    reading, writing = os.pipe()
    data = b"".join(line + b"\n" for line in lines)

    def write() -> None:
        for start in range(0, len(data), piece):
            os.write(writing, data[start : start + piece])
        os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    assert _read_all(reading) == [line + b"\n" for line in lines]
    thread.join()
    os.close(reading)


def test_a_last_line_without_line_feed_gets_one(pipe: tuple[int, int]) -> None:
    """A last line without a line feed is returned with one."""
    reading, writing = pipe
    os.write(writing, b"a\nb")
    os.close(writing)
    assert _read_all(reading) == [b"a\n", b"b\n"]


@pytest.mark.parametrize("size", [CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 7])
def test_lines_longer_than_a_read_are_whole(pipe: tuple[int, int], size: int) -> None:
    """A line that needs several reads is returned whole."""
    reading, writing = pipe
    line = b"x" * size + b"\n"

    def write() -> None:
        write_all(writing, line + b"y\n" + line)
        os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    assert _read_all(reading) == [line, b"y\n", line]
    thread.join()


def test_of_a_line_over_the_limit_the_ends_are_kept_and_the_next_is_read(pipe: tuple[int, int]) -> None:
    """Of a line over the limit only the beginning and the end are kept, and the next line is read."""
    reading, writing = pipe
    limit = 2 * CHUNK
    begin, end = b"b" * ENDS, b"e" * (ENDS - 1)
    long = begin + b"x" * (5 * CHUNK) + end

    def write() -> None:
        write_all(writing, b"a\n" + long + b"\nb\n" + b"y" * limit)
        os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    lines = _read_all(reading, limit)
    thread.join()
    assert lines[:3] == [b"a\n", begin + end + b"\n", b"b\n"]
    assert type(lines[1]) is Oversize
    assert lines[3:] == [b"y" * limit + b"\n"]


def test_a_line_over_the_limit_that_is_cut_off_is_told_of(pipe: tuple[int, int]) -> None:
    """A peer that ends within it leaves no request without an answer."""
    reading, writing = pipe
    os.write(writing, b'{"id":1,' + b"x" * 1000)
    os.close(writing)
    assert [(type(line), line[:8]) for line in _read_all(reading, 100)] == [(Oversize, b'{"id":1,')]


def test_a_pipe_that_does_not_block_is_waited_for(pipe: tuple[int, int]) -> None:
    """Reading and writing wait where a nonblocking pipe is empty or full."""
    reading, writing = pipe
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    data = b"z" * (10 * CHUNK) + b"\n"
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.extend(_read_all(reading)))
    thread.start()
    write_all(writing, data)
    os.close(writing)
    thread.join()
    assert got == [data]


def test_writing_to_nobody_is_an_error(pipe: tuple[int, int]) -> None:
    """Writing to a pipe that nobody reads raises OSError."""
    reading, writing = pipe
    os.close(reading)
    with pytest.raises(OSError, match="Broken pipe"):
        write_all(writing, b"x")


def test_a_reader_that_takes_nothing_is_given_up(pipe: tuple[int, int]) -> None:
    """Writing times out when the reader takes nothing, and waits as long as it takes something."""
    reading, writing = pipe
    os.set_blocking(writing, False)
    with pytest.raises(TimeoutError):
        write_all(writing, b"x" * (1 << 20), 0.05)
    timer = threading.Timer(0.2, lambda: os.read(reading, 1 << 20))
    timer.start()
    write_all(writing, b"y" * CHUNK, 60)
    timer.join()
