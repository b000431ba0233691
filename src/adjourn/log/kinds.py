"""The registry of event kinds: the type of each kind's data, and what the kind means (spec/events.md, section 4).

Owns: the types. Must never: interpret them (`adjourn.tasks.ledger` does). Kinds are added, never changed: stored
bytes keep their meaning for ever. A reader keeps and verifies kinds it does not know.

Fields are declared in alphabetical order, so that encoding a type in its own order *is* its canonical form; a test
holds that. Fields named `digest` are the SHA-256 of the canonical JSON of a call's arguments, `params` that of what its request says
beside tool, arguments and transport; `arguments` is their redacted, shortened text, for people. `server` is the canonical
name of the server whose `tool` it is (empty: it is not known, or the tool is of no server). Times inside data are RFC 3339 UTC like the envelope's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import ClassVar, Literal, Protocol, get_args, get_origin

import msgspec

from adjourn.errors import InvalidError
from adjourn.log.event import SYSTEM, Event

REGISTRY: dict[str, type[Data]] = {}
"""Kind → type, in the order of this file."""
EXACT = frozenset(
    (
        "accepted", "after", "again", "agent", "answer", "approval", "audit", "before", "bind", "budget", "call", "checkpoint", "cognition", "contract", "definition", "digest",
        "document", "doubt", "era", "expires", "group", "head", "host", "inputs", "key", "lost", "name", "once", "over", "params", "phase",
        "policy", "previous", "principal", "record", "report", "result", "root", "server", "signature", "signer", "since", "state", "step", "to", "tool", "variable",
        "task", "who",
    )
)  # fmt: skip
"""Texts that name something or are compared. Every other text is prose, and is stored without secrets."""


class HasTool(Protocol):
    """What is about a tool: of a server, if that is known."""

    @property
    def server(self) -> str: ...

    @property
    def tool(self) -> str: ...


@lru_cache(maxsize=64)  # one history names the same few tools again and again
def full_name(server: str, tool: str) -> str:
    """The name of a server's tool; `tool` itself where the server is not known (""), or where it starts with the server's name."""
    return f"{server}.{tool}" if server and not tool.startswith(f"{server}.") else tool


def tool_name(about: HasTool) -> str:
    """The full name of the tool that something is about, as people and policies call it."""
    return full_name(about.server, about.tool)


class Data(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all event data. `KIND` is the envelope's `event`, `V` its format version, the docstring what it means."""

    KIND: ClassVar[str] = ""
    V: ClassVar[int] = 1

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        REGISTRY[cls.KIND] = cls


class TaskOpened(Data, frozen=True, kw_only=True):
    """The task starts. Always event 0. Names the documents that hold its contract's text.

    `over` is an unfinished task with the same goal and contract whose budget of calls is spent; the task starts with its `spent` calls.
    """

    KIND = "task.opened"
    contract: str = ""
    goal: str = ""
    over: str = ""
    spent: int = 0


class TaskFinished(Data, frozen=True, kw_only=True):
    """The work of the task is done, as the agent or a person says: it is offered to no new session. `note` is the outcome."""

    KIND = "task.finished"
    note: str = ""


class TaskReopened(Data, frozen=True, kw_only=True):
    """The task was finished, and is worked on again. `note` says why."""

    KIND = "task.reopened"
    note: str = ""


class SessionOpened(Data, frozen=True, kw_only=True):
    """A session starts: `client` works on the task through the process `pid` on `host`.

    `group` is the same for all sessions of one client process; `started` tells a process from a later one with the
    same number. `budget` are the calls of the task, `per_session` those of each session (-1: no limit). `policy` is the digest of the effective permissions' text. `prompt` is what the person asked the client for first,
    cut at 2 KiB: the goal of a task without a contract that has made no call yet. `principal` is the id of the person or service
    that was authenticated behind the client, with its name, type and groups then; empty where nobody was.
    """

    KIND = "session.opened"
    budget: int = -1
    client: str = ""
    era: str = ""
    group: str
    host: str
    per_session: int = -1
    pid: int
    policy: str
    principal: str = ""
    principal_groups: list[str] = []
    principal_name: str = ""
    principal_type: Literal["", "human", "service"] = ""
    prompt: str = ""
    started: int


class SessionClosed(Data, frozen=True, kw_only=True):
    """A session ended in an orderly way. `to` names the task that its client switched to, if it did; `unread` are calls that were
    settled, and whose answers could not be delivered, since the client had gone.
    """

    KIND = "session.closed"
    reason: str
    to: str = ""
    unread: list[str] = []


class SessionLost(Data, frozen=True, kw_only=True):
    """A session is over without having closed: found dead, expired, or taken over. Its open effects are in doubt."""

    KIND = "session.lost"
    calls: list[str]
    lost: str
    reason: Literal["dead", "expired", "taken-over"]


class ToolAllowed(Data, frozen=True, kw_only=True):
    """A call is about to be forwarded: its intent, written before the call leaves. It counts one call.

    `uncounted` are meta-tools and requests other than tools/call; they are written down only when confirmed. `limits`
    are the rates it counts for (`10/60 network.fetch`: ten in sixty seconds), `once` the digest that names its effect
    where a rule lets that happen only once; of several such rules one for each, with spaces between, behind a plus where it holds in
    the whole workspace. `behind`: the client made it without having read all answers before it.
    """

    KIND = "tool.allowed"
    approval: str = ""
    arguments: str = ""
    behind: bool = False
    call: str
    digest: str
    effectful: bool
    limits: list[str] = []
    once: str = ""
    params: str = ""
    server: str = ""
    tool: str
    uncounted: bool = False


class ToolContinued(Data, frozen=True, kw_only=True):
    """The client answered what the upstream asked for; the same call continues, and is not counted again. `leg` is the number of
    this answer, from 1 (0: not numbered).
    """

    KIND = "tool.continued"
    call: str
    leg: int = 0


class ToolSettled(Data, frozen=True, kw_only=True):
    """A forwarded call was answered. `answer` is the SHA-256 of the answer's bytes, `state` that of a request state.

    `message` is the first line of what a failed call was answered with, or why no answer came. `seen`: whoever made the call says so
    itself, so it has the answer.
    """

    KIND = "tool.settled"
    answer: str = ""
    call: str
    message: str = ""
    milliseconds: int = 0
    outcome: Literal["ok", "tool-error", "error", "input-required", "no-answer"]
    seen: bool = False
    state: str = ""


class ToolReadings(Data, frozen=True, kw_only=True):
    """Calls without effect in one event: those of `settled` were answered without an error, then those of `allowed` are about to be
    forwarded. It means what as many events `tool.settled`, of the system, and `tool.allowed` mean at its position (`facts_of`).
    The event has format version 2.
    """

    KIND = "tool.readings"
    V: ClassVar[int] = 2
    allowed: list[ToolAllowed] = []
    settled: list[ToolSettled] = []


class ToolDefined(Data, frozen=True, kw_only=True):
    """A tool is used for the first time. `definition` is the SHA-256 of what the server listed it as, without `_meta`.

    Here `server` stands for the command that started the server.
    """

    KIND = "tool.defined"
    definition: str
    server: str = ""
    tool: str


class ToolChanged(Data, frozen=True, kw_only=True):
    """The server lists a tool with another definition than before. What was approved under the earlier one is void."""

    KIND = "tool.changed"
    after: str
    before: str
    server: str = ""
    tool: str


class ToolReplayed(Data, frozen=True, kw_only=True):
    """A call was answered with the recorded answer of an earlier `call`, whose effect may happen only once."""

    KIND = "tool.replayed"
    call: str
    once: str
    server: str = ""
    tool: str


class EffectSettled(Data, frozen=True, kw_only=True):
    """Someone looked and says whether the effect of a call in doubt happened."""

    KIND = "effect.settled"
    call: str
    note: str = ""
    outcome: Literal["done", "not-done"]


class EffectRepeated(Data, frozen=True, kw_only=True):
    """A call of this task was made again in another task of the workspace, as the call `again` of `task`: a person approved repeating
    what was in doubt (`approval`, which may be one of this task), or the client had learnt that it happened.
    """

    KIND = "effect.repeated"
    again: str
    approval: str = ""
    call: str = ""
    task: str


class ToolDenied(Data, frozen=True, kw_only=True):
    """A call was refused by a rule (`deny_list`), for want of one (`not_allowed`), or for what `reason` says."""

    KIND = "tool.denied"
    arguments: str = ""
    digest: str = ""
    reason: str
    rule: str = ""
    server: str = ""
    tool: str


class BudgetExhausted(Data, frozen=True, kw_only=True):
    """A call was refused because the task's calls are spent, or the `budget` named: minutes, tokens, usd (limit and use are
    millionths then), or the legs of one call.
    """

    KIND = "budget.exhausted"
    arguments: str = ""
    budget: str = ""
    digest: str = ""
    limit: int
    server: str = ""
    tool: str
    used: int


class ConfirmRequired(Data, frozen=True, kw_only=True):
    """A call waits for a person. `cause` is the rule that asks, or the call in doubt that it would repeat.

    `who` is the one person that may answer, if the rule names one; `otherwise` what silence until `expires` means. An answer
    is to the call with these arguments, these `params` and this `definition` of the tool (empty: it was not listed). Where `arguments`
    are shortened, `document` is the digest of a longer text of them.
    """

    KIND = "confirm.required"
    approval: str
    arguments: str = ""
    cause: str
    definition: str = ""
    digest: str
    document: str = ""
    doubt: str = ""
    expires: str
    otherwise: Literal["deny", "allow"] = "deny"
    params: str = ""
    server: str = ""
    tool: str
    who: str = ""


class ConfirmApproved(Data, frozen=True, kw_only=True):
    """A person said yes, once, to what was asked about and nothing else, until the approval expires. `reason` is in their words."""

    KIND = "confirm.approved"
    approval: str
    reason: str = ""
    server: str = ""
    tool: str
    via: str


class ConfirmDenied(Data, frozen=True, kw_only=True):
    """A person said no (the event is theirs), or nobody did (it is the system's): nobody answered in time (`via` is `timeout`),
    the client gave the call up (`cancelled`) or closed the question (`elicitation:decline`, `elicitation:cancel`). With `repeated`
    nothing was refused: an approval of a newer question about the same call closes the older one, or the call was made without an
    answer; with `elsewhere` neither: the same question was approved in another task. `reason` is in a person's words.
    """

    KIND = "confirm.denied"
    approval: str
    reason: str = ""
    server: str = ""
    tool: str
    via: str


class ConfirmAutoApproved(Data, frozen=True, kw_only=True):
    """The proxy was started with --auto-confirm, and a confirmation was passed by it."""

    KIND = "confirm.auto_approved"
    server: str = ""
    tool: str


class PinRefused(Data, frozen=True, kw_only=True):
    """A wrong PIN was given for what would speak for a person in this task. `failures` counts those since the last right one, of the
    whole account; `action` is the command, or the form of the page.
    """

    KIND = "pin.refused"
    action: str
    failures: int
    via: Literal["cli", "page"] = "cli"


class PolicyChanged(Data, frozen=True, kw_only=True):
    """The policy or the contract was edited while a session worked under it; from here on the new one counts.

    `policy` is the digest of its text, `budget` the calls it permits, `per_session` those of each session (-1: no limit).
    """

    KIND = "policy.changed"
    budget: int = -1
    contract: str = ""
    per_session: int = -1
    policy: str


class PolicyBroken(Data, frozen=True, kw_only=True):
    """The policy or the contract was edited into something that cannot be read; the earlier one still counts."""

    KIND = "policy.broken"
    message: str


class PolicyObserved(Data, frozen=True, kw_only=True):
    """A policy that only observes would have refused a call or asked about it. It was let through."""

    KIND = "policy.observed"
    decision: Literal["ask", "block", "replay"]
    reason: str
    rule: str = ""
    server: str = ""
    tool: str


class UsageReported(Data, frozen=True, kw_only=True):
    """What a model cost, as its caller reports it. `microUsd` are millionths of a dollar."""

    KIND = "usage.reported"
    micro_usd: int = 0
    model: str = ""
    tokens: int = 0


class CheckpointCreated(Data, frozen=True, kw_only=True):
    """A named, signed position. The signature covers everything before it and `document` (spec section 5).

    `report` is the document of what agents and people have stated of the work until then; `unchanged` are items of its plan that are
    called done, though nothing was changed since they began; `gone` are results of the work that are not there any more.
    """

    KIND = "checkpoint.created"
    cognition: str = ""
    description: str = ""
    document: str
    gone: list[str] = []
    key: str
    name: str
    previous: str = ""
    record: str = ""
    report: str = ""
    root: str
    signature: str
    trigger: str
    unchanged: list[str] = []


class CheckpointResumed(Data, frozen=True, kw_only=True):
    """A session continues from a checkpoint: its event hash, and whether the store or a folder had it."""

    KIND = "checkpoint.resumed"
    checkpoint: str
    name: str
    source: Literal["store", "folder"]


class GraphSaved(Data, frozen=True, kw_only=True):
    """A LangGraph checkpoint of the thread that this task is: its id, the document that has it, where it comes from and its step.

    Of the conversation of another framework: the document of its new messages, the framework, and the number of messages.
    """

    KIND = "graph.saved"
    checkpoint: str
    document: str
    source: str = ""
    step: str = ""


class GraphWritten(Data, frozen=True, kw_only=True):
    """What a node of a graph wrote after a checkpoint: the document that has it, and the node's path or task."""

    KIND = "graph.written"
    checkpoint: str
    document: str
    node: str = ""


class GraphDeleted(Data, frozen=True, kw_only=True):
    """Checkpoints of a thread were deleted, with their documents, at somebody's wish: how many."""

    KIND = "graph.deleted"
    count: int


class TaskImported(Data, frozen=True, kw_only=True):
    """A history made elsewhere was taken in, up to event `seq` with hash `head`; `signer` is the key that signed it.

    Without a signer it is a person's word, and nothing in it was verified: `document` is the file they gave, `source` its format,
    `audit` its audit.jsonl, `at` its time, `budget` its limit of calls (-1: none), `calls` what it says is spent.
    """

    KIND = "task.imported"
    at: str = ""
    audit: str = ""
    budget: int = -1
    calls: int = 0
    document: str = ""
    head: str = ""
    seq: int = -1
    signer: str = ""
    source: str = ""


class HistoryAccepted(Data, frozen=True, kw_only=True):
    """The store was restored from a backup, and the task's history lacks events that were seen up to position `lost`.

    The person `who` accepted at the time `accepted` that events since the time `since` are lost. `document` is the digest of the document
    with the head that each task had then. `signature` by `key` covers the canonical JSON of these members other than `lost` and
    `signature`, with `statement`: `adjourn/accepted-loss/1`.
    """

    KIND = "history.accepted"
    accepted: str
    document: str
    key: str
    lost: int
    signature: str
    since: str
    who: str


class EntryImported(Data, frozen=True, kw_only=True):
    """An entry of an imported history, as its file has it: nobody verified it.

    `entry` is its event, `at` its time, `decision` whether a call was forwarded or blocked ("": it is no decision on a call).
    """

    KIND = "entry.imported"
    at: str = ""
    decision: Literal["", "forward", "block"] = ""
    entry: str
    reason: str = ""
    tool: str = ""


class MessageRefused(Data, frozen=True, kw_only=True):
    """A client's message could not be decided on, and went nowhere."""

    KIND = "message.refused"
    reason: str
    sample: str = ""
    size: int


class UpstreamRefused(Data, frozen=True, kw_only=True):
    """A request or notification of the server to its client went nowhere, or an answer that held such a request.

    `reason` is `deny_list`, `not_allowed` (a method that the protocol does not have), `confirm_required`, `id_in_use`,
    `too_many` (open requests) or `unreadable`.
    """

    KIND = "upstream.refused"
    method: str
    reason: str
    rule: str = ""


class UpstreamError(Data, frozen=True, kw_only=True):
    """The upstream could not be started."""

    KIND = "upstream.error"
    message: str


class UpstreamCrashed(Data, frozen=True, kw_only=True):
    """The upstream ended without having been asked to."""

    KIND = "upstream.crashed"
    code: int = 0
    signal: int = 0


class UpstreamNonJson(Data, frozen=True, kw_only=True):
    """The upstream wrote a line that is not JSON."""

    KIND = "upstream.non_jsonrpc"
    line: str


class RunStarted(Data, frozen=True, kw_only=True):
    """A task's steps start to be run. `document` and `inputs` are the digests of both texts as they were, `file` is where
    the document stood.
    """

    KIND = "run.started"
    agent: str
    document: str
    file: str = ""
    inputs: str


class RunResumed(Data, frozen=True, kw_only=True):
    """A run continues after it was interrupted or blocked; `finished` calls of it are bound again, and not repeated."""

    KIND = "run.resumed"
    finished: int


class ToolResult(Data, frozen=True, kw_only=True):
    """What a step's call came to. `result` is the digest of the document that holds it as JSON, `bind` its name.

    `step` is the step's position: its number in its body (from 1), behind that of the step whose body it is and a dot; in
    a loop the turn (from 1) stands between them, behind a colon: `2.1`, `3:5.1`.
    """

    KIND = "tool.result"
    bind: str = ""
    call: str
    result: str
    step: str
    tool: str


class MakeResult(Data, frozen=True, kw_only=True):
    """What a model or a handler made for a `make` step, as in `tool.result`; tokens as the provider counts them."""

    KIND = "make.result"
    bind: str
    call: str
    input_tokens: int = 0
    model: str = ""
    output_tokens: int = 0
    result: str
    step: str


class CheckPassed(Data, frozen=True, kw_only=True):
    """The condition of a `check` held. Conditions are cut at 500 characters."""

    KIND = "check.passed"
    condition: str
    step: str


class CheckFailed(Data, frozen=True, kw_only=True):
    """The condition of a `check` did not hold, or is of no supported form: the run is blocked."""

    KIND = "check.failed"
    condition: str
    reason: str
    step: str


class IfTrue(Data, frozen=True, kw_only=True):
    """The condition of an `if` held: its body is run."""

    KIND = "if.true"
    condition: str
    step: str


class IfFalse(Data, frozen=True, kw_only=True):
    """The condition of an `if` did not hold: its body is passed by."""

    KIND = "if.false"
    condition: str
    step: str


class ForStart(Data, frozen=True, kw_only=True):
    """A loop starts: its body is run `count` times."""

    KIND = "for.start"
    count: int
    step: str
    variable: str


class RunFinished(Data, frozen=True, kw_only=True):
    """A run reached its `return`, whose value the document `result` holds, or was blocked at `step` by `reason`.

    A blocked run can be resumed; one that succeeded is over.
    """

    KIND = "run.finished"
    reason: str = ""
    result: str = ""
    status: Literal["success", "blocked"]
    step: str = ""


class PhaseEntered(Data, frozen=True, kw_only=True):
    """A coding session leaves phase `after` (empty: it starts) for `phase` (empty: it is over), at `step` of its procedure.

    `document` is the digest of the document that holds the session as it is now.
    """

    KIND = "phase.entered"
    after: str = ""
    document: str
    phase: str = ""
    reason: str = ""
    step: int = 0


@cache
def prose_of(kind: type[Data]) -> tuple[str, ...]:
    """The members of a kind that hold prose: what people, agents and servers wrote."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type is str and field.name not in EXACT)


def data_of(event: Event) -> Data | None:
    """The typed data of an event; None for a kind not known here. Raises `InvalidError` when it does not fit its kind."""
    kind = REGISTRY.get(event.event)
    if kind is None:
        return None
    try:
        return msgspec.json.decode(event.data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"event {event.seq}: data does not fit {event.event}: {error}") from error


class _RawReadings(msgspec.Struct):
    allowed: list[msgspec.Raw] = []
    settled: list[msgspec.Raw] = []


_decode_readings = msgspec.json.Decoder(_RawReadings).decode


def facts_of(event: Event) -> Sequence[Event]:
    """An event that holds several readings as one event for each fact, with its position and hash; any other as it is.

    For all who show or count what happened. Raises `InvalidError` when the data does not fit its kind.
    """
    if event.event != ToolReadings.KIND:
        return (event,)
    try:
        readings = _decode_readings(event.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"event {event.seq}: data does not fit {event.event}: {error}") from error
    replace = msgspec.structs.replace
    return [
        *(replace(event, by=SYSTEM, data=fact, event=ToolSettled.KIND) for fact in readings.settled),
        *(replace(event, data=fact, event=ToolAllowed.KIND) for fact in readings.allowed),
    ]


def describe() -> str:
    """The registry as Markdown: section 4 of spec/events.md, where a test finds a stale copy."""
    parts = []
    for name, kind in REGISTRY.items():
        meaning = " ".join((kind.__doc__ or "").split())
        prose = prose_of(kind)
        rows = [
            f"| `{field.encode_name}` | {'prose' if field.name in prose else _type_name(field.type)} | {absent} |"
            for field in msgspec.structs.fields(kind)
            for absent in (
                "always present" if field.required else f"`{msgspec.json.encode(default_of(field)).decode()}`",
            )
        ]
        parts.append(
            "\n".join([f"#### `{name}`", meaning, "", "| member | value | when absent |", "|---|---|---|", *rows])
        )
    return "\n\n".join(parts) + "\n"


def _type_name(kind: object) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(kind))
    names: dict[object, str] = {
        str: "text",
        int: "integer",
        bool: "true or false",
        list[str]: "array of texts",
        list[ToolAllowed]: f"array of data of `{ToolAllowed.KIND}`",
        list[ToolSettled]: f"array of data of `{ToolSettled.KIND}`",
    }
    return names[kind]


def default_of(field: msgspec.structs.FieldInfo) -> object:
    """What an absent member means."""
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


if __name__ == "__main__":
    print(describe(), end="")
