"""`AdjournSaver`: the checkpoints of any LangGraph graph in a store of adjourn, each thread a task (`thread`)."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from adjourn.errors import UsageError
from adjourn.host.clock import now
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.effect_lookup import EffectCall
from adjourn.knowledge.records.effects import Probe, RunningEffect
from adjourn.knowledge.records.store import RecordTrees
from adjourn.langgraph.thread import GraphThread, ThreadCheckpoint, decoded, task_of
from adjourn.langgraph.values import body_of
from adjourn.store.url import open_store
from adjourn.tasks.task import GRAPHS

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from adjourn.store.base import Store

MAX_THREADS = 64
"""Threads that are kept open."""
_AUTHOR = CRAuthor(id="langgraph", type="system")


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
        self._threads: OrderedDict[str, GraphThread] = OrderedDict()

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
            name = wanted or opened.newest(namespace)
            return opened.checkpoint(namespace, name, config if wanted else None) if name else None

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
        for _, digest in sorted(self.store.refs(prefix).items(), key=_newest_first):
            if left is not None and left <= 0:
                return
            with self._lock:
                if (saved := self._saved(digest)) is None:
                    continue
                if (
                    (namespace is not None and saved.namespace != namespace)
                    or (wanted and saved.id != wanted)
                    or (end and saved.id >= end)
                ):
                    continue
                opened = self._opened(saved.thread)
                if filter and any(opened.metadata(saved).get(name) != item for name, item in filter.items()):
                    continue
                result = opened.checkpoint(saved.namespace, saved.id)
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
        parent, known = get_checkpoint_id(config) or "", get_checkpoint_metadata(config, metadata)
        with self._lock:
            self._opened(thread).put(namespace, parent, checkpoint, known, new_versions)
        return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a node wrote, before the checkpoint that has it. What is there already stays, but for errors and interrupts."""
        thread, namespace = _place(config)
        checkpoint = config["configurable"]["checkpoint_id"]
        with self._lock:
            self._opened(thread).put_writes(namespace, checkpoint, writes, task_id, task_path)

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
            name = self._opened(thread).task
            records = RecordTrees(self.store, clock=now)
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
            self._opened(str(thread_id)).delete(lambda _: True)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs made, and their writes."""
        runs = set(map(str, run_ids))
        with self._lock:
            every = list(map(self._saved, self.store.refs(GRAPHS).values()))
            for thread in {saved.thread for saved in every if saved is not None and saved.run in runs}:
                self._opened(thread).delete(lambda saved: saved.run in runs)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of threads (`delete`), or all but the newest of each namespace (`keep_latest`).

        Earlier ones stay as far back as channels that store only changes need them.
        """
        if strategy not in ("keep_latest", "delete"):
            raise UsageError(f"there is no strategy {strategy!r}", "use keep_latest or delete")
        for thread_id in thread_ids:
            with self._lock:
                opened = self._opened(str(thread_id))
                kept = opened.needed() if strategy == "keep_latest" else set[tuple[str, str]]()
                opened.delete(_but(kept))

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

    def _opened(self, thread: str) -> GraphThread:
        """The thread, kept open."""
        opened = self._threads.get(thread)
        if opened is None:
            opened = self._threads[thread] = GraphThread(self.store, thread, self.serde)
            if len(self._threads) > MAX_THREADS:
                self._threads.popitem(last=False)
        self._threads.move_to_end(thread)
        return opened

    def _saved(self, digest: str) -> ThreadCheckpoint | None:
        """The document of a checkpoint; None where it was deleted meanwhile."""
        data = self.store.get_blob(digest)
        return None if data is None else decoded(body_of(data), ThreadCheckpoint)


def _place(config: RunnableConfig) -> tuple[str, str]:
    """The thread and the namespace of a config."""
    given = config.get("configurable", {})
    if "thread_id" not in given:
        raise UsageError("the config names no thread", 'add {"configurable": {"thread_id": "…"}}')
    return str(given["thread_id"]), str(given.get("checkpoint_ns") or "")


def _newest_first(item: tuple[str, str]) -> tuple[str, tuple[int, ...]]:
    place, _, name = item[0].rpartition("/")
    return place, tuple(-ord(char) for char in name)


def _but(kept: Collection[tuple[str, str]]) -> Callable[[ThreadCheckpoint], bool]:
    return lambda saved: (saved.namespace, saved.id) not in kept
