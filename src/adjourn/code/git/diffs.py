"""The diffs of changed files, in few processes and a bounded amount of memory.

Owns: `with_diffs`. Must never: run a program of the repository, or read more of a change than is shown and a fixed limit.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence

import msgspec

from adjourn.code.git.changes import DIFF, FileChange, untracked
from adjourn.code.git.git import Git
from adjourn.errors import AdjournError
from adjourn.host import read_file

MAX_DIFF = 60_000
MAX_SHOWN = 8 << 20
"""Bytes of a file that is compared line by line."""
_SNIFFED = 8_000
_BATCH, _BATCH_BYTES = 100, 8 << 20
_QUOTED = re.compile(r'["\\]')
"""Of such names git writes another form."""


def with_diffs(
    git: Git, base: str, changes: Sequence[FileChange], *, skip: int = 0, room: int
) -> Iterator[FileChange]:
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
        texts = _tracked(git, base, [one.path for one in batch if one.path not in new])
        for change in batch:
            text = _untracked(git, change.path) if change.path in new else texts[change.path]
            shown = _shown(change, text)
            spent += len(shown.diff.encode())
            yield shown


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
    asked = "\n".join(blobs).encode()
    sizes = git.run("cat-file", "--batch-check=%(objectsize)", given=asked).split(b"\n") if blobs else []
    found = zip(fields[1::2], sizes, strict=False)
    return {path: int(size) for path, size in found if size.isdigit()}


def _size(path: str) -> int:
    try:
        return min(os.lstat(path).st_size, MAX_SHOWN)
    except OSError:  # it was deleted
        return 0


def _tracked(git: Git, base: str, paths: list[str]) -> dict[str, bytes]:
    """Path → diff of files that git knows."""
    plain = [path for path in paths if not _QUOTED.search(path)]
    together = _by_header(_diff(git, base, plain)) if len(plain) > 1 else {}
    return {path: together.get(_header(path)) or _diff(git, base, [path]) for path in paths}


def _diff(git: Git, base: str, paths: list[str]) -> bytes:
    return git.run(*DIFF, base, "--", *paths, settings=("-c", f"core.bigFileThreshold={MAX_SHOWN}"))


def _header(path: str) -> bytes:
    return f"diff --git a/{path} b/{path}\n".encode()


def _by_header(text: bytes) -> dict[bytes, bytes]:
    """The parts of a diff of several files, by their first lines. A file that became a link, or back, has two."""
    found: dict[bytes, bytes] = {}
    begins = [match.start() for match in re.finditer(rb"^diff --git ", text, re.MULTILINE)]
    for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
        part = text[begin:end]
        header = part[: part.index(b"\n") + 1]
        found[header] = found.get(header, b"") + part
    return found


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
    head += (
        f"--- /dev/null\n+++ b/{path}{after}\n@@ -0,0 +1{f',{len(lines)}' if len(lines) > 1 else ''} @@\n+"
    )
    end = b"" if data.endswith(b"\n") else b"\\ No newline at end of file\n"
    return head.encode() + b"\n+".join(lines) + b"\n" + end


def _shown(change: FileChange, text: bytes | None) -> FileChange:
    if text is None or b"\nBinary files " in text or b"\0" in text:
        return msgspec.structs.replace(change, is_binary=True)
    more = f"\n… {len(text) - MAX_DIFF} bytes more" if len(text) > MAX_DIFF else ""
    return msgspec.structs.replace(change, diff=text[:MAX_DIFF].decode("utf-8", "ignore") + more)
