"""The one diagnostic of parser, checker, verifier and doctor.

Owns: `Finding` and `Span`. Must never: decide what to do about one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

MAX_DOCUMENT_BYTES = 10_000_000
"""The longest document that is examined."""


class Span(msgspec.Struct, frozen=True):
    """Where in a text: 1-based line and column, and how many characters. Line 0: the whole document."""

    line: int = 0
    column: int = 0
    length: int = 0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One diagnostic, of the parser, the checker, the verifier or the doctor.

    `code` is stable and documented, `message` says what is wrong with what, `help` what to do about it.
    """

    code: str
    message: str
    severity: Literal["error", "warning"] = "error"
    source: str = ""
    span: Span = Span()
    help: str = ""
