"""The pages for people of a team: each signs in with a credential of the gateway, or is named by its proxy, and sees its own tasks only.

A session of a browser keeps the credential that opened it, in memory, and each request is authenticated with it again: a key that was
revoked ends the session. Each person has an application of its own, over a store in which only its own tasks exist.

No page is served to a service, no credential written down, and no application shared.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_urlsafe
from time import monotonic
from typing import Any, NamedTuple

from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adjourn.errors import StoreError, UsageError
from adjourn.handover.drawing import renderer
from adjourn.host.keys import LINK
from adjourn.policy.principal import Principal
from adjourn.ui.app import Application, static_file
from adjourn.ui.guard import ENTRY, Access, body_of, cookie_of, headers_of, onward, refusal_of, with_body, with_headers
from adjourn.ui.pages import OF_A_TEAM
from adjourn.ui.site import Site, read_form

MAX_SESSIONS, SESSION_SECONDS = 1000, 8 * 3600.0
MAX_PEOPLE = 64
"""Applications that are kept; the one that was used longest ago goes first."""
MAX_CREDENTIAL = 8192
LEAVE = "/leave"
LOOK_SECONDS = 2.0
"""How often it is looked whether the person of an open stream is still signed in."""


class _Session(NamedTuple):
    credential: str
    ends: float


class _PersonalPage(NamedTuple):
    """The application of one person, and what keeps its pages up to date."""

    app: ASGIApp
    watching: asyncio.Task[None]


class TeamPage:
    """`find` says who sent a request, or raises `StoreError` where that cannot be looked up now; `site_of` says what this person sees;
    `origin` is the address that browsers have (`https://HOST`).
    """

    def __init__(
        self, find: Callable[[Scope], Awaitable[Principal | None]], site_of: Callable[[Principal], Site], origin: str
    ) -> None:
        self._find = find
        self._site_of = site_of
        self._origin = origin
        self._is_secure = origin.startswith("https://")
        self.cookie = "__Host-adjourn-page" if self._is_secure else "adjourn-page"
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._personal: OrderedDict[Principal, _PersonalPage] = OrderedDict()
        self._files = Router([Route("/static/{name}", static_file, methods=["GET"])])
        self._render = renderer("adjourn.ui", "layout.html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded, headers = with_headers(send), headers_of(scope)
        refusal = refusal_of(scope, headers, self._origin)
        if refusal is not None:
            await PlainTextResponse(refusal.text, refusal.status)(scope, receive, guarded)
            return
        if scope["path"].startswith("/static/") and scope["method"] == "GET":
            await self._files(scope, receive, guarded)
            return
        if scope["path"].startswith(LINK):
            await onward(scope["path"])(scope, receive, guarded)
            return
        body = b""
        if scope["method"] == "POST":
            read = await body_of(receive)
            if read is None:
                await PlainTextResponse("the form is too large\n", 413)(scope, receive, guarded)
                return
            body = read
        try:
            answer = await self._answer(scope, headers, body)
        except StoreError as error:
            answer = PlainTextResponse(f"{error.message}\n", 503)
        await answer(scope, with_body(receive, body), guarded)

    async def _answer(self, scope: Scope, headers: Mapping[str, list[str]], body: bytes) -> ASGIApp:
        session = cookie_of(headers, self.cookie)
        if (scope["method"], scope["path"]) == ("POST", ENTRY):
            return await self._enter(scope, body)
        if (scope["method"], scope["path"]) == ("POST", LEAVE):
            self._sessions.pop(session, None)
            return RedirectResponse("/", 303)
        person = await self._person(scope, session)
        return self._app_of(person, session) if person is not None else self._sign_in("")

    def _app_of(self, person: Principal, session: str) -> ASGIApp:
        """The application of a person. A stream of it ends when the person is signed in no longer."""
        app = self._page_of(person).app

        async def answering(scope: Scope, receive: Receive, send: Send) -> None:
            is_open = False

            async def sending(message: Message) -> None:
                nonlocal is_open
                is_open = message["type"] == "http.response.start" or message.get("more_body", False)
                await send(message)

            async def receiving() -> Message:
                received = asyncio.ensure_future(receive())
                try:
                    while not received.done():
                        await asyncio.wait((received,), timeout=LOOK_SECONDS)
                        if not received.done() and not await self._is_still(person, scope, session):
                            return {"type": "http.disconnect"}
                    return received.result()
                finally:
                    received.cancel()

            await app(scope, receiving, sending)
            if is_open:
                await send({"type": "http.response.body", "body": b""})

        return answering

    async def _is_still(self, person: Principal, scope: Scope, session: str) -> bool:
        """Whether a request is this person's, as far as that can be looked up now."""
        try:
            return await self._person(scope, session) == person
        except StoreError:
            return True

    async def _enter(self, scope: Scope, body: bytes) -> ASGIApp:
        try:
            credential = read_form(body.decode(errors="replace")).get("credential", "").strip()
        except UsageError:
            credential = ""
        usable = credential.isascii() and credential.isprintable() and 0 < len(credential) <= MAX_CREDENTIAL
        person = await self._find(_with(scope, credential)) if usable else None
        if person is None or person.type != "human":
            return self._sign_in("This is not a valid credential of a person.")
        name = token_urlsafe(32)
        self._sessions[name] = _Session(credential, monotonic() + SESSION_SECONDS)
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            self.cookie, name, max_age=int(SESSION_SECONDS), httponly=True, samesite="strict",
            secure=self._is_secure, path="/",
        )  # fmt: skip
        return answer

    async def _person(self, scope: Scope, name: str) -> Principal | None:
        """The person whose request it is: by the session's credential, else by what the request itself has."""
        session = self._sessions.get(name)
        if session is not None and session.ends < monotonic():
            del self._sessions[name]
            session = None
        principal = await self._find(_with(scope, session.credential) if session is not None else scope)
        if principal is None and session is not None:
            self._sessions.pop(name, None)
        return principal if principal is not None and principal.type == "human" else None

    def _page_of(self, person: Principal) -> _PersonalPage:
        page = self._personal.get(person)
        if page is None:
            application = Application(self._site_of(person), Access(), OF_A_TEAM, person.shown)
            watching = asyncio.get_running_loop().create_task(application.watch())
            page = self._personal[person] = _PersonalPage(application.unguarded(), watching)
            while len(self._personal) > MAX_PEOPLE:
                self._personal.popitem(last=False)[1].watching.cancel()
        self._personal.move_to_end(person)
        return page

    def _sign_in(self, problem: str) -> HTMLResponse:
        page = self._render("sign_in.html", {"problem": problem, "entry": ENTRY})
        return HTMLResponse(page, 401, {"www-authenticate": 'Bearer realm="adjourn"'})

    async def close(self) -> None:
        """Watch the store no more."""
        watching = [page.watching for page in self._personal.values()]
        for one in watching:
            one.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


def _with(scope: Scope, credential: str) -> Scope:
    """A request as one that has this credential, whatever it has itself."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
    changed: dict[str, Any] = {**scope, "headers": [*headers, (b"authorization", f"Bearer {credential}".encode())]}
    return changed
