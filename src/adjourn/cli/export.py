"""`adjourn export` and `adjourn import`: a checkpoint as a folder, and work that was recorded elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click
import msgspec

from adjourn.checkpoints import folder
from adjourn.checkpoints.checkpoint import find
from adjourn.cli.context import (
    CHECKPOINT_NAME,
    FILE_PATH,
    FOLDER_PATH,
    CommandContext,
    at_store,
    example,
    for_machines,
    user,
)
from adjourn.cli.output import complain, safe, say, say_json
from adjourn.cli.terminal import Spinner
from adjourn.errors import ConflictError, NotFoundError, RefusedError, UsageError
from adjourn.host.workspace import check_name, locked

if TYPE_CHECKING:
    from adjourn.checkpoints.checkpoint import TaskCheckpoint
    from adjourn.handover.foreign.work import ForeignWork, Source

FORMATS: tuple[Source, ...] = ("aex", "continuum", "langgraph", "handoff")
"""What `adjourn import` reads; written here so that a help loads no reader."""


@click.command(epilog=example("adjourn export fix-auth", "adjourn export fix-auth --to ~/handover/fix-auth"))
@click.argument("name", type=CHECKPOINT_NAME)
@click.option(
    "--to",
    "target",
    default="",
    metavar="DIR",
    type=FOLDER_PATH,
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
    from adjourn.checkpoints import attachments
    from adjourn.checkpoints import folder as histories

    os.makedirs(target, exist_ok=True)
    names = set(os.listdir(target)) - {folder.JSON_FILE, folder.AUDIT_FILE}
    if not all(attachments.is_knowledge(name) or histories.is_temporary(name) for name in names):
        raise RefusedError(f"{target} has other files in it", "name a new folder, or an empty one")


# --- `adjourn import`


@click.command(
    "import",
    epilog=example(
        "adjourn import ~/handover/fix-auth",
        "adjourn import handoff.md --dry-run",
        "adjourn import --from langgraph checkpoints.sqlite --thread 42 --name research",
    ),
)
@click.argument("path", metavar="PATH", type=FILE_PATH)
@click.option(
    "--from",
    "source",
    type=click.Choice(FORMATS),
    help="Format of PATH (default: the one that it looks like).",
)
@click.option("--name", default="", help="Name of the checkpoint (default: made from PATH or its content).")
@click.option("--thread", default="", metavar="ID", help="Thread of a LangGraph file that has several.")
@click.option("--dry-run", is_flag=True, help="Preview the import. Write nothing.")
@at_store
@for_machines
def import_(
    context: CommandContext,
    path: str,
    *,
    source: Source | None,
    name: str,
    thread: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import a checkpoint folder, or work that another tool recorded, so that it can be resumed here. You vouch for it.

    PATH is the folder of a checkpoint (aex), a Continuation Record or another document of a resumable agent in JSON (continuum), the
    SQLite file of LangGraph's checkpoints (langgraph), or a hand-over page in Markdown (handoff).

    The whole folder of a signed checkpoint is verified first. If it was signed by a key that is not trusted here, your import says that you trust this
    history (not the key: `adjourn keys trust` does that). A checkpoint.json with only the published fields cannot be verified: its
    history is imported on your word, marked as not verified, and a new task starts with it. So is work in the other formats.
    """
    from adjourn.cli.documents import check_plain
    from adjourn.handover.foreign.reading import detect, read_work

    if not os.path.lexists(path):
        raise NotFoundError(f"{path} does not exist", "name the folder of a checkpoint, or a file")
    check_plain(path)
    found = source or detect(path)
    if found == "aex" and not os.path.isdir(path):
        path = os.path.dirname(path) or os.curdir
    if found == "aex" and folder.read_published(path).file.adjourn is not None:
        if name:
            raise UsageError("a signed checkpoint keeps its name", "leave out --name")
        told = _signed(context, path, dry_run=dry_run)
    else:
        work = read_work(path, found, thread)
        work = msgspec.structs.replace(work, name=check_name(name)) if name else work
        with Spinner("importing"):
            told = _foreign(context, path, work, dry_run=dry_run)
    if as_json:
        say_json(told)
    else:
        _print(told)


def _signed(context: CommandContext, directory: str, *, dry_run: bool) -> dict[str, Any]:
    from adjourn.checkpoints import folder_verification
    from adjourn.handover.importing import import_folder

    with Spinner("verifying"):
        verified = folder_verification.verify(directory)
        before = _owner(context, verified.checkpoint.data.name)
        if not dry_run:
            _, note = import_folder(context.make_store(), verified, vouched=True)
            if note:
                complain(note)
    return _to_json(
        verified.checkpoint.data.name,
        verified.checkpoint,
        before,
        signer=verified.trusted_as,
        kind="history",
        dryRun=dry_run,
    )


def _owner(context: CommandContext, name: str) -> str:
    """The task that a checkpoint's name belongs to so far; "" for none."""
    store = context.store_or_none()
    return ((store.ref(f"checkpoint/{name}") or "") if store is not None else "").partition(" ")[0]


def _foreign(context: CommandContext, path: str, work: ForeignWork, *, dry_run: bool) -> dict[str, Any]:
    """Import what another tool wrote, as a new task."""
    from adjourn.handover.foreign.work import import_work
    from adjourn.host import clock, keys
    from adjourn.tasks.task import Task

    before = _owner(context, check_name(work.name))
    said = {"from": work.source, "kept": list(work.kept), "leftOut": list(work.left_out), "dryRun": dry_run}
    kind = "published" if work.source == "aex" else work.source
    if dry_run:
        return _to_json(work.name, None, before, signer="", kind=kind, **said)
    store = context.make_store()
    target = folder.path_of(context.root, work.name)
    here = os.path.realpath(path) == target
    if not here and folder.is_as_written(store, context.root, work.name) is False:
        raise ConflictError(
            f"{target} holds another checkpoint of that name, which is not in the store",
            "import or move that checkpoint first",
        )
    task = Task(store, clock.task_id(context.now), clock=context.clock, secret=keys.secret())
    made = import_work(task, context.root, work, user(), context.tree)
    for note in made.notes:
        complain(note)
    return _to_json(work.name, made.checkpoint, before, signer="default", kind=kind, page=made.page, **said)


def _to_json(
    name: str, made: TaskCheckpoint | None, before: str, *, signer: str, kind: str, **more: Any
) -> dict[str, Any]:
    task = made.event.task if made else ""
    return {
        "name": name,
        "task": task,
        "seq": made.event.seq if made else None,
        "hash": made.hash if made else "",
        "key": made.data.key if made else "",
        "signer": signer,
        "vouched": not signer or kind != "history",
        "kind": kind,
        "replaced": before if before and before != task else "",
        **more,
    }


def _print(told: dict[str, Any]) -> None:
    begin = "would import" if told["dryRun"] else "imported"
    if told["kind"] == "history":
        by = f"signed by {told['key']} ({'trusted as ' + told['signer'] if told['signer'] else 'vouched for by you'})"
        say(f"{begin} {told['name']}: task {told['task']}, {told['seq'] + 1} events, {by}")
    elif told["dryRun"]:
        say(f"{begin} {told['name']} from {told['from']}: vouched for by you, not verified")
    else:
        say(
            f"{begin} {told['name']} from {told['from']}: task {told['task']}, {told['seq'] + 1} events, vouched for by you, "
            "not verified"
        )
    for title, lines in (("kept", told.get("kept", [])), ("left out", told.get("leftOut", []))):
        for line in lines:
            say(f"  {title:<9} {safe(line)}")
    if told["replaced"]:
        say(
            f"  the name belonged to a checkpoint of task {safe(told['replaced'])}; "
            f"show that with: adjourn show {safe(told['replaced'])}/{told['name']}"
        )
    if not told["dryRun"]:
        say(f"  continue in any client: call aex.resume with the name {told['name']}")
