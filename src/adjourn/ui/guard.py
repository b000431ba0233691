"""The gate before every page and file: nothing is answered to a request that is not this person's browser's.

The one exception says nothing of what a page shows: a link from elsewhere (`/to/…`) is answered with the way to the page, where the
cookie counts again.

In this order: the Host is ours (a name that was rebound to this machine is not), the browser does not say that another site sent
the request, the method is known, a change comes from our own page (Origin) and is small, and the session is the one that the link
opened. Each answer forbids the browser to run, load, send or frame anything that is not ours.

Who has the session is known by `Access`, and whether an answer needs the PIN by `PinGate`. What a page shows is not looked at here.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from secrets import token_urlsafe
from threading import Lock
from typing import NamedTuple

from starlette.datastructures import MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adjourn.clients import person
from adjourn.errors import RefusedError, UsageError
from adjourn.host import pin
from adjourn.host.keys import LINK
from adjourn.store.base import Store
from adjourn.ui.site import read_form

MAX_BODY = 1024 * 1024
"""Bytes of a form: `MAX_EDITED` bytes of text, each byte written as three, and what else it has."""
ENTRY = "/enter"
"""The path of the link."""
FORM = "application/x-www-form-urlencoded"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",  # "no-referrer" would have a browser send `Origin: null` with our own forms
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_CLOSED = "Open the link that `adjourn ui` printed in your terminal. It works once: for another browser, start `adjourn ui` again.\n"
_ITEM = re.compile(r"item-[0-9a-f]{16}(?:-approve|-deny)?")
"""What a link from elsewhere may lead to: something that waits, and a button of it."""
_ONWARD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>adjourn</title><link rel="icon" href="/static/icon.svg">
<meta http-equiv="refresh" content="0; url={0}"></head><body><p><a href="{0}">Go to the page</a></p></body></html>
"""
"""A redirect of this answer would still count as begun by another site, and would not send the cookie."""


class RequestRefusal(NamedTuple):
    """Status and text of the answer to a request that is refused."""

    status: int
    text: str


class RequestGuard:
    """Wraps an application that listens on one address and port (`host`)."""

    def __init__(self, app: ASGIApp, access: Access, host: str) -> None:
        self._app = app
        self._access = access
        self._host = host
        self.cookie = f"adjourn-{host.rpartition(':')[2]}"
        """Its name: browsers send cookies of one port to all ports of an address."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a WebSocket is closed by the server
        guarded = with_headers(send)
        headers = headers_of(scope)
        refusal = refusal_of(scope, headers, f"http://{self._host}")
        if refusal is not None:
            await PlainTextResponse(refusal.text, refusal.status)(scope, receive, guarded)
        elif scope["path"].startswith(LINK):
            await onward(scope["path"])(scope, receive, guarded)
        elif scope["path"] == ENTRY:
            await self._enter(scope)(scope, receive, guarded)
        elif not self._access.admits(cookie_of(headers, self.cookie)):
            await PlainTextResponse(_CLOSED, 403)(scope, receive, guarded)
        else:
            await self._admit(scope, receive, guarded)

    def _enter(self, scope: Scope) -> Response:
        """Take the link's token. A HEAD, which previews of links send, does not use it up."""
        session = ""
        if scope["method"] == "GET":
            with suppress(UsageError):
                session = self._access.redeem(read_form(scope["query_string"].decode("latin-1")).get("token", ""))
        if not session:
            return PlainTextResponse(_CLOSED, 403)
        opened = HTMLResponse(_ONWARD.format("/"))
        opened.set_cookie(self.cookie, session, httponly=True, samesite="strict", path="/")
        return opened

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await body_of(receive)
        if body is None:
            await PlainTextResponse("the form is too large\n", 413)(scope, receive, send)
            return
        await self._app(scope, with_body(receive, body), send)


def refusal_of(scope: Scope, headers: Mapping[str, list[str]], origin: str) -> RequestRefusal | None:
    """Why a request is refused before its sender is known; `origin` is the address of the page."""
    host = origin.partition("://")[2]
    if headers.get("host") != [host]:
        return RequestRefusal(421, "this address is not served here\n")
    sites = headers.get("sec-fetch-site", [])
    is_link = scope["path"] == ENTRY or scope["path"].startswith(LINK)
    if not is_link and not set(sites) <= {"same-origin", "none"}:
        return RequestRefusal(403, "another site sent this request\n")
    if scope["method"] == "POST":
        return _refused_change(origin, headers)
    if scope["method"] not in ("GET", "HEAD"):
        return RequestRefusal(405, "only GET and POST are served\n")
    return None


def cookie_of(headers: Mapping[str, list[str]], name: str) -> str:
    """The value of a cookie; "" without it."""
    try:
        cookie = SimpleCookie("; ".join(headers.get("cookie", []))).get(name)
    except CookieError:
        return ""
    return cookie.value if cookie is not None else ""


def with_body(receive: Receive, body: bytes) -> Receive:
    """The `receive` of an application for a request with its body read already."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def onward(path: str) -> Response:
    """The answer to a link from elsewhere: the way to what waits, by its path (`/to/ITEM`)."""
    item = path.removeprefix(LINK)
    if _ITEM.fullmatch(item) is None:
        return PlainTextResponse("this link leads to nothing\n", 404)
    return HTMLResponse(_ONWARD.format(f"/#{item}"))


async def body_of(receive: Receive) -> bytes | None:
    """The body of a request; None for one that is too large, or that was given up."""
    body = b""
    while len(body) <= MAX_BODY:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return body if len(body) <= MAX_BODY else None
    return None


def _refused_change(origin: str, headers: Mapping[str, list[str]]) -> RequestRefusal | None:
    if headers.get("origin") != [origin]:
        return RequestRefusal(403, "another site sent this form\n")
    if [text.partition(";")[0].strip().lower() for text in headers.get("content-type", [])] != [FORM]:
        return RequestRefusal(415, "only form submissions are accepted\n")
    lengths = headers.get("content-length", [])
    if any(not text.isdecimal() or int(text[:12]) > MAX_BODY for text in lengths):
        return RequestRefusal(413, "the form is too large\n")
    return None


def headers_of(scope: Scope) -> dict[str, list[str]]:
    """The values of each header; the server gives their names in lower case."""
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return headers


def with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
        await send(message)

    return sending


# --- who may use the page

_BYTES = 32


class Access:
    """The secrets of one server. They end with its process."""

    def __init__(self) -> None:
        self.link_token = token_urlsafe(_BYTES)
        self.form_token = token_urlsafe(_BYTES)
        self._session = ""

    @property
    def is_open(self) -> bool:
        """Whether a browser has used the link."""
        return bool(self._session)

    def redeem(self, token: str) -> str:
        """The session that the link's token opens, once; "" for any other token, and from the second time on."""
        if self._session or not _same(token, self.link_token):
            return ""
        self._session = token_urlsafe(_BYTES)
        return self._session

    def admits(self, session: str) -> bool:
        """Whether a browser shows the session that was opened."""
        return bool(self._session) and _same(session, self._session)

    def is_form_token(self, token: str) -> bool:
        """Whether a form is one of ours."""
        return _same(token, self.form_token)


def _same(first: str, other: str) -> bool:
    return hmac.compare_digest(first.encode(errors="replace"), other.encode())


# --- the PIN on the page

PIN_FIELD = "pin"
"""The name of the field in a form. No action gets it."""
_WORDS = {"not-done": "it did not", "done": "it happened"}


class PinQuestion(NamedTuple):
    """What a person is shown who has to give the PIN: where the form goes, its fields, and what was wrong."""

    path: str
    fields: Mapping[str, str]
    what: str
    problem: str


class PinGate:
    """The gate of one session of a browser: an application has one session."""

    def __init__(self, find_store: Callable[[], Store | None]) -> None:
        self._find_store = find_store
        self._memory = pin.PinMemory()
        self._trying = Lock()

    def check(self, path: str, form: Mapping[str, str]) -> tuple[PinQuestion | None, str]:
        """The question that comes before a form's action, if one does, and what to tell the person who answered it.

        Raises `RefusedError` where a PIN was set and is gone.
        """
        store = self._find_store()
        state = person.needed_pin(store)
        if state is None or self._memory.covers(state):
            return None, ""
        try:
            with self._trying:  # each try takes much memory
                if not form.get(PIN_FIELD):
                    person.account_pin().check_wait()
                    return _question(path, form, ""), ""
                before = person.give_pin(
                    form[PIN_FIELD], self._memory, store, action=path, task=form.get("task", ""), via="page"
                )
        except RefusedError as error:
            return _question(path, form, f"{error.message}; {error.remedy}"), ""
        return None, person.warning_of(before)


def _question(path: str, form: Mapping[str, str], problem: str) -> PinQuestion:
    fields = {name: value for name, value in form.items() if name != PIN_FIELD}
    what = form.get("action", "")
    return PinQuestion(path, fields, _WORDS.get(what, what), problem[:1].upper() + problem[1:])
