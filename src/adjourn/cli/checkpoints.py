"""`adjourn checkpoint list`, `show` and `resume`: reading the checkpoints that can be resumed."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from adjourn.checkpoints import folder
from adjourn.checkpoints.attachments import imported_history
from adjourn.checkpoints.checkpoint import document, document_of, find, known_to, trusted_signer
from adjourn.cli import resume_view
from adjourn.cli.context import (
    CHECKPOINT_NAME,
    TASK_NAME,
    CommandContext,
    at_store,
    example,
    flag,
    for_machines,
    text_option,
)
from adjourn.cli.lookup import (
    FoundCheckpoint,
    all_sessions,
    checkpoint_folders,
    find_checkpoint,
    only_checkpoint,
    session_facts,
    session_ids,
    show_session,
)
from adjourn.cli.output import (
    complain,
    described,
    imported_line,
    safe,
    safe_lines,
    say,
    say_facts,
    say_json,
    say_prose,
    say_table,
)
from adjourn.errors import AdjournError, IntegrityError
from adjourn.handover.rendering import MAX_ROOM, MIN_ROOM, ROOM
from adjourn.log.event import decode
from adjourn.log.kinds import data_of
from adjourn.store.base import Head
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.text.times import ago, local


@click.command(epilog=example("adjourn checkpoint list", "adjourn checkpoint list --json"))
@click.argument("task", default="", type=TASK_NAME)
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
    rows, broken = [], []
    for name in sorted({ref.removeprefix("checkpoint/") for ref in store.refs("checkpoint/")} if store else ()):
        try:
            rows.append(_of_store(context, name))
        except AdjournError as error:
            broken.append((name, error))
    names_seen = {row["name"] for row in rows} | {name for name, _ in broken}
    rows += [row for name in names if name not in names_seen and (row := _of_folder(context.root, name))]
    if task:
        chosen = context.task(task).id
        rows = [row for row in rows if row["task"] == chosen]
    rows.sort(key=lambda row: row["timestamp"], reverse=True)
    if as_json:
        say_json(
            checkpoints=rows,
            sessions=sessions,
            broken=[{"name": name, "reason": str(failure)} for name, failure in [*broken, *unreadable]],
        )
    elif rows:
        say_table(("NAME", "TASK", "WHEN", "USED", "SIGNER", "DESCRIPTION"), [_row(row, context.now) for row in rows])
    elif not broken and not sessions and not unreadable:
        say("no checkpoints yet")
    if sessions and not as_json:
        say_table(
            ("SESSION", "WHEN", "CHECKPOINTS", "FACTS", "GOAL"),
            [
                (
                    row["session"],
                    ago(row["timestamp"], context.now),
                    str(len(row["checkpoints"])),
                    str(row["facts"]),
                    row["goal"],
                )
                for row in sessions
            ],
        )
    for name, failure in unreadable:
        complain(f"session {name}: {failure.message}", failure.remedy)
    for name, failure in broken:
        complain(f"checkpoint {name}: {failure.message}", "run `adjourn verify`")
    return 1 if broken or unreadable or any(row["signer"] == "BROKEN" for row in rows) else 0


def _row(row: dict[str, Any], now: int) -> tuple[str, ...]:
    used = "" if row["callsUsed"] is None else str(row["callsUsed"])
    trusted = row["signer"] if row["signer"] not in ("BROKEN", "(folder)") else ""
    description = described(row["description"], trusted, "")
    return row["name"], row["task"], ago(row["timestamp"], now), used, row["signer"] or "unknown", description


def _of_store(context: CommandContext, name: str) -> dict[str, Any]:
    checkpoint = find(context.store, name)
    try:
        signer = trusted_signer(checkpoint)
    except IntegrityError:
        signer = "BROKEN"
    try:
        stated = document(context.store, checkpoint)
    except IntegrityError:
        stated = {}
    return {
        "name": name,
        "task": checkpoint.event.task,
        "timestamp": checkpoint.event.timestamp,
        "callsUsed": stated.get("callsUsed"),
        "budget": stated.get("budget"),
        "signer": signer,
        "key": checkpoint.data.key,
        "description": checkpoint.data.description,
        "hash": checkpoint.hash,
        "seq": checkpoint.event.seq,
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


# --- `adjourn resume`


@click.command(epilog=example("adjourn resume fix-auth", "adjourn resume fix-auth --json"))
@click.argument("name", default="", type=CHECKPOINT_NAME)
@text_option("--more CURSOR", "Show older history: N is the `more` of an earlier answer.")
@click.option(
    "--brief-bytes",
    type=click.IntRange(MIN_ROOM, MAX_ROOM),
    default=ROOM,
    metavar="BYTES",
    help=f"Limit the answer to this size (default: {ROOM}).",
)
@flag(
    "--verdict",
    "Say what to do next in this workspace, for scripts: exit code 0 resume, 4 nothing, 5 wait, 6 settle, 7 ask.",
)
@at_store
@for_machines
def resume(
    context: CommandContext, name: str, *, more: str, brief_bytes: int, verdict: bool, as_json: bool
) -> int | None:
    """Show what a session that resumes the checkpoint NAME will receive. Starts no session and writes nothing.

    Without NAME: the only open task, or a list of all, the most important first.

    To resume, start any MCP client behind `adjourn proxy` and let it call the tool `aex.resume`. Exit code 3 when that would be
    refused for an untrusted signer.
    """
    return resume_view.show(context, name, more=more, room=brief_bytes, verdict=verdict, as_json=as_json)


# --- `adjourn checkpoint show`


@click.command(epilog=example("adjourn checkpoint show fix-auth", "adjourn checkpoint show fix-auth --policy"))
@click.argument("name", default="", type=CHECKPOINT_NAME)
@flag("--policy", "Show the texts of the policy and the contract, too.")
@at_store
@for_machines
def show(context: CommandContext, name: str, *, policy: bool, as_json: bool) -> None:
    """Show one checkpoint in full: what was done, who signed it, and what it is based on.

    NAME is a checkpoint's name, TASK/NAME if another task uses the name now, six digits or more of its hash, a
    task (its last checkpoint), or a cognitive session. It may be left out if only one unfinished task has a checkpoint. A checkpoint that only a
    folder has is verified and shown.
    """
    name = name or only_checkpoint(context)
    store = context.store_or_none()
    if store is not None and name in session_ids(store):
        facts = session_facts(store, name)
        say_json(facts) if as_json else show_session(facts)
        return
    checkpoint: FoundCheckpoint = find_checkpoint(context, name)
    members = _to_json(context, checkpoint) | {"signer": trusted_signer(checkpoint.checkpoint)}
    texts = {key: _text(checkpoint, members[key]) for key in ("policy", "contract")} if policy else {}
    if as_json:
        say_json(members | {f"{key}Text": text for key, text in texts.items()})
        return
    _show_print(context, members)
    for key, text in texts.items():
        if text:
            say(f"\n# {key} {members[key][:12]}\n{safe_lines(text.rstrip())}")
        elif text is None and members[key]:
            say(f"\n# the text of the {key} {members[key][:12]} is not in the store")


def _text(checkpoint: Any, text_digest: str) -> str | None:
    stored = checkpoint.store.get_blob(text_digest) if text_digest else None
    return None if stored is None else stored.decode(errors="replace")


def _to_json(context: CommandContext, checkpoint: Any) -> dict[str, Any]:
    event, event_hash, data = checkpoint.checkpoint
    stored = checkpoint.store.get_blob(data.document)
    if stored is not None:
        stated = msgspec.json.decode(stored, type=dict[str, Any])
    else:  # an older version of an imported history: what it said follows from the events
        ledger = Ledger(task=event.task)
        for entry in verified_entries_from(checkpoint.store, event.task, 0, Head(event.seq, event_hash)):
            past = decode(entry.data)
            if past.seq < event.seq:
                ledger.apply(past, entry.hash, data_of(past))
        stated = document_of(ledger, data.name, data.description, known_to(data))
    try:
        as_written = folder.is_as_written(context.store_or_none() or checkpoint.store, context.root, data.name)
        state = {None: "none", True: "as written", False: "brought or changed"}[as_written]
    except AdjournError as error:
        state = error.message
    members = ("goal", "callsUsed", "callsRefused", "budget", "tools", "inDoubt", "policy", "contract")
    return {
        "name": data.name,
        "task": event.task,
        "seq": event.seq,
        "hash": event_hash,
        "timestamp": event.timestamp,
        "by": event.by.id,
        "trigger": data.trigger,
        "description": data.description,
        **{key: stated.get(key) for key in members},
        "key": data.key,
        "document": data.document,
        "root": data.root,
        "previous": data.previous,
        "source": checkpoint.source,
        "imported": imported_history(checkpoint.task(context).ledger),
        "folder": state,
    }


def _show_print(context: CommandContext, members: dict[str, Any]) -> None:
    signed = (
        f"signed by {members['signer']}"
        if members["signer"]
        else f"signed by {members['key']}, which is not trusted here"
    )
    say_prose(f"{members['name']}: checkpoint of task {safe(members['task'])}, {signed}", "bold")
    used = str(members["callsUsed"]) if members["budget"] is None else f"{members['callsUsed']} of {members['budget']}"
    tools = ", ".join(f"{tool} {count}" for tool, count in (members["tools"] or {}).items())
    doubts = ", ".join(f"{call['call']} {call['tool']}" for call in members["inDoubt"] or [])
    say_facts(
        ("goal", members["goal"] or ""),
        ("description", described(members["description"], members["signer"], members["key"])),
        (
            "made",
            f"{local(members['timestamp'])} ({ago(members['timestamp'], context.now)}) by {members['by']}, {members['trigger']}",
        ),
        ("calls", f"{used} used, {members['callsRefused']} refused"),
        ("tools", tools),
        ("in doubt", doubts or "nothing"),
        ("imported", imported_line(members["imported"])),
        ("position", f"event {members['seq']}"),
        ("hash", members["hash"]),
        ("previous", members["previous"]),
        ("document", members["document"]),
        ("root", members["root"]),
        ("key", members["key"]),
        ("policy", members["policy"] or ""),
        ("contract", members["contract"] or ""),
        ("found in", members["source"]),
        ("folder", members["folder"]),
    )
