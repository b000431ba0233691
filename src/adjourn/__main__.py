"""Entry point. `proxy` (started once a session) takes a fast path; everything else goes to the command line proper.

Owns: that choice, and turning errors into exit codes. Must never: import click for the fast path.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run `adjourn`. Ends the process."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["proxy"] and not {"--help", "-h"} & set(arguments[: _before_upstream(arguments)]):
        _leave(_proxy(arguments[1:]))
    from adjourn.cli import run  # noqa: PLC0415  # the slow path

    sys.exit(run(arguments))


def _before_upstream(arguments: list[str]) -> int:
    return arguments.index("--") if "--" in arguments else len(arguments)


def _proxy(arguments: list[str]) -> int:
    from adjourn.errors import AdjournError  # noqa: PLC0415
    from adjourn.proxy.options import parse  # noqa: PLC0415

    try:
        options = parse(arguments)
        from adjourn.proxy.main import start  # noqa: PLC0415

        return start(options)
    except AdjournError as error:
        sys.stderr.write(f"adjourn: {error}\n")
        return error.exit_code


def _leave(code: int) -> None:
    """End at once: reading threads may be blocked, and everything that matters is on disk."""
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
