"""What all tests of pages share: a page reads as many tasks as there are, however busy the machine is."""

from __future__ import annotations

import pytest

from adjourn.ui import site


@pytest.fixture(autouse=True)
def reading_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "READ_SECONDS", 60.0)
