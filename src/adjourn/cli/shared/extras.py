"""Packages that only some commands need.

Owns: the message for one that is missing. Must never: install.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adjourn.errors import NotFoundError


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """What is imported in this block may need an extra. Raises `NotFoundError` for a package that is missing, with how to get it."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "adjourn":
            raise
        raise NotFoundError(
            f"the package {error.name} is not installed", f"pip install 'adjourn[{extra}]'"
        ) from error
