"""All pages of a week of work, in a real browser: what the tests' week shows is read, answered, corrected and gone back to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from playwright.sync_api import Browser, expect

from adjourn.host.clock import now
from adjourn.host.workspace_store import open_at
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from support.browser import PICTURES, Window, check
from support.page import ServedPage, serving
from support.week import make_week

Scheme = Literal["light", "dark"]


class Week(NamedTuple):
    """`state` is that of a browser which has opened the link, for contexts of tests that share a page."""

    root: Path
    served: ServedPage
    state: Any = None


@contextmanager
def served_week(path: Path) -> Iterator[Week]:
    """A served workspace with a week of work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADJOURN_CONFIG", str(path / "config"))
        root = path / "acme-api"
        make_week(root, now())
        with serving(root, dict(os.environ)) as served:
            yield Week(root, served)


@pytest.fixture
def week(tmp_path: Path) -> Iterator[Week]:
    """A week of a test's own, which it may change."""
    with served_week(tmp_path) as week:
        yield week


@pytest.fixture(scope="module")
def read_week(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Week]:
    """A week that tests only read. Its link is used up."""
    with served_week(tmp_path_factory.mktemp("week")) as week:
        with browser.new_context() as context:
            Window(context, week.served)
            state = context.storage_state()
        week.served.link = f"{week.served.origin}/"
        yield week._replace(state=state)


ADDRESSES = {
    "/": "6 things wait for you",
    "/now": "12 calls left, about 5 min of work",
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
    "/policy?tool=files.edit_file": "Needs approval",
}
"""The pages, each with something that it says."""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_every_page_fits_and_can_be_heard(browser: Browser, read_week: Week, scheme: Scheme, width: int) -> None:
    """Nothing sticks out, axe finds nothing, the console says nothing; reading works without JavaScript. Leaves pictures."""
    size: Any = {"width": width, "height": 800}
    context = browser.new_context(viewport=size, color_scheme=scheme, storage_state=read_week.state)
    window = Window(context, read_week.served)
    for address, text in ADDRESSES.items():
        window.page.goto(read_week.served.origin + address)
        expect(window.page.get_by_text(text).first).to_be_visible()
        check(window.page, width)
        name = re.sub(r"\W+", "-", address).strip("-") or "inbox"
        window.page.screenshot(path=PICTURES / f"{name}-{scheme}-{width}.png", full_page=True)
    assert window.errors == []
    plain = browser.new_context(java_script_enabled=False, storage_state=read_week.state).new_page()
    for address, text in ADDRESSES.items():
        plain.goto(read_week.served.origin + address)
        expect(plain.get_by_text(text).first).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_everything_that_waits_is_answered(browser: Browser, week: Week, *, scripts: bool) -> None:
    """A decision, a call in doubt, a question, a resume point and two calls: one answer after the other, until nothing waits."""
    window = Window(browser.new_context(java_script_enabled=scripts), week.served)
    page = window.page

    def answer(kind: str, button: str, said: str, option: str = "", text: str = "") -> None:
        card = page.get_by_role("article").filter(has=page.get_by_text(kind, exact=True)).first
        if option:
            card.get_by_label(option).check()
        if text:
            card.get_by_role("textbox").fill(text)
        card.get_by_role("button", name=button).click()
        page.get_by_role("button", name="Record now").click()
        expect(page.locator("#notices").get_by_text(said)).to_be_visible()

    answer("Decision", "Accept", "Accepted", option="Backfill in batches of 5,000 rows")
    answer("In doubt", "It did not", "did not", text="the table has the old columns")
    answer("Question", "Answer", "nswered", option="No, run it in batches")
    answer("Resume point", "Approve", "pproved")
    answer("Approval", "Approve once", "It runs once")
    answer("Approval", "Deny", "Denied", text="not on a Friday")
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    assert window.errors == []


def test_a_choice_stays_when_the_page_updates(browser: Browser, read_week: Week) -> None:
    """The chosen option, the form and its buttons are the same after an update as before."""
    with browser.new_context(storage_state=read_week.state) as context:
        window = Window(context, read_week.served)
        window.follow()
        option = window.page.get_by_label("No, run it in batches")
        option.check()
        window.page.evaluate("window.before = [...document.querySelectorAll('article form, article button')]")
        window.page.evaluate("refresh()")
        window.page.wait_for_timeout(1500)
        expect(option).to_be_checked()
        assert window.page.evaluate("window.before.every(element => element.isConnected)")
        assert window.errors == []


@pytest.mark.parametrize("scripts", [True, False])
def test_a_checkpoint_is_corrected_verified_and_gone_back_to(browser: Browser, week: Week, *, scripts: bool) -> None:
    """From the task to its checkpoint: edit, preview, save, verify, go back; with and without JavaScript."""
    window = Window(browser.new_context(java_script_enabled=scripts), week.served)
    page = window.page
    page.goto(f"{week.served.origin}/task?id=tax-rates")
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
    assert "the sum does use them" in (week.root / "tmp" / "checkpoint-active.md").read_text(encoding="utf-8")
    assert window.errors == []


def test_another_policy_is_tried_on_the_history(browser: Browser, read_week: Week) -> None:
    """The text of the policy is changed in the page, and tried on the calls of the week."""
    window = Window(browser.new_context(storage_state=read_week.state), read_week.served)
    page = window.page
    page.goto(f"{read_week.served.origin}/policy")
    page.get_by_text("What would another policy have stopped?").click()
    field = page.get_by_label("Change the text.")
    field.fill(field.input_value().replace("deny git.reset", "deny shell.run"))
    page.get_by_role("button", name="Try it on the history").click()
    expect(page.get_by_role("cell", name="deny shell.run")).to_be_visible()
    check(page, 1280)
    page.screenshot(path=PICTURES / "policy-replay-light-1280.png", full_page=True)
    assert window.errors == []


def test_a_conflict_is_resolved_by_choosing(browser: Browser, week: Week) -> None:
    """Both sides of what a merge could not decide are shown; the button takes one."""
    store = open_at(str(week.root))
    records = RecordTrees(store)
    ann, bob = CRAuthor(id="ann", type="human"), CRAuthor(id="bob", type="human")
    task = {"id": "colour", "goal": "Choose a colour", "status": "in-progress", "successCriteria": []}
    begun = records.create({"task": task}, author=ann, cr_id="colour")
    records.fork(begun["contentHash"], {"task": {**task, "goal": "Choose red"}}, bob, cr_id="red")
    records.update("colour", {"task": {**task, "goal": "Choose blue"}}, ann)
    records.merge("colour", "red", "manual", author=ann)
    store.close()
    window = Window(browser.new_context(), week.served)
    page = window.page
    page.goto(f"{week.served.origin}/record?id=colour")
    page.get_by_role("button", name="Take the other").click()
    expect(page.get_by_text("Resolved.")).to_be_visible()
    expect(page.get_by_role("heading", name="Choose red")).to_be_visible()
    assert window.errors == []


def test_a_mark_of_the_picture_opens_its_call(browser: Browser, read_week: Week) -> None:
    """Tab reaches one mark, the arrow keys the others, and Enter opens the call with its rule; without JavaScript it is a link."""
    address = f"{read_week.served.origin}/task?id=release-1-3"
    with browser.new_context(storage_state=read_week.state) as context:
        window = Window(context, read_week.served)
        page = window.page
        page.goto(address)
        page.locator('.tracks a[tabindex="0"]').focus()
        for _ in range(7):
            page.keyboard.press("ArrowRight")
        expect(page.get_by_role("link", name="git.reset: refused")).to_be_focused()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Enter")
        row = page.locator("[data-selected]")
        expect(row.locator("pre", has_text="deny git.reset (.aex/policy.aex:4)")).to_be_visible()
        expect(row.locator(".arguments").get_by_text("hard")).to_be_visible()
        check(page, 1280)
        assert window.errors == []
    with browser.new_context(java_script_enabled=False, storage_state=read_week.state) as context:
        page = context.new_page()
        page.goto(address)
        page.get_by_role("link", name="git.reset: refused").click()
        assert re.search(r"#event-\d+$", page.url)
