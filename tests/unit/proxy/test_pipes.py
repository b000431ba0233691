"""The pipe to the upstream: nothing follows a line that was cut off."""

from __future__ import annotations

import os

import pytest

from adjourn.proxy import pipes
from adjourn.proxy.pipes import Wire
from adjourn.proxy.stderr_log import StderrLog


def test_an_upstream_that_reads_no_more_is_given_up_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have read a part of what it was sent; of what comes later it gets nothing, even if it reads again."""
    monkeypatch.setattr(pipes, "UNREAD_SECONDS", 0.05)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    under_test = Wire(writing, StderrLog(as_json=False))
    assert under_test.to_upstream(b"a\n") == "all"
    assert under_test.to_upstream(b"x" * (1 << 20)) == "a part"
    assert os.read(reading, 1 << 20).startswith(b"a\nxxx")
    assert under_test.to_upstream(b"b\n") == "nothing"
    under_test.close_upstream()
    assert b"b" not in os.read(reading, 1 << 20)
    os.close(reading)


def test_a_short_line_that_finds_no_room_was_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe takes it whole or not at all, so that its call had no effect."""
    monkeypatch.setattr(pipes, "UNREAD_SECONDS", 0.05)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    while True:
        try:
            os.write(writing, b"x" * 4096)
        except BlockingIOError:
            break
    under_test = Wire(writing, StderrLog(as_json=False))
    assert under_test.to_upstream(b"a\n") == "nothing"
    under_test.close_upstream()
    os.close(reading)
