"""Tools of a remote registry: a list of addresses, each of which takes arguments as JSON and answers with JSON.

Owns: reading the list and calling, with bounds on time and size. Must never: follow a redirect, speak anything but HTTP,
read a file, repeat a call.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec

from adjourn.aex.match import tool_name_ok
from adjourn.engine.run.journal import encoded
from adjourn.engine.run.tools import Arguments, Tool, ToolError
from adjourn.errors import AdjournError, InvalidError

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 120.0
MAX_REGISTRY = 1_000_000
MAX_ANSWER = 10_000_000
MAX_TOOLS = 1000


class RegistryError(AdjournError):
    """The registry could not be read, or is none."""


class _Listed(msgspec.Struct, frozen=True, rename="camel"):
    url: str = ""
    side_effect: bool = True


class _Registry(msgspec.Struct, frozen=True):
    tools: dict[str, _Listed]


class _UnansweredError(Exception):
    """No answer came. `sent`: the request may have arrived."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


def registered(url: str, *, seconds: float = ANSWER_SECONDS) -> dict[str, Tool]:
    """The tools that the registry at `url` lists, by name. Raises `RegistryError`."""
    try:
        status, body = _exchange("GET", url, b"", MAX_REGISTRY, seconds)
    except (_UnansweredError, InvalidError) as error:
        raise RegistryError(
            f"the registry {url} cannot be read: {error}", "check the address, and that it runs"
        ) from error
    if status != 200:
        raise RegistryError(
            f"the registry {url} answered {status}", "check the address; redirects are not followed"
        )
    try:
        listed = msgspec.json.decode(body, type=_Registry).tools
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RegistryError(
            f"the registry {url} is not a list of tools: {error}", 'it is {"tools": {NAME: {"url"}}}'
        ) from error
    if len(listed) > MAX_TOOLS:
        raise RegistryError(f"the registry {url} lists more than {MAX_TOOLS} tools", "split it")
    return {
        name: _tool(name, urljoin(url, one.url), effectful=one.side_effect, seconds=seconds)
        for name, one in listed.items()
        if one.url and tool_name_ok(name)
    }


def _tool(name: str, url: str, *, effectful: bool, seconds: float) -> Tool:
    def run(given: Arguments) -> Any:
        return _call(name, url, given, seconds)

    return Tool(run=run, effectful=effectful)


def _call(name: str, url: str, given: Mapping[str, Any], seconds: float) -> Any:
    try:
        status, body = _exchange("POST", url, encoded(given), MAX_ANSWER, seconds)
    except _UnansweredError as error:
        raise ToolError(
            f"{name} gave no answer: {error}",
            "find out whether it happened, then settle it",
            answered=not error.sent,
        ) from error
    except InvalidError as error:
        raise ToolError(f"{name} cannot be called: {error.message}", error.remedy) from error
    if not 200 <= status < 300:
        raise ToolError(
            f"{name} answered {status}: {body[:200].decode(errors='replace')!r}", "see its own log"
        )
    try:
        return msgspec.json.decode(body) if body.strip() else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ToolError(f"{name} did not answer with JSON: {error}", "see its own log") from error


def _exchange(method: str, url: str, body: bytes, limit: int, seconds: float) -> tuple[int, bytes]:
    """Status and body of one request. Raises `InvalidError` for what is no such address, `_UnansweredError`."""
    place = urlsplit(url)
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    try:
        kind, port = kinds.get(place.scheme), place.port
    except ValueError as error:
        raise InvalidError(f"{url!r} is not an address: {error}", "give an http or https URL") from error
    if kind is None or not place.hostname:
        raise InvalidError(f"{url[:200]!r} is not an http or https address", "give an http or https URL")
    connection = kind(place.hostname, port, timeout=min(CONNECT_SECONDS, seconds))
    deadline: threading.Timer | None = None
    try:
        connection.connect()
        connection.sock.settimeout(seconds)
        deadline = threading.Timer(seconds, _cut_off, [connection.sock])
        deadline.daemon = True
        deadline.start()
        target = (place.path or "/") + (f"?{place.query}" if place.query else "")
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body else {})
        connection.request(method, target, body or None, headers)
        with connection.getresponse() as answer:
            received = answer.read(limit + 1)
            missing = answer.length or 0
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _UnansweredError(str(error) or type(error).__name__, sent=deadline is not None) from error
    finally:
        if deadline is not None:
            deadline.cancel()
        connection.close()
    if len(received) > limit or missing:
        reason = (
            f"the answer has more than {limit:,} bytes" if len(received) > limit else "the answer was cut off"
        )
        raise _UnansweredError(reason, sent=True)
    return answer.status, received


def _cut_off(connected: socket.socket) -> None:
    """The time is up, however slowly something still comes."""
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
