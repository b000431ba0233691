"""The names of tasks and checkpoints, one a line, for a shell that completes them. Without the framework: a key press waits for it.

Owns: those lines. Must never: print a name with a character that a shell gives a meaning, or a message.
"""

from __future__ import annotations

import re
from typing import Final

from adjourn.cli.shared.store_context import StoreContext
from adjourn.errors import AdjournError
from adjourn.tasks import tasks_of

KINDS: Final = ("tasks", "checkpoints")
MAX_NAMES: Final = 1000
_PLAIN = re.compile(r"[A-Za-z0-9._/-]{1,200}")


def say_names(kind: str) -> None:
    """Print the names of a kind; nothing where there is no store, or where it cannot be read."""
    context = StoreContext()
    try:
        store = context.store_or_none()
        if store is None:
            return
        found = (
            tasks_of(store)
            if kind == "tasks"
            else [ref.partition("/")[2] for ref in store.refs("checkpoint/")]
        )
        for name in sorted(found)[-MAX_NAMES:]:
            if _PLAIN.fullmatch(name):
                print(name)
    except AdjournError:
        return
    finally:
        context.close()
