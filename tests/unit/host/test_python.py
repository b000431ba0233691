"""How Python and other programs are started: none of them from the workspace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from adjourn.host import executables as python
from adjourn.host.executables import OF_CODE, OWN, find, lies_in, outside, strays
from support.cases import for_each


def put(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_program_is_found_in_absolute_entries_outside_of_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By no relative entry, not in the workspace, not by a link into it; and a name with a slash is what it is."""
    work, elsewhere = tmp_path / "work", put(tmp_path / "bin" / "tool")
    inside = put(work / "bin" / "tool")
    put(work / "tool")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "tool").symlink_to(inside)
    (tmp_path / "folder").symlink_to(work / "bin")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "tool").write_text("not to be run")
    (tmp_path / "plain" / "other").mkdir()
    monkeypatch.chdir(work)
    entries = [
        ".",
        "",
        "bin",
        str(work / "bin"),
        *(str(tmp_path / name) for name in ("links", "folder", "plain", "bin")),
    ]
    monkeypatch.setenv("PATH", ":".join(entries))
    assert find("tool", str(work)) == elsewhere
    assert find("tool") == inside
    assert find("other", str(work)) is None
    assert find("./tool", str(work)) == "./tool"
    kept = [str(tmp_path / name) for name in ("links", "plain", "bin")]
    assert outside(os.environ, str(work))["PATH"] == ":".join(kept)


def test_a_workspace_that_is_everything_has_nothing_outside() -> None:
    """In /, no program would remain: only relative entries are left out then."""
    assert not lies_in("/usr/bin/git", "/")
    assert not lies_in("/usr/bin/git", "")
    assert lies_in("/usr/bin/git", "/usr")
    assert not lies_in("/usr/bin/git", "/us")


@for_each("name", OF_CODE)
def test_variables_that_name_places_name_none_of_the_workspace(tmp_path: Path, name: str) -> None:
    """Relative entries go, and those in the workspace; others and other variables stay."""
    work = tmp_path / "work"
    given = {name: f".::lib:{work}/lib:{work}:{tmp_path}/elsewhere", "PYTHONHASHSEED": "1"}
    assert outside(given, str(work)) == {name: f"{tmp_path}/elsewhere", "PYTHONHASHSEED": "1"}
    assert name not in outside({name: "."}, str(work))
    found = {entry for _, entry in strays(given, str(work))}
    assert found == {".", "", "lib"} | (set() if name == "PATH" else {str(work), f"{work}/lib"})
    assert strays({name: ""}, str(work)) == []


def test_where_adjourn_itself_lies_is_kept() -> None:
    """Who works on adjourn has it in the workspace."""
    own = str(Path(python.__file__).parents[2])
    assert outside({"PYTHONPATH": own}, os.path.dirname(own)) == {"PYTHONPATH": own}
    assert strays({"PYTHONPATH": own}, os.path.dirname(own)) == []


def test_a_python_of_ours_sees_no_module_of_the_folder(tmp_path: Path) -> None:
    """-P keeps it out, for `-m`, for `-c`, and for a script."""
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    for arguments in (("-m", "json.tool", "--help"), ("-c", "import json")):
        done = subprocess.run(python.python_command(*arguments), cwd=tmp_path, check=False, capture_output=True)
        assert done.returncode == 0, done.stderr


def test_leaving_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entries go: the empty one, relative ones, the folder itself, what PYTHONPATH added of it; an environment in it stays."""
    monkeypatch.chdir(tmp_path)
    environment = f"{tmp_path}/.venv/lib/python3/site-packages"
    monkeypatch.setenv("PYTHONPATH", f"src:{tmp_path}/lib:/opt/lib")
    others = [OWN, "/opt/lib", environment, "/usr/lib/python3"]
    here = ["", ".", str(tmp_path), f"{tmp_path}/src", f"{tmp_path}/lib"]
    monkeypatch.setattr(sys, "path", [*here, *others])
    python.leave_working_folder()
    assert sys.path == others
