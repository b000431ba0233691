"""`adjourn proxy`, `hook`, `connect`, `login` and `logout`: the edges between clients and servers.

`proxy` and `hook` begin in `adjourn.__main__`, without coming here; here is their help, made from the tables of options that they parse.
"""

from __future__ import annotations

import os
import re
import sys
import time
from functools import partial

import click

from adjourn.cli.shared.context import FILE_PATH, TASK_NAME, example, for_machines, needing
from adjourn.cli.shared.output import safe, say, say_json, say_table
from adjourn.clients.options import Option
from adjourn.errors import AdjournError, NotFoundError, UsageError
from adjourn.hooks.options import OPTIONS
from adjourn.proxy.options import OPTIONS as PROXY_OPTIONS


class EdgeCommand(click.Command):
    """Takes every argument as it is, but for a --help in front of the upstream's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = args[: args.index("--")] if "--" in args else args
        if {"--help", "-h"} & set(own) and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        ctx.args = args
        return args


_COMPLETED = {"--task": TASK_NAME, "--policy": FILE_PATH, "--contract": FILE_PATH}


def _shown(option: Option) -> click.Option:
    kind = click.Choice(option.choices) if option.choices else _COMPLETED.get(option.flag)
    help_ = option.help + (f"  [${option.environment}]" if option.environment else "")
    if not option.metavar:
        return click.Option([option.flag], is_flag=True, help=help_)
    return click.Option([option.flag], metavar=option.metavar, type=kind, help=help_)


@click.command(
    "proxy",
    cls=EdgeCommand,
    params=[_shown(option) for option in PROXY_OPTIONS],
    options_metavar="[OPTIONS] -- COMMAND...",
    epilog=example(
        "adjourn proxy -- npx -y your-mcp-server",
        "adjourn proxy --task release-42 --policy ci.aex -- ./server",
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
    params=[_shown(option) for option in OPTIONS],
    epilog=example("adjourn hook < call.json", "adjourn hook --policy strict.aex --format aex < call.json"),
)
def hook() -> int:
    """Answer a client's hooks before it runs tools of its own.

    Reads one call as JSON, as Claude Code gives it to a PreToolUse hook, and prints allow, deny or ask with the rule that decides.
    Calls are recorded, and count toward the same budget as those of a proxy.

    Exit codes: 0 answered, 2 refused because no answer could be given.
    """
    from adjourn.hooks.main import run  # not for --help

    return run(click.get_current_context().args)


# --- `adjourn connect`

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
    from adjourn.gateway.login.kept import canonical

    url = canonical(url)
    with needing("gateway"):
        if renew:
            return _renew(url, renew)
        from adjourn.gateway.bridge import connect as run
        from adjourn.gateway.http_pool import from_variables
        from adjourn.gateway.routing import KeptLogin

        credentials = from_variables(bearer_env, {}, os.environ) if bearer_env else KeptLogin(url)
    run(url, credentials, seconds)
    return 0


def _renew(url: str, mark: str) -> int:
    """Renew a kept token; what prevents it goes to whoever started this."""
    from adjourn.gateway.login.flow import renew as login_renew

    try:
        login_renew(url, mark)
    except AdjournError as error:
        print(f"{error.message}; {error.remedy}")
        return 1
    return 0


# --- `adjourn login` and `adjourn logout`

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
    from adjourn.gateway.login.kept import alone, keep
    from adjourn.host import keys
    from adjourn.host.finding import workspace_of

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
        from adjourn.gateway.login.flow import Wish, log_in

        wish = Wish(
            scope, client_id, secret, port or 0, issuer, device=how["device"], browser=not how["no_browser"]
        )
        found = log_in(url, wish, partial(print, file=sys.stderr if how["as_json"] else None, flush=True))
    with alone(url):
        place = keep(found)
    if how["as_json"]:
        say_json(server=found.url, issuer=found.issuer, rights=found.scope, kept=place)
        return
    rights = f" Rights: {found.scope}." if found.scope else ""
    say(safe(f"Logged in at {found.url}, by {found.issuer}.{rights}"))
    say(safe(f"Kept in {'the keyring' if place == 'keyring' else place}."))


def _show(*, as_json: bool) -> None:
    """The logins, without their tokens."""
    from adjourn.gateway.login.kept import kept_urls

    rows = [_row(url) for url in kept_urls()]
    if as_json:
        say_json(logins=rows)
    elif not rows:
        say("no login is kept; log in: adjourn login URL")
    else:
        head = ("SERVER", "ISSUER", "RIGHTS", "STATE")
        say_table(head, [tuple(safe(row[name.lower()]) for name in head) for row in rows])


def _row(url: str) -> dict[str, str]:
    from adjourn.gateway.login.kept import read

    try:
        found = read(url)
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
    from adjourn.gateway.login.kept import alone, canonical, exists, forget, read

    with alone(url):
        kept = read(url) if exists(url) else None
        if not forget(url):
            raise NotFoundError(f"there is no login at {url[:200]}", "nothing is to be deleted")
    told = False
    if kept is not None:
        with needing("gateway"):
            from adjourn.gateway.login.flow import revoke

            told = revoke(kept)
    if as_json:
        say_json(server=canonical(url), revoked=told)
        return
    say(
        "Logged out; the tokens are revoked."
        if told
        else "Logged out. The tokens are deleted here; they are not revoked."
    )
