"""Events of a client: a session starts, a person asks, a call ended, the context is about to be compacted, a turn or the session ended.

Owns: what each event does. Must never: block the client, or print without need.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from adjourn.clients.hook_client import HookClient
from adjourn.clients.options import proxied_servers
from adjourn.errors import AdjournError, HeldError, IntegrityError, sentences
from adjourn.hooks.claude_code import HookRequest
from adjourn.hooks.gate import call_of, client_of, left_to_proxy, own_task
from adjourn.host.clock import now
from adjourn.host.finding import Workspace
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import timestamp
from adjourn.policy.contract import read_contract
from adjourn.text.command_lines import exit_code_of
from adjourn.text.fitting import fit_text
from adjourn.text.quoting import clean, first_line, spoken
from adjourn.text.redact import without_secrets
from adjourn.text.times import ago

COMPACTION, TURN, HELPER = "before-compaction", "end-of-turn", "end-of-helper"
"""Triggers of checkpoints. At the end of a session the trigger is the reason that the client gives."""
UNFINISHED = (
    "this workspace has unfinished work (show it: adjourn resume); this session starts a new task unless it is resumed"
)
"""How the text of a response begins that states it."""
CONTINUES = "this conversation continues its task {}: same rules, same spent budget (show it: adjourn status)"
PROMPT_BYTES = 2048
"""What is kept of the person's first prompt."""


class EventText(NamedTuple):
    """What an event has to say: to the person, and to the agent."""

    person: str = ""
    agent: str = ""


NO_TEXT = EventText()
Handler = Callable[[dict[str, str], HookRequest, Workspace], EventText]


def _client(options: dict[str, str], workspace: Workspace, request: HookRequest) -> HookClient:
    contract = read_contract(workspace.root, options["--policy"], options["--contract"], searched=workspace.searched())
    return client_of(options, contract, workspace, request)


def _began(options: dict[str, str], request: HookRequest, workspace: Workspace) -> EventText:
    """Return the brief if there is work to resume, or say that the history was changed."""
    from adjourn.handover.session_brief import HEADING, NewSession, brief_new_session
    from adjourn.hooks.gate import catch_up, lost_words, transcripts_shown

    client = _client(options, workspace, request)
    servers = proxied_servers(options)
    if servers:
        client.claim()
    continues = client.continues(own_task(options, request, workspace, client))
    session = client.session()
    client.task.forget_prompt()  # of a conversation before
    try:
        session.task.check_history()
    except IntegrityError as error:
        return EventText(agent=sentences(error.message, error.remedy))
    is_forgetful = request.source in ("clear", "compact")
    is_compacted = request.source == "compact" and (continues or session.id in session.task.ledger.sessions)
    if is_compacted:
        session.observe()
    is_new = request.source == "startup" and not options["--no-transcripts"]
    known = catch_up(options, workspace, session.task) if is_new else ""
    new = NewSession(session.task.id, servers, int(options["--brief-bytes"]), is_forgetful, continues)
    brief = brief_new_session(client, new)
    shown = {known} if brief else set()
    elsewhere = _left_unfinished(options, request, workspace, shown | transcripts_shown(client)) if is_new else ""
    lost = lost_words(session.task, brief) if is_compacted else ""
    person = UNFINISHED if brief.startswith(HEADING) else CONTINUES.format(session.task.id) if continues else ""
    return EventText(person=person, agent="\n".join(filter(None, (brief, lost, elsewhere))))


_MAX_WORDS = 200
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{4,80}")
"""What may stand in a command that is proposed: an id comes from a file that an agent can write."""


def began_outside(options: dict[str, str], request: HookRequest, workspace: Workspace) -> EventText:
    """Return what transcripts say where there is no workspace: nothing is decided or recorded there."""
    is_read = request.source == "startup" and not options["--no-transcripts"]
    return EventText(agent=_left_unfinished(options, request, workspace, set())) if is_read else NO_TEXT


def _left_unfinished(options: dict[str, str], request: HookRequest, workspace: Workspace, known: set[str]) -> str:
    """A line about each session that stopped unfinished in this folder, as its own transcript says; "" for none.

    `known` are the transcripts of the tasks that the brief names.
    """
    from adjourn.hooks.gate import READERS
    from adjourn.sessions import catalog
    from adjourn.sessions.texts import Secrets

    client, own = options["--client"], request.session_id
    lines = []
    with suppress(AdjournError, OSError):
        own = own if isinstance(own, str) else ""
        for file in catalog.left_unfinished(workspace.tree, READERS.get(client, client), own, known):
            if not _SESSION_ID.fullmatch(file.id):
                continue
            words = spoken("person", Secrets([file.title]).hide(file.title)[:_MAX_WORDS])
            when = ago(timestamp(int(file.stamp * 1000)), now())
            lines.append(
                f"adjourn: {catalog.reader_of(file).name} left a session in this folder unfinished, {when}; {words or 'no words'}. "
                f"What it did, and what of that is proved: {catalog.how_to_continue(file)}"
            )
    return "\n".join(lines)


def _asked(options: dict[str, str], request: HookRequest, workspace: Workspace) -> EventText:
    """Open the client's session with what the person asks for. A session that is open knows it, or began without it.

    Where other work is pending the person may mean that: what is asked for is kept until the client starts a task of its own.
    """
    from adjourn.handover.session_brief import find_pending_work
    from adjourn.hooks.gate import announce_transcript
    from adjourn.sessions.texts import persons_words

    if options["--no-prompt"] or not isinstance(request.prompt, str) or not request.prompt.strip():
        return NO_TEXT
    client = _client(options, workspace, request)
    session = client.session()
    words = persons_words(request.prompt.strip())[0]
    prompt = fit_text(without_secrets(clean(words)).strip(), PROMPT_BYTES, measure=_bytes)
    new = session.task.ledger.seq < 0
    if new and find_pending_work(client, session.task.id) is not None:
        client.task.keep_prompt(prompt)
        return NO_TEXT
    session.prompt = prompt
    with suppress(HeldError):  # another client works on the task; its first call says so
        session.ensure_open()
        announce_transcript(options, request, workspace, session.task)
        client.keep(session)
    return NO_TEXT


def _bytes(text: str) -> int:
    return len(text.encode())


def _ended(outcome: Literal["ok", "tool-error"]) -> Handler:
    """The handler of a call that ended with this outcome."""

    def settle(options: dict[str, str], request: HookRequest, workspace: Workspace) -> EventText:
        if not options["--settle"]:
            return NO_TEXT  # the call was settled when it was allowed
        client = _client(options, workspace, request)
        if left_to_proxy(client, options, request.tool_name):
            return NO_TEXT  # the proxy settles it
        session = client.session()
        call = call_of(request)
        # A client without an event for failed calls, as Codex is, reports a failed command as one that ended.
        is_command = outcome == "ok" and call.shown == "shell.exec"
        exit_code = exit_code_of(bytes(request.tool_response)) if is_command else 0
        settled = kinds.ToolSettled(
            answer=digest(bytes(request.tool_response)) if request.tool_response else "",
            call="",
            message=_message(request) or (f"exit code {exit_code}" if exit_code else ""),
            milliseconds=_milliseconds(request.duration_ms),
            outcome="no-answer" if request.is_interrupt is True else "tool-error" if exit_code else outcome,
        )
        if not session.settle_named(call, request.tool_use_id, settled):
            return EventText(person="\n".join(session.notes))
        notice = "" if options["--no-budget-notice"] else session.budget_notice(client.has_proxies)
        client.keep(session)
        return EventText("\n".join(session.notes), notice)

    return settle


def _message(request: HookRequest) -> str:
    """Why a call failed, as the client says it."""
    if request.is_interrupt is True:
        return "interrupted"
    return first_line(request.error) if isinstance(request.error, str) else ""


def _milliseconds(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**53 else 0


def _checkpoints(trigger: str) -> Handler:
    """Make a checkpoint."""

    def handle(options: dict[str, str], request: HookRequest, workspace: Workspace) -> EventText:
        session = _client(options, workspace, request).session()
        session.checkpoint(trigger)
        return EventText(person="\n".join(session.notes))

    return handle


def _turn_over(options: dict[str, str], request: HookRequest, workspace: Workspace) -> EventText:
    session = _client(options, workspace, request).session()
    if not request.background_tasks:  # work in the background may still be interrupted
        session.turn_over()
    session.checkpoint(TURN)
    return EventText(person="\n".join(session.notes))


def _over(options: dict[str, str], request: HookRequest, workspace: Workspace) -> EventText:
    reason = request.reason if isinstance(request.reason, str) and request.reason else "other"
    session = _client(options, workspace, request).session()
    session.end(f"client-{reason[:40]}")
    return EventText(person="\n".join(session.notes))


HANDLERS: dict[str, Handler] = {
    "SessionStart": _began,
    "UserPromptSubmit": _asked,
    "PostToolUse": _ended("ok"),
    "PostToolUseFailure": _ended("tool-error"),
    "PreCompact": _checkpoints(COMPACTION),
    "Stop": _turn_over,
    "SubagentStop": _checkpoints(HELPER),
    "SessionEnd": _over,
}
"""The handler of each event."""
