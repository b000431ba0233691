"""The work tree of a session: git in it, and the project's prompts.

Owns: `Worktree`. Must never: hold anything of a session.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import cached_property

from adjourn.code.git.git import Git
from adjourn.code.model.repository import FOLDER, CodeRepository
from adjourn.code.model.session_state import SessionState
from adjourn.code.workflow.phases import FlowError
from adjourn.errors import AdjournError

QUALITY_REVIEW = "review_prompts/quality_review.md"
GARBAGE = "review_prompts/garbage_detection.md"
PLANNING = "task_planning.md"
MAX_PROMPT = 1 << 20


class Worktree:
    """A work tree. `excluded_sessions` returns the sessions that others hold; `on_merged` is called after a merge.

    `test_commands` are run before a change counts as verified.
    """

    def __init__(
        self,
        repository: CodeRepository,
        *,
        excluded_sessions: Callable[[], frozenset[str]] = frozenset,
        on_merged: Callable[[Worktree, SessionState], None] = lambda _, __: None,
        test_commands: Sequence[tuple[str, ...]] = (),
    ) -> None:
        self.repository = repository
        self.git = Git(repository.root)
        self.excluded_sessions = excluded_sessions
        self.on_merged = on_merged
        self.test_commands = test_commands

    @property
    def server_runs(self) -> list[str]:
        """The test commands, as a shell would take them."""
        return [shlex.join(words) for words in self.test_commands]

    @property
    def is_git(self) -> bool:
        return not self.why_no_git

    @cached_property
    def why_no_git(self) -> str:
        """Why no branch can be created here, and the remedy; "" if one can."""
        root = self.repository.root
        if not self.repository.is_git:
            return f"{root} is not a git repository: run `git init` and commit"
        try:
            inside = self.git.line("rev-parse", "--is-inside-work-tree") == "true"
        except AdjournError as error:
            return f"git fails in {root}: {error.message}"
        return "" if inside else f"{root} is not a work tree of git"

    def prompt(self, name: str) -> str:
        """A prompt file of `.code-intel/`; "" if the project has none."""
        try:
            return self.repository.read(f"{FOLDER}/{name}", MAX_PROMPT).decode("utf-8", "replace")
        except AdjournError:
            return ""

    def base_commit(self, state: SessionState) -> str:
        """The commit that the session's changes are compared with: the merge base of its branch and its base."""
        if not state.base_branch:
            return state.base_commit
        return self.git.line("merge-base", f"refs/heads/{state.base_branch}", "HEAD")

    def check_branch(self, state: SessionState) -> None:
        """Raise `FlowError` unless the session's branch is checked out."""
        if not (state.task_branch_enabled and state.task_branch_name):
            raise FlowError(
                "task_branch_not_enabled",
                "this session has no branch: nothing to review or commit",
            )
        if (here := self.git.branch()) != state.task_branch_name:
            raise FlowError(
                "branch_operation_failed",
                f"{here or 'no branch'} is checked out, not {state.task_branch_name}: check it out, then submit again",
                requires_user_intervention=True,
            )
