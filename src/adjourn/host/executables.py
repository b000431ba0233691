"""Starts programs safely: finds them on PATH, but never one that an agent could have put there, and keeps our variables from them.

PATH may hold relative entries (`.`, an empty one) or a folder of the workspace. A program found there is a file that an agent
can write. The same goes for the other variables by which code is found. Of the variables, a program must not learn where our history is
and how to get in: it may print them in a crash report, or use them by mistake.

Loaded before the proxy starts its upstream, so it imports only os and sys.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping


OF_CODE = (
    "PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP",
)  # fmt: skip
"""Variables with colon-separated places from which code is loaded."""
OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder that adjourn is imported from. For its own developers it is in the workspace."""


def find(name: str, workspace: str = "", *, given: Mapping[str, str] | None = None) -> str | None:
    """The absolute path of a program on PATH, looked up in absolute entries outside of `workspace`; None when there is none.

    A name with a slash is no name on PATH, and is returned as it is. PATH is that of the `given` variables, else that of this process.
    """
    if "/" in name:
        return name
    for folder in _folders(workspace, given):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path) and not lies_in(path, workspace):
            return path
    return None


def outside(given: Mapping[str, str], workspace: str) -> dict[str, str]:
    """Variables for a program of adjourn: those by which code is found name no relative path, and none in `workspace`."""
    by_name = {name: value for name, value in given.items() if name not in OF_CODE}
    for name in OF_CODE:
        entries = [entry for entry in given.get(name, "").split(os.pathsep) if _is_safe(entry, workspace)]
        if entries:
            by_name[name] = os.pathsep.join(entries)
    return by_name


def strays(given: Mapping[str, str], workspace: str) -> list[tuple[str, str]]:
    """Variable and entry of what leads into `workspace` or is relative. Programs on PATH are the person's own, wherever they are."""
    return [
        (name, entry)
        for name in OF_CODE
        if given.get(name)
        for entry in given[name].split(os.pathsep)
        if not _is_safe(entry, "" if name == "PATH" else workspace)
    ]


def lies_in(path: str, workspace: str) -> bool:
    """Whether a path, or what it links to, lies in `workspace`. Nothing lies in "" or "/"."""
    root = os.path.realpath(workspace) if workspace else "/"
    return root != "/" and any(
        os.path.join(place, "").startswith(os.path.join(root, ""))
        for place in (os.path.abspath(path), os.path.realpath(path))
    )


def _is_safe(entry: str, workspace: str) -> bool:
    return os.path.isabs(entry) and (entry == OWN or not lies_in(entry, workspace))


def _folders(workspace: str, given: Mapping[str, str] | None) -> list[str]:
    return [
        folder
        for folder in os.get_exec_path(given)
        if os.path.isabs(folder) and not (workspace and lies_in(folder, workspace))
    ]


# --- this Python


def python_command(*arguments: str, executable: str = "") -> list[str]:
    """The words that start Python with `arguments`; `executable` is another one than the one that runs this."""
    return [executable or sys.executable, "-P", *arguments]


def leave_working_folder() -> None:
    """Import nothing from the current folder from here on, unless adjourn itself was."""
    try:
        here = os.getcwd()
    except FileNotFoundError:
        here = ""
    named = os.environ.get("PYTHONPATH", "")
    brought = {os.path.abspath(entry) for entry in named.split(os.pathsep)} if named and here else ()
    sys.path[:] = [
        entry
        for entry in sys.path
        if entry == OWN or (os.path.isabs(entry) and entry != here and not (entry in brought and lies_in(entry, here)))
    ]


# --- the variables of other programs

OURS = "ADJOURN_"
"""Prefix of adjourn's variables."""


COMMON = (
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
    "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
)  # fmt: skip
"""What programs need to run and to find their files and certificates: none has a secret."""


def common(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables for a program that works for one of several: those of `COMMON`, and of the locale."""
    return {name: value for name, value in environment.items() if name in COMMON or name.startswith("LC_")}


def conceal() -> None:
    """Keep programs that this process starts from reading its environment and memory, where the system can do that (Linux).

    The environment that the process began with is overwritten except for what is common, which /proc/PID/environ would show; the
    variables themselves stay. Then the process is made one that only root may look into.
    """
    import ctypes  # a proxy starts without it

    try:
        libc = ctypes.CDLL(None)
        environ = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")
        prctl = libc.prctl
    except (OSError, ValueError, AttributeError):
        return
    by_name = common(os.environ)
    entries: list[int] = []
    while (entry := environ[len(entries)]) is not None:
        entries.append(entry)
    for place in entries:
        name, _, value = ctypes.string_at(place).partition(b"=")
        if name in os.environb and os.fsdecode(name) not in by_name:
            os.environb[name] = os.environb[name]  # a copy elsewhere takes its place
            if place not in (environ[index] for index in range(len(entries))):
                ctypes.memset(place + len(name) + 1, 0, len(value))
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


_PR_SET_DUMPABLE = 4


def for_others(environment: Mapping[str, str], store: str = "") -> dict[str, str]:
    """The variables for a program that is not adjourn. `store` is the URL of the store where it is not in a variable.

    PGPASSWORD goes along only where the store is no PostgreSQL database: else it opens ours.
    """
    from adjourn.store.url import is_postgres

    others = {name: value for name, value in environment.items() if not name.startswith(OURS)}
    if is_postgres(store or environment.get("ADJOURN_STORE", "")):
        others.pop("PGPASSWORD", None)
    return others
