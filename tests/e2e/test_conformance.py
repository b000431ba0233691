"""The official conformance suite of MCP, against a server alone and through the gateway: the same list, in both protocol eras."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.conformance import checks, installed, renamed, run_suite
from support.gateway import GatewayWorkspace
from support.servers import Servers

SERVER = Path(__file__).parents[1] / "support" / "conformance_server.py"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWorkspace]:
    """A gateway that observes: nothing is asked or refused."""
    installed()
    path = tmp_path_factory.mktemp("conformance")
    with GatewayWorkspace(path, "mode observe", "allow *", server=SERVER) as workspace:
        yield workspace


@pytest.mark.parametrize(("revision", "passed"), [("2025-11-25", 60), ("2026-07-28", 100)])
def test_the_suite_finds_the_same_with_the_gateway(
    work: GatewayWorkspace, revision: str, passed: int
) -> None:
    """Each scenario passes and fails as many checks as against the server alone, and most pass."""
    urls = (f"http://127.0.0.1:{work.server_port}/mcp", work.url("/mcp"))
    alone, through = (checks(run_suite("server", "--url", url, "--requirements", revision)) for url in urls)
    assert through == alone
    total = re.search(r"Total: (\d+) passed", alone[-1])
    assert total is not None
    assert int(total[1]) >= passed


DIFFERENCES = {
    "2025-11-25": {
        # the server has no logging/setLevel; the gateway has, and keeps the level for servers that do
        "✓ logging-set-level: 2 passed, 0 failed",
        "✓ tools-call-with-logging: 2 passed, 0 failed",
    },
    "2026-07-28": {
        # since the gateway has logging, one check more applies
        "✗ server-stateless: 26 passed, 2 failed",
        # at the address of all servers unknown methods go to none of them: tasks are an extension that this server lacks, too
        "✗ tasks-lifecycle: 1 passed, 8 failed",
        "✗ tasks-capability-negotiation: 1 passed, 4 failed",
        "✗ tasks-dispatch-and-envelope: 3 passed, 6 failed",
    },
}
"""What the suite finds otherwise at the address of all servers, by revision."""


@pytest.mark.parametrize("revision", DIFFERENCES)
def test_the_suite_finds_the_same_at_the_address_of_all_servers(tmp_path: Path, revision: str) -> None:
    """With the names that tools have there, each scenario passes and fails as many checks as against the server alone, but for a few."""
    installed()
    path = tmp_path / "gateway"
    path.mkdir()
    with (
        Servers(path).http("other") as servers,
        GatewayWorkspace(path, "mode observe", "allow *", server=SERVER, settings=servers.toml) as work,
    ):
        words = ("server", "--requirements", revision, "--url")
        alone = checks(run_suite(*words, f"http://127.0.0.1:{work.server_port}/mcp"))[:-1]
        suite = renamed(tmp_path / "suite", "up")
        together = checks(run_suite(*words, work.url("/mcp"), suite=suite))[:-1]
    assert len(together) == len(alone)
    assert set(together) - set(alone) == DIFFERENCES[revision]
