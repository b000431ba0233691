"""Places in files, as the language server protocol counts them: lines from 0, columns in UTF-16 units from 0.

Owns: these values. Must never: need the protocol's package, which is an extra.
"""

from __future__ import annotations

from typing import NamedTuple


class NamePosition(NamedTuple):
    """Where a name stands."""

    path: str
    line: int
    column: int


class FileSpan(NamedTuple):
    """A part of a file."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int


class FunctionCall(NamedTuple):
    """A function that calls, or is called: its name, and places in its file."""

    name: str
    spans: list[FileSpan]


class CodeProblem(NamedTuple):
    """What is wrong with a line (from 1): an error, warning, information or hint."""

    path: str
    line: int
    severity: str
    message: str


class TextEdit(NamedTuple):
    """A part of a file, and the text that takes its place."""

    span: FileSpan
    text: str
