"""The pictures in the documentation are what the commands print."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.cases import for_each

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("script", ["draw_screens", "record_session"])
def test_the_pictures_are_current(script: str) -> None:
    """The committed screens show what the commands print today on the same story, and the session moves as it was recorded."""
    done = subprocess.run(
        [sys.executable, f"docs/{script}.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@for_each("path", sorted((ROOT / "docs" / "assets").rglob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_loads_nothing(path: Path) -> None:
    """A picture names no address but that of its own format, and is small enough for a page."""
    text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert "://" not in text
    assert len(text) < 100_000
