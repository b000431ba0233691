"""What programs that adjourn starts must not learn: where its history is and how to get in.

A program of the same user can read some of it elsewhere (`~/.pgpass`). This keeps it from being delivered, printed in a crash report
of that program, or used by mistake.

Owns: which variables are ours. Must never: hand one of them on.
"""

from __future__ import annotations

import os

from adjourn.store.passwords import is_postgres

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping

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
    kept = common(os.environ)
    entries: list[int] = []
    while (entry := environ[len(entries)]) is not None:
        entries.append(entry)
    for place in entries:
        name, _, value = ctypes.string_at(place).partition(b"=")
        if name in os.environb and os.fsdecode(name) not in kept:
            os.environb[name] = os.environb[name]  # a copy elsewhere takes its place
            if place not in (environ[index] for index in range(len(entries))):
                ctypes.memset(place + len(name) + 1, 0, len(value))
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


_PR_SET_DUMPABLE = 4


def for_others(environment: Mapping[str, str], store: str = "") -> dict[str, str]:
    """The variables for a program that is not adjourn. `store` is the URL of the store where it is not in a variable.

    PGPASSWORD goes along only where the store is no PostgreSQL database: else it opens ours.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith(OURS)}
    if is_postgres(store or environment.get("ADJOURN_STORE", "")):
        kept.pop("PGPASSWORD", None)
    return kept
