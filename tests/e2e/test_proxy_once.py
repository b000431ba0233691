"""An effect that may happen only once: answered from the record, over crashes, clients and machines, and never guessed."""

from __future__ import annotations

import json
from pathlib import Path

from support.machines import FOLDER, Machine, cloned
from support.proxy import ProxyWorkspace, refused, text_of
from support.requirements import requirement

POLICY = ("allow *", "once payments.charge by invoice", "once send, silent, fail, error, big, ask by invoice")
BILL = {"invoice": "A-7", "amount": 3}


def workspace(path: Path, *policy: str, name: str = "work") -> ProxyWorkspace:
    return ProxyWorkspace(path, *(policy or POLICY), name=name, version="v1")


@requirement("V1 once")
def test_two_proxies_of_a_client_cannot_both_pay(tmp_path: Path) -> None:
    """Of equal calls on three proxies at once, one is forwarded, and later all get its result."""
    with workspace(tmp_path) as work:
        clients = [work.client() for _ in range(3)]
        calls = [client.begin("payments.charge", BILL) for client in clients]
        for client, call in zip(clients, calls, strict=True):
            client.answer(call)
        assert work.executed() == ["payments.charge"]
        for client in clients:
            assert json.loads(text_of(client.call("payments.charge", BILL))) == BILL
        assert work.executed() == ["payments.charge"]


@requirement("V1 once")
def test_what_was_paid_on_one_machine_is_not_paid_on_another(tmp_path: Path) -> None:
    """A checkpoint that git carries to another machine has the recorded effects with it."""
    ann = Machine(tmp_path / "ann")
    ann.version = "v1"
    ann.write_policy(*POLICY)
    with ann:
        client = ann.begun()
        client.call("payments.charge", BILL)
        client.call("fail", BILL)
        client.meta("aex.checkpoint", name=Path(FOLDER).name, description="paid")
        client.close()
    ann.commit("paid")
    bob = cloned(ann, tmp_path)
    bob.trust(ann)
    with bob:
        client = bob.begun()
        client.meta("aex.resume", name=Path(FOLDER).name)
        answer = client.call("payments.charge", BILL)
        assert refused(answer)
        assert "happened already" in text_of(answer)  # the answer itself stayed with ann
        assert bob.executed() == []
        client.call("fail", BILL)
        assert not refused(client.call("payments.charge", BILL | {"invoice": "A-8"}))
        assert bob.executed() == ["fail", "payments.charge"]
