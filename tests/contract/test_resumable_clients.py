"""The clients that remember, round the real SDKs: each request tells the state, each answer is kept, a kill loses nothing.

The providers are a server on loopback.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adjourn import CognitiveStore, MemoryStore, ResumableAnthropic, ResumableOpenAI, Store, open_store
from adjourn.adapters.models import with_state
from adjourn.errors import NotFoundError, UsageError
from adjourn.knowledge.brief.compose import INTRODUCTION, STATE_RULES
from adjourn.runs.model import ModelError
from adjourn.testing import ModelRequest, ModelServer, ScriptedReply

VARIABLES = [f"{name}_{part}" for name in ("ANTHROPIC", "OPENAI") for part in ("API_KEY", "MODEL", "BASE_URL")]


class Way(NamedTuple):
    """One of the calls that are kept."""

    client: Any
    sdk: str
    path: str
    call: tuple[str, ...]
    request: dict[str, Any]

    def create(self, client: Any, *, system: Any = None, **more: Any) -> Any:
        """Make the call, with a system prompt in its place."""
        request = {"model": "some-model", **self.request, **more}
        if system is not None and self.call == ("chat", "completions"):
            request["messages"] = [{"role": "developer", "content": system}, *request["messages"]]
        elif system is not None:
            request["instructions" if self.call == ("responses",) else "system"] = system
        for name in self.call:
            client = getattr(client, name)
        return client.create(**request)

    def text(self, response: Any) -> str:
        """What an answer of the SDK says."""
        if self.call == ("messages",):
            return "".join(block.text for block in response.content if block.type == "text")
        return str(response.choices[0].message.content if self.call[0] == "chat" else response.output_text)


USER = [{"role": "user", "content": "go on"}]
WAYS = [
    Way(ResumableAnthropic, "anthropic", "/v1/messages", ("messages",), {"messages": USER, "max_tokens": 99}),
    Way(ResumableOpenAI, "openai", "/v1/chat/completions", ("chat", "completions"), {"messages": USER}),
    Way(ResumableOpenAI, "openai", "/v1/responses", ("responses",), {"input": "go on"}),
]
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.path)
each_client = pytest.mark.parametrize("way", WAYS[:2], ids=lambda way: way.sdk)


def system_of(asked: ModelRequest) -> str:
    """The whole system prompt of a request, wherever its provider has it."""
    told = asked.body.get("system") or asked.body.get("instructions") or []
    if isinstance(told, str):
        return told
    texts = [block["text"] for block in told]
    texts += [one["content"] for one in asked.body.get("messages", ()) if one["role"] in ("system", "developer")]
    return "\n\n".join(texts)


def state_of(asked: ModelRequest, said: str = "go on") -> str:
    """The state that ends a request, behind what the user said."""
    last = (asked.body.get("messages") or asked.body["input"])[-1]
    assert last["role"] == "user"
    assert last["content"].startswith(f"{said}\n\n")
    state: str = last["content"].removeprefix(f"{said}\n\n")
    return state


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModelServer], None]:
    def use(server: ModelServer) -> None:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)

    return use


def facts(memory: CognitiveStore) -> list[str]:
    return [fact["content"] for fact in memory.session["workingState"]["epistemicState"]["facts"]]


@each_way
def test_a_session_is_kept_and_gone_on_with(way: Way, environment: Callable[[ModelServer], None]) -> None:
    """Each request says what the answers before it said; another client continues with it, and counts on."""
    store = MemoryStore()
    with ModelServer(
        ScriptedReply("FACT: the port is 8080"), ScriptedReply("INTENT: deploy"), ScriptedReply("done")
    ) as server:
        environment(server)
        client = way.client(CognitiveStore(store, "job", goal="ship it"), auto_checkpoint_interval=2)
        response = way.create(client, system="be brief")
        assert way.text(response) == "FACT: the port is 8080"
        way.create(client)
        again = way.client(CognitiveStore(store, "job"))
        way.create(again, system="be brief")
    assert [asked.path for asked in server.asked] == [way.path] * 3
    systems = [f"be brief\n\n{STATE_RULES}", STATE_RULES, f"be brief\n\n{STATE_RULES}"]
    assert [system_of(asked) for asked in server.asked] == systems
    first, second, third = map(state_of, server.asked)
    assert "the port" not in first
    assert "fact: the port is 8080" in second
    assert third.startswith(INTRODUCTION)
    assert "ship it" in third
    assert "fact: the port is 8080 (source inference, confidence 0.7)" in third
    assert "[active] deploy" in third
    metrics = again.memory.session["totalMetrics"]
    assert (metrics["requestCount"], metrics["tokensConsumed"], metrics["resumeCount"]) == (3, 54, 1)
    (made,) = again.memory.checkpoint_ids()
    checkpoint = again.memory.get_checkpoint(made)
    assert checkpoint is not None
    assert checkpoint["label"] == "Auto-checkpoint #2"


@each_way
def test_a_tag_in_the_system_prompt_resumes(way: Way, environment: Callable[[ModelServer], None]) -> None:
    """The state of the checkpoint is shown in the place of the tag; an unknown one is an error before anything is sent."""
    store = MemoryStore()
    with ModelServer(ScriptedReply("FACT: a")) as server:
        environment(server)
        first = way.client(CognitiveStore(store, "first"))
        way.create(first)
        name = first.save_checkpoint("here")
        second = way.client(CognitiveStore(store, "second"))
        way.create(second, system=f"RESUME_FROM:{name}")
        assert "RESUME_FROM" not in json.dumps(server.asked[-1].body)
        assert "fact: a" in state_of(server.asked[-1])
        with pytest.raises(NotFoundError, match="no checkpoint nothing"):
            way.create(second, system="RESUME_FROM:nothing")
        assert len(server.asked) == 2
        user = {"input": "RESUME_FROM:nothing"} if way.call == ("responses",) else {
            "messages": [{"role": "user", "content": "RESUME_FROM:nothing"}]
        }  # fmt: skip
        way.create(second, **user)
        assert "RESUME_FROM:nothing" in json.dumps(server.asked[-1].body)


def test_parts_of_a_system_prompt_stay_as_they_are(environment: Callable[[ModelServer], None]) -> None:
    """Blocks keep what else they say; a message that was but a tag is left out; messages may come from a generator."""
    store = MemoryStore()
    with ModelServer(ScriptedReply("FACT: a")) as server:
        environment(server)
        anthropic = ResumableAnthropic(CognitiveStore(store, "a"))
        name = anthropic.save_checkpoint("here")
        cached = {"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}
        tag = {"type": "text", "text": f"RESUME_FROM:{name}"}
        anthropic.messages.create(model="m", max_tokens=9, system=iter([cached, tag]), messages=USER)
        assert server.asked[-1].body["system"] == [cached, {"type": "text", "text": STATE_RULES}]
        assert state_of(server.asked[-1]).startswith(INTRODUCTION)

        openai = ResumableOpenAI(CognitiveStore(store, "b"))
        parts = {"role": "system", "content": [{"type": "text", "text": f"RESUME_FROM:{name}"}]}
        brief = {"role": "developer", "content": [{"type": "text", "text": "be brief"}]}
        openai.chat.completions.create(model="m", messages=(one for one in [parts, brief, *USER]))
        first, told, _ = server.asked[-1].body["messages"]
        assert (first, told) == (brief, {"role": "system", "content": STATE_RULES})
        assert state_of(server.asked[-1]).startswith(INTRODUCTION)
        openai.responses.create(model="m", input=[parts, *USER])
        assert len(server.asked[-1].body["input"]) == 1
        assert state_of(server.asked[-1]).startswith(INTRODUCTION)


def test_only_the_part_that_never_changes_is_marked_for_the_cache(environment: Callable[[ModelServer], None]) -> None:
    """Anthropic's cache mark is on the rules, unless the program has marks of its own; what is before the last message is stable."""
    with ModelServer(ScriptedReply("FACT: a")) as server:
        environment(server)
        client = ResumableAnthropic(CognitiveStore(MemoryStore(), "job", goal="ship it"))
        history = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
        mark = {"type": "ephemeral"}
        for marked in ({}, {"tools": [{"name": "t", "input_schema": {"type": "object"}, "cache_control": mark}]}):
            client.messages.create(model="m", max_tokens=9, messages=[*history, *USER], **marked)
    first, second = (asked.body for asked in server.asked)
    assert first["system"] == [{"type": "text", "text": STATE_RULES, "cache_control": mark}]
    assert second["system"] == [{"type": "text", "text": STATE_RULES}]
    assert first["messages"][:-1] == second["messages"][:-1] == history
    assert "fact: a" not in state_of(server.asked[0])
    assert "fact: a" in state_of(server.asked[1])


@pytest.mark.parametrize(
    ("messages", "ends"),
    [
        ([], [("user", "S")]),
        ([("user", "a")], [("user", "a\n\nS")]),
        ([("user", "a"), ("assistant", "I")], [("user", "a\n\nS"), ("assistant", "I")]),
        ([("user", "a"), ("assistant", "b"), ("tool", "c")], [("user", "a"), ("assistant", "b"), ("tool", "c"), ("user", "S")]),
        ([("user", [{"type": "tool_result"}])], [("user", [{"type": "tool_result"}, {"type": "text", "text": "S"}])]),
    ],
)  # fmt: skip
def test_the_state_ends_a_conversation(messages: Any, ends: Any) -> None:
    """It follows the user's last words or a tool's result, and comes before an answer that the program began."""
    given = [{"role": role, "content": content} for role, content in messages]
    before = json.dumps(given)
    assert with_state(given, "S") == [{"role": role, "content": content} for role, content in ends]
    assert json.dumps(given) == before


def test_a_conversation_that_the_provider_keeps_gets_no_states(environment: Callable[[ModelServer], None]) -> None:
    """With `previous_response_id` the state is in the instructions, which the provider forgets, and the input is the program's."""
    with ModelServer(ScriptedReply("FACT: a")) as server:
        environment(server)
        client = ResumableOpenAI(CognitiveStore(MemoryStore(), "job", goal="ship it"))
        client.responses.create(model="m", input="go on", previous_response_id="resp_0", instructions="be brief")
    body = server.asked[0].body
    assert body["input"] == "go on"
    assert body["instructions"].startswith(f"be brief\n\n{STATE_RULES}\n\n# Current state")


@each_way
def test_a_failed_call_is_the_sdks_error_and_does_not_count(
    way: Way, environment: Callable[[ModelServer], None]
) -> None:
    """What the SDK raises comes through; the session is as it was."""
    memory = CognitiveStore(MemoryStore(), "job")
    with ModelServer(ScriptedReply("no", status=400), ScriptedReply("FACT: a")) as server:
        environment(server)
        client = way.client(memory)
        with pytest.raises(Exception, match="400") as raised:
            way.create(client)
        assert type(raised.value).__module__.startswith(way.sdk)
        assert memory.session["totalMetrics"]["requestCount"] == 0
        way.create(client)
    assert facts(memory) == ["a"]


@each_way
@pytest.mark.parametrize(
    "body",
    [
        b"<html>hello</html>", b"{}", b'{"content": 5, "choices": [], "output": 5}', b'"FACT: a"',
        b'{"content": [{"type": "text", "text": 5}], "choices": [{"message": 5}], "output": [{"type": "message", "content": 5}]}',
    ],
)  # fmt: skip
def test_what_is_no_answer_is_an_error(way: Way, body: bytes, environment: Callable[[ModelServer], None]) -> None:
    """Whatever else comes does not count, and is reported: by the SDK, or by us."""
    memory = CognitiveStore(MemoryStore(), "job")
    with ModelServer(ScriptedReply(body=body)) as server:
        environment(server)
        with pytest.raises((ModelError, ValueError), match=r"did not answer with a completion|Expecting value"):
            way.create(way.client(memory))
    assert memory.session["totalMetrics"]["requestCount"] == 0


@pytest.mark.parametrize("tokens", [-5, 10**17, "many", None])
def test_tokens_that_cannot_be_are_not_counted(tokens: Any, environment: Callable[[ModelServer], None]) -> None:
    """The answer is taken in all the same, and the session can be opened again."""
    store = MemoryStore()
    body = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "FACT: a"}, "finish_reason": "stop"}],
        "usage": {"total_tokens": tokens}, "model": "m", "id": "i", "object": "chat.completion", "created": 1,
    }  # fmt: skip
    with ModelServer(ScriptedReply(body=json.dumps(body).encode())) as server:
        environment(server)
        ResumableOpenAI(CognitiveStore(store, "job")).ask("go on")
    assert facts(CognitiveStore(store, "job")) == ["a"]


@each_way
def test_an_asynchronous_client_is_the_same(way: Way, environment: Callable[[ModelServer], None]) -> None:
    """The SDK's asynchronous client can be given; its calls are awaited."""
    memory = CognitiveStore(MemoryStore(), "job")
    with ModelServer(ScriptedReply("FACT: a")) as server:
        environment(server)

        async def work() -> str:
            module = __import__(way.sdk)
            async with getattr(module, f"Async{'Anthropic' if way.sdk == 'anthropic' else 'OpenAI'}")() as own:
                client = way.client(memory, client=own)
                await way.create(client)
                answer: str = await client.ask("go on")
                return answer

        assert asyncio.run(work()) == "FACT: a"
    assert memory.session["totalMetrics"]["requestCount"] == 2


@each_client
def test_one_question_gets_one_text(
    way: Way, environment: Callable[[ModelServer], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ask` sends one message, without those before it, to the model that the environment names."""
    with ModelServer(ScriptedReply("hello")) as server:
        environment(server)
        monkeypatch.setenv(f"{way.sdk.upper()}_MODEL", "mine")
        client = way.client(CognitiveStore(MemoryStore(), "job"))
        assert client.ask("greet", max_tokens=7) == "hello"
    body = server.asked[0].body
    assert (body["model"], body["max_tokens"]) == ("mine", 7)
    assert state_of(server.asked[0], "greet").startswith("# Current state")


@each_way
def test_a_stream_is_refused(way: Way, environment: Callable[[ModelServer], None]) -> None:
    """It would not be taken in, so it is not started in silence."""
    with ModelServer(ScriptedReply("hello")) as server:
        environment(server)
        with pytest.raises(UsageError, match="streamed"):
            way.create(way.client(CognitiveStore(MemoryStore(), "job")), stream=True)
    assert server.asked == []


@each_client
def test_without_a_key_nothing_starts(way: Way) -> None:
    """The client itself fails, and names the variable."""
    with pytest.raises(ModelError, match=f"{way.sdk.upper()}_API_KEY is not set"):
        way.client(CognitiveStore(MemoryStore(), "job"))


@each_client
def test_a_checkpoint_is_restored_by_its_id(way: Way, environment: Callable[[ModelServer], None]) -> None:
    """What was learned since is gone from the state, and still in the store; warnings say what to examine."""
    memory = CognitiveStore(MemoryStore(), "job")
    with ModelServer(ScriptedReply("FACT: a"), ScriptedReply("FACT: b"), ScriptedReply("done")) as server:
        environment(server)
        client = way.client(memory)
        client.ask("one")
        name = client.save_checkpoint("after one")
        client.ask("two")
        assert client.restore_checkpoint(name) == []
        client.ask("three")
    told = state_of(server.asked[-1], "three")
    assert "fact: a" in told
    assert "fact: b" not in told


PROGRAM = """
import sys
from adjourn import CognitiveStore, {kind}, open_store
client = {kind}(CognitiveStore(open_store(sys.argv[1]), "job", goal="ship it"), auto_checkpoint_interval=2)
for number in range(int(sys.argv[2])):
    print(client.ask(f"step {{number}}"), flush=True)
"""


@each_client
def test_a_killed_process_is_gone_on_with(way: Way, tmp_path: Path) -> None:
    """SIGKILL while the model answers: a new process tells all that was answered before, and only that."""
    path = tmp_path / "work.db"
    program = PROGRAM.format(kind=way.client.__name__)
    replies = (
        ScriptedReply("FACT: the port is 8080"), ScriptedReply("QUESTION: who owns it?"), ScriptedReply("INTENT: deploy"),
        ScriptedReply("FACT: never arrived", seconds=30), ScriptedReply("FACT: it is done"),
    )  # fmt: skip
    with ModelServer(*replies) as server:
        environment = {**os.environ, **server.environment()}
        command = [sys.executable, "-c", program, str(path)]
        killed = subprocess.Popen([*command, "9"], env=environment, stdout=subprocess.PIPE, text=True)
        assert killed.stdout is not None
        assert [killed.stdout.readline().split(":")[0] for _ in range(3)] == ["FACT", "QUESTION", "INTENT"]
        _wait_for(server, 4)
        killed.send_signal(signal.SIGKILL)
        killed.stdout.close()
        assert killed.wait() == -signal.SIGKILL
        done = subprocess.run([*command, "1"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "FACT: it is done\n"
    told = state_of(server.asked[-1], "step 0")
    assert told.startswith(INTRODUCTION)
    for word in ("ship it", "fact: the port is 8080", "medium: who owns it?", "[active] deploy"):
        assert word in told
    assert "never arrived" not in told
    store: Store = open_store(str(path))
    memory = CognitiveStore(store, "job")
    assert facts(memory) == ["the port is 8080", "it is done"]
    assert memory.session["totalMetrics"]["requestCount"] == 4
    labels = [memory.get_checkpoint(name) for name in memory.checkpoint_ids()]
    assert [one["label"] for one in labels if one] == ["Auto-checkpoint #2", "Auto-checkpoint #4"]
    store.close()


def _wait_for(server: ModelServer, number: int) -> None:
    end = time.monotonic() + 30
    while len(server.asked) < number:
        assert time.monotonic() < end
        time.sleep(0.01)
