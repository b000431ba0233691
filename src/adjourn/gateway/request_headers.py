"""What the protocol wants of a client's HTTP request: headers that agree with the message, and a message of a revision that is spoken."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from adjourn.gateway.http_pool import Headers
from adjourn.mcp import frames
from adjourn.mcp.frames import Message

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Those with a handshake, oldest first."""
STATELESS = ("2026-07-28",)
VERSION, METHOD, NAME = b"mcp-protocol-version", b"mcp-method", b"mcp-name"
NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Methods with a name that stands in a header, too, and the member that has it."""
MAX_DEPTH = 20
_PLAIN = re.compile(r"(?!=\?base64\?.*\?=$)(?:[!-~](?:[ -~]*[!-~])?)?")
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def encoded(value: str) -> bytes:
    """A text as a header has it."""
    if _PLAIN.fullmatch(value):
        return value.encode()
    return b"=?base64?%b?=" % base64.b64encode(value.encode(errors="surrogatepass"))


def decoded(value: bytes) -> str | None:
    """The text that a header has; None for one that cannot be read."""
    text = value.decode("latin-1")
    if (match := _ENCODED.fullmatch(text)) is None:
        return text
    try:
        return base64.b64decode(match[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


class RequestHeaders:
    """Makes those of the stateless revision. It knows the tools that were listed."""

    def __init__(self) -> None:
        self._parameters: dict[str, dict[tuple[str, ...], str]] = {}
        """Arguments that stand in headers, too, by tool: their paths and the headers' names."""

    def listed(self, result: object) -> None:
        """Take note of a result of tools/list."""
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                self._parameters.pop(tool["name"], None)
                if marked := dict(_marked(tool.get("inputSchema"), ())):
                    self._parameters[tool["name"]] = marked

    def of(self, version: str, method: object, params: Mapping[str, Any]) -> Headers:
        """The headers of a message."""
        headers = [(VERSION, encoded(version))]
        if isinstance(method, str):
            headers.append((METHOD, encoded(method)))
            name = params.get(NAMED.get(method, ""))
            if isinstance(name, str):
                headers.append((NAME, encoded(name)))
            if method == "tools/call":
                headers += self._of_arguments(name, params.get("arguments"))
        return headers

    def _of_arguments(self, tool: object, arguments: object) -> Headers:
        headers = []
        for path, header in self._parameters.get(tool if isinstance(tool, str) else "", {}).items():
            value = arguments
            for member in path:
                value = value.get(member) if isinstance(value, dict) else None
            if isinstance(value, (str, int)):
                text = str(value).lower() if isinstance(value, bool) else str(value)
                headers.append((f"mcp-param-{header}".encode(), encoded(text)))
        return headers


def _marked(schema: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The arguments of a schema that stand in headers, too."""
    members = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(members, dict) or len(path) > MAX_DEPTH:
        return
    for name, member in members.items():
        if not isinstance(member, dict):
            continue
        header = member.get("x-mcp-header")
        if isinstance(header, str) and _TOKEN.fullmatch(header):
            yield (*path, name), header
        yield from _marked(member, (*path, name))


def mismatch(headers: Headers, version: object, method: str, params: Mapping[str, Any]) -> str:
    """The header of a request of the stateless revision that says something else than its message; "" for none."""
    sent = dict(headers)
    if sent.get(VERSION, b"").decode("latin-1") != version:
        return "mcp-protocol-version"
    if sent.get(METHOD, b"").decode("latin-1") != method:
        return "mcp-method"
    wanted = params.get(NAMED.get(method, ""))
    if wanted is not None and (NAME not in sent or decoded(sent[NAME]) != wanted):
        return "mcp-name"
    return ""


# --- what is wrong with a request before anybody decides on it

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
    version = dict(headers).get(VERSION, b"").decode("latin-1")
    if not message.modern and message.method != "server/discover":
        if version and version not in REVISIONS:
            return Problem(frames.INVALID_REQUEST, "mcp-protocol-version is not a revision with sessions")
        return None
    return _stateless_problem(message.method, message.params, message.meta, headers)


def _stateless_problem(method: str, params: dict[str, Any], meta: dict[str, Any], headers: Headers) -> Problem | None:
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
