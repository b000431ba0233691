"""The code-intelligence server: search, symbols, meaning, and guided sessions in a repository.

Owns: one edge of adjourn; its folders are layers: server, sessions, workflow, search, index and git, model. Must never: be imported by
the core or by another edge.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.code.model.repository import CodeRepository
    from adjourn.code.search.engines import engines, findings
    from adjourn.code.server.server import CodeServer, run
    from adjourn.code.server.tools import TOOLS
    from adjourn.code.sessions.checkpoint_file import list_all, summary
    from adjourn.code.sessions.journal import last_step
    from adjourn.code.sessions.status import status
    from adjourn.code.workflow.worktree import Worktree

__all__ = [
    "TOOLS",
    "CodeRepository",
    "CodeServer",
    "Worktree",
    "engines",
    "findings",
    "last_step",
    "list_all",
    "run",
    "status",
    "summary",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "model.repository": ("CodeRepository",),
            "search.engines": ("engines", "findings"),
            "server.server": ("CodeServer", "run"),
            "server.tools": ("TOOLS",),
            "sessions.checkpoint_file": ("list_all", "summary"),
            "sessions.journal": ("last_step",),
            "sessions.status": ("status",),
            "workflow.worktree": ("Worktree",),
        },
    )
