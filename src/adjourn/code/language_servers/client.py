"""Speaks the language server protocol with one process.

Owns: the process, its messages, and the limits of both. The types of the protocol are lsprotocol's. Must never: wait without a limit,
believe the length of a message, or leave the process behind.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import cattrs
import msgspec
from lsprotocol import converters, types

from adjourn.errors import AdjournError
from adjourn.host import outside, python

START_SECONDS = 60.0
_MAX_MESSAGE = 32 << 20
_MAX_HEADER = 1_024
_MAX_HEADERS = 8
_MAX_MEMORY = 2 << 30
_STEP_SECONDS = 0.25
_NO_METHOD = -32601


class LanguageServerError(AdjournError):
    """The language server gave no answer."""


class LanguageClient:
    """A running server. Its process lives in a thread of its own: the kernel kills the process when that thread ends."""

    def __init__(self, command: Sequence[str], root: str) -> None:
        self.root = root
        self.started_at = time.time_ns()
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: dict[int, Any] = {}
        self._waiting: set[int] = set()
        self._last = 0
        self._ended = False
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True, name="adjourn-language-server")
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._process is not None or self._ended)
        try:
            self._initialize()
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        return not self._ended

    def request(self, method: str, params: Any, seconds: float) -> Any:
        """The result of a request. Raises `LanguageServerError` if none came in time."""
        with self._changed:
            self._last += 1
            number = self._last
            self._waiting.add(number)
        request_type, response_type, *_ = types.METHOD_TO_TYPES[method]
        ends_at = time.monotonic() + seconds
        try:
            self._send(_converter().unstructure(request_type(id=number, params=params)))
            answer = self._wait_for(number, ends_at, method)
        finally:
            with self._changed:
                self._waiting.discard(number)
                self._answers.pop(number, None)
        if "error" in answer:
            raise LanguageServerError(f"{method} failed in the language server", "repeat the call")
        try:
            return _converter().structure(answer, response_type).result
        except (cattrs.BaseValidationError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise LanguageServerError(f"the answer to {method} is malformed", "repeat the call") from error

    def notify(self, method: str, params: Any) -> None:
        self._send(_converter().unstructure(types.METHOD_TO_TYPES[method][0](params=params)))

    def close(self) -> None:
        """Kill the server and whatever it started."""
        with self._changed:
            self._ended = True
            process = self._process
            self._changed.notify_all()
        if process is not None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        self._thread.join(timeout=5)

    def _initialize(self) -> None:
        uri = Path(self.root).as_uri()
        workspace = types.WorkspaceClientCapabilities(
            configuration=True,
            workspace_folders=True,
            did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
        )
        params = types.InitializeParams(
            capabilities=types.ClientCapabilities(workspace=workspace),
            process_id=os.getpid(),
            root_uri=uri,
            workspace_folders=[types.WorkspaceFolder(uri=uri, name="workspace")],
        )
        self.request(types.INITIALIZE, params, START_SECONDS)
        self.notify(types.INITIALIZED, types.InitializedParams())

    def _wait_for(self, number: int, ends_at: float, method: str) -> Any:
        while True:
            with self._changed:
                if number not in self._answers and not self._ended:
                    self._changed.wait(_STEP_SECONDS)
                if number in self._answers:
                    return self._answers[number]
                if self._ended:
                    raise LanguageServerError("the language server has ended", "repeat the call")
            if self._memory() > _MAX_MEMORY:
                self.close()
                raise LanguageServerError("the language server used too much memory", "repeat the call")
            if time.monotonic() >= ends_at:
                with suppress(LanguageServerError):
                    self.notify(types.CANCEL_REQUEST, types.CancelParams(id=number))
                raise LanguageServerError(f"{method} took too long", "repeat the call")

    def _memory(self) -> int:
        """Bytes of the process in memory; 0 where the system does not say."""
        with suppress(OSError, ValueError, IndexError, AttributeError):
            text = Path(f"/proc/{self._process.pid}/statm").read_text("ascii")  # type: ignore[union-attr]
            return int(text.split()[1]) * resource.getpagesize()
        return 0

    def _send(self, message: Any) -> None:
        body = msgspec.json.encode(message)
        try:
            with self._writing:
                process = self._process
                if process is None or process.stdin is None:
                    raise LanguageServerError("the language server has ended", "repeat the call")
                process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                process.stdin.flush()
        except (OSError, ValueError) as error:
            raise LanguageServerError("the language server has ended", "repeat the call") from error

    def _run(self) -> None:
        try:
            with self._start() as process:
                try:
                    assert process.stdout is not None
                    while (body := _message(process.stdout)) is not None:
                        self._take(msgspec.json.decode(body))
                except (OSError, ValueError, LanguageServerError, RecursionError):
                    pass  # it ended, or said what no server says: in both cases it is killed
                finally:
                    with suppress(OSError):
                        os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass  # not started
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            python.command("-m", "adjourn.code.language_servers.launch", str(os.getpid()), *self._command),
            env=outside(os.environ, self.root),
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with self._changed:
            self._process = process
            if self._ended:  # closed meanwhile
                process.kill()
            self._changed.notify_all()
        return process

    def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise LanguageServerError("a message is no object", "repeat the call")
        number, method = message.get("id"), message.get("method")
        if method is None:
            with self._changed:
                if isinstance(number, int) and number in self._waiting:
                    self._answers[number] = message
                    self._changed.notify_all()
        elif number is not None:
            self._send(self._reply(number, method, message.get("params")))

    def _reply(self, number: Any, method: Any, params: Any) -> dict[str, Any]:
        """The answer to what the server asks."""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        if method == types.WORKSPACE_CONFIGURATION:
            items = params.get("items", []) if isinstance(params, dict) else []
            return answer | {"result": [_setting(item) for item in items[:100]]}
        if method in {types.CLIENT_REGISTER_CAPABILITY, types.WINDOW_WORK_DONE_PROGRESS_CREATE}:
            return answer | {"result": None}
        return answer | {"error": {"code": _NO_METHOD, "message": "not supported"}}


def _setting(item: Any) -> dict[str, Any]:
    # The server runs an interpreter to learn where packages are: ours, never one of the workspace.
    section = item.get("section") if isinstance(item, dict) else None
    return {"pythonPath": python.command()[0]} if section == "python" else {}


def _message(stream: IO[bytes]) -> bytes | None:
    """The next message; None at the end."""
    size = 0
    for _ in range(_MAX_HEADERS):
        line = stream.readline(_MAX_HEADER)
        if not line:
            return None
        if not line.strip():
            break
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            size = int(value)
    if not 0 < size <= _MAX_MESSAGE:
        raise LanguageServerError("a message has no length, or is too long", "repeat the call")
    body = stream.read(size)
    return body if len(body) == size else None


@cache
def _converter() -> Any:
    return converters.get_converter()
