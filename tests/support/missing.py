"""What a test needs and is not installed here."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def is_missing(what: str) -> NoReturn:
    """Skip the test, and say what is missing; in CI, which installs everything, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)
