"""`adjourn login` and `adjourn logout`."""

from __future__ import annotations

import os
import re

import click

from adjourn.cli.shared.context import example
from adjourn.cli.shared.extras import needing
from adjourn.cli.shared.output import safe, say
from adjourn.errors import NotFoundError, UsageError
from adjourn.gateway import login
from adjourn.host import keys, workspace_of

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e ]{0,2000}")


@click.command(
    "login",
    epilog=example(
        "adjourn login https://tracker.example/mcp", "adjourn login --device https://tracker.example/mcp"
    ),
)
@click.argument("url")
@click.option(
    "--scope",
    default="",
    metavar="SCOPES",
    help="Ask for these rights (default: those that the server names).",
)
@click.option(
    "--client-id",
    default="",
    metavar="ID",
    help="The client that the authorization server knows, or the URL of its metadata document.",
)
@click.option(
    "--client-secret-env", default="", metavar="VAR", help="The variable with the secret of that client."
)
@click.option(
    "--issuer",
    default="",
    metavar="URL",
    help="Use this authorization server and no other (default: as the server says).",
)
@click.option("--device", is_flag=True, help="Show a code, to be entered in a browser anywhere.")
@click.option("--no-browser", is_flag=True, help="Open no browser: only show the address.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    metavar="PORT",
    help="Wait on this port for the browser's answer (default: any).",
)
def login_(
    url: str,
    *,
    scope: str,
    client_id: str,
    client_secret_env: str,
    issuer: str,
    port: int | None,
    **how: bool,
) -> None:
    """Log in at the MCP server at URL, which speaks OAuth 2.1, and keep the login for `adjourn connect`, `proxy --url` and `serve`.

    The tokens go to the keyring of the system (with the package `keyring`), else to a file beside your keys that only you can read.
    Needs the extra `gateway`.
    """
    keys.check_outside(workspace_of().root)
    if not _SCOPE.fullmatch(scope):
        raise UsageError("--scope has what no scope may have", "write names, with a space between them")
    secret = os.environ.get(client_secret_env, "") if client_secret_env else ""
    if client_secret_env and not (secret and client_id):
        raise UsageError(
            f"the variable {client_secret_env[:80]} has no secret, or there is no --client-id for it",
            "set the variable, and give --client-id",
        )
    with needing("gateway"):
        wish = login.Wish(
            scope, client_id, secret, port or 0, issuer, device=how["device"], browser=not how["no_browser"]
        )
        found = login.log_in(url, wish, lambda text: print(text, flush=True))
    with login.alone(url):
        place = login.keep(found)
    rights = f" Rights: {found.scope}." if found.scope else ""
    say(safe(f"Logged in at {found.url}, by {found.issuer}.{rights}"))
    say(safe(f"Kept in {'the keyring' if place == 'keyring' else place}."))


@click.command("logout", epilog=example("adjourn logout https://tracker.example/mcp"))
@click.argument("url")
def logout(url: str) -> None:
    """Delete the login at the MCP server at URL, and revoke its tokens where the authorization server can."""
    with login.alone(url):
        kept = login.read(url) if login.exists(url) else None
        if not login.forget(url):
            raise NotFoundError(f"there is no login at {url[:200]}", "nothing is to be deleted")
    told = False
    if kept is not None:
        with needing("gateway"):
            told = login.revoke(kept)
    say(
        "Logged out; the tokens are revoked."
        if told
        else "Logged out. The tokens are deleted here; they are not revoked."
    )
