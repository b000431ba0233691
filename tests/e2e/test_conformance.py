"""The official conformance suite of MCP, against a server alone and through the gateway: the same list, in both protocol eras."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.conformance import checks, installed, renamed, run_suite, verdicts
from support.gateway import GatewayWorkspace
from support.servers import Servers

SUPPORT = Path(__file__).parents[1] / "support"
SERVER, TASKS = SUPPORT / "conformance_server.py", SUPPORT / "task_server.py"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWorkspace]:
    """A gateway that observes: nothing is asked or refused."""
    installed()
    path = tmp_path_factory.mktemp("conformance")
    with GatewayWorkspace(path, "mode observe", "allow *", server=SERVER) as workspace:
        yield workspace


@pytest.mark.parametrize(("revision", "passed"), [("2025-11-25", 60), ("2026-07-28", 100)])
def test_the_suite_finds_the_same_with_the_gateway(work: GatewayWorkspace, revision: str, passed: int) -> None:
    """Each scenario passes and fails as many checks as against the server alone, and most pass."""
    urls = (f"http://127.0.0.1:{work.server_port}/mcp", work.url("/mcp"))
    alone, through = (checks(run_suite("server", "--url", url, "--requirements", revision)) for url in urls)
    assert through == alone
    total = re.search(r"Total: (\d+) passed", alone[-1])
    assert total is not None
    assert int(total[1]) >= passed


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_suite_finds_the_same_at_the_address_of_all_servers(tmp_path: Path, revision: str) -> None:
    """With the names that tools have there, each scenario passes and fails as many checks as against the server alone."""
    installed()
    path = tmp_path / "gateway"
    path.mkdir()
    with (
        Servers(path).http("other", program=SERVER) as servers,
        GatewayWorkspace(path, "mode observe", "allow *", server=SERVER, settings=servers.toml) as work,
    ):
        words = ("server", "--requirements", revision, "--url")
        alone = checks(run_suite(*words, f"http://127.0.0.1:{work.server_port}/mcp"))
        suite = renamed(tmp_path / "suite", "up")
        together = checks(run_suite(*words, work.url("/mcp"), suite=suite))
    assert together == alone


def test_the_suite_finds_the_same_of_tasks(tmp_path: Path) -> None:
    """Each check of the tasks extension passes at the address of all servers, also the one of headers that the server alone fails."""
    installed()
    path = tmp_path / "gateway"
    path.mkdir()
    scenarios = ("lifecycle", "capability-negotiation", "dispatch-and-envelope", "mrtr-input", "request-headers")
    with (
        Servers(path).http("other", program=SERVER) as servers,
        GatewayWorkspace(path, "mode observe", "allow *", server=TASKS, settings=servers.toml) as work,
    ):
        suite = renamed(tmp_path / "suite", "up")
        for name in (*scenarios, "required-task-error"):
            words = ("server", "--scenario", f"tasks-{name}", "--force", "--spec-version", "2026-07-28", "--url")
            found = verdicts(run_suite(*words, work.url("/mcp"), suite=suite))
            assert len(found) >= 3
            assert set(found.values()) == {"SUCCESS"}, found
