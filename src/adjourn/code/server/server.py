"""The server without a transport: calls, their errors as replies, their record in the session, and the heartbeat of sessions.

Must never: know a transport.
"""

from __future__ import annotations

import sys
import time
import traceback
from functools import partial
from threading import Event, Thread
from typing import Any, Self

import msgspec

from adjourn import __version__
from adjourn.code.deadline import CancelledError, Deadline
from adjourn.code.server import search_tools, session_tools
from adjourn.code.server.replies import error_of, is_failure, write_reply
from adjourn.code.server.text_replies import to_text
from adjourn.code.server.tool import (
    ClientRoots,
    Codebases,
    CodeOptions,
    CodeTool,
    RootsNeededError,
    ToolInvocation,
    listing,
    no_roots,
)
from adjourn.code.session_state import ToolCall, stamp
from adjourn.code.workflow import payloads, phases
from adjourn.code.workflow.active_session import ClientConnection
from adjourn.code.workflow.phases import FlowError
from adjourn.code.workflow.sessions import Sessions
from adjourn.errors import AdjournError
from adjourn.text.strict_json import count_keys

TOOLS: tuple[type[CodeTool], ...] = (*session_tools.FIRST, *search_tools.TOOLS, *session_tools.LAST)
"""In the order in which clients list them."""
NAME = "code-intel"
TITLE = "adjourn code"
SERVER_INFO = {"name": NAME, "title": TITLE, "version": __version__}
INSTRUCTIONS = (
    "Start work on code with start_session, and follow the instruction of each reply. After a restart or a truncated conversation,"
    " call get_session_status first: it resumes the session. The search tools also work without a session."
)
SEARCH_INSTRUCTIONS = "Search this repository. Prefer find_definitions and find_references to a text search for names."
MAX_CALLS = 16
"""Maximum number of calls that run at the same time; more wait for one to end."""
PROGRESS_SECONDS = 0.2
"""Least time between two progress notifications of a call."""
_HEARTBEAT_SECONDS = 20.0
_MAX_PARAMS = 300


class CodeServer:
    """The server. As a context manager it reports its sessions alive until it is closed."""

    def __init__(self, root: str, options: CodeOptions = CodeOptions()) -> None:  # noqa: B008  # it cannot be changed
        self.sessions = Sessions(
            root, strictness=options.strictness, store=options.store, test_commands=options.test_commands
        )
        self.codebases = Codebases(options)
        self._ending = Event()
        self._tools = {
            tool.name: tool
            for tool in TOOLS
            if (tool.searches or not options.search_only) and (options.symbols or not tool.symbols)
        }
        self.instructions = SEARCH_INSTRUCTIONS if options.search_only else INSTRUCTIONS
        self.listed_tools = [listing(tool, brief=options.search_only) for tool in self._tools.values()]
        """The tools as `tools/list` returns them."""

    def __enter__(self) -> Self:
        Thread(target=self._heartbeat, daemon=True, name="adjourn-heartbeat").start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ending.set()
        self.sessions.close()
        self.codebases.close()

    def _heartbeat(self) -> None:
        while not self._ending.wait(_HEARTBEAT_SECONDS):
            self.sessions.heartbeat()

    def is_ending(self) -> bool:
        """Whether the server is being closed, and calls should stop."""
        return self._ending.is_set()

    def reply(
        self,
        client: ClientConnection,
        name: str,
        arguments: dict[str, Any],
        deadline: Deadline,
        *,
        roots: ClientRoots = no_roots,
    ) -> tuple[str, bool]:
        """The reply to a call as text, within the size cap, and whether it reports a failure. Raises `RootsNeededError`."""
        tool = self._tools.get(name)
        if tool is None:
            return write_reply({"error": f"Unknown tool: {name}"})
        with client.calling():
            reply = self.answer(client, tool, arguments, deadline, roots=roots)
        question = {name: value for name, value in arguments.items() if name != "cursor"}
        cursor = arguments.get("cursor") or None
        as_text = tool.as_text if arguments.get("format", "text") == "text" else None
        render = None if as_text is None else partial(to_text, as_text)
        cursor = None if is_failure(reply) else cursor
        try:
            return write_reply(reply, (tool.name, question), cursor, render=render, whole=tool.whole, limit=tool.limit)
        except AdjournError as error:
            return write_reply(error_of(error))

    def answer(
        self,
        client: ClientConnection,
        tool: type[CodeTool],
        raw_arguments: dict[str, Any],
        deadline: Deadline,
        *,
        roots: ClientRoots,
    ) -> dict[str, Any]:
        """The reply to a call, before the size cap."""
        began, started = time.monotonic(), stamp()
        call_id = ""
        try:
            count_keys(raw_arguments)
            arguments = payloads.read(tool, raw_arguments, tool.remedy())
            if tool.gated:
                call_id, refused = self.sessions.admit(client, tool.name, raw_arguments)
                if refused is not None:
                    return refused
            reply = arguments.run(ToolInvocation(self.sessions, self.codebases, client, deadline, roots))
        except CancelledError:
            reply = {"error": "cancelled", "message": "the call was cancelled"}
        except FlowError as refusal:
            reply = refusal.reply()
        except AdjournError as error:
            reply = error_of(error)
        except RootsNeededError:
            raise
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
            call = _tool_call(
                tool, raw_arguments, reply, started=started, seconds=spent, phase=active.state.current_phase
            )
            self.sessions.settle(active, call_id, call)
        return reply


def _tool_call(
    tool: type[CodeTool], arguments: dict[str, Any], reply: dict[str, Any], *, started: str, seconds: float, phase: str
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
            for name, value in arguments.items()
            if tool.read_only
        },
        phase=str(phase),
        started_at=started,
        completed_at=stamp(),
        duration_seconds=round(seconds, 4),
        result_summary=f"{counts[0]} found" if counts else detail["status"],
        result_detail=detail,
    )
