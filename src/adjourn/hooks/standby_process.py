"""The standby process for hooks: it has adjourn loaded, and forks for each hook that connects.

Owns: the socket and its lock. Must never: answer a hook itself, or run the code of an earlier version.
"""

from __future__ import annotations

import _socket
import fcntl
import gc
import os
import signal
import sys

from adjourn.hooks.standby import life

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
    from adjourn.hooks import standby_fork  # what hooks load: only for the process that has the lock

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
                standby_fork.answer(_socket.socket(fileno=descriptor))
            os.close(descriptor)
    except OSError:
        return  # no hook for a long time
    finally:
        if os.path.lexists(path):
            os.unlink(path)


def _loaded() -> list[str]:
    """The files of adjourn that are loaded."""
    files = [getattr(module, "__file__", None) for name, module in sys.modules.items() if "adjourn" in name]
    return [file for file in files if file]


def _stamps(files: list[str] | dict[str, int]) -> dict[str, int]:
    """The modification time of each file; 0 for a deleted one."""
    found = {}
    for file in files:
        try:
            found[file] = os.stat(file).st_mtime_ns
        except OSError:
            found[file] = 0
    return found


if __name__ == "__main__":
    serve(sys.argv[1])
