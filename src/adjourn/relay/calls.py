"""From a request's params to the call that is decided on: its arguments, and the members that an approval is bound to as well.

Owns: which members only say how a request travels, what is known of a tool's calls beforehand. Must never: decide, or drop a member
of a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from adjourn.aex.match import tool_name_ok
from adjourn.log.canonical_json import digest
from adjourn.mcp import frames
from adjourn.policy.calls import READING_VERBS, arguments_digest, encode_sorted, meta_tool
from adjourn.policy.tool_effects import reading_of
from adjourn.relay.connection import Connection
from adjourn.relay.request import Request, ToolPlan
from adjourn.tasks.decision import ToolRequest
from adjourn.text.redact import preview

TASK_META = "dev.adjourn/task"
KEY_META = "dev.adjourn/idempotencyKey"
"""With the same key in `_meta`, a client repeats a call of which it got no answer."""
MAX_KEY = 255
GIVEN_BACK = ("inputResponses", "requestState")
"""Members with which a client continues with a request that asked for input."""
TRANSPORT = frozenset((
    "progressToken", frames.META_VERSION, frames.META_CLIENT, frames.META_CAPABILITIES, frames.META_LOG_LEVEL,
    "traceparent", "tracestate", "baggage", TASK_META, KEY_META,
    "claudecode/toolUseId", "vscode.conversationId", "vscode.requestId", "x-codex-turn-metadata",
))  # fmt: skip
"""Members of `_meta` that say how a request travels, or in which turn of its client it was made. They differ when the very
same call is repeated."""
OF_CODEX = "x-codex-turn-metadata"
BESIDE_CODEX = TRANSPORT | {"callId", "itemId", "sessionId", "threadId", "windowId"}
"""The same where that member is: names that another client may use for what matters to the server."""
PLAIN = frozenset(("name", "arguments"))
"""The members of nearly every call. A request that has no others says nothing beside them."""
_OWN = frozenset(("name", "arguments", "_meta", *GIVEN_BACK))
_BESIDE_THE_REQUEST = frozenset(("_meta", *GIVEN_BACK))
STATE_PREFIX = "adjourn1."
"""How a requestState begins that this program has sealed."""
MAX_PLANS = 1000
SHORT = 2048
"""Bytes of a request whose arguments may be encoded whole, to be shown in part."""


def key_of(meta: Mapping[str, Any]) -> str | None:
    """The idempotency key of a request; "" if it has none, None if it cannot be one."""
    if KEY_META not in meta:
        return ""
    key = meta[KEY_META]
    return key if isinstance(key, str) and 0 < len(key) <= MAX_KEY else None


def is_ours(state: str) -> bool:
    """Whether a requestState was sealed by this program rather than made by the server."""
    return state.startswith(STATE_PREFIX)


def plan_of(name: str, connection: Connection) -> ToolPlan | None:
    """A new plan of a tool by the name that a client gives, to be kept until the server lists its tools again. None for what no
    tool may be named.
    """
    if not tool_name_ok(name):
        return None
    upstream = connection.upstream
    own = meta_tool(name)
    reading = reading_of(name, upstream.shared_words) if upstream.read_only.get(name) else None
    is_verb = name in READING_VERBS
    effectful = not (own or is_verb or reading)
    plan = ToolPlan(
        tool=own or name,
        is_named_only=bool(own),
        effectful=effectful,
        destructive=name in upstream.destructive,
        only_reads=is_verb or (reading is not None and reading.named),
        definition="" if own else connection.context.served.definitions.get(name, ""),
    )
    if len(upstream.plans) >= MAX_PLANS:
        upstream.plans.clear()
    upstream.plans[name] = plan
    return plan


def call_of(plan: ToolPlan, request: Request, connection: Connection, protected: str) -> ToolRequest:
    """The call that a request makes; `protected` is the protected place that it would touch."""
    params, context = request.params, connection.context
    if request.method == "tools/call":
        arguments = params.get("arguments") or {}
    else:
        arguments = {key: value for key, value in params.items() if key not in _BESIDE_THE_REQUEST}
    beside: dict[str, Any] = {}
    if not params.keys() <= PLAIN:
        beside = beside_request(params)
        if not plan.is_named_only and not params.keys() <= _OWN:
            beside |= {key: value for key, value in params.items() if key not in _OWN}
    key = key_of(request.meta) if request.meta else ""
    state = params.get("requestState", "" if "inputResponses" in params else None)
    ours = isinstance(state, str) and is_ours(state)
    is_short = len(request.raw) <= SHORT
    shown = preview(arguments, is_short=is_short) if plan.effectful or plan.is_named_only or beside else ""
    return ToolRequest(
        tool=plan.tool,
        digest=sha256(encode_sorted(arguments)).hexdigest() if request.plain else arguments_digest(arguments),
        effectful=plan.effectful,
        arguments=f"{shown} with {preview(beside)}" if beside else shown,
        state=digest(state.encode()) if isinstance(state, str) and not ours else "",
        named_only=plan.is_named_only,
        vendor=plan.is_vendors,
        destructive=plan.destructive,
        params=arguments_digest(beside) if beside else "",
        given_back="" if state is None or ours else given_back(params),
        server="" if plan.is_named_only else context.served.name,
        command=context.options.command,
        definition=plan.definition,
        given=arguments,
        protected=protected,
        behind=connection.client.size > 0,
        may_clash=request.may_clash,
        key=digest(f"{context.group} {key}".encode(errors="surrogatepass")) if key and plan.effectful else "",
    )


def beside_request(params: Mapping[str, Any]) -> dict[str, Any]:
    """`_meta` without what is transport; nothing where nothing is left of it."""
    meta = params.get("_meta")
    if not meta or type(meta) is not dict:
        return {"_meta": meta} if meta else {}
    transport = BESIDE_CODEX if OF_CODEX in meta else TRANSPORT
    kept = {k: v for k, v in meta.items() if k not in transport}
    return {"_meta": kept} if kept else {}


def given_back(params: Mapping[str, Any]) -> str:
    """The digest of what a client gives back to the server; "" for nothing."""
    found = {key: params[key] for key in GIVEN_BACK if key in params}
    return arguments_digest(found) if found else ""
