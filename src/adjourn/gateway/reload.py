"""Reading `adjourn.toml` again while the gateway serves: what is new holds at once, or is named as what needs a restart.

Owns: what may change in a process that runs. Must never: end a request, or take a part of a file that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from adjourn.errors import AdjournError
from adjourn.gateway.auth import AuthSettings
from adjourn.gateway.server import check_reach
from adjourn.gateway.settings import GatewaySettings, read_settings
from adjourn.relay import StderrLog

FIXED = ("listen", "log", "metrics", "page", "traces")
"""What a process has from its start to its end, beside who shares tasks (`auth.shared`)."""


class Reload:
    """`settings` are those that the gateway was started with, from the file at `path`; it listens at `address`. `change` has others in force,
    or raises `AdjournError`.
    """

    def __init__(
        self,
        path: str,
        settings: GatewaySettings,
        address: str,
        change: Callable[[GatewaySettings], None],
        report: StderrLog,
    ) -> None:
        self._path = path
        self._started_with = self._now = settings
        self._address = address
        self._change = change
        self._report = report

    def now(self) -> None:
        """Read the file. One that cannot be read or used changes nothing, and is named in the log."""
        try:
            wanted = read_settings(self._path)
            check_reach(self._address, wanted.auth)
            settings = self._usable(wanted)
            self._change(settings)
        except AdjournError as error:
            self._report.event(
                "settings.error", f"{error.message}; {error.remedy}; the settings before it stay"
            )
            return
        before, self._now = self._now, settings
        changed = ", ".join(_changes(before, settings)) or "nothing changed"
        self._report.event("settings.read", f"{self._path} is in force: {changed}")
        if waiting := list(self._waiting(wanted)):
            text = f"{self._path}: {', '.join(waiting)} changed; restart the gateway for that"
            self._report.event("settings.restart", text)

    def _usable(self, wanted: GatewaySettings) -> GatewaySettings:
        """The settings of a file, as far as they can be had without a restart."""
        started = self._started_with
        auth = wanted.auth
        if auth is not None:
            auth = msgspec.structs.replace(auth, shared=_shared(started.auth))
        fixed: Mapping[str, Any] = {name: getattr(started, name) for name in FIXED}
        return msgspec.structs.replace(wanted, auth=auth, **fixed)

    def _waiting(self, wanted: GatewaySettings) -> Iterator[str]:
        """What is in the file, and needs a restart."""
        started = self._started_with
        yield from (name for name in FIXED if getattr(wanted, name) != getattr(started, name))
        if wanted.auth is not None and wanted.auth.shared != _shared(started.auth):
            yield "auth.shared"


def _shared(auth: AuthSettings | None) -> tuple[str, ...]:
    return auth.shared if auth is not None else ()


def _changes(before: GatewaySettings, now: GatewaySettings) -> Iterator[str]:
    """What differs, for people."""
    for name in now.servers:
        if name not in before.servers:
            yield f"server {name} added"
        elif now.servers[name] != before.servers[name]:
            yield f"server {name} changed"
    yield from (f"server {name} removed" for name in before.servers if name not in now.servers)
    yield from (
        f"{name} changed"
        for name in ("auth", "hosts", "limits")
        if getattr(now, name) != getattr(before, name)
    )
