"""Each HTTP request has an id, which the log, the answer and whoever asks have in common; answers are counted by status.

Owns: these ids. Must never: write down a path or a header: they are the client's words.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from itertools import count
from secrets import token_hex
from time import time_ns
from typing import Any

from adjourn.gateway.asgi import Scope, Send
from adjourn.gateway.monitoring.metrics import Metrics
from adjourn.relay import StderrLog

NAME = b"x-request-id"
_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestWatch:
    """One per gateway."""

    def __init__(self, metrics: Metrics, report: StderrLog) -> None:
        self._metrics = metrics
        self._report = report
        self._process = token_hex(4)
        self._numbers = count(1)

    def watched(self, scope: Scope, send: Send) -> Send:
        """Name a request: as its header says, or by a number. Returns what its answer is sent with."""
        given = b""
        for name, value in scope["headers"]:
            if name == NAME:
                given = value if _GIVEN.fullmatch(value) else b""
        number = given.decode() or f"{self._process}-{next(self._numbers)}"
        scope["request_id"] = number
        responses, report = self._metrics.responses, self._report

        async def watching(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                responses[status] += 1
                message["headers"] = [*message["headers"], (NAME, number.encode())]
                if status >= 400:
                    told = {"method": scope["method"], "status": status, "request": number}
                    report.routine(("request.refused", "", told, time_ns(), False))
            await send(message)

        return watching
