"""Tasks that servers make of calls, at the address of all servers: a task's id there is SERVER.ID, so that it says which server has it.

Owns: these ids, and where they stand in a message. Must never: keep one, or change the text of a value that it does not have to edit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from adjourn.gateway.request_headers import MISSING_CAPABILITY, Problem
from adjourn.mcp import frames
from adjourn.mcp.frames import Message
from adjourn.mcp.lenient import object_of

EXTENSION = "io.modelcontextprotocol/tasks"
"""The extension of the stateless revision; in 2025-11-25 tasks are a capability of their own."""
METHODS = ("tasks/get", "tasks/result", "tasks/update", "tasks/cancel")
"""Requests about one task."""
REQUESTS = ("tasks/list", *METHODS)
CHANGED = "notifications/tasks"
"""What a subscriber hears of a task, in the stateless revision: its whole state."""
_STATUS = (CHANGED, "notifications/tasks/status")
_ABOUT = ("_meta", "io.modelcontextprotocol/related-task", "taskId")
_IN_RESULT = (("result", "taskId"), ("result", "task", "taskId"), ("result", *_ABOUT))
_IN_MESSAGE = (("params", *_ABOUT),)
_IN_STATUS = (("params", "taskId"), *_IN_MESSAGE)
_IN_ANSWER = (("result", *_ABOUT),)

Raw = msgspec.Raw
_decode, _encode = msgspec.json.decode, msgspec.json.encode


def split(task: object) -> tuple[str, str] | None:
    """The server of a task, and its id there; None for what is no id of a task here."""
    server, _, own = task.partition(".") if isinstance(task, str) else ("", "", "")
    return (server, own) if server and own else None


def offers(capabilities: Mapping[str, Any], *, modern: bool) -> bool:
    """Whether a server with these capabilities makes tasks, for clients of an era."""
    extensions = capabilities.get("extensions")
    return (isinstance(extensions, dict) and EXTENSION in extensions) if modern else "tasks" in capabilities


def without(capabilities: Mapping[str, Any], *, modern: bool) -> dict[str, Any]:
    """A server's capabilities without the tasks of an era: they are nothing to a client of the other one."""
    if not offers(capabilities, modern=modern):
        return dict(capabilities)
    if not modern:
        return {name: value for name, value in capabilities.items() if name != "tasks"}
    extensions = {name: value for name, value in capabilities["extensions"].items() if name != EXTENSION}
    return dict(capabilities) | {"extensions": extensions}


def undeclared(message: Message) -> Problem | None:
    """What is wrong with a request about tasks of a client that does not say that it knows them."""
    capabilities = message.meta.get(frames.META_CAPABILITIES)
    if not message.modern or (isinstance(capabilities, dict) and offers(capabilities, modern=True)):
        return None
    wanted: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return Problem(
        MISSING_CAPABILITY,
        f"the client has not declared the extension {EXTENSION}. Declare it in its capabilities.",
        wanted,
    )


def declared(meta: dict[str, Any]) -> dict[str, Any]:
    """What a request says of a client, for one that has declared tasks."""
    capabilities = meta[frames.META_CAPABILITIES]
    extensions = capabilities.get("extensions")
    declared_extensions = (extensions if isinstance(extensions, dict) else {}) | {EXTENSION: {}}
    return meta | {frames.META_CAPABILITIES: capabilities | {"extensions": declared_extensions}}


def problem_of(message: Message) -> Problem:
    """What is wrong with a request about a task of no server."""
    return undeclared(message) or Problem(
        frames.INVALID_PARAMS,
        "no server has a task of that id. Send taskId as the answer of the call named it: SERVER.ID.",
    )


# --- edits of a message


def shown(line: bytes, method: object, server: str) -> bytes:
    """A message of a server (`method` is None for an answer) with the ids of its tasks as the client has them."""
    if b'taskId"' not in line and b"\\u" not in line:
        return line
    paths = _IN_RESULT if method is None else _IN_STATUS if method in _STATUS else _IN_MESSAGE
    return _edited(line, paths, lambda own: f"{server}.{own}")


def shown_item(raw: Raw, server: str) -> Raw:
    """An item of a list of tasks, as the client has it."""
    return Raw(_replaced(raw, ("taskId",), lambda own: f"{server}.{own}"))


def own(line: bytes, server: str) -> bytes:
    """An answer of a client to a server's request, with the id of the task that it belongs to as the server has it."""
    return _edited(line, _IN_ANSWER, lambda task: task.removeprefix(f"{server}."))


def status_of(answer: bytes) -> bytes:
    """The notification of the state that an answer to tasks/get has; nothing for another answer."""
    try:
        result = object_of(object_of(answer)["result"])
    except (msgspec.DecodeError, KeyError):
        return b""
    state = {name: value for name, value in result.items() if name not in ("_meta", "resultType")}
    return frames.notification(CHANGED, state) if "taskId" in state else b""


def _edited(line: bytes, paths: tuple[tuple[str, ...], ...], edit: Callable[[str], str]) -> bytes:
    for path in paths:
        line = _replaced(line, path, edit)
    return line


def _replaced(raw: bytes | Raw, path: tuple[str, ...], edit: Callable[[str], str]) -> bytes:
    """A value in which the text at a path is another one; as it is where there is none."""
    same = bytes(raw)
    try:
        if not path:
            return _encode(edit(_decode(raw, type=str)))
        members = object_of(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return same
    if (value := members.get(path[0])) is None or (inner := _replaced(value, path[1:], edit)) == bytes(value):
        return same
    members[path[0]] = Raw(inner)
    return _encode(members)
