"""An MCP server whose tools answer as a script says: the upstream of an evaluated scenario. Standard library only.

    python -I -S workbench.py FOLDER

FOLDER/tools.json has the names of the tools, each with whether it only reads. FOLDER/answers.json has the answers that
differ from "done", by `tool {arguments as canonical JSON}`: `["text", T]`, `["fails", T]` (a tool error), `["error", T]` (a
protocol error) or `["silent", ""]` (no answer, ever).

Owns: these answers. Must never: have an effect.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

Message = dict[str, Any]


def main(folder: str) -> None:
    with open(os.path.join(folder, "tools.json"), encoding="utf-8") as file:
        tools = [
            {
                "name": name,
                "description": name,
                "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": reading},
            }
            for name, reading in json.load(file).items()
        ]
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("id") is None or "method" not in message:
            continue
        answer = _answer(folder, tools, message["method"], message.get("params") or {})
        if answer:
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"]} | answer) + "\n"
            sys.stdout.write(body)
            sys.stdout.flush()


def _answer(folder: str, tools: list[Message], method: str, params: Message) -> Message:
    if method == "initialize":
        return {
            "result": {
                "protocolVersion": params.get("protocolVersion", "2025-11-25"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "workbench", "version": "1"},
            }
        }
    if method == "tools/list":
        return {"result": {"tools": tools}}
    if method == "tools/call":
        return _called(folder, f"{params['name']} {canonical(params.get('arguments') or {})}")
    return {"result": {}}


def _called(folder: str, key: str) -> Message:
    kind, text = _script(folder).get(key, ("text", "done"))
    if kind == "silent":
        return {}
    if kind == "error":
        return {"error": {"code": -32000, "message": text}}
    return {"result": {"content": [{"type": "text", "text": text}], "isError": kind == "fails"}}


def _script(folder: str, known: dict[str, Any] = {}) -> dict[str, list[str]]:  # noqa: B006  # read again when changed
    path = os.path.join(folder, "answers.json")
    if not os.path.exists(path):
        return {}
    stamp = os.stat(path).st_mtime_ns
    if known.get("stamp") != stamp:
        with open(path, encoding="utf-8") as file:
            known.update(stamp=stamp, answers=json.load(file))
    answers: dict[str, list[str]] = known["answers"]
    return answers


def canonical(arguments: Message) -> str:
    """Arguments as the script names them."""
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"))


if __name__ == "__main__":
    main(sys.argv[1])
