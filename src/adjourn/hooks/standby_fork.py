"""A fork of the standby process, which answers one hook.

Owns: taking over what a hook passes. Must never: answer for a hook that it cannot identify, or outlive it.
"""

from __future__ import annotations

import _socket
import os
import sys
from _thread import start_new_thread

import adjourn.hooks.events
import adjourn.hooks.gate
import adjourn.hooks.workspace
import adjourn.store.sqlite  # noqa: F401  # loaded once, for all forks
from adjourn.hooks.main import run
from adjourn.hooks.standby import (
    CODE,
    EVENT,
    HANDOVER_SECONDS,
    MAX_REQUEST,
    READY,
    SIZE,
    life,
    peer,
    rights_of,
)
from adjourn.host import process


def answer(connection: _socket.socket) -> None:
    """Answer as the hook that asks would, and end the process."""
    said = b""
    try:
        connection.settimeout(HANDOVER_SECONDS)
        pid, user = peer(connection)
        born = life(pid)
        if user != os.geteuid() or rights_of(str(pid)) != rights_of("self"):
            return  # its own rights would be lent
        process.stand_for(pid)
        connection.sendall(READY + os.getpid().to_bytes(SIZE, sys.byteorder))
        arguments = _become(connection)
        if life(pid) != born:
            return  # the number now belongs to another process
        connection.settimeout(None)
        start_new_thread(_end_with, (connection,))
        said = CODE + bytes([run(arguments, lambda: connection.sendall(EVENT))])
    finally:
        try:
            connection.sendall(said)
        finally:
            os._exit(0)


def _end_with(connection: _socket.socket) -> None:
    """End when the hook does: its descriptors are no longer ours to use."""
    try:
        connection.recv(1)
    finally:
        os._exit(0)


def _become(connection: _socket.socket) -> list[str]:
    """Take over a hook's descriptors, folder and environment. Returns its arguments."""
    data, ancillary, _, _ = connection.recvmsg(65536, _socket.CMSG_SPACE(3 * SIZE))
    passed = ancillary[0][2]
    numbers = [int.from_bytes(passed[at : at + SIZE], sys.byteorder) for at in range(0, len(passed), SIZE)]
    size = int.from_bytes(data[:SIZE], "big")
    if len(numbers) != 3 or size > MAX_REQUEST:
        raise ValueError("not a hook's request")
    while len(data) < SIZE + size:
        data += connection.recv(SIZE + size - len(data)) or _ended()
    for target, number in enumerate(numbers):
        os.dup2(number, target)
        os.close(number)
    folder, umask, count, *rest = data[SIZE:].split(b"\0")
    arguments, environment = rest[: int(count)], rest[int(count) :]
    os.chdir(folder)
    os.umask(int(umask))
    os.environb.clear()
    os.environb.update({name: value for name, _, value in (entry.partition(b"=") for entry in environment)})
    return [os.fsdecode(argument) for argument in arguments]


def _ended() -> bytes:
    raise ConnectionError("the hook ended before it sent its request")
