"""What stands in front of a server in the benchmarks of the gateway: nothing but a relay, `adjourn serve`, and other gateways.

Owns: how each is started, on which address. Must never: time anything.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from peer import ADJOURN

HERE = Path(__file__).parent
TOOLS = HERE.parents[1] / ".tools"
DEPLOYED = {"MALLOC_ARENA_MAX": "2"}
"""What the files in `deploy/` set in the environment, and every subject gets."""
POLICY = "policy bench v1\n\nallow up.notes.get, up.notes.set\n"
FASTMCP, MCP_PROXY = "FastMCP's proxy", "mcp-proxy"
_FASTMCP = """
import sys
from fastmcp.server import create_proxy
proxy = create_proxy(sys.argv[2], name="peer")
proxy.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="error")
"""
_SDK = """
import sys
import json
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
server = MCPServer("sdk", log_level="ERROR")
def note(path: str, text: str) -> str:
    return json.dumps({"path": path, "text": text})
server.add_tool(note, "notes.get", annotations=ToolAnnotations(read_only_hint=True))
server.add_tool(note, "notes.set")
server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]), json_response=True)
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def started(command: Sequence[str], port: int, folder: str, environment: Mapping[str, str]) -> Iterator[int]:
    """A server that listens on a port; gives its process id."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 60
        while not _listens(port):
            if time.monotonic() > end or process.poll() is not None:
                raise SystemExit(f"it does not listen: {command}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def echo(port: int) -> list[str]:
    """The fast server."""
    return [sys.executable, str(HERE / "http_echo.py"), str(port)]


def sdk(port: int) -> list[str]:
    """A server of the SDK."""
    return [sys.executable, "-c", _SDK, str(port)]


def bare(port: int, up: str) -> list[str]:
    """The relay that looks into nothing."""
    return [sys.executable, str(HERE / "http_relay.py"), str(port), up]


def peers(up: str) -> dict[str, tuple[list[str], int]]:
    """The commands of other gateways that are installed, and their ports. mcp-proxy is in front of a command only."""
    found = {}
    port = free_port()
    if (python := TOOLS / "peers/bin/python").exists():
        found[FASTMCP] = [str(python), "-c", _FASTMCP, str(port), up], port
    port = free_port()
    if (python := TOOLS / "peers-v1/bin/python").exists():
        served = [sys.executable, "-I", "-S", str(HERE / "echo_upstream.py")]
        found[MCP_PROXY] = [str(python), "-m", "mcp_proxy", "--port", str(port), "--", *served], port
    return found


def gateway(folder: Path, port: int, up: str, settings: str = "") -> list[str]:
    """`adjourn serve` in a workspace of its own, made in the folder."""
    (folder / ".aex").mkdir(parents=True)
    (folder / ".aex/policy.aex").write_text(POLICY, encoding="utf-8")
    text = f'listen = "127.0.0.1:{port}"\n[servers.up]\nurl = "{up}"\n{settings}'
    (folder / "adjourn.toml").write_text(text, encoding="utf-8")
    return [ADJOURN, "-C", str(folder), "serve"]


class Load:
    """A load client in a process of its own."""

    def __init__(self, url: str, tool: str, sessions: int, tokens: Sequence[str | Path] = ()) -> None:
        """`tokens` is nothing, or the file of them."""
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "http_load.py"), url, tool, str(sessions), *tokens],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._line()

    def do(self, command: str) -> dict[str, Any]:
        self.begin(command)
        return self._line()

    def begin(self, command: str) -> Callable[[], dict[str, Any]]:
        """Begin what a command says; returns what waits for its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._line

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        """End the sessions that it has called in, and the process."""
        with suppress(OSError, ValueError):  # it may have ended before
            self.do("close")
        self._process.kill()
        self._process.communicate()


def resident(pid: int) -> float | None:
    """MiB of memory that a process has now. None where there is no /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return None
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))
