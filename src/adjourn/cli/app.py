"""The program `adjourn`, and the one place where errors become lines on stderr and exit codes.

Owns: `group`, `main`. Must never: import a command that was not asked for.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import click

from adjourn import __version__, aex
from adjourn.cli.shared.commands import LazyGroup
from adjourn.cli.shared.context import example
from adjourn.cli.shared.output import complain, safe
from adjourn.errors import AdjournError, NotFoundError

_LOOK = "check the path and its permissions"


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("adjourn init --policy", "adjourn proxy -- npx -y your-mcp-server", "adjourn status"),
)
@click.option("-V", "--version", is_flag=True, help="Print the version.")
@click.pass_context
def group(ctx: click.Context, *, version: bool) -> None:
    """adjourn: an AI agent's work outlives the session that did it.

    Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 refused by a policy or by the holder of a task.
    """
    if version:
        click.echo(f"{ctx.info_name} {__version__}")
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: list[str], program: str = "adjourn", commands: click.Group = group) -> int:
    """Run one of `commands`; every failure is printed on stderr, with the next step. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        result: Any = commands.main(arguments, prog_name=program, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        complain(
            safe(error.format_message()),
            f"`{context.command_path if context else program} --help` tells more",
        )
        return 2
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted")
        return 130
    except AdjournError as error:
        _explain(error)
        return error.exit_code
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        complain(safe(f"{error.filename or 'a file'}: {error.strerror or error}"), _LOOK)
        return 1
    return result if isinstance(result, int) else 0


def _explain(error: AdjournError) -> None:
    findings = getattr(error, "findings", None)
    if findings:
        texts: dict[str, str] = getattr(error, "texts", {})
        for finding in findings:
            click.echo(aex.render(finding, texts.get(finding.source, "")), err=True)
    remedy = error.remedy or (
        _LOOK if isinstance(error, NotFoundError) else ""
    )  # a reader of files has no better one
    complain(safe(error.message), safe(remedy))
