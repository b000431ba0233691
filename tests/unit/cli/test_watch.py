"""`adjourn status --watch` on a long history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adjourn.cli import tasks
from adjourn.cli.context import CommandContext
from adjourn.cli.task_view import current_task
from adjourn.clients.client import ClientContext
from adjourn.clients.client_process import ClientOptions
from adjourn.host.clock import now
from adjourn.log import kinds
from adjourn.policy.contract import read_contract
from adjourn.tasks.decision import ToolRequest

CALLS = 600


def make_calls(client: ClientContext, count: int) -> None:
    """Two events a call: sent and answered."""
    for number in range(count):
        request = ToolRequest(
            tool="add", server="inv", shown="inv.add", digest=f"{number:064x}", effectful=True, arguments="{}"
        )
        session, (admitted,) = client.sessions.admit([request])
        session.settle([kinds.ToolSettled(call=admitted.call, outcome="ok", message="", milliseconds=1)])


def test_a_drawing_reads_the_last_events_only(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the history is, a drawing reads as many events as it may show, twice: to verify them, and to show them."""
    # the heads that are kept there are those of another run otherwise
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path_factory.mktemp("config")))
    (tmp_path / ".aex").mkdir()
    (tmp_path / ".aex" / "policy.aex").write_text('policy a v1\ngoal "g"\nallow inv.*\nbudget calls=2000\n')
    monkeypatch.chdir(tmp_path)
    options = ClientOptions(root=str(tmp_path), contract=read_contract(str(tmp_path)), task="", server="inv")
    client = ClientContext(options, now)
    client.client, client.group = "x", "g"
    make_calls(client, CALLS)
    context = CommandContext()
    task = current_task(context, "")
    assert task.ledger.seq > 2 * CALLS - 2 > tasks.EVENTS
    read = 0
    plain = type(context.store).read

    def counting(*arguments: Any) -> Iterator[Any]:
        nonlocal read
        for entry in plain(*arguments):
            read += 1
            yield entry

    monkeypatch.setattr(type(context.store), "read", counting)
    tasks.drawing(context, task)
    assert tasks.EVENTS < read <= 2 * tasks.EVENTS + 10
    make_calls(client, 3)
    read = 0
    task.refresh()
    assert 0 < read <= 10
    context.close()
    client.close("client-eof")
