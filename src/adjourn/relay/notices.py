"""What a relay adds to a server's answers: work that can be resumed, and how much of a budget is spent."""

from collections.abc import Collection
from functools import partial
from typing import Any

import msgspec

from adjourn.checkpoints.triggers import GuardedSession
from adjourn.mcp import frames
from adjourn.mcp.lenient import list_of, object_of, value_of
from adjourn.relay.connection import Connection
from adjourn.relay.ports import Outcome
from adjourn.relay.request import Request
from adjourn.relay.tools import MetaTools, greeting
from adjourn.tasks.budgets import SpentShare, notice_text

# --- answers to initialize and server/discover


class Greetings:
    """`busy` while one waits."""

    def __init__(self, connection: Connection, meta: MetaTools) -> None:
        self._connection = connection
        self._meta = meta
        self._waiting = 0

    @property
    def busy(self) -> bool:
        return self._waiting > 0

    def take(self, request: Request, line: bytes) -> None:
        """Note what the server says of itself, and hand its answer over once it has what is added."""
        try:
            result = value_of(line)["result"]
        except msgspec.DecodeError:
            result = None
        about: dict[str, Any] = result if isinstance(result, dict) else {}
        self._connection.context.name_server(_server_name(about))
        if request.kind == "initialize":
            revision = about.get("protocolVersion")
            self._connection.upstream.negotiated(revision if isinstance(revision, str) else "")
        request.is_sent = False  # another answer to it is one that nobody asked for
        self._waiting += 1
        self._connection.loop.work(partial(self._completed, line), partial(self._deliver, request, line))

    def _completed(self, line: bytes) -> bytes:
        """In the worker."""
        return greeting(line, self._meta.notice()) or line

    def _deliver(self, request: Request, line: bytes, outcome: Outcome[bytes]) -> None:
        """Hand an answer over, unless its request was answered otherwise meanwhile."""
        self._waiting -= 1
        connection = self._connection
        try:
            line = outcome.get()
        except Exception as error:  # it passes as it is
            connection.report.event("upstream.odd", f"the answer to {request.kind} is malformed: {error}")
        if connection.requests.get(request.id) is request and (out := connection.answer(request, line)):
            connection.client.send(out)


def _server_name(result: dict[str, Any]) -> str:
    """The name that a server gives itself in its answer to initialize or server/discover."""
    meta = result.get("_meta")
    info = result.get("serverInfo") or (meta.get(frames.META_SERVER) if isinstance(meta, dict) else None)
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""


# --- the line about the budget that an answer to the agent carries, behind the server's own content

META_BUDGET = "dev.adjourn/budget"
_encode = msgspec.json.encode
_Object = dict[str, msgspec.Raw]


class BudgetNotices:
    """One per proxy."""

    def __init__(self, meta: MetaTools) -> None:
        self._meta = meta

    def add(self, session: GuardedSession, line: bytes, *, modern: bool) -> bytes:
        """An answer with the notice that is due; the very line without one, or where it cannot carry any."""
        shares = session.notice.due(session.policy, session.task.ledger, session.workspace_spent)
        if not shares:
            return line
        text = notice_text(shares, self._meta.spelled("aex.checkpoint"))
        try:
            edited = with_notice(line, text, shares if modern else ())
        except msgspec.DecodeError:
            return line
        if edited is None:
            return line  # the next answer can say it
        session.notice.tell(shares)
        session.notice.due(session.policy, session.task.ledger, session.workspace_spent)
        return edited


def with_notice(line: bytes, text: str, shares: Collection[SpentShare]) -> bytes | None:
    """A response with `text` as its last content, and `shares` in its `_meta`. None for an error, for a result without a list of
    content, and for one whose content is the structured one alone.
    """
    body = object_of(line)
    if "result" not in body:
        return None
    result = object_of(body["result"])
    content = result.get("content")
    if content is None or bytes(content).lstrip()[:1] != b"[" or _value(result, "isError", default=False):
        return None
    if _value(result, "resultType", default="complete") != "complete":
        return None
    blocks = list_of(content)
    if not blocks and "structuredContent" in result:
        return None
    result["content"] = msgspec.Raw(_encode([*blocks, {"type": "text", "text": text}]))
    if shares:
        meta = object_of(result["_meta"]) if "_meta" in result else {}
        meta[META_BUDGET] = msgspec.Raw(_encode([one._asdict() for one in shares]))
        result["_meta"] = msgspec.Raw(_encode(meta))
    body["result"] = msgspec.Raw(_encode(result))
    return _encode(body) + b"\n"


def _value(result: _Object, name: str, *, default: Any) -> Any:
    return value_of(result[name]) if name in result else default
