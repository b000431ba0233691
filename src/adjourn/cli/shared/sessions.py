"""Cognitive sessions of programs, as `adjourn checkpoints`, `show` and `verify` show them.

Owns: what is shown of a session. Must never: load the code of sessions where a store has none, or show a task's state of mind as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjourn.cli.shared.output import safe, say, say_facts
from adjourn.errors import AdjournError, NotFoundError
from adjourn.knowledge import cognition
from adjourn.log import timestamp

if TYPE_CHECKING:
    from adjourn.store import Store

_STREAM = "cognition/"


def session_ids(store: Store) -> list[str]:
    """The ids of the sessions that programs keep in a store, without the states of mind of its tasks."""
    streams = store.streams()
    names = [name.removeprefix(_STREAM) for name in streams if name.startswith(_STREAM)]
    return sorted(set(names).difference(streams)) if names else []


def session_facts(store: Store, session_id: str) -> dict[str, Any]:
    """What `--json` prints of a session. Raises `IntegrityError` where a page or a checkpoint of it was changed in the store."""
    sessions = cognition.SessionRepository(store)
    found = sessions.open(session_id)
    if found is None:
        raise NotFoundError(f"there is no session {session_id}", "see `adjourn checkpoints`")
    session, made = found.session, list(sessions.made(session_id))
    goals = {goal["id"]: goal["description"] for goal in session["workingState"]["intentGraph"]["goals"]}
    return {
        "session": session_id,
        "goal": goals.get(session["workingState"]["intentGraph"]["rootIntentId"], ""),
        "timestamp": timestamp(session["lastModifiedAt"]),
        "branch": session["currentBranchId"],
        "head": cognition.head_of(session),
        "checkpoints": made,
        "facts": len(session["workingState"]["epistemicState"]["facts"]),
        "openQuestions": len(session["workingState"]["epistemicState"]["openQuestions"]),
        "metrics": session["totalMetrics"],
    }


def all_sessions(store: Store) -> tuple[list[dict[str, Any]], list[tuple[str, AdjournError]]]:
    """The facts of all sessions of programs, and those that cannot be read."""
    told, broken = [], []
    for name in session_ids(store):
        try:
            told.append(session_facts(store, name))
        except AdjournError as error:
            broken.append((name, error))
    return told, broken


def verify_sessions(store: Store) -> list[dict[str, Any]]:
    """Read every session and every checkpoint of it as a resume would. `reason` says why one is not valid."""
    checked = []
    for name in session_ids(store):
        made, reason = 0, ""
        try:
            made = _read_all(store, name)
        except AdjournError as error:
            reason = error.message
        checked.append({"session": name, "checkpoints": made, "valid": not reason, "reason": reason})
    return checked


def _read_all(store: Store, session_id: str) -> int:
    sessions = cognition.SessionRepository(store)
    sessions.open(session_id)
    made = list(sessions.made(session_id))
    for name in made:  # a deleted one is None, and no defect
        sessions.checkpoint(name)
    return len(made)


def show_session(facts: dict[str, Any]) -> None:
    """Print a session in full."""
    say(f"{safe(facts['session'])}: cognitive session of a program")
    metrics = facts["metrics"]
    say_facts(
        ("goal", safe(facts["goal"])),
        ("changed", facts["timestamp"]),
        ("branch", safe(facts["branch"])),
        ("checkpoints", f"{len(facts['checkpoints'])}, the last one {facts['head'] or 'not made yet'}"),
        ("knows", f"{facts['facts']} facts, {facts['openQuestions']} open questions"),
        ("replies", f"{metrics['requestCount']}, {metrics['tokensConsumed']} tokens"),
    )
