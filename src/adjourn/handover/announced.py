"""The work that a new session learns of unasked: pending in the store, else brought by the folder of a checkpoint.

Owns: where it is looked for. Must never: load what examines folders where the store wrote all of them (a proxy calls this at its start).
"""

from __future__ import annotations

import os

from adjourn.clients import ClientContext
from adjourn.handover.pending import PendingWork, find_stored_work
from adjourn.host import CHECKPOINTS


def find_pending_work(context: ClientContext, own: str = "") -> PendingWork | None:
    """The pending work for a client: its `own` task if that has any, else the newest, else what only a folder brought. None when there
    is none.
    """
    found = find_stored_work(context, own)
    if found is not None or not (folders := _new_folders(context)):
        return found
    from adjourn.handover.carried import find_carried_work  # noqa: PLC0415  # few starts meet such folders

    return find_carried_work(context, folders)


def untrusted_work(context: ClientContext) -> str:
    """One line for a client without pending work, if a folder was brought whose signer is not trusted; "" without any.

    Of such a folder it has the name and the key alone: a cloned repository may be hostile.
    """
    if not (folders := _new_folders(context)):
        return ""
    from adjourn.handover.carried import find_untrusted_work  # noqa: PLC0415  # few starts meet such folders

    return find_untrusted_work(context, folders)


def _new_folders(context: ClientContext) -> list[str]:
    """The names in the folder of checkpoints that the store did not write; none for a client that was bound to a task."""
    if context.options.task:
        return []
    try:
        names = os.listdir(os.path.join(context.options.checkpoint_root, CHECKPOINTS))
    except OSError:
        return []
    written = context.store.refs("folder/") if names else {}
    return [name for name in names if f"folder/{name}" not in written]
