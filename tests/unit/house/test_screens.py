"""The pictures of screens in the documentation are what commands print."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_pictures_of_screens_are_current() -> None:
    """The committed pictures show what the commands print today on the same story."""
    done = subprocess.run(
        [sys.executable, "docs/draw_screens.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
