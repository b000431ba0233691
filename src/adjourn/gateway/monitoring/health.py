"""Whether the gateway can work: its store answers, and its policy can be read.

Whoever asks often costs nothing: an answer counts for a second, and there is one look at a time.

Owns: these looks. Must never: say why something fails to whoever asks: that is for the log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec

KEPT_SECONDS = 1.0
LOOK_SECONDS = 2.0
OK, FAILED, SILENT = "ok", "failed", "no answer"


class Health:
    """`looks` by name: each may block, and raises where something is wrong. `on_failure` gets the name and the reason.

    Of `required`, each has to be fine for the gateway to be ready.
    """

    def __init__(
        self,
        looks: Mapping[str, Callable[[], object]],
        required: frozenset[str],
        on_failure: Callable[[str, str], None],
    ) -> None:
        self._looks = looks
        self._required = required
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(1, "health")  # a look that hangs holds up nothing else
        self.found: dict[str, str] = {}
        """What the last look found, by name."""
        self._looking: asyncio.Future[dict[str, str]] | None = None
        self._since = -KEPT_SECONDS

    async def look(self) -> dict[str, str]:
        """What there is to say of each, at most a second old."""
        now = time.monotonic()
        if self._looking is None and now - self._since >= KEPT_SECONDS:
            self._since = now
            self._looking = asyncio.get_running_loop().run_in_executor(self._thread, self._look_now)
            self._looking.add_done_callback(self._looked)
        if self._looking is not None:
            left = self._since + LOOK_SECONDS - now
            done, _ = await asyncio.wait([self._looking], timeout=max(0.0, left))
            if not done:
                self.found = dict.fromkeys(self._looks, SILENT)
        return self.found

    def _look_now(self) -> dict[str, str]:
        found = {}
        for name, look in self._looks.items():
            try:
                look()
            except Exception as error:  # whatever it is, somebody wants to know
                found[name] = FAILED
                self._on_failure(name, f"{type(error).__name__}: {error}")
            else:
                found[name] = OK
        return found

    def _looked(self, looking: asyncio.Future[dict[str, str]]) -> None:
        self._looking = None
        self._since = time.monotonic()
        if not looking.cancelled():
            self.found = looking.result()

    def is_ready(self, found: Mapping[str, str]) -> bool:
        """Whether all is fine that has to be."""
        return all(found.get(name) == OK for name in self._required)

    def close(self) -> None:
        """Look no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def written(status: str, found: Mapping[str, str]) -> bytes:
    """The body of an answer."""
    return msgspec.json.encode({"status": status, **found}) + b"\n"
