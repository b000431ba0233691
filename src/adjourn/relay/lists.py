"""Editing what the upstream says about itself: hidden tools go, meta-tools come, nothing else changes.

Owns: tools/list and capabilities. Must never: change the text of a value it does not have to edit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from adjourn.aex import KnownTool
from adjourn.errors import InvalidError
from adjourn.log import digest
from adjourn.mcp import UNREADABLE, list_of, object_of, value_of
from adjourn.policy import encoded
from adjourn.text import instructions_of

_decode = msgspec.json.decode
_encode = msgspec.json.encode
Raw = msgspec.Raw
RawObject = dict[str, Raw]


class Annotations(msgspec.Struct, rename="camel"):
    """A tool's hints. By the protocol's defaults a tool is not read-only and destructive; only one that says so counts as
    the latter here.
    """

    read_only_hint: Any = False
    destructive_hint: Any = None


class ListedTool(msgspec.Struct):
    name: Any = None
    annotations: Annotations | None = None


class ListEdit(NamedTuple):
    """An edited answer to tools/list. `line` is None when it may pass as it is; `definitions` are digests of its tools.
    `listed` are all tools of the page, also those that are hidden.
    """

    line: bytes | None
    names: list[str]
    read_only: dict[str, bool]
    destructive: set[str]
    removed: list[str]
    definitions: dict[str, str]
    listed: list[KnownTool]


def edit_tools(
    line: bytes, visible: Callable[[str], bool], additions: Callable[[], list[dict[str, Any]]]
) -> ListEdit:
    """The answer to tools/list without hidden tools; `additions()` are appended on the last page.

    What is unreadable in one tool (half a character in its description) leaves it and the others their bytes. A tool whose name
    cannot be read strictly has none.
    """
    body = object_of(line)
    result = object_of(body["result"])
    tools = list_of(result["tools"]) if "tools" in result else []
    kept, names, removed = [], [], []
    read_only: dict[str, bool] = {}
    destructive: set[str] = set()
    definitions: dict[str, str] = {}
    listed = []
    for raw in tools:
        name, hints = _about(raw)
        listed.append(KnownTool(name, hints.read_only_hint is True, hints.destructive_hint is True))
        if not visible(name):
            removed.append(name)
            continue
        kept.append(raw)
        names.append(name)
        definitions[name] = _definition(raw, definitions.get(name, ""))
        read_only[name] = hints.read_only_hint is True
        if hints.destructive_hint is True:
            destructive.add(name)
    cursor = value_of(result["nextCursor"]) if "nextCursor" in result else None
    added = [] if cursor else [Raw(_encode(tool)) for tool in additions()]
    if not removed and not added:
        return ListEdit(None, names, read_only, destructive, removed, definitions, listed)
    result["tools"] = Raw(_encode(kept + added))
    body["result"] = Raw(_encode(result))
    return ListEdit(_encode(body) + b"\n", names, read_only, destructive, removed, definitions, listed)


def own_list(tools: list[dict[str, Any]], *, modern: bool) -> dict[str, Any]:
    """The result of tools/list for an upstream that has no tools. The stateless era wants to know how long it keeps."""
    return {"tools": tools} | (
        {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {}
    )


def _definition(raw: Raw, before: str) -> str:
    """The digest of all that a tool is listed as but `_meta`, which is not about the tool. Of a tool that stands twice
    (`before` is the other's), that of both: a client may take either.
    """
    try:
        tool = _decode(raw, type=RawObject)
        tool.pop("_meta", None)
        text = encoded({key: _decode(value) for key, value in tool.items()}, sort=True)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidError):
        text = bytes(raw)
    return digest(before.encode() + text)


def _about(raw: Raw) -> tuple[str, Annotations]:
    try:
        tool = _decode(raw, type=ListedTool)
    except UNREADABLE:
        return _about_odd(raw)
    return (tool.name if isinstance(tool.name, str) else ""), tool.annotations or Annotations()


def _about_odd(raw: Raw) -> tuple[str, Annotations]:
    """The same of a tool that is not strict JSON, or whose annotations are none."""
    try:
        tool = object_of(raw)
        name = _decode(tool["name"]) if "name" in tool else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "", Annotations()
    try:
        hints = _decode(tool["annotations"], type=Annotations) if "annotations" in tool else Annotations()
    except UNREADABLE:
        hints = Annotations()
    return (name if isinstance(name, str) else ""), hints


def greeting(line: bytes, notice: str = "") -> bytes | None:
    """An answer to initialize or server/discover that offers tools whose list may change, and contains the notice; None when it may pass
    as it is. The list changes with the task and the policy, whatever the server says.
    """
    body = object_of(line)
    result = object_of(body["result"])
    capabilities = object_of(result["capabilities"]) if "capabilities" in result else {}
    tools = object_of(capabilities["tools"]) if "tools" in capabilities else {}
    is_declared = bytes(tools.get("listChanged", b"")).strip() == b"true"
    if is_declared and not notice:
        return None
    if not is_declared:
        tools["listChanged"] = Raw(b"true")
        capabilities["tools"] = Raw(_encode(tools))
        result["capabilities"] = Raw(_encode(capabilities))
    if notice:
        said = value_of(result["instructions"]) if "instructions" in result else ""
        result["instructions"] = Raw(
            _encode(f"{instructions_of(said)}\n\n{notice}" if said and isinstance(said, str) else notice)
        )
    body["result"] = Raw(_encode(result))
    return _encode(body) + b"\n"
