"""Keeping the files of a checkpoint's folder that adjourn did not write, before a checkpoint of that name replaces them.

    .aex/checkpoints/NAME.imported/      a copy of its files (NAME.imported-2, … for further ones)

No checkpoint can have such a name, so that the copy is never taken for one.

Owns: these copies. Must never: replace one, or follow a link.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from adjourn.errors import NotFoundError, RefusedError
from adjourn.host import make_folder, open_regular, read_file, write_file
from adjourn.log import digest

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_COPIES = 1000
_FILES = re.compile(r"checkpoint\.json|audit\.jsonl|record-[0-9a-f]{12}\.jsonl|cognition-[0-9a-f]{12}\.json")
_CHUNK = 1024 * 1024


def keep_original(root: str, relative: str, checkpoint: str) -> str:
    """Copy the files of the folder `relative` of a workspace beside it, unless a copy with this checkpoint.json is there.

    `checkpoint` is the name of checkpoint.json, which is copied last: a copy that has it is complete. Returns the path of the copy,
    relative to `root`, with a slash at the end. Raises `StoreError`, `InvalidError`, `RefusedError`.
    """
    source = os.path.join(os.path.realpath(root), relative)
    data = read_file(os.path.join(source, checkpoint), MAX_FILE_BYTES)
    for number in range(1, MAX_COPIES + 1):
        copy = f"{relative}.imported" + (f"-{number}" if number > 1 else "")
        there = os.path.join(os.path.realpath(root), copy, checkpoint)
        with suppress(NotFoundError):
            if digest(read_file(there, MAX_FILE_BYTES)) == digest(data):
                return f"{copy}/"
            continue
        path = make_folder(root, copy)
        for name in sorted(os.listdir(source)):
            if _FILES.fullmatch(name) and name != checkpoint:
                write_file(path, name, _chunks(os.path.join(source, name)))
        write_file(path, checkpoint, data)
        return f"{copy}/"
    raise RefusedError(
        f"{relative} has files that adjourn did not write, and {MAX_COPIES} copies of others are beside it",
        "move the copies that you do not need elsewhere",
    )


def _chunks(path: str) -> Iterator[bytes]:
    with os.fdopen(open_regular(path, MAX_FILE_BYTES), "rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
