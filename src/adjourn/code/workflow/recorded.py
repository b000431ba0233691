"""What the journal has of a client: the commands of its own shell, from hooks, those of shell servers behind the proxy, and what is wrong."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from typing import Any

import msgspec

from adjourn.checkpoints.plans import gone_by_task
from adjourn.code.workflow.request import RecordedCommand
from adjourn.errors import AdjournError, InvalidError
from adjourn.host.clock import now
from adjourn.host.keys import reading_secret
from adjourn.log import kinds
from adjourn.log.event import decode, milliseconds
from adjourn.setup.checks import hook_commands
from adjourn.store.base import Store
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.task import Task, tasks_of
from adjourn.tasks.troubles import open_troubles
from adjourn.text.command_lines import is_shell

_OF_HOOKS = ("shell.exec", "file.write")
_RECENT = 1_000
"""Events of a task that are read, the newest."""
_HOOKED_CLIENTS = {".claude/": "claude", ".codex/": "codex"}
_KEYS = ("command", "cmd", "script")
_BACKGROUND = ("run_in_background", "is_background", "background")
_CUT = re.compile(
    r'\{(?:"\w+":\s*(?:"(?:[^"\\]|\\.)*"|[\w.+-]+),\s*){0,9}"(?:command|cmd|script)":\s*"((?:[^"\\]|\\.)*)("?)'
)
"""A command in arguments that were cut: a member of the object itself, not of one within it, which an agent may write."""

_TASKS, _TROUBLES = 20, 10
"""How many tasks are looked at for troubles, and how many troubles are shown."""


def recorded_commands(store: Store, root: str, client: str, since: str) -> list[RecordedCommand] | None:
    """The commands that were recorded in a workspace since a time, in order; None if no client of this kind is recorded.

    A client is recorded if the workspace has hooks for it, or if the journal has such calls.
    """
    is_recorded = any(
        relative.startswith(folder) and name in client.casefold()
        for relative, _ in hook_commands(root)
        for folder, name in _HOOKED_CLIENTS.items()
    )
    began = _milliseconds(since)
    commands: list[RecordedCommand] = []
    for task, head in tasks_of(store).items():
        if head.seq < 0 or _milliseconds(decode(next(store.read(task, head.seq)).data).timestamp) < began:
            continue
        running: dict[str, str] = {}
        for entry in verified_entries_from(store, task, head.seq - _RECENT, head):
            event = decode(entry.data)
            data = kinds.data_of(event)
            if (
                isinstance(data, kinds.ToolAllowed)
                and data.effectful
                and (is_shell(data.tool) or data.tool in _OF_HOOKS)
            ):
                command = command_in(data.arguments)
                is_recorded |= bool(command or data.tool in _OF_HOOKS) and _milliseconds(event.timestamp) >= began
                running[data.call] = command
            elif isinstance(data, kinds.ToolSettled) and (command := running.pop(data.call, "")):
                if data.outcome == "ok" and not data.answer:
                    continue  # nobody saw how it ended: the client's turn was over
                commands.append(RecordedCommand(command, data.outcome == "ok", _milliseconds(event.timestamp)))
    recent = [command for command in commands if command.ended_ms >= began]
    return sorted(recent, key=lambda command: command.ended_ms) if is_recorded else None


def known_troubles(store: Store, root: str) -> list[str]:
    """What is known to be wrong with the newest open tasks of a workspace, one line each with its next step, as the hand-over has it."""
    gone, lines = gone_by_task(root), list[str]()
    for name in list(reversed(tasks_of(store)))[:_TASKS]:
        with suppress(AdjournError):  # one that cannot be read hides no other
            ledger = Task(store, name, clock=now, secret=reading_secret()).ledger
            lines += (f"{name}: {trouble.text}" for trouble in open_troubles(ledger, gone.get(name, ())))
    more = len(lines) - _TROUBLES
    return lines if more <= 0 else [*lines[:_TROUBLES], f"and {more} more: `adjourn inbox` lists them"]


def command_in(arguments: str) -> str:
    """The command line in the recorded arguments of a shell, "" for none. If they were cut, so may it be: it ends with an ellipsis."""
    with suppress(msgspec.DecodeError, RecursionError):
        members = msgspec.json.decode(arguments)
        return _command_line(members) if isinstance(members, dict) else ""
    if (match := _CUT.match(arguments)) is None:
        return ""
    text = match[1].removesuffix("…")
    try:
        command: str = msgspec.json.decode(f'"{text}"', type=str)
    except msgspec.DecodeError:  # cut inside an escape
        command = text
    return command if match[2] else f"{command}…"


def _command_line(members: dict[str, Any]) -> str:
    """A command is a text, or a list of words, or a program with a list `args`."""
    if any(members.get(key) for key in _BACKGROUND):
        return ""  # the answer comes before its end
    value = next((members[key] for key in _KEYS if key in members), "")
    words = members.get("args", []) if isinstance(value, str) else value
    if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
        return ""
    return " ".join(filter(None, (value, shlex.join(words)))) if isinstance(value, str) else shlex.join(words)


def _milliseconds(stamp: str) -> int:
    try:
        return milliseconds(stamp)
    except InvalidError:  # a checkpoint of another make
        return 0
