"""The meta-tools: `aex.checkpoint`, `aex.resume`, `aex.list_tasks`, `aex.review_task`, and those of `noting`.

Owns: their definitions, spellings and answers. Must never: write events itself (the engine does).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from adjourn import handover
from adjourn.clients import ClientContext
from adjourn.errors import AdjournError, InvalidError
from adjourn.mcp import Message, frames
from adjourn.policy import spellings
from adjourn.proxy import record_tools
from adjourn.proxy.stderr_log import StderrLog
from adjourn.text import redact_json, visible_json, visible_line, without_secrets

Arguments = dict[str, Any]

MAX_ANSWER_BYTES = 256 * 1024
UNDOTTED_CLIENTS = ("claude-ai", "claude desktop", "copilot")
"""Beginnings of client names that refuse tool names with a dot."""

_NAME = {"type": "string", "description": "Checkpoint name: letters, digits, dashes, underscores"}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_NOTE = {"type": "string", "description": "Shown in brackets behind it"}
_PAGE: dict[str, dict[str, Any]] = {
    "progress": {
        "type": "array",
        "description": "The checklist of the work, in order. What is left out of these stays as it was on the page before.",
        "items": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "status": {"enum": ["done", "in_progress", "pending"]},
                "note": _NOTE,
            },
            "required": ["text"],
        },
    },
    "currentState": _TEXTS | {"description": "What is under way right now"},
    "openQuestions": _TEXTS | {"description": "What a person has to answer"},
    "artifacts": {
        "type": "array",
        "description": "What was produced",
        "items": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Relative to the workspace"},
                "note": _NOTE,
            },
            "required": ["path"],
        },
    },
    "resumptionPoint": {"type": "string", "description": "What the next session does first; concrete"},
}
"""What an agent may say of the work, for the checkpoint's page."""
DEFINITIONS: dict[str, dict[str, Any]] = {
    "aex.checkpoint": {
        "description": "Save the state of this session under a name, so that a later session, of any client, can go on.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": _NAME,
                "description": {
                    "type": "string",
                    "description": "What was accomplished so far, and what comes next",
                },
                **_PAGE,
            },
            "required": ["name"],
        },
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": False,
            "openWorldHint": False,
        },
    },
    "aex.resume": {
        "description": (
            "Go on from a checkpoint: restores the spent budget and the history, and tells what was done, what was "
            "refused, and which calls are in doubt."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": _NAME | {"description": "Checkpoint name to resume"},
                "more": {
                    "type": "string",
                    "description": "The `more` of an earlier answer, for older history",
                },
            },
            "required": ["name"],
        },
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    },
    "aex.list_tasks": {
        "description": "List task contracts and checkpoints of this workspace.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "aex.review_task": {
        "description": "Read a task contract and tell what it may do under the current policy, without running it.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "task": {"type": "string", "description": "Path to an .aex file in the workspace"}
            },
            "required": ["task"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    **record_tools.DEFINITIONS,
}


class MetaTools:
    """Handles them for one proxy. `style` is the value of --tool-names."""

    def __init__(self, context: ClientContext, report: StderrLog, *, errors: str, style: str) -> None:
        self._context = context
        self._report = report
        self._errors = errors
        self._style = style
        self._handlers: dict[str, Callable[[Arguments], Any]] = {
            "aex.checkpoint": self._checkpoint,
            "aex.resume": self._resume,
            "aex.list_tasks": self._list_tasks,
            "aex.review_task": self._review_task,
            "adjourn.note": partial(record_tools.note, context),
            "adjourn.record": partial(record_tools.record, context),
            "adjourn.ask": partial(record_tools.ask, context),
        }

    def listed(self) -> list[dict[str, Any]]:
        """The definitions to advertise, in order, without those that the policy denies."""
        return [
            {"name": self._spelled(name), **definition}
            for name, definition in DEFINITIONS.items()
            if self._context.policy.judge_open(name).effect == "allow"
        ]

    def notice(self) -> str:
        """What the client is told as it begins: that work waits here, and how to go on with it; "" for nothing."""
        if self._context.policy.judge_open("aex.resume").effect != "allow":
            return ""
        try:
            found = handover.find_pending_work(self._context)  # the upstream boots meanwhile
        except AdjournError as error:  # it is said again where it matters
            self._report.event("store.error", str(error))
            return ""
        return handover.notice(found, self._spelled("aex.resume")) if found else ""

    def _spelled(self, name: str) -> str:
        undotted = self._context.client.lower().startswith(UNDOTTED_CLIENTS)
        return (
            spellings(name)[1]
            if self._style == "underscored" or (self._style == "auto" and undotted)
            else name
        )

    def handle(self, message: Message, name: str) -> bytes:
        """The answer to a call of a meta-tool."""
        arguments = message.params.get("arguments") or {}
        try:
            answer = self._handlers[name](arguments)
        except AdjournError as error:
            self._report.event("meta.failed", f"{name}: {error}")
            text = f"Meta-tool error: {error.message}" + (f" ({error.remedy})" if error.remedy else "")
            text = visible_line(without_secrets(text))
            if self._errors == "jsonrpc":
                return frames.error(message.id, frames.INTERNAL_ERROR, text)
            return frames.result(message.id, frames.tool_result(text, modern=message.modern, is_error=True))
        self._report.event("meta.handled", tool=name)
        text = visible_json(msgspec.json.format(msgspec.json.encode(redact_json(answer)), indent=2).decode())
        return frames.result(message.id, frames.tool_result(text, modern=message.modern))

    def _checkpoint(self, arguments: Arguments) -> Any:
        from adjourn.checkpoints import save  # noqa: PLC0415  # not on the start path

        name, description = _text(arguments, "name"), _text(arguments, "description", "")
        session = self._context.session()
        made = save.make(
            session.task,
            self._context.options.root,
            name,
            budget=session.policy.budget,
            description=description,
            said=save.said_in(arguments),
            sitting=session,
        )
        told = {"path": made.folder, "message": f'Checkpoint "{name}" saved to {made.folder}'}
        return told | ({"warnings": made.notes} if made.notes else {})

    def _resume(self, arguments: Arguments) -> Any:
        name, more = _text(arguments, "name"), _text(arguments, "more", "")
        return handover.resume(self._context, name).to_json(more)

    def _list_tasks(self, arguments: Arguments) -> Any:
        del arguments
        return {
            "tasks": handover.list_tasks(
                self._context.store, self._context.options.root, limit=MAX_ANSWER_BYTES
            )
        }

    def _review_task(self, arguments: Arguments) -> Any:
        from adjourn.aex.review import review  # noqa: PLC0415  # as above
        from adjourn.policy import unsigned  # noqa: PLC0415

        path, text = handover.read_contract_file(self._context.options.root, _text(arguments, "task"))
        source = os.path.relpath(path, self._context.options.root)
        policy = self._context.policy
        return review(
            text,
            source,
            policy,
            unsigned(os.path.realpath(self._context.options.root), path, text, policy, source),
        )


def _text(arguments: Arguments, name: str, default: str | None = None) -> str:
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise InvalidError(f"{name} must be a text", f"give {name} as a string" if value is None else "")
    return value
