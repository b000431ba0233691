"""`CRStore`: Continuation Records as a program reads and writes them, typed."""

from __future__ import annotations

from adjourn.knowledge.model.documents import Tree, view
from adjourn.knowledge.model.record import ContinuationRecord
from adjourn.knowledge.records.store import RecordStore


class CRStore(RecordStore[ContinuationRecord]):
    """Continuation Records over a `Store`. Safe to use from several threads; several processes may use one store.

    `id` names a record, `contentHash` one version of it. Records and their parts come out typed and frozen, and go in typed or as dicts;
    members that this version does not know stay in them. `clock` returns milliseconds; `new_id` makes ids of records.

    Methods raise `UnknownRecordError` (a `KeyError`) for an unknown record, `InvalidError` for a value that is not a record,
    `RefusedError` if a rule or a missing authority forbids the change, and `ConflictError` if another process wrote first. An
    error means that nothing was written. A returned record is durable.

    >>> records = CRStore(MemoryStore())
    >>> record = records.create({"task": {"id": "t1", "goal": "pay"}}, author=CRAuthor(id="a", type="agent"))
    >>> record.task.goal, record.sequence
    ('pay', 0)
    """

    def _made(self, record: Tree) -> ContinuationRecord:
        return view(record, ContinuationRecord)
