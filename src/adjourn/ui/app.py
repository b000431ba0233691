"""The application: the routes of all pages, their actions, the page's files, and the pages for what went wrong.

Owns: requests and responses. Must never: read the store, which pages do, or let a request pass by the guard.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlencode

import anyio
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from adjourn import __version__
from adjourn.errors import AdjournError, NotFoundError, UsageError
from adjourn.ui.access import Access
from adjourn.ui.guard import RequestGuard
from adjourn.ui.live import LOOK_SECONDS, Live
from adjourn.ui.page import Form, Notice, WebPage, read_form
from adjourn.ui.pages import PAGES
from adjourn.ui.pin_gate import FIELD, PinGate
from adjourn.ui.rendering import renderer
from adjourn.ui.shared_answers import SharedAnswers
from adjourn.ui.site import Site
from adjourn.ui.static_files import static_file

MAX_NOTICES = 100
FOLLOWING = 2
"""Requests of pages that follow the store, answered at a time: who opens a page does not wait for all of these."""
_Handler = Callable[[Request], Awaitable[Response]]


class Application:
    """The `pages` of a site, for whoever the guard lets pass. `person` is the name of who signed in ("": this machine's, whose PIN is asked for)."""

    def __init__(
        self, site: Site, access: Access, pages: Sequence[WebPage] = PAGES, person: str = ""
    ) -> None:
        self._gate = None if person else PinGate(site.find_store)
        self._site = site
        self._pages = pages
        self._person = person
        self._followed = msgspec.structs.replace(site, within=2 * LOOK_SECONDS)
        """For a page that asks because an event said so: it gets another one for what this look did not see."""
        self._following = anyio.CapacityLimiter(FOLLOWING)
        self._access = access
        self._live = Live(site)
        self._shared = SharedAnswers(lambda: self._live.version)
        self._render = renderer()
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
        routes = [Route("/static/{name}", static_file), Route("/live", self._live.follow)]
        for page in self._pages:
            routes.append(Route(page.path, self._shows(page), methods=["GET"]))
            routes += [
                Route(f"{page.path.rstrip('/')}/{name}", self._acts(page, name), methods=["POST"])
                for name in page.actions
            ]
        handlers: Mapping[Any, Any] = {
            HTTPException: self._failed,
            AdjournError: self._failed,
            Exception: self._failed,
        }
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._living)

    @asynccontextmanager
    async def _living(self, app: Starlette) -> AsyncIterator[None]:
        del app
        async with anyio.create_task_group() as group:
            group.start_soon(self._live.watch)
            yield
            group.cancel_scope.cancel()

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
            return await self._shared.of(f"{page.path}?{request.url.query}", followed)

        return show

    def _acts(self, page: WebPage, name: str) -> _Handler:
        action = page.actions[name]

        async def act(request: Request) -> Response:
            form = read_form((await request.body()).decode(errors="replace"))
            if not self._access.is_form_token(form.get("csrf", "")):
                raise HTTPException(403, "this form is not of this page")
            warning = ""
            if self._gate is not None and name not in page.reading:
                question, warning = await anyio.to_thread.run_sync(self._gate.check, request.url.path, form)
                if question is not None:
                    asking = {"title": "Your PIN", "question": question, "notice": None}
                    return await self._page("pin.html", asking, None)
            form = {field: value for field, value in form.items() if field != FIELD}
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
                f"{page.after or page.path}?{urlencode({**notice.fields, 'notice': key})}", 303
            )

        return act

    async def _failed(self, request: Request, error: Exception) -> Response:
        """The page for what went wrong, and what to do about it."""
        del request
        if isinstance(error, AdjournError):
            status = (
                404 if isinstance(error, NotFoundError) else 400 if isinstance(error, UsageError) else 409
            )
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
            "served": {one.path for one in self._pages},
            "page": page,
            "person": self._person,
            "root": self._site.root,
            "now": self._site.clock(),
            "csrf": self._access.form_token,
            "version": __version__,
        }
        drawn = partial(self._render, template, {**common, **values})
        return HTMLResponse(await anyio.to_thread.run_sync(drawn), status)
