"""Coverage-guided fuzzing of how a client's line is read, with atheris: `make fuzz TARGET=frames` (SECONDS=60 for a minute).

Any bytes are a line: it is decoded or refused, nothing else is raised, and what is decoded is the same to a reader that takes no
key twice. Its arguments are judged without raising, as a command, as a patch and as SQL, too. The id in the error for a refused line
is one that a lenient reader finds. The same bytes as the result of a server are read, or refused; what is read keeps its bytes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import atheris

with atheris.instrument_imports(include=["adjourn.mcp", "adjourn.text.strict_json", "adjourn.policy.protected"]):
    from adjourn.mcp import frames, server_lines
    from adjourn.mcp.frames import FrameError, Message
    from adjourn.policy.calls import arguments_digest
    from adjourn.policy.protected.calls import protected_path
    from adjourn.policy.protected.places import places_of

PLACES = places_of("/nowhere/work")


def _strict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({key for key, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


def one(data: bytes) -> None:
    line = data.replace(b"\n", b" ")
    _answer(line)
    try:
        message = frames.read(line, Message)
    except FrameError as error:
        _check_id(line, error.id)
        text = data.decode(errors="replace")
        for key in ("command", "patch", "sql", "input", "path"):
            protected_path({key: text}, PLACES, tool="delete_file")
        return
    if isinstance(message, Message):
        assert json.loads(line.decode(), object_pairs_hook=_strict) == message.body
        arguments_digest(message.params)
        for reads in (True, False):
            protected_path(message.params, PLACES, tool="x", reads=reads)


def _answer(part: bytes) -> None:
    line = b'{"jsonrpc":"2.0","id":7,"result":{"a":' + part + b"}}\n"
    try:
        passed, reply = server_lines.read(line)
    except FrameError:
        return
    if reply.id == 7 and not any(byte < 32 for byte in part) and b'"id"' not in part:
        assert passed == frames.one_line(line)


def _check_id(line: bytes, told: object) -> None:
    try:
        found = json.loads(line.decode(errors="replace"), strict=False)
    except (ValueError, RecursionError):
        return
    if told is not None and isinstance(found, dict):
        assert found.get("id") == told, (found, told)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
