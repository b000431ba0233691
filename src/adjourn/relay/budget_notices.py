"""The line about the budget that an answer to the agent carries, behind the server's own content.

Owns: which answers can carry it, and its form. Must never: change a value of the server's, or touch an answer without a notice.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from adjourn.checkpoints import GuardedSession
from adjourn.mcp import list_of, object_of, value_of
from adjourn.relay.meta import MetaTools
from adjourn.tasks import SpentShare, notice_text

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
