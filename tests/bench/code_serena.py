"""Bytes of our answers and of Serena's, to the questions of `code_answers` that both can answer.

python tests/bench/code_serena.py CLONE SERENA     CLONE: a git repository in Python; SERENA: the program `serena`

Serena starts its own language server through `uvx`; the variable UVX may name a program that starts one in its place.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import code_answers

from adjourn.code.deadline import Deadline
from adjourn.code.server.server import CodeServer
from adjourn.code.server.tool import CodeOptions
from adjourn.code.workflow.active_session import ClientConnection

_OPTIONS = (
    "--transport", "stdio", "--context", "claude-code", "--agent-interface", "tools", "--enable-web-dashboard", "false",
    "--enable-gui-log-window", "false", "--log-level", "ERROR",
)  # fmt: skip


class Serena:
    """Its MCP server, over stdio."""

    def __init__(self, program: str, root: Path) -> None:
        command = [program, "start-mcp-server", "--project", str(root), *_OPTIONS]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._count = 0
        self.request(
            "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "b", "version": "1"}
        )
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        self._write({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == self._count:
                result: dict[str, Any] = message["result"]
                return result
        raise SystemExit("Serena ended")

    def bytes_of(self, tool: str, arguments: dict[str, Any]) -> int:
        """The size of an answer; 0 for an error."""
        result = self.request("tools/call", name=tool, arguments=arguments)
        text = "".join(item["text"] for item in result["content"])
        return 0 if result.get("isError") or text.startswith("Error") else len(text.encode())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def pairs(root: Path) -> Iterator[tuple[str, int, str, dict[str, Any]]]:
    """Of each question: our tool, the bytes of our answer, and Serena's tool with its arguments."""
    with CodeServer(str(root), CodeOptions(symbols=True)) as server:
        codebase, client = server.codebases.of(str(root)), ClientConnection("bench")
        codebase.sync()

        def answer(tool: str, **arguments: Any) -> str:
            return server.reply(client, tool, arguments, Deadline(30))[0]

        for tool, arguments in code_answers.questions(codebase):
            size, name = len(answer(tool, **arguments).encode()), arguments.get("symbol", "")
            if tool == "find_definitions":
                yield tool, size, "find_symbol", {"name_path_pattern": name, "substring_matching": True}
            elif tool == "read_symbol":
                yield tool, size, "find_symbol", {"name_path_pattern": name, "include_body": True}
            elif tool == "get_symbols" and arguments["path"] != ".":
                yield tool, size, "get_symbols_overview", {"relative_path": arguments["path"]}
            elif tool == "find_references":
                found = json.loads(answer("find_definitions", symbol=name, exact_match=True, format="json"))
                files = [one["file"] for one in found["definitions"] if one["file"].endswith(".py")]
                if files:  # Serena asks for the file of the definition
                    yield tool, size, "find_referencing_symbols", {"name_path": name, "relative_path": files[0]}


def main() -> None:
    clone, program = sys.argv[1:]
    sizes: dict[str, list[tuple[int, int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "project")
        subprocess.run(["git", "clone", "-q", clone, str(root)], check=True)
        asked = list(pairs(root))
        serena = Serena(program, root)
        for tool, size, theirs, arguments in asked:
            sizes.setdefault(tool, []).append((size, serena.bytes_of(theirs, arguments)))
        serena.end()
    for tool, both in sizes.items():
        answered = [pair for pair in both if pair[1]]
        columns = [
            f"{sum(column):9,} {median(column):7,.0f} {max(column):7,}" for column in zip(*answered, strict=True)
        ]
        print(f"{tool:17} {len(answered):3} answered of {len(both)}: ours {columns[0]}, Serena's {columns[1]}")


if __name__ == "__main__":
    main()
