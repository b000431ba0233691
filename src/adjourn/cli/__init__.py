"""The command line: one file per command, each loaded when it is asked for.

Owns: `main`. Must never: load the framework just to print a version.
"""

from __future__ import annotations

from adjourn import __version__


def main(arguments: list[str], program: str = "adjourn") -> int:
    """Run one command of `adjourn` or `aex`; returns its exit code."""
    if arguments in (["--version"], ["-V"]):
        print(f"{program} {__version__}")
        return 0
    from adjourn.cli import app  # noqa: PLC0415  # the framework, 30 ms

    return app.main(arguments, program, app.aex_group if program == "aex" else app.group)
