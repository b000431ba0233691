"""The least that a stdio proxy in Python can be: it starts COMMAND and pumps bytes both ways, in two threads.

    python passthrough.py COMMAND...

It examines nothing and keeps nothing. What a proxy costs beyond this is the cost of what it does.
"""

from __future__ import annotations

import os
import sys
from threading import Thread


def pump(source: int, sink: int) -> None:
    while data := os.read(source, 1 << 16):
        write(sink, data)
    os.close(sink)


def write(sink: int, data: bytes) -> None:
    while data:
        data = data[os.write(sink, data) :]


def start(command: list[str]) -> tuple[int, int, int]:
    """Start the upstream. Its process, and the descriptors that it reads from and writes to."""
    their_in, to_them = os.pipe()
    from_them, their_out = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, their_in, 0), (os.POSIX_SPAWN_DUP2, their_out, 1)]
    child = os.posix_spawnp(command[0], command, os.environ, file_actions=actions)
    os.close(their_in)
    os.close(their_out)
    return child, to_them, from_them


def main() -> None:
    child, to_them, from_them = start(sys.argv[1:])
    Thread(target=pump, args=(0, to_them), daemon=True).start()
    pump(from_them, 1)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
