"""`adjourn archive`, `restore`, `reflect` and `rollback`: pages of work that is past, and how to return to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from adjourn.checkpoints import page_archive, page_files
from adjourn.cli.context import (
    CHECKPOINT_NAME,
    FOLDER_PATH,
    TASK_NAME,
    CommandContext,
    at_store,
    example,
    for_machines,
    in_folder,
    speak,
    user,
)
from adjourn.cli.output import complain, counted, cut, safe, say, say_json, say_table
from adjourn.cli.terminal import width
from adjourn.errors import ConflictError, NotFoundError, UsageError
from adjourn.host.finding import workspace_of
from adjourn.host.workspace import write_file

if TYPE_CHECKING:
    from adjourn.checkpoints import reflect
    from adjourn.checkpoints import rollback as engine
    from adjourn.checkpoints.git_snapshot import RollbackChange


@click.command(epilog=example("adjourn archive", "adjourn archive --project security-review"))
@click.argument("task", default="", type=TASK_NAME)
@click.option(
    "--project",
    default="",
    metavar="NAME",
    help="Name of the project (default: the first words of the mission).",
)
@at_store
@for_machines
def archive(context: CommandContext, task: str, *, project: str, as_json: bool) -> None:
    """Move the pages of TASK from tmp/ to output/PROJECT/checkpoints/, with an index.

    TASK is an id; without it, the task of the active page. The history stays in the store. Run the command again if it was interrupted.
    """
    found = next(
        (page for page in page_files.search(context.tree).pages if not task or page.task.startswith(task)),
        None,
    )
    if found is None and not (task and project):
        what = f"task {task} has no page" if task else "there is no page that can be read"
        raise NotFoundError(
            what, "list the pages: adjourn checkpoint; for an archived one, give TASK and --project"
        )
    chosen = found.task if found else task
    name = project or (page_archive.project_of(found) if found else "")
    done = page_archive.archive(context.tree, chosen, name, context.store_or_none())
    if as_json:
        say_json(task=chosen, project=name, folder=done.folder, moved=done.moved, pages=len(done.entries))
    else:
        say(
            f"archived: {counted(len(done.moved), 'page')} of task {safe(chosen)} to {done.folder}/ ({len(done.entries)} there)"
        )


# --- `adjourn restore`


@click.command(epilog=example("adjourn restore security-review"))
@click.argument("project", default="")
@in_folder
@for_machines
def restore(project: str, *, as_json: bool) -> None:
    """Make the last page of an archived PROJECT the active one again, so that the next session continues with it.

    The archive stays as it is. PROJECT may be left out when there is only one.
    """
    root = workspace_of().tree
    there = page_archive.projects(root)
    if not there:
        raise NotFoundError(
            "no project is archived here", "archive finished work: adjourn archive --project NAME"
        )
    if not project and len(there) != 1:
        raise UsageError(
            f"{len(there)} projects are archived, and none is named", f"name one: {', '.join(there[:20])}"
        )
    path = page_archive.restore(root, project or there[0])
    if as_json:
        say_json(project=project or there[0], page=path)
    else:
        say(f"restored: {path} is active again (from {safe(page_archive.folder_of(project or there[0]))}/)")


# --- `adjourn reflect`


@click.command(
    "reflect",
    epilog=example("adjourn reflect", "adjourn reflect --svg plots", "adjourn reflect --dry-run --json"),
)
@click.option("--svg", default="", metavar="DIR", type=FOLDER_PATH, help="Write the plots into DIR, as SVG.")
@click.option("--dry-run", is_flag=True, help="Change nothing in memory/MEMORY.md and the archives.")
@in_folder
@for_machines
def reflect_(*, svg: str, dry_run: bool, as_json: bool) -> None:
    """Derive heuristics from archived work: statistics over its checkpoints, and rules on which five tasks or more agree.

    Heuristics are kept in memory/MEMORY.md under "Checkpoint heuristics", one line each, replaced by the next run, and removed when
    they no longer apply. The same archives give the same lines.
    """
    from adjourn.checkpoints import reflect

    root = workspace_of().tree
    found = reflect.reflect(root)
    changed = False if dry_run else reflect.remember(root, found)
    if svg:
        os.makedirs(svg, exist_ok=True)
        for name, picture in reflect.draw(found).items():
            write_file(svg, name, picture.encode())
    if as_json:
        say_json(_to_json(found, changed=changed))
    else:
        _print(found, changed=changed)
    for reason in found.broken:
        complain(safe(reason))


def _to_json(found: reflect.Reflection, *, changed: bool) -> dict[str, object]:
    return {
        "tasks": len(found.chains),
        "checkpoints": sum(len(chain) for chain in found.chains),
        "statistics": [
            {
                "name": one.name,
                "title": one.title,
                "tasks": one.n,
                "rate": one.rate if one.rate >= 0 else None,
                "value": one.value,
                "heuristic": one.heuristic,
                "evidence": list(one.evidence),
            }
            for one in found.statistics
        ],
        "memoryChanged": changed,
    }


def _print(found: reflect.Reflection, *, changed: bool) -> None:
    heuristics = [one for one in found.statistics if one.heuristic]
    count = sum(len(chain) for chain in found.chains)
    wrote = "; memory/MEMORY.md brought up to date" if changed else ""
    say(
        f"{counted(len(heuristics), 'heuristic')} from {counted(len(found.chains), 'archived task')}, {counted(count, 'checkpoint')}{wrote}"
    )
    rows = [(one.title, str(one.n), one.value or "nothing yet") for one in found.statistics]
    say_table(("STATISTIC", "TASKS", "VALUE"), rows)
    for one in heuristics:
        say(f"- {safe(one.heuristic)}")


# --- `adjourn rollback`

_KINDS = {
    "restore": "restored",
    "bring back": "brought back",
    "leave": "made since, stays",
    "avoid": "not restored",
}


@click.command(epilog=example("adjourn rollback", "adjourn rollback --yes", "adjourn rollback --files --yes"))
@click.argument("checkpoint", default="", type=CHECKPOINT_NAME)
@click.option("--files", is_flag=True, help="Roll back the files only.")
@click.option("--state", is_flag=True, help="Roll back the page only.")
@click.option("-y", "--yes", is_flag=True, help="Roll back. Without this option, preview only.")
@at_store
@for_machines
def rollback(
    context: CommandContext, checkpoint: str, *, files: bool, state: bool, yes: bool, as_json: bool
) -> None:
    """Roll back to CHECKPOINT: make its page the active one again, and restore files.

    CHECKPOINT is a name, a hash or a page; without it, the newest checkpoint before a destructive call. Files are restored if
    they were kept (keepFiles in .aex/discipline.json); files created since then stay. Effects of calls outside the workspace are
    not undone, and still count in the budget.
    """
    from adjourn.checkpoints import rollback as engine

    interrupted = engine.interrupted(context.tree)
    if interrupted:
        _finish(context, interrupted, checkpoint, yes=yes, as_json=as_json)
        return
    target = engine.target_of(context.tree, checkpoint)
    task = context.writable(target.task) if yes else context.task(target.task)
    both = files == state
    made = engine.plan(task, context.root, target, files=files or both, tree=context.tree)
    if yes:
        speak()
    done = (
        engine.carry_out(task, context.root, made, state=state or both, by=user(), tree=context.tree)
        if yes
        else None
    )
    if as_json:
        say_json(_rollback_to_json(made, done))
        return
    to = f"{safe(str(target.machine.get('name', '')))} ({safe(target.path)})"
    if done is None:
        say(f"would roll back to {to}; add --yes to do it")
    else:
        say(f"rolled back to {to}" + (f"; {done.page} is active" if done.page else ""), "green")
    _say_files(done.files if done else made.files)
    if not made.commit and (files or both):
        say("  no files were kept with it")
    if made.effects:
        say("not undone, newest first")
        for effect in made.effects:
            say(cut(f"  {safe(effect.tool)} {safe(effect.arguments)}", width()))
    if done is not None:
        _say_undo(done)


def _finish(context: CommandContext, interrupted: str, checkpoint: str, *, yes: bool, as_json: bool) -> None:
    """Finish a rollback that was killed. Another one cannot begin before."""
    from adjourn.checkpoints import rollback as engine

    if checkpoint:
        raise ConflictError("an earlier rollback was interrupted", "finish it first: adjourn rollback --yes")
    if yes:
        speak()
    done = (
        engine.finish(context.writable(interrupted), context.root, by=user(), tree=context.tree)
        if yes
        else None
    )
    if as_json:
        say_json({"interrupted": True, "task": interrupted, **_result_to_json(done)})
    elif done is None:
        say("a rollback was interrupted; `adjourn rollback --yes` finishes it")
    else:
        page = f"; {done.page} is active" if done.page else ""
        say(f"finished the rollback that was interrupted{page}", "green")
        _say_files(done.files)
        _say_undo(done)


def _say_files(changes: list[RollbackChange]) -> None:
    for change in changes:
        why = f" ({change.why})" if change.why else ""
        say(f"  {_KINDS[change.kind]}: {safe(change.path)}{why}")


def _say_undo(done: engine.RollbackResult) -> None:
    if done.undo:
        complain(f"the previous files are in commit {done.undo[:12]}")


def _result_to_json(done: engine.RollbackResult | None) -> dict[str, object]:
    return {
        "done": done is not None,
        "files": [_change_to_json(change) for change in done.files] if done else [],
        "page": done.page if done else "",
        "undo": done.undo if done else "",
    }


def _change_to_json(change: RollbackChange) -> dict[str, str]:
    return {name: value for name, value in change._asdict().items() if value}


def _rollback_to_json(made: engine.RollbackPlan, done: engine.RollbackResult | None) -> dict[str, object]:
    return {
        "target": made.target.path,
        "checkpoint": made.target.id,
        "commit": made.commit,
        "notUndone": [effect._asdict() for effect in made.effects],
        **_result_to_json(done),
        "files": [_change_to_json(change) for change in (done.files if done else made.files)],
    }
