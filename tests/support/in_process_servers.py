"""The MCP servers of tests/support in this process, each with a state of its own: over HTTP from a thread, or as the command of a small
program that passes its lines on.

Owns: `ServerThread`, `PipeEnds`, `InProcessServers`. Must never: change what such a server says.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import uvicorn
from mcp.server.stdio import stdio_server

from support import one_era
from support.gateway import SERVER
from support.ports import free_port
from support.servers import Servers

PIPE_END = Path(__file__).with_name("pipe_end.py")
_SECONDS = 30.0
_NUMBERS = itertools.count(1)
_LOADING = threading.Lock()


def loaded(program: Path, folder: Path, name: str = "up", port: int = 0) -> ModuleType:
    """A program of a server as a module of its own, which reads these arguments; it serves nothing yet."""
    spec = importlib.util.spec_from_file_location(f"_served_{next(_NUMBERS)}", program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    with _LOADING:
        arguments = sys.argv
        sys.argv = [str(program), str(port), str(folder), name]
        try:
            spec.loader.exec_module(module)
        finally:
            sys.argv = arguments
    return module


class ServerThread:
    """A server over HTTP at a port; `era` may be the only one that it has, or `sse`: the transport before Streamable HTTP."""

    def __init__(self, program: Path, port: int, folder: Path, name: str = "up", era: str = "") -> None:
        server = loaded(program, folder, name, port).server
        app = server.sse_app(sse_path="/mcp") if era == "sse" else server.streamable_http_app()
        if era not in ("", "sse"):
            app = one_era.only(era, app)
        config = uvicorn.Config(app, log_level="critical", log_config=None, lifespan="on", ws="none")
        self._server = uvicorn.Server(config)
        self._socket = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name=name)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End it at once, with its connections."""
        self._server.should_exit = self._server.force_exit = True
        end = time.monotonic() + _SECONDS
        while self._thread.is_alive():
            assert time.monotonic() < end, "the server does not end"
            with suppress(RuntimeError):  # its loop has just been closed
                for connection in list(self._server.server_state.connections):
                    connection.loop.call_soon_threadsafe(connection.transport.abort)
            self._thread.join(0.05)


class PipeEnds:
    """Serves servers that are commands: each process that runs such a command has a server of its own here."""

    def __init__(self) -> None:
        self._served: list[tuple[Path, Path, str, str]] = []
        self._loop = asyncio.new_event_loop()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, name="pipes")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        assert not self._thread.is_alive(), "the servers do not end"

    def command(self, program: Path, folder: Path, name: str = "up", era: str = "") -> list[str]:
        """The words that start such a server."""
        port, number = self._socket.getsockname()[1], len(self._served)
        self._served.append((program, folder, name, era))
        return [sys.executable, "-IS", str(PIPE_END), str(port), str(number), "0", str(folder)]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(asyncio.sleep(0))
            listening = self._loop.run_until_complete(
                asyncio.start_server(self._serve, sock=self._socket, limit=1 << 26)
            )
            self._loop.run_forever()
            listening.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        program, folder, name, era = self._served[int(await reader.readline())]
        server = loaded(program, folder, name).server._lowlevel_server
        lines: Any = _Lines(reader, writer, era)
        try:
            async with stdio_server(lines, lines) as (read, write):
                await server.run(read, write, server.create_initialization_options())
        finally:
            writer.close()


class _Lines:
    """A connection as the two text files that the SDK's transport reads and writes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, era: str) -> None:
        self._reader, self._writer, self._era = reader, writer, era

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await self._reader.readline():
            if self._era and one_era.is_of_other_era(body := json.loads(line), self._era):
                self._writer.write(one_era.refusal(body) + b"\n")
            else:
                yield line.decode(errors="replace")

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()


class InProcessServers(Servers):
    """See `Servers`. One that is ended has no time to finish what it does, but may write that it was cancelled."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._pipes = PipeEnds()
        self._programs: dict[str, tuple[Path, str, int]] = {}
        self._threads: dict[str, ServerThread] = {}

    def __exit__(self, *exception: object) -> None:
        for name in list(self._threads):
            self.kill(name)
        self._pipes.__exit__(*exception)

    def _command(self, name: str, era: str, port: int) -> list[str]:
        assert not port
        return self._pipes.command(SERVER, self._folder, name, era)

    def http(self, name: str, era: str = "", *, started: bool = True, program: Path | None = None) -> Self:
        self._programs[name] = (program or SERVER, era, free_port())
        self.toml += f'[servers.{name}]\nurl = "{self.url(name)}"\n'
        if started:
            self.start(name)
        return self

    def start(self, name: str) -> None:
        program, era, port = self._programs[name]
        self._threads[name] = ServerThread(program, port, self._folder, name, era)

    def kill(self, name: str) -> None:
        self._threads.pop(name).close()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._programs[name][2]}/mcp"
