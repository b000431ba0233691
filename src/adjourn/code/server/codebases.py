"""The work trees that a server has open, each with its index.

Owns: `Codebases`: opening each once, and what a reply of start_session says of its index and context. Must never: wait for an index.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from adjourn.code.index.codebase import Codebase
from adjourn.code.search import context
from adjourn.code.server.options import CodeOptions
from adjourn.errors import AdjournError

MAX_TREES = 16
"""Maximum number of open work trees; the least recently used one is closed."""
_NOTE = "summaries of the project's documents and rules; read the files themselves for details"


class Codebases:
    """Codebases by root, opened when first used."""

    def __init__(self, options: CodeOptions) -> None:
        self._options = options
        self._open: dict[str, Codebase] = {}
        self._lock = Lock()

    def of(self, root: str) -> Codebase:
        """The codebase of the work tree that contains `root`, indexed in the background."""
        with self._lock:
            found = self._open.pop(root, None)
            if found is None:
                if len(self._open) >= MAX_TREES:
                    self._open.pop(next(iter(self._open))).close()
                found = Codebase(
                    root, embeds=self._options.embeds, language_servers=self._options.language_servers
                )
                found.start()
            self._open[root] = found  # the most recently used one is last
            return found

    def context_of(self, root: str) -> dict[str, Any]:
        """The state of the index, and the summaries of the project's documents and rules."""
        tree = self.of(root)
        state = tree.state()
        available = tree.index is not None
        reply: dict[str, Any] = {
            "chromadb": {
                "available": available,
                "stats": tree.index.stats() if tree.index is not None else {},
                "needs_sync": not tree.complete(),
                "auto_sync": {"started": True} if available else None,
                **({} if available else {"error": state.get("reason", "")}),
            },
            "index_state": state,
        }
        try:
            if context.initialise(tree.repository) is not None:
                reply["context_initialized"] = True
            if (wanted := context.needed(tree.repository)) is not None:
                reply["context_update_required"] = wanted
            kept = context.load(tree.repository)
        except AdjournError as error:
            return {**reply, "context_error": str(error)}
        essential, rules = kept.get("essential_docs") or {}, kept.get("project_rules") or {}
        if isinstance(essential, dict) and isinstance(rules, dict):
            reply["essential_context"] = {
                "design_docs": essential.get("summaries") or [],
                "project_rules": rules.get("summary") or "",
            }
            reply["essential_context_note"] = _NOTE
        return reply

    def close(self) -> None:
        with self._lock:
            for tree in self._open.values():
                tree.close()
            self._open.clear()
