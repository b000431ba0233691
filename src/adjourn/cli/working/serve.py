"""`adjourn serve`."""

from __future__ import annotations

import os
import sys
from contextlib import closing

import click

from adjourn import gateway
from adjourn.cli.shared.context import example, in_folder
from adjourn.cli.shared.extras import needing
from adjourn.cli.shared.output import say
from adjourn.host import for_others, open_at, workspace_of
from adjourn.policy import read_contract
from adjourn.relay import StderrLog

FILE = "adjourn.toml"


@click.command("serve", epilog=example("adjourn serve", "adjourn serve --config gateway.toml"))
@click.option(
    "--config",
    default="",
    metavar="FILE",
    help=f"The servers and the address (default: {FILE} in the workspace).",
)
@click.option(
    "--store", default="", metavar="URL", help="Keep history in this store.", envvar="ADJOURN_STORE"
)
@click.option("--log-json", is_flag=True, help="Log to stderr as JSON, one object per line.")
@in_folder
def serve(*, config: str, store: str, log_json: bool) -> None:
    """Serve MCP servers over HTTP: each call is decided on by the policy, and recorded, as behind `adjourn proxy`.

    Clients reach a server at /NAME/mcp, a certain task of it at /NAME/t/TASK/mcp. Ctrl-C ends it. Needs the extra `gateway`.
    """
    workspace = workspace_of()
    path = config or os.path.join(workspace.root, FILE)
    settings = gateway.read_settings(path)
    contract = read_contract(workspace.root, searched=workspace.searched())
    with needing("gateway"):
        listen, app = gateway.listen, gateway.GatewayApp
    listening = listen(settings)
    report = StderrLog(as_json=log_json or settings.log == "json")
    environment = for_others(os.environ, store)
    for server in settings.servers.values():  # a server that is a command is not for another server's token
        environment = {name: value for name, value in environment.items() if name not in server.variables}
    with (
        closing(open_at(workspace.root, store)) as kept,
        closing(open_at(workspace.root, store)) as for_lease,
    ):
        ground = gateway.Ground(workspace, contract, kept, environment, for_lease)
        serving = app(settings, ground, report)
        reload = gateway.Reload(path, settings, serving.throttle, report)
        gateway.serve(serving, listening, _ready, reload.now)


def _ready(address: str) -> None:
    """Print the address at once, also into a pipe: whoever started this waits for it."""
    say(address)
    sys.stdout.flush()
