"""A call to be confirmed waits for a person, who answers in the client's dialog or from another terminal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from support.confirming import ARGUMENTS
from support.proxy import Client, Message, ProxyWorkspace, refused

# --- no dialog: another terminal answers, or the call times out


def test_one_yes_that_two_proxies_race_for_lets_one_call_pass(tmp_path: Path) -> None:
    """Of the same call through two proxies of a client at the same moment, one uses the approval; the other is asked about."""
    with ProxyWorkspace(tmp_path, "allow *", "confirm before file.write") as work:
        clients = [work.client("--confirm-timeout", "0") for _ in range(2)]
        for number in range(12):
            arguments = ARGUMENTS | {"path": f"src/{number}"}
            assert refused(clients[0].call("file.write", arguments))
            work.decide(yes=True, approval=list(work.ledger().approvals)[-1])
            start = Barrier(len(clients))

            def race(client: Client, start: Barrier, arguments: Message) -> bool:
                start.wait()
                return refused(client.call("file.write", arguments))

            with ThreadPoolExecutor() as pool:
                turned_away = list(pool.map(race, clients, [start] * 2, [arguments] * 2))
            assert sorted(turned_away) == [False, True]
            assert len(work.executed()) == number + 1
        assert work.ledger().calls_used == 12
