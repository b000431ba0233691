"""`adjourn page archive`, `restore`, `reflect` and `rollback`: pages of work that is past, and how to return to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from adjourn.checkpoints import page_archive, page_files
from adjourn.cli.context import (
    CHECKPOINT_NAME,
    TASK_NAME,
    CommandContext,
    at_store,
    example,
    flag,
    for_machines,
    in_folder,
    speak,
    text_option,
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
    from adjourn.checkpoints.git_restore import RollbackChange


@click.command(epilog=example("adjourn page archive", "adjourn page archive --project security-review"))
@click.argument("task", default="", type=TASK_NAME)
@text_option("--project NAME", "Name of the project (default: the first words of the mission).")
@at_store
@for_machines
def archive(context: CommandContext, task: str, *, project: str, as_json: bool) -> None:
    """Move the pages of TASK from tmp/ to output/PROJECT/checkpoints/, with an index.

    TASK is an id; without it, the task of the active page. The history stays in the store. Run the command again if it was interrupted.
    """
    newest = next(
        (page for page in page_files.search(context.tree).pages if not task or page.task.startswith(task)), None
    )
    if newest is None and not (task and project):
        what = f"task {task} has no page" if task else "there is no page that can be read"
        raise NotFoundError(what, "list the pages: adjourn page; for an archived one, give TASK and --project")
    chosen = newest.task if newest else task
    name = project or (page_archive.project_of(newest) if newest else "")
    done = page_archive.archive(context.tree, chosen, name, context.store_or_none())
    if as_json:
        say_json(task=chosen, project=name, folder=done.folder, moved=done.moved, pages=len(done.entries))
    else:
        say(
            f"archived: {counted(len(done.moved), 'page')} of task {safe(chosen)} to {done.folder}/ ({len(done.entries)} there)"
        )


# --- `adjourn page restore`


@click.command(epilog=example("adjourn page restore security-review"))
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
        raise NotFoundError("no project is archived here", "archive finished work: adjourn page archive --project NAME")
    if not project and len(there) != 1:
        raise UsageError(f"{len(there)} archived projects: choose one", f"name one: {', '.join(there[:20])}")
    path = page_archive.restore(root, project or there[0])
    if as_json:
        say_json(project=project or there[0], page=path)
    else:
        say(f"restored: {path} is active again (from {safe(page_archive.folder_of(project or there[0]))}/)")


# --- `adjourn reflect`


@click.command(
    "reflect", epilog=example("adjourn reflect", "adjourn reflect --svg plots", "adjourn reflect --dry-run --json")
)
@text_option("--svg DIR", "Write the plots into DIR, as SVG.")
@flag("--dry-run", "Change nothing in memory/MEMORY.md and the archives.")
@in_folder
@for_machines
def reflect_(*, svg: str, dry_run: bool, as_json: bool) -> None:
    """Derive heuristics from archived work: statistics over its checkpoints, and rules that at least five tasks support.

    Heuristics are kept in memory/MEMORY.md under "Checkpoint heuristics", one line each, replaced by the next run, and removed when
    they no longer apply. The same archives give the same lines. The two best supported by finished tasks alone, as the store's history
    proves them, reach each hand-over.
    """
    from adjourn.checkpoints import reflect

    root = workspace_of().tree
    reflection = reflect.reflect(root)
    changed = False if dry_run else reflect.remember(root, reflection)
    store = CommandContext("").store_or_none()
    if store is not None and not dry_run:
        reflect.keep_rules(store)
    if svg:
        os.makedirs(svg, exist_ok=True)
        for name, picture in reflect.draw(reflection).items():
            write_file(svg, name, picture.encode())
    if as_json:
        say_json(_to_json(reflection, changed=changed))
    else:
        _print(reflection, changed=changed)
    for reason in reflection.broken:
        complain(safe(reason))


def _to_json(reflection: reflect.Reflection, *, changed: bool) -> dict[str, object]:
    return {
        "tasks": len(reflection.chains),
        "checkpoints": sum(len(chain) for chain in reflection.chains),
        "statistics": [
            {
                "name": statistic.name,
                "title": statistic.title,
                "tasks": statistic.n,
                "rate": statistic.rate if statistic.rate >= 0 else None,
                "value": statistic.value,
                "heuristic": statistic.heuristic,
                "evidence": list(statistic.evidence),
                "against": list(statistic.against),
            }
            for statistic in reflection.statistics
        ],
        "memoryChanged": changed,
    }


def _print(reflection: reflect.Reflection, *, changed: bool) -> None:
    heuristics = [statistic for statistic in reflection.statistics if statistic.heuristic]
    count = sum(len(chain) for chain in reflection.chains)
    wrote = "; memory/MEMORY.md brought up to date" if changed else ""
    say(
        f"{counted(len(heuristics), 'heuristic')} from {counted(len(reflection.chains), 'archived task')}, {counted(count, 'checkpoint')}{wrote}"
    )
    rows = [
        (statistic.title, str(statistic.n), statistic.value or "nothing yet") for statistic in reflection.statistics
    ]
    say_table(("STATISTIC", "TASKS", "VALUE"), rows)
    for statistic in heuristics:
        say(f"- {safe(statistic.heuristic)}")


# --- `adjourn rollback`

_KINDS = {
    "restore": "restored",
    "bring back": "brought back",
    "leave": "made since, stays",
    "make room": "saved and removed, to make room",
    "avoid": "not restored",
}


@click.command(epilog=example("adjourn rollback", "adjourn rollback --yes", "adjourn rollback --files --yes"))
@click.argument("checkpoint", default="", type=CHECKPOINT_NAME)
@flag("--files", "Roll back the files only.")
@flag("--state", "Roll back the page only.")
@flag("-y, --yes", "Roll back. Without this option, preview only.")
@at_store
@for_machines
def rollback(context: CommandContext, checkpoint: str, *, files: bool, state: bool, yes: bool, as_json: bool) -> None:
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
    plan = engine.plan(task, context.root, target, files=files or both, tree=context.tree)
    if yes:
        speak()
    done = (
        engine.carry_out(task, context.root, plan, state=state or both, by=user(), tree=context.tree) if yes else None
    )
    if as_json:
        say_json(_rollback_to_json(plan, done))
        return
    to = f"{safe(str(target.machine.get('name', '')))} ({safe(target.path)})"
    if done is None:
        say(f"would roll back to {to}; add --yes to do it")
    else:
        say(f"rolled back to {to}" + (f"; {done.page} is active" if done.page else ""), "green")
    _say_files(done.files if done else plan.files)
    if not plan.commit and (files or both):
        say("  no files were kept with it")
    if plan.effects:
        say("not undone, newest first")
        for effect in plan.effects:
            say(cut(f"  {safe(effect.tool)} {safe(effect.arguments)}", width()))
    if done is not None:
        _say_undo(done)


def _finish(context: CommandContext, interrupted: str, checkpoint: str, *, yes: bool, as_json: bool) -> None:
    """Finish a rollback that was killed. Another one cannot start before."""
    from adjourn.checkpoints import rollback as engine

    if checkpoint:
        raise ConflictError("an earlier rollback was interrupted", "finish it first: adjourn rollback --yes")
    if yes:
        speak()
    done = engine.finish(context.writable(interrupted), context.root, by=user(), tree=context.tree) if yes else None
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


def _rollback_to_json(plan: engine.RollbackPlan, done: engine.RollbackResult | None) -> dict[str, object]:
    return {
        "target": plan.target.path,
        "checkpoint": plan.target.id,
        "commit": plan.commit,
        "notUndone": [effect._asdict() for effect in plan.effects],
        **_result_to_json(done),
        "files": [_change_to_json(change) for change in (done.files if done else plan.files)],
    }
