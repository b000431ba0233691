"""Updates the index and the project context on request.

Owns: `sync_index`. Must never: run by itself; `Codebase.start` does that.
"""

from __future__ import annotations

from typing import Any

import msgspec

from adjourn.code.index.codebase import Codebase
from adjourn.code.model.deadline import Deadline
from adjourn.code.search import agreements, context
from adjourn.errors import StoreError


def sync_index(
    codebase: Codebase,
    path: str = ".",
    *,
    force: bool = False,
    sync_map: bool = True,
    deadline: Deadline | None = None,
) -> dict[str, Any]:
    """Index changed files (all files with `force`) of the whole work tree, and return statistics."""
    codebase.repository.existing(path)
    if codebase.index is None:
        raise StoreError(
            f"the index is unavailable: {codebase.state()['reason']}", "make .code-intel/ writable"
        )
    report = codebase.sync(deadline, force=force)
    answer: dict[str, Any] = {
        "success": not report.partial,
        "forest_sync": msgspec.to_builtins(report),
        "map_sync": {"agreements": len(agreements.read_all(codebase.repository))} if sync_map else None,
        "stats": codebase.index.stats(),
        "index_state": codebase.state(),
    }
    if codebase.language_servers is not None and (running := codebase.language_servers.running()):
        answer["language_servers"] = running
    if context.initialise(codebase.repository) is not None:
        answer["context_initialized"] = True
    if (wanted := context.needed(codebase.repository)) is not None:
        answer["context_update_required"] = wanted
    return answer
