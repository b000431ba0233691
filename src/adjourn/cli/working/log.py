"""`adjourn log`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
import msgspec

from adjourn.cli.shared.context import CommandContext, at_store, example
from adjourn.cli.shared.output import cut, safe, say
from adjourn.cli.shared.task_view import current_task
from adjourn.cli.shared.terminal import width
from adjourn.cli.shared.times import local
from adjourn.errors import InvalidError
from adjourn.log import decode
from adjourn.store import Head
from adjourn.tasks import checked
from adjourn.text import visible_json

if TYPE_CHECKING:
    from adjourn.log import Event
    from adjourn.store import Entry

_SHOWN = (
    "tool", "method", "reason", "outcome", "name", "client", "goal", "message", "line", "arguments", "used", "limit",
    "approval", "cause", "via", "lost", "to", "rule", "trigger", "description", "source", "calls", "code", "signal", "note",
    "entry", "decision", "at", "call", "milliseconds", "agent", "status", "condition", "variable", "count", "phase", "step", "leg",
)  # fmt: skip
_BARE = (
    "tool", "method", "reason", "outcome", "name", "client", "goal", "message", "line", "arguments", "agent", "status",
    "condition", "variable", "phase", "entry", "decision",
)  # fmt: skip
WATCH_SECONDS = 1.0


@click.command(epilog=example("adjourn log --tail 20", "adjourn log 20261121 --json | jq .event"))
@click.argument("task", default="")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Show only the last N events.")
@click.option("--follow", is_flag=True, help="Follow new events until Ctrl-C.")
@click.option("--full", is_flag=True, help="Do not cut long lines.")
@click.option("--json", "as_json", is_flag=True, help="Print the stored events unchanged, one per line.")
@at_store
def log(
    context: CommandContext, task: str, *, tail: int | None, follow: bool, full: bool, as_json: bool
) -> None:
    """Show the history of a task: position, local time, who, event, and details.

    Without TASK, the same task as `adjourn status`. With --json each line is an event's stored bytes: the SHA-256 of the line
    is its hash.
    """
    found = current_task(context, task)
    store, head = context.store, Head(found.ledger.seq, found.ledger.hash)
    start = 0 if tail is None else max(0, head.seq + 1 - tail)
    room = 0 if full else width()
    _show(checked(store, found.id, start, head), start, room, as_json=as_json)
    while follow:
        sys.stdout.flush()
        store.watch(found.id, head, WATCH_SECONDS)
        newer = Head(found.refresh().seq, found.ledger.hash)
        if newer != head:
            _show(checked(store, found.id, head.seq + 1, newer), head.seq + 1, room, as_json=as_json)
            head = newer


def _show(entries: Iterable[Entry], start: int, room: int, *, as_json: bool) -> None:
    for seq, entry in enumerate(entries, start):
        if as_json:
            _raw(entry.data)
            continue
        try:
            line = _line(decode(entry.data))
        except InvalidError:
            line = f"{seq:>5}  cannot be read as an event; run `adjourn verify`"
        say(cut(line, room) if room else line)


def _raw(data: bytes) -> None:
    if not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(data + b"\n")
        return
    text = data.decode(errors="replace")  # the same JSON, with what a terminal would obey escaped
    print(visible_json(text))


def _line(event: Event) -> str:
    who = safe(event.by.id)[:12]
    return f"{event.seq:>5}  {local(event.timestamp)[:19]}  {who:<12} {safe(event.event):<18} {_about(event)}".rstrip()


def _about(event: Event) -> str:
    try:
        data = msgspec.json.decode(event.data, type=dict[str, str | int | bool | list[str]])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    parts = []
    for name in _SHOWN:
        value = data.get(name)
        if value not in (None, "", [], 0):
            text = safe(", ".join(value) if isinstance(value, list) else str(value))
            parts.append(text if name in _BARE else f"{name}={text}")
    return " ".join(parts)
