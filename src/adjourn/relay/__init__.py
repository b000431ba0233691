"""What passes between one MCP client and one MCP server, whichever way it travels: decided on, recorded, settled, and answered.

An edge (`proxy`: two pipes) gives it lines of either side, an event loop and two outlets.

Owns: the outcome of each message. Must never: read or write a pipe or a socket.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.relay.connection import UNREAD
    from adjourn.relay.ports import (
        MAX_WAITING,
        NEVER,
        CallObserver,
        EventLoop,
        Outcome,
        Outlet,
        Settled,
        SharedCommits,
        Unread,
    )
    from adjourn.relay.relay import Relay, RelayOptions
    from adjourn.relay.request import Request
    from adjourn.relay.stderr_log import StderrLog

__all__ = [
    "MAX_WAITING",
    "NEVER",
    "UNREAD",
    "CallObserver",
    "EventLoop",
    "Outcome",
    "Outlet",
    "Relay",
    "RelayOptions",
    "Request",
    "Settled",
    "SharedCommits",
    "StderrLog",
    "Unread",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "connection": ("UNREAD",),
            "ports": (
                "CallObserver",
                "EventLoop",
                "MAX_WAITING",
                "NEVER",
                "Outcome",
                "Outlet",
                "Settled",
                "SharedCommits",
                "Unread",
            ),
            "relay": ("Relay", "RelayOptions"),
            "request": ("Request",),
            "stderr_log": ("StderrLog",),
        },
    )
