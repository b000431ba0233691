"""The tools that a client sees: the server's answers to tools/list, without what the policy hides and with the meta-tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from adjourn.aex.match import KnownTool, imitates_meta_tool
from adjourn.aex.policy import Policy
from adjourn.aex.rule_names import unmatched_rules
from adjourn.clients.session_pool import SessionPool
from adjourn.errors import AdjournError, InvalidError
from adjourn.host import process
from adjourn.log.canonical_json import digest
from adjourn.mcp import frames
from adjourn.mcp.lenient import UNREADABLE, list_of, object_of, value_of
from adjourn.policy.calls import encoded
from adjourn.policy.tool_effects import reaches_network
from adjourn.relay.meta import DEFINITIONS, MetaTools
from adjourn.relay.request import Connection, Request
from adjourn.text.quoting import instructions_of

LISTER_SECONDS = 1.0
"""How often it is looked whether the proxy that lists the meta-tools still runs."""
MAX_PAGED = 10_000
"""Tools of a list in pages that are kept until it is complete."""
MAX_LINES = 20
"""Rules that are named; more are in `adjourn doctor`."""


class ToolList:
    """Answers tools/list, and says when another answer is due. One per proxy."""

    def __init__(self, connection: Connection, meta: MetaTools) -> None:
        self._connection = connection
        self._context = connection.context
        self._sessions = connection.sessions
        self._report = connection.report
        self._meta = meta
        self._permitted = PermittedTools(connection.sessions)
        self._registered: set[str] = set()
        self._pages: list[KnownTool] = []
        """The tools of the pages of a list that is not complete yet."""
        self._reported_rules: set[str] = set()
        self._subscriptions: set[Any] = set()
        """Open requests of a client in the stateless era that subscribe to changes of the tools."""

    # --- answers

    def answer(self, request: Request, line: bytes) -> bytes:
        """The list of tools that the client gets for the server's."""
        try:
            return self._edited(line)
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            self._report.event("upstream.odd", f"the answer to {request.kind} is malformed: {error}")
            text = "the upstream's list of tools is malformed"
            return frames.error(request.id, frames.INTERNAL_ERROR, text)

    def own_answer(self, request: Request) -> bytes | None:
        """The list of tools that the client gets of a server that has no such list; None without meta-tools."""
        names = self._meta.names()
        if not names:
            return None
        definitions = self._meta.to_list()
        self._register(self._meta.names())
        self._keep_tools((), is_last=True)
        self._permitted.listed((), is_last=True)
        self._watch_lister()
        return frames.result(request.id, own_list(definitions, modern=request.modern))

    def _edited(self, line: bytes) -> bytes:
        self.look()
        policy = self._sessions.policy

        def visible(tool: str) -> bool:
            return (policy.observe or policy.visible(tool)) and not imitates_meta_tool(tool)

        added: list[dict[str, Any]] = []
        is_last = False

        def additions() -> list[dict[str, Any]]:
            nonlocal is_last
            is_last = True
            added.extend(self._meta.to_list())
            self._watch_lister()
            return added

        edit = edit_tools(line, visible, additions)
        self._sessions.listed(edit.definitions)
        self._connection.upstream.listed(edit.read_only, edit.destructive)
        names = (name for name in (*edit.names, *edit.removed) if not imitates_meta_tool(name))
        self._permitted.listed(names, is_last=is_last)
        for name in edit.removed:
            if imitates_meta_tool(name):
                self._report.event(
                    "tool.shadowed", f"hidden: the server's tool {name} has a name that is reserved for adjourn"
                )
        flat: dict[str, str] = {}
        for name in edit.names:
            other = flat.setdefault(name.replace(".", "_").replace("-", "_"), name)
            if other != name:
                self._report.event("tool.collision", f"clients that rewrite names cannot tell {other} from {name}")
        self._register([*edit.names, *self._meta.names()])
        self._keep_tools((tool for tool in edit.listed if not imitates_meta_tool(tool.name)), is_last=is_last)
        self._report.event(
            "tools.filtered",
            total=len(edit.names) + len(edit.removed),
            allowed=len(edit.names),
            removed=len(edit.removed),
            metaTools=len(added),
        )
        return edit.line or line

    def _register(self, names: Iterable[str]) -> None:
        """Before the client learns of tools, its hooks do: they decide themselves on what no proxy has listed."""
        before = len(self._registered)
        self._registered.update(names)
        if len(self._registered) == before:
            return
        try:
            self._connection.served.register(self._registered)
        except AdjournError as error:
            self._report.event("store.error", f"{error}; the client's hooks decide on this server's tools, too")

    def _keep_tools(self, tools: Iterable[KnownTool], *, is_last: bool) -> None:
        """Keep what the server lists, for the rules of all servers and for those who check rules: once the list is complete."""
        self._pages.extend(islice(tools, MAX_PAGED - len(self._pages)))
        if not is_last:
            return
        listed, self._pages = self._pages, []
        try:
            self._context.keep_tools(listed)
            self.report_rules()
        except AdjournError as error:
            self._report.event("store.error", f"{error}; the server's tools are not known to others")

    # --- changes

    def subscribe(self, request: Request) -> None:
        """Take in a `subscriptions/listen` of the client, if it is about the list."""
        wanted = request.params.get("notifications")
        if isinstance(wanted, dict) and wanted.get("toolsListChanged") is True:
            self._subscriptions.add(request.id)

    def look(self) -> None:
        """Take in an edited policy, and which tools the servers of the workspace have listed. A failing store is reported, not raised."""
        try:
            self._sessions.follow_policy()
            self._context.look_at_tools()
        except AdjournError as error:
            self._report.event("store.error", str(error))

    def is_outdated(self) -> bool:
        """Whether other tools are permitted than the client knows; once for each change."""
        return self._permitted.changed()

    def compare(self) -> None:
        """Tell the client that tools/list has another answer now, if other tools are permitted than it knows."""
        if self.is_outdated():
            self.tell_changed()

    def tell_changed(self) -> None:
        """Tell the client that tools/list has another answer now, in the way of its era."""
        connection, method = self._connection, "notifications/tools/list_changed"
        if connection.upstream.revision:  # 2025-11-25 or earlier
            connection.client.send(frames.notification(method))
        self._subscriptions.intersection_update(connection.requests)
        for subscription in self._subscriptions:
            about = {"_meta": {frames.META_SUBSCRIPTION: subscription}}
            connection.client.send(frames.notification(method, about))

    def report_rules(self) -> None:
        """Report which rules name no known tool, each once. For when the tools are listed, or the policy changes."""
        findings = unmatched_rules(self._context.watch.contract.policy, self._connection.served.known)
        for finding in findings[:MAX_LINES]:
            line = f"{finding.code} {finding.source}:{finding.span.line} {finding.message} ({finding.help})"
            if line not in self._reported_rules:
                self._reported_rules.add(line)
                self._report.event("rule", line)

    def _watch_lister(self) -> None:
        """While another proxy of this client lists the meta-tools: have the client list tools again once that one has exited."""
        if self._meta.lister is not None:
            if process.lives(self._meta.lister) is not True:
                self._meta.lister = None
                self._report.event("tools.lister", "another proxy of this client listed the meta-tools, and ended")
                self.tell_changed()
            else:
                self._connection.loop.after(LISTER_SECONDS, self._watch_lister)


class PermittedTools:
    """The tools of one server and ours, as far as the client has asked for the list."""

    def __init__(self, sessions: SessionPool) -> None:
        self._sessions = sessions
        self._names: set[str] = set()
        self._is_complete = True
        self._shown: set[str] | None = None
        """What the client knows to be permitted, and the policy by which it is; None before it has asked."""
        self._policy: Policy | None = None

    def listed(self, names: Iterable[str], *, is_last: bool) -> None:
        """A page of the server's list goes to the client; `names` are the tools on it, also those that it is not shown."""
        if self._is_complete:
            self._names.clear()
        self._names.update(names)
        self._is_complete = is_last
        self._policy = self._sessions.policy
        self._shown = self._permitted(self._policy)

    def changed(self) -> bool:
        """Whether other tools are permitted than the client knows; once for each change."""
        policy = self._sessions.policy
        if self._shown is None or policy is self._policy:
            return False
        before, self._shown, self._policy = self._shown, self._permitted(policy), policy
        return before != self._shown

    def _permitted(self, policy: Policy) -> set[str]:
        visible = {name for name in self._names if policy.observe or policy.visible(name)}
        return visible.union(name for name in DEFINITIONS if policy.judge_open(name).effect == "allow")


# --- editing the server's list

_decode = msgspec.json.decode
_encode = msgspec.json.encode
Raw = msgspec.Raw
RawObject = dict[str, Raw]


class Annotations(msgspec.Struct, rename="camel"):
    """A tool's hints. By the protocol's defaults a tool is not read-only and destructive; only one that says so counts as
    either here.
    """

    read_only_hint: Any = None
    destructive_hint: Any = None
    open_world_hint: Any = None


class ListedTool(msgspec.Struct, rename="camel"):
    name: Any = None
    annotations: Annotations | None = None
    input_schema: Any = None


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


def edit_tools(line: bytes, visible: Callable[[str], bool], additions: Callable[[], list[dict[str, Any]]]) -> ListEdit:
    """The answer to tools/list without hidden tools; `additions()` are appended on the last page.

    What is unreadable in one tool (half a character in its description) leaves it and the others their bytes. A tool whose name
    cannot be read strictly has none.
    """
    body = object_of(line)
    result = object_of(body["result"])
    tools = list_of(result["tools"]) if "tools" in result else []
    visible_tools, names, removed = [], [], []
    read_only: dict[str, bool] = {}
    destructive: set[str] = set()
    definitions: dict[str, str] = {}
    listed = []
    for raw in tools:
        name, hints, arguments = _about(raw)
        writes, is_open = hints.read_only_hint is False, hints.open_world_hint
        reaches = reaches_network(name, arguments, open_world=is_open if isinstance(is_open, bool) else None)
        listed.append(KnownTool(name, hints.read_only_hint is True, hints.destructive_hint is True, writes, reaches))
        if not visible(name):
            removed.append(name)
            continue
        visible_tools.append(raw)
        names.append(name)
        definitions[name] = _definition(raw, definitions.get(name, ""))
        read_only[name] = hints.read_only_hint is True
        if hints.destructive_hint is True:
            destructive.add(name)
    cursor = value_of(result["nextCursor"]) if "nextCursor" in result else None
    added = [] if cursor else [Raw(_encode(tool)) for tool in additions()]
    if not removed and not added:
        return ListEdit(None, names, read_only, destructive, removed, definitions, listed)
    result["tools"] = Raw(_encode(visible_tools + added))
    body["result"] = Raw(_encode(result))
    return ListEdit(_encode(body) + b"\n", names, read_only, destructive, removed, definitions, listed)


def own_list(tools: list[dict[str, Any]], *, modern: bool) -> dict[str, Any]:
    """The result of tools/list for an upstream that has no tools. The stateless era wants to know how long it keeps."""
    return {"tools": tools} | ({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {})


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


def _about(raw: Raw) -> tuple[str, Annotations, Iterable[str]]:
    """The name of a listed tool, what its server says of it, and the names of its arguments."""
    try:
        tool = _decode(raw, type=ListedTool)
    except UNREADABLE:
        return *_about_odd(raw), ()
    schema = tool.input_schema.get("properties") if isinstance(tool.input_schema, dict) else None
    arguments = schema if isinstance(schema, dict) else ()
    return (tool.name if isinstance(tool.name, str) else ""), tool.annotations or Annotations(), arguments


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
        own = value_of(result["instructions"]) if "instructions" in result else ""
        text = f"{instructions_of(own)}\n\n{notice}" if own and isinstance(own, str) else notice
        result["instructions"] = Raw(_encode(text))
    body["result"] = Raw(_encode(result))
    return _encode(body) + b"\n"
