"""A model on loopback that plays a script, in the four protocols that coding agents speak.

It has no state of its own: the step it plays is the number of tool results in the conversation it is shown, so that an
agent may repeat a request, or ask for titles and the like in between.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

Object = dict[str, Any]


class Use(NamedTuple):
    """A step: call a tool of the MCP server, by the name that the server lists, or one of the agent's `own`.

    Arguments that are a function are made of what the agent has in its context, as a model does.
    """

    tool: str
    arguments: Object | Callable[[str], Object]
    own: bool = False

    def made(self, context: str) -> Object:
        return self.arguments(context) if callable(self.arguments) else self.arguments


Script = Sequence[Use]
NOT_YET = ("No such tool available", "unsupported call")
"""What the agents say to a call while the MCP server is still starting; the model then tries again."""
NOT_YET_SECONDS = 0.3
LAST_WORD = "The script is over."


class Model:
    """The script, and every tool result that an agent has brought so far, by its place in the script."""

    def __init__(self, script: Script, server: str, last_word: Callable[[str], str]) -> None:
        self.script = script
        self.server = server
        self.last_word = last_word
        self.results: dict[int, str] = {}
        self.context = self.first = ""
        """All that the agent showed with its last request, and with its first."""
        self.address = ""

    def step(self, results: list[str]) -> Use | None:
        """The step after these results; None when the script is over."""
        self.results |= dict(enumerate(results))
        return self.script[len(results)] if len(results) < len(self.script) else None


@contextmanager
def running(script: Script, server: str, last_word: Callable[[str], str] = lambda _: LAST_WORD) -> Iterator[Model]:
    """The model at `model.address`, for an agent that knows the MCP server under this name; at the end it says its last word."""
    model = Model(script, server, last_word)

    class Handler(_Handler):
        pass

    Handler.model = model
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    model.address = f"http://127.0.0.1:{http.server_port}"
    Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield model
    finally:
        http.shutdown()
        http.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if body.get("tools"):
            self.model.context = _text_of(body)
            self.model.first = self.model.first or self.model.context
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 1})
        elif path.endswith("/messages"):
            self._messages(body)
        elif path.endswith("/responses"):
            self._events(_responses(self.model, body))
        elif path.endswith("/chat/completions"):
            self._chunks(_completions(self.model, body))
        elif path.endswith(":streamGenerateContent"):
            self._chunks(_contents(self.model, body))
        elif path.endswith("enerateContent"):
            self._json(_contents(self.model, body)[0])
        else:
            self._json({})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's word
        pass

    def _messages(self, body: Object) -> None:
        message, events = _anthropic(self.model, body)
        if body.get("stream"):
            self._events(events)
        else:
            self._json(message)

    def _chunks(self, chunks: list[Object]) -> None:
        """Events without a name."""
        self._stream([f"data: {json.dumps(chunk)}\n\n" for chunk in chunks])

    def _json(self, value: Object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _events(self, events: list[Object]) -> None:
        self._stream([f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events])

    def _stream(self, parts: list[str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with suppress(OSError):  # the agent was killed
            for part in parts:
                self.wfile.write(part.encode())


def _text(content: Any) -> str:
    """The text of a tool result, whatever it is wrapped in."""
    if isinstance(content, list):
        return "".join(_text(part) for part in content)
    if isinstance(content, dict):
        return str(content.get("text", ""))
    return str(content)


def _text_of(body: Any) -> str:
    """Every text in a request, a line each."""
    if isinstance(body, dict):
        return "\n".join(_text_of(value) for value in body.values())
    return "\n".join(map(_text_of, body)) if isinstance(body, list) else str(body)


def _answered(results: list[str]) -> list[str]:
    """The results of calls that reached the MCP server. After one that came too early, time is given to it."""
    answered = [result for result in results if not any(text in result[:80] for text in NOT_YET)]
    if results and answered[-1:] != results[-1:]:
        time.sleep(NOT_YET_SECONDS)
    return answered


# --- Anthropic's Messages


def _anthropic(model: Model, body: Object) -> tuple[Object, list[Object]]:
    parts = [part for turn in body.get("messages", []) for part in turn["content"] if isinstance(part, dict)]
    results = [_text(part.get("content")) for part in parts if part.get("type") == "tool_result"]
    results = _answered(results)
    step = model.step(results) if body.get("tools") else None
    block: Object = {"type": "text", "text": model.last_word(model.context)}
    if step is not None:
        name = step.tool if step.own else f"mcp__{model.server}__{step.tool.replace('.', '_')}"
        block = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": name, "input": step.made(model.context)}
    reason = "end_turn" if step is None else "tool_use"
    message: Object = {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": [block],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    if step is None:
        start, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        start = block | {"input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    events: list[Object] = [
        {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    return message, events


# --- OpenAI's Responses


def _responses(model: Model, body: Object) -> list[Object]:
    items = [item for item in body.get("input", []) if isinstance(item, dict)]
    results = [_text(item.get("output")) for item in items if item.get("type") == "function_call_output"]
    results = _answered(results)
    step = model.step(results)
    item: Object
    if step is None:
        part = {"type": "output_text", "text": model.last_word(model.context), "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    else:
        item = {
            "type": "function_call",
            "id": f"fc_{len(results)}",
            "call_id": f"call_{uuid.uuid4().hex}",
            "name": step.tool.replace(".", "_"),
            "arguments": json.dumps(step.made(model.context)),
            "status": "completed",
        }
        if not step.own:
            item["namespace"] = f"mcp__{model.server}"
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": f"resp_{len(results)}", "output": [item], "usage": usage}
    return [
        {"type": "response.created", "response": {"id": response["id"]}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]


# --- OpenAI's chat completions


def _completions(model: Model, body: Object) -> list[Object]:
    results = [_text(turn.get("content")) for turn in body.get("messages", []) if turn.get("role") == "tool"]
    step = model.step(results) if body.get("tools") else None
    delta: Object = {"role": "assistant", "content": model.last_word(model.context)}
    if step is not None:
        function = {"name": step.tool, "arguments": json.dumps(step.made(model.context))}
        call = {"index": 0, "id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
        delta = {"role": "assistant", "content": "", "tool_calls": [call]}
    about = {
        "id": f"chat_{len(results)}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": body.get("model", "scripted"),
    }
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    reason = "stop" if step is None else "tool_calls"
    return [
        {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]


# --- Gemini's contents


def _contents(model: Model, body: Object) -> list[Object]:
    parts = [part for turn in body.get("contents", []) for part in turn.get("parts", [])]
    results = [json.dumps(part["functionResponse"].get("response")) for part in parts if "functionResponse" in part]
    step = model.step(results) if body.get("tools") else None
    part: Object = {"text": model.last_word(model.context)}
    if step is not None:
        call = {"id": uuid.uuid4().hex, "name": step.tool, "args": step.made(model.context)}
        part = {"functionCall": call, "thoughtSignature": "c2ln"}
    candidate = {"content": {"role": "model", "parts": [part]}, "index": 0, "finishReason": "STOP"}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return [{"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}]
