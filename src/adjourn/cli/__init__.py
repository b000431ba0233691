"""The command line: one module per noun, loaded when one of its commands is asked for, and the framework only then."""

from __future__ import annotations

from adjourn.cli.start import exit_code


def main(arguments: list[str], program: str = "adjourn") -> int:
    """Run one command of `adjourn` or `aex`; returns its exit code."""
    if arguments in (["--version"], ["-V"]):
        from adjourn.cli.start import say_version  # as below

        return exit_code(lambda: say_version(program, as_json=False))
    from adjourn.cli import app  # the framework, 30 ms

    return app.main(arguments, program, app.aex_group if program == "aex" else app.group)
