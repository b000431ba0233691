"""Open pages, each with the connection and the requests of a browser's tab: an event that says that something changed, then the page again.

    ui_pages.py ORIGIN COOKIE PATH...

Says `open` when every page was drawn once more after its first event. An empty line of its input ends it. A line `{"waiting": N,
"ends": {TASK: [seq, calls]}}` is what the pages have to show now; it answers, page by page, when each did, and ends.

Owns: what the page's script does, without a browser. Must never: ask for more or less than the script.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping
from html import unescape
from http.client import HTTPConnection, HTTPResponse
from importlib.resources import files
from threading import Event, Thread
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

SHOWN_SECONDS = 20.0
"""How long a page may take to show what it has to, before it has lost an update."""
_SCRIPT = files("adjourn.ui").joinpath("static/adjourn.js").read_text(encoding="utf-8")
REST_SECONDS = int(re.findall(r"REST_MS = (\d+)", _SCRIPT)[0]) / 1000
Ends = Mapping[str, tuple[int, int]]
"""Of each task, the last position and the calls that were used."""


class Visit(NamedTuple):
    """An answer: when it was there, and what it took."""

    at: float
    seconds: float
    text: str


class Tab:
    """A browser's connection to the page."""

    def __init__(self, origin: str, cookie: str) -> None:
        self._connection = HTTPConnection(urlsplit(origin).netloc, timeout=60)
        self._cookie = cookie

    def ask(self, path: str, **headers: str) -> HTTPResponse:
        self._connection.request(
            "GET", path, headers={"Cookie": self._cookie, "Sec-Fetch-Site": "same-origin", **headers}
        )
        answer = self._connection.getresponse()
        assert answer.status == 200, (path, answer.status, answer.read())
        return answer

    def visit(self, path: str) -> Visit:
        """The page alone, as its script asks for it."""
        began = time.perf_counter()
        text = self.ask(path, **{"HX-Request": "true"}).read().decode()
        return Visit(time.time(), time.perf_counter() - began, text)

    def paint(self, path: str) -> Visit:
        """The page with the style sheets without which a browser paints nothing."""
        began = time.perf_counter()
        text = self.ask(path).read().decode()
        for sheet in re.findall(r'<link rel="stylesheet" href="([^"]+)"', text):
            self.ask(sheet).read()
        return Visit(time.time(), time.perf_counter() - began, text)


class OpenPage:
    """A page that follows the store until the process ends."""

    def __init__(self, origin: str, cookie: str, path: str) -> None:
        self.path = path
        self.visits = 0
        self.last: deque[Visit] = deque(maxlen=40)
        self.drawn = Event()
        self._stale = Event()
        Thread(target=self._listen, args=(Tab(origin, cookie),), daemon=True).start()
        Thread(target=self._refresh, args=(Tab(origin, cookie),), daemon=True).start()

    def _listen(self, tab: Tab) -> None:
        answer = tab.ask("/live")
        while line := answer.readline():
            if line.startswith(b"event: changed"):
                self._stale.set()

    def _refresh(self, tab: Tab) -> None:
        while self._stale.wait():
            self._stale.clear()
            self.last.append(tab.visit(self.path))
            self.visits += 1
            self.drawn.set()
            time.sleep(REST_SECONDS)

    def shown_at(self, waiting: int, ends: Ends, until: float) -> float | None:
        """When the page first showed all that it has to; None if it did not until then."""
        while True:
            found = next((one.at for one in list(self.last) if is_current(self.path, one.text, waiting, ends)), None)
            if found is not None or time.time() > until:
                return found
            time.sleep(0.02)


def is_current(path: str, text: str, waiting: int, ends: Ends) -> bool:
    """Whether a page shows the last state of these tasks, as far as it is about them."""
    address = urlsplit(path)
    if address.path == "/":
        return f'data-count="{waiting}"' in text
    if address.path == "/task":
        return f"{ends[parse_qs(address.query)['id'][0]][0] + 1:,} events" in text
    rows = [one for one in re.findall(r'<a class="task".*?</a>', text, re.DOTALL) if _name(one) in ends]
    return bool(rows) and all("1 waiting" in row and _calls(row) == ends[_name(row)][1] for row in rows)


def _name(row: str) -> str:
    return unescape(re.findall(r'href="/task\?id=([^"]+)"', row)[0])


def _calls(row: str) -> int:
    return int(re.findall(r"(\d+)(?: of \d+)? calls", row)[0])


def _fail(failed: threading.ExceptHookArgs) -> None:
    """A page that fails ends the program: it would be waited for."""
    traceback.print_exception(failed.exc_value)
    os._exit(1)


def main() -> None:
    origin, cookie, *paths = sys.argv[1:]
    threading.excepthook = _fail
    pages = [OpenPage(origin, cookie, path) for path in paths]
    for page in pages:
        page.drawn.wait()
    print("open", flush=True)
    line = sys.stdin.readline().strip()
    if not line:
        return
    given = json.loads(line)
    until = time.time() + SHOWN_SECONDS
    found = [
        {"path": page.path, "shown": page.shown_at(given["waiting"], given["ends"], until), "visits": page.visits}
        for page in pages
    ]  # fmt: skip
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
