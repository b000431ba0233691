"""The meta-tools of a proxy: `aex.checkpoint`, `aex.resume`, `adjourn.note` and the others.

Owns: which are listed, how they are spelled, the form of their answers. Must never: carry one out itself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from adjourn import handover
from adjourn.clients import ClientContext
from adjourn.errors import AdjournError
from adjourn.host import Process
from adjourn.mcp import Message, frames
from adjourn.policy import spellings
from adjourn.relay.meta_definitions import DEFINITIONS
from adjourn.relay.stderr_log import StderrLog
from adjourn.text import redact_json, visible_json, visible_line, without_secrets

UNDOTTED_CLIENTS = ("claude-ai", "claude desktop", "copilot")
"""Clients that refuse tool names with a dot, by the beginning of their name."""


class MetaTools:
    """Lists and answers them. `errors`, `style` and `listing` are the values of --errors, --tool-names and --meta-tools. A `listing` of
    `never` is for one of several relays of a client, where another lists them and speaks of work to resume.
    """

    def __init__(
        self, context: ClientContext, report: StderrLog, *, errors: str, style: str, listing: str = "once"
    ) -> None:
        self._context = context
        self._report = report
        self._errors = errors
        self._style = style
        self._once = listing == "once"
        self._is_mute = listing == "never"
        self.lister: Process | None = None
        """The other proxy of this client that lists them, as far as this one has been asked for its list."""

    def names(self) -> list[str]:
        """The names of all that the policy permits, as the client spells them: it may call each here, whoever lists them."""
        return [] if self._is_mute else [self._spelled(name) for name in self._permitted()]

    def to_list(self) -> list[dict[str, Any]]:
        """The definitions for an answer to tools/list, in order: those that no other proxy of this client has listed."""
        names = [] if self._is_mute else self._permitted()
        elsewhere: Collection[str] = ()
        self.lister = None
        if self._once and names:
            try:
                lister = self._context.become_lister(names)
            except AdjournError as error:  # twice is better than not at all
                self._report.event("store.error", str(error))
            else:
                if lister.process != self._context.process:
                    self.lister, elsewhere = lister.process, lister.tools
        return [{"name": self._spelled(name), **DEFINITIONS[name]} for name in names if name not in elsewhere]

    def _permitted(self) -> list[str]:
        return [name for name in DEFINITIONS if self._context.policy.judge_open(name).effect == "allow"]

    def notice(self) -> str:
        """The text for the `initialize` answer: which work can be resumed, and how; "" for none."""
        if self._is_mute or self._context.policy.judge_open("aex.resume").effect != "allow":
            return ""
        try:
            found = handover.find_pending_work(self._context)  # the upstream boots meanwhile
            if found is None:
                return handover.older_work(self._context) or handover.untrusted_work(self._context)
            name, task = found.checkpoint.data.name, found.task.id
            self._report.event("pending", f"{name}, of task {task}: unless it is resumed, a new task begins")
            return handover.instructions(self._context, found, self._spelled("aex.resume"))
        except AdjournError as error:  # reported again by the first call
            self._report.event("store.error", str(error))
            return ""

    def spelled(self, name: str) -> str:
        """How the client spells a meta-tool; "" for one that the policy does not permit."""
        return self._spelled(name) if self._context.policy.judge_open(name).effect == "allow" else ""

    def _spelled(self, name: str) -> str:
        undotted = self._context.client.lower().startswith(UNDOTTED_CLIENTS)
        return (
            spellings(name)[1]
            if self._style == "underscored" or (self._style == "auto" and undotted)
            else name
        )

    def handle(self, message: Message, name: str) -> bytes:
        """The response to a call of the meta-tool `name` (dotted)."""
        from adjourn.relay.meta_calls import HANDLERS, without_nulls  # noqa: PLC0415  # not before one is called: 0.1 s

        arguments = message.params.get("arguments") or {}
        try:
            answer = HANDLERS[name](self._context, without_nulls(arguments))
        except AdjournError as error:
            self._report.event("meta.failed", f"{name}: {error}")
            text = f"Meta-tool error: {error.message}" + (f" ({error.remedy})" if error.remedy else "")
            text = visible_line(without_secrets(self._context.options.words(text)))
            if self._errors == "jsonrpc":
                return frames.error(message.id, frames.INTERNAL_ERROR, text)
            return frames.result(message.id, frames.tool_result(text, modern=message.modern, is_error=True))
        self._report.event("meta.handled", tool=name)
        encoded = msgspec.json.encode(redact_json(answer))
        text = visible_json(
            (encoded if name == "aex.resume" else msgspec.json.format(encoded, indent=2)).decode()
        )
        return frames.result(message.id, frames.tool_result(text, modern=message.modern))
