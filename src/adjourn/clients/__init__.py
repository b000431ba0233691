"""A client process at work: its store, its task and its session; also for hooks, which live for one call.

Owns: opening and closing what a client uses. Must never: speak a client's protocol.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.clients.client import ClientContext
    from adjourn.clients.client_options import ClientOptions
    from adjourn.clients.explaining import CallSetting, ExplainedCall, explain_call
    from adjourn.clients.hook_client import HookClient
    from adjourn.clients.hook_session import ClientCapabilities
    from adjourn.clients.listed_tools import keep_tools, known_tools
    from adjourn.clients.person import client_of
    from adjourn.clients.replaying import replay_calls

__all__ = [
    "CallSetting",
    "ClientCapabilities",
    "ClientContext",
    "ClientOptions",
    "ExplainedCall",
    "HookClient",
    "client_of",
    "explain_call",
    "keep_tools",
    "known_tools",
    "replay_calls",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "client": ("ClientContext",),
            "client_options": ("ClientOptions",),
            "explaining": ("CallSetting", "ExplainedCall", "explain_call"),
            "hook_client": ("HookClient",),
            "hook_session": ("ClientCapabilities",),
            "listed_tools": ("keep_tools", "known_tools"),
            "person": ("client_of",),
            "replaying": ("replay_calls",),
        },
    )
