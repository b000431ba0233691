"""Cognitive sessions and their checkpoints in a store, and the changes after which a checkpoint is created.

The stream `cognition/SESSION` has one page for each change. The last page is the session, and the compare-and-swap of the stream lets only
one process continue it. A page names the blob of the working state, stored as a difference against the last checkpoint of its branch. The
ref `snapshot/CHECKPOINT` names the blob of a checkpoint, whole or as a difference against another (`deltas`). Everything that belongs to
one change is written in one append.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import msgspec
from msgspec import UNSET, UnsetType

from adjourn.errors import ConflictError, IntegrityError, InvalidError, NotFoundError, RefusedError
from adjourn.knowledge.cognition.checkpoints import create_checkpoint
from adjourn.knowledge.cognition.deltas import MAX_DIFFS, Snapshot, pack, rebase, unpack
from adjourn.knowledge.model.cognition import WORKING_STATE, CognitiveSession
from adjourn.knowledge.model.documents import Id, Ids, Sha256, Tree, by_id, check, tree_of, without
from adjourn.knowledge.model.part import DocumentPart
from adjourn.log.canonical_json import canonical, digest
from adjourn.store.base import EMPTY, Entry, Head, Store
from adjourn.text.quoting import one_line

# --- triggers
#
# phase_change     the last node is in another phase
# tool_complete    a tool-call node became completed
# decision_made    a decision node became completed, or a decision of the record left `tentative`
# high_confidence  a node's confidence reached the threshold from below, or began there; once per node
# branch_created   there is a new branch
# error_recovery   a node that had failed became completed, or one became completed that retries a failed one (same parent and tool)

Trigger = Literal[
    "phase_change", "tool_complete", "decision_made", "high_confidence", "branch_created", "error_recovery"
]
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
THRESHOLD = 0.9
MAX_LABEL = 200
MAX_DESCRIPTION = 60_000


class FiredTrigger(NamedTuple):
    """Why a checkpoint is due, and its label and description. `automatic`: because of the number of replies."""

    trigger: Trigger | Literal["automatic"]
    label: str
    description: str


class TriggerState(NamedTuple):
    """The history that a change does not show: the ids of nodes that failed, and of those whose confidence was high."""

    failed: frozenset[str] = frozenset()
    confident: frozenset[str] = frozenset()


def fired_triggers(
    before: Tree,
    after: Tree,
    watched: TriggerState = TriggerState(),  # noqa: B008  # a constant
    *,
    triggers: Collection[Trigger] = TRIGGERS,
    threshold: float = THRESHOLD,
) -> tuple[list[FiredTrigger], TriggerState]:
    """The triggers that a change of a session fires, and the trigger state after it.

    Start with the `trigger_state` of the first session; pass the returned state with the next change.
    """
    fired = [*_phase(before, after), *_nodes(before, after, watched, threshold), *_branches(before, after)]
    now = trigger_state(after, threshold)
    completed = {node["id"] for node in after["workingState"]["nodes"] if node["status"] == "completed"}
    state = TriggerState((watched.failed | now.failed) - completed, watched.confident | now.confident)
    return [occasion for occasion in fired if occasion.trigger in triggers], state


def trigger_state(session: Tree, threshold: float = THRESHOLD) -> TriggerState:
    """The trigger state of a session without known history."""
    nodes = session["workingState"]["nodes"]
    return TriggerState(
        frozenset(node["id"] for node in nodes if node["status"] == "failed"),
        frozenset(node["id"] for node in nodes if node["confidence"] >= threshold),
    )


def fired_by_record(before: Tree, after: Tree) -> list[FiredTrigger]:
    """The triggers that a change of a Continuation Record fires."""
    old = by_id(before["decisions"])
    return [
        FiredTrigger(
            "decision_made",
            f"Decision: {decision['description']}",
            f"{decision['description']} is {decision['status']}",
        )
        for decision in after["decisions"]
        if old.get(decision["id"], decision)["status"] == "tentative" != decision["status"]
    ]


def combined_label(fired: Sequence[FiredTrigger]) -> tuple[str, str]:
    """The label and the description of the one checkpoint for several triggers."""
    labels, descriptions = (
        "; ".join(dict.fromkeys(map(one_line, texts)))
        for texts in ([trigger.label for trigger in fired], [trigger.description for trigger in fired])
    )
    return one_line(labels, MAX_LABEL), one_line(descriptions, MAX_DESCRIPTION)


def _phase(before: Tree, after: Tree) -> Iterator[FiredTrigger]:
    phase, old = (
        session["workingState"]["nodes"][-1]["phase"] if session["workingState"]["nodes"] else ""
        for session in (after, before)
    )
    if phase and phase != old:
        yield FiredTrigger("phase_change", f"Phase: {phase}", f"Entering {phase} phase")


def _nodes(before: Tree, after: Tree, watched: TriggerState, threshold: float) -> Iterator[FiredTrigger]:
    old = by_id(before["workingState"]["nodes"])
    nodes = after["workingState"]["nodes"]
    failed = {_attempt(node) for node in nodes if node["status"] == "failed"}
    for node in nodes:
        was, label = old.get(node["id"]), node["label"]
        if was is node:
            continue
        if node["status"] == "completed" and not (was and was["status"] == "completed"):
            if node["type"] == "tool-call":
                tool = node.get("toolBinding", {}).get("toolName", label)
                yield FiredTrigger("tool_complete", f"Tool: {tool}", f"Completed {label}")
            if node["type"] == "decision":
                yield FiredTrigger("decision_made", f"Decision: {label}", f"Decided {label}")
            if node["id"] in watched.failed or (was and was["status"] == "failed") or _attempt(node) in failed:
                yield FiredTrigger("error_recovery", f"Recovered: {label}", f"Completed {label} after a failure")
        was_confident = node["id"] in watched.confident or (was and was["confidence"] >= threshold)
        if node["confidence"] >= threshold and not was_confident:
            text = f"{label} has confidence {node['confidence']:g}"
            yield FiredTrigger("high_confidence", f"Confidence: {label}", text)


def _attempt(node: Tree) -> tuple[str, str] | str:
    """A key that two attempts at the same step share. A node without a parent or a tool has a key of its own."""
    if "parentId" in node and "toolBinding" in node:
        return (node["parentId"], node["toolBinding"]["toolName"])
    return f"only {node['id']}"


def _branches(before: Tree, after: Tree) -> Iterator[FiredTrigger]:
    for name, branch in after["branches"].items():
        if name not in before["branches"]:
            yield FiredTrigger("branch_created", f"Branch: {branch['name']}", f"Created branch {branch['name']}")


# --- sessions in a store

_DRAFT = "working-state"


class SnapshotLocation(DocumentPart, frozen=True, kw_only=True):
    """Where a snapshot is: its blob, and the checkpoint `base` that it is a difference against. `depth` counts the differences."""

    session: Id
    blob: Sha256
    base: Id | UnsetType = UNSET
    depth: int = 0


class _SessionEntry(DocumentPart, frozen=True, kw_only=True):
    """A session after a change. `session` is without its working state and its checkpoints; `made` are new checkpoints."""

    session: dict[str, Any]
    working: SnapshotLocation
    failed: Ids = ()
    confident: Ids = ()
    resumed_from: Id | UnsetType = UNSET
    made: Ids = ()


class StoredSession(NamedTuple):
    """A session at a head of its stream. Of its checkpoints, it has only the last one of its branch."""

    session: Tree
    watched: TriggerState
    resumed_from: str
    at: Head


class SessionRepository:
    """The sessions of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def ids(self) -> list[str]:
        """The ids of all sessions."""
        return [name.removeprefix("cognition/") for name in self.store.streams() if name.startswith("cognition/")]

    def head(self, session_id: str) -> Head:
        """The position of a session's last page."""
        return self.store.head(_stream(session_id))

    def open(self, session_id: str) -> StoredSession | None:
        """A session at its head; None without a session of that id. Raises `IntegrityError`."""
        at = self.head(session_id)
        if at == EMPTY:
            return None
        page = next((page for page in self._pages(session_id, at.seq, at.seq + 1)), None)
        if page is None:
            raise IntegrityError(f"the last page of session {session_id} is missing", _RESTORE)
        session = self._session(page)
        watched = trigger_state(session)
        watched = TriggerState(watched.failed.union(page.failed), watched.confident.union(page.confident))
        return StoredSession(session, watched, page.resumed_from or "", at)

    def save(self, stored_session: StoredSession, rows: Sequence[Tree] = ()) -> StoredSession:
        """Write a session after its head `kept.at`, with its new checkpoints, oldest first. Returns it at the new head.

        Raises `ConflictError` if another process changed the session, and `InvalidError` for a session that could not be opened again.
        Then nothing is written.
        """
        check(stored_session.session, CognitiveSession)
        session, refs, blobs = stored_session.session, dict[str, str | None](), list[bytes]()
        depths: dict[str, int] = {}
        for tree in rows:
            depths[tree["id"]] = self._keep(tree, session, depths, refs, blobs)
        depth = self._depth(head_of(session), depths) if head_of(session) else 0
        snapshot = pack(as_checkpoint(session), session["checkpoints"].get(head_of(session)), base_depth=depth)
        blobs.append(snapshot.data)
        state = trigger_state(session)
        page = _SessionEntry(
            session=without(session, "workingState", "checkpoints"),
            working=_place(snapshot, session["id"]),
            failed=tuple(sorted(stored_session.watched.failed - state.failed)),
            confident=tuple(sorted(stored_session.watched.confident - state.confident)),
            resumed_from=stored_session.resumed_from or UNSET,
            made=tuple(tree["id"] for tree in rows),
        )
        data = canonical(tree_of(page))
        try:
            at = self.store.append(
                _stream(session["id"]), [Entry(digest(data), data)], expect=stored_session.at, refs=refs, blobs=blobs
            )
        except ConflictError as error:
            raise ConflictError(
                f"session {session['id']} changed in another process since you read it; nothing was written",
                "open the session again and retry, or start another session",
            ) from error
        return stored_session._replace(at=at)

    def checkpoint(self, checkpoint_id: str) -> Tree | None:
        """A checkpoint of any session; None without a checkpoint of that id. Raises `IntegrityError`."""
        line: list[Snapshot] = []
        name = checkpoint_id
        while name:
            place = self._find(name)
            if place is None or len(line) > MAX_DIFFS:
                if not line:
                    return None
                raise IntegrityError(f"the base {name} of checkpoint {checkpoint_id} is missing", _RESTORE)
            line.append(self._snapshot(name, place))
            name = place.base or ""
        tree = unpack(reversed(line)) if line else None
        if tree is not None and tree["id"] != checkpoint_id:
            raise IntegrityError(f"the store has checkpoint {tree['id']} under the id {checkpoint_id}", _RESTORE)
        return tree

    def made(self, session_id: str) -> Iterator[str]:
        """The ids of the checkpoints that a session has made, oldest first."""
        return (name for page in self._pages(session_id) for name in page.made)

    def delete(self, checkpoint_id: str) -> None:
        """Delete a checkpoint permanently. First stores the checkpoints that are differences against it in another way.

        Raises `NotFoundError`, and `RefusedError` for the last checkpoint of a branch, from which its session would continue.
        """
        place = self._find(checkpoint_id)
        if place is None:
            raise NotFoundError(f"there is no checkpoint {checkpoint_id}", "name one that was made in this store")
        for session_id in self.ids():
            if checkpoint_id in self._heads(session_id):
                raise RefusedError(
                    f"checkpoint {checkpoint_id} is the last one of a branch of session {session_id}",
                    "create another checkpoint on that branch first",
                )
        base = self.checkpoint(place.base) if place.base else None
        for ref, value in self.store.refs("snapshot/").items():
            name = ref.removeprefix("snapshot/")
            other = self._find(name)
            if other is None or other.base != checkpoint_id:
                continue
            dependant = self.checkpoint(name)
            assert dependant is not None
            (snapshot,) = rebase([dependant], base, base_depth=place.depth - 1)
            self.store.put_blob(snapshot.data)
            self.store.swap(ref, _written(_place(snapshot, other.session)), expect=value)
            self.store.forget(other.blob)
        self.store.swap(_ref(checkpoint_id), None, expect=_written(place))
        self.store.forget(place.blob)

    # --- the parts

    def _heads(self, session_id: str) -> set[str]:
        """The last checkpoints of all branches of a session."""
        at = self.head(session_id)
        return {
            branch.get("headCheckpointId", "")
            for page in self._pages(session_id, at.seq, at.seq + 1)
            for branch in page.session["branches"].values()
        }

    def _pages(self, session_id: str, start: int = 0, stop: int | None = None) -> Iterator[_SessionEntry]:
        for entry in self.store.read(_stream(session_id), start, stop):
            if not isinstance(entry.data, bytes) or digest(entry.data) != entry.hash:
                raise IntegrityError(f"a page of session {session_id} was changed in the store", _RESTORE)
            try:
                yield msgspec.json.decode(entry.data, type=_SessionEntry)
            except msgspec.DecodeError as error:
                raise IntegrityError(f"not a page of session {session_id}: {error}", "update adjourn") from error

    def _session(self, page: _SessionEntry) -> Tree:
        base_id = page.working.base or ""
        base = self.checkpoint(base_id) if base_id else None
        working = self._snapshot(_DRAFT, page.working)
        snapshot = Snapshot(base["id"], canonical(base)) if base else None
        state = unpack([*([snapshot] if snapshot else []), working])
        head = head_of(page.session)
        last = base if base_id == head else self.checkpoint(head)
        session = {
            **page.session,
            "workingState": {name: state[name] for name in WORKING_STATE},
            "checkpoints": {head: last} if last else {},
        }
        check(session, CognitiveSession)
        return session

    def _keep(
        self, fields: Tree, session: Tree, depths: Mapping[str, int], refs: dict[str, str | None], blobs: list[bytes]
    ) -> int:
        """Add the blob and the ref of a new checkpoint. Returns how many differences it is stored as."""
        if self._find(fields["id"]) is not None:
            raise InvalidError(f"checkpoint {fields['id']} already exists", "use a new id")
        parent = fields.get("parentCheckpointId", "")
        base = session["checkpoints"].get(parent)
        snapshot = pack(fields, base, base_depth=self._depth(parent, depths) if base else 0)
        blobs.append(snapshot.data)
        refs[_ref(fields["id"])] = _written(_place(snapshot, session["id"]))
        return snapshot.depth

    def _find(self, checkpoint_id: str) -> SnapshotLocation | None:
        value = self.store.ref(_ref(checkpoint_id))
        if value is None:
            return None
        try:
            return msgspec.json.decode(value, type=SnapshotLocation)
        except msgspec.DecodeError as error:
            raise IntegrityError(
                f"the location of checkpoint {checkpoint_id} was changed in the store", _RESTORE
            ) from error

    def _depth(self, checkpoint_id: str, depths: Mapping[str, int]) -> int:
        place = None if checkpoint_id in depths else self._find(checkpoint_id)
        if place is None and checkpoint_id not in depths:
            raise IntegrityError(f"checkpoint {checkpoint_id} is missing", _RESTORE)
        return place.depth if place else depths[checkpoint_id]

    def _snapshot(self, name: str, place: SnapshotLocation) -> Snapshot:
        data = self.store.get_blob(place.blob)
        if data is None:
            raise IntegrityError(f"the data of {name} is missing", _RESTORE)
        return Snapshot(name, data, place.base or "", place.depth)


_RESTORE = "restore the store from a backup, or resume from another checkpoint"


def head_of(session: Tree) -> str:
    """The id of the last checkpoint of the current branch; "" without one."""
    head: str = session["branches"][session["currentBranchId"]].get("headCheckpointId", "")
    return head


def as_checkpoint(session: Tree) -> Tree:
    """The present state of a session, as a checkpoint that is not stored."""
    head = head_of(session)
    label = f"after checkpoint {head}" if head else "before the first checkpoint"
    draft, _ = create_checkpoint(session, label, session["lastModifiedAt"], new_id=lambda: _DRAFT)
    return draft


def _place(snapshot: Snapshot, session_id: str) -> SnapshotLocation:
    return SnapshotLocation(
        session=session_id, blob=digest(snapshot.data), base=snapshot.base or UNSET, depth=snapshot.depth
    )


def _written(place: SnapshotLocation) -> str:
    return msgspec.json.encode(place).decode()


def _stream(session_id: str) -> str:
    return f"cognition/{session_id}"


def _ref(checkpoint_id: str) -> str:
    return f"snapshot/{checkpoint_id}"
