"""The command line: one file per command, each loaded when it is asked for.

Owns: `main`. Must never: load the framework just to print a version.
"""

from __future__ import annotations

from adjourn.cli.shared.failures import exit_code


def main(arguments: list[str], program: str = "adjourn") -> int:
    """Run one command of `adjourn` or `aex`; returns its exit code."""
    if arguments in (["--version"], ["-V"]):
        from adjourn.cli.setup.version import say_version  # noqa: PLC0415  # as below

        return exit_code(lambda: say_version(program, as_json=False))
    if arguments[:2] == ["completion", "--names"] and arguments[2:] in (["tasks"], ["checkpoints"]):
        from adjourn.cli.shared.names import say_names  # noqa: PLC0415  # as below

        return exit_code(lambda: say_names(arguments[2]))
    from adjourn.cli import app  # noqa: PLC0415  # the framework, 30 ms

    return app.main(arguments, program, app.aex_group if program == "aex" else app.group)
