"""`adjourn connect`."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import click

from adjourn import gateway
from adjourn.cli.shared.context import example
from adjourn.cli.shared.extras import needing
from adjourn.errors import UsageError

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
def connect(url: str, *, bearer_env: str, seconds: int) -> None:
    """Reach the MCP server at URL over HTTP, from a client that starts servers as commands.

    Speaks Streamable HTTP to the server, and lines of JSON on stdin and stdout. `adjourn proxy --url URL` starts it behind the policy.
    Needs the extra `gateway`.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"{url[:80]!r} is no address of a server", "write http://HOST/PATH or https://HOST/PATH"
        )
    with needing("gateway"):
        run = gateway.connect
        credentials = gateway.from_variables(bearer_env, {}, os.environ)
    run(url, credentials, seconds)
