"""`adjourn hook`, as the command line shows it. The run itself begins in `adjourn.__main__`, without coming here.

Owns: the help, made from the hook's own table of options. Must never: parse an option itself.
"""

from __future__ import annotations

import click

from adjourn.cli.shared.context import example
from adjourn.hooks.options import OPTIONS, Option


def _shown(option: Option) -> click.Option:
    choice = click.Choice(option.choices) if option.choices else None
    help_ = option.help + (f"  [${option.environment}]" if option.environment else "")
    if not option.metavar:
        return click.Option([option.flag], is_flag=True, help=help_)
    return click.Option([option.flag], metavar=option.metavar, type=choice, help=help_)


class HookCommand(click.Command):
    """Takes every argument as it is, but for --help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if {"--help", "-h"} & set(args):
            click.echo(ctx.get_help())
            ctx.exit()
        ctx.args = args
        return args


@click.command(
    cls=HookCommand,
    params=[_shown(option) for option in OPTIONS],
    epilog=example("adjourn hook < call.json", "adjourn hook --policy strict.aex --format aex < call.json"),
)
def hook() -> int:
    """Answer a client's hooks before it runs tools of its own.

    Reads one call as JSON, as Claude Code gives it to a PreToolUse hook, and prints allow, deny or ask with the rule that says so.
    Calls are recorded, and count toward the same budget as those of a proxy.

    Exit codes: 0 answered, 2 refused because no answer could be given.
    """
    from adjourn.hooks.main import run  # noqa: PLC0415  # not for --help

    return run(click.get_current_context().args)
