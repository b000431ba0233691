"""`adjourn export`."""

from __future__ import annotations

import os

import click

from adjourn.cli.output import say, say_json
from adjourn.cli.place import Place, at_store, example, for_machines
from adjourn.errors import RefusedError


@click.command(epilog=example("adjourn export fix-auth", "adjourn export fix-auth --to ~/handover/fix-auth"))
@click.argument("name")
@click.option(
    "--to",
    "target",
    default="",
    metavar="DIR",
    help="Write into DIR, made if need be, instead of the workspace.",
)
@at_store
@for_machines
def export(place: Place, name: str, *, target: str, as_json: bool) -> None:
    """Write the newest checkpoint of NAME as a folder: checkpoint.json and audit.jsonl, which verify themselves.

    Without --to it is .aex/checkpoints/NAME of the workspace, written again. The folder can be committed, sent, and taken in
    elsewhere with `adjourn import`.
    """
    from adjourn.engine import folder  # noqa: PLC0415  # not for --help
    from adjourn.engine.checkpoint import find  # noqa: PLC0415

    found = find(place.store, name)
    if target:
        _make(target)
        folder.write_into(place.store, found, target)
        path = os.path.join(target, "")
    else:
        path = folder.write(place.store, found, place.root)
    if as_json:
        say_json(
            {"name": name, "path": path, "task": found.event.task, "seq": found.event.seq, "hash": found.hash}
        )
    else:
        say(f"written: {path} ({found.event.seq + 1} events of task {found.event.task})")


def _make(target: str) -> None:
    """The folder, which must be new, empty, or a checkpoint's already."""
    os.makedirs(target, exist_ok=True)
    names = set(os.listdir(target))
    if names - {"checkpoint.json", "audit.jsonl"}:
        raise RefusedError(f"{target} has other files in it", "name a new folder, or an empty one")
