"""A standby process for the next hooks (`--stay`), so that only the first hook of a session loads adjourn.

Two thirds of a hook's time is loading modules. The first hook leaves a process behind that has them loaded. A later hook passes it its
descriptors, arguments, environment and folder, and a fork of that process answers as the hook itself would. The process keeps nothing
between two answers, so no answer can depend on an earlier one. It ends after ten minutes without a hook, and when adjourn was updated.

Who can connect to it: processes of the same user, since its socket is in a folder that only that user can enter; of the same
installation, which the socket's name contains; and with exactly its own rights, so that an agent in a sandbox gains none through it. A hook
in turn passes its call, environment and descriptors only to the process whose number and start time are in the lock file, which runs
the same Python with the arguments that a hook starts it with, and which has the hook's rights. That excludes processes that are
confined or merely in the way. A process of the same user with the same rights can imitate all of it, as it could trace the hook itself.
Without /proc (macOS), there is no standby process.

The exchange: the fork sends `READY` and its number when it can answer. The hook sends its request; from then on nobody else can answer.
The fork sends `EVENT` if no call waits for a decision, and last `CODE` with the exit code. A hook that is left alone before its request
answers itself. A fork ends with its hook.

Owns: the hook's side of that exchange, and who may be at the other end. Must never: leave a hook without an exit code.
"""

from __future__ import annotations

import _socket  # what `socket` wraps, at a tenth of its start
import os
import sys

from adjourn.hooks import ANSWER_SECONDS, FAILED, REFUSED, tell
from adjourn.host import executables, folders
from adjourn.host.executables import OF_CODE, outside

HANDOVER_SECONDS = 2
MAX_PATH = 100
"""Bytes of a socket's path that every system takes."""
MAX_REQUEST = 16 * 1024 * 1024
READY, EVENT, CODE = b"r", b"e", b"c"
SIGKILL = 9
"""POSIX's number."""
SIZE = 4
_RIGHTS = ("Uid", "Gid", "Groups", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters")
_SPACES = ("mnt", "pid", "user", "net", "ipc")


def ask(arguments: list[str]) -> int | None:
    """The exit code of a hook that the standby process has answered; None without such a process."""
    path = place()
    if not path or os.isatty(0):  # a fork that outlives the hook would read what is typed for other programs
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(HANDOVER_SECONDS)
    try:
        connection.connect(path)
        if not _is_ours(connection, path):
            return None
        ready = connection.recv(1 + SIZE)
        if ready[:1] != READY:
            return None
    except (OSError, ValueError):
        return None
    connection.settimeout(ANSWER_SECONDS + HANDOVER_SECONDS)  # it ends before that itself, unless it is stopped
    received = b""
    try:
        _send(connection, arguments)
        while some := connection.recv(16):
            received += some
    except OSError:
        _end(int.from_bytes(ready[1:], sys.byteorder), connection)
    if CODE in received[:-1]:
        return received[received.index(CODE) + 1]
    tell("the standby process exited or timed out; its answer to this call is unknown")
    return FAILED if EVENT in received else REFUSED


def _end(pid: int, connection: _socket.socket) -> None:
    """Kill the fork that does not answer: it holds our output, which the client reads until every holder has closed it."""
    try:
        parent = int(read_beginning(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
        if parent == peer(connection)[0]:
            os.kill(pid, SIGKILL)
    except (OSError, ValueError):
        pass  # it has ended


def start() -> None:
    """Start a standby process. A failure changes no answer."""
    path = place()
    if not path:
        return
    kept = ("HOME", "LANG", "LC_ALL", *OF_CODE)
    by_name = {name: os.environ[name] for name in kept if name in os.environ}
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    words = _words(path)
    try:
        environment = outside(by_name, os.getcwd())
        os.posix_spawn(words[0], words, environment, file_actions=nowhere, setsid=True)
    except OSError:
        return


def _words(path: str) -> list[str]:
    return executables.python_command("-m", "adjourn.hooks.standby_process", path)


def _is_ours(connection: _socket.socket, path: str) -> bool:
    """Whether the listener is the process that holds the lock and that a hook starts. Raises `OSError`, `ValueError`."""
    pid, user = peer(connection)
    if user != os.geteuid() or read_beginning(f"{path}.lock", os.O_NOFOLLOW) != life(pid):
        return False
    words = b"".join(os.fsencode(word) + b"\0" for word in _words(path))
    return (
        os.path.samefile(f"/proc/{pid}/exe", "/proc/self/exe")
        and read_beginning(f"/proc/{pid}/cmdline") == words
        and rights_of(str(pid)) == rights_of("self")
        and read_beginning(f"{path}.lock", os.O_NOFOLLOW) == life(pid)  # it did not end meanwhile
    )


def peer(connection: _socket.socket) -> tuple[int, int]:
    """Process and user at the other end, as the kernel recorded them."""
    getsockopt = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 3 * SIZE)
    pid, user = (int.from_bytes(getsockopt[at : at + SIZE], sys.byteorder) for at in (0, SIZE))
    return pid, user


def life(pid: int) -> bytes:
    """What identifies a process for its whole life: its number, and its start in clock ticks since boot. Raises `OSError`."""
    return b"%d %s" % (pid, read_beginning(f"/proc/{pid}/stat").rpartition(b")")[2].split()[19])


def read_beginning(path: str, flags: int = 0) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def place() -> str:
    """The socket's path, in a folder of this user alone; "" where none is possible, and in a sandbox."""
    folder = folders.standby()
    try:
        rights = rights_of("self")
        os.makedirs(folder, 0o700, exist_ok=True)
        status, package = os.lstat(folder), os.stat(__file__)
    except OSError:
        return ""
    private = status.st_mode & 0o170077 == 0o040000 and status.st_uid == os.geteuid()
    # several containers may share a folder: the name contains the namespaces
    name = "-".join([f"{package.st_dev:x}", f"{package.st_ino:x}", f"{sys.hexversion:x}", rights["mnt"], rights["pid"]])
    path = os.path.join(folder, name)
    usable = private and rights.get("NoNewPrivs") == "0" and len(os.fsencode(path)) <= MAX_PATH
    return path if usable else ""


def rights_of(pid: str) -> dict[str, str]:
    """The rights of a process, as the kernel shows them. Some sandboxes show only in `NoNewPrivs`. Raises `OSError`."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        lines = [line.partition(":") for line in file]
    by_name = {name: " ".join(value.split()) for name, _, value in lines if name in _RIGHTS}
    by_name |= {space: os.readlink(f"/proc/{pid}/ns/{space}")[len(space) + 2 : -1] for space in _SPACES}
    return by_name | {"root": os.readlink(f"/proc/{pid}/root")}


def _send(connection: _socket.socket, arguments: list[str]) -> None:
    umask = os.umask(0)
    os.umask(umask)
    texts = [os.getcwd(), str(umask), str(len(arguments)), *arguments]
    data = b"\0".join([*map(os.fsencode, texts), *(name + b"=" + value for name, value in os.environb.items())])
    message = len(data).to_bytes(SIZE, "big") + data
    descriptors = b"".join(number.to_bytes(SIZE, sys.byteorder) for number in (0, 1, 2))
    sent = connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
    if sent < len(message):  # sending nothing fails, too, if the fork has answered and ended
        connection.sendall(message[sent:])
