"""`adjourn show`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from adjourn.checkpoints import document_of, folder, imported_history, known_to, trusted_signer
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.lookup import FoundCheckpoint, find, only_checkpoint
from adjourn.cli.shared.output import (
    described,
    imported_line,
    safe,
    safe_lines,
    say,
    say_facts,
    say_json,
    say_prose,
)
from adjourn.cli.shared.sessions import session_facts, session_ids, show_session
from adjourn.errors import AdjournError
from adjourn.log import data_of, decode
from adjourn.store import Head
from adjourn.tasks import Ledger, following
from adjourn.text import ago, local


@click.command(epilog=example("adjourn show fix-auth", "adjourn show fix-auth --policy"))
@click.argument("name", default="")
@click.option("--policy", is_flag=True, help="Show the texts of the policy and the contract, too.")
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
    found: FoundCheckpoint = find(context, name)
    told = _to_json(context, found) | {"signer": trusted_signer(found.checkpoint)}
    texts = {key: _text(found, told[key]) for key in ("policy", "contract")} if policy else {}
    if as_json:
        say_json(told | {f"{key}Text": text for key, text in texts.items()})
        return
    _print(context, told)
    for key, text in texts.items():
        if text:
            say(f"\n# {key} {told[key][:12]}\n{safe_lines(text.rstrip())}")
        elif text is None and told[key]:
            say(f"\n# the text of the {key} {told[key][:12]} is not in the store")


def _text(found: Any, text_digest: str) -> str | None:
    stored = found.store.get_blob(text_digest) if text_digest else None
    return None if stored is None else stored.decode(errors="replace")


def _to_json(context: CommandContext, found: Any) -> dict[str, Any]:
    event, event_hash, data = found.checkpoint
    stored = found.store.get_blob(data.document)
    if stored is not None:
        stated = msgspec.json.decode(stored, type=dict[str, Any])
    else:  # an older version of an imported history: what it said follows from the events
        ledger = Ledger(task=event.task)
        for entry in following(found.store, event.task, 0, Head(event.seq, event_hash)):
            past = decode(entry.data)
            if past.seq < event.seq:
                ledger.apply(past, entry.hash, data_of(past))
        stated = document_of(ledger, data.name, data.description, known_to(data))
    try:
        as_written = folder.is_as_written(context.store_or_none() or found.store, context.root, data.name)
        state = {None: "none", True: "as written", False: "brought or changed"}[as_written]
    except AdjournError as error:
        state = error.message
    kept = ("goal", "callsUsed", "callsRefused", "budget", "tools", "inDoubt", "policy", "contract")
    return {
        "name": data.name,
        "task": event.task,
        "seq": event.seq,
        "hash": event_hash,
        "timestamp": event.timestamp,
        "by": event.by.id,
        "trigger": data.trigger,
        "description": data.description,
        **{key: stated.get(key) for key in kept},
        "key": data.key,
        "document": data.document,
        "root": data.root,
        "previous": data.previous,
        "source": found.source,
        "imported": imported_history(found.task(context).ledger),
        "folder": state,
    }


def _print(context: CommandContext, told: dict[str, Any]) -> None:
    signed = (
        f"signed by {told['signer']}"
        if told["signer"]
        else f"signed by {told['key']}, which is not trusted here"
    )
    say_prose(f"{told['name']}: checkpoint of task {safe(told['task'])}, {signed}", "bold")
    used = str(told["callsUsed"]) if told["budget"] is None else f"{told['callsUsed']} of {told['budget']}"
    tools = ", ".join(f"{tool} {count}" for tool, count in (told["tools"] or {}).items())
    doubts = ", ".join(f"{call['call']} {call['tool']}" for call in told["inDoubt"] or [])
    say_facts(
        ("goal", told["goal"] or ""),
        ("description", described(told["description"], told["signer"], told["key"])),
        (
            "made",
            f"{local(told['timestamp'])} ({ago(told['timestamp'], context.now)}) by {told['by']}, {told['trigger']}",
        ),
        ("calls", f"{used} used, {told['callsRefused']} refused"),
        ("tools", tools),
        ("in doubt", doubts or "nothing"),
        ("imported", imported_line(told["imported"])),
        ("position", f"event {told['seq']}"),
        ("hash", told["hash"]),
        ("previous", told["previous"]),
        ("document", told["document"]),
        ("root", told["root"]),
        ("key", told["key"]),
        ("policy", told["policy"] or ""),
        ("contract", told["contract"] or ""),
        ("found in", told["source"]),
        ("folder", told["folder"]),
    )
