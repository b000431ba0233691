"""The client of the proxy benchmarks: it starts a stdio server, talks to it over blocking pipes, and takes times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

SECONDS = 900.0
"""A server that runs for longer hangs, and is killed."""
END_SECONDS = 30.0
REVISION = "2025-06-18"
ARGUMENTS = {"path": "notes/plan.md", "text": "Read the failing test first, then change one thing."}
ADJOURN = str(Path(sys.executable).parent / "adjourn")
"""The command as a client's configuration names it."""


def child_environment(config: str) -> dict[str, str]:
    """As a user's shell has it: bytecode is cached, keys and settings are those of `config`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ADJOURN_") and name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    }
    return kept | {"ADJOURN_CONFIG": config}


def wall_time(command: Sequence[str], folder: str, environment: Mapping[str, str], given: bytes = b"") -> float:
    """Milliseconds from the start of a command to its end; `given` is its input, of less than a pipe's size.

    Nothing here waits with a time limit: Python then looks for the end in steps that double, and they would be measured.
    """
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    watchdog = Timer(60, process.kill)
    watchdog.start()
    assert process.stdin is not None
    process.stdin.write(given)
    process.stdin.close()
    code = process.wait()
    took = (time.perf_counter() - began) * 1e3
    watchdog.cancel()
    if code:
        raise subprocess.CalledProcessError(code, command)
    return took


def message(method: str, params: object, request_id: int | None) -> bytes:
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if request_id is not None:
        body["id"] = request_id
    return json.dumps(body).encode() + b"\n"


def call(tool: str, request_id: int) -> bytes:
    return message("tools/call", {"name": tool, "arguments": ARGUMENTS}, request_id)


class Peer:
    """A server that was just started, and this client's connection to it."""

    def __init__(self, command: Sequence[str], folder: str, environment: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._partial = b""
        self._next = 1
        self._watchdog = Timer(SECONDS, self.process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    # --- lines

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._in, data) :]

    def read(self) -> bytes:
        """Whole lines, as many as are there."""
        while True:
            chunk = os.read(self._out, 1 << 16)
            if not chunk:
                self._errors.seek(0)
                said = self._errors.read().decode(errors="replace")[-2000:]
                raise RuntimeError(f"the server ended: {self.process.args!r}\n{said}")
            if chunk.endswith(b"\n"):
                whole, self._partial = self._partial + chunk, b""
                return whole
            self._partial += chunk
            whole, line_feed, rest = self._partial.rpartition(b"\n")
            if line_feed:
                self._partial = rest
                return whole + line_feed

    def ask(self, method: str, params: object) -> Any:
        """A request and its result."""
        self._next += 1
        self.write(message(method, params, self._next))
        return _result(self.read(), self._next)

    # --- what is measured

    def initialize(self) -> float:
        """The seconds from the start of the process to the answer of `initialize`."""
        client = {"name": "bench", "version": "1"}
        params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
        self.ask("initialize", params)
        return time.perf_counter() - self.began

    def greet(self) -> float:
        """Shake hands; returns the seconds that `initialize` took."""
        took = self.initialize()
        self.write(message("notifications/initialized", {}, None))
        self.ask("tools/list", {})
        return took

    def sequential(self, tool: str, count: int) -> list[float]:
        """Calls one after the other; the seconds that each took."""
        times = []
        for _ in range(count):
            self._next += 1
            line = call(tool, self._next)
            began = time.perf_counter()
            self.write(line)
            answer = self.read()
            times.append(time.perf_counter() - began)
            _result(answer, self._next)
        return times

    def pipelined(self, tool: str, count: int, in_flight: int) -> float:
        """Calls with so many unanswered at a time; returns the seconds for all."""
        first = self._next + 1
        self._next += count
        lines = [call(tool, number) for number in range(first, first + count)]
        answers: list[bytes] = []
        sent = got = 0
        began = time.perf_counter()
        while got < count:
            if sent < min(count, got + in_flight):
                fresh = lines[sent : got + in_flight]
                self.write(b"".join(fresh))
                sent += len(fresh)
            data = self.read()
            answers.append(data)
            got += data.count(b"\n")
        took = time.perf_counter() - began
        bodies = [json.loads(line) for line in b"".join(answers).splitlines()]
        assert all(not body["result"].get("isError") for body in bodies), bodies[0]
        assert sorted(body["id"] for body in bodies) == list(range(first, first + count))
        return took

    def memory(self, what: str) -> float | None:
        """MiB of the process that was started: `VmRSS` is now, `VmHWM` its peak. None where there is no /proc."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        except OSError:
            return None
        return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(what)), None)

    def close(self) -> None:
        """End of input; the server is to end by itself."""
        self._watchdog.cancel()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._errors.close()


def _result(line: bytes, request_id: int) -> Any:
    """The result in an answer. A refusal would be fast, and must not count."""
    body = json.loads(line)
    if body.get("id") != request_id or "result" not in body or body["result"].get("isError"):
        raise RuntimeError(f"not the answer to request {request_id}: {line[:300]!r}")
    return body["result"]
