"""`AdjournSaver`: LangGraph's own conformance suite, and what it promises beyond: growth, deletion, encryption, two processes."""

from __future__ import annotations

import asyncio
import lzma
import os
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph

from adjourn.checkpoints.pruning import collect
from adjourn.cli.app import main
from adjourn.errors import IntegrityError, InvalidError, RefusedError, UsageError
from adjourn.host import keys
from adjourn.host.clock import now
from adjourn.langgraph import AdjournSaver, values
from adjourn.langgraph.thread import task_of
from adjourn.langgraph.values import MARK
from adjourn.log import kinds
from adjourn.log.event import decode
from adjourn.store import MemoryStore, SqliteStore, Store, open_store
from adjourn.tasks.task import Task
from adjourn.verification.verify import verify_task


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = SqliteStore(tmp_path / "adjourn.db")
    yield made
    made.close()


def chat(saver: Any, answer: str = "yes " * 200) -> Any:
    """A graph that answers each message."""

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{len(state['messages'])} {answer}", id=f"a{len(state['messages'])}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def say(graph: Any, number: int, thread: str = "t") -> list[str]:
    """One turn; the ids of the messages after it."""
    message = HumanMessage(f"{number} " + "what is the state of the release? " * 30, id=f"h{number}")
    done = graph.invoke({"messages": [message]}, {"configurable": {"thread_id": thread}})
    return [each.id for each in done["messages"]]


class Cipher:
    """AES-GCM with a new nonce each time, so that equal texts are encrypted differently."""

    _key = AESGCM(b"0" * 32)

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        nonce = os.urandom(12)
        return "gcm", nonce + self._key.encrypt(nonce, plaintext, None)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "gcm"
        return self._key.decrypt(ciphertext[:12], ciphertext[12:], None)


def size_of(store: Store) -> int:
    """The bytes of all documents and events."""
    blobs = sum(size for _, size in store.blobs())
    return blobs + sum(len(entry.data) for stream in store.streams() for entry in store.read(stream))


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_it_passes_the_conformance_suite_whole(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """All eight capabilities that LangGraph's suite knows, the three extended ones included, on every store."""
    make: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "sqlite": lambda: SqliteStore(tmp_path / "conformance.db"),
        "postgres": lambda: open_store(request.getfixturevalue("new_postgres_url")()),
    }

    @checkpointer_test(name="AdjournSaver")
    async def made() -> AsyncIterator[AdjournSaver]:
        opened = make[kind]()
        yield AdjournSaver(opened)
        opened.close()

    report = asyncio.run(validate(made))
    failures = {name: result.failures for name, result in report.results.items() if not result.passed}
    assert failures == {}
    assert len(report.results) == 8


def test_a_thread_is_a_task_whose_chain_verifies(store: Store) -> None:
    """Each checkpoint and each node's writes is an event; the documents that they name are there."""
    graph = chat(AdjournSaver(store))
    say(graph, 1)
    say(graph, 2)
    task = task_of("t")
    events = [decode(entry.data) for entry in store.read(task)]
    assert events[0].event == "task.opened"
    assert [event.event for event in events].count("graph.saved") == 6
    documents = [data.document for event in events if isinstance(data := kinds.data_of(event), kinds.GraphSaved)]
    assert all(store.get_blob(document) for document in documents)
    report = verify_task(store, task)
    assert (report.tasks[0].findings, report.documents) == ([], 10)


def test_the_commands_know_a_thread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`log` has its steps, `status` says how it is continued, `verify` counts its documents."""
    with AdjournSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        say(chat(saver), 1)
    at = ["thread-t", "--store", str(tmp_path / "threads.db")]
    assert [main([command, *at]) for command in ("log", "status", "verify")] == [0, 0, 0]
    shown = " ".join(capsys.readouterr().out.split())
    for text in ("step 1", "invoke its graph with the same thread_id", "5 documents"):
        assert text in shown


def test_a_digest_in_a_message_is_no_document(store: Store) -> None:
    """What a user wrote is not followed."""
    graph = chat(AdjournSaver(store), f"sha256 {'ab' * 32}")
    say(graph, 1)
    assert verify_task(store, task_of("t")).tasks[0].findings == []


def test_what_was_changed_or_is_missing_is_found(store: Store) -> None:
    """`adjourn verify` names a document of a thread that is gone, and a ref that no event of it made."""
    say(chat(AdjournSaver(store)), 1)
    task = task_of("t")
    ref, document = next(iter(store.refs(f"graph/{task}/").items()))
    store.swap(f"{ref}0", "0" * 64, expect=None)
    store.drop([document])
    findings = [found.finding.message for found in verify_task(store, task).tasks[0].findings]
    assert any(f"document {document} of the thread is missing" in message for message in findings)
    assert any("no event of the thread names" in message for message in findings)


def test_a_missing_value_of_a_checkpoint_is_found(store: Store) -> None:
    """`adjourn verify` follows the documents of checkpoints to those of their values."""
    say(chat(AdjournSaver(store), "".join(map(str, range(900)))), 1)
    task = task_of("t")
    documents = {
        data.document
        for entry in store.read(task)
        if isinstance(data := kinds.data_of(decode(entry.data)), kinds.GraphSaved | kinds.GraphWritten)
    }
    messages = [digest for digest, _ in store.blobs() if digest not in documents]
    assert len(messages) == 2
    store.drop(messages)
    findings = {found.finding.message for found in verify_task(store, task).tasks[0].findings}
    assert findings == {f"document {message} of the thread is missing" for message in messages}


def test_a_thread_that_an_earlier_version_wrote_continues(tmp_path: Path) -> None:
    """Its documents, which are not compressed, load, verify, survive garbage collection, and are followed by new ones."""
    before = Path(__file__).parents[2] / "data" / "threads_of_before.db.xz"
    (tmp_path / "threads.db").write_bytes(lzma.decompress(before.read_bytes()))
    with AdjournSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        assert verify_task(saver.store, task_of("t")).tasks[0].findings == []
        collect(saver.store, str(tmp_path), now())
        graph = chat(saver)
        assert say(graph, 3) == ["h0", "a1", "h1", "a3", "h2", "a5", "h3", "a7"]
        state = chat(AdjournSaver(saver.store)).get_state({"configurable": {"thread_id": "t"}})
        assert [message.content[:2] for message in state.values["messages"]] == [
            "0 ",
            "1 ",
            "1 ",
            "3 ",
            "2 ",
            "5 ",
            "3 ",
            "7 ",
        ]
        assert verify_task(saver.store, task_of("t")).tasks[0].findings == []
        saver.delete_thread("t")
        assert list(saver.store.blobs()) == []


def test_the_dictionary_of_bodies_never_changes() -> None:
    """What is stored could not be read any more."""
    assert sha256(values._USUAL).hexdigest() == "3fb45a3ac8d1e20e24c39da7b038b5fec2290de771a12877d37c74066fe0587e"


def test_messages_that_grow_are_stored_once(store: Store) -> None:
    """Each message's bytes are kept once, however many checkpoints have it: the store grows with the turns, not with their square."""
    saver = AdjournSaver(store)
    graph = chat(saver)
    sizes = []
    for turn in range(40):
        say(graph, turn)
        if turn in (9, 19, 39):
            sizes.append(size_of(store))
    assert sizes[1] - sizes[0] < 1.3 * sizes[0]
    assert sizes[2] - sizes[1] < 2.3 * (sizes[1] - sizes[0])


@pytest.mark.parametrize("serde", [None, EncryptedSerializer], ids=["plain", "encrypted"])
def test_a_list_that_is_written_whole_again_repeats_no_item(
    serde: Any, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its runs are there already, whoever wrote them: a long thread costs as much a turn as a short one."""
    monkeypatch.setattr(values, "MAX_DEPTH", 4)
    monkeypatch.setattr(values, "RUN", 8)
    sizes = []
    for turn in range(45):
        graph = chat(AdjournSaver(store, serde=serde and serde(Cipher())))
        ids = say(graph, turn)
        sizes.append(size_of(store))
    state = chat(AdjournSaver(store, serde=serde and serde(Cipher()))).get_state({"configurable": {"thread_id": "t"}})
    assert [message.id for message in state.values["messages"]] == ids
    assert len(ids) == 90
    early, late = sizes[19] - sizes[9], sizes[44] - sizes[34]
    assert late < 1.1 * early
    assert verify_task(store, task_of("t")).tasks[0].findings == []


def test_another_process_goes_on_with_the_list(store: Store) -> None:
    """A saver that was just made follows on what is stored: a turn adds its own messages, not all before it."""
    for turn in range(12):
        say(chat(AdjournSaver(store)), turn)
    before = size_of(store)
    ids = say(chat(AdjournSaver(store)), 12)
    assert len(ids) == 26
    assert size_of(store) - before < before / 6


def test_a_message_that_is_taken_out_or_edited_is_so_everywhere_after(store: Store) -> None:
    """The list is what the graph has, not what only grew."""
    graph = chat(AdjournSaver(store))
    config = {"configurable": {"thread_id": "t"}}
    for turn in range(4):
        say(graph, turn)
    graph.update_state(config, {"messages": [RemoveMessage("h1"), HumanMessage("edited", id="h2")]})
    ids = say(graph, 9)
    state = chat(AdjournSaver(store)).get_state(config).values["messages"]
    assert [message.id for message in state] == ids
    assert "h1" not in ids
    assert next(message.content for message in state if message.id == "h2") == "edited"


def test_an_older_checkpoint_is_forked(store: Store) -> None:
    """Both branches keep their own messages."""
    graph = chat(AdjournSaver(store))
    for turn in range(3):
        say(graph, turn)
    config = {"configurable": {"thread_id": "t"}}
    older = next(state for state in graph.get_state_history(config) if len(state.values["messages"]) == 4)
    forked = graph.invoke({"messages": [HumanMessage("other", id="o")]}, older.config)
    assert [message.id for message in forked["messages"]][:5] == ["h0", "a1", "h1", "a3", "o"]
    lengths = [len(state.values["messages"]) for state in chat(AdjournSaver(store)).get_state_history(config)]
    assert max(lengths) == 6


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text("ab", max_size=3)
    | st.just("long " * 300)
    | st.binary(max_size=4),
    lambda items: (
        st.lists(items, max_size=6) | st.dictionaries(st.text("ab", max_size=2), items, max_size=3) | st.tuples(items)
    ),
    max_leaves=12,
)


@given(steps=st.lists(st.dictionaries(st.sampled_from("xyz"), _VALUES, max_size=3), min_size=1, max_size=6))
def test_every_value_comes_back_as_it_was(steps: list[dict[str, Any]]) -> None:
    """Whatever channels hold, in whatever order it changes: as LangGraph's own memory has it."""
    ours, theirs = AdjournSaver(MemoryStore()), InMemorySaver()
    configs: list[Any] = [{"configurable": {"thread_id": "t", "checkpoint_ns": ""}}] * 2
    values: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    for number, step in enumerate(steps):
        values = {**values, **step}
        changed = dict.fromkeys(step, f"{number:05}")
        versions = {**versions, **changed}
        checkpoint = empty_checkpoint() | {"channel_values": dict(values), "channel_versions": dict(versions)}
        for index, saver in enumerate((ours, theirs)):
            configs[index] = saver.put(configs[index], checkpoint, {"source": "loop", "step": number}, changed)  # type: ignore[arg-type]
            saver.put_writes(configs[index], [(channel, value) for channel, value in step.items()], "writer")
    for mine, other in zip(ours.list(None), theirs.list(None), strict=True):
        assert mine == other


def test_encrypted_values_are_unreadable_and_still_stored_once(store: Store) -> None:
    """No text of a message is in the store; a list that grows adds only its new items, though equal texts are encrypted differently."""
    serde = EncryptedSerializer(Cipher())
    graph = chat(AdjournSaver(store, serde=serde))
    for turn in range(12):
        say(graph, turn)
    before = size_of(store)
    ids = say(graph, 12)
    assert len(ids) == 26
    assert size_of(store) - before < before / 6
    assert not any(b"state of the release" in (store.get_blob(digest) or b"") for digest, _ in store.blobs())
    assert [
        message.id
        for message in chat(AdjournSaver(store, serde=serde))
        .get_state({"configurable": {"thread_id": "t"}})
        .values["messages"]
    ] == ids


def test_nothing_is_unpickled_by_default(store: Store) -> None:
    """A value that only pickle could store is refused."""
    saver = AdjournSaver(store)
    assert isinstance(saver.serde, JsonPlusSerializer)
    assert not saver.serde.pickle_fallback
    checkpoint = empty_checkpoint() | {"channel_values": {"x": object()}}
    with pytest.raises(TypeError):
        saver.put({"configurable": {"thread_id": "t"}}, checkpoint, {}, {"x": "1"})


def test_a_deleted_thread_leaves_no_document_and_harms_no_other(store: Store) -> None:
    """Its texts are gone from the store; a copy that was made of it is whole; its chain verifies and says that it was deleted."""
    saver = AdjournSaver(store)
    for turn in range(3):
        say(chat(saver), turn)
    saver.copy_thread("t", "copy")
    copied = [found.checkpoint for found in saver.list({"configurable": {"thread_id": "copy"}})]
    saver.delete_thread("t")
    assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is None
    mark = sha256(task_of("t").encode()).digest()[:MARK]
    assert not any((store.get_blob(digest) or b"").startswith(mark) for digest, _ in store.blobs())
    assert [found.checkpoint for found in AdjournSaver(store).list({"configurable": {"thread_id": "copy"}})] == copied
    Task(store, task_of("t"), clock=now, secret=keys.secret()).check_history()
    assert decode(list(store.read(task_of("t")))[-1].data).event == "graph.deleted"


def test_collecting_garbage_takes_nothing_that_a_thread_needs(store: Store, tmp_path: Path) -> None:
    """`adjourn store gc` follows the documents of a thread through its lists."""
    for turn in range(4):
        say(chat(AdjournSaver(store)), turn)
    config = {"configurable": {"thread_id": "t"}}
    before = chat(AdjournSaver(store)).get_state(config).values
    collect(store, str(tmp_path), now())
    assert chat(AdjournSaver(store)).get_state(config).values == before


def test_two_savers_on_one_store_write_one_thread(store: Store, tmp_path: Path) -> None:
    """Each sees what the other wrote, and follows on it."""
    other = SqliteStore(tmp_path / "adjourn.db")
    graphs = [chat(AdjournSaver(store)), chat(AdjournSaver(other))]
    for turn in range(6):
        ids = say(graphs[turn % 2], turn)
    assert len(ids) == 12
    other.close()


def test_racing_writers_of_one_checkpoint_lose_nothing(store: Store, tmp_path: Path) -> None:
    """Many threads and two processes' stores put writes and checkpoints at once: all are there, the newest is the newest."""
    other = SqliteStore(tmp_path / "adjourn.db")
    savers = [AdjournSaver(store), AdjournSaver(other)]
    first = savers[0].put({"configurable": {"thread_id": "t"}}, empty_checkpoint(), {}, {})
    made = [empty_checkpoint() for _ in range(20)]

    def work(number: int) -> None:
        saver = savers[number % 2]
        saver.put_writes(first, [(f"c{number}", number)], "shared" if number % 4 < 2 else f"w{number}")
        saver.put_writes(first, [("__interrupt__", number)], "shared")
        saver.put(first, made[number], {"step": number}, {})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(20)))
    found = savers[0].get_tuple(first)
    assert found is not None
    written = {channel for _, channel, _ in found.pending_writes or ()}
    assert written >= {f"c{number}" for number in range(20) if number % 4 >= 2} | {"__interrupt__"}
    every = [each.checkpoint["id"] for each in savers[1].list({"configurable": {"thread_id": "t"}})]
    assert set(every) >= {each["id"] for each in made}
    newest = savers[1].get_tuple({"configurable": {"thread_id": "t"}})
    assert newest is not None
    assert newest.checkpoint["id"] == max(every)
    other.close()


def test_a_thread_of_another_checkpointer_is_taken_over(store: Store) -> None:
    """With its checkpoints, metadata and pending writes; the graph continues where it was."""
    theirs = InMemorySaver()
    for turn in range(3):
        say(chat(theirs), turn)
    ours = AdjournSaver(store)
    ours.copy_from(theirs, "t")
    assert list(ours.list({"configurable": {"thread_id": "t"}})) == list(
        theirs.list({"configurable": {"thread_id": "t"}})
    )
    assert len(say(chat(ours), 3)) == 8


def test_an_effect_of_a_node_happens_once(store: Store) -> None:
    """A node that runs again gets what was kept of the first time; one that failed in it is refused until a person settles it."""
    config: Any = {"configurable": {"thread_id": "t"}}
    sent = []
    for saver in (AdjournSaver(store), AdjournSaver(store)):
        with saver.effect(config, "mail", "send", {"to": "ann"}, key="welcome") as effect:
            if effect.run:
                sent.append("welcome")
                effect.outputs = {"id": 7}
        assert effect.outputs == {"id": 7}
    assert sent == ["welcome"]
    with (
        pytest.raises(OSError, match="cut"),
        AdjournSaver(store).effect(config, "mail", "send", {"to": "bob"}, key="bye"),
    ):
        raise OSError("cut")
    again = AdjournSaver(store)
    with pytest.raises(RefusedError), again.effect(config, "mail", "send", {"to": "bob"}, key="bye"):
        sent.append("bye")
    with again.effect(config, "mail", "send", {"to": "bob"}, key="bye", probe=lambda _: False) as effect:
        assert effect.run
    assert sent == ["welcome"]


def test_an_equal_effect_of_another_thread_is_another_effect(store: Store) -> None:
    """One that was cut off and found to have happened, and one that is in doubt, hold no other thread's effect with the same inputs."""
    saver = AdjournSaver(store)

    def effect(thread: str, **options: Any) -> Any:
        return saver.effect(
            {"configurable": {"thread_id": thread}}, "mail", "send", {"to": "ann"}, key="welcome", **options
        )

    for thread in ("done", "doubt"):
        with pytest.raises(OSError, match="cut"), effect(thread):
            raise OSError("cut")
    with effect("done", probe=lambda _: True) as known:
        assert not known.run
    with effect("other", probe=lambda _: pytest.fail("it asks about another thread")) as fresh:
        assert fresh.run


@pytest.mark.parametrize("thread", ["a/b", "ä ö", "x" * 300, "..", "thread:1"])
def test_any_text_names_a_thread(thread: str) -> None:
    """Names that no task could have are kept apart."""
    saver = AdjournSaver(MemoryStore())
    say(chat(saver), 1, thread)
    assert len(say(chat(saver), 2, thread)) == 4
    (config,) = {found.config["configurable"]["thread_id"] for found in saver.list(None)}
    assert config == thread


def test_wrong_use_is_said_in_words() -> None:
    """A config without a thread, and a strategy that there is not."""
    saver = AdjournSaver(MemoryStore())
    with pytest.raises(UsageError, match="names no thread"):
        saver.get_tuple({"configurable": {}})
    with pytest.raises(UsageError, match="keep_latest or delete"):
        saver.prune(["t"], strategy="all")


def test_a_value_that_is_named_often_is_not_loaded_without_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One document may be named any number of times: what reading a checkpoint takes is bounded, and so is what is written."""
    saver, config = AdjournSaver(store), {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    checkpoint = empty_checkpoint() | {"channel_values": {"x": ["\0" * 20_000] * 50}, "channel_versions": {"x": 1}}
    saver.put(config, checkpoint, {}, {"x": 1})  # type: ignore[arg-type]
    assert len(saver.get_tuple(config).checkpoint["channel_values"]["x"]) == 50  # type: ignore[arg-type, union-attr]
    monkeypatch.setattr("adjourn.langgraph.values.MAX_LOADED", 500_000)
    for reader in (saver, AdjournSaver(store)):
        with pytest.raises(IntegrityError, match="more than 500000 bytes"):
            reader.get_tuple(config)  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="more than 250,000 bytes"):
        saver.put(config, checkpoint | {"id": "z"}, {}, {"x": 1})  # type: ignore[arg-type]


def test_a_value_that_could_not_be_read_again_is_not_stored(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger value is refused with the limit, before anything is written."""
    monkeypatch.setattr("adjourn.langgraph.values.MAX_VALUE", 10_000)
    saver = AdjournSaver(store)
    checkpoint = empty_checkpoint() | {"channel_values": {"x": b"\0" * 20_000}, "channel_versions": {"x": 1}}
    with pytest.raises(InvalidError, match="10,000 bytes"):
        saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint, {}, {"x": 1})
    assert list(saver.list(None)) == []
