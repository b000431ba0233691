"""A server with the tasks extension of 2026-07-28, made with the SDK: `python task_server.py PORT FOLDER [NAME]` (PORT 0: stdio).

The official conformance suite names its tools. Tasks are in memory; the id of each is in the folder's file `tasks-NAME`. Each
subscription adds a line to `listens-NAME` when it begins (+) and when it ends (-): its number, and to how many tasks it is.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding, ToolBinding
from mcp.server.mcpserver import MCPServer, require_client_extension
from mcp.types import CallToolRequestParams, RequestParams
from pydantic import BaseModel, Field

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
NAME = sys.argv[3] if len(sys.argv) > 3 else "up"
EXTENSION = "io.modelcontextprotocol/tasks"
REVISIONS = frozenset(("2026-07-28",))
Context = ServerRequestContext[Any, Any]


class About(RequestParams):
    task_id: str


class Update(About):
    input_responses: dict[str, Any]


class Task:
    """A call that is being made. `wanted` are the questions without an answer."""

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        self.id, self.created = str(uuid4()), now()
        self.told: dict[str, Any] = {"status": "working"}
        self.wanted: dict[str, Any] = {}
        self._answered = asyncio.Event()
        self._work = asyncio.create_task(self._run(tool, arguments))
        with (FOLDER / f"tasks-{NAME}").open("a", encoding="utf-8") as file:
            file.write(f"{self.id}\n")

    async def _run(self, tool: str, arguments: dict[str, Any]) -> None:
        try:
            if tool == "slow_compute":
                await asyncio.sleep(arguments["seconds"])
            elif tool in QUESTIONS:
                self.wanted = {name: question(name) for name in QUESTIONS[tool]}
                self._tell()
                await self._answered.wait()
            elif tool == "protocol_error_job":
                self.told = {"status": "failed", "error": {"code": -32603, "message": "it broke"}}
                return
            result = {"content": [{"type": "text", "text": f"{tool} of {NAME}"}], "isError": tool == "failing_job"}
            self.told = {"status": "completed", "result": result}
        except asyncio.CancelledError:
            self.told = {"status": "cancelled"}
        finally:
            self._tell()

    def _tell(self) -> None:
        for listener in listeners:
            listener.put_nowait(self)

    def answer(self, responses: dict[str, Any]) -> None:
        self.wanted = {name: asked for name, asked in self.wanted.items() if name not in responses}
        if not self.wanted:
            self._answered.set()

    def cancel(self) -> None:
        self._work.cancel()

    def state(self, *, is_whole: bool = True) -> dict[str, Any]:
        told = {"status": "input_required", "inputRequests": self.wanted} if self.wanted else self.told
        about = {"taskId": self.id, "createdAt": self.created, "lastUpdatedAt": now(), "ttlMs": 60_000}
        return about | (told if is_whole else {"status": "working"})


QUESTIONS = {"confirm_delete": ("sure",), "multi_input": ("first", "second")}
MAKES_TASKS = ("slow_compute", "failing_job", "protocol_error_job", *QUESTIONS)


def question(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"confirm": {"type": "boolean"}}}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": f"{name} {NAME}?", "requestedSchema": schema},
    }


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


async def greet(name: str) -> str:
    """Makes no task."""
    return f"Hello, {name}!"


async def slow_compute(seconds: float, label: str = "") -> str:
    """Takes so many seconds."""
    return f"slow_compute of {NAME}{label[:0]}"


async def failing_job() -> str:
    """Fails, and only as a task."""
    raise ValueError


async def protocol_error_job() -> str:
    """Fails with an error of the protocol."""
    raise ValueError


async def confirm_delete(filename: str = "") -> str:
    """Asks before it ends."""
    return filename


async def multi_input() -> str:
    """Asks two questions at once."""
    return ""


listeners: list[asyncio.Queue[Task]] = []


class Filter(BaseModel):
    task_ids: list[str] = Field([], alias="taskIds")


class Listen(RequestParams):
    notifications: Filter


class Told(BaseModel):
    """A notification about tasks, which the SDK does not have."""

    method: str
    params: dict[str, Any]


class Tasks(Extension):
    identifier = EXTENSION

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._count = 0

    def tools(self) -> list[ToolBinding]:
        made = (greet, slow_compute, failing_job, protocol_error_job, confirm_delete, multi_input)
        return [ToolBinding(tool) for tool in made]

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", About, self._get, REVISIONS),
            MethodBinding("tasks/update", Update, self._update, REVISIONS),
            MethodBinding("tasks/cancel", About, self._cancel, REVISIONS),
        ]

    async def intercept_tool_call(self, params: CallToolRequestParams, ctx: Context, call_next: Any) -> Any:
        if params.name not in MAKES_TASKS:
            return await call_next(ctx)
        try:
            require_client_extension(ctx, EXTENSION)
        except MCPError:
            if params.name == "failing_job":
                raise
            return await call_next(ctx)
        task = Task(params.name, params.arguments or {})
        self._tasks[task.id] = task
        return {"resultType": "task"} | task.state(is_whole=False)

    def _of(self, ctx: Context, params: About) -> Task:
        require_client_extension(ctx, EXTENSION)
        if params.task_id not in self._tasks:
            raise MCPError(-32602, "Task not found")
        return self._tasks[params.task_id]

    async def _get(self, ctx: Context, params: About) -> Any:
        return {"resultType": "complete"} | self._of(ctx, params).state()

    async def _update(self, ctx: Context, params: Update) -> Any:
        self._of(ctx, params).answer(params.input_responses)
        return {"resultType": "complete"}

    async def _cancel(self, ctx: Context, params: About) -> Any:
        self._of(ctx, params).cancel()
        return {"resultType": "complete"}

    async def listen(self, ctx: Context, params: Listen) -> Any:
        """Tell of each change of tasks, until the client leaves."""
        self._count += 1
        about = f"{self._count} {len(params.notifications.task_ids)}"
        note(f"+ {about}")
        changed: asyncio.Queue[Task] = asyncio.Queue()
        listeners.append(changed)
        try:
            if params.notifications.task_ids:
                require_client_extension(ctx, EXTENSION)
            known = [one for one in params.notifications.task_ids if one in self._tasks]
            await self._say(ctx, "notifications/subscriptions/acknowledged", {"notifications": {"taskIds": known}})
            while True:
                task = await changed.get()
                if task.id in known:
                    await self._say(ctx, "notifications/tasks", task.state())
        finally:
            note(f"- {about}")
            listeners.remove(changed)

    async def _say(self, ctx: Context, method: str, params: dict[str, Any]) -> None:
        about = {"_meta": {"io.modelcontextprotocol/subscriptionId": ctx.request_id}}
        told: Any = Told(method=method, params=params | about)
        await ctx.session.send_notification(told, related_request_id=ctx.request_id)


def note(line: str) -> None:
    with (FOLDER / f"listens-{NAME}").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


tasks = Tasks()
server = MCPServer(NAME, extensions=[tasks], subscriptions=False)
server._lowlevel_server.add_request_handler("subscriptions/listen", Listen, tasks.listen)

if __name__ == "__main__":
    if PORT:
        server.run(transport="streamable-http", host="127.0.0.1", port=PORT)
    else:
        server.run(transport="stdio")
