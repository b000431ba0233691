"""An agent with tools in the shape of LangGraph's quickstart: it runs on `AdjournSaver` with one line changed, and continues after kills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from adjourn.langgraph.thread import task_of
from adjourn.store import SqliteStore
from adjourn.testing import ModelServer, ScriptedReply
from adjourn.verification.verify import verify_task

THEIRS, OURS = "InMemorySaver()", 'AdjournSaver(open_store("threads.db"))'
PROGRAM = """
import json, operator, sys, time
from typing import Annotated, Any, Literal, TypedDict

import openai
from adjourn.langgraph import AdjournSaver
from adjourn.store import open_store
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

class Chat(BaseChatModel):
    _llm_type = "chat"

    def bind_tools(self, tools, **more):
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools], **more)

    def _generate(self, messages, stop=None, run_manager=None, **more):
        asked = convert_to_openai_messages(messages)
        reply = openai.OpenAI().chat.completions.create(model="m", messages=asked, **more).choices[0].message
        calls = [
            {"name": call.function.name, "args": json.loads(call.function.arguments), "id": call.id} for call in reply.tool_calls or ()
        ]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply.content or "", tool_calls=calls))])

@tool
def multiply(a: int, b: int) -> int:
    "Multiply two numbers."
    pause("multiply")
    return a * b

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    pause("add")
    return a + b

def pause(name):
    print("in", name, flush=True)
    if name in sys.argv:
        time.sleep(60)

tools = {each.name: each for each in (multiply, add)}
model = Chat().bind_tools(list(tools.values()))

class State(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]
    model_calls: int

def call_model(state: State):
    answer = model.invoke([SystemMessage("You do arithmetic.")] + state["messages"])
    return {"messages": [answer], "model_calls": state.get("model_calls", 0) + 1}

def call_tools(state: State):
    calls = state["messages"][-1].tool_calls
    return {"messages": [ToolMessage(tools[call["name"]].invoke(call["args"]), tool_call_id=call["id"]) for call in calls]}

def what_next(state: State) -> Literal["call_tools", "__end__"]:
    return "call_tools" if state["messages"][-1].tool_calls else END

builder = StateGraph(State)
builder.add_node("call_model", call_model)
builder.add_node("call_tools", call_tools)
builder.add_edge(START, "call_model")
builder.add_conditional_edges("call_model", what_next)
builder.add_edge("call_tools", "call_model")
agent = builder.compile(checkpointer=InMemorySaver())

config = {"configurable": {"thread_id": "1"}}
question = {"messages": [HumanMessage("What is 3 times 4, plus 5?")]}
done = agent.invoke(None if agent.get_state(config).next else question, config)
print(done["model_calls"], *[f"{type(message).__name__}:{message.content}" for message in done["messages"]], sep="|", flush=True)
"""


def _called(number: int, name: str, **arguments: int) -> ScriptedReply:
    """The model's call of a tool, as OpenAI's chat completions say it."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = {
        "id": f"r{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
    }
    return ScriptedReply(body=json.dumps(body).encode())


def _model() -> ModelServer:
    return ModelServer(_called(1, "multiply", a=3, b=4), _called(2, "add", a=12, b=5), ScriptedReply("17"))


def _start(folder: Path, model: ModelServer, program: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, **model.environment(), "ADJOURN_CONFIG": str(folder / "config"), "NO_PROXY": "*"}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def _wait_for(checkpoints: int, folder: Path) -> None:
    store = SqliteStore(folder / "threads.db")
    until = time.monotonic() + 60
    while len(store.refs(f"graph/{task_of('1')}/")) < checkpoints:
        assert time.monotonic() < until
        time.sleep(0.05)
    store.close()


def _asked(model: ModelServer) -> list[Any]:
    return [request.body["messages"] for request in model.asked]


def test_it_continues_after_kills_with_one_line_changed(tmp_path: Path) -> None:
    """Killed in each tool, it ends like the run that nothing interrupted, and asks the model for nothing twice."""
    with _model() as model:
        process = _start(tmp_path, model, PROGRAM)
        wanted = process.communicate(timeout=60)[0].splitlines()
        assert (process.returncode, len(wanted)) == (0, 3)
        assert wanted[2].startswith("3|HumanMessage:What is 3")
        assert wanted[2].endswith("ToolMessage:17|AIMessage:17")
        expected = _asked(model)
    ours = PROGRAM.replace(THEIRS, OURS)
    assert sum(mine != other for mine, other in zip(ours.split("\n"), PROGRAM.split("\n"), strict=True)) == 1
    with _model() as model:
        for tool, checkpoints in (("multiply", 3), ("add", 5)):
            process = _start(tmp_path, model, ours, tool)
            assert process.stdout is not None
            assert f"in {tool}\n" in iter(process.stdout.readline, "")
            _wait_for(checkpoints, tmp_path)  # LangGraph has them written while the next node runs
            process.kill()
            process.communicate()
        process = _start(tmp_path, model, ours)
        last = process.communicate(timeout=60)[0].splitlines()
        assert (process.returncode, last) == (0, ["in add", wanted[2]])
        assert _asked(model) == expected
    store = SqliteStore(tmp_path / "threads.db")
    assert verify_task(store, task_of("1")).tasks[0].findings == []
    store.close()
