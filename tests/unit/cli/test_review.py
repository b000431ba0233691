"""What `adjourn policy review --run` hands over to `adjourn run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjourn.aex.templates import sample_task
from adjourn.cli import draft
from adjourn.cli.app import main
from support.policies import POLICY


@pytest.mark.parametrize(
    ("given", "handed"),
    [
        ([], []),
        (["--inputs", "i.json", "--model", "openai:x"], ["--inputs", "i.json", "--model", "openai:x"]),
        (["--policy", "p.aex", "--model-handler", "m:f"], ["--policy", "p.aex", "--model-handler", "m:f"]),
        (["--auto-confirm"], []),
    ],
)
def test_the_run_gets_what_the_review_was_given(
    given: list[str], handed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run gets the review's file, policy and options; `--yes` also approves each confirmation, and the run's exit code is returned."""
    (tmp_path / "p.aex").write_text(POLICY)
    (tmp_path / "t.aex").write_text(sample_task("t"))
    monkeypatch.chdir(tmp_path)
    runs: list[list[str]] = []

    def run(arguments: list[str]) -> int:
        runs.append(arguments)
        return 42

    monkeypatch.setattr(draft, "_run", run)
    assert main(["review", "t.aex", "--run", "--yes", *given]) == 42
    assert [runs[0][0], *sorted(runs[0][1:-1])] == ["t.aex", *sorted(handed)]
    assert runs[0][-1] == "--auto-confirm"
    assert main(["review", "t.aex"]) == 0
    assert len(runs) == 1
