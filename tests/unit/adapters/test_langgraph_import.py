"""`adjourn store import`: threads of LangGraph's own checkpointers become threads of `AdjournSaver`, whole, and once."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from adjourn.cli.app import main
from adjourn.langgraph import AdjournSaver
from adjourn.langgraph.importing import import_threads
from adjourn.langgraph.thread import task_of
from adjourn.verification.verify import verify_task


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    about: dict[str, Any]
    approved: bool


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@contextmanager
def _sqlite(where: str) -> Iterator[Any]:
    with SqliteSaver.from_conn_string(where) as saver:
        yield saver


@contextmanager
def _postgres(where: str) -> Iterator[Any]:
    postgres = pytest.importorskip("langgraph.checkpoint.postgres")
    with postgres.PostgresSaver.from_conn_string(where) as saver:
        saver.setup()
        yield saver


@pytest.fixture(params=["sqlite", "postgres"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[str], AbstractContextManager[Any]]]:
    """Where the database is, and what opens LangGraph's checkpointer on it."""
    if request.param == "sqlite":
        return "checkpoints.sqlite", _sqlite
    pytest.importorskip("langgraph.checkpoint.postgres")
    return request.getfixturevalue("new_postgres_url")(), _postgres


def chat(saver: Any) -> Any:
    """A graph that answers, then waits for a person."""

    def model(state: State) -> dict[str, Any]:
        count = len(state["messages"])
        about = {"count": count, "tags": {"a", "b"}, "text": "long " * 300}
        return {"messages": [AIMessage(f"{count} {'yes ' * 200}", id=f"a{count}")], "about": about}

    def ask(state: State) -> dict[str, Any]:
        del state
        return {"approved": interrupt("may I?")}

    builder = StateGraph(State)
    builder.add_node("model", model)
    builder.add_node("ask", ask)
    builder.add_edge(START, "model").add_edge("model", "ask")
    return builder.compile(checkpointer=saver)


def talk(graph: Any, thread: str, turns: range) -> Any:
    config: Any = {"configurable": {"thread_id": thread}}
    for turn in turns:
        graph.invoke({"messages": [HumanMessage(f"{turn} " + "what? " * 100, id=f"h{turn}")]}, config)
        if turn + 1 < turns.stop:
            graph.invoke(Command(resume=True), config)
    return graph.get_state(config)


def all_of(saver: Any, thread: str) -> list[Any]:
    return list(saver.list({"configurable": {"thread_id": thread}}))


def test_threads_come_over_whole_and_once(
    theirs: tuple[str, Callable[[str], AbstractContextManager[Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Checkpoints, metadata, and pending writes are equal; the interrupted graph is answered here; a second import adds nothing."""
    where, opened = theirs
    with opened(where) as saver:
        for thread in ("first", "second/ä"):
            talk(chat(saver), thread, range(3))
        wanted = {thread: all_of(saver, thread) for thread in ("first", "second/ä")}
    assert main(["import", "langgraph", where, "--store", "threads.db", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["threads"]
    assert [(each["thread"], each["checkpoints"], each["present"]) for each in told] == [
        (thread, len(there), 0) for thread, there in wanted.items()
    ]
    with AdjournSaver.from_conn_string("threads.db") as ours:
        for thread, there in wanted.items():
            assert all_of(ours, thread) == there
            assert verify_task(ours.store, task_of(thread)).tasks[0].findings == []
        before = ours.store.streams()
    assert main(["store", "import", where, "--store", "threads.db"]) == 0
    assert f"0 checkpoints, 0 sets of writes, {len(wanted['first'])} were there" in capsys.readouterr().out
    with AdjournSaver.from_conn_string("threads.db") as ours:
        assert ours.store.streams() == before
        config: Any = {"configurable": {"thread_id": "first"}}
        state = chat(ours).invoke(Command(resume=True), config)
        assert state["approved"] is True
        assert [message.id for message in state["messages"]] == ["h0", "a1", "h1", "a3", "h2", "a5"]
        assert state["about"]["tags"] == {"a", "b"}


def test_one_thread_comes_over(theirs: tuple[str, Callable[[str], AbstractContextManager[Any]]]) -> None:
    """The others are left out; a name that is not there is an error that suggests the right one."""
    where, opened = theirs
    with opened(where) as saver:
        for thread in ("first", "second"):
            talk(chat(saver), thread, range(1))
    assert main(["store", "import", where, "--thread", "second", "--store", "threads.db"]) == 0
    with AdjournSaver.from_conn_string("threads.db") as ours:
        assert all_of(ours, "first") == []
        assert all_of(ours, "second") != []


def test_an_import_that_was_cut_off_continues() -> None:
    """What is there already stays; the rest is added, writes of the checkpoint that was the last one included."""

    class CutError(Exception):
        pass

    def cut(done: int, total: int) -> None:
        assert total > 6
        if done == 4:
            raise CutError

    with _sqlite("checkpoints.sqlite") as saver:
        talk(chat(saver), "t", range(2))
        wanted = all_of(saver, "t")
    with AdjournSaver.from_conn_string("threads.db") as ours:
        with pytest.raises(CutError):
            list(import_threads(ours.store, "checkpoints.sqlite", progress=cut))
        assert 0 < len(all_of(ours, "t")) < len(wanted)
        (result,) = import_threads(ours.store, "checkpoints.sqlite")
        assert (result.present, result.present + result.checkpoints) == (4, len(wanted))
        assert all_of(ours, "t") == wanted


def test_sends_of_an_earlier_version_come_over(request: pytest.FixtureRequest) -> None:
    """Before version 4, a checkpoint's nodes to run were writes of its parent: PostgresSaver adds them, and so does the import."""
    psycopg, url = pytest.importorskip("psycopg"), request.getfixturevalue("new_postgres_url")()
    with _postgres(url) as saver:
        talk(chat(saver), "t", range(1))
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{v}', '3')")
            connection.execute("UPDATE checkpoint_writes SET channel = '__pregel_tasks' WHERE channel = 'about'")
        wanted = all_of(saver, "t")
        assert any("__pregel_tasks" in each.checkpoint["channel_values"] for each in wanted)
    assert main(["store", "import", url, "--store", "threads.db"]) == 0
    with AdjournSaver.from_conn_string("threads.db") as ours:
        assert all_of(ours, "t") == wanted


def test_messages_are_stored_once_and_followed() -> None:
    """An imported thread is as small as one that was written here, and its next turn adds only its own messages."""
    with _sqlite("checkpoints.sqlite") as saver:
        talk(chat(saver), "t", range(30))
    assert main(["store", "import", "checkpoints.sqlite", "--store", "threads.db"]) == 0
    with AdjournSaver.from_conn_string("threads.db") as ours:
        size = sum(size for _, size in ours.store.blobs())
        assert size * 10 < Path("checkpoints.sqlite").stat().st_size
        talk(chat(ours), "t", range(30, 31))
        assert sum(size for _, size in ours.store.blobs()) - size < size / 15


def test_nothing_of_a_hostile_database_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A pickled checkpoint is refused and pickled writes are copied unopened; a view is no table; a link is refused."""

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path(tmp_path / "trapped").touch, ())

    with _sqlite("checkpoints.sqlite") as saver:
        talk(chat(saver), "t", range(1))
    with sqlite3.connect("checkpoints.sqlite") as connection:
        connection.execute(
            "UPDATE writes SET type = 'pickle', value = ? WHERE channel = 'about'", (pickle.dumps(Trap()),)
        )
    assert main(["store", "import", "checkpoints.sqlite", "--store", "threads.db"]) == 0
    with sqlite3.connect("checkpoints.sqlite") as connection:
        connection.execute("UPDATE checkpoints SET type = 'pickle', checkpoint = ?", (pickle.dumps(Trap()),))
    assert main(["store", "import", "checkpoints.sqlite", "--store", "other.db"]) == 1
    assert "is stored as pickle" in capsys.readouterr().err
    with sqlite3.connect("views.sqlite") as connection:
        connection.execute("CREATE VIEW checkpoints AS SELECT 1 AS thread_id")
    assert main(["store", "import", "views.sqlite", "--store", "other.db"]) == 1
    assert "has no table checkpoints" in capsys.readouterr().err
    Path("link").symlink_to("checkpoints.sqlite")
    assert main(["store", "import", "link", "--store", "other.db"]) == 1
    assert main(["store", "import", "missing", "--store", "other.db"]) == 1
    assert main(["store", "import", "checkpoints.sqlite", "--thread", "x", "--store", "other.db"]) == 1
    assert "its threads: t" in capsys.readouterr().err
    assert not (tmp_path / "trapped").exists()


def test_names_are_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    """The name of a thread that is too long is refused before anything is written."""
    with _sqlite("checkpoints.sqlite") as saver:
        talk(chat(saver), "x" * 600, range(1))
    assert main(["store", "import", "checkpoints.sqlite", "--store", "threads.db"]) == 1
    assert "more than 500 characters" in capsys.readouterr().err
