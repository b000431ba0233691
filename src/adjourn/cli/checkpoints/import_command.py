"""`adjourn import`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from adjourn import handover
from adjourn.checkpoints import folder, folder_verification
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines, user
from adjourn.cli.shared.output import Spinner, complain, safe, say, say_json
from adjourn.errors import ConflictError, NotFoundError
from adjourn.host import ids, keys
from adjourn.tasks import Task

if TYPE_CHECKING:
    from adjourn.checkpoints import TaskCheckpoint


@click.command("import", epilog=example("adjourn import ~/handover/fix-auth"))
@click.argument("directory", metavar="DIR")
@at_store
@for_machines
def import_(context: CommandContext, directory: str, *, as_json: bool) -> None:
    """Import the checkpoint folder DIR, so that it can be resumed here. You vouch for it.

    The whole folder is verified first. If it was signed by a key that is not trusted here, your import says that you trust this
    history (not the key: `adjourn keys trust` does that). A checkpoint.json with only the published fields cannot be verified:
    its count of spent calls is accepted on your word, and a new task starts with it.
    """
    if not os.path.lexists(os.path.join(directory, folder.JSON_FILE)):
        raise NotFoundError(f"{directory} has no {folder.JSON_FILE}", "name the folder of a checkpoint")
    published = folder.read_published(directory).file
    store = context.make_store()
    before = store.ref(f"checkpoint/{published.name}") or ""
    told = (
        _signed(context, directory) if published.adjourn else _published(context, directory, published.name)
    )
    earlier = before.partition(" ")[0]
    told["replaced"] = earlier if earlier and earlier != told["task"] else ""
    if as_json:
        say_json(told)
        return
    by = f"signed by {told['key']} ({'trusted as ' + told['signer'] if told['signer'] else 'vouched for by you'})"
    say(f"imported {told['name']}: task {told['task']}, {told['seq'] + 1} events, {by}")
    if told["replaced"]:
        say(
            f"  the name belonged to a checkpoint of task {safe(told['replaced'])}, which stays in that task's log"
        )
    say(f"  continue in any client: call aex.resume with the name {told['name']}")


def _signed(context: CommandContext, directory: str) -> dict[str, Any]:
    with Spinner("verifying"):
        verified = folder_verification.verify(directory)
        made, note = handover.import_folder(context.make_store(), verified, vouched=True)
    if note:
        complain(note)
    return _to_json(made, verified.trusted_as, kind="history")


def _published(context: CommandContext, directory: str, name: str) -> dict[str, Any]:
    store = context.make_store()
    target = folder.path_of(context.root, name)
    here = os.path.realpath(directory) == target
    if not here and folder.is_as_written(store, context.root, name) is False:
        raise ConflictError(
            f"{target} holds another checkpoint of that name, which is not in the store",
            "import or move that checkpoint first",
        )
    task = Task(store, ids.task_id(context.now), clock=context.clock, secret=keys.secret())
    made = handover.import_published(task, directory, user())
    folder.write(store, made, context.root)
    if here:
        complain("the folder was in the workspace: it is now signed, and has its audit.jsonl")
    return _to_json(made, "default", kind="published")


def _to_json(made: TaskCheckpoint, signer: str, *, kind: str) -> dict[str, Any]:
    return {
        "name": made.data.name,
        "task": made.event.task,
        "seq": made.event.seq,
        "hash": made.hash,
        "key": made.data.key,
        "signer": signer,
        "vouched": not signer or kind == "published",
        "kind": kind,
    }
