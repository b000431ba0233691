"""Sessions whose checkpoint file is damaged: the store has each step, too.

Owns: `restore_damaged`. Must never: delete a damaged file, or touch that of a session that another server works on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from adjourn.code.model import codec
from adjourn.code.model.session_state import SessionState
from adjourn.code.sessions import checkpoint_file, journal
from adjourn.code.sessions.last_step import last_step
from adjourn.errors import AdjournError
from adjourn.host import keys, now
from adjourn.store import Store
from adjourn.tasks import Task


def restore_damaged(root: str, store_of: Callable[[str], Store]) -> list[str]:
    """Restore every damaged checkpoint of a work tree from the store. Returns what was done, file by file."""
    _, damaged = checkpoint_file.read_all(root)
    if not damaged:
        return []
    store = store_of(root)
    held = journal.held_elsewhere(store, list(damaged))
    return [_restored(root, store, session, why) for session, why in damaged.items() if session not in held]


def _restored(root: str, store: Store, session: str, why: str) -> str:
    aside = checkpoint_file.set_aside(root, session)
    state = _last_state(store, session)
    if state is None:
        return f"the checkpoint of {session} is damaged ({why}), and the store has no step of it: it is kept as {aside}"
    state.repo_path = root
    checkpoint_file.put(root, state)
    return (
        f"the checkpoint of {session} was damaged ({why}): it is kept as {aside}, and the session was restored from the"
        " store, as of its last step"
    )


def _last_state(store: Store, session: str) -> SessionState | None:
    """The session after its last step, as the store has it; None for one that it does not know, or that is over."""
    with suppress(AdjournError):
        step = last_step(store, Task(store, session, clock=now, secret=keys.secret()).ledger)
        document = store.get_blob(step.document) if step is not None and step.phase else None
        if document is not None:
            state = codec.decode(document)
            return state if state.session_id == session else None
    return None
