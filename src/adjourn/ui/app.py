"""The application: the routes of all pages, their actions, the page's files, and the pages for what went wrong.

Pages read the store, not this module. No request passes by the guard.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.resources import files
from secrets import token_urlsafe
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import anyio
import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from adjourn import __version__
from adjourn.errors import AdjournError, NotFoundError, UsageError
from adjourn.handover.drawing import STYLES, renderer
from adjourn.store.base import Head
from adjourn.ui.guard import PIN_FIELD, Access, PinGate, RequestGuard
from adjourn.ui.pages import PAGES
from adjourn.ui.pages.inbox import count_waiting
from adjourn.ui.site import Form, Notice, Site, WebPage, read_form

LOOK_SECONDS = 0.2
"""How often the store is looked at while a page is open."""
REST = 4
"""How many times as long as a look computed there is none."""
READ_PAUSE = 0.01
"""Seconds between two looks while tasks are left to be read: requests go first."""
REFRESH_SECONDS = 15.0
"""How often a page is told to refresh without a change: questions expire, sessions die."""
MAX_PAGES = 64


class _Seen(NamedTuple):
    """What the last event was about: where the streams end, how many tasks were left to be read, and the last change of kept answers."""

    heads: Mapping[str, Head]
    left: int
    answers: int = 0


class Live:
    """The events of one server."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.version = 0
        """The number of the last event."""
        self.renewed = 0
        """How often pages were told to refresh whether or not something changed."""
        self._seen: _Seen = _Seen({}, 1)
        self._changed = anyio.Event()
        self._open = 0

    async def watch(self) -> None:
        """Look at the store until this is cancelled; at rest while no page is open, once all tasks are read."""
        refreshed = renewed = anyio.current_time()
        pause = 0.0
        while True:
            await anyio.sleep(pause)
            if not self._open and not self._seen.left:
                pause = LOOK_SECONDS
                continue
            seen, took = await anyio.to_thread.run_sync(self._timed_look, abandon_on_cancel=True)
            pause = READ_PAUSE if seen.left else max(LOOK_SECONDS, REST * took)
            ended = anyio.current_time()
            if seen != self._seen or ended - refreshed >= REFRESH_SECONDS:
                if ended - renewed >= REFRESH_SECONDS:
                    renewed = ended
                    self.renewed += 1
                refreshed = ended
                self._seen = seen
                self.announce()

    async def watch_others(self) -> None:
        """Look at the person's other workspaces until this is cancelled, while a page is open: apart, so that none delays this one."""
        seen: Sequence[_Seen] = ()
        pause = LOOK_SECONDS
        while True:
            await anyio.sleep(pause)
            if not self._open:
                pause = LOOK_SECONDS
                continue
            last, took = await anyio.to_thread.run_sync(self._timed_look_at_others, abandon_on_cancel=True)
            pause = READ_PAUSE if any(each.left for each in last) else max(LOOK_SECONDS, REST * took)
            if last != seen:
                seen = last
                self.announce()

    def _timed_look_at_others(self) -> tuple[Sequence[_Seen], float]:
        began = time.thread_time()
        return [_look_elsewhere(other) for other in self._site.others()], time.thread_time() - began

    def announce(self) -> None:
        """Send every open page an event."""
        self.version += 1
        self._changed.set()
        self._changed = anyio.Event()

    def _timed_look(self) -> tuple[_Seen, float]:
        """A look, and the seconds that it computed."""
        began = time.thread_time()
        return _look(self._site), time.thread_time() - began

    async def follow(self, request: Request) -> EventSourceResponse:
        """The events of one open page."""
        del request
        return EventSourceResponse(self.events(), ping=30)

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        """One at once, and one for each change, or for several."""
        if self._open >= MAX_PAGES:
            return
        self._open += 1
        try:
            while True:
                sent = self.version
                yield ServerSentEvent(data=str(sent), event="changed")
                if self.version == sent:  # else it changed while the event was on its way
                    await self._changed.wait()
        finally:
            self._open -= 1


def _look(site: Site) -> _Seen:
    with suppress(AdjournError):  # the page says what is wrong with the store
        store = site.find_store()
        if store is not None:
            left = site.overview.look(store).left
            return _Seen(site.overview.heads, left, site.held.version)
    return _Seen({}, 0)


def _look_elsewhere(site: Site) -> _Seen:
    """A look at another workspace, with how much waits there: the inbox of this one says so."""
    seen = _look(site)
    with suppress(AdjournError):
        store = site.find_store()
        if store is not None:
            count_waiting(site, store, within=2 * LOOK_SECONDS)
    return seen


# --- answers that several open pages get alike

MAX_SHARED = 64
"""Answers that are kept; the ones asked for longest ago go first."""


class _SharedAnswer:
    """The answer for one address, for as long as what it shows is in this `state`."""

    def __init__(self, state: object) -> None:
        self.state = state
        self.lock = anyio.Lock()
        self.response: Response | None = None


class SharedAnswers:
    """The last answers, by address."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, _SharedAnswer] = OrderedDict()

    async def of(self, address: str, state: object, make: Callable[[], Awaitable[Response]]) -> Response:
        """The answer for an address, made since what it shows is in this `state`."""
        shared = self._answers.get(address)
        if shared is None or shared.state != state:
            shared = self._answers[address] = _SharedAnswer(state)
        self._answers.move_to_end(address)
        if len(self._answers) > MAX_SHARED:
            self._answers.popitem(last=False)
        async with shared.lock:
            if shared.response is None:
                shared.response = await make()
            return shared.response


# --- what keeps open pages up to date: events when the store has changed, and answers that several pages get alike

MAX_NOTICES = 100
FOLLOWING = 2
"""Requests of pages that follow the store, answered at a time: who opens a page does not wait for all of these."""
_Handler = Callable[[Request], Awaitable[Response]]


class Application:
    """The `pages` of a site, for whoever the guard lets pass. `person` is the name of the signed-in person; "" on this machine, where the PIN is asked for."""

    def __init__(
        self, site: Site, access: Access, pages: Sequence[WebPage] = PAGES, person: str = "", live: Live | None = None
    ) -> None:
        self._gate = None if person else PinGate(site.find_store)
        self._site = site
        self._pages = pages
        self._person = person
        self._followed = msgspec.structs.replace(site, within=2 * LOOK_SECONDS)
        """For a page that asks because an event said so: it gets another one for what this look did not see."""
        self._following = anyio.CapacityLimiter(FOLLOWING)
        self._access = access
        self._live = live or Live(site)
        self._shared = SharedAnswers()
        self._render = renderer("adjourn.ui", "layout.html")
        self._elsewhere: dict[str, ASGIApp] = {}
        self._notices: OrderedDict[str, Notice] = OrderedDict()
        """What actions came to, by the name that the address of the next page has."""

    def guarded(self, host: str) -> RequestGuard:
        """The ASGI application that listens on an address and port (`127.7.1.9:8900`)."""
        return RequestGuard(self.unguarded(), self._access, host)

    async def watch(self) -> None:
        """Keep open pages up to date until this is cancelled, where no lifespan does."""
        await self._live.watch()

    def unguarded(self) -> Starlette:
        """The application behind a guard."""
        routes: list[BaseRoute] = [Route("/static/{name}", static_file), Route("/live", self._live.follow)]
        for page in self._pages:
            routes.append(Route(page.path, self._shows(page), methods=["GET"]))
            routes += [
                Route(f"{page.path.rstrip('/')}/{name}", self._acts(page, name), methods=["POST"])
                for name in page.actions
            ]
        handlers: Mapping[Any, Any] = {HTTPException: self._failed, AdjournError: self._failed, Exception: self._failed}
        routes.append(Mount("/at", app=self._at_other))
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._living)

    @asynccontextmanager
    async def _living(self, app: Starlette) -> AsyncIterator[None]:
        del app
        async with anyio.create_task_group() as group:
            group.start_soon(self._live.watch)
            group.start_soon(self._live.watch_others)
            yield
            group.cancel_scope.cancel()

    async def _at_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with another workspace's page: an application of its own, with its policy, its answers and its question for the PIN."""
        others = await anyio.to_thread.run_sync(self._site.others)
        for other in others:
            if other.base and scope["path"].startswith(f"{other.base}/"):
                app = self._elsewhere.get(other.root)
                if app is None:
                    made = Application(other, self._access, self._pages, self._person, self._live)
                    app = self._elsewhere[other.root] = made.unguarded()
                path = scope["path"].removeprefix(other.base)
                await app({**scope, "path": path, "raw_path": path.encode(), "root_path": ""}, receive, send)
                return
        raise HTTPException(404)

    def _shows(self, page: WebPage) -> _Handler:
        async def draw(fields: Form, site: Site, limiter: anyio.CapacityLimiter | None) -> Response:
            values = await anyio.to_thread.run_sync(page.query, site, fields, limiter=limiter)
            notice = self._notices.get(fields.get("notice", ""))
            return await self._page(page.template, {**values, "title": page.title, "notice": notice}, page)

        async def show(request: Request) -> Response:
            fields = read_form(request.url.query)
            # who has just answered sees what it came to, whatever others have looked at
            if "HX-Request" not in request.headers or "notice" in fields:
                return await draw(fields, self._site, None)
            followed = partial(draw, fields, self._followed, self._following)
            return await self._shared.of(f"{page.path}?{request.url.query}", self._state(page, fields), followed)

        return show

    def _state(self, page: WebPage, fields: Form) -> object:
        """What is the same for as long as a page need not be drawn again: the number of the last event, or of the last one about its task."""
        if not page.is_of_task:
            return self._live.version
        heads = self._site.overview.heads
        records = [head for name, head in heads.items() if "/" in name]
        return self._live.renewed, heads.get(fields.get("id", "")), records

    def _acts(self, page: WebPage, name: str) -> _Handler:
        action = page.actions[name]

        async def act(request: Request) -> Response:
            form = read_form((await request.body()).decode(errors="replace"))
            if not self._access.is_form_token(form.get("csrf", "")):
                raise HTTPException(403, "this form is not of this page")
            warning = ""
            if self._gate is not None and name not in page.reading:
                question, warning = await anyio.to_thread.run_sync(
                    self._gate.check, f"{self._site.base}{request.url.path}", form
                )
                if question is not None:
                    asking = {"title": "Your PIN", "question": question, "notice": None}
                    return await self._page("pin.html", asking, None)
            form = {field: value for field, value in form.items() if field != PIN_FIELD}
            notice = await anyio.to_thread.run_sync(action, self._site, form)
            if warning:
                notice = notice._replace(text=f"{notice.text} {warning}.", tone="bad")
            if notice.shown is not None:
                values = {**notice.shown, "title": page.title, "notice": notice if notice.text else None}
                return await self._page(page.template, values, page)
            key = token_urlsafe(8)
            self._notices[key] = notice
            if len(self._notices) > MAX_NOTICES:
                self._notices.popitem(last=False)
            return RedirectResponse(
                f"{self._site.base}{page.after or page.path}?{urlencode({**notice.fields, 'notice': key})}", 303
            )

        return act

    async def _failed(self, request: Request, error: Exception) -> Response:
        """The page for what went wrong, and what to do about it."""
        del request
        if isinstance(error, AdjournError):
            status = 404 if isinstance(error, NotFoundError) else 400 if isinstance(error, UsageError) else 409
            what, remedy = self._site.words(error.message), self._site.words(error.remedy)
        elif isinstance(error, HTTPException):
            status = error.status_code
            what = "there is no such page" if status == 404 else error.detail
            remedy = "go back to the inbox"
        else:
            status, what = 500, "the page failed"
            remedy = "reload it; if it fails again, report what the terminal of `adjourn ui` shows"
        values = {"title": "Something went wrong", "what": what, "remedy": remedy, "notice": None}
        return await self._page("problem.html", values, None, status)

    async def _page(
        self, template: str, values: Mapping[str, Any], page: WebPage | None, status: int = 200
    ) -> Response:
        common = {
            "pages": self._pages,
            "served": {web_page.path for web_page in self._pages},
            "page": page,
            "person": self._person,
            "root": self._site.root,
            "base": self._site.base,
            "now": self._site.clock(),
            "csrf": self._access.form_token,
            "version": __version__,
        }
        drawn = partial(self._render, template, {**common, **values})
        return HTMLResponse(await anyio.to_thread.run_sync(drawn), status)


# --- the page's own files

_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_CONTENT: Final = {
    file.name: file.read_bytes()
    for file in files("adjourn.ui").joinpath("static").iterdir()
    if os.path.splitext(file.name)[1] in _TYPES
} | {name: text.encode() for name, text in STYLES.items()}


async def static_file(request: Request) -> Response:
    """One of the files, or 404."""
    name = request.path_params["name"]
    if name not in _CONTENT:
        raise HTTPException(404)
    return Response(_CONTENT[name], media_type=_TYPES[os.path.splitext(name)[1]])
