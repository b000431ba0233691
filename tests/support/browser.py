"""A real browser at the page of `adjourn ui`: its windows, what axe-core finds in them, and pictures of them.

Owns: `Window`, `check`. Must never: know what a page shows.
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, expect

from support import tools
from support.page import ServedPage

AXE = tools.TOOLS / "browser" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = Path(__file__).parents[2] / "build" / "pages"
"""Where each page is left as a picture, to be looked at."""


class Window:
    """A window of the browser that a person has, at the page; `errors` are what its console says is wrong."""

    def __init__(self, context: BrowserContext, served: ServedPage) -> None:
        self.errors: list[str] = []
        self.page: Page = context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(served.link)
        self.page.wait_for_url(f"{served.origin}/")

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def follow(self) -> None:
        """Wait until the page is kept up to date."""
        expect(self.page.locator("#state-text")).to_have_text("live")


def check(page: Page, width: int) -> None:
    """Nothing sticks out of a window of this width, and axe-core finds nothing: names, roles, contrast, order."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then(result => result.violations)")
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
