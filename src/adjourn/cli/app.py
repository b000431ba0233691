"""The programs `adjourn` and `aex`: their groups of commands, and wrong usage as lines on stderr.

`aex` has the commands that work on contracts, under their published names, so that configurations stay valid.

Owns: `group`, `aex_group`, `main`. Must never: import a command that was not asked for.
"""

from __future__ import annotations

import sys
from typing import Final

import click

from adjourn.cli.setup.version import say_version
from adjourn.cli.shared.commands import COMMANDS, LazyGroup
from adjourn.cli.shared.context import example, in_folder
from adjourn.cli.shared.failures import exit_code
from adjourn.cli.shared.output import complain, safe
from adjourn.cli.shared.usage import explained


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("adjourn init --policy", "adjourn proxy -- npx -y your-mcp-server", "adjourn status"),
)
@in_folder
@click.option(
    "-V", "--version", is_flag=True, help="Print the version; with --json, also the platform and schemas."
)
@click.option("--json", "as_json", is_flag=True, hidden=True)
@click.pass_context
def group(ctx: click.Context, *, version: bool, as_json: bool) -> None:
    """adjourn: an AI agent's work outlives the session that did it.

    Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 refused by a policy or by the holder of a task.
    """
    if version:
        say_version(ctx.info_name or "", as_json=as_json)
    elif as_json:
        raise click.UsageError("--json belongs to a command or to --version")
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


AEX_COMMANDS: Final = (
    "init", "parse", "check", "compile", "fmt", "sign", "verify", "effective",
    "run", "proxy", "gate", "draft", "review", "classify",
)  # fmt: skip
AEX_RENAMED: Final = {"gate": "hook"}
"""Where the published name is not the one of `adjourn`."""

AEX_TABLE: Final = {name: COMMANDS[AEX_RENAMED.get(name, name)] for name in AEX_COMMANDS}

_AEX_HELP = """aex: run the contract commands of adjourn by their published names.

The commands are those of `adjourn`; `adjourn --help` lists the others. Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 refused by a
policy or by the holder of a task.
"""

aex_group: Final = LazyGroup(
    name="aex",
    table=AEX_TABLE,
    help=_AEX_HELP,
    epilog=example("aex init --policy", "aex check .aex/policy.aex", "aex proxy -- npx -y your-mcp-server"),
    params=group.params,
    callback=group.callback,
    invoke_without_command=True,
    context_settings=group.context_settings,
)


def main(arguments: list[str], program: str = "adjourn", commands: click.Group = group) -> int:
    """Run one of `commands`; every failure is printed on stderr, with the next step. Returns the exit code."""

    def work() -> object:
        stdout = sys.stdout
        try:
            return commands.main(arguments, prog_name=program, standalone_mode=False)
        except SystemExit:
            if sys.stdout is not stdout:  # how click hides that nobody reads
                raise BrokenPipeError from None
            raise
        except click.ClickException as error:
            typed = [word for word in arguments[:1] if word in COMMANDS]
            message, remedy = explained(error, " ".join([program, *typed]))
            complain(safe(message), safe(remedy))
            return 2
        except click.Abort:
            raise KeyboardInterrupt from None

    return exit_code(work)
