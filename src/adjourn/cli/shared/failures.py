"""Failures of a command as lines on stderr and exit codes.

Owns: that translation. Must never: import click, for some commands start without it.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from adjourn import aex
from adjourn.errors import AdjournError, NotFoundError

if TYPE_CHECKING:
    from adjourn.findings import Finding

_LOOK = "check the path and its permissions"
NO_TEXTS: Mapping[str, str] = MappingProxyType({})

NOBODY_READS = 141
"""Exit code where the output was closed before all of it was written: as of a program that SIGPIPE ends. Never 0, for what was not
written may be that a check failed.
"""


def exit_code(work: Callable[[], object]) -> int:
    """Run a command, and return its exit code; every failure is printed on stderr, with the next step."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        result = work()
        sys.stdout.flush()
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except AdjournError as error:
        _explain(error)
        return error.exit_code
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return NOBODY_READS
    except OSError as error:
        _complain(f"{error.filename or 'a file'}: {error.strerror or error}", _LOOK)
        return 1
    return result if isinstance(result, int) else 0


def _explain(error: AdjournError) -> None:
    # a reader of files has no better remedy
    remedy = error.remedy or (_LOOK if isinstance(error, NotFoundError) else "")
    _complain(error.message, remedy, getattr(error, "findings", ()), getattr(error, "texts", {}))


def _complain(
    message: str, remedy: str = "", findings: Sequence[Finding] = (), texts: Mapping[str, str] = NO_TEXTS
) -> None:
    """Print the findings, each with the text that it is about, and the message."""
    from adjourn.cli.shared.output import complain, safe, say_finding  # noqa: PLC0415  # for failures alone

    for finding in findings:
        say_finding(aex.render(finding, texts.get(finding.source, "")), err=True)
    complain(safe(message), safe(remedy))
