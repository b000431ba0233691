"""The wire: MCP's newline-delimited JSON-RPC frames, decoded as strictly as the strictest peer would."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.mcp.frames import FrameError, Message
    from adjourn.mcp.lenient import UNREADABLE, list_of, members_of, object_of, value_of
    from adjourn.mcp.server_lines import Reply
    from adjourn.mcp.stdio import LineReader, Oversize, write_all
    from adjourn.mcp.unreadable import ids_in, unread_id

__all__ = [
    "UNREADABLE",
    "FrameError",
    "LineReader",
    "Message",
    "Oversize",
    "Reply",
    "ids_in",
    "list_of",
    "members_of",
    "object_of",
    "unread_id",
    "value_of",
    "write_all",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "frames": ("FrameError", "Message"),
            "lenient": ("UNREADABLE", "list_of", "members_of", "object_of", "value_of"),
            "server_lines": ("Reply",),
            "stdio": ("LineReader", "Oversize", "write_all"),
            "unreadable": ("ids_in", "unread_id"),
        },
    )
