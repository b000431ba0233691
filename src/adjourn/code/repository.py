"""A work tree and its repository: which paths in it may be read, file names as text, git run in it, and work backed up under refs.

It writes files only to the index folder, lets no path out of the work tree, and backs work up before anything discards it.

Must never: change a configuration, prompt on a terminal, or run a program of the repository but for the commands in `TRUSTING`.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import msgspec

from adjourn.errors import AdjournError, InvalidError, NotFoundError, RefusedError, StoreError
from adjourn.host.finding import main_of, top_of
from adjourn.host.git import GitCommand, distrusting, trusting
from adjourn.host.workspace import make_folder, read_file, resolve_inside, write_file
from adjourn.text.near_words import MAX_KNOWN, did_you_mean

FOLDER = ".code-intel"
_IGNORED = b"# Written by adjourn: ignores what can be rebuilt and what belongs to one machine.\n/.gitignore\n/index.*\n/sessions/\n/logs/\n/context.yml\n/agreements/\n"


class CodeRepository:
    """The work tree that contains `path`; `home` is the tree whose folder keeps the index of all its work trees."""

    def __init__(self, path: str = ".") -> None:
        real = os.path.realpath(path)
        if not os.path.isdir(real):
            raise NotFoundError(f"{path} is not a folder", "name a folder of the repository")
        top = top_of(real)
        if (inside := _bare_above(real, top)) is not None:
            raise InvalidError(
                f"{inside} is a bare git repository: it has no files to work on",
                "make a work tree with `git worktree add`, and name that",
            )
        self.root = top or real
        self.is_git = bool(top)
        self.home = main_of(self.root) or self.root

    def index_folder(self) -> str:
        """The folder `.code-intel` of the repository."""
        return own_folder(self.home, FOLDER, _IGNORED)

    def relative(self, path: str) -> str:
        """A path relative to the root, as text (`names`); "" is the root. Raises `RefusedError` if it is outside."""
        path = native(path)
        if os.path.isabs(path):
            path = os.path.relpath(os.path.realpath(path), self.root)
        real = resolve_inside(self.root, path)
        return "" if real == self.root else shown(os.path.relpath(real, self.root))

    def existing(self, path: str) -> str:
        """As `relative`, but raises `NotFoundError` if the path does not exist."""
        relative = self.relative(path)
        if not os.path.isdir(self.root):
            raise NotFoundError(f"{self.root} no longer exists", "start a server in another work tree")
        if not os.path.exists(self.absolute(relative)):
            raise NotFoundError(
                f"{path} does not exist in the repository",
                did_you_mean(os.path.basename(relative), self._beside(relative)) or "list the files with search_files",
            )
        return relative

    def _beside(self, relative: str) -> list[str]:
        """The names in the folder of a path."""
        try:
            return sorted(map(shown, os.listdir(os.path.dirname(self.absolute(relative)))))[:MAX_KNOWN]
        except OSError:
            return []

    def absolute(self, relative: str) -> str:
        """The path of the operating system."""
        return os.path.join(self.root, native(relative)) if relative else self.root

    def read(self, relative: str, limit: int) -> bytes:
        """The bytes of a regular file inside the work tree."""
        path = resolve_inside(self.root, native(relative))
        if os.path.isdir(path):
            raise InvalidError(f"{relative} is a folder", "name a file")
        return read_file(path, limit)


def _bare_above(folder: str, top: str) -> str | None:
    """The bare repository that a folder is in; None where a work tree is nearer."""
    while folder != top:
        if all(os.path.exists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return None


def own_folder(root: str, relative: str, ignored: bytes) -> str:
    """Create adjourn's own folder in a work tree if needed, with a .gitignore of content `ignored`."""
    folder = make_folder(root, relative)
    if not os.path.lexists(os.path.join(folder, ".gitignore")):
        write_file(folder, ".gitignore", ignored)
    return folder


# --- names of files as text

_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def as_text(name: bytes) -> str:
    r"""A name as text. A backslash stays as it is, except where it would be read as `\xNN`; so a folder's text begins those of its files."""
    text = _ESCAPED.sub(rb"\\x5cx\1", name).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda match: "".join(f"\\x{byte:02x}" for byte in match[0].encode()), text)


def as_bytes(name: str) -> bytes:
    """The bytes of a name that `as_text` wrote."""
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), name.encode("utf-8", "replace"))


def shown(path: str) -> str:
    """A path of the operating system, as Python has it, as text."""
    return as_text(os.fsencode(path))


def native(path: str) -> str:
    """The path of the operating system that a text stands for."""
    return os.fsdecode(as_bytes(path)) if "\\" in path else path


# --- runs git in one work tree, and backs up work under refs before anything discards it

SECONDS = 60.0
WITH_HOOKS = 600.0
"""For commands that run hooks of the repository: those may run its tests."""
MAX_OUTPUT = 64 << 20
_TO_END = 5.0
_USERS = (
    "GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_", "GIT_SSH", "GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES",
)  # fmt: skip
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
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
        settings: Iterable[str] = (),
        fine: int = 0,
    ) -> bytes:
        """Run a command and return its output. Raises `GitError` if the exit code is above `fine`."""
        words, variables = self._command(arguments[0], environment or {})
        command = GitCommand([*words, *_ALWAYS, *settings], variables)
        code, printed, errors = self._communicate(command, arguments, stdin, seconds)
        if not 0 <= code <= fine:
            reported, text = (data.decode("utf-8", "replace").strip() for data in (errors, printed))
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
            return self._communicate(command, arguments, b"", SECONDS)[:2]

        variables = {"GIT_MERGE_AUTOEDIT": "no", "LC_ALL": "C.UTF-8", **environment}
        try:
            if verb in TRUSTING:
                return trusting(self.root, run, _USERS, variables)
            files = verb not in _WITHOUT_FILES
            return distrusting(self.root, run, variables, files=files, outer=False)
        except (RefusedError, StoreError) as error:
            raise GitError(error.message, error.remedy) from error

    def _communicate(
        self, command: GitCommand, arguments: Sequence[str], stdin: bytes, seconds: float
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
                printed, errors = process.communicate(stdin, timeout=seconds)
            except subprocess.TimeoutExpired as error:
                _end(process)
                raise GitError(
                    f"git {arguments[0]} timed out after {seconds:.0f} s",
                    "check for a lock, a prompt or a slow hook, then retry",
                ) from error
        return process.returncode, printed, errors

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
        return self.run(*arguments, "--pathspec-from-file=-", "--pathspec-file-nul", stdin=listed, seconds=seconds)

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
        names = self.lines("for-each-ref", "--format=%(refname:strip=2)", "refs/heads/")
        return [name for name in names if name.startswith(pattern)]

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


# --- backup refs

KEPT_REFS = "refs/adjourn/kept"
_SUBJECT = "Kept by adjourn: "
_FILES = "git restore --source={ref} -- <file>"
_BRANCH = "git branch <name> {ref}"
_LINK, _MODULE = "120000", "160000"
_AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "adjourn"), ("EMAIL", "adjourn@localhost"))
}


class BackupRef(msgspec.Struct):
    """A backup of work. `restore` is the command that restores it."""

    ref: str
    why: str
    files: list[str]
    restore: str


def back_up_files(git: Git, session: str, paths: Sequence[str], why: str) -> BackupRef:
    """Back up files of the work tree, byte for byte. A missing file is recorded as deleted."""
    with index_of(git, "HEAD") as environment:
        git.run("update-index", "-z", "--index-info", stdin=_entries(git, paths), environment=environment)
        tree = git.run("write-tree", environment=environment).decode().strip()
    return _back_up_tree(git, session, tree, why, paths)


@contextmanager
def index_of(git: Git, commit: str) -> Iterator[dict[str, str]]:
    """The environment of git commands that use an index of their own, with the files of a commit."""
    with tempfile.TemporaryDirectory(prefix="adjourn-") as folder:
        environment = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        git.run("read-tree", commit, environment=environment)
        yield environment


def back_up_index(git: Git, session: str, paths: Sequence[str], why: str) -> BackupRef:
    """Back up the git index, in which `paths` differ from HEAD."""
    return _back_up_tree(git, session, git.line("write-tree"), why, paths)


def back_up_branches(git: Git, session: str, names: Sequence[str]) -> list[BackupRef]:
    """Back up the commits of branches, all or none."""
    first = _next_number(git, session)
    refs = {name: f"{KEPT_REFS}/{session}/{first + number}" for number, name in enumerate(names)}
    lines = [f"create {ref}\0" + f"refs/heads/{name}\0" for name, ref in refs.items()]
    git.run("update-ref", "--create-reflog", "-z", "--stdin", stdin=as_bytes("".join(lines)))
    return [BackupRef(ref, f"branch {name}", [], _BRANCH.format(ref=ref)) for name, ref in refs.items()]


def drop_backup(git: Git, held: BackupRef) -> None:
    """Delete a backup whose content was restored."""
    git.run("update-ref", "-d", held.ref)


def list_backups(git: Git, session: str) -> list[BackupRef]:
    """All backups of a session, the oldest first."""
    return [_backup_of(git, ref) for ref in _refs(git, session)]


def _backup_of(git: Git, ref: str) -> BackupRef:
    subject = git.line("log", "-1", "--format=%s", ref)
    if not subject.startswith(_SUBJECT):
        return BackupRef(ref, "commits of a branch", [], _BRANCH.format(ref=ref))
    files = git.fields("diff-tree", "-r", "--name-only", "--no-renames", "-z", f"{ref}^", ref)
    return BackupRef(ref, subject.removeprefix(_SUBJECT), files, _FILES.format(ref=ref))


def _entries(git: Git, paths: Sequence[str]) -> bytes:
    """Lines of an index file; no filter and no line-ending setting applies to the backup."""
    modes = {path: _mode(git.path_of(path)) for path in paths}
    plain = [path for path, mode in modes.items() if mode.startswith("100")]
    quoted = "\n".join('"' + "".join(f"\\{byte:03o}" for byte in as_bytes(path)) + '"' for path in plain)
    hashes = git.run("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=quoted.encode()).split()
    blobs = dict(zip(plain, [each.decode() for each in hashes], strict=True))
    for path, mode in modes.items():
        if mode == _LINK:
            target = os.fsencode(os.readlink(git.path_of(path)))
            blobs[path] = git.run("hash-object", "-w", "--stdin", stdin=target).decode().strip()
        elif mode == _MODULE:
            blobs[path] = Git(git.path_of(path)).commit()
    gone = "0" * len(git.commit())
    lines = [
        f"{modes[path] if blobs.get(path) else 0} {blobs.get(path) or gone}\t".encode() + as_bytes(path)
        for path in paths
    ]
    return b"".join(line + b"\0" for line in lines)


def _mode(path: str) -> str:
    """The git mode of a file; "0" for a missing file or a type that git does not track."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return "0"
    if stat.S_ISREG(mode):
        return "100755" if mode & stat.S_IXUSR else "100644"
    if stat.S_ISLNK(mode):
        return _LINK
    return _MODULE if is_submodule(path) else "0"


def is_submodule(path: str) -> bool:
    """Whether the path is a repository of its own."""
    return os.path.isdir(path) and not os.path.islink(path) and os.path.lexists(os.path.join(path, ".git"))


def is_trackable(path: str) -> bool:
    """Whether there is something at a path that git can track."""
    return _mode(path) != "0"


def _back_up_tree(git: Git, session: str, tree: str, why: str, paths: Sequence[str]) -> BackupRef:
    commit = git.run("commit-tree", "-p", "HEAD", "-m", _SUBJECT + why, tree, environment=_AUTHOR)
    ref = f"{KEPT_REFS}/{session}/{_next_number(git, session)}"
    made_commit = commit.decode().strip()
    git.run("update-ref", "--create-reflog", ref, made_commit, "0" * len(made_commit))
    return BackupRef(ref, why, list(paths), _FILES.format(ref=ref))


def _next_number(git: Git, session: str) -> int:
    return 1 + max((int(name.rpartition("/")[2]) for name in _refs(git, session)), default=0)


def _refs(git: Git, session: str) -> list[str]:
    names = git.lines("for-each-ref", "--format=%(refname)", f"{KEPT_REFS}/{session}/")
    numbered = [name for name in names if name.rpartition("/")[2].isdigit()]
    return sorted(numbered, key=lambda name: int(name.rpartition("/")[2]))
