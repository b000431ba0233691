"""The files a workspace has for adjourn: writing them so that a crash or a hostile link does no harm.

No path leaves the workspace by a link.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from adjourn.errors import InvalidError, NotFoundError, RefusedError, StoreError

CHECKPOINTS = ".aex/checkpoints"
MAX_NAME = 64
LOCK_SECONDS = 2.0
"""How long to wait for a folder that another process has locked. Anyone who can read a folder can lock it, for ever."""
_LOOK_SECONDS = 0.01
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def check_name(name: object) -> str:
    """A checkpoint's name: 1-64 of letters, digits, dashes, underscores."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not _NAME.issuperset(name):
        text = name[:70] if isinstance(name, str) else type(name).__name__
        raise InvalidError(
            f"not a checkpoint name: {text!r}", "use 1 to 64 letters, digits, dashes and underscores, such as fix-auth"
        )
    return name


def resolve_inside(root: str, path: str) -> str:
    """The real path of `path` (relative to `root`), which must lie in `root` after resolving links. `RefusedError`."""
    if "\0" in path:
        raise RefusedError(f"{path!r} is not a path", "name a file inside the workspace")
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(real_root, path))
    if real != real_root and not real.startswith(real_root.rstrip("/") + "/"):
        raise RefusedError(f"{path!r} is outside the workspace", "name a file inside it")
    return real


def make_folder(root: str, relative: str) -> str:
    """Create a folder of the workspace, step by step, durably, through no link. Returns its path."""
    path = os.path.realpath(root)
    for part in relative.split("/"):
        path = os.path.join(path, part)
        try:
            os.mkdir(path, 0o755)
            sync_folder(os.path.dirname(path))
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise RefusedError(
                    f"{path} is a link or not a folder", "remove it; adjourn follows no link here"
                ) from None
        except OSError as error:
            raise _failed("create", path, error) from error
    return path


def write_file(folder: str, name: str, chunks: bytes | list[bytes] | object, mode: int = 0) -> None:
    """Replace a file atomically and durably: temporary file, fsync, rename, fsync of the folder.

    `mode` is the new file's, at no moment wider; 0 for that of any new file.
    """
    path = os.path.join(folder, name)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode or 0o644)
        try:
            with os.fdopen(handle, "wb") as file:
                if mode:
                    os.fchmod(file.fileno(), mode)
                for chunk in [chunks] if isinstance(chunks, bytes) else chunks:  # type: ignore[attr-defined]
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        sync_folder(folder)
    except OSError as error:
        raise _failed("write", path, error) from error


def create_file(folder: str, name: str, data: bytes, mode: int = 0) -> bool:
    """Make a file whole and durable, through no link; False when something of that name is there. `mode` as above."""
    path, fresh = os.path.join(folder, name), f".{os.urandom(8).hex()}.new"
    if os.path.lexists(path):
        return False
    write_file(folder, fresh, data, mode)
    try:
        os.link(os.path.join(folder, fresh), path)  # fails where a rename would replace
    except FileExistsError:
        return False
    except OSError as error:
        raise _failed("write", path, error) from error
    finally:
        remove_file(folder, fresh)
    return True


@contextmanager
def locked(folder: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Keep other processes that write into a folder out of it. The lock ends with the process, whatever happens to it.

    Raises `StoreError` when another process keeps it locked for `seconds`.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _failed("open", folder, error) from error
    try:
        _lock(handle, folder, seconds)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise StoreError(
                    f"{folder} is locked by another process ({seconds:g} s waited)",
                    f"find the process with `fuser {folder}`, end it, then try again",
                ) from None
            time.sleep(_LOOK_SECONDS)
        except OSError:
            return  # some network file systems have no locks
        else:
            return


def remove_file(folder: str, name: str) -> None:
    """Delete a file of a folder. Raises `StoreError`; a missing file is no error."""
    try:
        os.unlink(os.path.join(folder, name))
        sync_folder(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _failed("remove", os.path.join(folder, name), error) from error


def sync_folder(folder: str) -> None:
    """Write a folder's entries to disk. Raises `OSError`."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unreadable(path: str, error: OSError) -> InvalidError:
    """What to say of a path that `open_plain` does not open."""
    messages = {
        errno.ELOOP: f"{path} is a symbolic link",
        errno.ENOTDIR: f"{path}: a step of its path is a link or not a folder",
    }
    if message := messages.get(error.errno or 0):
        return InvalidError(message, "name the file itself: adjourn follows no link in a workspace")
    return InvalidError(f"cannot read {path}: {error.strerror}", "name a file that you can read")


def open_regular(path: str, limit: int, root: str = "") -> int:
    """A read handle on a regular file of at most `limit` bytes that is no link. `NotFoundError`, `InvalidError`.

    With `root`, the workspace, no step of the path in it may be a link either.
    """
    try:
        handle = open_plain(path, root or os.path.dirname(path) or os.curdir)
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} does not exist") from error
    except OSError as error:
        raise unreadable(path, error) from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        os.close(handle)
        raise InvalidError(f"{path} is not a regular file of at most {limit} bytes", "name another file")
    return handle


def read_file(path: str, limit: int, root: str = "") -> bytes:
    """The bytes of a regular file of at most `limit` bytes, following no link in its last step; with `root`, in no step in it."""
    with os.fdopen(open_regular(path, limit, root), "rb") as file:
        size = os.fstat(file.fileno()).st_size  # a read takes memory for all that it may return
        data = file.read(min(size, limit) + 1)
        if len(data) > size:  # it grows, or has no size to tell
            data += file.read(limit + 1 - len(data))
    if len(data) > limit:
        raise InvalidError(f"{path} has more than {limit} bytes")
    return data


def read_lines(path: str, limit: int, longest: int) -> Iterator[bytes]:
    """The lines of a regular file of at most `limit` bytes, each with its line feed, read one after the other.

    Raises `InvalidError` at the first that has more than `longest` bytes.
    """
    with os.fdopen(open_regular(path, limit), "rb") as file:
        left, number = limit, 0
        while line := file.readline(longest + 2):
            left, number = left - len(line), number + 1
            if left < 0:
                raise InvalidError(f"{path} has more than {limit} bytes")
            if len(line) > longest + 1:
                raise InvalidError(f"line {number} of {path} has more than {longest} bytes")
            yield line


def read_inside(root: str, path: str, limit: int) -> bytes:
    """The bytes of a regular file of the workspace, wherever in it links lead: what it is exchanged for meanwhile is not followed."""
    return read_file(resolve_inside(root, path), limit, os.path.realpath(root))


def _failed(what: str, path: str, error: OSError) -> StoreError:
    return StoreError(f"cannot {what} {path}: {error.strerror}", "check free space and permissions, then try again")


# --- opening a file through no link

_PLAIN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


_STEP = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW


def relative_inside(path: str, root: str) -> str:
    """The path relative to the workspace `root`, by its text alone; "" for one that leads out of it, or for the root itself."""
    relative = os.path.relpath(path, root)
    return "" if relative in (os.curdir, os.pardir) or relative.startswith("../") else relative


def open_plain(path: str, root: str) -> int:
    """A read handle on a file, of whatever kind; inside the workspace `root` through no link. Raises `OSError`, `ValueError`."""
    relative = relative_inside(path, root) if root else ""
    if not relative:
        return os.open(path, _PLAIN)
    *steps, name = relative.split("/")
    folder = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        for step in steps:
            beneath = os.open(step, _STEP, dir_fd=folder)
            os.close(folder)
            folder = beneath
        return os.open(name, _PLAIN | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)
