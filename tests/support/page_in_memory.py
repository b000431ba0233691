"""The page over a store in memory, asked without a network.

Owns: `PageInMemory`. Must never: pass a request by the guard.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from html import unescape
from typing import Any

import httpx

from adjourn.handover.held import HeldAnswers
from adjourn.log.event import Actor
from adjourn.store import Store
from adjourn.ui.app import Application
from adjourn.ui.guard import Access
from adjourn.ui.site import Site
from support.clock import Clock

PORT = 8900
HOST = f"127.7.1.9:{PORT}"
ORIGIN = f"http://{HOST}"
ANN = Actor("ann", "human")


class PageInMemory:
    """A served page, and the browser that has its cookie once `enter` was called."""

    def __init__(
        self,
        store: Store | None,
        clock: Clock | None = None,
        root: str = "/srv/shop",
        *,
        undo: float = 0,
        person: Actor = ANN,
        others: Callable[[], Sequence[Site]] = tuple,
    ) -> None:
        self.access = Access()
        clock = clock or Clock()
        self.site = Site(root, root, lambda: store, person, clock, answers=HeldAnswers(clock, undo), others=others)
        self._app = Application(self.site, self.access).guarded(HOST)
        self.cookie = ""

    def enter(self) -> PageInMemory:
        """Use the link."""
        opened = self.request("GET", f"/enter?token={self.access.link_token}")
        assert opened.status_code == 200
        self.cookie = opened.headers["set-cookie"].partition(";")[0]
        return self

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A request as a browser sends it; `headers` replace those that it would have, None leaves one out."""
        headers: dict[str, str | None] = {"Host": HOST, "Cookie": self.cookie or None}
        if method == "POST":
            headers |= {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
        headers |= options.pop("headers", {})
        sent = {name: value for name, value in headers.items() if value is not None}
        return asyncio.run(self._request(method, path, headers=sent, **options))

    async def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            return await client.request(method, path, **options)

    def get(self, path: str = "/") -> str:
        """A page that is there."""
        shown = self.request("GET", path)
        assert shown.status_code == 200, shown.text
        return shown.text

    def form(self, number: int = 0, path: str = "/") -> dict[str, str]:
        """The hidden fields of the form of an item."""
        card = re.findall(r"<article.*?</article>", self.get(path), re.DOTALL)[number]
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', card)
        return {name: unescape(value) for name, value in hidden}

    def answer(self, fields: Mapping[str, str], path: str = "/answer") -> str:
        """Send a form; returns what the page then says."""
        sent = self.request("POST", path, data=dict(fields))
        assert sent.status_code == 303, sent.text
        page = self.get(sent.headers["location"])
        found = re.search(r'<p class="notice notice-\w+">(.*?)</p>', page, re.DOTALL)
        return unescape(re.sub(r"<[^>]+>", "", found[1])) if found else ""
