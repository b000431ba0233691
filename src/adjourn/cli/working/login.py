"""`adjourn login` and `adjourn logout`."""

from __future__ import annotations

import os
import re
import sys
import time
from functools import partial

import click

from adjourn.cli.shared.context import example, for_machines
from adjourn.cli.shared.extras import needing
from adjourn.cli.shared.output import safe, say, say_json, say_table
from adjourn.errors import AdjournError, NotFoundError, UsageError
from adjourn.gateway import login
from adjourn.host import keys, workspace_of

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e ]{0,2000}")


@click.command(
    "login",
    epilog=example(
        "adjourn login https://tracker.example/mcp",
        "adjourn login --device https://tracker.example/mcp",
        "adjourn login",
    ),
)
@click.argument("url", default="")
@for_machines
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
    Without URL, list the logins. Needs the extra `gateway`.
    """
    if not url:
        _show(as_json=how["as_json"])
        return
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
        found = login.log_in(
            url, wish, partial(print, file=sys.stderr if how["as_json"] else None, flush=True)
        )
    with login.alone(url):
        place = login.keep(found)
    if how["as_json"]:
        say_json(server=found.url, issuer=found.issuer, rights=found.scope, kept=place)
        return
    rights = f" Rights: {found.scope}." if found.scope else ""
    say(safe(f"Logged in at {found.url}, by {found.issuer}.{rights}"))
    say(safe(f"Kept in {'the keyring' if place == 'keyring' else place}."))


def _show(*, as_json: bool) -> None:
    """The logins, without their tokens."""
    rows = [_row(url) for url in login.kept_urls()]
    if as_json:
        say_json(logins=rows)
    elif not rows:
        say("no login is kept; log in: adjourn login URL")
    else:
        head = ("SERVER", "ISSUER", "RIGHTS", "STATE")
        say_table(head, [tuple(safe(row[name.lower()]) for name in head) for row in rows])


def _row(url: str) -> dict[str, str]:
    try:
        found = login.read(url)
    except AdjournError:
        found = None
    if found is None:
        return {"server": url, "issuer": "", "rights": "", "state": "cannot be read"}
    has_ended = bool(found.expires) and not found.refresh and found.expires < time.time()
    state = "ended" if has_ended else "is renewed" if found.refresh else "is not renewed"
    return {"server": url, "issuer": found.issuer, "rights": found.scope, "state": state}


@click.command("logout", epilog=example("adjourn logout https://tracker.example/mcp"))
@click.argument("url")
@for_machines
def logout(url: str, *, as_json: bool) -> None:
    """Delete the login at the MCP server at URL, and revoke its tokens where the authorization server can."""
    with login.alone(url):
        kept = login.read(url) if login.exists(url) else None
        if not login.forget(url):
            raise NotFoundError(f"there is no login at {url[:200]}", "nothing is to be deleted")
    told = False
    if kept is not None:
        with needing("gateway"):
            told = login.revoke(kept)
    if as_json:
        say_json(server=login.canonical(url), revoked=told)
        return
    say(
        "Logged out; the tokens are revoked."
        if told
        else "Logged out. The tokens are deleted here; they are not revoked."
    )
