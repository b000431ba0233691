"""Run a program, and reap what its children leave behind, as the first process of a machine does.

    python tests/cluster/reaper.py PROGRAM ARGUMENT...

Patroni takes a server that was killed for a living one until somebody has reaped it. The first process of a container may take more
than a second for that.

Owns: nothing. Must never: outlive the program.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

PR_SET_CHILD_SUBREAPER = 36


def main(command: list[str]) -> int:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "this kernel lets no process reap those of its children")
    program = subprocess.Popen(command)
    while True:
        process, status = os.wait()
        if process == program.pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
