"""What this annex adds to the command line: `adjourn serve` with its keys and logins, and `adjourn connect`."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from adjourn.cli import annexes
from adjourn.cli.annexes import AnnexCommand, AnnexGroup
from adjourn.cli.context import (
    CommandContext,
    at_store,
    example,
    flag,
    for_machines,
    in_folder,
    needing,
    speak,
    text_option,
)
from adjourn.cli.output import complain, safe, say, say_json, say_table
from adjourn.cli.terminal import Spinner
from adjourn.cli.usage import SuggestingGroup
from adjourn.errors import AdjournError, NotFoundError, UsageError
from adjourn.gateway.first_settings import SETTINGS_FILE, init
from adjourn.host import keys
from adjourn.host.executables import conceal
from adjourn.host.finding import DEFAULT_STORE, Workspace, workspace_of
from adjourn.log.event import timestamp
from adjourn.store.url import check_argument

if TYPE_CHECKING:
    from adjourn.gateway.api_keys import ApiKey
    from adjourn.gateway.app import GatewayApp
    from adjourn.gateway.http_pool import Credentials
    from adjourn.gateway.settings import GatewaySettings
    from adjourn.policy.contract import Contract
    from adjourn.relay.ports import StderrLog


@click.group(
    "serve",
    cls=AnnexGroup,
    section="Team",
    short_help="Serve MCP servers to a team over HTTP; its keys and logins.",
    invoke_without_command=True,
    epilog=example(
        "adjourn serve init tracker=https://tracker.example/mcp",
        "adjourn serve --check",
        "adjourn serve",
        "adjourn serve keys",
    ),
)
@text_option("--config FILE", f"The servers and the address (default: {SETTINGS_FILE} in the workspace).")
@text_option(
    "--store URL",
    "Keep history in this store (default: $ADJOURN_STORE, else .aex/adjourn.db).",
    callback=lambda _ctx, _param, value: check_argument(value),
)
@flag("--log-json", "Log to stderr as JSON, one object per line.")
@flag("--check", "Check settings, store, servers and which of their tools the policy allows; serve nothing.")
@in_folder
@for_machines
@click.pass_context
def serve(ctx: click.Context, *, config: str, store: str, log_json: bool, check: bool, as_json: bool) -> int:
    """Serve MCP servers over HTTP: each call is decided on by the policy, and recorded, as behind `adjourn proxy`.

    Clients reach a server at /NAME/mcp, a certain task of it at /NAME/t/TASK/mcp. Ctrl-C ends it. Needs the extra `gateway`.
    --check starts servers that are commands, and calls no tool; exit code 1 where something cannot be used.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if as_json and not check:
        raise UsageError("--json is for --check", "use --log-json for the log")
    start = read_start(config)
    if check:
        return _checked(start, store, as_json=as_json)
    with needing("gateway"):
        from adjourn.gateway.routing import Reload
        from adjourn.gateway.server import listen
        from adjourn.gateway.server import serve as serve_gateway
    from adjourn.relay.ports import StderrLog

    listening = listen(start.settings)
    report = StderrLog(as_json=log_json or start.settings.log == "json")
    conceal()
    with open_gateway(start, store, report) as app:
        address = listening.getsockname()[0]
        reload = Reload(start.path, start.settings, address, app.change, report)
        serve_gateway(app, listening, _ready, reload=reload.now, page=start.settings.page.listen)
    return 0


serve.add_command(init)


def _checked(start: GatewayStart, store: str, *, as_json: bool) -> int:
    """Print what of a gateway could be used, before it is started. Returns the exit code."""
    from adjourn.gateway.preflight import check_servers, check_store
    from adjourn.host.workspace_store import shown_store

    url = store or os.environ.get("ADJOURN_STORE", "") or DEFAULT_STORE
    with Spinner("checking"):
        failure = check_store(start.workspace.root, url)
        servers = list(check_servers(start.settings, start.contract.policy, start.workspace.tree))
    usable = [server for server in servers if server.is_usable]
    is_ready = not failure and len(usable) == len(servers)
    if as_json:
        say_json(
            ready=is_ready,
            settings=start.path,
            store={"url": shown_store(url), "failure": failure},
            servers=[server._asdict() | {"usable": server.is_usable} for server in servers],
        )
        return 0 if is_ready else 1
    stores = "" if not failure else ", the store cannot be used"
    counted = f"{len(usable)} of {len(servers)} servers can be used{stores}"
    say(f"{'ready' if is_ready else 'NOT READY'}: {counted}", "green" if is_ready else "red")
    say(f"  settings: {safe(start.path)}")
    say(f"  store: {safe(shown_store(url))}{': ' * bool(failure)}{safe(failure)}")
    if start.settings.authorize.listen:
        say(f"  authorize: decides for another gateway at {safe(start.settings.authorize.listen)}")
    for server in servers:
        say(f"  {safe(str(server))}", "" if server.is_usable else "red")
    return 0 if is_ready else 1


class GatewayStart(NamedTuple):
    """What a gateway is started with. `path` is that of the settings."""

    workspace: Workspace
    path: str
    settings: GatewaySettings
    contract: Contract


def read_start(config: str = "") -> GatewayStart:
    """Read the settings, from `config` or the workspace's own file, and the policy. Raises `AdjournError`."""
    from adjourn.policy.contract import read_contract

    with needing("gateway"):
        from adjourn.gateway.settings import read_settings
    workspace = workspace_of()
    path = os.path.abspath(config or os.path.join(workspace.root, SETTINGS_FILE))
    settings = read_settings(path)
    if settings.authorize.listen:
        with needing("authorize"):
            import adjourn.gateway.authorization  # noqa: F401  # its packages
    return GatewayStart(workspace, path, settings, read_contract(workspace.root, searched=workspace.searched()))


@contextmanager
def open_gateway(start: GatewayStart, store: str, report: StderrLog) -> Iterator[GatewayApp]:
    """The application, for as long as its store is open. Raises `AdjournError`."""
    with needing("gateway"):
        from adjourn.gateway.app import GatewayApp
        from adjourn.gateway.contexts import GatewayContext
        from adjourn.gateway.incidents import Incidents, places_of_gateway
        from adjourn.gateway.settings import store_files
    from adjourn.host.workspace_store import open_at

    root, settings = start.workspace.root, start.settings
    url = store or os.environ.get("ADJOURN_STORE", "")
    secret = (start.path, *store_files(url, os.environ))
    incidents = Incidents(report, root, places_of_gateway(url, secret))
    with closing(open_at(root, store)) as kept, closing(open_at(root, store)) as for_lease:
        ground = GatewayContext(
            start.workspace, start.contract, incidents.store(kept), incidents.store(for_lease), incidents, url, secret
        )
        page = None
        if settings.page.listen:
            page = annexes.load("adjourn.pages", "ui")(ground, settings.page.public)
        yield GatewayApp(settings, ground, report, page)


def _ready(address: str) -> None:
    """Print the address at once, also into a pipe: whoever started this waits for it."""
    say(address)
    sys.stdout.flush()


# --- `adjourn connect`

SECONDS = 600


@click.command(
    "connect",
    cls=AnnexCommand,
    section="Started by clients",
    short_help="Reach an MCP server over HTTP from stdin and stdout.",
    epilog=example("adjourn proxy --name tracker -- adjourn connect https://tracker.example/mcp"),
)
@click.argument("url")
@text_option("--bearer-env VAR", "Send the token in this variable of the environment.")
@text_option("--header-env HEADERS", "Send headers, each from a variable: NAME=VAR, separated by commas.")
@click.option(
    "--seconds", type=click.IntRange(1, 86_400), default=SECONDS, show_default=True, metavar="N",
    help="Wait so many seconds for the first answer, and between events.",
)  # fmt: skip
@text_option("--ca FILE", "Take certificates that this file signs (default: those of the system).")
@text_option("--certificate FILE", "Show this certificate to the server.")
@text_option("--key FILE", "The key of --certificate (default: it is in the same file).")
@text_option("--http-proxy URL", 'Connect through this proxy; "direct" for none (default: $HTTPS_PROXY).')
@click.option("--renew", default="", metavar="MARK", hidden=True, help="Renew the kept token with this mark, and end.")
def connect(
    url: str, *, bearer_env: str, header_env: str, seconds: int, renew: str, http_proxy: str, **files: str
) -> int:
    """Reach the MCP server at URL over HTTP, from a client that starts servers as commands.

    Speaks Streamable HTTP to the server, and lines of JSON on stdin and stdout. `adjourn proxy --url URL` starts it
    behind the policy.
    Where the server wants a login, `adjourn serve login URL` obtains one. Needs the extra `gateway`.
    """
    from adjourn.gateway.login_store import canonical

    url = canonical(url)
    with needing("gateway"):
        if renew:
            return _renew(url, renew)
        from adjourn.gateway.bridge import connect as run
        from adjourn.gateway.http_pool import from_variables
        from adjourn.gateway.login_store import KeptLogin
        from adjourn.gateway.network_path import path_to
        from adjourn.gateway.settings import ServerSettings

        path = path_to(url, msgspec.convert({"url": url, "proxy": http_proxy, **files}, ServerSettings))
        headers = _headers(header_env)
        credentials: Credentials
        if bearer_env or any(name.lower() == "authorization" for name in headers):
            credentials = from_variables(bearer_env, headers, os.environ)
        else:
            further = from_variables("", headers, os.environ) if headers else None
            credentials = KeptLogin(url, further)
    run(url, credentials, seconds, path)
    return 0


def _headers(text: str) -> dict[str, str]:
    """The variables of the headers that --header-env names. Raises `UsageError`."""
    headers = {name: variable for name, _, variable in (entry.partition("=") for entry in text.split(",") if entry)}
    for name, variable in headers.items():
        is_ours = name.lower().startswith("mcp-") or name.lower() in (
            "content-type",
            "content-length",
            "accept",
            "host",
        )
        if is_ours or not _HEADER.fullmatch(name) or not variable:
            raise UsageError(
                f"--header-env cannot use {name[:80]!r}", "write it as in: --header-env X-Api-Key=VARIABLE"
            )
    return headers


_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")


def _renew(url: str, mark: str) -> int:
    """Renew a kept token; what prevents it goes to whoever started this."""
    from adjourn.gateway.login_flow import renew as login_renew

    try:
        login_renew(url, mark)
    except AdjournError as error:
        print(f"{error.message}; {error.remedy}")
        return 1
    return 0


# --- `adjourn serve login` and `adjourn serve logout`

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e ]{0,2000}")


@serve.command(
    "login",
    short_help="Log in at an MCP server that speaks OAuth; keep the login.",
    epilog=example("adjourn serve login https://tracker.example/mcp", "adjourn serve login"),
)
@click.argument("url", default="")
@for_machines
@text_option("--scope SCOPES", "Ask for these rights (default: those that the server names).")
@text_option("--client-id ID", "The client that the authorization server knows, or the URL of its metadata document.")
@text_option("--client-secret-env VAR", "The variable with the secret of that client.")
@text_option("--issuer URL", "Use this authorization server and no other (default: as the server says).")
@flag("--no-browser", "Open no browser: only show the address.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    metavar="PORT",
    help="Wait on this port for the browser's answer (default: any).",
)
def login_(
    url: str, *, scope: str, client_id: str, client_secret_env: str, issuer: str, port: int | None, **how: bool
) -> None:
    """Log in at the MCP server at URL, which speaks OAuth 2.1, and keep the login for `adjourn connect`, `proxy --url` and `serve`.

    The tokens go to the keyring of the system (with the package `keyring`), else to a file beside your keys that only you can read.
    Without URL, list the logins. Needs the extra `gateway`.
    """
    from adjourn.gateway.login_store import alone, keep

    if not url:
        _show(as_json=how["as_json"])
        return
    keys.check_outside(workspace_of().root)
    if not _SCOPE.fullmatch(scope):
        raise UsageError("--scope has characters that no scope can have", "write names, with a space between them")
    secret = os.environ.get(client_secret_env, "") if client_secret_env else ""
    if client_secret_env and not (secret and client_id):
        raise UsageError(
            f"the variable {client_secret_env[:80]} has no secret, or there is no --client-id for it",
            "set the variable, and give --client-id",
        )
    speak()
    with needing("gateway"):
        from adjourn.gateway.login_flow import LoginOptions, log_in

        options = LoginOptions(scope, client_id, secret, port or 0, issuer, browser=not how["no_browser"])
        login = log_in(url, options, partial(print, file=sys.stderr if how["as_json"] else None, flush=True))
    with alone(url):
        place = keep(login)
    if how["as_json"]:
        say_json(server=login.url, issuer=login.issuer, rights=login.scope, kept=place)
        return
    rights = f" Rights: {login.scope}." if login.scope else ""
    say(safe(f"Logged in at {login.url}, by {login.issuer}.{rights}"))
    say(safe(f"Kept in {'the keyring' if place == 'keyring' else place}."))


def _show(*, as_json: bool) -> None:
    """The logins, without their tokens."""
    from adjourn.gateway.login_store import kept_urls

    rows = [_row(url) for url in kept_urls()]
    if as_json:
        say_json(logins=rows)
    elif not rows:
        say("no login is kept; log in: adjourn serve login URL")
    else:
        head = ("SERVER", "ISSUER", "RIGHTS", "STATE")
        say_table(head, [tuple(safe(row[name.lower()]) for name in head) for row in rows])


def _row(url: str) -> dict[str, str]:
    from adjourn.gateway.login_store import read

    try:
        login = read(url)
    except AdjournError:
        login = None
    if login is None:
        return {"server": url, "issuer": "", "rights": "", "state": "cannot be read"}
    has_ended = bool(login.expires) and not login.refresh and login.expires < time.time()
    state = "ended" if has_ended else "is renewed" if login.refresh else "is not renewed"
    return {"server": url, "issuer": login.issuer, "rights": login.scope, "state": state}


@serve.command(
    "logout",
    short_help="Delete the login at an MCP server, and revoke its tokens.",
    epilog=example("adjourn serve logout https://tracker.example/mcp"),
)
@click.argument("url")
@for_machines
def logout(url: str, *, as_json: bool) -> None:
    """Delete the login at the MCP server at URL, and revoke its tokens where the authorization server can."""
    from adjourn.gateway.login_store import alone, canonical, exists, forget, read

    if not exists(url):
        raise NotFoundError(f"no login is stored for {url[:200]}", "list the logins: adjourn serve login")
    speak()
    with alone(url):
        login = read(url)
        forget(url)
    told = False
    if login is not None:
        with needing("gateway"):
            from adjourn.gateway.login_flow import revoke

            told = revoke(login)
    if as_json:
        say_json(server=canonical(url), revoked=told)
        return
    say(
        "Logged out; the tokens are revoked."
        if told
        else "Logged out. The tokens are deleted here; they are not revoked."
    )


# --- `adjourn serve keys`

MAX_DAYS = 3650


@serve.group(
    "keys",
    cls=SuggestingGroup,
    short_help="Make, list and revoke the keys of clients of `adjourn serve`.",
    invoke_without_command=True,
    epilog=example("adjourn serve keys", "adjourn serve keys add ci --group deploy --days 30"),
)
@at_store
@for_machines
@click.pass_context
def api_keys(ctx: click.Context, context: CommandContext, *, as_json: bool) -> None:
    """List the keys by which clients of `adjourn serve` authenticate, and make or revoke some.

    The store has digests of them only. Without a subcommand, list the keys.
    """
    from adjourn.gateway.api_keys import keys_of

    if ctx.invoked_subcommand is not None:
        return
    store = context.store_or_none()
    api_keys = keys_of(store, keys.secret()) if store is not None else []
    if as_json:
        say_json(keys=[_api_keys_to_json(key) for key in api_keys])
    elif not api_keys:
        say("there are no API keys")
    else:
        rows = [
            (key.id, safe(key.name), key.type, safe(", ".join(key.groups)), _ends(key, context.now)) for key in api_keys
        ]
        say_table(("ID", "NAME", "TYPE", "GROUPS", "ENDS"), rows)


@api_keys.command(epilog=example("adjourn serve keys add ci", "adjourn serve keys add ann --human --group ops"))
@click.argument("name")
@text_option("--group GROUP", "A group of its bearer; may be repeated.", dest="groups", multiple=True)
@click.option(
    "--days", type=click.IntRange(1, MAX_DAYS), default=90, metavar="N", help="End after N days (default: 90)."
)
@flag("--human", "Its bearer is a person, who may answer questions; default: a service.")
@at_store
@for_machines
def add(context: CommandContext, name: str, groups: tuple[str, ...], days: int, *, human: bool, as_json: bool) -> None:
    """Make a key for NAME, and print it. It is shown this once.

    While another key of NAME is there, both have the same bearer: to replace a key, make a new one, then revoke the old one.
    """
    from adjourn.gateway.api_keys import KeyOptions, add_key

    wish = KeyOptions(name, "human" if human else "service", groups, days)
    key = add_key(context.make_store(), keys.secret(), wish, context.now)
    if as_json:
        say_json(_api_keys_to_json(key.key) | {"key": key.text})
        return
    say(key.text)
    complain(f"key {key.key.id} of {name} ends {_ends(key.key, context.now)}", "keep it: it is not shown again")


@api_keys.command(epilog=example("adjourn serve keys revoke 7k3f9q2m1x"))
@click.argument("key_id", metavar="ID")
@at_store
@for_machines
def revoke(context: CommandContext, key_id: str, *, as_json: bool) -> None:
    """Revoke a key by its ID. A gateway that serves refuses it within two seconds."""
    from adjourn.gateway.api_keys import revoke_key

    key = revoke_key(context.store, keys.secret(), key_id, before_writing=speak)
    if as_json:
        say_json(_api_keys_to_json(key) | {"revoked": True})
    else:
        say(f"revoked: {key.id} of {safe(key.name)}")


def _api_keys_to_json(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "type": key.type,
        "groups": list(key.groups),
        "created": timestamp(key.created),
        "expires": timestamp(key.expires),
    }


def _ends(key: ApiKey, now: int) -> str:
    return "(ended)" if key.expires <= now else timestamp(key.expires)[:10]
