"""A model provider on loopback: speaks Anthropic's messages and OpenAI's responses and chat completions, and answers what a test wrote."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple, Self


class ScriptedReply(NamedTuple):
    """One answer. A `body` is sent as it is, else a completion with `text`; `seconds` passes before the last byte.

    `stop` is the provider's word for why the model stopped, `refusal` what it refused.
    """

    text: str = ""
    status: int = 200
    body: bytes | None = None
    stop: str = ""
    refusal: str | None = None
    seconds: float = 0.0


class ModelRequest(NamedTuple):
    """A request that came in: its path, the key that it was made with, and its body."""

    path: str
    key: str
    body: dict[str, Any]

    @property
    def system(self) -> str:
        """The instructions, where either provider has them."""
        text: str = self.body.get("system") or self.body.get("instructions") or self._messages[0]["content"]
        return text

    @property
    def prompt(self) -> str:
        """The last message."""
        text: str = self._messages[-1]["content"]
        return text

    @property
    def _messages(self) -> list[dict[str, Any]]:
        asked = self.body.get("messages") or self.body.get("input", "")
        return [{"content": asked}] if isinstance(asked, str) else asked


class ModelServer:
    """A provider on a port of its own, from `with` to its end. `replies`, texts or more, are given in order, the last one again and again.

    `asked` is what came in. An SDK that is started with `environment()` asks here.

    >>> with ModelServer("FACT: the port is 8080") as model:
    ...     sorted(model.environment())
    ['ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL', 'OPENAI_API_KEY', 'OPENAI_BASE_URL']
    """

    def __init__(self, *replies: ScriptedReply | str) -> None:
        self.replies = [ScriptedReply(reply) if isinstance(reply, str) else reply for reply in replies]
        self.asked: list[ModelRequest] = []
        self._http = _Http(("127.0.0.1", 0), _handler(self))
        self._thread = Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def environment(self) -> dict[str, str]:
        """The variables that make both SDKs ask here."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "key-of-anthropic",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "key-of-openai",
        }

    def next_reply(self) -> ScriptedReply:
        """The reply to the next request."""
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_arguments: Any) -> None:
        pass  # the client gave up


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_arguments: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            key = self.headers.get("x-api-key") or self.headers.get("authorization") or ""
            server.asked.append(ModelRequest(self.path, key, body))
            reply = server.next_reply()
            data = reply.body if reply.body is not None else _body(self.path, body, reply)
            self.send_response(reply.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.send_header("retry-after-ms", "5")
            self.end_headers()
            self._write(data, reply.seconds)

        def _write(self, data: bytes, seconds: float) -> None:
            """Byte by byte where it is to take long, so that no silence is long."""
            for at in range(len(data) if seconds else 0):
                self.wfile.write(data[at : at + 1])
                time.sleep(seconds / len(data))
            self.wfile.write(b"" if seconds else data)

    return Handler


def _body(path: str, asked: dict[str, Any], reply: ScriptedReply) -> bytes:
    if reply.status != 200:
        answer: Any = {"type": "error", "error": {"type": "some_error", "message": reply.text}}
    elif path.endswith("/messages"):
        answer = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"] + "-dated",
            "content": [{"type": "thinking", "thinking": "…", "signature": ""}, {"type": "text", "text": reply.text}],
            "stop_reason": reply.stop or "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 11, "output_tokens": 7},
        }  # fmt: skip
    elif path.endswith("/responses"):
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        answer = {
            "id": "resp_1", "object": "response", "created_at": 1, "model": asked["model"] + "-dated", "status": "completed",
            "output": [{"id": "m_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}],
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            "usage": {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18,
                      "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}},
        }  # fmt: skip
    else:
        message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
        answer = {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked["model"] + "-dated",
            "choices": [{"index": 0, "message": message, "finish_reason": reply.stop or "stop", "logprobs": None}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }  # fmt: skip
    return json.dumps(answer).encode()
