"""The client's scenarios of the official conformance suite, with `adjourn connect` and `adjourn serve login` as the client."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.conformance import checks, installed, run_suite

CLIENT = Path(__file__).parents[1] / "support" / "conformance_client.py"
COMMAND = f"{sys.executable} {CLIENT}"
EXTENSIONS = {
    f"auth/{name}"
    for name in (
        "client-credentials-jwt",
        "client-credentials-basic",
        "enterprise-managed-authorization",
        "dpop",
        "dpop-nonce",
        "wif-jwt-bearer",
    )
}
"""What the revisions do not require, and a login of a person does not do."""


@pytest.fixture(autouse=True)
def suite() -> None:
    installed()


@pytest.mark.parametrize(
    ("scenario", "revision"),
    [
        ("scope-step-up", "2025-11-25"),
        ("iss-wrong-issuer", "2026-07-28"),
        ("authorization-server-migration", "2026-07-28"),
    ],
)
def test_a_scenario_of_the_suite_passes(scenario: str, revision: str, tmp_path: Path) -> None:
    """More rights for one call, an answer of another issuer, a server that changes its authorization server."""
    words = ("client", "--command", COMMAND, "--scenario", f"auth/{scenario}", "--spec-version", revision)
    said = run_suite(*words, cwd=tmp_path)
    assert ", 0 failed, 0 warnings" in said, said[-3000:]


@pytest.mark.skipif(os.environ.get("ADJOURN_CAMPAIGN") != "1", reason="a minute; set ADJOURN_CAMPAIGN=1")
@pytest.mark.campaign
@pytest.mark.parametrize(("revision", "count"), [("2025-11-25", 19), ("2026-07-28", 33)])
def test_all_that_a_revision_requires_of_a_client_passes(revision: str, count: int, tmp_path: Path) -> None:
    """Every scenario that is required passes, those of OAuth and all others; only extensions fail."""
    found = checks(run_suite("client", "--command", COMMAND, "--requirements", revision, cwd=tmp_path))
    failed = {line.split(":")[0][2:] for line in found[:-1] if not line.endswith(" 0 failed")}
    assert failed == EXTENSIONS, found
    assert len(found[:-1]) - len(failed) == count, found
