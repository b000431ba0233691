"""Reading a document's file, strictly.

An agent or a repository can put anything in a workspace. So what lies in one is reached through no link, at any step of its
path. A path that leads elsewhere can only come from a person, who may use links.

Must never: read a device or a pipe, wait for one, read more than the bound, guess an encoding, raise for what a file
may be.
"""

from __future__ import annotations

import errno
import os
import stat

from adjourn.findings import MAX_DOCUMENT_BYTES, Finding, Span
from adjourn.host.workspace import open_plain

_THROUGH_LINK = (errno.ELOOP, errno.ENOTDIR)
_WHOLE = Span()
_PART = 64 * 1024
"""Bytes read at once: a read takes memory for all that it may return."""


def load(path: str, source: str | None = None, *, root: str = "") -> tuple[str | None, list[Finding]]:
    """The text of a regular UTF-8 file of at most 10,000,000 bytes; else None and the finding that says why.

    The finding names the file as `source`, or as its path. `root` is the workspace.

    >>> text, findings = load("no-such-file.aex")
    >>> text, findings[0].code
    (None, 'AEX130')
    """
    name = source or path
    try:
        data = _read(path, root)
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", 0)
        reason = getattr(error, "strerror", None) or str(error)
        message, remedy = f"cannot read the file: {reason}", "check the path and its permissions"
        if number == errno.ENOENT:
            message, remedy = "the file does not exist", "check the path"
        elif number in _THROUGH_LINK:
            message = "a step of its path is a link or not a folder"
            remedy = "name the file itself: adjourn follows no link in a workspace"
        return _unread("AEX130", message, source=name, remedy=remedy)
    if data is None:
        return _unread("AEX130", "it is not a regular file", source=name)
    return decoded(data, name)


def decoded(data: bytes, name: str) -> tuple[str | None, list[Finding]]:
    """The text that the bytes of a document hold; else None and the finding that says why, as of the file `name`."""
    if len(data) > MAX_DOCUMENT_BYTES:
        return _unread("AEX131", f"the file has more than {MAX_DOCUMENT_BYTES:,} bytes", source=name)
    try:
        return data.decode(), []
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode()) + 1
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        return _unread("AEX132", message, Span(line, column, 1), source=name)


def _unread(
    code: str, message: str, span: Span = _WHOLE, *, source: str, remedy: str = ""
) -> tuple[None, list[Finding]]:
    from adjourn.aex.diagnostics import finding  # a table, for a file that cannot be read

    return None, [finding(code, message, span, source=source, help=remedy)]


def _read(path: str, root: str) -> bytes | None:
    descriptor = open_plain(path, root)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        parts, left = [], MAX_DOCUMENT_BYTES + 1
        while left and (part := os.read(descriptor, min(left, _PART))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
