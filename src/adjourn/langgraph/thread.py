"""One LangGraph thread in a store: a task whose events name the documents of its checkpoints and writes.

Refs name the documents, too, to be found without reading the chain: `graph/TASK/NAMESPACE/CHECKPOINT`, `graph-head/TASK/NAMESPACE` for the
newest, `graph-writes/TASK/NAMESPACE/CHECKPOINT/WRITER`. They change in the transaction of the event.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

import msgspec
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    writes_sort_key,
)

from adjourn.errors import IntegrityError
from adjourn.host import keys
from adjourn.host.clock import now
from adjourn.langgraph.values import MARK, SHORTEST_LIST, KnownList, ListOf, ThreadValues
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.store.base import PermanentConflictError, Swap
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import GRAPH_HEADS, GRAPH_WRITES, GRAPHS, NewEvent, Task

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from adjourn.store.base import Store

MAX_ATTEMPTS = 20
"""How often something is written again that another process was faster with."""
MAX_DOCUMENTS, MAX_SMALL = 128, 16 * 1024
"""Documents of checkpoints that are kept in memory for each thread, and the bytes of each of them."""
MAX_SHOWN = 500
"""Characters of what an event says of a checkpoint."""
_T = TypeVar("_T")
_BY = Actor("langgraph", "system")
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch


class ThreadCheckpoint(msgspec.Struct, array_like=True, frozen=True):
    """The document of a checkpoint. `head` is the checkpoint without its values."""

    thread: str
    namespace: str
    id: str
    parent: str
    run: str
    head: Any
    metadata: Any
    values: dict[str, Any]


class _SavedWrite(msgspec.Struct, array_like=True, frozen=True):
    """One write of a node: its number, channel, path of the node, and value."""

    number: int
    channel: str
    path: str
    value: Any


class _SavedWrites(msgspec.Struct, array_like=True, frozen=True):
    """The document of a set of writes. `writer` is the LangGraph task that made them."""

    writer: str
    writes: list[_SavedWrite]


class GraphThread:
    """One thread, opened. Not thread-safe."""

    def __init__(self, store: Store, thread: str, serde: SerializerProtocol) -> None:
        self.id = thread
        self._store = store
        name = task_of(thread)
        self._task = Task(store, name, clock=now, secret=keys.secret())
        self._values = ThreadValues(store, sha256(name.encode()).digest()[:MARK], serde)
        self._lists: dict[tuple[str, str], KnownList] = {}
        """By namespace and channel."""
        self._documents: OrderedDict[str, ThreadCheckpoint] = OrderedDict()
        """Small ones that were read, by digest: a list may be spread over a hundred."""

    @property
    def task(self) -> str:
        """The id of the task."""
        return self._task.id

    # --- reading

    def newest(self, namespace: str) -> str | None:
        """The id of the newest checkpoint of a namespace."""
        return self._store.ref(self._head(namespace))

    def metadata(self, saved: ThreadCheckpoint) -> dict[str, Any]:
        """The metadata of a checkpoint."""
        self._values.start()
        return cast("dict[str, Any]", self._values.load(saved.metadata))

    def checkpoint(self, namespace: str, name: str, config: RunnableConfig | None = None) -> CheckpointTuple | None:
        """A checkpoint with its values and pending writes. `config` is the one that it was asked for with."""
        digest = self._store.ref(self._ref(namespace, name))
        if digest is None:
            return None
        self._values.start()
        saved, values = self._read(digest), self._values
        checkpoint = values.load(saved.head)
        checkpoint["channel_values"] = {
            channel: values.load(stored, self._list_of(channel)) for channel, stored in saved.values.items()
        }
        writes: list[tuple[tuple[str, str, int], tuple[str, str, Any]]] = []
        for written in map(self._writes, self._store.refs(self._written(namespace, name)).values()):
            for write in written.writes:
                order = writes_sort_key(write.path, written.writer, write.number)
                writes.append((order, (written.writer, write.channel, values.load(write.value))))
        return CheckpointTuple(
            config or _config(self.id, namespace, name),
            cast("Checkpoint", checkpoint),
            cast("CheckpointMetadata", self.metadata(saved)),
            _config(self.id, namespace, saved.parent) if saved.parent else None,
            [write for _, write in sorted(writes, key=lambda write: write[0])],
        )

    # --- writing

    def put(
        self,
        namespace: str,
        parent: str,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        new_versions: ChannelVersions,
    ) -> None:
        """Store a checkpoint that follows on `parent` ("": on none), durably."""
        _again(lambda: self._put(namespace, parent, checkpoint, metadata, new_versions))

    def add(self, namespace: str, parent: str, checkpoint: Checkpoint, metadata: Mapping[str, Any]) -> bool:
        """Store a checkpoint, unless it is there; whether it is new."""
        is_new = self._store.ref(self._ref(namespace, checkpoint["id"])) is None
        if is_new:
            self.put(namespace, parent, checkpoint, metadata, checkpoint["channel_versions"])
        return is_new

    def has_writes(self, namespace: str, checkpoint: str, writer: str) -> bool:
        """Whether a node's writes after a checkpoint are there."""
        return self._store.ref(self._writes_ref(namespace, checkpoint, writer)) is not None

    def put_writes(
        self, namespace: str, checkpoint: str, writes: Sequence[tuple[str, Any]], writer: str, path: str
    ) -> None:
        """Store what a node wrote, durably. What is there already stays, but for errors and interrupts."""
        _again(lambda: self._put_writes(namespace, checkpoint, writes, writer, path))

    def _put(
        self,
        namespace: str,
        parent: str,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        new_versions: ChannelVersions,
    ) -> None:
        self._values.start()
        blobs: dict[str, bytes] = {}
        ref, head = self._ref(namespace, parent), self._head(namespace)
        above = (self._store.ref(ref) or "") if parent else ""
        before = self._read(above) if above else None
        swaps = {ref: Swap(above, above)} if above else {}  # it must still be there when what follows on it is written
        values: dict[str, Any] = {}
        lists: dict[str, KnownList] = {}
        for channel, value in checkpoint["channel_values"].items():
            if before is not None and channel not in new_versions and channel in before.values:
                values[channel] = before.values[channel]
            elif type(value) is list and len(value) >= SHORTEST_LIST:
                base = self._base(namespace, channel, above, before)
                part, lists[channel] = self._values.dump_list(value, base, blobs)
                values[channel] = before.values[channel] if part is None and before is not None else part
            else:
                values[channel] = self._values.dump_items(value, blobs)
        saved = ThreadCheckpoint(
            thread=self.id,
            namespace=namespace,
            id=checkpoint["id"],
            parent=parent,
            run=str(metadata.get("run_id", "")),
            head=self._values.dump({k: item for k, item in checkpoint.items() if k != "channel_values"}, blobs),
            metadata=self._values.dump(dict(metadata), blobs),
            values=values,
        )
        document = self._values.document(saved, blobs, [saved.head, saved.metadata, *values.values()])
        newest = self._store.ref(head)
        swaps[head] = Swap(newest, max(newest or "", saved.id))
        fact = kinds.GraphSaved(
            checkpoint=saved.id,
            document=document,
            source=str(metadata.get("source", ""))[:MAX_SHOWN],
            step=str(metadata.get("step", ""))[:MAX_SHOWN],
        )
        refs = {self._ref(namespace, saved.id): document}
        self._commit(fact, refs=refs, swaps=swaps, blobs=list(blobs.values()))
        for channel, known in lists.items():
            self._lists[namespace, channel] = known._replace(document=document)

    def _put_writes(
        self, namespace: str, checkpoint: str, writes: Sequence[tuple[str, Any]], writer: str, path: str
    ) -> None:
        self._values.start()
        ref = self._writes_ref(namespace, checkpoint, writer)
        digest = self._store.ref(ref)
        there = {} if digest is None else {write.number: write for write in self._writes(digest).writes}
        blobs: dict[str, bytes] = {}
        merged = dict(there)
        for index, (channel, value) in enumerate(writes):
            number = WRITES_IDX_MAP.get(channel, index)
            if number < 0 or number not in there:
                merged[number] = _SavedWrite(number, channel, path, self._values.dump_items(value, blobs))
        if merged != there:
            saved = _SavedWrites(writer, list(merged.values()))
            document = self._values.document(saved, blobs, [write.value for write in saved.writes])
            fact = kinds.GraphWritten(checkpoint=checkpoint, document=document, node=(path or writer)[:MAX_SHOWN])
            self._commit(fact, swaps={ref: Swap(digest, document)}, blobs=list(blobs.values()))

    # --- deleting

    def delete(self, doomed: Callable[[ThreadCheckpoint], bool]) -> None:
        """Delete checkpoints and their writes: their refs with the event, then the documents that nothing needs any more.

        Not while another process writes the same thread: it may rely on a document that is being dropped.
        """
        _again(lambda: self._delete(doomed))

    def _delete(self, doomed: Callable[[ThreadCheckpoint], bool]) -> None:
        heads = self._store.refs(f"{GRAPH_HEADS}{self.task}/")
        saved = self._all()
        gone = [each for each in saved if doomed(each)]
        if not gone:
            return
        refs: dict[str, str | None] = {}
        for each in gone:
            refs[self._ref(each.namespace, each.id)] = None
            refs.update(dict.fromkeys(self._store.refs(self._written(each.namespace, each.id))))
        left = [each for each in saved if self._ref(each.namespace, each.id) not in refs]
        swaps: dict[str, Swap] = {}
        for namespace in {each.namespace for each in gone}:
            newest = max((each.id for each in left if each.namespace == namespace), default=None)
            swaps[self._head(namespace)] = Swap(heads.get(self._head(namespace)), newest)
        before = self._named()
        self._commit(kinds.GraphDeleted(count=len(gone)), refs=refs, swaps=swaps)
        self._lists.clear()
        self._documents.clear()
        self._values.forget()
        self._store.drop(self._values.reachable(before) - self._values.reachable(self._named()))

    def needed(self) -> set[tuple[str, str]]:
        """The newest checkpoint of each namespace, and those before it that it needs: back to the last whole value of each channel that
        stores only changes. By namespace and id.
        """
        there = {(saved.namespace, saved.id): saved for saved in self._all()}
        needed: set[tuple[str, str]] = set()
        for namespace in {namespace for namespace, _ in there}:
            saved = there.get((namespace, self.newest(namespace) or ""))
            if saved is None:
                continue
            needed.add((namespace, saved.id))
            counted = self.metadata(saved).get("counters_since_delta_snapshot") or {}
            missing = {channel for channel in counted if channel not in saved.values}
            while missing and saved.parent and (above := there.get((namespace, saved.parent))) is not None:
                saved = above
                needed.add((namespace, saved.id))
                missing -= saved.values.keys()
        return needed

    # --- the parts

    def _commit(self, fact: kinds.Data, *, swaps: Mapping[str, Swap] = {}, **what: Any) -> None:  # it is only read
        """Append an event, after the one that opens the task. Raises `PermanentConflictError` where a ref was changed meanwhile."""
        is_again = False

        def facts(ledger: Ledger) -> Iterator[NewEvent]:
            nonlocal is_again
            if is_again and any(self._store.ref(ref) != swap.before for ref, swap in swaps.items()):
                raise PermanentConflictError(f"another process wrote to thread {self.id} meanwhile", "try again")
            is_again = True
            if not ledger.exists:
                yield NewEvent(kinds.TaskOpened(goal=f"LangGraph thread {self.id}"), _BY)
            yield NewEvent(fact, _BY)

        self._task.commit(lambda ledger: list(facts(ledger)), swaps=swaps, **what)

    def _read(self, digest: str) -> ThreadCheckpoint:
        saved = self._documents.get(digest)
        if saved is None:
            data = self._values.read(digest)
            saved = decoded(data, ThreadCheckpoint)
            if len(data) <= MAX_SMALL:
                self._documents[digest] = saved
            if len(self._documents) > MAX_DOCUMENTS:
                self._documents.popitem(last=False)
        return saved

    def _writes(self, digest: str) -> _SavedWrites:
        return decoded(self._values.read(digest), _SavedWrites)

    def _all(self) -> list[ThreadCheckpoint]:
        saved = []
        for digest in self._store.refs(f"{GRAPHS}{self.task}/").values():
            self._values.start()
            saved.append(self._read(digest))
        return saved

    def _named(self) -> Collection[str]:
        """The documents that the refs of the thread name."""
        return [
            digest for kind in (GRAPHS, GRAPH_WRITES) for digest in self._store.refs(f"{kind}{self.task}/").values()
        ]

    def _list_of(self, channel: str) -> ListOf:
        return lambda digest: self._read(digest).values.get(channel)

    def _base(self, namespace: str, channel: str, above: str, before: ThreadCheckpoint | None) -> KnownList | None:
        """The list of the checkpoint before, whose document is `above`, for a list to follow on: no other is sure to stay."""
        if before is None:
            return None
        known = self._lists.get((namespace, channel))
        if known is not None and known.document == above:
            return known
        return self._values.known_list(above, before.values.get(channel), self._list_of(channel))

    def _ref(self, namespace: str, name: str) -> str:
        return f"{GRAPHS}{self.task}/{_of_namespace(namespace)}/{quote(name, safe='')}"

    def _head(self, namespace: str) -> str:
        return f"{GRAPH_HEADS}{self.task}/{_of_namespace(namespace)}"

    def _writes_ref(self, namespace: str, checkpoint: str, writer: str) -> str:
        return f"{self._written(namespace, checkpoint)}{quote(writer, safe='')}"

    def _written(self, namespace: str, name: str) -> str:
        return f"{GRAPH_WRITES}{self.task}/{_of_namespace(namespace)}/{quote(name, safe='')}/"


def task_of(thread: str) -> str:
    """The task that a thread is: `thread-` with its name, or with a digest of one that no task could have."""
    named = _PLAIN(thread)
    return f"thread-{thread}" if named else f"threads-{sha256(thread.encode(errors='replace')).hexdigest()[:40]}"


def decoded(data: bytes, type_: type[_T]) -> _T:
    """A document of a thread. Raises `IntegrityError`."""
    try:
        return msgspec.msgpack.decode(data, type=type_)
    except msgspec.DecodeError as error:
        message = f"a document of a thread is not as adjourn writes it: {error}"
        raise IntegrityError(message, "restore the store") from error


def _again(write: Callable[[], None]) -> None:
    """Write; again from the start where another process was faster with what it builds on."""
    for attempt in range(MAX_ATTEMPTS):
        try:
            return write()
        except PermanentConflictError:
            if attempt + 1 == MAX_ATTEMPTS:
                raise
    return None


def _config(thread: str, namespace: str, name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": name}}


def _of_namespace(namespace: str) -> str:
    return sha256(namespace.encode(errors="replace")).hexdigest()[:32] if namespace else "-"
