"""Starts real servers on the same ground each time, directly or behind the proxy."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from support.missing import is_missing
from support.real.servers import Place, Server

POLICY = 'policy everything v0\n\ngoal "Let everything pass."\n\nuse *\n\nbudget calls=100000\n'


def command_of(server: Server, place: Place) -> list[str]:
    """The server's own command. In CI a server that is not installed is a failure."""
    command = server.command(place)
    if command is None:
        missing = f"{server.name} is not installed: run `python tests/support/tools.py`"
        is_missing(missing)
    return command


def proxied(command: Sequence[str], *options: str) -> list[str]:
    return [sys.executable, "-m", "adjourn", "proxy", *options, "--", *command]


def prepare(server: Server, place: Place, policy: str = POLICY) -> None:
    """The same ground for every run, at the same path."""
    shutil.rmtree(place.root, ignore_errors=True)
    for folder in (place.site, place.root / ".aex"):
        folder.mkdir(parents=True)
    (place.root / ".aex" / "policy.aex").write_text(policy)
    server.prepare(place)
