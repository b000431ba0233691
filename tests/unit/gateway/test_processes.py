"""A process that sessions share: what of a session's message reaches it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from adjourn.gateway.processes import SharedLink, SharedProcess


class Pipe:
    """Records what is sent to the server."""

    size = 0

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        self.lines += [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("name", ["progressToken", "progress\\u0054oken"])
@pytest.mark.parametrize("meta", ["_meta", "\\u005fmeta"])
def test_no_progress_token_of_a_session_reaches_the_server(name: str, meta: str) -> None:
    """However its name is written: a token that is the number of another session's request would bring that one's progress astray."""
    pipe: Any = Pipe()
    process = SharedProcess("", lambda _: pipe)

    class Processes:
        @staticmethod
        def shared(_revision: str) -> SharedProcess:
            return process

    async def talk() -> None:
        links = [SharedLink(object(), Processes()) for _ in range(2)]  # type: ignore[arg-type]  # nobody answers
        for link in links:
            params = f'{{"name":"echo","{meta}":{{"{name}":1}}}}'
            link.send(f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}\n'.encode())

    asyncio.run(talk())
    assert [(line["id"], line["params"]["_meta"]["progressToken"]) for line in pipe.lines] == [(1, 1), (2, 2)]
