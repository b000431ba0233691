"""The OpenAI Agents SDK and pydantic-ai, on conversations in a store: a model on loopback, kills, several writers, verification."""

from __future__ import annotations

import asyncio
import doctest
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.memory import Session, SessionSettings
from openai import AsyncOpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.test import TestModel

from adjourn import IntegrityError, InvalidError, MemoryStore, SqliteStore, Store, UsageError, open_store
from adjourn.adapters.conversation import Conversation
from adjourn.adapters.openai_agents import AdjournSession
from adjourn.adapters.pydantic_ai import MessageHistory
from adjourn.checkpoints.pruning import collect
from adjourn.host.clock import now
from adjourn.testing import ModelServer, ScriptedReply
from adjourn.verification.verify import verify_task

TURNS = 8
AGENTS = """
import asyncio, sys
from agents import Agent, Runner, OpenAIChatCompletionsModel, set_tracing_disabled
from openai import AsyncOpenAI
from adjourn import open_store
from adjourn.adapters.openai_agents import AdjournSession

async def main():
    session = AdjournSession("talk", open_store("talk.db"))
    agent = Agent(name="helper", model=OpenAIChatCompletionsModel("some-model", AsyncOpenAI(max_retries=0)))
    while True:
        items = await session.get_items()
        answered = sum(item["role"] == "assistant" for item in items)
        asked = sum(item["role"] == "user" for item in items)
        print("at", answered, asked, flush=True)
        if answered == int(sys.argv[1]):
            return
        await Runner.run(agent, [] if asked > answered else f"question {answered}", session=session)

set_tracing_disabled(True)
asyncio.run(main())
"""
PYDANTIC = """
import sys
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from adjourn import open_store
from adjourn.adapters.pydantic_ai import MessageHistory

history = MessageHistory("talk", open_store("talk.db"))
agent = Agent(OpenAIChatModel("some-model"))
while True:
    answered = sum(message.kind == "response" for message in history.load())
    print("at", answered, answered, flush=True)
    if answered == int(sys.argv[1]):
        break
    result = agent.run_sync(f"question {answered}", message_history=history.load())
    history.save(result.new_messages())
"""


def said(store: Store, program: str) -> list[tuple[str, str]]:
    """Who said what in the stored conversation."""
    if program is AGENTS:
        items: Any = asyncio.run(AdjournSession("talk", store).get_items())
        return [(item["role"], _text(item["content"])) for item in items]
    return [
        ("user" if message.kind == "request" else "assistant", str(part.content))
        for message in MessageHistory("talk", store).load()
        for part in message.parts
        if part.part_kind in ("user-prompt", "text")
    ]


def _text(content: Any) -> str:
    return str(content) if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.mark.parametrize("program", [AGENTS, PYDANTIC], ids=["openai-agents", "pydantic-ai"])
def test_a_killed_run_continues_with_the_same_history(tmp_path: Path, program: str) -> None:
    """Killed while the model answers, before and after it; nothing is lost or doubled, and the model sees all that was said."""
    work = tmp_path / "work"
    work.mkdir()
    with ModelServer(ScriptedReply("an answer", seconds=0.15)) as server:
        environment = {**os.environ, **server.environment(), "ADJOURN_CONFIG": str(tmp_path / "config")}
        kills, reached, is_over = 0, 0, False
        while not is_over:
            command = [sys.executable, "-c", program, str(TURNS)]
            with (tmp_path / "stderr").open("w") as errors:
                process = subprocess.Popen(
                    command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
                )
            assert process.stdout is not None
            timer: threading.Timer | None = None
            for line in process.stdout:
                answered = int(line.split()[1])
                assert answered >= reached, "an answer that was stored is gone"
                is_over = answered == TURNS
                if answered > reached and kills < 5 and not is_over:
                    timer = threading.Timer((0.02, 0.08, 0.13, 0.16, 0.2)[kills], process.kill)
                    timer.start()
                    kills += 1
                    reached = answered
            code = process.wait()
            process.stdout.close()
            if timer is not None:
                timer.cancel()
                timer.join()
            assert code in (0, -9), (tmp_path / "stderr").read_text()
        last = server.asked[-1].body["messages"]
    assert kills == 5
    store = SqliteStore(work / "talk.db")
    expected = [pair for turn in range(TURNS) for pair in (("user", f"question {turn}"), ("assistant", "an answer"))]
    assert said(store, program) == expected
    assert [_text(message["content"]) for message in last] == [text for _, text in expected[:-1]]
    task = AdjournSession("talk", store).task if program is AGENTS else MessageHistory("talk", store).task
    report = verify_task(store, task).tasks[0]
    assert report.findings == []
    assert report.documents == 1
    store.close()
    shown = subprocess.run(
        [sys.executable, "-m", "adjourn", "status", "--store", "talk.db"],
        cwd=work, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "continue the conversation: open it under the same name" in shown.stdout


def test_a_session_is_one_of_the_sdk() -> None:
    """`AdjournSession` is a `Session`; `limit` and the settings give the newest items."""
    store = MemoryStore()
    session = AdjournSession("first", store, SessionSettings(limit=2))
    assert isinstance(session, Session)

    async def use() -> None:
        assert await session.pop_item() is None
        await session.add_items([])
        await session.add_items([{"role": "user", "content": str(number)} for number in range(4)])
        assert [item["content"] for item in await session.get_items()] == ["2", "3"]  # type: ignore[typeddict-item]
        assert [item["content"] for item in await session.get_items(3)] == ["1", "2", "3"]  # type: ignore[typeddict-item]
        assert await session.get_items(0) == []
        assert await session.pop_item() == {"role": "user", "content": "3"}
        assert await AdjournSession("first", store).get_items(1) == [{"role": "user", "content": "2"}]

    asyncio.run(use())


def test_a_branch_starts_with_the_same_items_and_leaves_its_origin() -> None:
    """A branch has its own items from then on. It can be made again, but not over another conversation."""
    store = MemoryStore()
    session = AdjournSession("first", store)

    async def use() -> None:
        await session.add_items([{"role": "user", "content": str(number)} for number in range(4)])
        branch = await session.branch("second", items=2)
        assert len(await (await session.branch("second", items=2)).get_items()) == 2
        await branch.add_items([{"role": "user", "content": "other"}])
        with pytest.raises(InvalidError, match="'second' has messages already"):
            await session.branch("second")
        with pytest.raises(UsageError, match="has 4 items, not 5"):
            await session.branch("third", items=5)
        whole = await session.branch("whole")
        await session.clear_session()
        assert await session.get_items() == []
        assert len(await whole.get_items()) == len(await AdjournSession("whole", store).get_items()) == 4
        items = await AdjournSession("second", store).get_items()
        assert [item["content"] for item in items] == ["0", "1", "other"]  # type: ignore[typeddict-item]
        assert verify_task(store, branch.task).tasks[0].findings == []
        assert verify_task(store, session.task).tasks[0].findings == []

    asyncio.run(use())
    assert len(list(store.blobs())) == 3, "the documents of the session that was cleared are gone"


def test_a_run_with_a_branch_shows_the_model_its_items_only() -> None:
    """What the model receives is the branch's history."""
    set_tracing_disabled(disabled=True)
    store = MemoryStore()

    async def use(url: str) -> None:
        client = AsyncOpenAI(base_url=url, api_key="key")
        agent = Agent(name="helper", model=OpenAIChatCompletionsModel("some-model", client))
        session = AdjournSession("first", store)
        await Runner.run(agent, "one", session=session)
        await Runner.run(agent, "two", session=session)
        await Runner.run(agent, "three", session=await session.branch("second", items=2))
        await client.close()

    with ModelServer("yes") as server:
        asyncio.run(use(f"{server.url}/v1"))
        last = server.asked[-1].body["messages"]
    assert [_text(message["content"]) for message in last] == ["one", "yes", "three"]


def test_a_history_that_is_saved_again_has_no_doubles() -> None:
    """Saving the newest run twice changes nothing; the messages come back equal."""
    store, agent = MemoryStore(), PydanticAgent(TestModel())
    history = MessageHistory("first", store)
    first = asyncio.run(agent.run("Hello", message_history=history.load()))
    history.save(first.new_messages())
    history.save(first.new_messages())
    assert history.load() == first.new_messages()
    second = asyncio.run(agent.run("And?", message_history=history.load()))
    history.save(second.new_messages())
    assert MessageHistory("first", store).load() == second.all_messages()
    history.clear()
    assert history.load() == []
    assert list(store.blobs()) == []


def test_writers_in_several_threads_lose_nothing(store_of: Callable[[], Store]) -> None:
    """Each writer has its own object; all messages are there, each writer's in order."""

    def write(writer: int) -> None:
        store = store_of()
        conversation = Conversation(store, "shared", "openai-agents")
        for number in range(10):
            conversation.append([[writer, number]])
        store.close()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = store_of()
    items = Conversation(store, "shared", "openai-agents").items()
    for writer in range(4):
        assert [number for by, number in items if by == writer] == list(range(10))
    assert len(items) == 40
    store.close()


@pytest.fixture
def store_of(tmp_path: Path) -> Callable[[], Store]:
    return lambda: open_store(str(tmp_path / "shared.db"))


def test_documents_survive_collection_and_a_changed_one_is_reported() -> None:
    """`gc` keeps what a conversation needs; `verify` and reading name what is missing. A message cannot pretend to be a document."""
    store = MemoryStore()
    conversation = Conversation(store, "first", "openai-agents")
    conversation.append(["first"])
    older = store.ref(f"graph-writes/{conversation.task}/items")
    assert older is not None
    mark = (store.get_blob(older) or b"")[:8].hex()
    conversation.append([{"text": f"{mark}:{'a' * 64}"}])
    conversation.append(["third"])
    collect(store, "/nonexistent", now())
    assert len(Conversation(store, "first", "openai-agents").items()) == 3
    assert verify_task(store, conversation.task).tasks[0].findings == []
    store.forget(older)
    assert [located.finding.code for located in verify_task(store, conversation.task).tasks[0].findings] == [
        "document-missing"
    ]
    with pytest.raises(IntegrityError, match="is missing"):
        Conversation(store, "first", "openai-agents").items()


@pytest.mark.parametrize("kind", [AdjournSession, MessageHistory])
def test_the_example_of_a_docstring_is_true(kind: type) -> None:
    """Running it prints what stands behind it."""
    (example,) = [example for example in doctest.DocTestFinder().find(kind, globs={}) if example.examples]
    failed, tried = doctest.DocTestRunner().run(example)
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("item", [{1, 2}, float("nan"), b"bytes"])
def test_a_message_that_is_not_json_is_refused(item: Any) -> None:
    """The error names what is wrong, and nothing is stored."""
    store = MemoryStore()
    conversation = Conversation(store, "a name with blanks, and longer than a task's: " + "x" * 80, "openai-agents")
    with pytest.raises(InvalidError, match="not JSON"):
        conversation.append(["good", item])
    assert store.streams() == {}


def test_odd_texts_come_back_as_they_were() -> None:
    """Line ends, NUL and lone surrogates are kept."""
    store = MemoryStore()
    items = ["a\nb\r\u2028", "\0", "\ud800", {"ключ": [1.5, None, True]}, 2**80]
    Conversation(store, "odd", "openai-agents").append(items)
    assert Conversation(store, "odd", "openai-agents").items() == items
