"""Rolling back to a checkpoint: its page becomes the active one again, and files get the content they had.

The history keeps everything: no call is refunded, and no effect outside of the workspace is undone. The plan lists such effects.

Owns: the plan, and carrying it out. Must never: change anything while planning.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adjourn.checkpoints import git_snapshot, page_writer
from adjourn.checkpoints.checkpoint import create
from adjourn.checkpoints.git_snapshot import RollbackChange
from adjourn.checkpoints.page_files import FoundPage, search
from adjourn.checkpoints.save import task_checkpoint_name
from adjourn.checkpoints.triggers import BEFORE
from adjourn.errors import NotFoundError
from adjourn.log import Actor, decode, kinds, tool_name
from adjourn.policy import read_settings
from adjourn.tasks import Task, following

MAX_EFFECTS = 100


class Effect(NamedTuple):
    """An allowed call with an effect since the checkpoint. A rollback does not undo what it did outside of the workspace."""

    call: str
    tool: str
    arguments: str
    time: str


class RollbackPlan(NamedTuple):
    """What a rollback would do: the page, the commit with the saved files ("" for none), their changes, and effects that stay."""

    target: FoundPage
    commit: str
    files: list[RollbackChange]
    effects: list[Effect]


class RollbackResult(NamedTuple):
    """What a rollback did: the new page's path, the commit with the files before ("" for neither), and the changes."""

    page: str
    undo: str
    files: list[RollbackChange]


def target_of(root: str, name: str = "") -> FoundPage:
    """The page to roll back to: by name, hash or path, else the newest one before a destructive call. Raises `NotFoundError`."""
    found = search(root).pages
    for page in found:
        known = (page.machine.get("name"), page.id, page.path)
        if name in known if name else str(page.machine.get("trigger", "")).startswith(BEFORE):
            return page
    what = f"no page of {name!r}" if name else "no page of a checkpoint before a destructive call"
    raise NotFoundError(what, "list the pages with `adjourn checkpoint`")


def plan(task: Task, root: str, target: FoundPage, *, files: bool = True, tree: str = "") -> RollbackPlan:
    """What a rollback to a page would do. `files` is whether files are restored: those of `tree`, a work tree of the workspace `root`
    (default: the same). Raises `NotFoundError`, `StoreError`.
    """
    commit = commit_of(target) if files else ""
    changed = git_snapshot.changes(tree or root, commit, read_settings(root)) if commit else []
    return RollbackPlan(target, commit, changed, _effects(task, target.seq))


def commit_of(found: FoundPage) -> str:
    """The commit with the files of a checkpoint, "" for none."""
    kept = found.machine.get("files")
    commit = kept.get("commit") if isinstance(kept, dict) else None
    return commit if isinstance(commit, str) else ""


def carry_out(
    task: Task, root: str, made: RollbackPlan, *, state: bool, by: Actor, tree: str = ""
) -> RollbackResult:
    """Roll back. Files first: the present files are saved before, so that this can be undone.

    `state` is whether the page becomes the active one. Raises `AdjournError`.
    """
    undo, changed, more = "", list[RollbackChange](), dict[str, Any]()
    if made.commit:
        number = task.ledger.seq + 1
        changed, kept = git_snapshot.put_back(tree or root, made.commit, task.id, number, read_settings(root))
        undo = kept.commit
        more["files"] = kept.to_json()
    if not state:
        return RollbackResult("", undo, changed)
    target = made.target
    trigger = f"rollback to {target.machine.get('name') or target.path}"[:200]
    checkpoint = create(task, f"{task_checkpoint_name(task.id)[:50]}-rollback", trigger=trigger, by=by)
    written = page_writer.write(
        task, checkpoint, tree or root, budget=task.ledger.budget, base=target, more=more
    )
    return RollbackResult(written.path, undo, changed)


def _effects(task: Task, since: int) -> list[Effect]:
    found = []
    for entry in following(task.store, task.id, since + 1, task.head):
        event = decode(entry.data)
        data = kinds.data_of(event)
        if isinstance(data, kinds.ToolAllowed) and data.arguments:
            found.append(Effect(data.call, tool_name(data), data.arguments, event.timestamp))
    return found[: -MAX_EFFECTS - 1 : -1]
