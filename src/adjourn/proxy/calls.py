"""From a request's params to the call that is decided on: its arguments, and the members that an approval is bound to as well.

Owns: which members only say how a request travels. Must never: decide, or drop a member of a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adjourn.clients import ClientContext
from adjourn.log import digest
from adjourn.mcp import Message, frames
from adjourn.policy import READING_VERBS, arguments_digest
from adjourn.proxy.connection import UpstreamFacts
from adjourn.proxy.meta_definitions import DEFINITIONS
from adjourn.proxy.pipes import Batch
from adjourn.tasks import ToolRequest
from adjourn.text import preview

TASK_META = "dev.adjourn/task"
GIVEN_BACK = ("inputResponses", "requestState")
"""Members with which a client goes on with a request that asked for input."""
TRANSPORT = frozenset((
    "progressToken", frames.META_VERSION, frames.META_CLIENT, frames.META_CAPABILITIES, frames.META_LOG_LEVEL,
    "traceparent", "tracestate", "baggage", TASK_META,
    "claudecode/toolUseId", "vscode.conversationId", "vscode.requestId", "x-codex-turn-metadata",
))  # fmt: skip
"""Members of `_meta` that say how a request travels, or in which turn of its client it was made. They differ when the very
same call is repeated."""
PLAIN = frozenset(("name", "arguments"))
"""The members of nearly every call. A request that has no others says nothing beside them."""
_OWN = frozenset(("name", "arguments", "_meta", *GIVEN_BACK))
_BESIDE_THE_REQUEST = frozenset(("_meta", *GIVEN_BACK))
STATE_PREFIX = "adjourn1."
"""How a requestState begins that this program has sealed."""


def is_ours(state: str) -> bool:
    """Whether a requestState was sealed by this program rather than made by the server."""
    return state.startswith(STATE_PREFIX)


def beside_call(params: Mapping[str, Any]) -> dict[str, Any]:
    """The params of a tools/call beside tool, arguments and transport."""
    if params.keys() <= _OWN:
        return beside_request(params)
    return {key: value for key, value in params.items() if key not in _OWN} | beside_request(params)


def beside_request(params: Mapping[str, Any]) -> dict[str, Any]:
    """`_meta` without what is transport; nothing where nothing is left of it."""
    meta = params.get("_meta")
    if not meta or (type(meta) is dict and meta.keys() <= TRANSPORT):
        return {}
    kept = {k: v for k, v in meta.items() if k not in TRANSPORT} if type(meta) is dict else meta
    return {"_meta": kept}


def given_back(params: Mapping[str, Any]) -> str:
    """The digest of what a client gives back to the server; "" for nothing."""
    found = {key: params[key] for key in GIVEN_BACK if key in params}
    return arguments_digest(found) if found else ""


class GatedCall:
    """A call on its way through the gate: its message, what is decided on, the batch it came in, the task it names."""

    __slots__ = ("batch", "call", "message", "task")

    def __init__(self, message: Message, call: ToolRequest, batch: Batch | None) -> None:
        self.message = message
        self.call = call
        self.batch = batch
        task = message.meta.get(TASK_META)
        self.task = task if isinstance(task, str) else ""


def call_of(
    tool: str,
    params: dict[str, Any],
    context: ClientContext,
    upstream: UpstreamFacts,
    *,
    named_only: bool = False,
) -> ToolRequest:
    """The call that a request makes. `named_only` is for a request other than tools/call, and for a meta-tool."""
    arguments = params.get("arguments") or {}
    if named_only and tool not in DEFINITIONS:
        arguments = {key: value for key, value in params.items() if key not in _BESIDE_THE_REQUEST}
    beside: dict[str, Any] = {}
    if not params.keys() <= PLAIN:
        beside = beside_request(params) if named_only else beside_call(params)
    state = params.get("requestState", "" if "inputResponses" in params else None)
    ours = isinstance(state, str) and is_ours(state)
    effectful = not named_only and not (upstream.read_only.get(tool) or tool in READING_VERBS)
    shown = preview(arguments) if effectful or named_only or beside else ""
    return ToolRequest(
        tool=tool,
        digest=arguments_digest(arguments),
        effectful=effectful,
        arguments=f"{shown} with {preview(beside)}" if beside else shown,
        state=digest(state.encode()) if isinstance(state, str) and not ours else "",
        named_only=named_only,
        destructive=tool in upstream.destructive,
        params=arguments_digest(beside) if beside else "",
        given_back="" if state is None or ours else given_back(params),
        server=context.options.server,
        definition="" if named_only else context.definitions.get(tool, ""),
        given=arguments,
    )
