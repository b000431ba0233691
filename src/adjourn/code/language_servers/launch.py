"""Becomes a language server that ends with the process that asked for it: `python -m adjourn.code.language_servers.launch PID PROGRAM ...`.

Owns: asking the kernel to kill this process with its parent. Must never: outlive a parent that has already exited.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it exited before the kernel knew
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main()
