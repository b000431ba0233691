"""What this annex adds: `adjourn ui`, and the page of `adjourn serve`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import closing
from threading import Lock
from typing import TYPE_CHECKING, Any

import click
import msgspec

from adjourn.cli.annexes import AnnexCommand
from adjourn.cli.context import CommandContext, at_store, example, flag, needing, user
from adjourn.cli.output import complain, safe, say
from adjourn.errors import RefusedError
from adjourn.host.clock import now
from adjourn.host.workspace_store import remember

if TYPE_CHECKING:
    from adjourn.policy.contract import Contract
    from adjourn.policy.principal import Principal
    from adjourn.store.base import Store
    from adjourn.ui.site import Notice, Site
    from adjourn.ui.team import TeamPage

    Find = Callable[..., Awaitable[Principal | None]]


@click.command(
    "ui",
    cls=AnnexCommand,
    section="Look",
    short_help="Open a web page with the tasks, and answer what waits.",
    epilog=example("adjourn ui", "adjourn ui --port 8900 --no-open"),
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, metavar="N", help="Listen on this port (default: a free one)."
)
@flag("--no-open", "Only print the link; start no browser.")
@at_store
def ui_(context: CommandContext, *, port: int, no_open: bool) -> None:
    """Serve a web page on this machine: answer what waits for you, in the browser, as it comes up.

    Prints a link that opens the page in one browser, once. Whoever has the page speaks for you. Ctrl-C ends it. Needs the extra `ui`.
    """
    from adjourn.handover.held import UNDO_SECONDS, HeldAnswers

    with needing("ui"):
        from adjourn.ui.server import OtherWorkspaces
        from adjourn.ui.site import Site

    context.store_or_none()  # here, where it is closed when the command ends
    opening = Lock()

    def find_store() -> Store | None:
        with opening:  # requests are answered by several threads
            return context.store_or_none()

    answers: HeldAnswers[Notice] = HeldAnswers(context.clock, UNDO_SECONDS)
    remember(context.root, context.url)
    others = OtherWorkspaces(context.root, user(), context.clock)
    site = Site(context.root, context.tree, find_store, user(), context.clock, answers=answers, others=others)
    others.own = site
    with closing(others):
        serve_page(site, port=port, opens=not no_open)


def serve_page(site: Site, *, port: int, opens: bool) -> None:
    """Serve the page until Ctrl-C. Raises `NotFoundError` without the extra."""
    with needing("ui"):
        from adjourn.ui.server import serve
    try:
        serve(site, port=port, opens=opens, ready=_ui_ready)
    finally:
        for answer in (answer for each in (site, *site.others()) for answer in each.held.held):
            complain(
                f"not recorded: {safe(answer.text)}", "its undo time was not over, so it still waits: answer it again"
            )


def _ui_ready(link: str) -> None:
    say(link)
    complain("the link works once", "open it in your browser; press Ctrl-C here to end the page")


# --- the page of `adjourn serve`


def team_page(ground: Any, origin: str) -> Callable[..., TeamPage]:
    """What makes the page for people at the gateway, whose workspace, store and words are those of `ground`. Raises `NotFoundError` without the extra."""
    from adjourn.aex.layers import narrowed
    from adjourn.log.event import Actor
    from adjourn.policy.contract import read_contract
    from adjourn.policy.principal import SpaceStore
    from adjourn.tasks.approvals import roles_of

    with needing("ui"):
        from adjourn.ui.team import TeamPage

    root = ground.workspace.root

    def make(find: Find, tenants: Any) -> TeamPage:
        def site_of(person: Principal) -> Site:
            from adjourn.ui.site import Site

            def contract() -> Contract:
                full = read_contract(root)
                return msgspec.structs.replace(full, policy=narrowed(full.policy, person))

            space = tenants.space(person)
            if space is None:
                raise RefusedError("the gateway's clients do not authenticate", "add [auth] to adjourn.toml")
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
                roles=roles_of(person),
            )  # each answer is recorded at once: who gave it may have no login any more some seconds later

        return TeamPage(find, site_of, origin)

    return make
