"""Learns from a merged session: the words of its request meant the symbols that it changed.

Owns: finding those symbols, and writing the agreement. Must never: fail a merge.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from adjourn.code.git.changes import DIFF
from adjourn.code.git.git import Git
from adjourn.code.index.reading import open_source
from adjourn.code.model.session_state import SessionState
from adjourn.code.search import agreements
from adjourn.code.workflow.worktree import Worktree
from adjourn.errors import AdjournError

_MAX_FILES = 50
_MAX_SYMBOLS = 50
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


def learn(worktree: Worktree, state: SessionState) -> str:
    """Write the agreement of a session. Returns its path; "" if there is no term or symbol."""
    frame = state.query_frame
    words = frame and (frame.target_feature or frame.observed_issue or frame.desired_action)
    files = state.pre_commit_review.kept_files if state.pre_commit_review else []
    symbols = _changed_symbols(worktree, state, files[:_MAX_FILES])
    if not words or not symbols or frame is None:
        return ""
    return agreements.write(
        worktree.repository,
        agreements.Agreement(
            words, symbols[:_MAX_SYMBOLS], state.session_id, state.intent, datetime.now(UTC).isoformat()
        ),
        evidence=f"Commit {state.commit_hash}: {state.prepared_commit_message}",
        related_files=files,
        frame={slot: value for slot, value in frame.slots.items() if value},
    )


def _changed_symbols(worktree: Worktree, state: SessionState, files: list[str]) -> list[str]:
    """The innermost definitions around the lines that were changed."""
    found: dict[str, None] = {}
    for path in files:
        try:
            symbols = open_source(worktree.repository, path).outline.symbols
            lines = _changed_lines(worktree.git, state, path)
        except AdjournError:  # it was deleted, or is no text
            continue
        for first, last in lines:
            around = [one for one in symbols if one.line <= last and one.end_line >= first]
            if around:
                found[min(around, key=lambda one: one.end_line - one.line).name] = None
    return list(found)


def _changed_lines(git: Git, state: SessionState, path: str) -> list[tuple[int, int]]:
    text = git.run(*DIFF, "--unified=0", state.base_commit, state.commit_hash, "--", path)
    hunks = [(int(first), int(count or 1)) for first, count in _HUNK.findall(text.decode("utf-8", "replace"))]
    return [(first, first + max(count, 1) - 1) for first, count in hunks]
