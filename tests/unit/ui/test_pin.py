"""The PIN on the page: which forms ask for it, what they keep, and for whom it is remembered."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from pathlib import Path

import httpx
import pytest

from adjourn.clients import person
from adjourn.host import pin as pins
from adjourn.host.pin import AccountPin
from adjourn.log import kinds
from adjourn.tasks.approvals import waiting_approvals
from adjourn.ui.app import Application
from adjourn.ui.guard import Access
from adjourn.ui.pages import OF_A_TEAM, PAGES
from adjourn.ui.site import Site
from support import waiting
from support.page_in_memory import ANN, PageInMemory
from support.task_sessions import SharedTask

PIN, WRONG = "tulip-42", "violet-42"
CHEAP = 1 << 4
READING = {"/checkpoint/preview", "/checkpoint/verify", "/policy/replay", "/undo", "/record-now", "/dismiss", "/snooze"}


@pytest.fixture
def account(unattended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AccountPin:
    """An account with a PIN, whose settings waive all that can be waived."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    made = AccountPin(str(unattended.parent))
    made.set(PIN, expect=None, cost=CHEAP)
    assert made.path == person.account_pin().path
    return made


@pytest.fixture
def shared() -> SharedTask:
    """A store in which two calls wait."""
    made = SharedTask()
    task = waiting.opened(made)
    for name in ("k1", "k2"):
        waiting.asked(task, name)
    return made


def page(shared: SharedTask, root: Path | str = "/srv/shop") -> PageInMemory:
    return PageInMemory(shared.store, shared.clock, root=str(root)).enter()


def left(shared: SharedTask) -> int:
    task = shared.task()
    return len(waiting_approvals(task.ledger, shared.clock()))


def send(served: PageInMemory, path: str = "/answer", **fields: str) -> httpx.Response:
    form = {"csrf": served.access.form_token, **fields}
    return served.request("POST", path, data=form)


def approving(served: PageInMemory) -> dict[str, str]:
    return {**served.form(), "action": "approve", "text": "as <agreed>\nby all"}


def hidden(answer: httpx.Response) -> dict[str, str]:
    """The fields of the form that asks for the PIN."""
    assert (answer.status_code, 'type="password"' in answer.text) == (200, True)
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', answer.text)
    return {unescape(name): unescape(value) for name, value in found}


def test_without_a_pin_nothing_is_asked(shared: SharedTask, unattended: Path) -> None:
    """Where the account has no PIN, an answer is recorded at once."""
    served = page(shared)
    assert served.answer(approving(served)).startswith("Approved")


def test_an_answer_asks_for_the_pin_and_keeps_what_was_typed(account: AccountPin, shared: SharedTask) -> None:
    """The form comes back with all its fields and a field for the PIN; with the right one the answer is recorded, as it was typed."""
    served = page(shared)
    given = approving(served)
    asked = send(served, **given)
    assert hidden(asked) == given
    assert left(shared) == 2
    done = send(served, **hidden(asked), pin=PIN)
    assert (done.status_code, left(shared)) == (303, 1)
    assert shared.last(kinds.ConfirmApproved).reason == "as <agreed>\nby all"


def test_a_wrong_pin_records_nothing_but_itself(account: AccountPin, shared: SharedTask) -> None:
    """It asks again, the history counts it, and after three the right PIN has to wait."""
    served = page(shared)
    given = approving(served)
    for number in range(1, 4):
        answer = send(served, **given, pin=WRONG)
        assert hidden(answer) == given
        assert "The PIN is wrong" in answer.text
        fact = shared.last(kinds.PinRefused)
        assert fact == kinds.PinRefused(action="/answer", failures=number, via="page")
    answer = send(served, **given, pin=PIN)
    assert "Too many wrong PINs" in answer.text
    assert left(shared) == 2
    assert all(text not in answer.text for text in (PIN, WRONG))


def test_who_answers_after_wrong_pins_learns_of_them(account: AccountPin, shared: SharedTask) -> None:
    """The notice says how many wrong PINs came before."""
    served = page(shared)
    send(served, **approving(served), pin=WRONG)
    said = served.answer({**approving(served), "pin": PIN})
    assert said.startswith("Approved")
    assert "1 wrong PIN was given since" in said


def test_the_page_remembers_the_pin_for_minutes_and_for_its_session_alone(
    account: AccountPin, shared: SharedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second answer of the session needs none; another server's session does, and so does this one after five minutes."""
    served, other = page(shared), page(shared)
    at = 0.0
    monkeypatch.setattr(pins, "_elapsed", lambda: at)
    assert served.answer({**approving(served), "pin": PIN}).startswith("Approved")
    hidden(send(other, **approving(other)))
    assert left(shared) == 1
    at = pins.MEMORY_SECONDS
    hidden(send(served, **approving(served)))
    at -= 1
    assert served.answer(approving(served)).startswith("Approved")


def test_without_the_sessions_cookie_the_pin_opens_nothing(account: AccountPin, shared: SharedTask) -> None:
    """The right PIN in a form without the cookie, or without the form's token, is refused before it is looked at."""
    served = page(shared)
    given = {**approving(served), "pin": PIN}
    assert served.request("POST", "/answer", data=given, headers={"Cookie": None}).status_code == 403
    assert served.request("POST", "/answer", data={**given, "csrf": "x"}).status_code == 403
    hidden(send(served, **approving(served)))
    assert left(shared) == 2


def test_each_form_that_changes_something_asks(account: AccountPin, shared: SharedTask, tmp_path: Path) -> None:
    """Every action of every page asks, but those that only read."""
    served = page(shared, tmp_path)
    paths = {f"{one.path.rstrip('/')}/{name}" for one in PAGES for name in one.actions}
    assert paths >= READING
    asking = {path for path in paths if "Your PIN" in send(served, path).text}
    assert asking == paths - READING


def test_a_person_who_signed_in_at_a_gateway_needs_no_pin_of_this_machine(
    account: AccountPin, shared: SharedTask
) -> None:
    """The page behind the gateway's login has a login of its own."""
    access = Access()
    site = Site("/srv/none", "/srv/none", lambda: shared.store, ANN, shared.clock)
    app = Application(site, access, OF_A_TEAM, "ann").unguarded()

    async def send() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="https://inbox.example.com"
        ) as browser:
            fields = {"csrf": access.form_token, "kind": "approval", "item": "k1", "task": "t1", "action": "deny"}
            return await browser.post("/answer", data=fields)

    assert asyncio.run(send()).status_code == 303
    assert left(shared) == 1


def test_a_verifier_that_is_gone_lets_nobody_answer(account: AccountPin, shared: SharedTask) -> None:
    """Without the file the page refuses, and says which file it is."""
    served = page(shared)
    Path(account.path).unlink()
    answer = send(served, **approving(served), pin=PIN)
    assert (answer.status_code, account.path in unescape(answer.text)) == (409, True)
    assert left(shared) == 2


def test_the_pin_is_in_no_address_and_no_answer(account: AccountPin, shared: SharedTask) -> None:
    """Not in the address that the browser is sent to, not in the page behind it, and not in the history."""
    served = page(shared)
    done = send(served, **approving(served), pin=PIN)
    assert PIN not in done.headers["location"]
    assert PIN not in served.get(done.headers["location"])
    assert all(PIN.encode() not in entry.data for entry in shared.store.read("t1"))
