"""Real MCP servers for a gateway with several: in one protocol era, or both, over HTTP or pipes.

Owns: `Servers`. Must never: know how the gateway works inside.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Self

from support.gateway import SERVER, wait_for_port
from support.ports import free_port

ONE_ERA = Path(__file__).with_name("one_era.py")


class Servers:
    """Servers whose effects are written down in `folder`. `toml` is what adjourn.toml says of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[list[str], int]] = {}
        self.toml = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for name in list(self._running):
            self.kill(name)

    def pipe(self, name: str, era: str = "") -> Self:
        """A server that the gateway starts; `era` is the only one that it has."""
        self.toml += f"[servers.{name}]\ncommand = {json.dumps(self._command(name, era, 0))}\n"
        return self

    def http(self, name: str, era: str = "", *, started: bool = True, program: Path | None = None) -> Self:
        """A server that listens; `era` is the only one that it has. `program` is another one of ours."""
        port = free_port()
        command = self._command(name, era, port)
        if program is not None:
            command[1] = str(program)
        self._commands[name] = (command, port)
        self.toml += f'[servers.{name}]\nurl = "http://127.0.0.1:{port}/mcp"\n'
        if started:
            self.start(name)
        return self

    def _command(self, name: str, era: str, port: int) -> list[str]:
        program = [str(ONE_ERA), era] if era else [str(SERVER)]
        return [sys.executable, *program, str(port), str(self._folder), name]

    def start(self, name: str) -> None:
        """Start a server that listens."""
        command, port = self._commands[name]
        self._running[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_port(port)

    def kill(self, name: str) -> None:
        """End it at once."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def url(self, name: str) -> str:
        """The address of a server that listens."""
        return f"http://127.0.0.1:{self._commands[name][1]}/mcp"
