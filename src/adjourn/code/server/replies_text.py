"""Replies as they are sent.

Owns: `written`, and the words for machines that errors of this program have in them. Must never: let a reply go out that is too large.
"""

from __future__ import annotations

from typing import Any

from adjourn.errors import (
    AdjournError,
    HeldError,
    InvalidError,
    NotFoundError,
    RefusedError,
    StoreError,
    UsageError,
)

_CODES: tuple[tuple[type[AdjournError], str], ...] = (
    (HeldError, "session_held"),
    (RefusedError, "refused"),
    (NotFoundError, "not_found"),
    (InvalidError, "invalid_arguments"),
    (UsageError, "invalid_arguments"),
    (StoreError, "store_failed"),
)


def written(reply: dict[str, Any], question: Any = None, cursor: str | None = None) -> tuple[str, bool]:
    """A reply as text, cut to size, and whether it says that the call failed."""
    from adjourn.code.server.replies import capped, to_json  # noqa: PLC0415  # the server answers before this is needed

    return to_json(capped(reply, question, cursor=cursor)), is_failure(reply)


def is_failure(reply: dict[str, Any]) -> bool:
    """An answer that something is not allowed is no failure."""
    return "error" in reply and "allowed" not in reply


def error_of(error: AdjournError) -> dict[str, Any]:
    code = next((code for kind, code in _CODES if isinstance(error, kind)), "failed")
    return {"error": code, "message": error.message, **({"hint": error.remedy} if error.remedy else {})}
