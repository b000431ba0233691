"""`adjourn serve`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import click
import msgspec

from adjourn import gateway, ui
from adjourn.aex import narrowed
from adjourn.cli.shared.context import example, in_folder
from adjourn.cli.shared.extras import needing
from adjourn.cli.shared.output import say
from adjourn.errors import RefusedError
from adjourn.host import conceal, now, open_at, workspace_of
from adjourn.log import Actor
from adjourn.policy import Contract, read_contract
from adjourn.relay import StderrLog
from adjourn.store.passwords import check_argument
from adjourn.tasks import SpaceStore

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from adjourn.policy import Principal

    Find = Callable[..., Awaitable[Principal | None]]

FILE = "adjourn.toml"


@click.command("serve", epilog=example("adjourn serve", "adjourn serve --config gateway.toml"))
@click.option(
    "--config",
    default="",
    metavar="FILE",
    help=f"The servers and the address (default: {FILE} in the workspace).",
)
@click.option(
    "--store",
    default="",
    metavar="URL",
    help="Keep history in this store (default: $ADJOURN_STORE, else .aex/adjourn.db).",
    callback=lambda _ctx, _param, value: check_argument(value),
)
@click.option("--log-json", is_flag=True, help="Log to stderr as JSON, one object per line.")
@in_folder
def serve(*, config: str, store: str, log_json: bool) -> None:
    """Serve MCP servers over HTTP: each call is decided on by the policy, and recorded, as behind `adjourn proxy`.

    Clients reach a server at /NAME/mcp, a certain task of it at /NAME/t/TASK/mcp. Ctrl-C ends it. Needs the extra `gateway`.
    """
    workspace = workspace_of()
    path = os.path.abspath(config or os.path.join(workspace.root, FILE))
    settings = gateway.read_settings(path)
    contract = read_contract(workspace.root, searched=workspace.searched())
    with needing("gateway"):
        listen, app = gateway.listen, gateway.GatewayApp
    listening = listen(settings)
    report = StderrLog(as_json=log_json or settings.log == "json")
    conceal()
    url = store or os.environ.get("ADJOURN_STORE", "")
    secret = (path, *gateway.store_files(url, os.environ))
    incidents = gateway.Incidents(report, workspace.root, gateway.places_of_gateway(url, secret))
    with (
        closing(open_at(workspace.root, store)) as kept,
        closing(open_at(workspace.root, store)) as for_lease,
    ):
        ground = gateway.Ground(
            workspace, contract, incidents.store(kept), incidents.store(for_lease), incidents, url, secret
        )
        page = _page_maker(ground, settings.page.public) if settings.page.listen else None
        serving = app(settings, ground, report, page)
        address = listening.getsockname()[0]
        reload = gateway.Reload(path, settings, address, serving.change, report)
        gateway.serve(serving, listening, _ready, reload=reload.now, page=settings.page.listen)


def _page_maker(ground: gateway.Ground, origin: str) -> Callable[..., ui.TeamPage]:
    """What makes the page for people. Raises `NotFoundError` without the extra."""
    with needing("ui"):
        team_page = ui.TeamPage

    root = ground.workspace.root

    def make(find: Find, tenants: gateway.Tenants) -> ui.TeamPage:
        def site_of(person: Principal) -> ui.Site:
            def contract() -> Contract:
                whole = read_contract(root)
                return msgspec.structs.replace(whole, policy=narrowed(whole.policy, person))

            space = tenants.space(person)
            if space is None:
                raise RefusedError("nothing tells who asks", "add [auth] to adjourn.toml")
            store, home = SpaceStore(ground.store, space), tenants.home(person)
            nowhere = os.path.join(home, "nothing")  # paths in calls are of other machines
            return ui.Site(
                nowhere,
                nowhere,
                lambda: store,
                Actor(person.shown, "human"),
                now,
                home=home,
                contract=contract,
                words=ground.incidents.words,
            )

        return team_page(find, site_of, origin)

    return make


def _ready(address: str) -> None:
    """Print the address at once, also into a pipe: whoever started this waits for it."""
    say(address)
    sys.stdout.flush()
