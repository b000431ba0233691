"""What documents say of the source is so: names of files, the picture of the packages, figures; and how long they are."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import msgspec
import pytest

from adjourn.relay.meta import DEFINITIONS

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


def test_the_documentation_stays_within_its_budget() -> None:
    """All pages but the decisions have together at most the words that CONTRIBUTING.md names."""
    named = re.search(r"at most ([\d,]+) words", (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8"))
    assert named
    pages = [path for path in (REPOSITORY / "docs").rglob("*.md") if path.parent.name != "adr"]
    pages += [REPOSITORY / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]
    words = {path.relative_to(REPOSITORY).as_posix(): len(path.read_text("utf-8").split()) for path in pages}
    most = sorted(words.items(), key=lambda item: -item[1])[:10]
    assert sum(words.values()) <= int(named[1].replace(",", "")), f"shorten: {most}"


def test_what_the_meta_tools_add_to_a_context() -> None:
    """docs/costs.md names the number of meta-tools, and their size in kB; README.md has that size, too."""
    text, head = ((REPOSITORY / name).read_text("utf-8") for name in ("docs/costs.md", "README.md"))
    size = sum(len(msgspec.json.encode({"name": name, **tool})) for name, tool in DEFINITIONS.items())
    assert len(DEFINITIONS) == 10
    assert f"ten meta-tools add {size / 1000:.1f} kB" in text
    assert f"[{size / 1000:.1f} kB to the list of tools]" in head


def test_pages_import_public_names() -> None:
    """Programs of the documentation import from public packages only."""
    imported = {
        found[1] or ""
        for path in (REPOSITORY / "docs").rglob("*.md")
        if path.parent.name != "adr"
        for found in re.finditer(r"^\s*from adjourn(?:\.([\w.]+))? import", path.read_text("utf-8"), re.MULTILINE)
    }
    assert imported <= {"", "aex", "store"}, "of others: from adjourn import testing, langgraph"
