"""What `adjourn doctor --fix` mends: only what has one answer and takes nothing from anybody.

Owns: these repairs. Must never: change a rule, a policy or a history's meaning, or mend without saying so.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from adjourn.cli.shared import task_view
from adjourn.cli.shared.context import CommandContext
from adjourn.errors import AdjournError
from adjourn.host import create_file, keys, top_of
from adjourn.setup import IGNORED, IGNORED_FILES, moved_programs, undo
from adjourn.tasks import expire_dead_sessions


def fix(context: CommandContext) -> Iterator[str]:
    """Mend what can be mended, and say what was."""
    for mend in (_ignored, _closed_keys, _lost_sessions, _moved):
        with suppress(AdjournError):  # the check that follows says it
            yield from mend(context)


def _ignored(context: CommandContext) -> Iterator[str]:
    folder, name = os.path.split(os.path.join(context.root, IGNORED))
    is_tracked = os.path.isdir(folder) and not os.path.islink(folder) and top_of(context.root)
    if is_tracked and create_file(folder, name, IGNORED_FILES.encode()):
        yield f"{IGNORED} was written: git ignores the history and the copies of settings"


def _closed_keys(context: CommandContext) -> Iterator[str]:
    del context
    for name, others in (("", 0o022), ("trusted", 0o022), ("default.key", 0o077), ("secret", 0o077)):
        path = os.path.join(keys.folder(), name).rstrip("/")
        with suppress(OSError):
            found = os.lstat(path)
            if found.st_mode & others and found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode):
                os.chmod(path, stat.S_IMODE(found.st_mode) & ~(0o077 if others == 0o077 else 0o022))
                yield f"{path} is closed to other users"


def _lost_sessions(context: CommandContext) -> Iterator[str]:
    if context.store_or_none() is None:
        return
    for name, task in task_view.each_task(context):
        if isinstance(task, AdjournError):
            continue
        ended = [
            one.session.id
            for one in task_view.holders(context, task.ledger)
            if not one.alive and one.session.pid
        ]
        if ended:
            expire_dead_sessions(context.writable(name))
            yield f"task {name}: marked as lost: {', '.join(ended)}"


def _moved(context: CommandContext) -> Iterator[str]:
    for change in moved_programs(context.root):
        undo.make([change], context.root)
        yield f"{os.path.relpath(change.path, context.root)}: {change.about[0]}"
