"""`adjourn export`."""

from __future__ import annotations

import os

import click

from adjourn.checkpoints import attachments, find, folder, histories
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import say, say_json
from adjourn.cli.shared.terminal import Spinner
from adjourn.errors import RefusedError
from adjourn.host import locked


@click.command(epilog=example("adjourn export fix-auth", "adjourn export fix-auth --to ~/handover/fix-auth"))
@click.argument("name")
@click.option(
    "--to",
    "target",
    default="",
    metavar="DIR",
    help="Write to DIR instead of the workspace. DIR is created if it does not exist.",
)
@at_store
@for_machines
def export(context: CommandContext, name: str, *, target: str, as_json: bool) -> None:
    """Write the newest checkpoint of NAME as a folder: checkpoint.json and audit.jsonl. It can be verified without the store.

    Without --to, the folder .aex/checkpoints/NAME of the workspace is written again. The folder can be committed, sent, and
    imported elsewhere with `adjourn import`.
    """
    found = find(context.store, name)
    with Spinner("writing"):
        if target:
            _make(target)
            with locked(target):
                folder.write_into(context.store, found, target)
            path = os.path.join(target, "")
        else:
            path = folder.write(context.store, found, context.root)
    if as_json:
        say_json(name=name, path=path, task=found.event.task, seq=found.event.seq, hash=found.hash)
    else:
        say(f"written: {path} ({found.event.seq + 1} events of task {found.event.task})")


def _make(target: str) -> None:
    """The folder, which must be new, empty, or that of a checkpoint, even an incomplete one."""
    os.makedirs(target, exist_ok=True)
    names = set(os.listdir(target)) - {folder.JSON_FILE, folder.AUDIT_FILE}
    if not all(attachments.is_knowledge(name) or histories.is_temporary(name) for name in names):
        raise RefusedError(f"{target} has other files in it", "name a new folder, or an empty one")
