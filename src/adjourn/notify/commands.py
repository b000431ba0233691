"""What this annex adds to the command line: `adjourn notify`."""

from __future__ import annotations

import os
import re
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING

import click

from adjourn.cli.annexes import AnnexCommand
from adjourn.cli.context import CommandContext, at_store, example, flag, text_option
from adjourn.cli.output import complain, counted, safe, say
from adjourn.errors import UsageError
from adjourn.host.keys import LINK, page_link, reading_secret

if TYPE_CHECKING:
    from adjourn.handover.inbox import Inbox, KnownStream
    from adjourn.notify.notifier import Notifier
    from adjourn.store.base import Store

_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(?::\d{1,5})?/?|https?://\[[0-9A-Fa-f:]+\](?::\d{1,5})?/?")
"""Of a page: a host, perhaps with a port, and no path."""


@click.command(
    "notify",
    cls=AnnexCommand,
    section="Answer",
    short_help="Notify you, by command or webhook, when something waits.",
    epilog=example("adjourn notify --page 8900", "adjourn notify --test", "adjourn notify --once"),
)
@flag("--once", "Look once, deliver what is due, and end.")
@flag("--test", "Send each target a test, and end.")
@text_option(
    "--page PORT|URL", "Add links to the page that `adjourn ui --port PORT` serves here, or that a gateway has at URL."
)
@at_store
def notify(context: CommandContext, *, once: bool, test: bool, page: str) -> int:
    """Notify you when something starts to wait: by a command, a webhook or the desktop, until Ctrl-C.

    Who is notified is in notify.toml of your configuration folder (`adjourn help notifications`). Each target gets each notification at least once,
    also after a kill: what was not confirmed is sent again, with the same id. Exit code 1 when --test or --once left something undelivered.
    """
    from adjourn.handover.inbox import find_waiting
    from adjourn.notify.notifier import Notifier, Outbox
    from adjourn.notify.senders import key_of, name_of, read_settings, sender_of

    links = _links_to(page, context.root) if page else ""
    settings = read_settings(context.root)
    targets = {key_of(target): target for target in settings.targets()}
    streams: dict[str, KnownStream] = {}

    def find(store: Store) -> Inbox:
        inbox = find_waiting(store, clock=context.clock, secret=reading_secret(), known=streams)
        return inbox._replace(items=[item for item in inbox.items if not settings.kinds or item.kind in settings.kinds])

    notifier = Notifier(
        {key: sender_of(target, context.root) for key, target in targets.items()},
        {key: name_of(target) for key, target in targets.items()},
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
            say(f"{counted(outbox.count, 'notification')} left to deliver" if outbox.count else "all delivered")
            return 1 if outbox.count else 0
        say(f"notifying {safe(', '.join(map(name_of, targets.values())))}; Ctrl-C ends")
        notifier.run(context.store_or_none, outbox, workspace, _until_told())
    return 0


def _links_to(page: str, root: str) -> str:
    """What links start with. Raises `UsageError` for what is neither a port nor the address of a page."""
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
