"""Tools of a remote registry: a list of addresses, each of which takes arguments as JSON and answers with JSON.

Owns: reading the list and calling, with bounds on time and size. Must never: read a file, repeat a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

import msgspec

from adjourn.aex import tool_name_ok
from adjourn.errors import AdjournError, InvalidError
from adjourn.host import UnansweredError, exchange
from adjourn.policy import encoded
from adjourn.runs.tools import Arguments, Tool, ToolError

ANSWER_SECONDS = 120.0
MAX_REGISTRY = 1_000_000
MAX_ANSWER = 10_000_000
MAX_TOOLS = 1000


class RegistryError(AdjournError):
    """The registry could not be read, or is not a registry."""


class _Listed(msgspec.Struct, frozen=True, rename="camel"):
    url: str = ""
    side_effect: bool = True


class _Registry(msgspec.Struct, frozen=True):
    tools: dict[str, _Listed]


def registered(url: str, *, seconds: float = ANSWER_SECONDS) -> dict[str, Tool]:
    """The tools that the registry at `url` lists, by name. Raises `RegistryError`."""
    try:
        status, body = exchange("GET", url, b"", MAX_REGISTRY, seconds)
    except (UnansweredError, InvalidError) as error:
        raise RegistryError(
            f"the registry {url} cannot be read: {error}", "check the address, and that the registry runs"
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
        status, body = exchange("POST", url, encoded(given), MAX_ANSWER, seconds)
    except UnansweredError as error:
        raise ToolError(
            f"{name} gave no answer: {error}",
            "check whether it took effect, then run `adjourn settle`",
            answered=not error.sent,
        ) from error
    except InvalidError as error:
        raise ToolError(f"{name} cannot be called: {error.message}", error.remedy) from error
    if not 200 <= status < 300:
        raise ToolError(
            f"{name} answered {status}: {body[:200].decode(errors='replace')!r}", "check its own log"
        )
    try:
        return msgspec.json.decode(body) if body.strip() else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ToolError(f"{name} did not answer with JSON: {error}", "check its own log") from error
