"""The page behind the gateway's login: who gets in, and for how long."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from adjourn.errors import StoreError
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log.event import Actor
from adjourn.policy.principal import Principal, SpaceStore, space_of
from adjourn.store import MemoryStore
from adjourn.ui import team
from adjourn.ui.site import Site
from adjourn.ui.team import TeamPage
from support.clock import Clock

HOST = "inbox.example.com"
ORIGIN = f"https://{HOST}"
PEOPLE = {
    "key-of-ann": Principal(id="key:ann", name="ann", type="human"),
    "key-of-bob": Principal(id="key:bob", name="bob", type="human"),
    "key-of-ci": Principal(id="key:ci", name="ci", type="service"),
}


class Browser:
    """One browser, and the page; `known` are the credentials that the gateway takes. `named` is whom its proxy names."""

    def __init__(self, loop: asyncio.Runner, origin: str) -> None:
        self._loop = loop
        self._origin = origin
        self.known = dict(PEOPLE)
        self.named: Principal | None = None
        self.below = MemoryStore()
        """What all people's stores are views of."""
        self.is_away = False
        """Whether the store that has the keys cannot be reached."""
        self.page = TeamPage(self._find, self._site, origin)
        self.cookie = ""

    async def _find(self, scope: Any) -> Principal | None:
        if self.is_away:
            raise StoreError("the store is away", "try again")
        said = dict(scope["headers"]).get(b"authorization", b"").decode()
        return self.known.get(said.removeprefix("Bearer ")) if said else self.named

    def _site(self, person: Principal) -> Site:
        store = SpaceStore(self.below, space_of(person))
        return Site("/srv/none", "/srv/none", lambda: store, Actor(person.name, "human"), Clock())

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A request as a browser sends it."""
        headers = {"Cookie": self.cookie} if self.cookie else {}
        if method == "POST":
            headers |= {"Origin": self._origin, "Sec-Fetch-Site": "same-origin"}
        return self._loop.run(self._request(method, path, headers=headers, **options))

    async def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self.page)
        async with httpx.AsyncClient(transport=transport, base_url=self._origin) as client:
            return await client.request(method, path, **options)

    def sign_in(self, credential: str) -> httpx.Response:
        """Send the form; the browser keeps the cookie that it gets."""
        answer = self.request("POST", "/enter", data={"credential": credential})
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return answer

    def close(self) -> None:
        self._loop.run(self.page.close())


@contextmanager
def _browser(origin: str) -> Iterator[Browser]:
    with asyncio.Runner() as loop:
        browser = Browser(loop, origin)
        yield browser
        browser.close()


@pytest.fixture
def browser() -> Iterator[Browser]:
    with _browser(ORIGIN) as found:
        yield found


def test_a_session_is_kept_from_other_sites_and_scripts(browser: Browser) -> None:
    """Its cookie is for this host alone, over https, for no script and no other site, and has nothing of the key."""
    answer = browser.sign_in("key-of-ann")
    assert answer.status_code == 303
    said = answer.headers["set-cookie"].lower()
    assert said.startswith("__host-adjourn-page=")
    assert all(word in said for word in ("; httponly", "; secure", "; samesite=strict", "; path=/"))
    assert "domain" not in said
    assert "key-of-ann" not in said
    assert '<span class="who">ann</span>' in browser.request("GET", "/").text


def test_a_local_page_has_a_cookie_that_browsers_take() -> None:
    """Without https, a cookie that asks for it would be dropped."""
    with _browser("http://127.0.0.1:8900") as browser:
        said = browser.sign_in("key-of-ann").headers["set-cookie"].lower()
        assert said.startswith("adjourn-page=")
        assert "secure" not in said
        assert browser.request("GET", "/").status_code == 200


@pytest.mark.parametrize(
    "credential", ["", "key-of-nobody", "key-of-ci", "a" * 8193, "key\nof-ann", "kéy", "key-of-ann\x00"]
)
def test_nobody_gets_in_without_a_persons_credential(browser: Browser, credential: str) -> None:
    """One that is missing, wrong, a service's, too long, or no text that a header can have."""
    answer = browser.sign_in(credential)
    assert (answer.status_code, browser.cookie) == (401, "")
    assert browser.request("GET", "/").status_code == 401


@pytest.mark.parametrize("cookie", ["__Host-adjourn-page=guessed", "adjourn-page=x", "__Host-adjourn-page="])
def test_a_cookie_of_no_session_opens_nothing(browser: Browser, cookie: str) -> None:
    """While somebody else is signed in."""
    browser.sign_in("key-of-ann")
    browser.cookie = cookie
    assert browser.request("GET", "/").status_code == 401


def test_a_session_ends(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """When its person leaves, when its key is no longer taken, and after its time."""
    now = [1_000.0]
    monkeypatch.setattr(team, "monotonic", lambda: now[0])
    browser.sign_in("key-of-ann")
    assert browser.request("POST", "/leave", data={"leave": ""}).status_code == 303
    assert browser.request("GET", "/").status_code == 401
    browser.sign_in("key-of-ann")
    key = browser.known.pop("key-of-ann")
    assert browser.request("GET", "/").status_code == 401
    browser.known["key-of-ann"] = key
    assert browser.request("GET", "/").status_code == 401
    browser.sign_in("key-of-ann")
    now[0] += team.SESSION_SECONDS + 1
    assert browser.request("GET", "/").status_code == 401


def test_sessions_and_people_are_bounded(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest session gives way to a new one, and the page of a person who was away longest is made again."""
    monkeypatch.setattr(team, "MAX_SESSIONS", 2)
    monkeypatch.setattr(team, "MAX_PEOPLE", 1)
    browser.sign_in("key-of-ann")
    first = browser.cookie
    for credential in ("key-of-bob", "key-of-ann", "key-of-bob"):
        browser.sign_in(credential)
        assert browser.request("GET", "/").status_code == 200
    browser.cookie = first
    assert browser.request("GET", "/").status_code == 401


def test_whom_a_proxy_names_needs_no_session(browser: Browser) -> None:
    """A person gets in, a service does not; who has signed in is who the key says, whatever the proxy names."""
    browser.named = PEOPLE["key-of-ci"]
    assert browser.request("GET", "/").status_code == 401
    browser.named = PEOPLE["key-of-bob"]
    assert '<span class="who">bob</span>' in browser.request("GET", "/").text
    browser.sign_in("key-of-ann")
    assert '<span class="who">ann</span>' in browser.request("GET", "/").text


def test_a_store_that_is_away_signs_nobody_out(browser: Browser) -> None:
    """While it cannot be looked up who asks, the page says so and shows nothing; afterwards the session continues."""
    browser.sign_in("key-of-ann")
    browser.is_away = True
    refused = browser.request("GET", "/")
    assert (refused.status_code, refused.text) == (503, "the store is away\n")
    assert browser.request("POST", "/enter", data={"credential": "key-of-ann"}).status_code == 503
    browser.is_away = False
    assert browser.request("GET", "/").status_code == 200


def conflicting(below: MemoryStore, person: Principal) -> str:
    """A record of a person's task, with a conflict; returns its id."""
    space, author = space_of(person), CRAuthor(id=person.name, type="human")
    records, task = RecordTrees(SpaceStore(below, space), clock=Clock()), space.named("job")
    fields = {"task": {"id": task, "goal": f"of {person.name}", "status": "in-progress", "successCriteria": []}}
    begun = records.create(fields, author=author, cr_id=task)
    other = space.named("other")
    slow, soon = ({"task": {**fields["task"], "goal": f"{when}, of {person.name}"}} for when in ("slow", "soon"))
    records.fork(begun["contentHash"], slow, author, cr_id=other)
    records.update(task, soon, author)
    records.merge(task, other, "manual", author=author)
    return task


def test_nobody_reads_or_resolves_the_record_of_another(browser: Browser) -> None:
    """Who guesses its id is answered as for one that is not there, and changes nothing; the person itself resolves it."""
    hers, his = (conflicting(browser.below, PEOPLE[key]) for key in ("key-of-ann", "key-of-bob"))

    def form(name: str) -> dict[str, str]:
        shown = browser.request("GET", "/record", params={"id": name}).text
        return dict(re.findall(r'type="hidden" name="(csrf|id|path)" value="([^"]*)"', shown)) | {"side": "b"}

    def said_of(name: str, fields: dict[str, str]) -> tuple[int, str, str]:
        read = browser.request("GET", "/record", params={"id": name})
        sent = browser.request("POST", "/record/resolve", data={**fields, "id": name})
        assert sent.status_code == 303
        shown = browser.request("GET", "/record", params=httpx.URL(sent.headers["location"]).params)
        return read.status_code, read.text.replace(name, "it"), shown.text.replace(name, "it")

    browser.sign_in("key-of-bob")
    assert "of ann" not in browser.request("GET", "/record").text
    before, own = browser.below.streams(), form(his)
    guessed = said_of(hers, own)
    assert guessed == said_of(hers.replace("job", "jab"), own)
    assert guessed[0] == 404
    assert "of ann" not in "".join(guessed[1:])
    assert browser.below.streams() == before
    browser.sign_in("key-of-ann")
    assert "of ann" in browser.request("GET", "/record").text
    assert browser.request("POST", "/record/resolve", data=form(hers)).status_code == 303
    assert browser.below.streams() != before
