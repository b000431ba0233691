"""The edge between an MCP client and an MCP server over stdio: two pipes, one loop, the life of the server."""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.proxy.launch import start
    from adjourn.proxy.options import OPTIONS

__all__ = [
    "OPTIONS",
    "start",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {"launch": ("start",), "options": ("OPTIONS",)})
