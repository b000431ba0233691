"""The code-intelligence server: search, symbols, meaning, and guided sessions in a repository.

Owns: one edge of adjourn; its folders are layers: server, sessions, workflow, search, index and git, model. Must never: be imported by
the core or by another edge.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.code.index.vectors import set_paused
    from adjourn.code.model.repository import CodeRepository
    from adjourn.code.search.engines import engines, findings
    from adjourn.code.server.http_transport import serve_http
    from adjourn.code.server.options import CodeOptions, command_words, named_server
    from adjourn.code.server.server import CodeServer
    from adjourn.code.server.stdio_transport import serve_stdio
    from adjourn.code.server.tools import TOOLS
    from adjourn.code.sessions.checkpoint_file import read_all, summary
    from adjourn.code.sessions.last_step import last_step
    from adjourn.code.sessions.status import status
    from adjourn.code.workflow.worktree import Worktree

__all__ = [
    "TOOLS", "CodeOptions", "CodeRepository", "CodeServer", "Worktree", "command_words", "engines", "findings", "last_step", "named_server", "read_all",
    "serve_http", "serve_stdio", "set_paused", "status", "summary",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {
        "index.vectors": ("set_paused",),
        "model.repository": ("CodeRepository",),
        "search.engines": ("engines", "findings"),
        "server.http_transport": ("serve_http",),
        "server.options": ("CodeOptions", "command_words", "named_server"),
        "server.server": ("CodeServer",),
        "server.stdio_transport": ("serve_stdio",),
        "server.tools": ("TOOLS",),
        "sessions.checkpoint_file": ("read_all", "summary"),
        "sessions.last_step": ("last_step",),
        "sessions.status": ("status",),
        "workflow.worktree": ("Worktree",),
    })  # fmt: skip
