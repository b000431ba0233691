"""`adjourn connect`."""

from __future__ import annotations

import os

import click

from adjourn import gateway
from adjourn.cli.shared.context import example
from adjourn.cli.shared.extras import needing
from adjourn.errors import AdjournError
from adjourn.gateway import login

SECONDS = 600


@click.command(
    "connect", epilog=example("adjourn proxy --name tracker -- adjourn connect https://tracker.example/mcp")
)
@click.argument("url")
@click.option(
    "--bearer-env", default="", metavar="VAR", help="Send the token in this variable of the environment."
)
@click.option(
    "--seconds", type=click.IntRange(1, 86_400), default=SECONDS, show_default=True, metavar="N",
    help="How long the server may take to answer, and again after each event.",
)  # fmt: skip
@click.option(
    "--renew", default="", metavar="MARK", hidden=True, help="Renew the kept token with this mark, and end."
)
def connect(url: str, *, bearer_env: str, seconds: int, renew: str) -> int:
    """Reach the MCP server at URL over HTTP, from a client that starts servers as commands.

    Speaks Streamable HTTP or the older HTTP+SSE to the server, and lines of JSON on stdin and stdout. `adjourn proxy --url URL` starts it
    behind the policy.
    Where the server wants a login, `adjourn login URL` obtains one. Needs the extra `gateway`.
    """
    url = login.canonical(url)
    with needing("gateway"):
        if renew:
            return _renew(url, renew)
        run = gateway.connect
        credentials = (
            gateway.from_variables(bearer_env, {}, os.environ) if bearer_env else gateway.KeptLogin(url)
        )
    run(url, credentials, seconds)
    return 0


def _renew(url: str, mark: str) -> int:
    """Renew a kept token; what prevents it goes to whoever started this."""
    try:
        login.renew(url, mark)
    except AdjournError as error:
        print(f"{error.message}; {error.remedy}")
        return 1
    return 0
