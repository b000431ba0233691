"""Every error adjourn raises on purpose.

Owns: the tree. Must never: import anything; it is loaded before the proxy starts its upstream.

    AdjournError                what happened, to which thing, and what to do next
     ├── UsageError             the command or the call was not well formed            exit 2
     ├── InvalidError           a document, event or message breaks its format         exit 1
     │    └── IntegrityError    stored bytes are not the bytes that were hashed/signed exit 1
     ├── NotFoundError          the named thing does not exist                         exit 1
     │    └── UnknownRecordError  no record has that id or hash; a KeyError, too       exit 1
     ├── RefusedError           a rule, a holder or a missing authority says no        exit 3
     │    └── HeldError         another living session holds the task                  exit 3
     └── StoreError             the store cannot be read or written                    exit 1
          ├── ConflictError     the head moved; re-read and try again                  exit 1
          └── SchemaError       the store was made by a newer adjourn                  exit 1
"""

from __future__ import annotations


def sentences(message: str, remedy: str) -> str:
    """What an agent or a client reads: what failed, and the next step as a sentence of its own."""
    return f"{message}. {remedy[:1].upper()}{remedy[1:]}." if remedy else message


class AdjournError(Exception):
    """Root of the tree. `message` names the thing and the cause, `remedy` the next step.

    >>> try:
    ...     open_store("mysql://host/db")
    ... except AdjournError as error:
    ...     print(error.message)
    unknown kind of store mysql:
    """

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    @property
    def lines(self) -> str:
        """The message, and the remedy below it: what a program prints on stderr."""
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message

    def __str__(self) -> str:
        """The same on one line: for logs and other programs."""
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


class UsageError(AdjournError):
    exit_code = 2


class InvalidError(AdjournError):
    pass


class IntegrityError(InvalidError):
    pass


class NotFoundError(AdjournError):
    pass


class UnknownRecordError(NotFoundError, KeyError):
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
