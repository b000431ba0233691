"""What `adjourn init` says to do next."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from click.testing import CliRunner

from adjourn.cli.init import init


def said(*options: str) -> str:
    done = CliRunner().invoke(init, options)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_task_says_what_comes_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample task is to be edited and reviewed; one that was there already is neither written nor spoken of."""
    monkeypatch.chdir(tmp_path)
    assert "see what it requests: adjourn policy review tasks/mend.aex" in said("--task", "mend")
    assert "adjourn policy review" not in said("--task", "mend")


@pytest.mark.parametrize("there", [True, False])
def test_the_server_for_code_has_to_be_installed(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the skill are written without the extra; that the server does not start yet, and the remedy, are said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("adjourn.cli.init.find_spec", lambda name: ModuleSpec(name, None) if there else None)
    assert ("pip install 'adjourn[code]'" in said("--code")) is not there
