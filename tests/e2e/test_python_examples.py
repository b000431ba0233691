"""The programs in examples/python, each started as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from adjourn.testing import ModelServer

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
PRINTED = {
    "checkpoint": ["tests pass 1 of 1 steps completed"],
    "restore": ["Restored: begun", "Checkpoint is 72 hours old", "The port is 8080"],
    "validate": ["False ['Node step-1 references missing parent step-9'] ['Node step-1 has invalid confidence: 1.5']"],
    "diff": ["['Deploy']", "'status': 'completed'", "['The port is 8080']"],
    "middleware": ["the port is 8080", "who owns the server?"],
    "client": ["It is 8080.", "['the port is 8080', 'team B owns it']"],
    "triggers": ["Phase: planning\nPhase: execution\nTool: Deploy\n"],
    "record": ["made {'reference': 'T-1'} None"],
    "merge": ["True ['contested']", "[('Use SQLite', 'accepted'), ('Keep the schema small', 'accepted')]"],
}
"""What each prints, among other things."""
AGAIN = {
    "record": ["made before {'reference': 'T-1'} None"],
    "restore": ["Restored: begun"],
    "client": ["the port is 8080"],
}
"""What those that keep a store print when they are started again."""


def test_each_program_is_here() -> None:
    """No program is without a test."""
    assert sorted(PRINTED) == sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", PRINTED)
def test_a_program_does_what_it_says(tmp_path: Path, name: str) -> None:
    """It prints what it should, and when it is started again."""
    with ModelServer("It is 8080.\nFACT: the port is 8080", "FACT: team B owns it") as model:
        for expected in filter(None, (PRINTED[name], AGAIN.get(name))):
            done = subprocess.run(
                [sys.executable, str(EXAMPLES / f"{name}.py")],
                cwd=tmp_path,
                env=os.environ | model.environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert [part for part in expected if part not in done.stdout] == [], done.stdout
