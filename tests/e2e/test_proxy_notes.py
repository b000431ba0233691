"""What an agent notes through the proxy reaches the next agent: after a crash, in both eras, with what a person answered meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.knowledge.records.store import RecordTrees
from support.proxy import ProxyWorkspace, refused
from support.requirements import requirement


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, "use echo", "budget calls=9") as work:
        yield work


@requirement("Record")
def test_sister_proxies_of_one_client_note_at_once_and_nothing_is_lost(work: ProxyWorkspace) -> None:
    """Two servers' proxies write to one record: each note is there once, and the chain holds."""
    clients = [work.client("--task", "t") for _ in range(2)]
    calls = [
        [
            client.call_message("adjourn.note", {"facts": [f"{who} {n}"], "learnings": [{"content": f"{who} {n}"}]})
            for n in range(6)
        ]
        for who, client in enumerate(clients)
    ]
    for client, messages in zip(clients, calls, strict=True):
        client.post(*messages)
    for client, messages in zip(clients, calls, strict=True):
        assert not any(refused(client.answer(message["id"])) for message in messages)
    noted = {f"{who} {n}" for who in range(2) for n in range(6)}
    for section in ("facts", "learnings"):
        items = clients[0].meta("adjourn.record", section=section)["items"]
        assert sorted(item["content"] for item in items) == sorted(noted)
    with work.store() as store:
        assert RecordTrees(store).verify_chain("t").valid
