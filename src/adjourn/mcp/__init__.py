"""The wire: MCP's newline-delimited JSON-RPC frames, decoded as strictly as the strictest peer would."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.mcp.frames import FrameError, Message
    from adjourn.mcp.server_lines import Reply, ids_in
    from adjourn.mcp.stdio import LineReader, Oversize, write_all

__all__ = [
    "FrameError",
    "LineReader",
    "Message",
    "Oversize",
    "Reply",
    "ids_in",
    "write_all",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "frames": ("FrameError", "Message"),
            "server_lines": ("Reply", "ids_in"),
            "stdio": ("LineReader", "Oversize", "write_all"),
        },
    )
