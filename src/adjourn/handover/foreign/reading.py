"""Read a file or folder of another tool, in the format that was named or that is unambiguous.

Owns: telling the formats apart. Must never: guess between two formats, or read anything but the given path.
"""

from __future__ import annotations

import os

import msgspec

from adjourn.checkpoints import folder
from adjourn.errors import InvalidError, UsageError
from adjourn.handover.foreign import continuum, handoff, langgraph, published
from adjourn.handover.foreign.work import MAX_FILE_BYTES, SOURCES, ForeignWork, Source
from adjourn.host import read_file
from adjourn.text import check_values

_PAGES = (".md", ".markdown")


def read_work(path: str, source: Source | None = None, thread: str = "") -> ForeignWork:
    """Read another tool's work. `source` is its format, None for the one that it looks like; `thread` is one of LangGraph's.

    Raises `InvalidError`, `NotFoundError`, and `UsageError` for a thread of another format.
    """
    found = source or detect(path)
    if thread and found != "langgraph":
        raise UsageError(f"{path} is read as {found}, which has no threads", "leave out --thread")
    if found == "aex":
        return published.read(path)
    if found == "langgraph":
        return langgraph.read(path, thread)
    return continuum.read(path) if found == "continuum" else handoff.read(path)


def detect(path: str) -> Source:
    """The format of a file or folder. Raises `InvalidError` where it is none of them, and what `read_file` raises."""
    if os.path.isdir(path):
        if os.path.lexists(os.path.join(path, folder.JSON_FILE)):
            return "aex"
        raise InvalidError(f"{path} has no {folder.JSON_FILE}", "name the folder of a checkpoint, or a file")
    if os.path.basename(path) == folder.JSON_FILE:
        return "aex"
    data = read_file(path, langgraph.MAX_DATABASE_BYTES)
    if data.startswith(langgraph.MAGIC):
        return "langgraph"
    if path.lower().endswith(_PAGES):
        return "handoff"
    if data.lstrip()[:1] == b"{" and len(data) <= MAX_FILE_BYTES and _is_document(data):
        return "continuum"
    raise InvalidError(f"{path}: cannot tell its format", f"name it: --from {'|'.join(SOURCES)}")


def _is_document(data: bytes) -> bool:
    try:
        check_values(data, "it")
        return bool(continuum.kind_of(msgspec.json.decode(data)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidError):
        return False
