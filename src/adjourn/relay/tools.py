"""The tools that an agent sees: those of the server that the policy leaves, and the meta-tools of the proxy."""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import msgspec

from adjourn.aex.match import KnownTool
from adjourn.clients.client import ClientContext
from adjourn.errors import AdjournError, InvalidError
from adjourn.host.process import Process
from adjourn.log.canonical_json import digest
from adjourn.mcp import frames
from adjourn.mcp.frames import Message
from adjourn.mcp.lenient import UNREADABLE, list_of, object_of, value_of
from adjourn.policy.calls import encoded, spellings
from adjourn.relay.stderr_log import StderrLog
from adjourn.text.quoting import instructions_of
from adjourn.text.redact import redact_json, visible_json, visible_line, without_secrets

# --- the definitions of the meta-tools, as tools/list shows them

MAX_CHARACTERS = 4000
"""Of all definitions together, with their names, as compact JSON."""
_WRITES = {"destructiveHint": False}
_READS = {"readOnlyHint": True}


def _text(description: str = "") -> dict[str, Any]:
    return {"type": "string"} | ({"description": description} if description else {})


def _texts(description: str = "") -> dict[str, Any]:
    items: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
    return items | ({"description": description} if description else {})


def _objects(description: str) -> dict[str, Any]:
    """A list of objects whose members the description names: a third of the length of their schema."""
    return {"type": "array", "items": {"type": "object"}, "description": description}


def _tool(what: str, hints: dict[str, bool], *required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {
        "description": what,
        "inputSchema": schema | ({"required": list(required)} if required else {}),
        "annotations": hints,
    }


DEFINITIONS: dict[str, dict[str, Any]] = {
    "aex.checkpoint": _tool(
        "Save the work for a later session of any client, at milestones and before you stop. What you leave out stays.",
        _WRITES,
        "name",
        name=_text("Letters, digits, - and _"),
        description=_text("What is done and what is next"),
        mission=_text("What the person wants"),
        progress=_objects("Checklist: {text, status: done|in_progress|pending, note?}"),
        currentState=_texts(),
        openQuestions=_texts("For a person"),
        artifacts=_objects("Files: {path, note?}"),
        resumptionPoint=_text("First step of the next session"),
    ),
    "aex.resume": _tool(
        "Resume a checkpoint; call it first. Shows what was done, refused, is in doubt. The budget stays spent.",
        _WRITES,
        "name",
        name=_text(),
        more=_text("From an answer"),
    ),
    "aex.finish": _tool(
        "The whole task is done: offer it to no later session.",
        _WRITES,
        summary=_text(),
    ),
    "aex.list_tasks": _tool("List task contracts and checkpoints.", _READS, more=_text()),
    "aex.review_task": _tool(
        "Show what a task contract may do under the policy.",
        _READS,
        "task",
        task=_text(".aex file"),
    ),
    "adjourn.note": _tool(
        "Note what the next session must know. No secrets.",
        _WRITES,
        facts=_texts("Confirmed"),
        assumptions=_texts(),
        questions=_texts("For you to find out"),
        goals=_texts(),
        decisions=_objects("{decision, because?, status?: accepted|tentative|rejected}"),
        learnings=_objects(
            "{content, type?: insight|constraint|pattern|warning, source?: observation|failure|success|feedback, confidence?: 0-1}"
        ),
        goal=_text(),
        status={"enum": ["in-progress", "completed", "failed"]},
        successCriteria=_texts(),
        tags=_texts(),
        resumePoints=_objects("{label, when?, nextSteps?}"),
        blockers=_objects("{description, blocks?: labels, resolution?}"),
        invariants=_objects("{description, severity?: hard|soft, status?: holding|violated}"),
    ),
    "adjourn.record": _tool(
        "Read this task's notes, decisions, questions and answers. Without a section: which there are.",
        _READS,
        section=_text(),
        more=_text("From an answer"),
    ),
    "adjourn.ask": _tool(
        "Ask a person, and keep working. Ask again in the same words to see the answer.",
        _WRITES,
        "question",
        question=_text(),
        context=_text(),
        options=_texts("The only answers"),
        priority={"enum": ["blocking", "high", "medium", "low"]},
    ),
}


# --- the meta-tools of a proxy

UNDOTTED_CLIENTS = ("claude-ai", "claude desktop", "copilot")
"""Clients that refuse tool names with a dot, by the beginning of their name."""


class MetaTools:
    """Lists and answers them. `errors`, `style` and `listing` are the values of --errors, --tool-names and --meta-tools. A `listing` of
    `never` is for one of several relays of a client, where another lists them and speaks of work to resume.
    """

    def __init__(
        self, context: ClientContext, report: StderrLog, *, errors: str, style: str, listing: str = "once"
    ) -> None:
        self._context = context
        self._report = report
        self._errors = errors
        self._style = style
        self._once = listing == "once"
        self._is_mute = listing == "never"
        self.lister: Process | None = None
        """The other proxy of this client that lists them, as far as this one has been asked for its list."""

    def names(self) -> list[str]:
        """The names of all that the policy permits, as the client spells them: it may call each here, whoever lists them."""
        return [] if self._is_mute else [self._spelled(name) for name in self._permitted()]

    def to_list(self) -> list[dict[str, Any]]:
        """The definitions for an answer to tools/list, in order: those that no other proxy of this client has listed."""
        names = [] if self._is_mute else self._permitted()
        elsewhere: Collection[str] = ()
        self.lister = None
        if self._once and names:
            try:
                lister = self._context.become_lister(names)
            except AdjournError as error:  # twice is better than not at all
                self._report.event("store.error", str(error))
            else:
                if lister.process != self._context.process:
                    self.lister, elsewhere = lister.process, lister.tools
        return [{"name": self._spelled(name), **DEFINITIONS[name]} for name in names if name not in elsewhere]

    def _permitted(self) -> list[str]:
        return [name for name in DEFINITIONS if self._context.policy.judge_open(name).effect == "allow"]

    def notice(self) -> str:
        """The text for the `initialize` answer: which work can be resumed, and how; "" for none."""
        if self._is_mute or self._context.policy.judge_open("aex.resume").effect != "allow":
            return ""
        from adjourn.handover.pending import older_work
        from adjourn.handover.session_brief import find_pending_work, untrusted_work

        try:
            found = find_pending_work(self._context)  # the upstream boots meanwhile
            if found is None:
                return older_work(self._context) or untrusted_work(self._context)
            from adjourn.handover.session_brief import instructions  # most starts have nothing to say

            name, task = found.checkpoint.data.name, found.task.id
            self._report.event("pending", f"{name}, of task {task}: unless it is resumed, a new task begins")
            return instructions(self._context, found, self._spelled("aex.resume"))
        except AdjournError as error:  # reported again by the first call
            self._report.event("store.error", str(error))
            return ""

    def spelled(self, name: str) -> str:
        """How the client spells a meta-tool; "" for one that the policy does not permit."""
        return self._spelled(name) if self._context.policy.judge_open(name).effect == "allow" else ""

    def _spelled(self, name: str) -> str:
        undotted = self._context.client.lower().startswith(UNDOTTED_CLIENTS)
        return (
            spellings(name)[1]
            if self._style == "underscored" or (self._style == "auto" and undotted)
            else name
        )

    def handle(self, message: Message, name: str) -> bytes:
        """The response to a call of the meta-tool `name` (dotted)."""
        from adjourn.relay.meta_calls import HANDLERS, without_nulls  # not before one is called: 0.1 s

        arguments = message.params.get("arguments") or {}
        try:
            answer = HANDLERS[name](self._context, without_nulls(arguments))
        except AdjournError as error:
            self._report.event("meta.failed", f"{name}: {error}")
            text = f"Meta-tool error: {error.message}" + (f" ({error.remedy})" if error.remedy else "")
            text = visible_line(without_secrets(self._context.options.words(text)))
            if self._errors == "jsonrpc":
                return frames.error(message.id, frames.INTERNAL_ERROR, text)
            return frames.result(message.id, frames.tool_result(text, modern=message.modern, is_error=True))
        self._report.event("meta.handled", tool=name)
        encoded = msgspec.json.encode(redact_json(answer))
        text = visible_json(
            (encoded if name == "aex.resume" else msgspec.json.format(encoded, indent=2)).decode()
        )
        return frames.result(message.id, frames.tool_result(text, modern=message.modern))


# --- editing what the upstream says about itself

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
