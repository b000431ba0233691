"""A checkpoint that somebody asks for: in the store, as a folder that carries itself, and as a page that a person can read.

Owns: that these three belong together, and reading what is said of the work. Must never: let a page that cannot be written take
the checkpoint with it.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import msgspec

from adjourn.checkpoints import checkpoint, folder_writing, page_writer
from adjourn.checkpoints.builder import NOTHING_SAID, Said
from adjourn.checkpoints.checkpoint import Checkpoint
from adjourn.checkpoints.histories import remove_temporaries, share_histories
from adjourn.errors import AdjournError, InvalidError
from adjourn.log import Actor
from adjourn.tasks import SYSTEM, Session, Task


class Made(NamedTuple):
    """A checkpoint, its folder and its page ("" where it could not be written), and what is to be said about the page."""

    checkpoint: Checkpoint
    folder: str
    page: str
    notes: list[str]


def make(
    task: Task,
    root: str,
    name: str,
    *,
    budget: int | None,
    description: str = "",
    said: Said = NOTHING_SAID,
    trigger: str = "agent",
    sitting: Session | None = None,
    by: Actor = SYSTEM,
    began: str = "",
) -> Made:
    """Make it. Raises what making the checkpoint or its folder raises."""
    made = checkpoint.create(task, name, description=description, trigger=trigger, sitting=sitting, by=by)
    path = folder_writing.write(task.store, made, root)
    remove_temporaries(os.path.join(root, path))  # the folder may be committed
    share_histories(root)
    try:
        page = page_writer.write(task, made, root, budget=budget, said=said, began=began)
    except AdjournError as error:
        return Made(made, path, "", [f"it has no page: {error}"])
    return Made(made, path, page.path, page.notes)


def said_in(arguments: dict[str, Any]) -> Said:
    """What is said of the work in the arguments of `aex.checkpoint`, beside `name` and `description`."""
    try:
        return msgspec.convert(arguments, Said)
    except msgspec.ValidationError as error:
        raise InvalidError(f"not what a page can say: {error}", "see the tool's input schema") from error
