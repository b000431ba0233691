"""Tools of a remote registry, served by a real server on loopback that misbehaves where it is asked to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from adjourn.runs import runner
from adjourn.runs.runner import RegistryError, registered
from adjourn.runs.tools import ToolError
from support.ports import free_port
from support.runs import Bench


class Server(ThreadingHTTPServer):
    """Answers with what `answers` has for a path, and keeps what was posted."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.posted: list[tuple[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def tools(self, **tools: Any) -> str:
        named = {name.replace("_", "."): value for name, value in tools.items()}
        self.answers["/registry"] = (200, json.dumps({"tools": named}).encode())
        return f"{self.url}/registry"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.server.posted.append((self.path, json.loads(self.rfile.read(size))))
        self._answer()

    def _answer(self) -> None:
        if self.path == "/hangs":
            time.sleep(60)
        status, body = self.server.answers.get(self.path, (404, b""))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", str(len(body) + (5 if self.path == "/cut" else 0)))
        self.end_headers()
        if self.path == "/trickles":
            for byte in body:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.3)
        else:
            self.wfile.write(body)

    def handle(self) -> None:
        with suppress(OSError):  # whoever asked has gone
            super().handle()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.shutdown()
    server.server_close()


def test_remote_tools_are_called_with_json(bench: Bench, server: Server) -> None:
    """They override what has their name; entries without an address are skipped, addresses may be relative."""
    server.answers["/add"] = (200, b'{"sum": 5}')
    url = server.tools(note_add={"url": "/add"}, no_url={}, note_list={"url": f"{server.url}/add", "sideEffect": False})
    outcome = bench.run("do note.add(a=2, b=[3]) -> x", "do note.list() -> y", "return [x.sum, y.sum]", registry=url)
    assert outcome.output == [5, 5]
    assert server.posted == [("/add", {"a": 2, "b": [3]}), ("/add", {})]
    assert bench.calls == []
    assert set(registered(url)) == {"note.add", "note.list"}


def test_a_tool_without_side_effect_is_not_in_doubt(bench: Bench, server: Server) -> None:
    """Its time-out is no question; one of a tool that says nothing, or has an effect, is."""
    bench.patch.setattr(runner, "registered", lambda url: registered(url, seconds=0.3))
    url = server.tools(note_add={"url": "/hangs"}, note_list={"url": "/hangs", "sideEffect": False})
    assert "gave no answer" in bench.run("do note.list()", "return 1", registry=url).reason
    assert not bench.ledger().doubts
    assert "gave no answer" in bench.run("do note.add()", "return 1", registry=url, task="run-2").reason
    assert len(bench.ledger("run-2").doubts) == 1


@pytest.mark.parametrize(
    ("path", "answer", "reason", "answered"),
    [
        ("/e", (500, b"broken"), "answered 500", True),
        ("/e", (302, b""), "answered 302", True),
        ("/e", (200, b"not json"), "did not answer with JSON", True),
        ("/e", (200, b"[" * 100_000), "did not answer with JSON", True),
        ("/e", (200, b"x" * 200), "more than 100 bytes", False),
        ("/cut", (200, b"{}"), "cut off", False),
        ("/hangs", (200, b"{}"), "gave no answer", False),
        ("/trickles", (200, b" " * 99), "gave no answer", False),
    ],
)
def test_bad_answers(  # noqa: PLR0917  # a table's columns
    server: Server, monkeypatch: pytest.MonkeyPatch, path: str, answer: tuple[int, bytes], reason: str, answered: bool
) -> None:
    """Each is shown; where nobody knows what happened the call is in doubt. Time counts for the whole answer."""
    if answer[1][:1] != b"[":
        monkeypatch.setattr(runner, "MAX_ANSWER", 100)
    server.answers[path] = answer
    tool = registered(server.tools(t={"url": path}), seconds=0.5)["t"]
    began = time.monotonic()
    with pytest.raises(ToolError, match=reason) as raised:
        tool.run({})
    assert raised.value.answered is answered
    assert time.monotonic() - began < 15  # the answers take at least 29


def test_a_server_that_is_not_there_is_not_in_doubt(server: Server) -> None:
    """A call to a server that cannot be reached is not in doubt, because nothing was sent."""
    tool = registered(server.tools(t={"url": f"http://127.0.0.1:{free_port()}/"}))["t"]
    with pytest.raises(ToolError, match="gave no answer") as raised:
        tool.run({})
    assert raised.value.answered


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://", "http://a:b:c/", "//x", "", "http://127.0.0.1:99999/"]
)
def test_only_http_addresses_are_used(server: Server, url: str) -> None:
    """Registry and tools must have HTTP addresses."""
    with pytest.raises(RegistryError):
        registered(url)
    if url not in ("", "//x", "http://"):  # those lead to the registry's own place
        tool = registered(server.tools(t={"url": url}))["t"]
        with pytest.raises(ToolError):
            tool.run({})


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"tools": []}', b'{"tools": {"a": 5}}', b"\xff", b'{"tools": {"a": {"url": 5}}}']
)
def test_what_is_no_registry_is_told_before_anything_runs(bench: Bench, server: Server, body: bytes) -> None:
    """An invalid, missing or redirecting registry is reported before anything runs."""
    server.answers["/registry"] = (200, body)
    for path in ("/registry", "/nothing"):
        with pytest.raises(RegistryError):
            bench.run("do note.add(n=1)", "return 1", registry=server.url + path)
    server.answers["/registry"] = (302, body)
    with pytest.raises(RegistryError, match="redirects are not followed"):
        bench.run("do note.add(n=1)", "return 1", registry=f"{server.url}/registry")
    assert bench.calls == []
