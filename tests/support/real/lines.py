"""An MCP client that knows nothing but lines: it keeps every byte a server sends, so that two runs can be compared."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from types import TracebackType
from typing import Any, NamedTuple, Self

MODERN = "2026-07-28"
META_VERSION = "io.modelcontextprotocol/protocolVersion"
PATIENCE = 60.0
CLIENT = {"name": "line-client", "version": "1.0"}
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}, "sampling": {}}
Object = dict[str, Any]
Reply = Callable[[str, Object], Object]


class Exchange(NamedTuple):
    """A request, by a label that says what it asks, and the line that answered it."""

    label: str
    method: str
    answer: bytes

    @property
    def body(self) -> Object:
        return decoded(self.answer)

    @property
    def result(self) -> Object:
        body = self.body
        assert "result" in body, f"{self.label} was answered with an error: {body}"
        result: Object = body["result"]
        return result


class LineClient:
    """Speaks one revision to one server process. `exchanges`, `asked` and `notified` are all that came from it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        revision: str,
        reply: Reply | None = None,
        log: Path | None = None,
    ) -> None:
        self.revision = revision
        self.modern = revision >= MODERN
        self._reply = reply or (lambda _method, _params: {})
        self._log = (log or cwd / "stderr.log").open("ab")
        self.process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, cwd=cwd, env=env
        )
        assert self.process.stdin is not None
        self._input = self.process.stdin
        self._lines: Queue[bytes] = Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        self._count = 0
        self._waiting: dict[int, tuple[str, str]] = {}
        self._answers: dict[int, Exchange] = {}
        self.exchanges: list[Exchange] = []
        self.asked: list[bytes] = []
        self.notified: list[bytes] = []
        self.odd: list[bytes] = []

    # --- speaking

    def greet(self) -> Exchange:
        """The handshake of a legacy revision, or a modern client's first question."""
        if self.modern:
            return self.request("server/discover")
        params = {"protocolVersion": self.revision, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
        answer = self.request("initialize", params)
        self.notify("notifications/initialized")
        return answer

    def request(self, method: str, params: Object | None = None, label: str = "") -> Exchange:
        """Ask, and wait for the answer; meanwhile answer what the server asks."""
        return self.wait(self.send(method, params, label))

    def call(self, tool: str, arguments: Object, **more: Any) -> Exchange:
        label = f"tools/call {tool} {json.dumps(arguments)}"
        return self.request("tools/call", {"name": tool, "arguments": arguments, **more}, label[:200])

    def send(self, method: str, params: Object | None = None, label: str = "") -> int:
        """Ask without waiting; returns the request's id."""
        self._count += 1
        self._waiting[self._count] = (label or method, method)
        self._write({"jsonrpc": "2.0", "id": self._count, "method": method, "params": self._with_meta(params)})
        return self._count

    def notify(self, method: str, params: Object | None = None) -> None:
        message: Object = {"jsonrpc": "2.0", "method": method}
        self._write(message | ({"params": params} if params else {}))

    def _with_meta(self, params: Object | None) -> Object:
        params = dict(params or {})
        if self.modern:
            meta = {
                META_VERSION: self.revision,
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
                "io.modelcontextprotocol/clientInfo": CLIENT,
            }
            params["_meta"] = meta | params.get("_meta", {})
        return params

    def _write(self, message: Object) -> None:
        self._input.write(json.dumps(message).encode() + b"\n")
        self._input.flush()

    # --- listening

    def wait(self, request_id: int, seconds: float = PATIENCE) -> Exchange:
        end = time.monotonic() + seconds
        while request_id not in self._answers:
            line = self._next(end - time.monotonic())
            label = self._waiting.get(request_id, ("?", ""))[0]
            assert line, f"no answer to {label} within {seconds:.0f} s ({self.process.args!r})"
            self._take(line)
        return self._answers.pop(request_id)

    def until_asked(self, method: str) -> None:
        """Wait until the server has asked this of us, and has then said nothing for a moment."""
        wanted = f'"{method}"'.encode()
        end = time.monotonic() + PATIENCE
        while not any(wanted in line for line in self.asked):
            line = self._next(end - time.monotonic())
            assert line, f"the server never asked for {method}"
            self._take(line)
        self.quiet(0.3)

    def quiet(self, seconds: float) -> None:
        while line := self._next(seconds):
            self._take(line)

    def _next(self, seconds: float) -> bytes:
        try:
            return self._lines.get(timeout=max(seconds, 0.0))
        except Empty:
            return b""

    def _take(self, line: bytes) -> None:
        body = decoded(line)
        if not body:
            self.odd.append(line)
        elif "method" not in body:
            answered: Any = body.get("id")
            label, method = self._waiting.pop(answered, (f"unasked {answered}", ""))
            exchange = Exchange(label, method, line)
            self._answers[answered] = exchange
            self.exchanges.append(exchange)
        elif "id" in body:
            self.asked.append(line)
            result = self._reply(body["method"], body.get("params", {}))
            self._write({"jsonrpc": "2.0", "id": body["id"], "result": result})
        else:
            self.notified.append(line)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self._lines.put(line)

    # --- ending

    def close(self, seconds: float = 10.0) -> int | None:
        """Close its input; returns its exit code, None if it had to be killed."""
        self._input.close()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            self._reader.join(seconds)
            self.quiet(0.0)
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.returncode is None:
            self.close(seconds=3.0)


def decoded(line: bytes) -> Object:
    """The object in a line; empty when it holds none."""
    try:
        body = json.loads(line)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
