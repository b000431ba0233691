"""The files that a session changed: listing them, their diffs, discarding and committing them.

It touches no file without a decision, and reverts only what is backed up under a ref first.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from adjourn.code.repository import (
    WITH_HOOKS,
    BackupRef,
    Git,
    GitError,
    as_text,
    back_up_files,
    index_of,
    is_submodule,
    is_trackable,
)
from adjourn.errors import AdjournError
from adjourn.host.workspace import read_file, resolve_inside

DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=dirty")
MAX_NOTED = 5_000
"""Number of files changed before a session that are recorded one by one."""
MAX_HASHED = 64 << 20
MAX_KEPT_FILE = 10 << 20
MAX_KEPT = 200 << 20
"""Bytes of earlier changes that are backed up when a session starts. What a session discards is always backed up whole."""
_OURS = (".code-intel/", ".aex/adjourn.db", ".aex/checkpoints/", ".aex/runs/")
_TYPES = {"A": "added", "D": "deleted"}
ChangeType = Literal["added", "modified", "deleted"]


class CommitError(AdjournError):
    """git made no commit: a hook rejected it, or no author is configured."""


class DiscardError(AdjournError):
    """A file cannot be restored without losing another one."""


class FileChange(msgspec.Struct, kw_only=True):
    """A file that differs from the base. `before`: it changed before the session started, and not since."""

    path: str
    change_type: ChangeType
    is_binary: bool = False
    diff: str = ""
    before: bool = False


def dirty_files(git: Git) -> dict[str, str]:
    """Path → content digest of every file that differs from HEAD."""
    paths = _against(git, "HEAD") | dict.fromkeys(untracked(git), "A")
    return {path: content_id(git, path) for path in list(paths)[:MAX_NOTED]}


def small_enough_to_back_up(git: Git, paths: Iterable[str]) -> list[str]:
    """The files small enough to back up quickly. A larger file is never touched without a decision."""
    kept_paths, total = [], 0
    for path in paths:
        try:
            status = os.lstat(git.path_of(path))
        except OSError:  # it was deleted: that, too, is kept
            kept_paths.append(path)
            continue
        readable = not stat.S_ISREG(status.st_mode) or os.access(git.path_of(path), os.R_OK)
        if readable and status.st_size <= MAX_KEPT_FILE and total + status.st_size <= MAX_KEPT:
            kept_paths.append(path)
            total += status.st_size
    return kept_paths


def list_changes(git: Git, base: str, before: dict[str, str]) -> list[FileChange]:
    """Every change since the commit `base`, committed or not, without this program's own files."""
    new = dict.fromkeys(untracked(git), "A")
    letters = _against(git, base) | new
    waiting = _against(git, "HEAD") | new
    return [
        FileChange(
            path=path,
            change_type=_TYPES.get(letter, "modified"),  # type: ignore[arg-type]
            before=path in waiting and path in before and before[path] == content_id(git, path),
        )
        for path, letter in sorted(letters.items())
    ]


def changed_submodules(git: Git) -> list[str]:
    """The submodules in which a file differs from their own commit: no session commits it."""
    if not os.path.lexists(git.path_of(".gitmodules")):
        return []
    staged = git.run("ls-files", "--stage", "-z").split(b"\0")
    links = [as_text(entry.partition(b"\t")[2]) for entry in staged if entry.startswith(b"160000 ")]
    found = []
    for path in links:
        full = git.path_of(path)
        with suppress(AdjournError):
            if is_submodule(full) and (_against(Git(full), "HEAD") or untracked(Git(full))):
                found.append(path)
    return found


def discard(git: Git, session: str, base: str, changes: Sequence[FileChange]) -> BackupRef | None:
    """Restore files to their content in `base`, after backing them up under a ref. Raises `DiscardError`."""
    if not changes:
        return None
    paths = [change.path for change in changes]
    _check_room(git, paths)
    held = back_up_files(git, session, paths, "discarded in the review")
    new = [change.path for change in changes if change.change_type == "added"]
    if new:
        git.with_paths("rm", "--cached", "--quiet", "--force", "--ignore-unmatch", paths=new)
    for path in new:
        _remove(git, path)
    tracked = [change.path for change in changes if change.change_type != "added"]
    if tracked:
        git.with_paths("restore", f"--source={base}", "--staged", "--worktree", paths=tracked)
    return held


def _check_room(git: Git, discarded: Sequence[str]) -> None:
    """Check that restoring deletes no other file: git clears whatever is in the way."""
    gone = set(discarded)
    for path in discarded:
        if is_submodule(git.path_of(path)):
            raise DiscardError(
                f"cannot restore {path}: it is a submodule", f"run `git submodule update -- {path}`, or keep it"
            )
        other = next((other for other in _in_place_of(git, path) if other not in gone), None)
        if other is not None:
            raise DiscardError(f"cannot restore {path}: {other} is in its place", "discard both, or keep both")


def _in_place_of(git: Git, path: str) -> Iterator[str]:
    """Files in the way of a file: those in a folder of its name, or a file with the name of its folder."""
    parts = path.split("/")
    above = ("/".join(parts[:count]) for count in range(1, len(parts)))
    yield from (part for part in above if os.path.lexists(git.path_of(part)) and not _is_folder(git.path_of(part)))
    if _is_folder(git.path_of(path)):
        for place, folders, files in os.walk(git.path_of(path)):
            links = [name for name in folders if os.path.islink(os.path.join(place, name))]
            yield from (git.named(os.path.join(place, name)) for name in [*files, *links])


def commit(git: Git, base: str, paths: Sequence[str], message: str) -> str:
    """Commit these files, and nothing else that may be staged. Returns the commit; "" if none of them differs from HEAD."""
    try:
        is_made = _commit(git, paths, message)
        _update_index(git, base, paths)
    except GitError as error:
        output = f"{error.message}\n{error.output}".strip()
        raise CommitError(f"git made no commit: {output}", "fix what git reports, then submit again") from error
    return git.commit() if is_made else ""


def _commit(git: Git, paths: Sequence[str], message: str) -> bool:
    waiting = set(_against(git, "HEAD")) | set(untracked(git))
    wanted = [path for path in paths if path in waiting]
    there = [path for path in wanted if is_trackable(git.path_of(path))]
    if there:
        git.with_paths("add", "--force", paths=there)
        # a filter may have taken out all that was changed
        staged = {*git.fields("diff", "--cached", "--name-only", "--no-renames", "-z", "HEAD")}
        wanted = [path for path in wanted if path in staged or path not in there]
    if wanted:
        text = as_text(message.encode("utf-8", "replace"))
        git.with_paths("commit", "--quiet", "--only", "-m", text, paths=wanted, seconds=WITH_HOOKS)
    return bool(wanted)


def _update_index(git: Git, base: str, paths: Sequence[str]) -> None:
    """Bring the index up to HEAD where the work tree is: what a hook stages is in a commit of some files, and not in the index."""
    behind = set(git.fields("diff", "--cached", "--name-only", "--no-renames", "-z", "HEAD"))
    behind &= {*paths, *git.fields("diff-tree", "-r", "--name-only", "--no-renames", "-z", base, "HEAD")}
    if behind:
        with index_of(git, "HEAD") as environment:
            changed = git.run(*DIFF, "--name-only", "-z", environment=environment).split(b"\0")
        git.with_paths("reset", "--quiet", paths=sorted(behind - set(map(as_text, changed))))


def content_id(git: Git, path: str) -> str:
    """An id of a file's content; "" for a missing file."""
    full = git.path_of(path)
    try:
        status = os.lstat(full)
        if stat.S_ISLNK(status.st_mode):
            return f"link:{os.readlink(full)!a}"
        if not stat.S_ISREG(status.st_mode):
            return Git(full).commit() if is_submodule(full) else "other"
        if status.st_size > MAX_HASHED:
            return f"large:{status.st_size}:{status.st_mtime_ns}"
        with open(full, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def is_ours(path: str) -> bool:
    """Whether this program writes the file for its own use."""
    return path.startswith(_OURS)


def _against(git: Git, base: str) -> dict[str, str]:
    """Path → status letter of tracked files that differ from `base`."""
    fields = git.fields(*DIFF, "--name-status", "-z", base, "--")
    return dict(zip(fields[1::2], fields[::2], strict=True))


def untracked(git: Git) -> list[str]:
    """Untracked files, without nested repositories (such as a linked work tree)."""
    paths = git.fields("ls-files", "--others", "--exclude-standard", "-z")
    return [path for path in paths if not path.endswith("/") and not is_ours(path)]


def _remove(git: Git, path: str) -> None:
    full = git.path_of(path)
    full = os.path.join(resolve_inside(git.root, os.path.dirname(full)), os.path.basename(full))
    if _is_folder(full):
        return
    with suppress(FileNotFoundError):
        os.unlink(full)
    folder = os.path.dirname(full)
    with suppress(OSError):  # other files are in it
        while folder != os.path.realpath(git.root):
            os.rmdir(folder)
            folder = os.path.dirname(folder)


def _is_folder(full: str) -> bool:
    return os.path.isdir(full) and not os.path.islink(full)


# --- the diffs of changed files, in few processes and a bounded amount of memory

MAX_DIFF = 60_000
MAX_SHOWN = 8 << 20
"""Bytes of a file that is compared line by line."""
_SNIFFED = 8_000
_BATCH, _BATCH_BYTES = 100, 8 << 20
_QUOTED = re.compile(r'["\\]')
"""Of such names git writes another form."""


def with_diffs(git: Git, base: str, changes: Sequence[FileChange], *, skip: int = 0, room: int) -> Iterator[FileChange]:
    """The changes with their diffs to `base`, each cut after `MAX_DIFF` bytes; a binary or very large file has none.

    The first `skip` have no diff, nor those after the diffs of the others take more than `room` bytes.
    """
    yield from changes[:skip]
    new = set(untracked(git))
    spent = 0
    for batch in _batches(git, base, changes[skip:]):
        if spent > room:
            yield from batch
            continue
        texts = _tracked(git, base, [each.path for each in batch if each.path not in new])
        for change in batch:
            text = _untracked(git, change.path) if change.path in new else texts[change.path]
            with_diff = _with_diff(change, text)
            spent += len(with_diff.diff.encode())
            yield with_diff


def _batches(git: Git, base: str, changes: Sequence[FileChange]) -> Iterator[list[FileChange]]:
    """Changes that are compared at once: a few, of a bounded size together."""
    before = _sizes(git, base) if changes else {}
    batch: list[FileChange] = []
    total = 0
    for change in changes:
        size = before.get(change.path, 0) + _size(git.path_of(change.path))
        if batch and (len(batch) == _BATCH or total + size > _BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(change)
        total += size
    yield batch


def _sizes(git: Git, base: str) -> dict[str, int]:
    """Path → bytes in the base, of files that git knows and that differ."""
    fields = git.fields(*DIFF, "--raw", "--no-abbrev", "-z", base, "--")
    blobs = [each.split()[2] for each in fields[::2]]
    question = "\n".join(blobs).encode()
    sizes = git.run("cat-file", "--batch-check=%(objectsize)", stdin=question).split(b"\n") if blobs else []
    pairs = zip(fields[1::2], sizes, strict=False)
    return {path: int(size) for path, size in pairs if size.isdigit()}


def _size(path: str) -> int:
    try:
        return min(os.lstat(path).st_size, MAX_SHOWN)
    except OSError:  # it was deleted
        return 0


def _tracked(git: Git, base: str, paths: list[str]) -> dict[str, bytes]:
    """Path → diff of files that git knows."""
    plain = [path for path in paths if not _QUOTED.search(path)]
    together = _by_header(_diff(git, base, plain)) if len(plain) > 1 else {}
    headers = {path: f"diff --git a/{path} b/{path}\n".encode() for path in paths}
    return {path: together.get(header) or _diff(git, base, [path]) for path, header in headers.items()}


def _diff(git: Git, base: str, paths: list[str]) -> bytes:
    return git.run(*DIFF, base, "--", *paths, settings=("-c", f"core.bigFileThreshold={MAX_SHOWN}"))


def _by_header(text: bytes) -> dict[bytes, bytes]:
    """The parts of a diff of several files, by their first lines. A file that became a link, or back, has two."""
    parts: dict[bytes, bytes] = {}
    begins = [match.start() for match in re.finditer(rb"^diff --git ", text, re.MULTILINE)]
    for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
        part = text[begin:end]
        header = part[: part.index(b"\n") + 1]
        parts[header] = parts.get(header, b"") + part
    return parts


def _untracked(git: Git, path: str) -> bytes | None:
    """The diff of a file that git does not know: all its lines are new. None if it is binary, very large or unreadable."""
    full = git.path_of(path)
    try:
        link = os.path.islink(full)
        data = os.fsencode(os.readlink(full)) if link else read_file(full, MAX_SHOWN, git.root)
        mode = "120000" if link else "100755" if os.stat(full).st_mode & stat.S_IXUSR else "100644"
    except (OSError, AdjournError):
        return None
    if b"\0" in data[:_SNIFFED]:
        return None
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n"
    if not data:
        return head.encode()
    lines = data.removesuffix(b"\n").split(b"\n")
    after = "\t" if " " in path else ""  # as git marks the end of such a name
    head += f"--- /dev/null\n+++ b/{path}{after}\n@@ -0,0 +1{f',{len(lines)}' if len(lines) > 1 else ''} @@\n+"
    end = b"" if data.endswith(b"\n") else b"\\ No newline at end of file\n"
    return head.encode() + b"\n+".join(lines) + b"\n" + end


def _with_diff(change: FileChange, text: bytes | None) -> FileChange:
    if text is None or b"\nBinary files " in text or b"\0" in text:
        return msgspec.structs.replace(change, is_binary=True)
    more = f"\n… {len(text) - MAX_DIFF} bytes more" if len(text) > MAX_DIFF else ""
    return msgspec.structs.replace(change, diff=text[:MAX_DIFF].decode("utf-8", "ignore") + more)
