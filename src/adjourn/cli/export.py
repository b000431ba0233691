"""`adjourn checkpoint export` and `import`: a checkpoint as a folder, and work that was recorded elsewhere. `adjourn store import`: threads.
`adjourn store export`: events, for an audit.
"""

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
    TASK_NAME,
    CommandContext,
    at_store,
    example,
    flag,
    for_machines,
    speak,
    text_option,
    time_of,
    user,
)
from adjourn.cli.output import complain, safe, say, say_json, say_stored, shown_bytes
from adjourn.cli.terminal import ProgressLine, Spinner
from adjourn.errors import ConflictError, NotFoundError, RefusedError, UsageError
from adjourn.host.workspace import check_name, locked, write_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adjourn.checkpoints.checkpoint import TaskCheckpoint
    from adjourn.handover.foreign.work import ForeignWork, Source

FORMATS: tuple[Source, ...] = ("aex", "continuum", "langgraph", "handoff")
"""What `adjourn checkpoint import` reads; written here so that a help loads no reader."""


@click.command(
    epilog=example("adjourn checkpoint export fix-auth", "adjourn checkpoint export fix-auth --to ~/handover/fix-auth")
)
@click.argument("name", type=CHECKPOINT_NAME)
@text_option("--to DIR", "Write to DIR instead of the workspace. DIR is created if it does not exist.", dest="target")
@at_store
@for_machines
def export(context: CommandContext, name: str, *, target: str, as_json: bool) -> None:
    """Write the newest checkpoint of NAME as a folder: checkpoint.json and audit.jsonl. It can be verified without the store.

    Without --to, the folder .aex/checkpoints/NAME of the workspace is written again. The folder can be committed, sent, and
    imported elsewhere with `adjourn checkpoint import`.
    """
    checkpoint = find(context.store, name)
    with Spinner("writing"):
        if target:
            _make(target)
            with locked(target):
                folder.write_into(context.store, checkpoint, target)
            path = os.path.join(target, "")
        else:
            path = folder.write(context.store, checkpoint, context.root)
    if as_json:
        say_json(name=name, path=path, task=checkpoint.event.task, seq=checkpoint.event.seq, hash=checkpoint.hash)
    else:
        say(f"written: {path} ({checkpoint.event.seq + 1} events of task {checkpoint.event.task})")


def _make(target: str) -> None:
    """The folder, which must be new, empty, or that of a checkpoint, even an incomplete one."""
    from adjourn.checkpoints import attachments
    from adjourn.checkpoints import folder as histories

    os.makedirs(target, exist_ok=True)
    names = set(os.listdir(target)) - {folder.JSON_FILE, folder.AUDIT_FILE}
    if not all(attachments.is_knowledge(name) or histories.is_temporary(name) for name in names):
        raise RefusedError(f"{target} has other files in it", "name a new folder, or an empty one")


# --- `adjourn checkpoint import`


@click.command(
    "import",
    epilog=example(
        "adjourn checkpoint import ~/handover/fix-auth",
        "adjourn checkpoint import handoff.md --dry-run",
        "adjourn checkpoint import --from langgraph checkpoints.sqlite --thread 42 --name research",
    ),
)
@click.argument("path", metavar="PATH", type=FILE_PATH)
@click.option(
    "--from", "source", type=click.Choice(FORMATS), help="Format of PATH (default: the one that it looks like)."
)
@click.option("--name", default="", help="Name of the checkpoint (default: made from PATH or its content).")
@text_option("--thread ID", "Thread of a LangGraph file that has several.")
@flag("--dry-run", "Preview the import. Write nothing.")
@at_store
@for_machines
def import_(
    context: CommandContext, path: str, *, source: Source | None, name: str, thread: str, dry_run: bool, as_json: bool
) -> None:
    """Import a checkpoint folder, or work that another tool recorded, so that it can be resumed here. You vouch for it.

    PATH is the folder of a checkpoint (aex), a Continuation Record or another document of a resumable agent in JSON (continuum), the
    SQLite file of LangGraph's checkpoints (langgraph), or a hand-over page in Markdown (handoff).

    The whole folder of a signed checkpoint is verified first. If it was signed by a key that is not trusted here, your import says that you trust this
    history (not the key: `adjourn keys trust` does that). A checkpoint.json with only the published fields cannot be verified: its
    history is imported on your word, marked as not verified, and a new task starts with it. So is work in the other formats.
    """
    from adjourn.cli.lookup import check_plain
    from adjourn.handover.foreign.reading import detect, read_work

    if not os.path.lexists(path):
        raise NotFoundError(f"{path} does not exist", "name the folder of a checkpoint, or a file")
    check_plain(path)
    kind = source or detect(path)
    if kind == "aex" and not os.path.isdir(path):
        path = os.path.dirname(path) or os.curdir
    if kind == "aex" and folder.read_published(path).file.adjourn is not None:
        if name:
            raise UsageError("a signed checkpoint keeps its name", "leave out --name")
        result = _signed(context, path, dry_run=dry_run)
    else:
        work = read_work(path, kind, thread)
        work = msgspec.structs.replace(work, name=check_name(name)) if name else work
        with Spinner("importing"):
            result = _foreign(context, path, work, dry_run=dry_run)
    if as_json:
        say_json(result)
    else:
        _print(result)


@click.command(
    "import",
    epilog=example(
        "adjourn store import checkpoints.sqlite", "adjourn store import postgresql://localhost/agents --thread 42"
    ),
)
@click.argument("source", metavar="DATABASE", type=FILE_PATH)
@text_option("--thread ID", "Import only this thread. Can be repeated.", dest="threads", multiple=True)
@at_store
@for_machines
def import_threads_(context: CommandContext, source: str, *, threads: Sequence[str], as_json: bool) -> None:
    """Import LangGraph threads with all their checkpoints, for `AdjournSaver` to continue.

    DATABASE is the SQLite file of SqliteSaver, or the postgresql:// URL of PostgresSaver. It is only read. No class is imported and nothing
    is unpickled. What an earlier import wrote stays as it is. `adjourn import langgraph DATABASE` is the same.
    """
    try:
        from adjourn.langgraph.importing import import_threads
    except ImportError as error:
        raise UsageError(f"LangGraph is not installed: {error}", "pip install 'adjourn[langgraph]'") from error
    from adjourn.cli.lookup import check_plain

    if "://" not in source:
        if not os.path.lexists(source):
            raise NotFoundError(f"{source} does not exist", "name the file of SqliteSaver, or a postgresql:// URL")
        check_plain(source)
    with ProgressLine("importing") as progress:
        results = list(import_threads(context.make_store(), source, threads, progress))
    if as_json:
        say_json(threads=msgspec.to_builtins(results))
        return
    for result in results:
        before = f", {result.present:,} were there" if result.present else ""
        say(
            f"imported thread {safe(result.thread)}: {result.checkpoints:,} checkpoints, {result.writes:,} sets of writes{before} "
            f"(task {result.task})"
        )
    if not results:
        say("the database has no thread")


@click.command(
    "export",
    epilog=example(
        "adjourn store export --out audit.jsonl",
        "adjourn store export --person ann --since 2026-11-01 --until 2026-12-01 --out november.jsonl",
        "adjourn verify audit.jsonl",
    ),
)
@click.argument("tasks", nargs=-1, type=TASK_NAME, metavar="[TASK]...")
@text_option("--person NAME", "Only events of this person or service: an id or a name.")
@text_option("--since TIME", "Only events from this time on (2026-11-28T02:00Z).", callback=time_of)
@text_option("--until TIME", "Only events before this time.", callback=time_of)
@text_option("--out FILE", "Write to FILE, which is replaced (default: print).")
@at_store
def export_events(
    context: CommandContext, tasks: Sequence[str], *, person: str, since: int | None, until: int | None, out: str
) -> None:
    """Export the events of tasks for an audit: a line of JSON each, signed at the end. `adjourn verify FILE.jsonl` needs no store.

    A line has the event as it is stored, its digest, task and position, and the principal behind its session. After the lines of a task
    stands the head of its history; the last line is signed with your key, and covers all others. Events are verified as they are read:
    a history that fails ends the export without that line. Without TASK, all tasks are exported.
    """
    from adjourn.cli.verify import task_id
    from adjourn.tasks.owners import Period
    from adjourn.verification.audit import AuditChoice, audit_lines

    named = tuple(task_id(context, task) for task in tasks)
    lines = audit_lines(context.store, AuditChoice(named, person, Period(since, until)), context.now)
    if out:
        folder_of, name = os.path.split(os.path.abspath(out))
        with Spinner("writing"):
            write_file(folder_of, name, lines)
        say(f"wrote {safe(out)}: {shown_bytes(os.path.getsize(out))}")
        return
    for line in lines:
        say_stored(line)


def _signed(context: CommandContext, directory: str, *, dry_run: bool) -> dict[str, Any]:
    from adjourn.checkpoints import folder_verification
    from adjourn.handover.importing import import_folder

    with Spinner("verifying"):
        verified = folder_verification.verify(directory)
        before = _owner(context, verified.checkpoint.data.name)
        if not dry_run:
            speak()
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
    members = {"from": work.source, "kept": list(work.kept), "leftOut": list(work.left_out), "dryRun": dry_run}
    kind = "published" if work.source == "aex" else work.source
    if dry_run:
        return _to_json(work.name, None, before, signer="", kind=kind, **members)
    store = context.make_store()
    target = folder.path_of(context.root, work.name)
    here = os.path.realpath(path) == target
    if not here and folder.is_as_written(store, context.root, work.name) is False:
        raise ConflictError(
            f"{target} holds another checkpoint of that name, which is not in the store",
            "import or move that checkpoint first",
        )
    speak()
    task = Task(store, clock.task_id(context.now), clock=context.clock, secret=keys.secret())
    imported = import_work(task, context.root, work, user(), context.tree)
    for note in imported.notes:
        complain(note)
    return _to_json(work.name, imported.checkpoint, before, signer="default", kind=kind, page=imported.page, **members)


def _to_json(
    name: str, imported: TaskCheckpoint | None, before: str, *, signer: str, kind: str, **more: Any
) -> dict[str, Any]:
    task = imported.event.task if imported else ""
    return {
        "name": name,
        "task": task,
        "seq": imported.event.seq if imported else None,
        "hash": imported.hash if imported else "",
        "key": imported.data.key if imported else "",
        "signer": signer,
        "vouched": not signer or kind != "history",
        "kind": kind,
        "replaced": before if before and before != task else "",
        **more,
    }


def _print(result: dict[str, Any]) -> None:
    begin = "would import" if result["dryRun"] else "imported"
    if result["kind"] == "history":
        by = f"signed by {result['key']} ({'trusted as ' + result['signer'] if result['signer'] else 'vouched for by you'})"
        say(f"{begin} {result['name']}: task {result['task']}, {result['seq'] + 1} events, {by}")
    elif result["dryRun"]:
        say(f"{begin} {result['name']} from {result['from']}: vouched for by you, not verified")
    else:
        say(
            f"{begin} {result['name']} from {result['from']}: task {result['task']}, {result['seq'] + 1} events, vouched for by you, "
            "not verified"
        )
    for title, lines in (("kept", result.get("kept", [])), ("left out", result.get("leftOut", []))):
        for line in lines:
            say(f"  {title:<9} {safe(line)}")
    if result["replaced"]:
        say(
            f"  the name belonged to a checkpoint of task {safe(result['replaced'])}; "
            f"show that with: adjourn checkpoint show {safe(result['replaced'])}/{result['name']}"
        )
    if not result["dryRun"]:
        say(f"  continue in any client: call aex.resume with the name {result['name']}")
