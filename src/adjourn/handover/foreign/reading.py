"""Read a file or folder of another tool, in the format that was named or that can be told without doubt.

Owns: telling the formats apart. Must never: guess between two formats, or read anything but the given path.
"""

from __future__ import annotations

import os

from adjourn.checkpoints import folder
from adjourn.errors import InvalidError
from adjourn.handover.foreign.work import SOURCES, ForeignWork, Source


def read_work(path: str, source: Source | None = None) -> ForeignWork:
    """Read another tool's work. `source` is its format, None for the one that it looks like. Raises `InvalidError`, `NotFoundError`."""
    from adjourn.handover.foreign import published  # noqa: PLC0415  # only the format that is read

    readers = {"aex": published.read}
    return readers[source or detect(path)](path)


def detect(path: str) -> Source:
    """The format of a file or folder. Raises `InvalidError` where it is none, or could be several."""
    if os.path.lexists(os.path.join(path, folder.JSON_FILE)):
        return "aex"
    raise InvalidError(f"{path}: cannot tell its format", f"name it: --from {'|'.join(SOURCES)}")
