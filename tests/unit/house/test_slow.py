"""The list of tests that `make test` leaves to `make test-all`."""

from __future__ import annotations

from pathlib import Path

from support import slow

TESTS = Path(__file__).parents[2]


def test_every_slow_module_exists_once() -> None:
    """No name of the list is left over, and none stands for two modules."""
    names = [path.stem for path in TESTS.rglob("test_*.py") if slow.is_slow(path)]
    assert sorted(names) == sorted(slow.ALL)
    assert sum(map(len, slow.MODULES.values())) == len(slow.ALL)
