"""Every error adjourn raises on purpose, and the one diagnostic all its checkers share.

Owns: the error tree and `Finding`. Must never: import anything of the project.

    AdjournError                what happened, to which thing, and what to do next
     ├── UsageError             the command or the call was not well formed            exit 2
     ├── InvalidError           a document, event or message breaks its format         exit 1
     │    └── IntegrityError    stored bytes are not the bytes that were hashed/signed exit 1
     ├── NotFoundError          the named thing does not exist                         exit 1
     ├── RefusedError           a rule, a holder or a missing authority says no        exit 3
     │    └── HeldError         another living session holds the task                  exit 3
     └── StoreError             the store cannot be read or written                    exit 1
          ├── ConflictError     the head moved; re-read and try again                  exit 1
          └── SchemaError       the store was made by a newer adjourn                  exit 1
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec


class AdjournError(Exception):
    """Root of the tree. `message` names the thing and the cause, `remedy` the next step."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


class UsageError(AdjournError):
    exit_code = 2


class InvalidError(AdjournError):
    pass


class IntegrityError(InvalidError):
    pass


class NotFoundError(AdjournError):
    pass


class RefusedError(AdjournError):
    exit_code = 3


class HeldError(RefusedError):
    pass


class StoreError(AdjournError):
    pass


class ConflictError(StoreError):
    pass


class SchemaError(StoreError):
    pass


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
