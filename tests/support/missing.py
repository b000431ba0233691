"""What a test needs and is not installed here."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

import pytest


def is_missing(what: str) -> NoReturn:
    """Skip the test, and say what is missing; in CI, which installs everything, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


OF_EXTRAS: Final = {
    "code": ("tree_sitter", "ast_grep_py"),
    "gateway": ("httptools", "prometheus_client"),
    "authorize": ("grpc",),
}
"""Packages that nothing else of the tests brings."""
OF_MODULES: Final = {
    "unit/code/*": "code",
    "e2e/test_code_*": "code",
    "e2e/test_serve_code*": "code",
    "unit/gateway/*": "gateway",
    "e2e/test_serve*": "gateway",
    "unit/gateway/test_authorization*": "authorize",
    "e2e/test_serve_authorize*": "authorize",
    "e2e/test_connect*": "gateway",
    "e2e/test_login*": "gateway",
    "e2e/test_run_otlp*": "gateway",
}
"""Modules of tests whose every test needs an extra; single tests have the mark `extra`."""


@cache
def lacks(extra: str) -> bool:
    """Whether the extra of adjourn is not installed; in CI none lacks."""
    return os.environ.get("CI") != "true" and any(find_spec(package) is None for package in OF_EXTRAS[extra])


def is_left_out(path: Path) -> bool:
    """Whether the module of tests needs an extra that is not installed."""
    return any(path.match(f"tests/{pattern}") and lacks(extra) for pattern, extra in OF_MODULES.items())
