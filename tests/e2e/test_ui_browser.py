"""The page in a real browser: it updates by itself, answers to keys, works without scripts, fits a phone, and can be heard."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from adjourn.cli.setup.tour import make_week
from adjourn.host import now
from support import tools
from support.page import ServedPage, serving
from support.proxy import Client, ProxyWorkspace, refused, text_of, wait_for

POLICY = ("allow *", "confirm before file.write", "confirm before deploy", "budget calls=9")
AXE = tools.TOOLS / "browser" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = Path(__file__).parents[2] / "build" / "pages"
"""Where each page is left as a picture, to be looked at."""
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Skips where Chromium is not installed, except in CI, which must have it."""
    program = tools.chromium()
    if program is None or not AXE.exists():
        missing = "Chromium or axe-core is not installed: run `python tests/support/tools.py`"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = playwright.chromium.launch(executable_path=str(program), args=options)
        yield launched
        launched.close()


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, *POLICY) as workspace:
        yield workspace


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


Opened = Callable[..., Window]


@pytest.fixture
def opened(browser: Browser, work: ProxyWorkspace) -> Iterator[Opened]:
    """Opens the page of the workspace in a new window."""
    with ExitStack() as closing:
        served = closing.enter_context(serving(work.root, work.environment))

        def new(**options: Any) -> Window:
            context = browser.new_context(**options)
            closing.callback(context.close)
            return Window(context, served)

        yield new


def asks(work: ProxyWorkspace, client: Client, tool: str = "file.write", count: int = 1) -> object:
    """A call that waits for a person."""
    call = client.begin(tool, {"path": "src/a.py", "old_string": "one\ntwo", "new_string": "one\n2"})
    wait_for(lambda: work.tasks() and len(work.facts("confirm.required")) == count)
    return call


def test_a_question_appears_and_is_answered_by_keys(work: ProxyWorkspace, opened: Opened) -> None:
    """The open page shows a new question without a reload; j selects it, r writes a reason, a approves; the call continues."""
    client = work.client(elicits=False)
    client.call("echo")
    window = opened()
    page = window.page
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    window.follow()
    call = asks(work, client)
    expect(page.get_by_role("article", name="file.write")).to_be_visible(timeout=3000)
    expect(page).to_have_title("(1) Inbox · adjourn")
    page.keyboard.press("j")
    page.keyboard.press("r")
    page.keyboard.type("as agreed")
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    assert not refused(client.answer(call))
    expect(page.get_by_text("Approved: echo.file.write. It runs once.")).to_be_visible()
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    assert work.facts("confirm.approved")[0].reason == "as agreed"
    assert window.errors == []


def test_what_is_being_typed_stays_when_the_page_updates(work: ProxyWorkspace, opened: Opened) -> None:
    """A second question comes up below the first, whose text and focus stay."""
    client = work.client(elicits=False)
    asks(work, client)
    window = opened()
    window.follow()
    field = window.page.get_by_label("Reason (optional)")
    field.fill("half a sent")
    asks(work, client, "deploy", 2)
    expect(window.page.get_by_role("article")).to_have_count(2)
    expect(field.first).to_have_value("half a sent")
    expect(field.first).to_be_focused()
    window.page.keyboard.type("ence")
    window.page.get_by_role("button", name="Deny").first.click()
    expect(window.page.get_by_role("article")).to_have_count(1)
    assert work.facts("confirm.denied")[0].reason == "half a sentence"
    assert window.errors == []


def test_an_answer_elsewhere_clears_the_page(work: ProxyWorkspace, opened: Opened) -> None:
    """A question that is answered in a terminal leaves the open page by itself."""
    client = work.client(elicits=False)
    call = asks(work, client)
    window = opened()
    window.follow()
    expect(window.page.get_by_role("article")).to_have_count(1)
    work.decide(yes=False)
    client.answer(call)
    expect(window.page.get_by_role("article")).to_have_count(0)
    assert window.errors == []


def test_the_keys_are_explained(opened: Opened) -> None:
    """The question mark opens the list of keys, Escape closes it; the button does the same."""
    window = opened()
    window.follow()
    window.page.keyboard.press("?")
    expect(window.page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    window.page.keyboard.press("Escape")
    expect(window.page.get_by_role("dialog")).to_have_count(0)
    window.page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(window.page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert window.errors == []


def test_without_scripts_the_page_is_read_and_answered(work: ProxyWorkspace, opened: Opened) -> None:
    """With JavaScript blocked the forms work: a reason and a button refuse the call."""
    client = work.client(elicits=False)
    call = asks(work, client)
    page = opened(java_script_enabled=False).page
    expect(page.get_by_text("confirm file.write")).to_be_visible()
    page.get_by_label("Reason (optional)").fill("ask me tomorrow")
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_text("Denied: echo.file.write.")).to_be_visible()
    assert "ask me tomorrow" in text_of(client.answer(call))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_fits_and_can_be_heard(
    work: ProxyWorkspace, opened: Opened, scheme: Scheme, width: int
) -> None:
    """On no page anything sticks out of the window, or axe finds anything: names, roles, contrast, order."""
    asks(work, work.client(elicits=False))
    window = opened(viewport={"width": width, "height": 800}, color_scheme=scheme)
    window.follow()
    check(window.page, width)
    window.page.get_by_role("link", name="Always allow…").click()
    expect(window.page.get_by_role("button", name="Write the policy")).to_be_visible()
    check(window.page, width)
    assert window.errors == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_every_page_of_a_week_fits_and_can_be_heard(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: Scheme, width: int
) -> None:
    """All pages of a workspace with a history, as `adjourn demo --ui` shows it; reading works without JavaScript. Leaves pictures."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    root = tmp_path / "acme-api"
    make_week(root, now())
    addresses = {
        "/": "6 things wait for you",
        "/tasks": "Release acme-api 1.3.0",
        "/task?id=release-1-3": "What happened",
        "/task?id=invoices-schema": "its process had exited",
        "/checkpoint": "tax-rates-before",
        "/checkpoint?task=tax-rates": "What the page says",
        "/checkpoint?task=tax-rates&edit=1": "The next session receives what you save",
        "/checkpoint?task=tax-rates&back=1": "This page becomes the active one",
        "/cognition?id=invoices-schema": "What supports what",
        "/record": "invoices-schema",
        "/record?id=invoices-schema&from=0&to=1": "contested",
        "/policy?tool=files.edit_file": "After a person confirms",
    }
    with serving(root, dict(os.environ)) as served:
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        window = Window(context, served)
        for address, text in addresses.items():
            window.page.goto(served.origin + address)
            expect(window.page.get_by_text(text).first).to_be_visible()
            check(window.page, width)
            name = re.sub(r"\W+", "-", address).strip("-") or "inbox"
            window.page.screenshot(path=PICTURES / f"{name}-{scheme}-{width}.png", full_page=True)
        assert window.errors == []
        plain = browser.new_context(
            java_script_enabled=False, storage_state=context.storage_state()
        ).new_page()
        for address, text in addresses.items():
            plain.goto(served.origin + address)
            expect(plain.get_by_text(text).first).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_checkpoint_is_corrected_verified_and_gone_back_to(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, scripts: bool
) -> None:
    """From the task to its checkpoint: edit, preview, save, verify, go back; with and without JavaScript."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    root = tmp_path / "acme-api"
    make_week(root, now())
    with serving(root, dict(os.environ)) as served:
        window = Window(browser.new_context(java_script_enabled=scripts), served)
        page = window.page
        page.goto(f"{served.origin}/task?id=tax-rates")
        page.get_by_role("link", name="tax-rates-before").first.click()
        page.get_by_role("link", name="Edit").click()
        field = page.get_by_role("textbox")
        field.fill(field.input_value().replace("does not use them yet", "does use them"))
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("heading", name="What saving would change")).to_be_visible()
        check(page, 1280) if scripts else None
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved. The next session receives this text.")).to_be_visible()
        page.get_by_role("button", name="Verify").click()
        expect(page.get_by_role("heading", name="Valid")).to_be_visible()
        check(page, 1280) if scripts else None
        page.get_by_role("link", name="Go back to it").click()
        page.get_by_role("button", name="Go back").click()
        expect(page.get_by_text("Back at tax-rates-before.")).to_be_visible()
        assert "the sum does use them" in (root / "tmp" / "checkpoint-active.md").read_text(encoding="utf-8")
        assert window.errors == []


def test_another_policy_is_tried_on_the_history(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of the policy is changed in the page, and tried on the calls of the week."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    root = tmp_path / "acme-api"
    make_week(root, now())
    with serving(root, dict(os.environ)) as served:
        window = Window(browser.new_context(), served)
        page = window.page
        page.goto(f"{served.origin}/policy")
        page.get_by_text("What would another policy have stopped?").click()
        field = page.get_by_label("Change the text.")
        field.fill(field.input_value().replace("deny git.reset", "deny shell.run"))
        page.get_by_role("button", name="Try it on the history").click()
        expect(page.get_by_role("cell", name="deny shell.run")).to_be_visible()
        check(page, 1280)
        page.screenshot(path=PICTURES / "policy-replay-light-1280.png", full_page=True)
        assert window.errors == []


def check(page: Page, width: int) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then(result => result.violations)")
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
