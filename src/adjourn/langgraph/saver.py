"""`AdjournSaver`: the checkpoints of a LangGraph graph in a store of adjourn.

Each thread is a task: every checkpoint and every set of writes is an event of its chain, so `adjourn verify`, `log` and `ui` know it.
Refs name the documents, to be found without reading the chain: `graph/TASK/NAMESPACE/CHECKPOINT`, `graph-head/TASK/NAMESPACE` for the newest,
`graph-writes/TASK/NAMESPACE/CHECKPOINT/WRITER`. They change in the transaction of the event.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

import msgspec
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)

from adjourn.errors import IntegrityError, UsageError
from adjourn.host import keys
from adjourn.host.clock import now
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.effect_lookup import EffectCall
from adjourn.knowledge.records.effects import Probe, RunningEffect
from adjourn.knowledge.records.store import CRStore
from adjourn.langgraph.values import MARK, SHORTEST_LIST, KnownList, ListOf, ThreadValues
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.store.base import Swap
from adjourn.store.url import open_store
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import GRAPH_WRITES, GRAPHS, NewEvent, Task

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from adjourn.store.base import Store

HEADS = "graph-head/"
MAX_THREADS = 64
"""Threads that are kept open."""
_T = TypeVar("_T")
_BY = Actor("langgraph", "system")
_AUTHOR = CRAuthor(id="langgraph", type="system")
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch


class _SavedCheckpoint(msgspec.Struct, array_like=True, frozen=True):
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


class _Thread:
    """One thread, opened."""

    def __init__(self, store: Store, thread: str, serde: SerializerProtocol) -> None:
        self.id = thread
        name = task_of(thread)
        self.task = Task(store, name, clock=now, secret=keys.secret())
        self.values = ThreadValues(store, sha256(name.encode()).digest()[:MARK], serde)
        self.lists: dict[tuple[str, str], KnownList] = {}
        """By namespace and channel."""

    def commit(self, fact: kinds.Data, **what: Any) -> None:
        """Append an event, after the one that opens the task."""

        def facts(ledger: Ledger) -> list[NewEvent]:
            opened = kinds.TaskOpened(goal=f"LangGraph thread {self.id}")
            return [*([] if ledger.exists else [NewEvent(opened, _BY)]), NewEvent(fact, _BY)]

        self.task.commit(facts, **what)


class AdjournSaver(BaseCheckpointSaver[str]):
    """A checkpointer on a store of adjourn: memory, SQLite or PostgreSQL. Safe to use from several threads and processes.

    Args:
        store: the store; the caller closes it.
        serde: what serialises values. The default uses no pickle. Give LangGraph's `EncryptedSerializer` to encrypt them.

    Methods raise `StoreError` where the store fails, and `IntegrityError` where a history or document was changed.

    Example:
        >>> from typing import TypedDict
        >>> from langgraph.graph import START, StateGraph
        >>> from adjourn.langgraph import AdjournSaver
        >>> from adjourn.store import MemoryStore
        >>> class State(TypedDict):
        ...     count: int
        >>> builder = StateGraph(State).add_node("add", lambda state: {"count": state["count"] + 1}).add_edge(START, "add")
        >>> graph = builder.compile(checkpointer=AdjournSaver(MemoryStore()))
        >>> config = {"configurable": {"thread_id": "first"}}
        >>> graph.invoke({"count": 1}, config)
        {'count': 2}
        >>> graph.get_state(config).values
        {'count': 2}

    """

    def __init__(self, store: Store, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self.store = store
        self._lock = RLock()
        self._threads: OrderedDict[str, _Thread] = OrderedDict()

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str, *, serde: SerializerProtocol | None = None) -> Iterator[AdjournSaver]:
        """A saver on the store at a path or URL (`.aex/adjourn.db`, `postgresql://host/db`), closed with the block."""
        store = open_store(conn_string)
        try:
            yield cls(store, serde=serde)
        finally:
            store.close()

    def get_next_version(self, current: str | None, channel: None = None) -> str:
        """The next version of a channel: higher, and another than any that is made elsewhere."""
        del channel
        number = int(str(current).partition(".")[0]) if current else 0
        return f"{number + 1:010}.{random.getrandbits(32):08x}"  # no secret

    # --- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, else the newest one of its thread and namespace."""
        thread, namespace = _place(config)
        wanted = get_checkpoint_id(config)
        with self._lock:
            opened = self._opened(thread)
            name = wanted or self.store.ref(_head(opened.task.id, namespace))
            if not name:
                return None
            return self._tuple(opened, namespace, name, config if wanted else None)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # the name is LangGraph's
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, or of all, that have the metadata of `filter`: the newest of each namespace first."""
        end = get_checkpoint_id(before) if before else None
        asked = (config or {}).get("configurable", {})
        wanted, namespace = asked.get("checkpoint_id"), asked.get("checkpoint_ns")
        prefix = f"{GRAPHS}{task_of(str(asked['thread_id']))}/" if "thread_id" in asked else GRAPHS
        left = limit
        for ref, value in sorted(self.store.refs(prefix).items(), key=_newest_first):
            if left is not None and left <= 0:
                return
            with self._lock:
                if (found := self._document(value)) is None:
                    continue
                saved, opened = found
                if (
                    (namespace is not None and saved.namespace != namespace)
                    or (wanted and saved.id != wanted)
                    or (end and saved.id >= end)
                ):
                    continue
                metadata = opened.values.load(saved.metadata)
                if filter and any(metadata.get(name) != item for name, item in filter.items()):
                    continue
                result = self._tuple(opened, saved.namespace, saved.id, None)
            del ref
            if result is not None:
                left = None if left is None else left - 1
                yield result

    # --- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, durably; the config that names it. Putting it again changes nothing."""
        thread, namespace = _place(config)
        parent = get_checkpoint_id(config) or ""
        known = get_checkpoint_metadata(config, metadata)
        with self._lock:
            opened = self._opened(thread)
            blobs: dict[str, bytes] = {}
            swaps: dict[str, Swap] = {}
            lists: dict[str, tuple[list[bytes], int]] = {}
            ref = _ref(opened.task.id, namespace, parent)
            above = (self.store.ref(ref) or "") if parent else ""
            before = self._read(opened, above) if above else None
            if above:  # it must still be there when what follows on it is written
                swaps[ref] = Swap(above, above)
            values: dict[str, Any] = {}
            for channel, value in checkpoint["channel_values"].items():
                if before is not None and channel not in new_versions and channel in before.values:
                    values[channel] = before.values[channel]
                elif type(value) is list and len(value) >= SHORTEST_LIST:
                    base = self._base(opened, namespace, channel, above, before)
                    part, prints, depth = opened.values.dump_list(value, base, blobs)
                    values[channel] = before.values[channel] if part is None and before is not None else part
                    lists[channel] = prints, depth
                else:
                    values[channel] = opened.values.dump_items(value, blobs)
            head = {name: item for name, item in checkpoint.items() if name != "channel_values"}
            document = opened.values.document(
                _SavedCheckpoint(
                    thread=thread,
                    namespace=namespace,
                    id=checkpoint["id"],
                    parent=parent,
                    run=str(known.get("run_id", "")),
                    head=opened.values.dump(head, blobs),
                    metadata=opened.values.dump(known, blobs),
                    values=values,
                ),
                blobs,
            )
            refs = {_ref(opened.task.id, namespace, checkpoint["id"]): document}
            newest = self.store.ref(_head(opened.task.id, namespace))
            if newest is None or newest < checkpoint["id"]:
                refs[_head(opened.task.id, namespace)] = checkpoint["id"]
            fact = kinds.GraphSaved(
                checkpoint=checkpoint["id"],
                document=document,
                source=str(known.get("source", "")),
                step=str(known.get("step", "")),
            )
            opened.commit(fact, refs=refs, swaps=swaps, blobs=list(blobs.values()))
            for channel, (prints, depth) in lists.items():
                opened.lists[namespace, channel] = KnownList(document, prints, depth)
        return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a node wrote, before the checkpoint that has it. What is there already stays, but for errors and interrupts."""
        thread, namespace = _place(config)
        checkpoint = config["configurable"]["checkpoint_id"]
        with self._lock:
            opened = self._opened(thread)
            ref = f"{_written(opened.task.id, namespace, checkpoint)}{quote(task_id, safe='')}"
            digest = self.store.ref(ref)
            there = {write.number: write for write in self._writes(opened, digest)}
            blobs: dict[str, bytes] = {}
            merged = dict(there)
            for index, (channel, value) in enumerate(writes):
                number = WRITES_IDX_MAP.get(channel, index)
                if number < 0 or number not in there:
                    merged[number] = _SavedWrite(number, channel, task_path, opened.values.dump_items(value, blobs))
            if merged == there:
                return
            document = opened.values.document(_SavedWrites(task_id, list(merged.values())), blobs)
            fact = kinds.GraphWritten(checkpoint=checkpoint, document=document, node=task_path or task_id)
            opened.commit(fact, swaps={ref: Swap(digest, document)}, blobs=list(blobs.values()))

    def effect(
        self,
        config: RunnableConfig,
        tool: str,
        operation: str,
        inputs: Mapping[str, Any],
        *,
        key: str,
        probe: Probe | None = None,
    ) -> AbstractContextManager[RunningEffect]:
        """A block in a node whose effect happens once in the thread, whatever is killed and resumed: `key` names it.

        Where the block was left by an exception or a kill, nobody knows whether it happened: the next attempt asks `probe`, else raises
        `RefusedError` until a person settles it.

        Example:
            >>> from adjourn.langgraph import AdjournSaver
            >>> from adjourn.store import MemoryStore
            >>> saver, config = AdjournSaver(MemoryStore()), {"configurable": {"thread_id": "first"}}
            >>> for attempt in (1, 2):
            ...     with saver.effect(config, "mail", "send", {"to": "ann"}, key="welcome") as effect:
            ...         if effect.run:
            ...             effect.outputs = {"sent": attempt}
            >>> effect.outputs
            {'sent': 1}

        """
        thread, _ = _place(config)
        with self._lock:
            name = self._opened(thread).task.id
            records = CRStore(self.store, clock=now)
            if records.get(name) is None:
                task = {
                    "id": name,
                    "goal": f"LangGraph thread {thread}",
                    "successCriteria": [],
                    "status": "in-progress",
                }
                records.create({"task": task}, author=_AUTHOR, cr_id=name)
        # of this thread: an equal effect of another thread that is in doubt is no reason to hold this one
        call = EffectCall(tool, operation, {"thread_id": thread, **inputs}, key=key)
        return records.effects.once(name, call, _AUTHOR, probe=probe)

    # --- deleting

    def delete_thread(self, thread_id: str) -> None:
        """Delete all checkpoints and writes of a thread, with their documents. Its chain still says that they were there."""
        with self._lock:
            self._delete(self._opened(str(thread_id)), None)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs made, and their writes."""
        runs = set(map(str, run_ids))
        with self._lock:
            doomed: dict[str, set[tuple[str, str]]] = {}
            for value in self.store.refs(GRAPHS).values():
                if (found := self._document(value)) is not None and found[0].run in runs:
                    doomed.setdefault(found[0].thread, set()).add((found[0].namespace, found[0].id))
            for thread, checkpoints in doomed.items():
                self._delete(self._opened(thread), checkpoints)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of threads (`delete`), or all but the newest of each namespace (`keep_latest`).

        Earlier ones stay as far back as channels that store only changes need them.
        """
        if strategy not in ("keep_latest", "delete"):
            raise UsageError(f"there is no strategy {strategy!r}", "use keep_latest or delete")
        for thread_id in map(str, thread_ids):
            with self._lock:
                opened = self._opened(thread_id)
                if strategy == "delete":
                    self._delete(opened, None)
                    continue
                there = {(saved.namespace, saved.id): saved for saved in self._all(opened)}
                kept: set[tuple[str, str]] = set()
                for namespace in {namespace for namespace, _ in there}:
                    newest = self.store.ref(_head(opened.task.id, namespace))
                    kept |= self._needed(opened, there, (namespace, newest or ""))
                self._delete(opened, there.keys() - kept)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread to another one."""
        self.copy_from(self, str(source_thread_id), str(target_thread_id))

    def copy_from(self, saver: BaseCheckpointSaver[Any], thread_id: str, target_thread_id: str = "") -> None:
        """Copy a thread from any checkpointer, such as LangGraph's `SqliteSaver`: by default under the same name."""
        target = target_thread_id or thread_id
        every = list(saver.list({"configurable": {"thread_id": thread_id}}))
        for found in sorted(every, key=lambda found: found.checkpoint["id"]):
            place = {"thread_id": target, "checkpoint_ns": found.config["configurable"].get("checkpoint_ns", "")}
            if found.parent_config is not None:
                place["checkpoint_id"] = found.parent_config["configurable"]["checkpoint_id"]
            versions = found.checkpoint["channel_versions"]
            config = self.put({"configurable": place}, found.checkpoint, found.metadata, versions)
            by_writer: dict[str, list[tuple[str, Any]]] = {}
            for writer, channel, value in found.pending_writes or ():
                by_writer.setdefault(writer, []).append((channel, value))
            for writer, writes in by_writer.items():
                self.put_writes(config, writes, writer)

    # --- asynchronously: the same, in a thread

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple`, in a thread."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # the name is LangGraph's
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list`, in a thread."""
        every = self.list(config, filter=filter, before=before, limit=limit)
        while (found := await asyncio.to_thread(next, every, None)) is not None:
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """`put`, in a thread."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes`, in a thread."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread`, in a thread."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """`delete_for_runs`, in a thread."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """`copy_thread`, in a thread."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """`prune`, in a thread."""
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))

    # --- inside

    def _opened(self, thread: str) -> _Thread:
        """The thread, kept open."""
        opened = self._threads.get(thread)
        if opened is None:
            opened = self._threads[thread] = _Thread(self.store, thread, self.serde)
            if len(self._threads) > MAX_THREADS:
                self._threads.popitem(last=False)
        self._threads.move_to_end(thread)
        return opened

    def _document(self, digest: str) -> tuple[_SavedCheckpoint, _Thread] | None:
        """The checkpoint that a ref names, and its thread; None where it was deleted meanwhile."""
        data = self.store.get_blob(digest)
        if data is None:
            return None
        saved = _decoded(data[MARK:], _SavedCheckpoint)
        return saved, self._opened(saved.thread)

    def _saved(self, opened: _Thread, namespace: str, name: str) -> _SavedCheckpoint | None:
        digest = self.store.ref(_ref(opened.task.id, namespace, name))
        return None if digest is None else self._read(opened, digest)

    def _read(self, opened: _Thread, digest: str) -> _SavedCheckpoint:
        return _decoded(opened.values.read(digest), _SavedCheckpoint)

    def _list_of(self, opened: _Thread, channel: str) -> ListOf:
        return lambda digest: self._read(opened, digest).values.get(channel)

    def _all(self, opened: _Thread) -> Sequence[_SavedCheckpoint]:
        digests = self.store.refs(f"{GRAPHS}{opened.task.id}/").values()
        return [self._read(opened, digest) for digest in digests]

    def _base(
        self, opened: _Thread, namespace: str, channel: str, above: str, before: _SavedCheckpoint | None
    ) -> KnownList | None:
        """The list of the checkpoint before, whose document is `above`, for a list to follow on: no other is sure to stay."""
        if before is None:
            return None
        known = opened.lists.get((namespace, channel))
        if known is not None and known.document == above:
            return known
        return opened.values.known_list(above, before.values.get(channel), self._list_of(opened, channel))

    def _writes(self, opened: _Thread, digest: str | None) -> Sequence[_SavedWrite]:
        return () if digest is None else _decoded(opened.values.read(digest), _SavedWrites).writes

    def _tuple(
        self, opened: _Thread, namespace: str, name: str, config: RunnableConfig | None
    ) -> CheckpointTuple | None:
        saved = self._saved(opened, namespace, name)
        if saved is None:
            return None
        values = opened.values
        checkpoint = values.load(saved.head)
        checkpoint["channel_values"] = {
            channel: values.load(stored, self._list_of(opened, channel)) for channel, stored in saved.values.items()
        }
        writes: list[tuple[tuple[str, str, int], tuple[str, str, Any]]] = []
        for digest in self.store.refs(_written(opened.task.id, namespace, name)).values():
            written = _decoded(values.read(digest), _SavedWrites)
            writer = written.writer
            writes += (
                (writes_sort_key(write.path, writer, write.number), (writer, write.channel, values.load(write.value)))
                for write in written.writes
            )
        return CheckpointTuple(
            config or _config(saved.thread, namespace, name),
            cast("Checkpoint", checkpoint),
            values.load(saved.metadata),
            _config(saved.thread, namespace, saved.parent) if saved.parent else None,
            [write for _, write in sorted(writes, key=lambda write: write[0])],
        )

    def _needed(
        self, opened: _Thread, there: dict[tuple[str, str], _SavedCheckpoint], newest: tuple[str, str]
    ) -> set[tuple[str, str]]:
        """A checkpoint, and those before it that it needs: back to the last whole value of each channel that stores changes."""
        needed = {newest}
        saved = there.get(newest)
        if saved is None:
            return needed
        counted = opened.values.load(saved.metadata).get("counters_since_delta_snapshot") or {}
        missing = {channel for channel in counted if channel not in saved.values}
        while missing and saved.parent and (above := there.get((newest[0], saved.parent))) is not None:
            saved = above
            needed.add((saved.namespace, saved.id))
            missing -= saved.values.keys()
        return needed

    def _delete(self, opened: _Thread, doomed: Collection[tuple[str, str]] | None) -> None:
        """Delete checkpoints, by namespace and name (None: all): their refs with the event, then what nothing needs any more."""
        task = opened.task.id
        saved = self._all(opened)
        gone = [each for each in saved if doomed is None or (each.namespace, each.id) in doomed]
        if not gone:
            return
        refs: dict[str, str | None] = {}
        for each in gone:
            refs[_ref(task, each.namespace, each.id)] = None
            refs.update(dict.fromkeys(self.store.refs(_written(task, each.namespace, each.id))))
        left = [each for each in saved if _ref(task, each.namespace, each.id) not in refs]
        for namespace in {each.namespace for each in gone}:
            refs[_head(task, namespace)] = max((each.id for each in left if each.namespace == namespace), default=None)
        before = self._named(opened)
        opened.commit(kinds.GraphDeleted(count=len(gone)), refs=refs)
        opened.lists.clear()
        opened.values.forget()
        loose = opened.values.reachable(before) - opened.values.reachable(self._named(opened))
        self.store.drop(loose)

    def _named(self, opened: _Thread) -> Iterable[str]:
        """The documents that the refs of a thread name."""
        return [
            digest for kind in (GRAPHS, GRAPH_WRITES) for digest in self.store.refs(f"{kind}{opened.task.id}/").values()
        ]


def task_of(thread: str) -> str:
    """The task that a thread is: `thread-` with its name, or with a digest of one that no task could have."""
    return (
        f"thread-{thread}" if _PLAIN(thread) else f"threads-{sha256(thread.encode(errors='replace')).hexdigest()[:40]}"
    )


def _place(config: RunnableConfig) -> tuple[str, str]:
    """The thread and the namespace of a config."""
    given = config.get("configurable", {})
    if "thread_id" not in given:
        raise UsageError("the config names no thread", 'add {"configurable": {"thread_id": "…"}}')
    return str(given["thread_id"]), str(given.get("checkpoint_ns") or "")


def _config(thread: str, namespace: str, name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": name}}


def _of_namespace(namespace: str) -> str:
    return sha256(namespace.encode(errors="replace")).hexdigest()[:32] if namespace else "-"


def _ref(task: str, namespace: str, name: str) -> str:
    return f"{GRAPHS}{task}/{_of_namespace(namespace)}/{quote(name, safe='')}"


def _head(task: str, namespace: str) -> str:
    return f"{HEADS}{task}/{_of_namespace(namespace)}"


def _written(task: str, namespace: str, name: str) -> str:
    return f"{GRAPH_WRITES}{task}/{_of_namespace(namespace)}/{quote(name, safe='')}/"


def _newest_first(item: tuple[str, str]) -> tuple[str, tuple[int, ...]]:
    place, _, name = item[0].rpartition("/")
    return place, tuple(-ord(char) for char in name)


def _decoded(data: bytes, type_: type[_T]) -> _T:
    try:
        return msgspec.msgpack.decode(data, type=type_)
    except msgspec.DecodeError as error:
        raise IntegrityError(
            f"a document of a thread is not as adjourn writes it: {error}", "restore the store"
        ) from error
