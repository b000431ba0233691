"""Sessions of one server: who works on which."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.code.workflow.active_session import SILENCE, ClientConnection
from adjourn.code.workflow.phases import FlowError
from adjourn.code.workflow.request import Flags, SessionRequest
from adjourn.code.workflow.sessions import Sessions

WANTED = SessionRequest("QUESTION", "why is it so?", "auto", Flags(no_doc=True))


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    monkeypatch.setenv("ADJOURN_CONFIG", f"{tmp_path}-config")
    found = Sessions(str(tmp_path))
    yield found
    found.close()


def test_what_a_silent_client_works_on_can_be_taken_up(sessions: Sessions) -> None:
    """A client that was not heard of for a while loses its session to the next that asks, one that waits for an answer does not; it
    is shown, and can have it back in the same way."""
    first, second = ClientConnection(), ClientConnection()
    started = sessions.start(first, WANTED, ".")["session_id"]
    with pytest.raises(FlowError, match="other clients hold"):
        sessions.status(second, ".")
    with first.calling():
        first.heard = time.monotonic() - SILENCE - 1
        with pytest.raises(FlowError, match="other clients hold"):
            sessions.status(second, ".")
    first.heard = time.monotonic() - SILENCE - 1
    assert sessions.status(second, ".")["checkpoint_session_id"] == started
    assert first.active is None
    with pytest.raises(FlowError, match="no active session"):
        sessions.submit(first, {})
    second.heard = time.monotonic() - SILENCE - 1
    assert sessions.status(first, ".")["checkpoint_session_id"] == started
    assert sessions.submit(first, {"action_type": "x", "target_symbols": [], "scope": "", "constraints": ""})["success"]
