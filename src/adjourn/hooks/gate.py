"""The gate: whether a client may run a tool, by the rules of the workspace.

Owns: the order of a decision, the reasons it gives. Must never: allow what could not be written down.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from adjourn.aex.match import canonical_server, meta_tool
from adjourn.aex.policy import Policy
from adjourn.clients.client_process import ClientOptions
from adjourn.clients.hook_client import HookClient
from adjourn.clients.hook_session import ClientCapabilities
from adjourn.clients.options import proxied_servers
from adjourn.errors import AdjournError, RefusedError, sentences
from adjourn.hooks import claude_code
from adjourn.hooks.claude_code import CODEX, GEMINI, Answer, HookRequest
from adjourn.host import process
from adjourn.host.finding import Workspace
from adjourn.policy.calls import READING_VERBS, arguments_digest
from adjourn.policy.contract import BrokenContractError, Contract, read_contract
from adjourn.policy.protected.calls import protected_path
from adjourn.policy.protected.places import ProtectedPlaces, places_of
from adjourn.tasks.decision import Ask, Block, Forward, ToolRequest, protected_refusal, unclear_refusal
from adjourn.text.quoting import one_line, quoted
from adjourn.text.redact import MAX_PREVIEW, READ_PREVIEW, preview

if TYPE_CHECKING:
    from adjourn.tasks.task import Task

_SHELLS = ("sh", "bash", "dash", "zsh")
UNLESS_SAID = ("adjourn",)
"""The servers that count as being behind a proxy if none are named."""


def decide(options: dict[str, str], request: HookRequest, workspace: Workspace) -> Answer:
    """The answer to a client that asks. Raises what kept it from being decided on."""
    tool = claude_code.tool_of(request.tool_name)
    try:
        contract = read_contract(
            workspace.root, options["--policy"], options["--contract"], searched=workspace.searched()
        )
    except BrokenContractError as error:
        if options["--allow-no-policy"] and all(finding.code == "AEX135" for finding in error.findings):
            return _unwritten(call_of(request, places_of(workspace.tree)))
        return Answer("deny", _findings(error))
    hook_client = client_of(options, contract, workspace, request)
    if proxied_tool := left_to_proxy(hook_client, options, request.tool_name):
        # The proxy decides, counts and writes it down. Of its own tools nobody needs to be asked beforehand.
        return Answer("allow", "a tool of adjourn") if meta_tool(proxied_tool) else Answer("")
    answer = _by_rules(
        hook_client, tool, request, proxied=proxied_servers(options), can_ask=options["--client"] != CODEX
    )
    return answer._replace(note="\n".join(hook_client.notes))


def client_of(options: dict[str, str], contract: Contract, workspace: Workspace, request: HookRequest) -> HookClient:
    """The client that this hook answers, from the options, the environment and its request."""
    client = options["--client"]
    client_options = ClientOptions(
        root=workspace.root, tree=workspace.tree, contract=contract, store=options["--store"], task=options["--task"]
    )
    capabilities = ClientCapabilities(settles=bool(options["--settle"]), asks=client != CODEX)
    hook_client = HookClient(client_options, client, _process_of_client(client), capabilities)
    hook_client.follow = partial(follow_transcript, options, request, workspace)
    hook_client.announce = partial(announce_transcript, options, request, workspace)
    return hook_client


def _process_of_client(client: str) -> int:
    """The client's process, 0 if unknown. Claude Code sets it in the environment; Codex is recognized by its program's name, Gemini CLI,
    which Node.js runs, as the process whose shell runs the hook.
    """
    if client == GEMINI:
        return next(
            (ancestor.pid for ancestor in process.ancestors() if process.program(ancestor.pid) not in _SHELLS), 0
        )
    if client == CODEX:
        return next((ancestor.pid for ancestor in process.ancestors() if process.program(ancestor.pid) == CODEX), 0)
    named = os.environ.get("CLAUDE_PID", "")
    return int(named) if named.isdecimal() and named.isascii() else 0


def left_to_proxy(hook_client: HookClient, options: dict[str, str], name: str) -> str:
    """The tool of an MCP server on which a living proxy of the client decides; "" for any other.

    The server must be configured as proxied. That proves nothing, since anybody can choose a server's name: the proxy
    must have listed the very tool, too.
    """
    proxied = proxied_servers(options) or UNLESS_SAID
    server, tool = claude_code.mcp_tool(name, proxied)
    return tool if server in proxied and hook_client.is_listed(tool) else ""


def call_of(request: HookRequest, places: ProtectedPlaces | None = None) -> ToolRequest:
    """The call that a request is about, as rules see it, with which of the protected `places` it would touch.

    The tool of an MCP server goes by the name that the client makes of it, and by its server.
    """
    named, tool = claude_code.mcp_tool(request.tool_name)
    server = canonical_server(named)
    name, arguments = claude_code.tool_of(request.tool_name), claude_code.arguments_of(request)
    effectful = bool(named) or name not in READING_VERBS
    touched = None
    if places is not None:
        touched = protected_path(arguments, places, request.cwd, tool=request.tool_name, reads=not effectful)
    return ToolRequest(
        tool=tool if server else name,
        server=server,
        shown=name,
        digest=arguments_digest(request.tool_input or {}),
        effectful=effectful,
        arguments=preview(request.tool_input or {}, MAX_PREVIEW if effectful else READ_PREVIEW),
        given=arguments,
        protected=touched or "",
        may_clash=True,
    )


def _by_rules(
    hook_client: HookClient, tool: str, request: HookRequest, *, proxied: Collection[str], can_ask: bool
) -> Answer:
    try:
        call = call_of(request, hook_client.places())
        server, _ = claude_code.mcp_tool(request.tool_name)
        if server in proxied and hook_client.lists_as_reading(call):  # its proxy has just ended, and so has the server
            call = msgspec.structs.replace(call, effectful=False)
        decision, rule = hook_client.ask(call, request.cwd, request.tool_use_id, server)
    except BrokenContractError as error:
        return Answer("deny", _findings(error))
    except RefusedError as error:
        return Answer("deny", sentences(error.message, error.remedy))
    if isinstance(decision, Forward):
        return Answer("allow", f"approved: {decision.approval}" if decision.approval else rule)
    if isinstance(decision, Ask):
        reason = f'tool "{tool}" needs confirmation: {decision.cause}'
        if can_ask:
            return Answer("ask", reason)
        return Answer("deny", sentences(reason, "a person can approve it with `adjourn approve`; then repeat the call"))
    if isinstance(decision, Block):
        if decision.reason == "budget_exhausted" and not hook_client.has_proxies():
            # a client without proxies has no aex.checkpoint; a page was written when the budget was spent
            remedy = "stop here: the work is checkpointed; a person can raise the budget in the policy"
            return Answer("deny", sentences(decision.message, remedy))
        return _refused(decision)
    return Answer("deny", f'tool "{tool}" already had this effect, and a hook cannot return its answer')


def _unwritten(call: ToolRequest) -> Answer:
    """Decide without a policy: nothing is counted, and only calls that no policy could allow are refused."""
    if call.protected:
        return _refused(protected_refusal(call))
    if (unclear := unclear_refusal(Policy(), call)) is not None:
        return _refused(unclear)
    return Answer("allow", "there is no policy (--allow-no-policy)")


def _refused(block: Block) -> Answer:
    return Answer("deny", sentences(block.message, block.remedy))


def _findings(error: BrokenContractError) -> str:
    from adjourn.aex.diagnostics import summary

    text = "\n".join(map(summary, error.findings))
    sys.stderr.write(f"{text}\n")
    return f"{error}\n{text}"


# --- what a hook learns from the transcript that its client names: facts for the task's page, read from where the
# last hook stopped


READERS = {"claude-code": "claude", "codex": "codex"}
"""The readers of the clients that have hooks."""
MAX_LOST, MAX_KNOWN, MAX_SHOWN = 600, 60, 8
NEWS = ("mission", "progress", "open_questions")
"""Parts of a page for which a turn without calls has a checkpoint."""


def path_of(options: dict[str, str], request: HookRequest, workspace: Workspace) -> str:
    """The transcript that a request names; "" for none that may be read. One in the workspace may be an agent's own."""
    path = request.transcript_path
    if options["--no-transcripts"] or not isinstance(path, str) or options["--client"] not in READERS:
        return ""
    if not os.path.isabs(path) or not path.endswith(".jsonl") or "\0" in path:
        return ""
    real = os.path.realpath(os.path.dirname(path))
    is_inside = any(f"{real}/".startswith(f"{tree.rstrip('/')}/") for tree in (workspace.root, workspace.tree))
    return "" if is_inside else os.path.join(real, os.path.basename(path))


def follow_transcript(options: dict[str, str], request: HookRequest, workspace: Workspace, task: Task) -> bool:
    """Take in what a transcript has more than the last hook read. Returns whether the page says something else because of it."""
    path = path_of(options, request, workspace)
    with suppress(AdjournError, OSError, ValueError):
        if path and (size := os.stat(path, follow_symlinks=False).st_size):
            return _take_in(READERS[options["--client"]], path, size, workspace.tree, task)
    return False


def _take_in(client: str, path: str, size: int, tree: str, task: Task) -> bool:
    from adjourn.checkpoints.transcript_facts import keep_facts, read_facts
    from adjourn.host.own_settings import read_waivers

    known = read_facts(task.store, task.id)
    if (known.file, known.end) == (path, size) or read_waivers().ignores(tree):
        return False
    from adjourn.sessions.following import follow  # only for a transcript that grew

    facts = follow(client, path, tree, known, task.clock())
    if facts is known:
        return False
    keep_facts(task.store, task.id, facts)
    return any(getattr(known.report, name) != getattr(facts.report, name) for name in NEWS)


def announce_transcript(options: dict[str, str], request: HookRequest, workspace: Workspace, task: Task) -> None:
    """Keep which transcript the session writes, so that the next session can read it where this one is killed."""
    path = path_of(options, request, workspace)
    if not path:
        return
    from adjourn.checkpoints.transcript_facts import keep_facts, read_facts

    known = read_facts(task.store, task.id)
    if known.latest != path:
        client = READERS[options["--client"]]
        keep_facts(task.store, task.id, msgspec.structs.replace(known, latest=path, latest_client=client))


def own_task(options: dict[str, str], request: HookRequest, workspace: Workspace, client: HookClient) -> str:
    """The task of the conversation that the client continues or compacts, which names the same transcript again; "" for none."""
    from adjourn.checkpoints.transcript_facts import latest_transcripts

    path = path_of(options, request, workspace) if request.source in ("resume", "compact") else ""
    return latest_transcripts(client.store).get(path, "") if path else ""


def catch_up(options: dict[str, str], workspace: Workspace, task: Task) -> str:
    """Take in what the session before wrote until it was killed. Returns its transcript, "" for none."""
    from adjourn.checkpoints.transcript_facts import read_facts

    known = read_facts(task.store, task.id)
    if options["--no-transcripts"] or not known.latest:
        return ""
    with suppress(AdjournError, OSError, ValueError):
        if size := os.stat(known.latest, follow_symlinks=False).st_size:
            _take_in(known.latest_client, known.latest, size, workspace.tree, task)
    return known.latest


def transcripts_shown(client: HookClient) -> set[str]:
    """The transcripts of the tasks that a new session learns of by their names."""
    from adjourn.checkpoints.transcript_facts import read_facts
    from adjourn.handover.pending import listed_tasks

    return {read_facts(client.store, task).latest for task in listed_tasks(client)}


def lost_words(task: Task, brief: str) -> str:
    """What a person asked for and neither the summary of the client's compaction nor the `brief` has; "" for nothing."""
    from adjourn.checkpoints.transcript_facts import read_facts
    from adjourn.sessions.claims import lost_orders
    from adjourn.sessions.following import kept_story

    story = kept_story(read_facts(task.store, task.id))
    texts = [one_line(prompt.text, MAX_LOST) for prompt in lost_orders(story)] if story is not None else []
    lost = [text for text in texts if text[:MAX_KNOWN] not in brief]
    if not lost:
        return ""
    shown = lost[:1] + lost[1:][-MAX_SHOWN:]
    return "\n".join(
        ["adjourn: the person asked for this, in this order; the compaction's summary lacks it:", *map(quoted, shown)]
    )
