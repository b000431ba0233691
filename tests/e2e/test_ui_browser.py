"""The page in a real browser: it updates by itself, answers to keys, works without scripts, fits a phone, and can be heard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, expect

from support.account import PIN, WRONG, Account
from support.browser import PICTURES, Window, check
from support.page import serving
from support.ports import free_port
from support.proxy import Client, ProxyWorkspace, refused, run, text_of, wait_for
from support.receiver import receiving

POLICY = ("allow *", "confirm before file.write", "confirm before deploy", "budget calls=9")
Scheme = Literal["light", "dark"]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[ProxyWorkspace]:
    with ProxyWorkspace(tmp_path, *POLICY) as workspace:
        yield workspace


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
    """The open page shows a new question without a reload; j selects it, r writes a reason, a begins to approve, Enter does; the call continues."""
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
    expect(page.get_by_role("button", name="Approve once")).to_be_focused()
    assert work.facts("confirm.approved") == []
    page.keyboard.press("Enter")
    expect(page.get_by_text("Approve echo.file.write: recorded in 10 s, unless you undo it.")).to_be_visible()
    page.keyboard.press("u")
    expect(page.get_by_role("button", name="Undo")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("article", name="file.write")).to_be_visible()
    assert work.facts("confirm.approved") == []
    page.keyboard.press("j")
    page.get_by_label("Reason").fill("as agreed")
    page.get_by_label("Reason").press("Escape")
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    check(page, 1280)
    expect(page.get_by_role("button", name="Undo")).to_be_hidden(timeout=15_000)
    assert not refused(client.answer(call))
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    assert work.facts("confirm.approved")[0].reason == "as agreed"
    assert window.errors == []


def test_without_its_server_the_page_keeps_what_was_typed(work: ProxyWorkspace, browser: Browser) -> None:
    """It takes no answer that would be lost, says what to type, and can still be heard."""
    asks(work, work.client(elicits=False))
    with browser.new_context(viewport={"width": 360, "height": 800}) as context:
        with serving(work.root, work.environment) as served:
            window = Window(context, served)
            expect(window.page.locator("#state")).not_to_have_attribute("hidden", "")
            page = window.page
            page.get_by_label("Reason (optional)").fill("half a sent")
            expect(page.get_by_text("No answer from adjourn")).to_be_hidden()
        expect(page.get_by_text("No answer from adjourn. What you typed stays here.")).to_be_visible(timeout=10_000)
        expect(page.get_by_role("button", name="Approve once")).to_be_disabled()
        expect(page.get_by_label("Reason (optional)")).to_have_value("half a sent")
        check(page, 360)


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
    window.page.get_by_role("button", name="Record now").click()
    expect(window.page.get_by_text("Denied: echo.file.write.")).to_be_visible()
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


def test_many_pages_of_one_browser_are_live(work: ProxyWorkspace, opened: Opened) -> None:
    """More pages than a browser opens connections load and follow, through one that listens; when that closes, another one does."""
    client = work.client(elicits=False)
    client.call("echo")
    window = opened()
    window.follow()
    pages = [window.page.context.new_page() for _ in range(8)]
    for page in pages:
        page.goto(window.page.url)
    asks(work, client)
    for page in (window.page, *pages):
        expect(page.get_by_role("article", name="file.write")).to_be_visible()
    window.page.close()
    asks(work, client, "deploy", 2)
    for page in pages:
        expect(page.get_by_role("article", name="deploy")).to_be_visible()


def test_a_link_in_a_chat_leads_to_what_waits(browser: Browser, work: ProxyWorkspace, tmp_path: Path) -> None:
    """The link that a chat got selects what waits in the browser that has the page, and one click answers; another browser gets nothing."""
    port = free_port()
    config = Path(work.environment["ADJOURN_CONFIG"])
    client = work.client(elicits=False)
    call = asks(work, client)
    with receiving() as receiver, ExitStack() as closing:
        file = config / "notify.toml"
        file.touch(0o600)
        file.write_text(f'[[webhook]]\nurl = "{receiver.url}"\nformat = "slack"\n')
        done = run("notify", "--once", "--page", str(port), cwd=work.root, env=work.environment)
        assert done.code == 0, done
        text = json.loads(receiver.wait_for(1)[0].body)["text"]
        links = dict(re.findall(r"^(approve|deny): (http://\S+)$", text, re.MULTILINE))
        chat = tmp_path / "chat.html"
        chat.write_text(f'<a href="{links["approve"]}">approve</a>')
        served = closing.enter_context(serving(work.root, work.environment, "--port", str(port)))
        context, other = browser.new_context(), browser.new_context()
        closing.callback(context.close)
        closing.callback(other.close)
        window = Window(context, served)
        for place, page in (("ours", context.new_page()), ("another", other.new_page())):
            page.goto(chat.as_uri())
            page.get_by_text("approve").click()
            if place == "another":
                expect(page.get_by_text("Open the link that")).to_be_visible()
                continue
            expect(page.locator("article[data-selected]")).to_contain_text("file.write")
            assert not work.facts("confirm.approved")
            page.locator("button:target").click()
            page.get_by_role("button", name="Record now").click()
            assert not refused(client.answer(call))
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
    page.get_by_role("button", name="Record now").click()
    expect(page.get_by_text("Denied: echo.file.write.")).to_be_visible()
    assert "ask me tomorrow" in text_of(client.answer(call))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_fits_and_can_be_heard(work: ProxyWorkspace, opened: Opened, scheme: Scheme, width: int) -> None:
    """On no page anything sticks out of the window, or axe finds anything: names, roles, contrast, order."""
    asks(work, work.client(elicits=False))
    window = opened(viewport={"width": width, "height": 800}, color_scheme=scheme)
    window.follow()
    check(window.page, width)
    window.page.get_by_role("link", name="Always allow…").click()
    expect(window.page.get_by_role("button", name="Write the policy")).to_be_visible()
    check(window.page, width)
    assert window.errors == []


def test_the_timeline_of_a_task_is_live(work: ProxyWorkspace, opened: Opened) -> None:
    """A call, its outcome and a checkpoint appear on the open page of the task, without a reload."""
    client = work.client(elicits=False)
    client.call("echo")
    window = opened()
    page = window.page
    page.get_by_role("link", name="Tasks").click()
    page.get_by_role("link", name=next(iter(work.tasks()))).first.click()
    window.follow()
    client.call("file.read", {"path": "a.txt"})
    expect(page.locator(".timeline").get_by_text("file.read")).to_be_visible(timeout=3000)
    client.call("aex.checkpoint", {"name": "half-way"})
    expect(page.get_by_role("link", name="half-way").first).to_be_visible(timeout=3000)
    assert window.errors == []


def test_the_page_asks_for_the_pin_and_then_remembers_it(
    browser: Browser, work: ProxyWorkspace, tmp_path: Path
) -> None:
    """An answer by key leads to the field for the PIN; a wrong one is said, the right one records it, and the next answer needs none."""
    account = Account(tmp_path)
    client = work.client(elicits=False)
    with serving(work.root, account.environment(work.environment)) as served:
        account.set_pin()
        call = asks(work, client)
        context = browser.new_context(viewport={"width": 390, "height": 800}, reduced_motion="reduce")
        window = Window(context, served)
        page = window.page
        expect(page.get_by_role("article", name="file.write")).to_be_visible()
        page.keyboard.press("j")
        page.keyboard.press("r")
        page.keyboard.type("as agreed")
        page.keyboard.press("Escape")
        page.keyboard.press("a")
        page.keyboard.press("Enter")
        field = page.get_by_label("PIN")
        expect(field).to_be_focused()
        check(page, 390)
        page.screenshot(path=PICTURES / "pin.png")
        field.fill(WRONG)
        page.get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("alert")).to_contain_text("The PIN is wrong")
        check(page, 390)
        page.screenshot(path=PICTURES / "pin-wrong.png")
        page.set_viewport_size({"width": 1200, "height": 800})
        page.screenshot(path=PICTURES / "pin-wide.png")
        field.fill(PIN)
        field.press("Enter")
        expect(page.get_by_text("1 wrong PIN was given since")).to_be_visible()
        page.screenshot(path=PICTURES / "pin-answered.png")
        page.get_by_role("button", name="Record now").click()
        assert not refused(client.answer(call))
        expect(page.get_by_text("Approved: echo.file.write. It runs once.")).to_be_visible()
        assert PIN not in page.url
        second = client.begin("deploy", {"to": "prod"})
        expect(page.get_by_role("article", name="deploy")).to_be_visible()
        page.get_by_role("button", name="Approve once").click()
        page.get_by_role("button", name="Record now").click()
        assert not refused(client.answer(second))
        context.close()
    assert work.facts("confirm.approved")[0].reason == "as agreed"
    assert window.errors == []
