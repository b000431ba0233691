"""The standby process for hooks: it has adjourn loaded, and each of its forks answers one hook that connects.

Must never: answer for a hook that it cannot identify, outlive that hook, or run the code of an earlier version.
"""

from __future__ import annotations

import _socket
import fcntl
import gc
import os
import signal
import sys
from _thread import start_new_thread

from adjourn.hooks.standby import CODE, EVENT, HANDOVER_SECONDS, MAX_REQUEST, READY, SIZE, life, peer, rights_of
from adjourn.host import process

IDLE_SECONDS = 600


def serve(path: str) -> None:
    """Serve hooks at `path` until none has connected for `IDLE_SECONDS`. Returns at once if another process already does."""
    os.closerange(3, 4096)  # descriptors that the client inherited
    os.chdir("/")
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    os.ftruncate(lock, 0)
    os.pwrite(lock, life(os.getpid()), 0)
    if os.path.lexists(path):
        os.unlink(path)  # INVARIANT: the process that made it held the lock, and has exited
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(64)
    _load()  # only the process that has the lock
    files = _stamps(_loaded())
    gc.disable()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for forks
    listener.settimeout(IDLE_SECONDS)
    try:
        while True:
            descriptor, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001  # what `socket` calls, too
            if files != _stamps(files) or not os.path.lexists(path):
                return  # adjourn was updated: the hook answers itself
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()  # or hooks would wait for a fork after this process has ended
                os.close(lock)
                _answer(_socket.socket(fileno=descriptor))
            os.close(descriptor)
    except OSError:
        return  # no hook for a long time
    finally:
        if os.path.lexists(path):
            os.unlink(path)


def _load() -> None:
    """Load what hooks need, once for all forks."""
    import adjourn.hooks.events
    import adjourn.hooks.gate
    import adjourn.hooks.main
    import adjourn.host.finding
    import adjourn.store.sqlite  # noqa: F401


def _loaded() -> list[str]:
    """The files of adjourn that are loaded."""
    files = [getattr(module, "__file__", None) for name, module in sys.modules.items() if "adjourn" in name]
    return [file for file in files if file]


def _stamps(files: list[str] | dict[str, int]) -> dict[str, int]:
    """The modification time of each file; 0 for a deleted one."""
    stamps = {}
    for file in files:
        try:
            stamps[file] = os.stat(file).st_mtime_ns
        except OSError:
            stamps[file] = 0
    return stamps


# --- a fork, which answers one hook


def _answer(connection: _socket.socket) -> None:
    """Answer as the hook that asks would, and end the process."""
    from adjourn.hooks.main import run

    last = b""
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
        last = CODE + bytes([run(arguments, lambda: connection.sendall(EVENT))])
    finally:
        try:
            connection.sendall(last)
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
    folder, umask, count, *parts = data[SIZE:].split(b"\0")
    arguments, environment = parts[: int(count)], parts[int(count) :]
    os.chdir(folder)
    os.umask(int(umask))
    os.environb.clear()
    os.environb.update({name: value for name, _, value in (entry.partition(b"=") for entry in environment)})
    return [os.fsdecode(argument) for argument in arguments]


def _ended() -> bytes:
    raise ConnectionError("the hook ended before it sent its request")


if __name__ == "__main__":
    serve(sys.argv[1])
