"""Running git.

Owns: which commands may run the repository's programs, settings for stable output, time-outs, and error messages.
Must never: change a configuration, or prompt on a terminal.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from adjourn.code.model.repository import as_bytes, as_text, native, shown
from adjourn.errors import AdjournError, InvalidError, RefusedError, StoreError
from adjourn.host.git import GitCommand, distrusting, trusting

SECONDS = 60.0
WITH_HOOKS = 600.0
"""For commands that run hooks of the repository: those may run its tests."""
MAX_OUTPUT = 64 << 20
_TO_END = 5.0
_USERS = (
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_CONFIG_",
    "GIT_SSH",
    "GIT_EXEC_PATH",
    "GIT_CEILING_DIRECTORIES",
)
"""The caller's variables that are passed on where hooks run; any other git variable could name another repository or change the output."""
_ALWAYS = (
    "-c", "core.quotePath=false", "-c", "advice.detachedHead=false", "-c", "submodule.recurse=false",
    "-c", "merge.autoStash=false", "--literal-pathspecs",
)  # fmt: skip
TRUSTING = frozenset({"add", "checkout", "commit", "merge", "restore"})
"""The commands that run hooks, filters, merge drivers and the signing program of the repository, as they would for the user."""
_WITHOUT_FILES = frozenset({
    "branch", "cat-file", "commit-tree", "diff-tree", "for-each-ref", "log", "merge-base", "read-tree", "rev-list", "rev-parse",
    "symbolic-ref", "update-ref", "write-tree",
})  # fmt: skip
"""The commands that read no file of the work tree, so that no filter has to be disabled for them."""


class GitError(AdjournError):
    """A git command failed. `message` holds git's error, `output` its standard output."""

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
        seconds: float = SECONDS,
        settings: Iterable[str] = (),
        fine: int = 0,
    ) -> bytes:
        """Run a command and return its output. Raises `GitError` if the exit code is above `fine`."""
        words, variables = self._command(arguments[0], environment or {})
        command = GitCommand([*words, *_ALWAYS, *settings], variables)
        code, printed, said = self._done(command, arguments, given, seconds)
        if not 0 <= code <= fine:
            reported, text = (data.decode("utf-8", "replace").strip() for data in (said, printed))
            raise GitError(
                f"git {arguments[0]}: {(reported or text or 'failed')[:2000]}",
                "fix what git reports, then retry",
                text[:8000],
            )
        if len(printed) > MAX_OUTPUT:
            raise InvalidError(
                f"git {arguments[0]} printed {len(printed)} bytes (limit {MAX_OUTPUT})",
                "commit or discard some changes first",
            )
        return printed

    def _command(self, verb: str, environment: Mapping[str, str]) -> GitCommand:
        def run(command: GitCommand, arguments: Sequence[str]) -> tuple[int, bytes]:
            return self._done(command, arguments, b"", SECONDS)[:2]

        variables = {"GIT_MERGE_AUTOEDIT": "no", "LC_ALL": "C.UTF-8", **environment}
        try:
            if verb in TRUSTING:
                return trusting(self.root, run, _USERS, variables)
            files = verb not in _WITHOUT_FILES
            return distrusting(self.root, run, variables, files=files, outer=False)
        except (RefusedError, StoreError) as error:
            raise GitError(error.message, error.remedy) from error

    def _done(
        self, command: GitCommand, arguments: Sequence[str], given: bytes, seconds: float
    ) -> tuple[int, bytes, bytes]:
        """Exit code, output, errors."""
        process = subprocess.Popen(
            [*command.words, *map(as_bytes, arguments)],
            cwd=self.root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=command.environment,
            start_new_session=True,  # Ctrl-C at the server must not stop git half-way
        )
        with process:
            try:
                printed, said = process.communicate(given, timeout=seconds)
            except subprocess.TimeoutExpired as error:
                _end(process)
                raise GitError(
                    f"git {arguments[0]} timed out after {seconds:.0f} s",
                    "check for a lock, a prompt or a slow hook, then retry",
                ) from error
        return process.returncode, printed, said

    def line(self, *arguments: str) -> str:
        """The single line that a command prints."""
        return as_text(self.run(*arguments).strip())

    def lines(self, *arguments: str) -> list[str]:
        return [as_text(line) for line in self.run(*arguments).split(b"\n") if line]

    def fields(self, *arguments: str) -> list[str]:
        """What a command prints with `-z`."""
        return [as_text(field) for field in self.run(*arguments).split(b"\0") if field]

    def succeeds(self, *arguments: str) -> bool:
        try:
            self.run(*arguments)
        except GitError:
            return False
        return True

    def with_paths(self, *arguments: str, paths: Iterable[str], seconds: float = SECONDS) -> bytes:
        """Run a command on any number of literal paths."""
        listed = b"\0".join(as_bytes(path) for path in paths)
        return self.run(
            *arguments, "--pathspec-from-file=-", "--pathspec-file-nul", given=listed, seconds=seconds
        )

    def path_of(self, path: str) -> str:
        """The absolute path of a path that git names."""
        return os.path.join(self.root, native(path))

    def named(self, full: str) -> str:
        """The git name of an absolute path."""
        return shown(os.path.relpath(full, self.root))

    # --- looking

    def branch(self) -> str:
        """The branch that is checked out; "" where HEAD is detached."""
        try:
            return self.line("symbolic-ref", "--quiet", "HEAD").removeprefix("refs/heads/")
        except GitError:  # `--short` would say `heads/main` where a tag is called `main`
            return ""

    def commit(self, name: str = "HEAD") -> str:
        """The commit that a name refers to; "" for none."""
        try:
            return self.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        except GitError:
            return ""

    def branches(self, pattern: str = "") -> list[str]:
        """Local branches whose name starts with `pattern`."""
        found = self.lines("for-each-ref", "--format=%(refname:strip=2)", "refs/heads/")
        return [name for name in found if name.startswith(pattern)]

    def contains(self, branch: str, commit: str) -> bool:
        """Whether a commit (its hash, or a whole ref) is in a local branch."""
        return self.succeeds("merge-base", "--is-ancestor", commit, f"refs/heads/{branch}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate git and its children: SIGTERM first, so that git removes its lock files."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TO_END)
            return
