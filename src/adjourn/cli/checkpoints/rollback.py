"""`adjourn rollback`."""

from __future__ import annotations

import click

from adjourn.checkpoints import RollbackChange
from adjourn.checkpoints import rollback as engine
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines, speak, user
from adjourn.cli.shared.output import complain, cut, safe, say, say_json
from adjourn.cli.shared.terminal import width
from adjourn.errors import ConflictError

_KINDS = {
    "restore": "restored",
    "bring back": "brought back",
    "leave": "made since, stays",
    "avoid": "not restored",
}


@click.command(epilog=example("adjourn rollback", "adjourn rollback --yes", "adjourn rollback --files --yes"))
@click.argument("checkpoint", default="")
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
        say_json(_to_json(made, done))
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


def _to_json(made: engine.RollbackPlan, done: engine.RollbackResult | None) -> dict[str, object]:
    return {
        "target": made.target.path,
        "checkpoint": made.target.id,
        "commit": made.commit,
        "notUndone": [effect._asdict() for effect in made.effects],
        **_result_to_json(done),
        "files": [_change_to_json(change) for change in (done.files if done else made.files)],
    }
