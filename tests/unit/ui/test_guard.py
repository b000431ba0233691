"""Who gets an answer of the page: one browser, from our own pages, by our own names; nobody else gets a byte of content."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from importlib.resources import files
from typing import Any

import pytest

from adjourn.ui.guard import MAX_BODY
from support.page_in_memory import HOST, ORIGIN, PORT, PageInMemory
from support.task_sessions import SharedTask

PATHS = ("/", "/static/adjourn.css", "/static/adjourn.js", "/static/htmx.min.js", "/live", "/nothing")
HTMX = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"
"""SHA-256 of dist/htmx.min.js in htmx.org 4.0.1."""
SECRET_WORDS = ("waits", "color-scheme", "EventSource", "htmx", "csrf")


@pytest.fixture
def page() -> PageInMemory:
    return PageInMemory(SharedTask().store)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("cookie", [None, f"adjourn-{PORT}=", f"adjourn-{PORT}=guessed", "adjourn-1=x; ="])
def test_without_the_cookie_nothing_is_served(page: PageInMemory, path: str, cookie: str | None) -> None:
    """No page and no file is served to a browser that did not open the link, whether another one did or not."""
    before = page.request("GET", path, headers={"Cookie": cookie})
    page.enter()
    after = page.request("GET", path, headers={"Cookie": cookie})
    for answered in (before, after):
        assert answered.status_code == 403
        assert not any(word in answered.text for word in SECRET_WORDS)


def test_the_link_opens_the_page_once(page: PageInMemory) -> None:
    """A second use of the token is refused, and the first browser keeps its session."""
    page.enter()
    again = page.request("GET", f"/enter?token={page.access.link_token}", headers={"Cookie": None})
    assert again.status_code == 403
    assert "set-cookie" not in again.headers
    assert "Inbox" in page.get()


@pytest.mark.parametrize("query", ["", "?token=", "?token=guess", "?token=%FF%00", "?" + "a=1&" * 20])
def test_another_token_opens_nothing(page: PageInMemory, query: str) -> None:
    """A wrong token is refused, and does not use the link up."""
    answered = page.request("GET", f"/enter{query}")
    assert answered.status_code == 403
    assert not page.access.is_open
    page.enter()


def test_a_preview_of_the_link_does_not_use_it_up(page: PageInMemory) -> None:
    """A HEAD of the link opens no session."""
    answered = page.request("HEAD", f"/enter?token={page.access.link_token}")
    assert answered.status_code == 403
    page.enter()


def test_the_cookie_is_for_no_script_and_no_other_site(page: PageInMemory) -> None:
    """The cookie is HttpOnly and SameSite=Strict, and its name has the port, since cookies of a host go to all its ports."""
    opened = page.request("GET", f"/enter?token={page.access.link_token}")
    cookie = opened.headers["set-cookie"]
    assert cookie.startswith(f"adjourn-{PORT}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Domain" not in cookie


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"localhost:{PORT}",
        f"evil.example:{PORT}",
        "127.7.1.9",
        "127.7.1.9:1",
        f"127.7.1.9.evil.example:{PORT}",
        "",
    ],
)
def test_a_name_that_was_rebound_to_this_machine_gets_nothing(page: PageInMemory, host: str) -> None:
    """A request whose Host is not ours is refused, with the cookie and with the link."""
    page.enter()
    assert page.request("GET", "/", headers={"Host": host}).status_code == 421
    fresh = PageInMemory(SharedTask().store)
    entered = fresh.request("GET", f"/enter?token={fresh.access.link_token}", headers={"Host": host})
    assert entered.status_code == 421
    assert not fresh.access.is_open


ITEM = "item-0123456789abcdef"


@pytest.mark.parametrize("item", [ITEM, f"{ITEM}-approve", f"{ITEM}-deny"])
def test_a_link_from_elsewhere_leads_to_the_page(page: PageInMemory, item: str) -> None:
    """Another site's link is answered with the way to the page and no more; it answers nothing by itself."""
    answered = page.request("GET", f"/to/{item}", headers={"Cookie": None, "Sec-Fetch-Site": "cross-site"})
    assert answered.status_code == 200
    assert f'content="0; url=/#{item}"' in answered.text
    assert "set-cookie" not in answered.headers
    assert not any(word in answered.text for word in SECRET_WORDS)
    assert page.request("POST", f"/to/{item}", headers={"Sec-Fetch-Site": "cross-site"}).status_code in (403, 415)


@pytest.mark.parametrize("item", ["", "item-1", f"{ITEM}-always", f"{ITEM}/../..", f'{ITEM}"><b>', "//evil.example"])
def test_a_link_leads_to_what_waits_only(page: PageInMemory, item: str) -> None:
    """Any other name is refused."""
    answered = page.request("GET", f"/to/{item}", headers={"Cookie": None})
    assert answered.status_code in (403, 404)
    assert "refresh" not in answered.text


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_that_another_site_sends_is_refused(page: PageInMemory, site: str) -> None:
    """A browser says which site a request is from; another port of this host is another site, too."""
    page.enter()
    for path in PATHS:
        assert page.request("GET", path, headers={"Sec-Fetch-Site": site}).status_code == 403
    assert page.request("POST", "/answer", headers={"Sec-Fetch-Site": site}, data={}).status_code == 403


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", f"https://{HOST}", f"{ORIGIN}.evil.example", "http://127.7.1.9:1"]
)
def test_a_form_of_another_origin_is_refused(page: PageInMemory, origin: str | None) -> None:
    """A POST without our own Origin is refused, although it has the cookie and the token of our forms."""
    page.enter()
    fields = {"csrf": page.access.form_token, "kind": "approval"}
    sent = page.request("POST", "/answer", headers={"Origin": origin}, data=fields)
    assert sent.status_code == 403
    assert "another site" in sent.text


@pytest.mark.parametrize("token", [None, "", "guess", "é"])
def test_a_form_without_its_token_is_refused(page: PageInMemory, token: str | None) -> None:
    """A form without our token is refused, although browser and origin are right."""
    page.enter()
    fields = {"kind": "approval"} | ({} if token is None else {"csrf": token})
    assert page.request("POST", "/answer", data=fields).status_code == 403


@pytest.mark.parametrize("kind", [None, "application/json", "text/plain", "multipart/form-data; boundary=x"])
def test_only_forms_are_taken(page: PageInMemory, kind: str | None) -> None:
    """A body of another type than a form's is refused."""
    page.enter()
    sent = page.request("POST", "/answer", headers={"Content-Type": kind}, content=b"csrf=x")
    assert sent.status_code == 415


def test_a_large_body_is_refused(page: PageInMemory) -> None:
    """A form over the limit is refused, whether it says its length, lies about it, or says none."""
    page.enter()
    body = b"csrf=" + b"x" * MAX_BODY

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 4096):
            yield body[start : start + 4096]

    form: dict[str, Any] = {"Content-Type": "application/x-www-form-urlencoded"}
    assert page.request("POST", "/answer", headers=form, content=body).status_code == 413
    assert page.request("POST", "/answer", headers=form, content=chunks()).status_code == 413
    lying = form | {"Content-Length": "5"}
    assert page.request("POST", "/answer", headers=lying, content=chunks()).status_code == 413
    many = b"&".join(b"a%d=1" % number for number in range(100))
    assert page.request("POST", "/answer", headers=form, content=many).status_code == 400


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_refused(page: PageInMemory, method: str) -> None:
    """Only GET, HEAD and POST are served."""
    page.enter()
    assert page.request(method, "/").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/%2e%2e/pyproject.toml", "/static//etc/passwd", "/static/htmx.LICENSE",
        "/static/adjourn.css%00", "/static/", "/../../etc/passwd", "/.aex/adjourn.db", "/%2e%2e/templates/inbox.html",
    ],
)  # fmt: skip
def test_no_path_leads_to_another_file(page: PageInMemory, path: str) -> None:
    """The names of the page's own files are all that is served."""
    page.enter()
    answered = page.request("GET", path)
    assert answered.status_code == 404
    assert "There is no such page" in answered.text


def test_every_answer_forbids_what_is_not_ours(page: PageInMemory) -> None:
    """Pages, files, refusals and errors carry the same policy: no inline script or style, no other origin, no frame, no cache."""
    shut = page.request("GET", "/")
    page.enter()
    answers = [shut, *(page.request("GET", path) for path in ("/", "/static/adjourn.js", "/nothing"))]
    answers.append(page.request("POST", "/answer", data={}))
    for answered in answers:
        policy = answered.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answered.headers["cache-control"] == "no-store"
        assert answered.headers["x-content-type-options"] == "nosniff"


def test_the_pages_have_no_inline_script_or_style(page: PageInMemory) -> None:
    """What the policy forbids is not there: each script and style of a page is a file of ours."""
    shown = page.enter().get()
    assert "<style" not in shown
    assert " style=" not in shown
    assert "<script>" not in shown
    assert "//" not in shown.replace("<!doctype", "")


def test_htmx_is_the_published_one() -> None:
    """The vendored file is that of htmx.org 4.0.1 on npm, byte for byte, with its licence beside it."""
    folder = files("adjourn.ui").joinpath("static")
    content = folder.joinpath("htmx.min.js").read_bytes()
    assert sha256(content).hexdigest() == HTMX
    assert "Zero-Clause BSD" in folder.joinpath("htmx.LICENSE").read_text()
