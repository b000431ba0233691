"""A real `adjourn ui`, and a browser without a window: the requests that it would send.

Owns: `ServedPage`. Must never: know how the page is drawn, beyond the names of its fields.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from support.terminal import serving_at_terminal


class ServedPage:
    """A served page. `link` opens it once; `browser` has the cookie once `enter` was called."""

    def __init__(self, link: str) -> None:
        self.link = link
        parts = urlsplit(link)
        self.port = parts.port or 0
        self.origin = f"http://{parts.netloc}"
        self.browser = httpx.Client(base_url=self.origin, headers={"Origin": self.origin}, timeout=30)

    def enter(self) -> ServedPage:
        """Open the link, as the browser does that a person uses."""
        opened = self.browser.get(self.link)
        assert opened.status_code == 200, opened.text
        return self

    def get(self, path: str = "/", **headers: str) -> httpx.Response:
        return self.browser.get(path, headers=headers)

    def form(self, title: str = "") -> dict[str, str]:
        """The hidden fields of the form of an item, by its title; of the first one without."""
        page = self.get().text
        cards = re.findall(r"<article.*?</article>", page, re.DOTALL)
        card = next(one for one in cards if title in unescape(one))
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', card)
        return {name: unescape(value) for name, value in hidden}

    def send(self, fields: Mapping[str, str], **headers: str) -> httpx.Response:
        """Send a form of the inbox, have the answer recorded at once, and follow it to the page that says the outcome."""
        sent = self.browser.post("/answer", data=dict(fields), headers=headers, follow_redirects=True)
        held = held_fields(sent.text)
        return self.browser.post("/record-now", data=held, headers=headers, follow_redirects=True) if held else sent

    def answer(self, action: str, *, title: str = "", **fields: str) -> str:
        """Answer an item; returns what the page then says."""
        sent = self.send({**self.form(title), "action": action, **fields})
        return notice_of(sent.text)


def held_fields(page: str) -> dict[str, str]:
    """The fields that have the last answer recorded at once, or undone; none without one that can be undone."""
    forms = re.findall(r'<form[^>]* action="/record-now".*?</form>', page, re.DOTALL)
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', forms[-1]) if forms else []
    return {name: unescape(value) for name, value in hidden}


def notice_of(page: str) -> str:
    """What a page says about the last answer; "" for nothing."""
    found = re.search(r'<p class="notice notice-\w+">(.*?)</p>', page, re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", "", found[1])) if found else ""


@contextmanager
def serving(root: Path, environment: Mapping[str, str], *options: str) -> Iterator[ServedPage]:
    """`adjourn ui` in a workspace, until the end of the block."""
    command = [sys.executable, "-m", "adjourn", "ui", "--no-open", *options]
    with serving_at_terminal(command, cwd=root, env=environment) as process:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        assert link.startswith("http://127."), (link, process.stderr and process.stderr.read())
        page = ServedPage(link)
        try:
            yield page
        finally:
            page.browser.close()
