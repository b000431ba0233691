"""Running git.

Owns: the command line and environment that make git answer the same everywhere, its time-out, and its errors in words. Must never: change
a configuration, ask anything of a terminal, or be led elsewhere by the environment of the caller.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping

from adjourn.errors import AdjournError, InvalidError, NotFoundError

SECONDS = 60.0
MAX_OUTPUT = 64 << 20
_FOREIGN = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
)
_OURS = {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "GIT_MERGE_AUTOEDIT": "no", "LC_ALL": "C.UTF-8"}
_ALWAYS = ("-c", "core.quotePath=false", "-c", "advice.detachedHead=false", "--literal-pathspecs")
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")


class GitError(AdjournError):
    """git refused. `message` has its own words, `output` what it printed beside them."""

    def __init__(self, message: str, remedy: str = "", output: str = "") -> None:
        super().__init__(message, remedy)
        self.output = output


class Git:
    """git in one work tree."""

    def __init__(self, root: str) -> None:
        self.root = root

    def run(
        self,
        *arguments: str,
        given: bytes = b"",
        environment: Mapping[str, str] | None = None,
        hooks: bool = True,
        seconds: float = SECONDS,
    ) -> bytes:
        """What a command prints. Raises `GitError` when it fails; hooks are the user's, and run unless told otherwise."""
        kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        command = ["git", *_ALWAYS, *(() if hooks else _NO_HOOKS), *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=self.root,
                input=given,
                capture_output=True,
                env={**kept, **_OURS, **(environment or {})},
                timeout=seconds,
                check=False,
                start_new_session=True,  # Ctrl-C at the server must not stop git half-way
            )
        except FileNotFoundError as error:
            raise NotFoundError(
                "git is not installed", "install git, or work without a branch (--quick)"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise GitError(
                f"git {arguments[0]} took longer than {seconds:.0f} s", "see what it waits for"
            ) from error
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            printed = done.stdout.decode("utf-8", "replace").strip()
            raise GitError(
                f"git {arguments[0]}: {(said or printed or 'failed')[:2000]}",
                "see the message of git",
                printed[:8000],
            )
        if len(done.stdout) > MAX_OUTPUT:
            raise InvalidError(
                f"git {arguments[0]} printed {len(done.stdout)} bytes", "the repository has too many changes"
            )
        return done.stdout

    def line(self, *arguments: str) -> str:
        """The one line that a command prints."""
        return self.run(*arguments).decode("utf-8", "replace").strip()

    def lines(self, *arguments: str) -> list[str]:
        return [line for line in self.run(*arguments).decode("utf-8", "surrogateescape").split("\n") if line]

    def fields(self, *arguments: str) -> list[str]:
        """What a command prints with `-z`."""
        return [os.fsdecode(field) for field in self.run(*arguments).split(b"\0") if field]

    def succeeds(self, *arguments: str) -> bool:
        try:
            self.run(*arguments)
        except GitError:
            return False
        return True

    def with_paths(
        self, *arguments: str, paths: Iterable[str], environment: Mapping[str, str] | None = None
    ) -> bytes:
        """A command that takes any number of paths, each as it is."""
        listed = b"\0".join(os.fsencode(path) for path in paths)
        return self.run(
            *arguments, "--pathspec-from-file=-", "--pathspec-file-nul", given=listed, environment=environment
        )

    # --- looking

    def is_repository(self) -> bool:
        return self.succeeds("rev-parse", "--is-inside-work-tree")

    def branch(self) -> str:
        """The branch that is checked out; "" where HEAD is detached."""
        try:
            return self.line("symbolic-ref", "--quiet", "--short", "HEAD")
        except GitError:
            return ""

    def commit(self, name: str = "HEAD") -> str:
        """The commit that a name stands for; "" where there is none."""
        try:
            return self.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        except GitError:
            return ""

    def branches(self, pattern: str = "") -> list[str]:
        """Local branches, of which the name begins with `pattern`."""
        found = self.lines("for-each-ref", "--format=%(refname:strip=2)", "refs/heads/")
        return [name for name in found if name.startswith(pattern)]

    def contains(self, branch: str, commit: str) -> bool:
        return self.succeeds("merge-base", "--is-ancestor", commit, branch)
