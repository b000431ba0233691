"""`GatewayWorkspace` with the gateway in this process: a thread runs the application of `adjourn serve` behind its own HTTP server.

A server over HTTP is a thread, too; one that is a command is a small program that passes its lines to this process. Commands of a test run
here. What only a process shows (signals, kills, its environment, its exit code) is for `GatewayWorkspace`.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from adjourn.cli.app import main
from adjourn.gateway import commands as serve
from adjourn.gateway.api_keys import NEW_KEY_SECONDS
from adjourn.gateway.routing import Reload
from adjourn.gateway.server import DrainingServer, listen, server_of, url_of
from adjourn.relay.ports import StderrLog
from support.gateway import GatewayWorkspace
from support.in_process_servers import PipeEnds, ServerThread

_SECONDS = 30.0


class GatewayThread:
    """A gateway that serves from a thread, with the members of `Popen` that tests use. `stderr` is what it logs.

    SIGTERM and SIGHUP do what they do to the process; there is no SIGKILL.
    """

    def __init__(self, root: Path, arguments: Sequence[str]) -> None:
        self.returncode: int | None = None
        self._options = dict(zip(arguments[::2], arguments[1::2], strict=True))
        self._server: DrainingServer | None = None
        self._error: BaseException | None = None
        self._address = self._said = ""
        self._is_ready = threading.Event()
        read, self._log = os.pipe()
        self.stderr: IO[str] = open(read, encoding="utf-8")  # noqa: SIM115  # until the gateway has ended
        self._thread = threading.Thread(target=self._run, name="gateway")
        with contextlib.chdir(root):
            self._thread.start()
            self._is_ready.wait(_SECONDS)
        if not self._address:
            self.stderr.close()
            raise self._error or TimeoutError("the gateway does not start")

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._address

    def _run(self) -> None:
        try:
            self._serve()
            self.returncode = 0
        except BaseException as error:  # the thread of the test raises it
            self._error, self.returncode = error, 1
        finally:
            self._is_ready.set()
            os.close(self._log)

    def _serve(self) -> None:
        start = serve.read_start(self._options.get("--config", ""))
        report = StderrLog(as_json=start.settings.log == "json", descriptor=self._log)
        with (
            listen(start.settings) as listening,
            serve.open_gateway(start, self._options.get("--store", ""), report) as app,
        ):
            reload = Reload(start.path, start.settings, listening.getsockname()[0], app.change, report)
            page = start.settings.page.listen
            self._server, sockets = server_of(app, listening, reload=reload.now, page=page)
            self._address = url_of(listening)
            self._is_ready.set()
            self._server.run(sockets)

    def send_signal(self, number: int) -> None:
        assert self._server is not None
        if number == signal.SIGHUP:
            self._server.ask_for_reload(number, None)
        else:
            assert number in (signal.SIGTERM, signal.SIGINT), "only a process can be killed"
            self._server.handle_exit(number, None)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def wait(self, timeout: float = _SECONDS) -> int:
        """Wait for its end; returns 0. Raises what ended it."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the gateway does not end"
        if self._error is not None:
            raise self._error
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float = _SECONDS) -> tuple[str, str]:
        """Wait for its end; returns what it has logged as the second member."""
        self.wait(timeout)
        if not self.stderr.closed:
            with self.stderr as log:
                self._said = log.read()
        return "", self._said


class InProcessGateway(GatewayWorkspace):
    """See `GatewayWorkspace`. `server` is a program of tests/support, whose `server` is served.

    The variables are those of this process until it ends. While another one is there, both have the same keys, as its variables say.
    """

    gateway: GatewayThread | None  # type: ignore[assignment]  # has the members that are used
    _open: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)

    def _prepare(self) -> None:
        if InProcessGateway._open:
            self.environment["ADJOURN_CONFIG"] = os.environ["ADJOURN_CONFIG"]
        InProcessGateway._open += 1
        self._closing.callback(self._leave)
        self._closing.enter_context(variables(self.environment))
        self._pipes = self._closing.enter_context(PipeEnds())

    def _leave(self) -> None:
        InProcessGateway._open -= 1

    def _command(self, server: Path, folder: Path) -> list[str]:
        return self._pipes.command(server, folder)

    def _start_server(self, server: Path, folder: Path) -> None:
        self._serving.enter_context(ServerThread(server, self.server_port, folder))

    def start(self) -> None:
        """Start the gateway, and wait until it answers."""
        self.gateway = GatewayThread(self.root, self._arguments)
        assert self.gateway.address == f"http://127.0.0.1:{self.port}"

    def key(self, name: str, *options: str) -> str:
        """Make an API key, and wait until the gateway looks for new ones again."""
        made = super().key(name, *options)
        time.sleep(1.5 * NEW_KEY_SECONDS)
        return made

    def adjourn(self, *arguments: str) -> str:
        """What a command prints."""
        return command_here(self.root, *arguments)


def command_here(folder: Path, *arguments: str) -> str:
    """What a command prints that this process runs in a folder."""
    out, errors = io.BytesIO(), io.StringIO()
    printed = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
        code = main([*arguments])
    assert code == 0, errors.getvalue()
    return out.getvalue().decode()


@contextmanager
def variables(environment: dict[str, str]) -> Iterator[None]:
    """Have this process see these variables, and no others of ours."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
