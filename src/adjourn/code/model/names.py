r"""Names of files as text.

On Unix a name is bytes. In replies, in the index and in a session's state it is text on one line, with `\xNN` for bytes that are not
UTF-8, for control characters, and for what Python takes for the end of a line.

Owns: this form and the way back. Must never: look at a file.
"""

from __future__ import annotations

import os
import re

_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def as_text(name: bytes) -> str:
    r"""A name as text. A backslash stays as it is, except where it would be read as `\xNN`; so a folder's text begins those of its files."""
    text = _ESCAPED.sub(rb"\\x5cx\1", name).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda found: "".join(f"\\x{byte:02x}" for byte in found[0].encode()), text)


def as_bytes(name: str) -> bytes:
    """The bytes of a name that `as_text` wrote."""
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), name.encode("utf-8", "replace"))


def shown(path: str) -> str:
    """A path of the operating system, as Python has it, as text."""
    return as_text(os.fsencode(path))


def native(path: str) -> str:
    """The path of the operating system that a text stands for."""
    return os.fsdecode(as_bytes(path)) if "\\" in path else path
