"""Coverage-guided fuzzing of how a client's line is read, with atheris: `make fuzz TARGET=frames` (SECONDS=60 for a minute).

Any bytes are a line: it is decoded or refused, nothing else is raised, and what is decoded is the same to a reader that takes no
key twice, in any case of letters. Its arguments are judged without raising, as a command, as a patch and as SQL, too.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import atheris

with atheris.instrument_imports(
    include=["adjourn.mcp.frames", "adjourn.text.strict_json", "adjourn.policy.protected"]
):
    from adjourn.mcp import frames
    from adjourn.mcp.frames import FrameError, Message
    from adjourn.policy.calls import arguments_digest
    from adjourn.policy.protected.calls import protected_path
    from adjourn.policy.protected.places import places_of
    from adjourn.text.strict_json import fold_key

PLACES = places_of("/nowhere/work")


def _strict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({fold_key(key) for key, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


def one(data: bytes) -> None:
    line = data.replace(b"\n", b" ")
    try:
        message = frames.read(line, Message)
    except FrameError:
        text = data.decode(errors="replace")
        for key in ("command", "patch", "sql", "input", "path"):
            protected_path({key: text}, PLACES, tool="delete_file")
        return
    if isinstance(message, Message):
        assert json.loads(line.decode(), object_pairs_hook=_strict) == message.body
        arguments_digest(message.params)
        for reads in (True, False):
            protected_path(message.params, PLACES, tool="x", reads=reads)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
