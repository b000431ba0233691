"""`adjourn checkpoint list`, `show` and `resume`: reading the checkpoints that can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from adjourn.checkpoints import folder
from adjourn.checkpoints.attachments import imported_history
from adjourn.checkpoints.checkpoint import document, document_of, find, known_to, trusted_signer
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
    counted,
    cut,
    described,
    facts,
    imported_line,
    safe,
    safe_lines,
    say,
    say_facts,
    say_json,
    say_prose,
    say_table,
)
from adjourn.cli.task_view import who
from adjourn.cli.terminal import width
from adjourn.errors import AdjournError, IntegrityError, UsageError
from adjourn.handover.rendering import MAX_ROOM, MIN_ROOM, ROOM
from adjourn.host.keys import reading_secret
from adjourn.log.event import decode
from adjourn.log.kinds import data_of
from adjourn.store.base import Head
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.text.fitting import fit_text
from adjourn.text.times import ago, local

if TYPE_CHECKING:
    from adjourn.handover.rendering import Handover
    from adjourn.tasks.task import Task


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

LINES_BESIDE = 200
"""Bytes of the first line and the last one, at the most."""


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
    from adjourn.handover.pending import open_work
    from adjourn.handover.resumption import Preview
    from adjourn.handover.resumption import resume as handover_resume

    if verdict:
        if name:
            raise UsageError("--verdict is about the whole workspace", "leave out NAME")
        return _print_verdict(context, as_json=as_json)
    reader = Preview(lambda: context.store, context.root, context.clock, reading_secret(), context.tree)
    if not name and context.store_or_none() is not None:
        listed = open_work(context.store, context.clock, reading_secret(), context.tree)
        if len(listed) > 1 or (listed and not listed[0][1]):
            _print_open(listed, as_json=as_json)
            return None
        name = listed[0][1] if listed else ""
    resumed = handover_resume(reader, name or only_checkpoint(context))
    if as_json:
        say_json(resumed.to_json(more, brief_bytes))
    elif more:
        _print_history(resumed.to_json(more, brief_bytes))
    else:
        _print(resumed.handover(), context.now, brief_bytes)

    sessions = resumed.task.ledger.sessions
    if holders := list(dict.fromkeys(who(sessions[holder]) for holder in resumed.holders())):
        complain(
            f"task {resumed.task.id} is held by {safe(' and by '.join(holders))}",
            f"another client's resume is refused until {'those sessions end' if holders[1:] else 'that session ends'}, "
            "or it starts with --take-over",
        )
    return None


VERDICTS = {"resume": 0, "nothing": 4, "wait": 5, "settle": 6, "ask": 7}
"""The exit code of each verdict."""


def _print_verdict(context: CommandContext, *, as_json: bool) -> int:
    from adjourn.handover.inbox import find_waiting
    from adjourn.handover.pending import WorkVerdict, verdict_of

    found = WorkVerdict("nothing", "no session has run here yet")
    if (store := context.store_or_none()) is not None:
        secret = reading_secret()
        waiting = find_waiting(store, clock=context.clock, secret=secret)
        found = verdict_of(store, context.clock, secret, context.tree, waiting.items)
    if as_json:
        say_json({name: value for name, value in found._asdict().items() if value})
    else:
        say(f"{found.verdict}: {safe(found.why)}")
        if found.command:
            say(f"  {safe(found.command)}")
    return VERDICTS[found.verdict]


def _print(handover: Handover, now: int, room: int) -> None:
    from adjourn.handover.rendering import to_lines

    left_over = "" if handover.calls_left is None else f", {handover.calls_left} left"
    unsure = f"; {handover.doubts} in doubt" if handover.doubts else ""
    say_prose(
        f"{handover.name}: task {safe(handover.task)}, {counted(handover.calls_used, 'call')} used{left_over}{unsure}",
        "bold",
    )
    key = handover.untrusted_signer
    rows = (
        ("state", handover.state),
        ("last session", handover.worked),
        ("as of", handover.as_of),
        ("goal", handover.goal),
        ("asked", handover.asked),
        ("policy goal", handover.policy_goal),
        ("mission", handover.mission),
        ("description", described(fit_text(handover.description, room // 10), "" if key else "trusted", key)),
        ("made", ago(handover.made, now)),
        ("imported", imported_line(dict(handover.imported) if handover.imported else None)),
    )
    for note in handover.notes:
        complain(safe(note))
    say_facts(*rows)
    left = room - len(facts(rows).encode()) - LINES_BESIDE
    for line in to_lines(handover, left, lambda text: facts([("-", text)])):
        title = line.removeprefix("## ")
        if title != line:
            say("")
        say_prose(title, "bold") if title != line else say(line)
    say("")
    say(f"history: adjourn resume {handover.name} --more {handover.events}")


def _print_open(listed: list[tuple[Task, str]], *, as_json: bool) -> None:
    from adjourn.handover.pending import RANKS, open_line, rank_of

    if as_json:
        say_json(
            open=[
                {
                    "name": name,
                    "task": task.id,
                    "goal": task.ledger.goal,
                    "why": RANKS[rank_of(task)],
                    "touched": task.ledger.touched,
                }
                for task, name in listed
            ]
        )
        return
    say_prose(counted(len(listed), "open task") + ", the most important first", "bold")
    for task, name in listed:
        say(cut(f"  {safe(open_line(task, name))}", width()))
    say("resume one: adjourn resume NAME")


def _print_history(answer: dict[str, Any]) -> None:
    say("what happened")
    for entry in answer["auditSummary"]:
        about = " ".join(f"{value}" for value in entry["data"].values())
        say(cut(f"  {safe(entry['event']):<18} {safe(about)}", width()))
    if "more" in answer:
        say(f"  older: adjourn resume {answer['name']} --more {answer['more']}")


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
