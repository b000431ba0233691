"""What several servers say, as one server says it: greetings, lists, names; and the edits of a message on its way to one of them.

Owns: these values. Must never: change the text of a value that it does not have to edit, or do I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from adjourn.gateway.request_headers import REVISIONS, STATELESS
from adjourn.mcp import frames
from adjourn.mcp.lenient import UNREADABLE, list_of, object_of, value_of
from adjourn.text.quoting import instructions_of

META_UNAVAILABLE = "dev.adjourn/unavailable"
"""JoinedNames the servers that a list is without, and why."""
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "tasks/list": "tasks",
}
"""Methods that list something, and the member of the result that has it."""
_CACHED = {"ttlMs": 0, "cacheScope": "private"}

Raw = msgspec.Raw
RawObject = dict[str, Raw]
_encode = msgspec.json.encode


class ListPage(NamedTuple):
    """A page of a list. `cursor` is that of the next one, None on the last."""

    items: list[Raw]
    cursor: object


class Greeting(msgspec.Struct, frozen=True):
    """What a server says of itself, in either era."""

    capabilities: dict[str, Any] = {}
    instructions: str = ""


# --- edits of a message


def with_param(line: bytes, member: str, value: object) -> bytes:
    """A request with another value of one of its params."""
    body = object_of(line)
    params = object_of(body["params"])
    params[member] = Raw(_encode(value))
    body["params"] = Raw(_encode(params))
    return _encode(body) + b"\n"


def with_id(line: bytes, message_id: object) -> bytes:
    """A message with another id."""
    body = object_of(line)
    body["id"] = Raw(_encode(message_id))
    return _encode(body) + b"\n"


class _Params(msgspec.Struct):
    params: dict[str, Any] = {}


_params_of = msgspec.json.Decoder(_Params).decode


def params_of(line: bytes) -> dict[str, Any]:
    """The params of a message."""
    try:
        return _params_of(line).params
    except msgspec.ValidationError:
        raise
    except UNREADABLE:
        return msgspec.convert(value_of(line), _Params).params


def named(raw: Raw, name: str) -> Raw:
    """An item of a list under another name."""
    item = object_of(raw)
    item["name"] = Raw(_encode(name))
    return Raw(_encode(item))


def member_of(raw: Raw, member: str) -> str:
    """A text of an item; "" where it has none."""
    try:
        value = value_of(object_of(raw)[member])
    except (msgspec.DecodeError, KeyError):
        return ""
    return value if isinstance(value, str) else ""


# --- lists


def page_of(line: bytes, member: str) -> ListPage | None:
    """What an answer lists; None for an error, or what is no such answer."""
    try:
        result = object_of(object_of(line)["result"])
        items = list_of(result[member]) if member in result else []
        cursor = value_of(result["nextCursor"]) if "nextCursor" in result else None
    except (msgspec.DecodeError, KeyError):
        return None
    return ListPage(items, cursor)


def error_of(line: bytes) -> tuple[int, str]:
    """Code and message of an answer that is an error; zero for any other."""
    try:
        error = value_of(line).get("error")
        return int(error["code"]), str(error["message"])
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError):
        return 0, ""


def listing(member: str, items: Sequence[Raw], missing: Mapping[str, str], *, modern: bool) -> dict[str, Any]:
    """The result with all that is listed. `missing` are the servers that it is without, and why."""
    result: dict[str, Any] = {member: items}
    if missing:
        result["_meta"] = {META_UNAVAILABLE: dict(missing)}
    return complete(result, is_cached=True) if modern else result


def complete(result: dict[str, Any], *, is_cached: bool = False) -> dict[str, Any]:
    """A result as the stateless revision has it. `is_cached`: of a kind that says how long it keeps."""
    return {"resultType": "complete"} | (_CACHED if is_cached else {}) | result


def result_of(line: bytes) -> dict[str, Any]:
    """The result of an answer; empty for an error."""
    result = value_of(line).get("result")
    return result if isinstance(result, dict) else {}


# --- greetings


def greeting_of(result: Mapping[str, Any]) -> Greeting:
    """What is taken of a result of initialize or server/discover."""
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    return Greeting(
        capabilities if isinstance(capabilities, dict) else {}, instructions if isinstance(instructions, str) else ""
    )


def merged(greetings: Mapping[str, Greeting], missing: Mapping[str, str]) -> Greeting:
    """The greeting of all servers together, by their names ("": the gateway's own). `missing` may come later, and have anything."""
    offered: dict[str, Any] = {}
    for greeting in greetings.values():
        offered = _united(offered, greeting.capabilities)
    if missing:
        offered = _united({"prompts": {}, "resources": {}}, offered)
    offered["tools"] = _united(offered.get("tools", {}), {"listChanged": True})
    for kind in ("prompts", "resources"):
        if kind in offered:
            offered[kind] = _united(offered[kind], {"listChanged": True})
    instructions = [
        f"Server {name}: {instructions_of(greeting.instructions)}" if name else greeting.instructions
        for name, greeting in greetings.items()
        if greeting.instructions
    ]
    instructions += [
        f"Server {name} is not available: {why}. Its tools are listed again when it answers."
        for name, why in missing.items()
    ]
    return Greeting(offered, "\n\n".join(instructions))


def _united(value: Any, other: Any) -> Any:
    if isinstance(value, dict) and isinstance(other, dict):
        keys = dict.fromkeys([*value, *other])
        return {
            key: _united(value[key], other[key]) if key in value and key in other else value.get(key, other.get(key))
            for key in keys
        }
    return value or other


def initialized(greeting: Greeting, revision: str, version: str) -> dict[str, Any]:
    """The result of initialize."""
    result: dict[str, Any] = {
        "protocolVersion": revision,
        "capabilities": greeting.capabilities,
        "serverInfo": {"name": "adjourn", "version": version},
    }
    return result | ({"instructions": greeting.instructions} if greeting.instructions else {})


def discovered(greeting: Greeting, version: str) -> dict[str, Any]:
    """The result of server/discover."""
    result: dict[str, Any] = {
        "supportedVersions": list(STATELESS),
        "capabilities": greeting.capabilities,
        "_meta": {frames.META_SERVER: {"name": "adjourn", "version": version}},
    }
    if greeting.instructions:
        result["instructions"] = greeting.instructions
    return complete(result, is_cached=True)


def negotiated(wanted: object) -> str:
    """The handshake revision that is spoken with a client that wants this one."""
    return wanted if isinstance(wanted, str) and wanted in REVISIONS else REVISIONS[-1]


# --- names


class JoinedNames:
    """The names that tools and prompts of several servers have together: SERVER.NAME, as rules have them. `servers` are canonical."""

    def __init__(self, servers: Iterable[str] = (), *, has_dots: bool = True) -> None:
        self._servers = sorted(servers, key=len, reverse=True)
        self._separator = "." if has_dots else "_"
        self._rewritten: dict[str, tuple[str, str]] = {}

    def change(self, servers: Iterable[str]) -> None:
        """Have other servers."""
        self._servers = sorted(servers, key=len, reverse=True)
        rewritten = self._rewritten.items()
        self._rewritten = {joined: names for joined, names in rewritten if names[0] in self._servers}

    def joined(self, server: str, name: str) -> str:
        """The name together. For a client that refuses dots it has none, and is kept to find the server's again."""
        if self._separator == ".":
            return f"{server}.{name}"
        joined = f"{server}_{name}".replace(".", "_")
        self._rewritten.setdefault(joined, (server, name))
        return joined

    def split(self, name: str) -> tuple[str, str] | None:
        """Server and name there; None for a name of no server."""
        if (names := self._rewritten.get(name)) is not None:
            return names
        for separator in (".", "_"):
            for server in self._servers:
                if name.startswith(f"{server}{separator}") and len(name) > len(server) + 1:
                    return server, name[len(server) + 1 :]
        return None


def colliding(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of names that a client that rewrites `.` and `-` to `_` cannot tell apart."""
    flat: dict[str, str] = {}
    pairs = []
    for name in names:
        other = flat.setdefault(name.replace(".", "_").replace("-", "_"), name)
        if other != name:
            pairs.append((other, name))
    return pairs
