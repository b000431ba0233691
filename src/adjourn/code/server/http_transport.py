"""The server over Streamable HTTP, with the MCP SDK.

Owns: listening on this machine, which client a request belongs to, progress and cancellation of its calls. Must never: answer a call
itself.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from adjourn import __version__
from adjourn.code.model.deadline import Deadline
from adjourn.code.server import codebases
from adjourn.code.server.codebases import RootsNeededError
from adjourn.code.server.server import (
    MAX_CALLS,
    NAME,
    PROGRESS_SECONDS,
    TITLE,
    CodeServer,
)
from adjourn.code.sessions.connection import ClientConnection
from adjourn.errors import RefusedError, UsageError

MAX_CLIENTS = 1_000
_SESSION = "mcp-session-id"
_Context = ServerRequestContext[Any, Any]


def serve_http(server: CodeServer, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve any number of clients until the process is terminated; `ready` gets the URL."""
    anyio.run(HttpTransport(server).serve, host, port, ready)


class HttpTransport:
    """The HTTP side of a server, and its clients by MCP session id."""

    def __init__(self, server: CodeServer) -> None:
        self._server = server
        self._clients: dict[str, ClientConnection] = {}
        self._limiter = anyio.CapacityLimiter(MAX_CALLS)
        self._mcp: Server[Any] = Server(
            NAME,
            version=__version__,
            title=TITLE,
            instructions=server.instructions,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def serve(self, host: str, port: int, ready: Callable[[str], None]) -> None:
        listening = _listen(host, port)
        app = partial(self._handle, self._mcp.streamable_http_app(host=host))
        server = uvicorn.Server(
            uvicorn.Config(app, interface="asgi3", host=host, port=port, log_level="warning")
        )
        async with anyio.create_task_group() as background:
            background.start_soon(_announce, server, host, ready)
            await server.serve(sockets=listening)
            background.cancel_scope.cancel()

    async def _handle(self, app: Any, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request; a DELETE ends the client's MCP session and releases its coding session."""
        await app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "DELETE":
            key = dict(scope["headers"]).get(_SESSION.encode(), b"").decode("latin-1")
            if (client := self._clients.pop(key, None)) is not None:
                await anyio.to_thread.run_sync(self._server.sessions.leave, client)

    async def _list(
        self, context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult.model_validate({"tools": self._server.listed_tools})

    async def _call(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        cancelled = Event()
        reported: list[tuple[int, int]] = []
        deadline = Deadline(
            cancelled=lambda: cancelled.is_set() or self._server.is_ending(),
            progress=lambda done, total: reported.append((done, total)),
        )
        answering = partial(
            self._server.reply,
            self._client(context),
            params.name,
            dict(params.arguments or {}),
            deadline,
            roots=partial(_roots, context, params),
        )
        async with anyio.create_task_group() as watching:
            watching.start_soon(_report_progress, context, reported)
            try:
                text, failed = await anyio.to_thread.run_sync(
                    answering, abandon_on_cancel=True, limiter=self._limiter
                )
            except anyio.get_cancelled_exc_class():
                cancelled.set()
                raise
            except RootsNeededError:
                return types.InputRequiredResult(
                    input_requests={codebases.ROOTS_KEY: types.ListRootsRequest()}
                )
            finally:
                watching.cancel_scope.cancel()
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    def _client(self, context: _Context) -> ClientConnection:
        """The client of a call, by its MCP session id; all calls without one share a client."""
        headers = getattr(context.request, "headers", None)
        key = (headers.get(_SESSION) or "") if headers is not None else ""
        client = self._clients.pop(key, None)
        if client is None:
            client = ClientConnection(_name_of(context))
            if len(self._clients) >= MAX_CLIENTS:
                self._server.sessions.leave(self._clients.pop(next(iter(self._clients))))
        self._clients[key] = client  # the most recent caller is last
        return client


def _roots(context: _Context, params: types.CallToolRequestParams) -> list[str] | None:
    """The client's folders: from what its call answers, or by asking. Raises `RootsNeededError`."""
    can = context.session.client_capabilities
    if can is None or can.roots is None:
        return None
    found: Any = (params.input_responses or {}).get(codebases.ROOTS_KEY)
    if found is None:
        if context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise RootsNeededError
        try:
            found = anyio.from_thread.run(context.session.list_roots)
        except MCPError as error:
            raise RefusedError(
                f"the client did not answer {codebases.ROOTS_METHOD}: {error}",
                "start a server in that folder",
            ) from error
    return codebases.folders_of(found.model_dump(mode="json"))


async def _announce(server: uvicorn.Server, host: str, ready: Callable[[str], None]) -> None:
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
        await anyio.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    ready(f"http://{name}:{port}/mcp")


def _listen(host: str, port: int) -> list[socket.socket]:
    """Listening sockets at every address of a host. Raises `UsageError` if one is in use or not permitted."""
    found: list[socket.socket] = []
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            found.append(
                socket.create_server(address[:2], family=family)
            )  # those before a failure are closed
    except OSError as error:
        for one in found:
            one.close()
        raise UsageError(
            f"cannot listen on {host}, port {port}: {error.strerror}",
            f"choose another port (--http 0 picks a free one), or stop the process that listens there: ss -ltnp 'sport = :{port}'",
        ) from error
    return found


async def _report_progress(context: _Context, reported: list[tuple[int, int]]) -> None:
    """Send the latest progress a few times a second, if the client asked for it."""
    last = 0
    while True:
        await anyio.sleep(PROGRESS_SECONDS)
        if reported and reported[-1][0] > last:
            done, total = reported[-1]
            last = done
            reported[:] = reported[-1:]
            await context.session.report_progress(float(done), float(total) or None)


def _name_of(context: _Context) -> str:
    try:
        params = context.session.client_params
    except AttributeError:
        return ""
    return params.client_info.name if params is not None else ""
