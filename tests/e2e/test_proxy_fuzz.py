"""Hostile lines on either side of a proxy and its pipes: nothing unallowed gets through, and the proxy lives.

Short here; ADJOURN_CAMPAIGN=1 sends 100,000 lines from the client.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.hostile_session import CLIENT_POLICY, fuzz_client, fuzz_server
from support.proxy import MODERN, ProxyWorkspace
from support.requirements import requirement


@requirement("D10", "D2")
@pytest.mark.parametrize("era", [MODERN])
def test_nothing_unallowed_gets_through_and_the_proxy_lives(tmp_path: Path, era: str) -> None:
    """Of many hostile lines of a client, only permitted messages are forwarded, and the proxy answers throughout."""
    with ProxyWorkspace(tmp_path, *CLIENT_POLICY) as work:
        fuzz_client(work, era)


@requirement("D10")
def test_a_hostile_upstream_never_answers_what_is_not_open_and_the_proxy_lives(tmp_path: Path) -> None:
    """Of many hostile lines of a server, only answers to open requests reach the client."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        fuzz_server(work)
