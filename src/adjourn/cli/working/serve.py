"""`adjourn serve`, `ui` and `notify`: what runs beside the sessions until it is stopped."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Lock
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from adjourn.cli.shared.context import FILE_PATH, CommandContext, at_store, example, in_folder, needing, user
from adjourn.cli.shared.output import complain, counted, safe, say
from adjourn.errors import RefusedError, UsageError
from adjourn.host.clock import now
from adjourn.host.executables import conceal
from adjourn.host.finding import workspace_of
from adjourn.host.keys import LINK, page_link, reading_secret
from adjourn.store.passwords import check_argument

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from adjourn.gateway.app import GatewayApp
    from adjourn.gateway.contexts import Ground, Tenants
    from adjourn.gateway.settings import GatewaySettings
    from adjourn.handover.inbox import Inbox, KnownStream
    from adjourn.host.finding import Workspace
    from adjourn.notify.notifier import Notifier
    from adjourn.policy.contract import Contract
    from adjourn.policy.principal import Principal
    from adjourn.relay.stderr_log import StderrLog
    from adjourn.store.base import Store
    from adjourn.ui.site import Site
    from adjourn.ui.team import TeamPage

    Find = Callable[..., Awaitable[Principal | None]]


SETTINGS_FILE = "adjourn.toml"


@click.command("serve", epilog=example("adjourn serve", "adjourn serve --config gateway.toml"))
@click.option(
    "--config",
    default="",
    metavar="FILE",
    type=FILE_PATH,
    help=f"The servers and the address (default: {SETTINGS_FILE} in the workspace).",
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
    start = read_start(config)
    with needing("gateway"):
        from adjourn.gateway.reload import Reload, listen
        from adjourn.gateway.reload import serve as serve_gateway
    from adjourn.relay.stderr_log import StderrLog

    listening = listen(start.settings)
    report = StderrLog(as_json=log_json or start.settings.log == "json")
    conceal()
    with open_gateway(start, store, report) as app:
        address = listening.getsockname()[0]
        reload = Reload(start.path, start.settings, address, app.change, report)
        serve_gateway(app, listening, _ready, reload=reload.now, page=start.settings.page.listen)


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
    return GatewayStart(
        workspace, path, settings, read_contract(workspace.root, searched=workspace.searched())
    )


@contextmanager
def open_gateway(start: GatewayStart, store: str, report: StderrLog) -> Iterator[GatewayApp]:
    """The application, for as long as its store is open. Raises `AdjournError`."""
    with needing("gateway"):
        from adjourn.gateway.app import GatewayApp
        from adjourn.gateway.contexts import Ground
        from adjourn.gateway.replies import Incidents, places_of_gateway
        from adjourn.gateway.settings import store_files
    from adjourn.host.workspace_store import open_at

    root, settings = start.workspace.root, start.settings
    url = store or os.environ.get("ADJOURN_STORE", "")
    secret = (start.path, *store_files(url, os.environ))
    incidents = Incidents(report, root, places_of_gateway(url, secret))
    with closing(open_at(root, store)) as kept, closing(open_at(root, store)) as for_lease:
        ground = Ground(
            start.workspace,
            start.contract,
            incidents.store(kept),
            incidents.store(for_lease),
            incidents,
            url,
            secret,
        )
        page = _page_maker(ground, settings.page.public) if settings.page.listen else None
        yield GatewayApp(settings, ground, report, page)


def _page_maker(ground: Ground, origin: str) -> Callable[..., TeamPage]:
    """What makes the page for people. Raises `NotFoundError` without the extra."""
    from adjourn.aex.layers import narrowed
    from adjourn.log.event import Actor
    from adjourn.policy.contract import read_contract
    from adjourn.policy.principal import SpaceStore

    with needing("ui"):
        from adjourn.ui.team import TeamPage

    root = ground.workspace.root

    def make(find: Find, tenants: Tenants) -> TeamPage:
        def site_of(person: Principal) -> Site:
            from adjourn.ui.site import Site

            def contract() -> Contract:
                whole = read_contract(root)
                return msgspec.structs.replace(whole, policy=narrowed(whole.policy, person))

            space = tenants.space(person)
            if space is None:
                raise RefusedError("nothing tells who asks", "add [auth] to adjourn.toml")
            store, home = SpaceStore(ground.store, space), tenants.home(person)
            nowhere = os.path.join(home, "nothing")  # paths in calls are of other machines
            return Site(
                nowhere,
                nowhere,
                lambda: store,
                Actor(person.shown, "human"),
                now,
                home=home,
                contract=contract,
                words=ground.incidents.words,
            )

        return TeamPage(find, site_of, origin)

    return make


def _ready(address: str) -> None:
    """Print the address at once, also into a pipe: whoever started this waits for it."""
    say(address)
    sys.stdout.flush()


# --- `adjourn ui`


@click.command("ui", epilog=example("adjourn ui", "adjourn ui --port 8900 --no-open"))
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="N",
    help="Listen on this port (default: a free one).",
)
@click.option("--no-open", is_flag=True, help="Only print the link; start no browser.")
@at_store
def ui_(context: CommandContext, *, port: int, no_open: bool) -> None:
    """Serve a web page on this machine: answer what waits for you, in the browser, as it comes up.

    Prints a link that opens the page in one browser, once. Whoever has the page speaks for you. Ctrl-C ends it. Needs the extra `ui`.
    """
    from adjourn.ui.site import Site

    context.store_or_none()  # here, where it is closed when the command ends
    opening = Lock()

    def find_store() -> Store | None:
        with opening:  # requests are answered by several threads
            return context.store_or_none()

    site = Site(context.root, context.tree, find_store, user(), context.clock)
    serve_page(site, port=port, opens=not no_open)


def serve_page(site: Site, *, port: int, opens: bool) -> None:
    """Serve the page until Ctrl-C. Raises `NotFoundError` without the extra."""
    with needing("ui"):
        from adjourn.ui.server import serve
    serve(site, port=port, opens=opens, ready=_ui_ready)


def _ui_ready(link: str) -> None:
    say(link)
    complain("the link works once", "open it in your browser; press Ctrl-C here to end the page")


# --- `adjourn notify`

_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(?::\d{1,5})?/?|https?://\[[0-9A-Fa-f:]+\](?::\d{1,5})?/?")
"""Of a page: a host, perhaps with a port, and no path."""


@click.command(epilog=example("adjourn notify --page 8900", "adjourn notify --test", "adjourn notify --once"))
@click.option("--once", is_flag=True, help="Look once, deliver what is due, and end.")
@click.option("--test", is_flag=True, help="Send each target a test, and end.")
@click.option(
    "--page",
    default="",
    metavar="PORT|URL",
    help="Add links to the page that `adjourn ui --port PORT` serves here, or that a gateway has at URL.",
)
@at_store
def notify(context: CommandContext, *, once: bool, test: bool, page: str) -> int:
    """Notify you when something begins to wait: by a command, a webhook or the desktop, until Ctrl-C.

    Who is notified is in notify.toml of your configuration folder (`adjourn help notifications`). Each target gets each notification at least once,
    also after a kill: what was not confirmed is sent again, with the same id. Exit code 1 when --test or --once left something undelivered.
    """
    from adjourn.handover.inbox import find_waiting
    from adjourn.notify.notifier import Notifier, Outbox
    from adjourn.notify.senders import sender_of
    from adjourn.notify.settings import key_of, name_of, read_settings

    links = _links_to(page, context.root) if page else ""
    settings = read_settings(context.root)
    targets = {key_of(one): one for one in settings.targets()}
    known: dict[str, KnownStream] = {}

    def find(store: Store) -> Inbox:
        found = find_waiting(store, clock=context.clock, secret=reading_secret(), known=known)
        return found._replace(
            items=[one for one in found.items if not settings.kinds or one.kind in settings.kinds]
        )

    notifier = Notifier(
        {key: sender_of(one, context.root) for key, one in targets.items()},
        {key: name_of(one) for key, one in targets.items()},
        find=find,
        clock=context.clock,
        complain=lambda text: complain(safe(text)),
        page=links,
    )
    workspace = os.path.basename(context.root) or "/"
    if test:
        return _test(notifier, workspace)
    with Outbox.opened(context.changes[-1]) as outbox:
        outbox.forget_others(targets)
        if once:
            notifier.look(context.store_or_none(), outbox, workspace)
            for key in targets:
                notifier.deliver_due(outbox, key)
            say(
                f"{counted(outbox.count, 'notification')} left to deliver"
                if outbox.count
                else "all delivered"
            )
            return 1 if outbox.count else 0
        say(f"notifying {safe(', '.join(map(name_of, targets.values())))}; Ctrl-C ends")
        notifier.run(context.store_or_none, outbox, workspace, _until_told())
    return 0


def _links_to(page: str, root: str) -> str:
    """What links begin with. Raises `UsageError` for what is neither a port nor the address of a page."""
    if page.isascii() and page.isdecimal() and 0 < int(page[:6]) < 65_536:
        return page_link(root, int(page))
    if _ADDRESS.fullmatch(page):
        return page.rstrip("/") + LINK
    raise UsageError(
        f"--page is neither a port nor an address: {page[:80]!r}",
        "give the PORT of `adjourn ui --port PORT`, or the address of a gateway's page, as https://inbox.example.com",
    )


def _test(notifier: Notifier, workspace: str) -> int:
    outcomes = notifier.try_each(workspace)
    for name, failed in outcomes.items():
        say(f"{safe(name)}: {safe(failed) if failed else 'delivered'}", "red" if failed else "green")
    return 1 if any(outcomes.values()) else 0


def _until_told() -> threading.Event:
    """What is set by Ctrl-C and SIGTERM."""
    over = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        over.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return over
