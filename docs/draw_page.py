"""Draw docs/assets/screens/page-*.png: the first screen of pages of `adjourn ui`. `python docs/draw_page.py`; needs Chromium.

They show the week of work in tests/support/week.py. Times in them are those of the drawing, so they are not compared.

Owns: which pages, and their size. Must never: draw what the page does not show.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from adjourn.host.clock import now
from support import tools
from support.page import serving
from support.week import make_week

SCREENS = Path(__file__).parent / "assets" / "screens"
PAGES = {"inbox": "/", "task": "/task?id=tax-rates"}
SIZE = {"width": 1100, "height": 760}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.environ["ADJOURN_CONFIG"] = str(Path(folder, "config"))
        root = Path(folder, "work", "acme-api")
        make_week(root, now())
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=str(tools.chromium()), args=options)
        with serving(root, dict(os.environ)) as served:
            page = browser.new_page(viewport=SIZE)
            page.goto(served.link)
            page.wait_for_url(f"{served.origin}/")
            for name, address in PAGES.items():
                page.goto(served.origin + address)
                page.evaluate("document.querySelector('.workspace').textContent = '~/acme-api'")
                page.screenshot(path=SCREENS / f"page-{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
