"""`adjourn proxy`, `hook`, `connect`, `login` and `logout`: the edges between clients and servers.

`proxy` and `hook` start in `adjourn.__main__`, without coming here; here is their help, made from the table of options that they parse.
"""

from __future__ import annotations

import os
import sys

import click

from adjourn.cli.context import click_options, example


class EdgeCommand(click.Command):
    """Takes every argument as it is, but for a --help in front of the upstream's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = args[: args.index("--")] if "--" in args else args
        if {"--help", "-h"} & set(own) and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        ctx.args = args
        return args


@click.command(
    "proxy",
    cls=EdgeCommand,
    params=click_options("proxy"),
    options_metavar="[OPTIONS] -- COMMAND...",
    epilog=example(
        "adjourn proxy -- npx -y your-mcp-server", "adjourn proxy --task release-42 --policy ci.aex -- ./server"
    ),
)
def proxy_() -> None:
    """Run the MCP server COMMAND behind a proxy that checks and records calls.

    The policy decides on each call. Calls are recorded before they are forwarded, and checkpointed, so that any later session can
    continue. Configure the client to start this command instead of the server.

    Exit codes: 0 the client ended, 1 the upstream or the start failed, 2 wrong usage.
    """
    from adjourn.proxy.launch import start

    sys.stdout.flush()
    code = start(click.get_current_context().args)
    sys.stderr.flush()
    os._exit(code)  # reading threads may be blocked


@click.command(
    cls=EdgeCommand,
    params=click_options("hook"),
    epilog=example("adjourn hook < call.json", "adjourn hook --policy strict.aex --format aex < call.json"),
)
def hook() -> int:
    """Answer a client's hooks before it runs one of its tools.

    Reads one call as JSON, as Claude Code gives it to a PreToolUse hook, and prints allow, deny or ask with the rule that decides.
    Calls are recorded, and count toward the same budget as those of a proxy.

    Exit codes: 0 answered, 2 refused because no answer could be given.
    """
    from adjourn.hooks.main import run  # not for --help

    return run(click.get_current_context().args)
