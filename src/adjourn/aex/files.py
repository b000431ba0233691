"""Reading a document's file, strictly.

Owns: the only I/O of the language. Must never: read a device or a pipe, read more than the bound, guess an
encoding, raise for what a file may be.
"""

from __future__ import annotations

import os
import stat

from adjourn.aex.diagnostics import finding
from adjourn.aex.tree import MAX_BYTES
from adjourn.findings import Finding, Span


def load(path: str, source: str | None = None) -> tuple[str | None, list[Finding]]:
    """The text of a regular UTF-8 file of at most 10,000,000 bytes; else None and the finding that says why.

    The finding names the file as `source`, or as its path.
    """
    name = source or path
    try:
        data = _read(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return None, [finding("AEX130", f"cannot read the file: {reason}", source=name)]
    if data is None:
        return None, [finding("AEX130", "it is not a regular file", source=name)]
    return decoded(data, name)


def decoded(data: bytes, name: str) -> tuple[str | None, list[Finding]]:
    """The text that the bytes of a document hold; else None and the finding that says why, as of the file `name`."""
    if len(data) > MAX_BYTES:
        return None, [finding("AEX131", f"the file has more than {MAX_BYTES:,} bytes", source=name)]
    try:
        return data.decode(), []
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode()) + 1
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        return None, [finding("AEX132", message, Span(line, column, 1), source=name)]


def _read(path: str) -> bytes | None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        parts, left = [], MAX_BYTES + 1
        while left and (part := os.read(descriptor, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
