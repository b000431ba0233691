"""The brief of pending work for a new session that has not asked for it: a summary, how to resume it, where the rest is.

The brief is bounded, fenced, and of a trusted signer: of any other checkpoint, the session learns the name only. A ref
records that a session was shown it, since an event would come after the task's last checkpoint (`checkpoints.save`). The event
`checkpoint.resumed` records that the work was resumed.

Owns: the text, the ref `shown/TASK`. Must never: resume anything itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from adjourn.checkpoints import document
from adjourn.clients import ClientContext
from adjourn.errors import ConflictError
from adjourn.handover.announced import find_pending_work, untrusted_work
from adjourn.handover.composing import Reader, hand_over
from adjourn.handover.importing import is_trusted
from adjourn.handover.pending import PendingWork, notice, older_work
from adjourn.handover.rendering import ROOM, to_text
from adjourn.handover.resumption import reader_of
from adjourn.log import decode, kinds, timestamp
from adjourn.tasks import Task

NOTICE_BYTES = 2 * 1024
"""Clients cut the instructions of a server."""
MAX_LATER = 500
"""Events after a checkpoint that are searched for its resume."""


class NewSession(NamedTuple):
    """The session that reads the brief: its task so far, the servers through which it can call `aex.resume`, and how many bytes it
    reads.
    """

    task: str = ""
    servers: Sequence[str] = ()
    room: int = ROOM


def brief_new_session(context: ClientContext, session: NewSession) -> str:
    """The brief of a client's pending work, at most `session.room` bytes; "" without any. Records that it was shown."""
    found = find_pending_work(context, session.task)
    if found is None:
        return older_work(context) or untrusted_work(context)
    text = _text(found, session, context)
    _mark_shown(found)
    return text


def instructions(context: ClientContext, found: PendingWork, tool: str) -> str:
    """What an agent receives whose server speaks first: the notice, and what fits of the hand-over, at most `NOTICE_BYTES`.

    `tool` is how the client spells `aex.resume`. Of an untrusted signer, it is the notice alone.
    """
    task, made = found
    begin = notice(found, tool)
    if not is_trusted(task.store, made):
        return begin
    document(task.store, made)
    handover = hand_over(task, made, _reader(context, task))
    return to_text(handover, NOTICE_BYTES, [begin], f"The rest: {tool}.")


def _reader(context: ClientContext, task: Task) -> Reader:
    options = context.options
    return reader_of(options.root, task, context.group, options.contract, options.page_tree)


# --- the text


def _text(found: PendingWork, session: NewSession, context: ClientContext) -> str:
    task, made = found
    name = made.data.name
    begin = [
        "# Unfinished work in this workspace",
        f'Another session stopped at its checkpoint "{name}", made {made.event.timestamp}.',
        _how_to_resume(name, session, same=session.task == task.id),
    ]
    if not is_trusted(task.store, made):
        return "\n".join(
            [*begin, f"Nothing else is shown: it is signed by {made.data.key}, which is not trusted here."]
        )
    if _was_shown(found):
        begin.append("An earlier session was shown this, and did not resume it.")
    document(task.store, made)
    handover = hand_over(task, made, _reader(context, task))
    end = f"The rest: {_the_rest(name, session, handover.page)}."
    return to_text(handover, session.room, begin, end)


def _how_to_resume(name: str, session: NewSession, *, same: bool) -> str:
    if session.servers:
        tools = " or ".join(f"mcp__{server}__aex_resume" for server in session.servers[:5])
        return (
            f'If you are asked to continue that work, call aex.resume ({tools}) with {{"name": "{name}"}} before any '
            "other tool: it keeps its spent budget and its calls in doubt. Otherwise ignore it."
        )
    if same:
        return "Your calls count in the same budget. If you are asked to continue that work, continue it; do not start over."
    return "To continue it under its budget, a person starts this client behind `adjourn proxy`."


def _the_rest(name: str, session: NewSession, page: str) -> str:
    ways = [f"`adjourn resume {name}` in a shell"]
    if session.servers:
        ways.insert(0, 'aex.resume, with the "more" of its answer for older history, and adjourn.record')
    if page:
        ways.append(f"the page {page}")
    return "; ".join(ways)


# --- whether it was shown, and resumed


def _mark_shown(found: PendingWork) -> None:
    """Record that a session was shown the brief, which it may not have read."""
    store, name = found.task.store, f"shown/{found.task.id}"
    with suppress(ConflictError):  # another session was shown it at the same time
        stamp = timestamp(found.task.clock())
        store.swap(name, f"{found.checkpoint.hash} {stamp}", expect=store.ref(name))


def _was_shown(found: PendingWork) -> bool:
    shown = (found.task.store.ref(f"shown/{found.task.id}") or "").partition(" ")[0]
    return shown == found.checkpoint.hash and not any(_resumed(found))


def _resumed(found: PendingWork) -> Iterator[bool]:
    """For each resume after the checkpoint, whether it was of this checkpoint."""
    after = found.checkpoint.event.seq + 1
    for entry in found.task.store.read(found.task.id, after, after + MAX_LATER):
        event = decode(entry.data)
        if event.event == kinds.CheckpointResumed.KIND:
            data = kinds.data_of(event)
            yield isinstance(data, kinds.CheckpointResumed) and data.checkpoint == found.checkpoint.hash
