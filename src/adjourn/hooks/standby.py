"""A process that stands by for the next hook (`--stay`), so that only the first of a sitting pays for loading adjourn.

Two thirds of a hook's time is loading modules. The first hook leaves a process behind that has them loaded; a later one hands
it its descriptors, arguments, environment and folder, and a fork of it answers as the hook itself would have: it keeps nothing
between two answers, and so can be wrong about nothing. It ends after ten minutes without a hook, and when adjourn was changed.

Who can speak to it: processes of the same user, since its socket is in a folder that only that user enters; of the same
installation, which is its name; and with the very rights that it has itself, so that it lends none to an agent in a
sandbox. A hook in turn hands its call, its environment and its descriptors only to the process whose number and start time are
in the lock's file, and which runs the same Python with the words that a hook starts it with, and with the hook's rights. That
keeps out what is confined or merely in the way. A process of the same user with the same rights can imitate all of it, as it
could trace the hook itself. Where there is no /proc (macOS), nobody stands by.

What is said: the fork sends `READY` and its number when it can answer; the hook its request, and from then on nobody else can answer; the fork
`EVENT` when it is no call that waits for leave, and last `CODE` with the exit code. Before its request a hook that is left alone
answers itself. A fork ends with its hook.

Owns: the socket, what is said over it. Must never: answer for a hook that it cannot see, or leave one without an exit code.
"""

from __future__ import annotations

import _socket  # what `socket` wraps, at a tenth of its start
import os
import sys

from adjourn.hooks import ANSWER_SECONDS, FAILED, REFUSED, tell
from adjourn.host import OF_CODE, folders, outside, python

IDLE_SECONDS = 600
HANDOVER_SECONDS = 2
MAX_PATH = 100
"""Bytes of a socket's path that every system takes."""
MAX_REQUEST = 16 * 1024 * 1024
READY, EVENT, CODE = b"r", b"e", b"c"
SIGKILL = 9
"""POSIX's number."""
_SIZE = 4
_RIGHTS = ("Uid", "Gid", "Groups", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters")
_SPACES = ("mnt", "pid", "user", "net", "ipc")


# --- the hook's side


def ask(arguments: list[str]) -> int | None:
    """The exit code of a hook that was answered by the process that stands by; None where none does."""
    path = place()
    if not path or os.isatty(0):  # a fork that outlived the hook would read what is typed for others
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(HANDOVER_SECONDS)
    try:
        connection.connect(path)
        if not _is_ours(connection, path):
            return None
        ready = connection.recv(1 + _SIZE)
        if ready[:1] != READY:
            return None
    except (OSError, ValueError):
        return None
    connection.settimeout(ANSWER_SECONDS + HANDOVER_SECONDS)  # it ends itself before, but where it is stopped
    said = b""
    try:
        _send(connection, arguments)
        while some := connection.recv(16):
            said += some
    except OSError:
        _end(int.from_bytes(ready[1:], sys.byteorder), connection)
    if CODE in said[:-1]:
        return said[said.index(CODE) + 1]
    tell("the process that answered for this hook ended, or does not answer; nothing is known of its answer")
    return FAILED if EVENT in said else REFUSED


def _end(pid: int, connection: _socket.socket) -> None:
    """End the fork that does not answer: it has our output, which the client reads until nobody has it."""
    try:
        parent = int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
        if parent == _peer(connection)[0]:
            os.kill(pid, SIGKILL)
    except (OSError, ValueError):
        pass  # it has ended


def start() -> None:
    """Leave a process behind that stands by. Failing at that harms nobody."""
    path = place()
    if not path:
        return
    kept = ("HOME", "LANG", "LC_ALL", *OF_CODE)
    given = {name: os.environ[name] for name in kept if name in os.environ}
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    words = _words(path)
    try:
        environment = outside(given, os.getcwd())
        os.posix_spawn(words[0], words, environment, file_actions=nowhere, setsid=True)
    except OSError:
        return


def _words(path: str) -> list[str]:
    return python.command("-m", "adjourn.hooks.standby", path)


def _is_ours(connection: _socket.socket, path: str) -> bool:
    """Whether who listens is the process that holds the lock, and what a hook starts. Raises `OSError`, `ValueError`."""
    pid, user = _peer(connection)
    if user != os.geteuid() or _read(f"{path}.lock", os.O_NOFOLLOW) != _life(pid):
        return False
    words = b"".join(os.fsencode(word) + b"\0" for word in _words(path))
    return (
        os.path.samefile(f"/proc/{pid}/exe", "/proc/self/exe")
        and _read(f"/proc/{pid}/cmdline") == words
        and _rights(str(pid)) == _rights("self")
        and _read(f"{path}.lock", os.O_NOFOLLOW) == _life(pid)  # it lived all the while
    )


def _peer(connection: _socket.socket) -> tuple[int, int]:
    """Process and user of who connected, or of who listens, as the kernel noted them."""
    told = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 3 * _SIZE)
    pid, user = (int.from_bytes(told[at : at + _SIZE], sys.byteorder) for at in (0, _SIZE))
    return pid, user


def _life(pid: int) -> bytes:
    """What no other process has, before or after: the number and when it started, in clock ticks since boot. Raises `OSError`."""
    return b"%d %s" % (pid, _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[19])


def _read(path: str, flags: int = 0) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def place() -> str:
    """The socket's path, in a folder of this user alone; "" where there can be none, and in a sandbox."""
    folder = folders.standby()
    try:
        rights = _rights("self")
        os.makedirs(folder, 0o700, exist_ok=True)
        status, package = os.lstat(folder), os.stat(__file__)
    except OSError:
        return ""
    private = status.st_mode & 0o170077 == 0o040000 and status.st_uid == os.geteuid()
    # the spaces are in the name because several containers may share a folder
    name = "-".join(
        [f"{package.st_dev:x}", f"{package.st_ino:x}", f"{sys.hexversion:x}", rights["mnt"], rights["pid"]]
    )
    path = os.path.join(folder, name)
    usable = private and rights.get("NoNewPrivs") == "0" and len(os.fsencode(path)) <= MAX_PATH
    return path if usable else ""


def _rights(pid: str) -> dict[str, str]:
    """What a process may do, as far as the kernel tells. Some sandboxes show only in `NoNewPrivs`. Raises `OSError`."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        lines = [line.partition(":") for line in file]
    found = {name: " ".join(value.split()) for name, _, value in lines if name in _RIGHTS}
    found |= {space: os.readlink(f"/proc/{pid}/ns/{space}")[len(space) + 2 : -1] for space in _SPACES}
    return found | {"root": os.readlink(f"/proc/{pid}/root")}


def _send(connection: _socket.socket, arguments: list[str]) -> None:
    umask = os.umask(0)
    os.umask(umask)
    texts = [os.getcwd(), str(umask), str(len(arguments)), *arguments]
    whole = b"\0".join(
        [*map(os.fsencode, texts), *(name + b"=" + value for name, value in os.environb.items())]
    )
    message = len(whole).to_bytes(_SIZE, "big") + whole
    descriptors = b"".join(number.to_bytes(_SIZE, sys.byteorder) for number in (0, 1, 2))
    sent = connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
    if sent < len(message):  # to send nothing fails, too, where the answer was quicker and the fork has ended
        connection.sendall(message[sent:])


# --- the side of the process that stands by


def serve(path: str) -> None:
    """Stand by at `path` until nobody has asked for a while. Returns at once where another process does."""
    os.closerange(3, 4096)  # whatever the client's client left open
    os.chdir("/")
    import fcntl  # noqa: PLC0415  # the hook's side needs none of these
    import gc  # noqa: PLC0415
    import signal  # noqa: PLC0415

    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    os.ftruncate(lock, 0)
    os.pwrite(lock, _life(os.getpid()), 0)
    if os.path.lexists(path):
        os.unlink(path)  # INVARIANT: its maker held the lock, and is gone
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(64)
    files = _load()
    gc.disable()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are nobody's to wait for
    listener.settimeout(IDLE_SECONDS)
    try:
        while True:
            descriptor, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001  # what `socket` calls, too
            if files != _stamps(files) or not os.path.lexists(path):
                return  # it was updated: the hook that asks, asks itself
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()  # or hooks would wait for a fork when this process is gone
                os.close(lock)
                _answer(_socket.socket(fileno=descriptor))
            os.close(descriptor)
    except OSError:
        return  # nobody came for long
    finally:
        if os.path.lexists(path):
            os.unlink(path)


def _load() -> dict[str, int]:
    """Load what hooks need. Returns the files of adjourn that are loaded, with their times of change."""
    import adjourn.hooks.events  # noqa: PLC0415
    import adjourn.hooks.gate  # noqa: PLC0415
    import adjourn.hooks.main  # noqa: PLC0415
    import adjourn.hooks.workspace  # noqa: PLC0415
    import adjourn.store.sqlite  # noqa: F401, PLC0415

    files = [getattr(module, "__file__", None) for name, module in sys.modules.items() if "adjourn" in name]
    return _stamps([file for file in files if file])


def _stamps(files: list[str] | dict[str, int]) -> dict[str, int]:
    found = {}
    for file in files:
        try:
            found[file] = os.stat(file).st_mtime_ns
        except OSError:
            found[file] = 0
    return found


def _answer(connection: _socket.socket) -> None:
    """Be the hook that asks. Ends the process."""
    from _thread import start_new_thread  # noqa: PLC0415  # the hook's side needs none

    from adjourn.hooks.main import run  # noqa: PLC0415
    from adjourn.host import process  # noqa: PLC0415  # loaded long since

    said = b""
    try:
        connection.settimeout(HANDOVER_SECONDS)
        pid, user = _peer(connection)
        life = _life(pid)
        if user != os.geteuid() or _rights(str(pid)) != _rights("self"):
            return  # it would lend its own
        process.stand_for(pid)
        connection.sendall(READY + os.getpid().to_bytes(_SIZE, sys.byteorder))
        arguments = _become(connection)
        if _life(pid) != life:
            return  # it was another's number
        connection.settimeout(None)
        start_new_thread(_end_with, (connection,))
        said = CODE + bytes([run(arguments, lambda: connection.sendall(EVENT))])
    finally:
        try:
            connection.sendall(said)
        finally:
            os._exit(0)


def _end_with(connection: _socket.socket) -> None:
    """End when the hook does: what it was to read and write is not ours any more."""
    try:
        connection.recv(1)
    finally:
        os._exit(0)


def _become(connection: _socket.socket) -> list[str]:
    """Take over a hook's descriptors, folder and environment. Returns its arguments."""
    data, ancillary, _, _ = connection.recvmsg(65536, _socket.CMSG_SPACE(3 * _SIZE))
    passed = ancillary[0][2]
    numbers = [int.from_bytes(passed[at : at + _SIZE], sys.byteorder) for at in range(0, len(passed), _SIZE)]
    size = int.from_bytes(data[:_SIZE], "big")
    if len(numbers) != 3 or size > MAX_REQUEST:
        raise ValueError("not a hook's request")
    while len(data) < _SIZE + size:
        data += connection.recv(_SIZE + size - len(data)) or _ended()
    for target, number in enumerate(numbers):
        os.dup2(number, target)
        os.close(number)
    folder, umask, count, *rest = data[_SIZE:].split(b"\0")
    arguments, environment = rest[: int(count)], rest[int(count) :]
    os.chdir(folder)
    os.umask(int(umask))
    os.environb.clear()
    os.environb.update({name: value for name, _, value in (entry.partition(b"=") for entry in environment)})
    return [os.fsdecode(argument) for argument in arguments]


def _ended() -> bytes:
    raise ConnectionError("the hook is gone")


if __name__ == "__main__":
    serve(sys.argv[1])
