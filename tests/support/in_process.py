"""The same workspace and client as in `proxy`, without processes: every relay runs in the thread of the test, and time passes only
where the test waits.

Owns: what of `proxy` is otherwise here, under the same names, so that a test chooses by its import. Must never: wait in real time.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self
from unittest import mock

from adjourn.cli.app import main
from adjourn.clients import person
from adjourn.clients.options import parse_proxy
from adjourn.testing._client import InProcessClient
from adjourn.testing._relay import InProcessRelay
from e2e.servers.echo import Server, options_of
from support.proxy import (
    ERAS,
    META,
    META_TOOLS,
    MODERN,
    NEW,
    OLD,
    PERSON,
    SECONDS,
    Done,
    Message,
    PolicyWorkspace,
    RawClient,
    decoded,
    encode,
    only,
    refused,
    text_of,
)

__all__ = [
    "ERAS", "META", "META_TOOLS", "MODERN", "NEW", "OLD", "PERSON", "SECONDS", "Client", "Done", "Message", "ProxyWorkspace", "adjourn",
    "decoded", "encode", "only", "refused", "run", "text_of", "wait_for",
]  # fmt: skip

OURS = "pytest"
"""The program that starts all clients but foreign ones."""


class EchoServer(Server):
    """The echo server (e2e/servers/echo.py) as an object. Its calls take the test's time."""

    def __init__(self, folder: str, options: Sequence[str]) -> None:
        super().__init__(folder, options_of(list(options)))
        self.after: Callable[[float, Callable[[], None]], None] = lambda seconds, action: None
        self._send: Callable[[bytes], None] = lambda data: None

    def receive(self, line: bytes, send: Callable[[bytes], None]) -> None:
        self._send = send
        os.write(self.lines, line)
        self.handle(line.rstrip(b"\n"))

    def write(self, data: bytes) -> None:
        self._send(data)

    def later(self, seconds: float, message: Message) -> None:
        self.after(seconds, lambda: self.text(message, "slow"))

    def crash(self, code: int) -> None:
        raise NotImplementedError("only a process can crash")

    def close(self) -> None:
        os.close(self.lines)
        os.close(self.calls)


class ProxyWorkspace(PolicyWorkspace):
    """Use it as a context manager."""

    def __init__(self, path: Path, *policy: str, name: str = "work", version: str = "v0") -> None:
        self.root, self.config = path / name, path / "config"
        self.relay = InProcessRelay(_nobody, store="", folder=self.root, keys=self.config)
        self.clients: list[Client] = []
        super().__init__(path, *policy, name=name, version=version)
        _open.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open.remove(self)
        for client in self.clients:
            client.kill()
            if error is not None:
                print(f"--- log of client {client.process.pid}\n{client.stderr()[-4000:]}")
        self.relay.close()

    def wait_until_it_counts(self) -> None:
        for client in self.relay.clients:
            client.context.watch.files.look_again = 0.0

    def now(self) -> int:
        return self.relay.clock.now()

    @property
    def environment(self) -> dict[str, str]:
        """What `run` needs to work with the keys of this workspace."""
        return {"ADJOURN_CONFIG": str(self.config)}

    def client(
        self,
        *options: str,
        era: str = NEW,
        name: str = "tester",
        capabilities: Message | None = None,
        elicits: bool = False,
        server: Sequence[str] = (),
        foreign: bool = False,
        greet: bool = True,
    ) -> Client:
        """A client with its relay; `options` are those of `adjourn proxy`. `foreign`: another program than the other clients'."""
        declared = capabilities or ({"elicitation": {}} if elicits else {})
        given, behind = parse_proxy([*options, "--", "echo"]), EchoServer(str(self.upstream), server)
        started = self.relay.client(
            name=name,
            protocol=era,
            capabilities=declared,
            server=behind,
            server_name=given["--name"],
            command=" ".join(["echo", *server]),
            task=given["--task"],
            contract=given["--contract"],
            policy=given["--policy"],
            store=given["--store"],
            take_over=bool(given["--take-over"]),
            auto_confirm=bool(given["--auto-confirm"]),
            brief_bytes=int(given["--brief-bytes"]),
            confirm_seconds=int(given["--confirm-timeout"]),
            errors=given["--errors"],
            tool_names=given["--tool-names"],
            meta_tools=given["--meta-tools"],
            budget_notice=not given["--no-budget-notice"],
            log_json=bool(given["--log-json"]),
            program="" if foreign else OURS,
            greet=False,
        )
        behind.after = started.loop.after
        client = Client(started, behind, self.relay)
        self.clients.append(client)
        if greet:
            client.greet()
        return client


class Client(RawClient):
    """A raw client of one relay."""

    def __init__(self, inside: InProcessClient, server: EchoServer, relay: InProcessRelay) -> None:
        self.inside = inside
        self.era, self.name, self.capabilities = inside.protocol, inside.name, inside.capabilities
        self.received = inside.received
        self.greeting: Message = {}
        self.process = SimpleNamespace(pid=inside.context.process.pid)
        self._ids = iter(range(1, sys.maxsize))
        self._server = server
        self._relay = relay

    def send(self, *lines: bytes) -> None:
        self.inside.send(*lines)

    def line(self, seconds: float = SECONDS) -> bytes | None:
        """The next line that nobody has waited for."""
        if not self.inside.unread:
            wait_for(lambda: self.inside.unread, seconds)
        return self.inside.unread.pop(0)

    def find(self, wanted: Callable[[Message], bool], seconds: float = SECONDS) -> Message:
        return self.inside.find(wanted, seconds)

    def forget(self) -> None:
        """Drop what has arrived and nobody waited for."""
        self.inside.unread.clear()

    def silent(self, seconds: float = 0.3) -> bool:
        """Whether nothing arrives for a while."""
        self._relay.advance(seconds)
        return not self.inside.unread

    def stderr(self) -> str:
        return self.inside.log

    def close(self) -> int:
        """End of input; returns the exit code."""
        self.inside.close()
        self._end()
        return 0

    def kill(self) -> None:
        """As a crash."""
        if not self.inside.is_over:
            self.inside.kill()
            self._end()

    def _end(self) -> None:
        self._server.close()


_open: list[ProxyWorkspace] = []
"""Those in which time passes while a test waits."""


def wait_for(what: Callable[[], object], seconds: float = SECONDS) -> None:
    """Let time pass until something is true."""
    ends = {work.relay: work.relay.clock.seconds + seconds for work in _open}
    while not what():
        assert any(tuple(relay.skip(end) for relay, end in ends.items())), "it did not come about"


def adjourn(workspace: ProxyWorkspace, *words: str) -> Done:
    """A command of a person at a terminal."""
    return run(*words, cwd=workspace.root, env=workspace.environment)


def run(*arguments: str, cwd: Path, env: Mapping[str, str]) -> Done:
    """Run `adjourn` to its end, which is no traceback, in this process, as if there were a person's terminal."""
    out, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        _in(cwd),
        mock.patch.dict(os.environ, env),
        mock.patch.object(person, "_has_terminal", return_value=True),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        code = main(list(arguments))
    texts = [stream.buffer.getvalue().decode() for stream in (out, errors)]
    assert "Traceback" not in texts[1], texts[1]
    return Done(code, *texts)


@contextmanager
def _in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _nobody(message: Message) -> Any:
    raise NotImplementedError(f"each client has a server of its own: {message}")
