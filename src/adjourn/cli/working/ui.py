"""`adjourn ui`."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import click

from adjourn import ui
from adjourn.cli.shared.context import CommandContext, at_store, example, user
from adjourn.cli.shared.extras import needing
from adjourn.cli.shared.output import complain, say

if TYPE_CHECKING:
    from adjourn.store import Store


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
    context.store_or_none()  # here, where it is closed when the command ends
    opening = Lock()

    def find_store() -> Store | None:
        with opening:  # requests are answered by several threads
            return context.store_or_none()

    site = ui.Site(context.root, context.tree, find_store, user(), context.clock)
    serve_page(site, port=port, opens=not no_open)


def serve_page(site: ui.Site, *, port: int, opens: bool) -> None:
    """Serve the page until Ctrl-C. Raises `NotFoundError` without the extra."""
    with needing("ui"):
        serve = ui.serve
    serve(site, port=port, opens=opens, ready=_ready)


def _ready(link: str) -> None:
    say(link)
    complain("the link works once", "open it in your browser; press Ctrl-C here to end the page")
