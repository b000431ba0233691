"""Reading `adjourn.toml` again while the gateway serves: new limits hold at once, for all else it has to be restarted.

Owns: what may change in a process that runs. Must never: end a request, or take a part of a file that is wrong.
"""

from __future__ import annotations

import msgspec

from adjourn.errors import AdjournError
from adjourn.gateway.limits import Throttle
from adjourn.gateway.settings import GatewaySettings, read_settings
from adjourn.relay import StderrLog


class Reload:
    """`settings` are those that the gateway was started with, from the file at `path`."""

    def __init__(self, path: str, settings: GatewaySettings, throttle: Throttle, report: StderrLog) -> None:
        self._path = path
        self._started_with = settings
        self._throttle = throttle
        self._report = report

    def now(self) -> None:
        """Read the file. One that cannot be read or used changes nothing, and is named in the log."""
        try:
            settings = read_settings(self._path)
        except AdjournError as error:
            self._report.event(
                "settings.error", f"{error.message}; {error.remedy}; the settings before it stay"
            )
            return
        if settings.limits != self._throttle.limits:
            self._throttle.change(settings.limits)
        self._report.event("settings.read", f"{self._path}: [limits] are in force")
        started = self._started_with
        names = [one.name for one in msgspec.structs.fields(GatewaySettings) if one.name != "limits"]
        if changed := [name for name in names if getattr(settings, name) != getattr(started, name)]:
            text = f"{self._path}: {', '.join(changed)} changed; restart the gateway for that"
            self._report.event("settings.restart", text)
