"""Two machines on one PostgreSQL store: real proxies, each in a host-name namespace of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adjourn.store import open_store
from support.proxy import MODERN, NEW, Client, ProxyWorkspace, only


def namespaces_work() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(
    not namespaces_work(), reason="`unshare --uts` is not permitted here: two host names cannot be had"
)


def on(machine: str, workspace: ProxyWorkspace, store: str, *options: str, era: str = NEW) -> Client:
    """A client and its proxy on a machine of that name."""
    command = workspace.command("--store", store, *options)
    script = f'hostname {machine} && "$@"; exit $?'
    client = Client(
        ["unshare", "--uts", "sh", "-c", script, "sh", *command],
        workspace.root,
        workspace.environment,
        era,
        f"client-on-{machine}",
        {},
    )
    client.wrapped = True
    workspace.clients.append(client)
    client.greet()
    return client


def expire_leases(url: str) -> None:
    """What sixty seconds without a sign of life do."""
    store = open_store(url)
    for name, value in store.refs("lease/").items():
        store.swap(name, "1", expect=value)
    store.close()


def test_a_living_session_of_another_machine_holds_its_task_until_its_lease_runs_out(
    tmp_path: Path, new_postgres_url: Callable[[], str]
) -> None:
    """Refused while the lease runs; afterwards the other machine continues, is informed of the call in doubt, and the first is fenced off."""
    url = new_postgres_url()
    with ProxyWorkspace(tmp_path, "use *", "budget calls=10") as workspace:
        first = on("alpha", workspace, url)
        assert first.call("echo", {"text": "one"})["result"]["content"]
        first.meta("aex.checkpoint", name="shared", description="one done")
        first.begin("slow", {"seconds": 60})

        second = on("beta", workspace, url, era=MODERN)
        refused = second.call("aex.resume", {"name": "shared"})["result"]
        assert refused["isError"]
        assert "held by client-on-alpha" in refused["content"][0]["text"]
        assert "on alpha" in refused["content"][0]["text"]

        expire_leases(url)
        told = second.meta("aex.resume", name="shared")
        assert (told["callsUsed"], told["budgetRemaining"]) == (2, 8)
        assert only(told["inDoubt"])["tool"] == "slow"  # type: ignore[index]  # one entry, a dict

        late = first.call("echo", {"text": "two"})["result"]
        assert late["isError"]
        assert "taken over by client-on-beta" in late["content"][0]["text"]
        assert second.call("echo", {"text": "three"})["result"]["content"]
        assert workspace.executed().count("echo") == 2


def test_two_machines_share_one_budget_to_the_call(tmp_path: Path, new_postgres_url: Callable[[], str]) -> None:
    """Calls made one after the other from both machines, with --take-over, are forwarded exactly as often as the budget says."""
    url = new_postgres_url()
    with ProxyWorkspace(tmp_path, "use *", "budget calls=5") as workspace:
        for turn, machine in enumerate(["alpha", "beta", "alpha", "beta"]):
            client = on(machine, workspace, url, "--task", "one", "--take-over")
            for number in range(2):
                client.call("echo", {"text": f"{turn}.{number}"})
        assert workspace.executed() == ["echo"] * 5


def test_a_server_that_ends_connections_or_goes_away_costs_no_call(
    tmp_path: Path, new_postgres_url: Callable[[], str], postgres_server: Any
) -> None:
    """The proxy connects again between calls; while the server is away nothing is forwarded, and what was under way is settled once it is back."""
    url = new_postgres_url()
    psycopg = pytest.importorskip("psycopg")
    with ProxyWorkspace(tmp_path, "use *", "budget calls=10") as workspace:
        client = on("alpha", workspace, url)
        for number in range(2):
            assert client.call("echo", {"text": str(number)})["result"]["content"]
            with psycopg.connect(url, autocommit=True, application_name="admin") as admin:
                ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'adjourn'"
                assert admin.execute(ended).fetchall()
        assert client.meta("aex.checkpoint", name="kept", description="two done")["path"]
        under_way = client.begin("slow", {"seconds": 1})
        client.call("echo", {"text": "2"})
        postgres_server.stop("immediate")
        try:
            assert client.answer(under_way)["result"]["content"][0]["text"] == "slow"
            refused = client.call("echo", {"text": "away"})["result"]
            assert refused["isError"]
            assert "the server cannot be reached" in refused["content"][0]["text"]
            assert "Check its address" in refused["content"][0]["text"]
        finally:
            postgres_server.start()
        assert client.call("echo", {"text": "back"})["result"]["content"]
        told = client.meta("aex.resume", name="kept")
        assert (told["callsUsed"], told.get("inDoubt")) == (5, None)
        assert workspace.executed().count("echo") == 4
