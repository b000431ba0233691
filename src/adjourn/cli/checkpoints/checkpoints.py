"""`adjourn checkpoints`."""

from __future__ import annotations

from typing import Any

import click

from adjourn.checkpoints import document, find, folder, trusted_signer
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.lookup import checkpoint_folders
from adjourn.cli.shared.output import complain, described, say, say_json, say_table
from adjourn.cli.shared.sessions import all_sessions
from adjourn.errors import AdjournError, IntegrityError
from adjourn.text import ago


@click.command(epilog=example("adjourn checkpoints", "adjourn checkpoints --json"))
@click.argument("task", default="")
@at_store
@for_machines
def checkpoints(context: CommandContext, task: str, *, as_json: bool) -> int:
    """List the newest checkpoint of each name, newest first, of all tasks or of TASK.

    SIGNER is the name of the trusted key, "unknown" for another, BROKEN if its signature is invalid. A folder that came
    by git or from a colleague, and was not imported yet, is listed as "(folder)". The cognitive sessions of programs follow. Exit code 1 when one is broken.
    """
    names = checkpoint_folders(context.root)
    store = context.store_or_none() if names else context.store
    sessions, unreadable = all_sessions(store) if store and not task else ([], [])
    told, broken = [], []
    for name in sorted(
        {ref.removeprefix("checkpoint/") for ref in store.refs("checkpoint/")} if store else ()
    ):
        try:
            told.append(_of_store(context, name))
        except AdjournError as error:
            broken.append((name, error))
    known = {one["name"] for one in told} | {name for name, _ in broken}
    told += [one for name in names if name not in known and (one := _of_folder(context.root, name))]
    if task:
        chosen = context.task(task).id
        told = [one for one in told if one["task"] == chosen]
    told.sort(key=lambda one: one["timestamp"], reverse=True)
    if as_json:
        say_json(
            checkpoints=told,
            sessions=sessions,
            broken=[{"name": name, "reason": str(failure)} for name, failure in [*broken, *unreadable]],
        )
    elif told:
        say_table(
            ("NAME", "TASK", "WHEN", "USED", "SIGNER", "DESCRIPTION"),
            [_row(one, context.now) for one in told],
        )
    elif not broken and not sessions and not unreadable:
        say("no checkpoints yet")
    if sessions and not as_json:
        say_table(
            ("SESSION", "WHEN", "CHECKPOINTS", "FACTS", "GOAL"),
            [_session_row(one, context.now) for one in sessions],
        )
    for name, failure in unreadable:
        complain(f"session {name}: {failure.message}", failure.remedy)
    for name, failure in broken:
        complain(f"checkpoint {name}: {failure.message}", "run `adjourn verify`")
    return 1 if broken or unreadable or any(one["signer"] == "BROKEN" for one in told) else 0


def _row(one: dict[str, Any], now: int) -> tuple[str, ...]:
    used = "" if one["callsUsed"] is None else str(one["callsUsed"])
    when = ago(one["timestamp"], now)
    return one["name"], one["task"], when, used, one["signer"] or "unknown", _described(one)


def _session_row(one: dict[str, Any], now: int) -> tuple[str, ...]:
    when = ago(one["timestamp"], now)
    return one["session"], when, str(len(one["checkpoints"])), str(one["facts"]), one["goal"]


def _described(one: dict[str, Any]) -> str:
    trusted = one["signer"] if one["signer"] not in ("BROKEN", "(folder)") else ""
    return described(one["description"], trusted, "")


def _of_store(context: CommandContext, name: str) -> dict[str, Any]:
    found = find(context.store, name)
    try:
        signer = trusted_signer(found)
    except IntegrityError:
        signer = "BROKEN"
    try:
        stated = document(context.store, found)
    except IntegrityError:
        stated = {}
    return {
        "name": name,
        "task": found.event.task,
        "timestamp": found.event.timestamp,
        "callsUsed": stated.get("callsUsed"),
        "budget": stated.get("budget"),
        "signer": signer,
        "key": found.data.key,
        "description": found.data.description,
        "hash": found.hash,
        "seq": found.event.seq,
        "source": "store",
    }


def _of_folder(root: str, name: str) -> dict[str, Any] | None:
    try:
        file = folder.read_published(folder.path_of(root, name)).file
    except AdjournError:
        return None
    extra = file.adjourn
    return {
        "name": name,
        "task": extra.task if extra else "",
        "timestamp": file.timestamp,
        "callsUsed": file.calls_used,
        "budget": file.budget,
        "signer": "(folder)",
        "key": "",
        "description": file.description,
        "hash": extra.hash if extra else "",
        "seq": extra.seq if extra else None,
        "source": "folder",
    }
