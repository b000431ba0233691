"""What is wrong with a request before anybody decides on it: the checks of the protocol that a server owes its clients.

Owns: these checks. Must never: do I/O.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adjourn.gateway.http_pool import Headers
from adjourn.gateway.request_headers import VERSION, mismatch
from adjourn.gateway.together.merging import REVISIONS, STATELESS
from adjourn.mcp import Message, frames

HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
_STATUS = {
    frames.PARSE_ERROR: 400,
    frames.INVALID_REQUEST: 400,
    frames.INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    frames.METHOD_NOT_FOUND: 404,
}

_REMOVED = (
    "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list", "tasks/result",
)  # fmt: skip
"""Methods of the handshake revisions that the gateway answers itself there."""


class Problem(NamedTuple):
    """A JSON-RPC error."""

    code: int
    text: str
    data: object = None


def status_of(code: int) -> int:
    """The HTTP status of an error in the stateless revision."""
    return _STATUS.get(code, 200)


def problem_of(message: Message, headers: Headers) -> Problem | None:
    """What is wrong with a request, as its headers and its members of `_meta` say; None for nothing."""
    given = dict(headers).get(VERSION, b"").decode("latin-1")
    if not message.modern and message.method != "server/discover":
        if given and given not in REVISIONS:
            return Problem(frames.INVALID_REQUEST, "mcp-protocol-version is not a revision with sessions")
        return None
    return _stateless_problem(message.method, message.params, message.meta, headers)


def _stateless_problem(
    method: str, params: dict[str, Any], meta: dict[str, Any], headers: Headers
) -> Problem | None:
    for member in (frames.META_VERSION, frames.META_CAPABILITIES):
        if member not in meta:
            return Problem(frames.INVALID_PARAMS, f"_meta lacks {member}")
    version = meta[frames.META_VERSION]
    if wrong := mismatch(headers, version, method, params):
        return Problem(HEADER_MISMATCH, f"the header {wrong} does not agree with the message")
    if version not in STATELESS:
        data = {"supported": list(STATELESS), "requested": version}
        return Problem(UNSUPPORTED_VERSION, "this revision of the protocol is not supported", data)
    if method in _REMOVED:
        return Problem(frames.METHOD_NOT_FOUND, f"revision {version} has no method {method}")
    return None
