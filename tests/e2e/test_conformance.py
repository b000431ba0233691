"""The official conformance suite of MCP, against a server alone and through the gateway: the same list, in both protocol eras."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.conformance import checks, installed, run_suite
from support.gateway import GatewayWorkspace

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
