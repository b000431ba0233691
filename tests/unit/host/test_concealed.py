"""What other processes of the same user learn of a process that conceals itself."""

from __future__ import annotations

import os
import subprocess
import sys

from adjourn.host.executables import common

HIDING = """
import ctypes, os, sys
from adjourn.host.executables import conceal
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a process that began as this user
if sys.argv[1] == "hide":
    os.environ["LATE"] = "secret-late"
    conceal()
    assert os.environ["STORE"] == "secret-store"
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    assert getenv(b"STORE") == b"secret-store" and getenv(b"LATE") == b"secret-late"
print("ready", flush=True)
sys.stdin.read()
"""
READING = """
import os, sys
if os.getuid() == 0 and sys.argv[2] == "drop":
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for name in ("environ", "mem"):
    try:
        with open(f"/proc/{sys.argv[1]}/{name}", "rb") as file:
            print(name, b"secret-store" in file.read(100_000) if name == "environ" else "open")
    except OSError as error:
        print(name, type(error).__name__)
"""


def seen(mode: str, reader: str) -> str:
    """What a process reads of another one."""
    variables = {**os.environ, "STORE": "secret-store"}
    with subprocess.Popen(
        [sys.executable, "-c", HIDING, mode], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as hiding:
        assert hiding.stdout is not None
        assert hiding.stdout.readline() == b"ready\n"
        read = subprocess.run(
            [sys.executable, "-c", READING, str(hiding.pid), reader], capture_output=True, text=True, check=True
        )
        hiding.communicate(b"")
        assert hiding.returncode == 0
        return " ".join(read.stdout.split())


def test_what_another_process_of_the_user_reads_of_one_that_conceals_itself() -> None:
    """Nothing, where it could read all before; its own variables stay as they were."""
    if os.path.exists("/proc/self/environ"):  # as on Linux: elsewhere nobody can look
        assert seen("show", "drop") == "environ True mem open"
        assert seen("hide", "drop") == "environ PermissionError mem PermissionError"


def test_the_environment_that_root_sees_has_no_secret() -> None:
    """Root may open it, and finds the secrets overwritten."""
    assert not seen("hide", "stay").startswith("environ True")


def test_the_common_variables_are_those_that_programs_run_with() -> None:
    """No variable that somebody made up, nor one of adjourn or of a database."""
    given = {
        "PATH": "/bin", "HOME": "/home/ann", "LC_ALL": "C", "GITHUB_TOKEN": "t", "ADJOURN_CONFIG": "/c", "PGPASSWORD": "p",
        "HTTPS_PROXY": "http://u:p@proxy", "NODE_OPTIONS": "-r x", "PYTHONPATH": "/x", "LD_PRELOAD": "/x",
    }  # fmt: skip
    assert common(given) == {"PATH": "/bin", "HOME": "/home/ann", "LC_ALL": "C"}
