"""What documents say of the source is so: names of files, and the picture of the packages."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PAGES = ("docs/explanation/architecture.md", "CONTRIBUTING.md")
_FILE = re.compile(r"`([\w./]+\.(?:py|md|toml))`")


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_names_exist(page: str) -> None:
    """A file is named by its path in the repository, or in the package."""
    names = _FILE.findall((REPOSITORY / page).read_text("utf-8"))
    assert names
    missing = [
        name
        for name in names
        if not (REPOSITORY / name).exists() and not (REPOSITORY / "src" / "adjourn" / name).exists()
    ]
    assert missing == []


def test_the_picture_of_the_packages_is_what_they_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/assets/architecture.svg is what `python docs/draw_architecture.py` draws now."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # the program adds to it
    draw = runpy.run_path(str(REPOSITORY / "docs" / "draw_architecture.py"))
    assert draw["picture"]() == (REPOSITORY / "docs" / "assets" / "architecture.svg").read_text("utf-8")
