"""The arguments of a call that waits, as far as the store has them, and the file that it would write.

Owns: reading both. Must never: read a file outside of the work tree, or fail because one cannot be read.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from adjourn import host
from adjourn.errors import AdjournError, NotFoundError
from adjourn.handover.arguments import ShownArguments, read_arguments
from adjourn.handover.inbox import WaitingItem
from adjourn.store import Store

MAX_FILE = 1 << 20
"""Bytes of a file that a call writes, to be shown as a change of it."""


def arguments_of(store: Store, item: WaitingItem, tree: str) -> ShownArguments:
    """The arguments of a call, with a diff where it changes a file of the work tree `tree`; nothing for what is no call."""
    if item.kind not in ("approval", "in-doubt"):
        return ShownArguments()
    return read_arguments(_longest(store, item), partial(_file, tree))


def _longest(store: Store, item: WaitingItem) -> str:
    """The longest text of the arguments that the store has."""
    with suppress(AdjournError):  # a document that was changed in the store
        if item.document and (found := store.get_blob(item.document)) is not None:
            return found.decode(errors="replace")
    return item.context


def _file(tree: str, path: str) -> str | None:
    """A text file of the work tree as it is now, "" for one that is not there; None for what is elsewhere, large, or no text."""
    try:
        return host.read_inside(tree, path, MAX_FILE).decode()
    except NotFoundError:
        return ""
    except (AdjournError, UnicodeDecodeError):
        return None
