"""A model provider on loopback: speaks Anthropic's messages and OpenAI's chat completions, and answers as it is asked to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """One answer. A `body` is sent as it is, else a completion with `text`; `seconds` passes before the last byte."""

    text: str = ""
    status: int = 200
    body: bytes | None = None
    stop: str = ""
    refusal: str | None = None
    seconds: float = 0.0


class Asked(NamedTuple):
    path: str
    key: str
    body: dict[str, Any]

    @property
    def system(self) -> str:
        """The instructions, where either provider has them."""
        text: str = self.body.get("system") or self.body["messages"][0]["content"]
        return text

    @property
    def prompt(self) -> str:
        text: str = self.body["messages"][-1]["content"]
        return text


class ModelServer:
    """`replies` are given in order, the last one again and again; `asked` is what came in."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[Asked] = []
        self.url = ""

    def environment(self) -> dict[str, str]:
        """What makes both SDKs come here."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "key-of-anthropic",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "key-of-openai",
        }

    def next_reply(self) -> Reply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


@contextmanager
def serving(*replies: Reply) -> Iterator[ModelServer]:
    """The provider, on a port of its own."""
    server = ModelServer(*replies)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_arguments: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            key = self.headers.get("x-api-key") or self.headers.get("authorization") or ""
            server.asked.append(Asked(self.path, key, body))
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

    class Http(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_arguments: Any) -> None:
            pass  # a client that gave up

    http = Http(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def _body(path: str, asked: dict[str, Any], reply: Reply) -> bytes:
    if reply.status != 200:
        told: Any = {"type": "error", "error": {"type": "some_error", "message": reply.text}}
    elif path.endswith("/messages"):
        told = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"] + "-dated",
            "content": [{"type": "thinking", "thinking": "…", "signature": ""}, {"type": "text", "text": reply.text}],
            "stop_reason": reply.stop or "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 11, "output_tokens": 7},
        }  # fmt: skip
    elif path.endswith("/responses"):
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        told = {
            "id": "resp_1", "object": "response", "created_at": 1, "model": asked["model"] + "-dated", "status": "completed",
            "output": [{"id": "m_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}],
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            "usage": {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18,
                      "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}},
        }  # fmt: skip
    else:
        message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
        told = {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked["model"] + "-dated",
            "choices": [{"index": 0, "message": message, "finish_reason": reply.stop or "stop", "logprobs": None}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }  # fmt: skip
    return json.dumps(told).encode()
