"""The MCP server: tools over stdio or Streamable HTTP.

Owns: the wire: the client of a call, progress, cancellation, errors as replies, the size cap. Must never: delay the initialize answer,
or let a long call block another.
"""

from __future__ import annotations

import socket
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from adjourn import __version__
from adjourn.code.model.deadline import CancelledError, Deadline
from adjourn.code.model.session_state import Strictness, ToolCall, stamp
from adjourn.code.server.codebases import Codebases
from adjourn.code.server.handlers import ToolInvocation
from adjourn.code.server.inputs import schema
from adjourn.code.server.replies import error_of, is_failure, written
from adjourn.code.server.tools import BY_NAME, TOOLS, CodeTool
from adjourn.code.sessions.connection import ClientConnection
from adjourn.code.sessions.sessions import Sessions
from adjourn.code.workflow import payloads, phases
from adjourn.code.workflow.outcome import FlowError
from adjourn.errors import AdjournError, UsageError
from adjourn.text import count_keys

NAME = "code-intel"
INSTRUCTIONS = (
    "Start work on code with start_session, and follow the instruction of each reply. After a restart or a truncated conversation,"
    " call get_session_status first: it resumes the session. The search tools also work without a session."
)
MAX_CLIENTS = 1_000
_SESSION = "mcp-session-id"
_BEAT = 20.0
_TOLD_EVERY = 0.2
_THREADS = 16
_MAX_PARAMS = 300
_Context = ServerRequestContext[Any, Any]


class CodeServer:
    """The server: its sessions, open codebases and clients."""

    def __init__(self, root: str, *, strictness: Strictness = "standard", store: str = "") -> None:
        self.sessions = Sessions(root, strictness=strictness, store=store)
        self.codebases = Codebases()
        self._clients: dict[str, ClientConnection] = {}
        self._ending = Event()
        self._limiter = anyio.CapacityLimiter(_THREADS)
        self.mcp: Server[Any] = Server(
            NAME,
            version=__version__,
            title="adjourn code",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def over_stdio(self) -> None:
        """Serve one client until it closes the pipe."""
        async with stdio_server() as (reading, writing), anyio.create_task_group() as background:
            background.start_soon(self._beat)
            await self.mcp.run(reading, writing, self.mcp.create_initialization_options())
            background.cancel_scope.cancel()

    async def over_http(self, host: str, port: int, ready: Callable[[str], None]) -> None:
        """Serve any number of clients until the process is terminated."""
        import uvicorn  # noqa: PLC0415  # not for stdio

        listening = _listen(host, port)
        app = self.mcp.streamable_http_app(host=host)
        served = partial(self._until_goodbye, app)
        server = uvicorn.Server(
            uvicorn.Config(served, interface="asgi3", host=host, port=port, log_level="warning")
        )
        async with anyio.create_task_group() as background:
            background.start_soon(self._beat)
            background.start_soon(self._announce, server, host, ready)
            await server.serve(sockets=listening)
            background.cancel_scope.cancel()

    def close(self) -> None:
        self._ending.set()
        self.sessions.close()
        self.codebases.close()

    async def _beat(self) -> None:
        while True:
            await anyio.sleep(_BEAT)
            await anyio.to_thread.run_sync(self.sessions.heartbeat)

    async def _until_goodbye(self, app: Any, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request; a DELETE ends the client's MCP session and releases its coding session."""
        await app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "DELETE":
            key = dict(scope["headers"]).get(_SESSION.encode(), b"").decode("latin-1")
            if (client := self._clients.pop(key, None)) is not None:
                await anyio.to_thread.run_sync(self.sessions.leave, client)

    async def _announce(self, server: Any, host: str, ready: Callable[[str], None]) -> None:
        while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
            await anyio.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{port}/mcp")

    # --- handlers

    async def _list(
        self, context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult(tools=[_to_wire(tool) for tool in TOOLS])

    async def _call(self, context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = dict(params.arguments or {})
        tool = BY_NAME.get(params.name)
        if tool is None:
            text, failed = written({"error": f"Unknown tool: {params.name}"})
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)
        cancelled = Event()
        told: list[tuple[int, int]] = []
        deadline = Deadline(
            cancelled=lambda: cancelled.is_set() or self._ending.is_set(),
            progress=lambda done, total: told.append((done, total)),
        )
        answering = partial(self._answer, self._client(context), tool, given, deadline)
        async with anyio.create_task_group() as watching:
            watching.start_soon(_report_progress, context, told)
            try:
                text, failed = await anyio.to_thread.run_sync(
                    answering, abandon_on_cancel=True, limiter=self._limiter
                )
            except anyio.get_cancelled_exc_class():
                cancelled.set()
                raise
            watching.cancel_scope.cancel()
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    def _answer(
        self, client: ClientConnection, tool: CodeTool, given: dict[str, Any], deadline: Deadline
    ) -> tuple[str, bool]:
        """The reply to a call as text, within the size cap, and whether it reports a failure."""
        with client.calling():
            reply = self.answer(client, tool, given, deadline)
        asked = {name: value for name, value in given.items() if name != "cursor"}
        cursor = given.get("cursor") or None
        try:
            return written(reply, (tool.name, asked), None if is_failure(reply) else cursor)
        except AdjournError as error:
            return written(error_of(error))

    def answer(
        self, client: ClientConnection, tool: CodeTool, given: dict[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        """The reply to a call, before the size cap."""
        began, started = time.monotonic(), stamp()
        call_id = ""
        try:
            count_keys(given)
            arguments = payloads.read(tool.input_type, given)
            if tool.gated:
                call_id, refused = self.sessions.admit(client, tool.name, given)
                if refused is not None:
                    return refused
            reply = tool.run(ToolInvocation(self.sessions, self.codebases, client, arguments, deadline))
        except CancelledError:
            reply = {"error": "cancelled", "message": "the call was cancelled"}
        except FlowError as refusal:
            reply = refusal.reply()
        except AdjournError as error:
            reply = error_of(error)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            reply = {
                "error": "internal_error",
                "message": f"{tool.name} failed: {type(error).__name__}: {error}"[:2000],
            }
        active = client.active
        if "error" in reply and tool.name == "submit_phase" and active is not None:
            reply = {**reply, "current_phase": str(active.state.current_phase), **phases.block(active.state)}
        if call_id and active is not None:
            spent = time.monotonic() - began
            made = _tool_call(
                tool, given, reply, started=started, seconds=spent, phase=active.state.current_phase
            )
            self.sessions.settle(active, call_id, made)
        return reply

    def _client(self, context: _Context) -> ClientConnection:
        """The client of a call: over HTTP by its MCP session id; without one, all calls share one client."""
        headers = getattr(context.request, "headers", None)
        key = (headers.get(_SESSION) or "") if headers is not None else ""
        client = self._clients.pop(key, None)
        if client is None:
            client = ClientConnection(_name_of(context))
            if len(self._clients) >= MAX_CLIENTS:
                self.sessions.leave(self._clients.pop(next(iter(self._clients))))
        self._clients[key] = client  # the most recent caller is last
        return client


def run(server: CodeServer, *, http: tuple[str, int] | None, ready: Callable[[str], None]) -> None:
    """Serve until the client disconnects, or the process is terminated."""
    try:
        if http is None:
            anyio.run(server.over_stdio)
        else:
            anyio.run(server.over_http, *http, ready)
    finally:
        server.close()


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


async def _report_progress(context: _Context, told: list[tuple[int, int]]) -> None:
    """Report the latest progress a few times a second, if the client asked for it."""
    last = 0
    while True:
        await anyio.sleep(_TOLD_EVERY)
        if told and told[-1][0] > last:
            done, total = told[-1]
            last = done
            told[:] = told[-1:]
            await context.session.report_progress(float(done), float(total) or None)


def _to_wire(tool: CodeTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema(tool.input_type),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.read_only,
            open_world_hint=False,
        ),
    )


def _name_of(context: _Context) -> str:
    try:
        params = context.session.client_params
    except AttributeError:
        return ""
    return params.client_info.name if params is not None else ""


def _tool_call(
    tool: CodeTool, given: dict[str, Any], reply: dict[str, Any], *, started: str, seconds: float, phase: str
) -> ToolCall:
    """The record of a call in the session."""
    counts = [
        value
        for name in ("total_matches", "total", "total_files", "total_results")
        if isinstance(value := reply.get(name), int)
    ]
    failed = is_failure(reply)
    detail: dict[str, Any] = {"status": "error" if failed else "success"}
    if failed:
        detail["error_type"] = str(reply["error"])
    elif counts:
        detail["hit_count"] = counts[0]
    return ToolCall(
        tool=tool.name,
        params={
            name: msgspec.json.encode(value).decode()[:_MAX_PARAMS]
            for name, value in given.items()
            if tool.read_only
        },
        phase=str(phase),
        started_at=started,
        completed_at=stamp(),
        duration_seconds=round(seconds, 4),
        result_summary=f"{counts[0]} found" if counts else detail["status"],
        result_detail=detail,
    )
