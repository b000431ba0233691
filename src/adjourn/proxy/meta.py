"""The meta-tools of a proxy: `aex.checkpoint`, `aex.resume`, `adjourn.note` and the others.

Owns: which are listed, how they are spelled, the form of their answers. Must never: carry one out itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from adjourn import handover
from adjourn.clients import ClientContext
from adjourn.errors import AdjournError
from adjourn.mcp import Message, frames
from adjourn.policy import spellings
from adjourn.proxy.meta_definitions import DEFINITIONS
from adjourn.proxy.stderr_log import StderrLog
from adjourn.text import redact_json, visible_json, visible_line, without_secrets

UNDOTTED_CLIENTS = ("claude-ai", "claude desktop", "copilot")
"""Clients that refuse tool names with a dot, by the beginning of their name."""


class MetaTools:
    """Lists and answers them. `errors` and `style` are the values of --errors and --tool-names."""

    def __init__(self, context: ClientContext, report: StderrLog, *, errors: str, style: str) -> None:
        self._context = context
        self._report = report
        self._errors = errors
        self._style = style

    def listed(self) -> list[dict[str, Any]]:
        """The definitions to advertise, in order, without those that the policy denies."""
        return [
            {"name": self._spelled(name), **definition}
            for name, definition in DEFINITIONS.items()
            if self._context.policy.judge_open(name).effect == "allow"
        ]

    def notice(self) -> str:
        """The text for the `initialize` answer: which work can be resumed, and how; "" for none."""
        if self._context.policy.judge_open("aex.resume").effect != "allow":
            return ""
        try:
            found = handover.find_pending_work(self._context)  # the upstream boots meanwhile
        except AdjournError as error:  # reported again by the first call
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
        """The response to a call of the meta-tool `name` (dotted)."""
        from adjourn.proxy.meta_calls import HANDLERS  # noqa: PLC0415  # not before one is called: 0.1 s

        arguments = message.params.get("arguments") or {}
        try:
            answer = HANDLERS[name](self._context, arguments)
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
