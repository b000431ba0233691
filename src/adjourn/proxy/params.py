"""What a request says beside its tool and arguments: what goes to the server as well, and what a person's yes is bound to.

Owns: which members are the transport's. Must never: decide, or drop a member of a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adjourn.mcp import Message, frames
from adjourn.policy import arguments_digest
from adjourn.proxy.pipes import Batch
from adjourn.tasks.decision import Call

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


class Gated:
    """A call on its way through the gate."""

    __slots__ = ("batch", "call", "message", "task")

    def __init__(self, message: Message, call: Call, batch: Batch | None) -> None:
        self.message = message
        self.call = call
        self.batch = batch
        task = message.meta.get(TASK_META)
        self.task = task if isinstance(task, str) else ""
