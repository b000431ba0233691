"""The link to a server that is a command, over its pipes. The process belongs to one exchange, and ends with it.

Must never: look into a message.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from adjourn.gateway.http_link import BaseLink, LinkUser
from adjourn.gateway.http_pool import UnreachableError
from adjourn.gateway.replies import ServerMessage
from adjourn.host.executables import find
from adjourn.mcp import frames

MAX_LINE = 256 * 1024 * 1024
GRACE_SECONDS = 2.0
"""How long a server may take to end once its input is closed, and again once it was asked to."""
_GONE = "the server has ended; whether the call had an effect is not known"


class PipeLink(BaseLink):
    """See `ServerLink`. The command is started in `folder`."""

    def __init__(self, user: LinkUser, command: Sequence[str], environment: Mapping[str, str], folder: str) -> None:
        self._user = user
        self._command = command
        self._environment = environment
        self._folder = folder
        self._waiting: list[bytes] = []
        self._process: Process | None = None
        self._ending: asyncio.Task[None] | None = None
        self._is_lost = False
        self._running = asyncio.get_running_loop().create_task(self._run())

    @property
    def size(self) -> int:
        process = self._process
        if process is None or process.stdin is None:
            return sum(map(len, self._waiting))
        return process.stdin.transport.get_write_buffer_size()

    async def _run(self) -> None:
        """The life of the process."""
        try:
            await self._start()
            assert self._process is not None
            assert self._process.stdout is not None
            while line := await self._process.stdout.readline():
                self._user.hear(ServerMessage(line))
        except (OSError, ValueError) as error:
            what = f"the server {self._command[0]!r} cannot be used: {error}"
            public = "the server cannot be started, or not be read"
            self._fail(self._user.describe(UnreachableError(what, was_sent=False, public=public)))
        else:
            self._fail(_GONE)

    async def _start(self) -> None:
        program = find(self._command[0])
        if program is None:
            raise OSError(f"{self._command[0]} is not on PATH")
        self._process = await asyncio.create_subprocess_exec(
            program,
            *self._command[1:],
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=self._environment,
            cwd=self._folder,
            limit=MAX_LINE,
            process_group=0,
        )
        waiting, self._waiting = self._waiting, []
        self._write(b"".join(waiting))

    def _fail(self, why: str) -> None:
        """Answer all that is open, and all that comes, with an error."""
        was_sent, self._is_lost = self._process is not None, True
        for request_id in self._user.open_requests():
            self._user.fail(request_id, why, was_sent=was_sent)
        self._user.ended(self)

    def _write(self, data: bytes) -> None:
        if data and self._process is not None and self._process.stdin is not None:
            with suppress(OSError, RuntimeError):  # its end is noticed by the reader
                self._process.stdin.write(data)

    def send(self, data: bytes, about: Any = None) -> None:
        if self._is_lost:
            for request in about or ():
                self._user.fail(request.id, "the server has ended", was_sent=False)
        elif self._process is None:
            self._waiting.append(data)
        else:
            self._write(data)

    def abandon(self, request_id: Any) -> None:
        """Tell the server: a pipe has no stream of the request that could end."""
        about = {"requestId": request_id, "reason": "the client no longer waits"}
        self.send(frames.notification("notifications/cancelled", about))

    def close(self) -> None:
        self._is_lost = True
        self._running.cancel()
        if self._process is not None:
            self._ending = asyncio.get_running_loop().create_task(_end(self._process))

    async def left(self, seconds: float) -> None:
        if self._ending is not None:
            await asyncio.wait([self._ending], timeout=seconds)


async def _end(process: Process) -> None:
    """Close its input, ask it, kill it and what it has started."""
    if process.stdin is not None:
        process.stdin.close()
    for action in (None, process.terminate, None):
        with suppress(ProcessLookupError):
            if action is not None:
                action()
        try:
            await asyncio.wait_for(process.wait(), GRACE_SECONDS)
        except TimeoutError:
            continue
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, 9)
    await process.wait()
