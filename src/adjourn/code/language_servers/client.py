"""Speaks the language server protocol with one process. The types of the protocol are lsprotocol's.

Must never: wait without a limit, believe the length of a message, or leave the process behind.
"""

from __future__ import annotations

import os
import resource
import select
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

from adjourn.code.deadline import Deadline
from adjourn.code.language_servers.kinds import ServerKind
from adjourn.errors import AdjournError
from adjourn.host import executables
from adjourn.host.executables import outside

START_SECONDS = 60.0
SETTLE_SECONDS = 300.0
MAX_MEMORY = 3 << 30
_WRITE_SECONDS = 10.0
_END_SECONDS = 5.0
_MAX_MESSAGE = 32 << 20
_MAX_HEADER = 1_024
_MAX_HEADERS = 8
_STEP_SECONDS = 0.25
_LOOK_SECONDS = 1.0
_MAX_FILES = 1_000
_NO_METHOD = -32601


class LanguageServerError(AdjournError):
    """The language server gave no answer."""


class LanguageClient:
    """A running server. Its process lives in a thread of its own: the kernel ends the process when that thread ends."""

    def __init__(self, kind: ServerKind, command: Sequence[str], root: str) -> None:
        self.kind = kind
        self.root = root
        self.started_at = time.time_ns()
        self.published: dict[str, types.PublishDiagnosticsParams] = {}
        self.capabilities = types.ServerCapabilities()
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: dict[int, Any] = {}
        self._waiting: set[int] = set()
        self._last = 0
        self._ended = False
        self._settled = kind.ready is None
        self._looked = (0.0, 0)
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True, name="adjourn-language-server")
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._process is not None or self._ended)
        try:
            self._initialize(list(command))
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        return not self._ended

    def request(self, method: str, params: Any, deadline: Deadline) -> Any:
        """The result of a request. Raises `LanguageServerError` if none came in time."""
        with self._changed:
            self._last += 1
            number = self._last
            self._waiting.add(number)
        request_type, response_type, *_ = types.METHOD_TO_TYPES[method]
        try:
            self._send(_converter().unstructure(request_type(id=number, params=params)))
            self.wait_for(lambda: number in self._answers, deadline, method)
            answer = self._answers[number]
        except LanguageServerError:
            with suppress(LanguageServerError):
                self.notify(types.CANCEL_REQUEST, types.CancelParams(id=number))
            raise
        finally:
            with self._changed:
                self._waiting.discard(number)
                self._answers.pop(number, None)
        if isinstance(error := answer.get("error"), dict):
            message = str(error.get("message", ""))[:200]
            raise LanguageServerError(f"{self.kind.name} refused {method}: {message}", "repeat the call")
        try:
            return _converter().structure(answer, response_type).result
        except (cattrs.BaseValidationError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise LanguageServerError(
                f"the answer of {self.kind.name} to {method} is malformed", "repeat the call"
            ) from error

    def notify(self, method: str, params: Any) -> None:
        self._send(_converter().unstructure(types.METHOD_TO_TYPES[method][0](params=params)))

    def wait_for(self, condition: Any, deadline: Deadline, what: str) -> None:
        """Wait until what the server says makes the condition true. Raises `LanguageServerError` if it does not in time."""
        while True:
            with self._changed:
                if not condition() and not self._ended:
                    self._changed.wait(_STEP_SECONDS)
                if condition():
                    return
                if self._ended:
                    raise LanguageServerError(f"{self.kind.name} has ended", "repeat the call")
            if self.is_too_large():
                self.close()
                raise LanguageServerError(f"{self.kind.name} used more than {MAX_MEMORY >> 30} GiB", "search by name")
            if deadline.expired():
                raise LanguageServerError(f"{what} took {self.kind.name} too long", "repeat the call")

    def memory(self) -> int:
        """Bytes in memory of the server and of all processes of its group, at most a second old; 0 where the system does not say."""
        at, size = self._looked
        if self._process is not None and time.monotonic() - at > _LOOK_SECONDS:
            size = _memory_of_group(self._process.pid)
            self._looked = (time.monotonic(), size)
        return size

    def is_too_large(self) -> bool:
        return self.memory() > MAX_MEMORY

    def close(self) -> None:
        """End the server and whatever it started."""
        with self._changed:
            self._ended = True
            process = self._process
            self._changed.notify_all()
        if process is not None:
            process.terminate()  # the process above the server ends all below it
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=_END_SECONDS)

    def _initialize(self, command: list[str]) -> None:
        uri = Path(self.root).as_uri()
        params = types.InitializeParams(
            capabilities=_capabilities(),
            process_id=os.getpid(),
            root_uri=uri,
            workspace_folders=[types.WorkspaceFolder(uri=uri, name="workspace")],
            initialization_options=self.kind.options(command),
        )
        deadline = Deadline(START_SECONDS)
        self.capabilities = self.request(types.INITIALIZE, params, deadline).capabilities
        self.notify(types.INITIALIZED, types.InitializedParams())
        with suppress(LanguageServerError):  # one that does not say so is asked all the same
            self.wait_for(lambda: self._settled, Deadline(SETTLE_SECONDS), "reading the project")
        if self._ended:
            raise LanguageServerError(f"{self.kind.name} has ended", "repeat the call")

    def _send(self, message: Any) -> None:
        body = msgspec.json.encode(message)
        data = memoryview(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        ends_at = time.monotonic() + _WRITE_SECONDS
        try:
            with self._writing:
                process = self._process
                if process is None or process.stdin is None or self._ended:
                    raise LanguageServerError(f"{self.kind.name} has ended", "repeat the call")
                descriptor = process.stdin.fileno()
                while data:
                    if not select.select([], [descriptor], [], max(ends_at - time.monotonic(), 0.0))[1]:
                        self.close()
                        raise LanguageServerError(f"{self.kind.name} reads nothing", "repeat the call")
                    with suppress(BlockingIOError):
                        data = data[os.write(descriptor, data) :]
        except (OSError, ValueError) as error:
            raise LanguageServerError(f"{self.kind.name} has ended", "repeat the call") from error

    def _run(self) -> None:
        try:
            with self._start() as process:
                try:
                    assert process.stdout is not None
                    while (body := _message(process.stdout)) is not None:
                        self._take(msgspec.json.decode(body))
                except (OSError, ValueError, LanguageServerError, RecursionError):
                    pass  # it ended, or said what no server says: in both cases it is ended
                finally:
                    process.terminate()
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_END_SECONDS)
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
            executables.python_command("-m", "adjourn.host.supervise", str(os.getpid()), *self._command),
            env={**outside(os.environ, self.root), **self.kind.variables},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        with self._changed:
            self._process = process
            if self._ended:  # closed meanwhile
                process.terminate()
            self._changed.notify_all()
        return process

    def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise LanguageServerError("a message is not an object", "repeat the call")
        number, method, params = message.get("id"), message.get("method"), message.get("params")
        if method is not None and number is not None:
            self._send(self._reply(number, method, params))
            return
        with self._changed:
            if method is None and isinstance(number, int) and number in self._waiting:
                self._answers[number] = message
            elif method == types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS:
                with suppress(cattrs.BaseValidationError, TypeError, ValueError, KeyError):
                    published = _converter().structure(params, types.PublishDiagnosticsParams)
                    if published.uri in self.published or len(self.published) < _MAX_FILES:
                        self.published[published.uri] = published
            elif self.kind.ready and isinstance(method, str) and isinstance(params, dict):
                self._settled |= self.kind.ready(method, params)
            self._changed.notify_all()

    def _reply(self, number: Any, method: Any, params: Any) -> dict[str, Any]:
        """The answer to what the server asks."""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        if method == types.WORKSPACE_CONFIGURATION:
            items = params.get("items", []) if isinstance(params, dict) else []
            return answer | {"result": [self._setting(item) for item in items[:100]]}
        if method in {types.CLIENT_REGISTER_CAPABILITY, types.WINDOW_WORK_DONE_PROGRESS_CREATE}:
            return answer | {"result": None}
        return answer | {"error": {"code": _NO_METHOD, "message": "not supported"}}

    def _setting(self, item: Any) -> Any:
        section = item.get("section") if isinstance(item, dict) else None
        if section == "python":
            # It runs an interpreter to learn where packages are: ours, never one of the workspace.
            return {"pythonPath": executables.python_command()[0]}
        return self.kind.settings.get(section, {}) if isinstance(section, str) else {}


def _capabilities() -> types.ClientCapabilities:
    """What this client understands of the protocol."""
    markup = [types.MarkupKind.PlainText, types.MarkupKind.Markdown]
    return types.ClientCapabilities(
        workspace=types.WorkspaceClientCapabilities(
            configuration=True,
            workspace_folders=True,
            did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
        ),
        text_document=types.TextDocumentClientCapabilities(
            hover=types.HoverClientCapabilities(content_format=markup),
            publish_diagnostics=types.PublishDiagnosticsClientCapabilities(version_support=True),
            diagnostic=types.DiagnosticClientCapabilities(),
            call_hierarchy=types.CallHierarchyClientCapabilities(),
            rename=types.RenameClientCapabilities(),
        ),
        experimental={"serverStatusNotification": True},
    )


def _memory_of_group(group: int) -> int:
    pages = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = status.read_text("ascii", "replace").rpartition(")")[2].split()
            if int(fields[2]) == group:
                pages += int(fields[21])
    return pages * resource.getpagesize()


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
