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
    """Start the upstream before anything heavy is imported: it boots while we do."""
    from adjourn.errors import AdjournError  # noqa: PLC0415
    from adjourn.proxy.options import parse  # noqa: PLC0415
    from adjourn.proxy.upstream import Upstream, UpstreamError  # noqa: PLC0415

    try:
        options = parse(arguments)
        try:
            upstream = Upstream(options.upstream)
        except UpstreamError as error:
            from adjourn.proxy.main import refuse_all  # noqa: PLC0415

            sys.stderr.write(f"adjourn: {error}\n")
            refuse_all(error.message)
            return error.exit_code
        with _without("typing_extensions"):
            from adjourn.proxy.main import run  # noqa: PLC0415

        return run(options, upstream)
    except AdjournError as error:
        sys.stderr.write(f"adjourn: {error}\n")
        return error.exit_code


class _without:  # noqa: N801  # reads as a phrase where it is used
    """Hide a module while others are imported: msgspec takes typing_extensions where it is there, at 15 ms, for nothing."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __enter__(self) -> None:
        sys.modules.setdefault(self._module, None)  # type: ignore[arg-type]  # what makes its import fail

    def __exit__(self, *exception: object) -> None:
        if sys.modules[self._module] is None:
            del sys.modules[self._module]


def _leave(code: int) -> None:
    """End at once: reading threads may be blocked, and everything that matters is on disk."""
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
