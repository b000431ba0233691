"""`adjourn policy check` as editors and CI meet it: files, folders and stdin, and every format."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

GOOD = 'policy p v0\n\ngoal "g"\n\nuse file.read\n'
WARNED = GOOD + "use file.read\n"
BAD = GOOD + "nonsense\n"


class Done(NamedTuple):
    code: int
    out: str
    err: str


def check(folder: Path, *arguments: str, stdin: bytes = b"", workspace: Path | None = None) -> Done:
    environment = {key: value for key, value in os.environ.items() if key != "GITHUB_WORKSPACE"}
    if workspace:
        environment["GITHUB_WORKSPACE"] = str(workspace)
    done = subprocess.run(
        [sys.executable, "-m", "adjourn", "policy", "check", *arguments],
        check=False, cwd=folder, env=environment, input=stdin, capture_output=True, timeout=60,
    )  # fmt: skip
    assert b"Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Documents in many places, some of which are not to be examined."""
    (tmp_path / "outside.aex").write_text(BAD)
    root = tmp_path / "work"
    for name, text in {
        ".aex/policy.aex": GOOD,
        "tasks/b.aex": BAD,
        "tasks/a.aex": WARNED,
        "tasks/notes.md": BAD,
        ".git/x.aex": BAD,
        ".venv/x.aex": BAD,
        "node_modules/m/x.aex": BAD,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "tasks" / "link.aex").symlink_to(tmp_path / "outside.aex")
    (root / "linked").symlink_to(tmp_path)
    return root


def test_a_folder_stands_for_the_documents_below_it(folder: Path) -> None:
    """Every document is checked once, in order of name; hidden folders but .aex, packages and links are left out."""
    done = check(folder, ".", "tasks", "tasks/a.aex")
    assert done.code == 1
    assert [line for line in done.out.splitlines() if re.match(r"\S+\.aex: ", line)] == [
        ".aex/policy.aex: valid policy",
        "tasks/a.aex: valid policy, 1 warning",
        "tasks/b.aex: 1 error",
    ]
    assert check(folder, ".aex", "tasks/a.aex").code == 0


def test_a_folder_without_documents_does_not_pass(folder: Path) -> None:
    """The wrong folder is an error."""
    (folder / "empty").mkdir()
    done = check(folder, "empty")
    assert done.code == 1
    assert "no .aex file in empty" in done.err


def test_without_a_file_the_workspace_is_checked(tmp_path: Path) -> None:
    """The policy and the contracts in tasks/ and .aex/, from any of its folders; a workspace without any is an error."""
    for name, text in (
        (".aex/policy.aex", WARNED),
        (".aex/runs/r.aex", GOOD),
        ("tasks/t.aex", BAD),
        ("src/x.aex", BAD),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for folder, up in ((tmp_path, ""), (tmp_path / "src", "../")):
        done = check(folder)
        assert done.code == 1
        named = [line.partition(": ")[0] for line in done.out.splitlines() if ": valid" in line or ": 1 error" in line]
        assert named == [up + name for name in (".aex/policy.aex", "tasks/t.aex", ".aex/runs/r.aex")]
    empty = tmp_path / "tasks" / "empty"
    empty.mkdir()
    (tmp_path / ".aex").rename(tmp_path / "gone")
    assert "neither a policy nor a contract" in check(empty).err


def test_stdin_is_checked_like_a_file(folder: Path) -> None:
    """`-` is stdin: its findings, its bounds, its encoding."""
    assert check(folder, "-", stdin=GOOD.encode()).out == "-: valid policy\n"
    done = check(folder, "-", stdin=BAD.encode())
    assert (done.code, done.out.splitlines()[0]) == (1, "-: 1 error")
    assert "AEX132" in check(folder, "-", stdin=b"\xff").out
    assert "AEX131" in check(folder, "-", stdin=b"#" * 10_000_001).out


def test_json_is_one_of_the_formats(folder: Path) -> None:
    """`--json` is `--format json`; beside another format it is wrong usage."""
    told = check(folder, "tasks", "--json")
    assert told == check(folder, "tasks", "--format", "json")
    assert [file["valid"] for file in json.loads(told.out)["files"]] == [True, False]
    assert check(folder, "tasks", "--json", "--format", "sarif").code == 2
    assert check(folder, "tasks", "--format", "xml").code == 2


def test_annotations_name_the_path_in_the_repository(folder: Path) -> None:
    """The commands name files as the repository has them, wherever in it the check is run."""
    done = check(folder / "tasks", "a.aex", "../.aex", "b.aex", "--format", "github", workspace=folder)
    lines = done.out.splitlines()
    assert done.code == 1
    assert lines[0] == "3 checked: 1 error, 1 warning"
    assert [line.partition(",title")[0] for line in lines[1:]] == [
        "::warning file=tasks/a.aex,line=6,col=5,endColumn=14",
        "::error file=tasks/b.aex,line=6,col=1,endColumn=9",
    ]
    assert check(folder, ".aex", "--format", "github") == Done(0, "1 checked: all valid\n", "")


@pytest.mark.parametrize("workspace", [True, False])
def test_sarif_names_the_path_in_the_repository(folder: Path, *, workspace: bool) -> None:
    """SARIF has the paths of the repository; outside of GitHub, those of the current folder."""
    done = check(
        folder / "tasks", "b.aex", "../../outside.aex", "--format", "sarif",
        workspace=folder if workspace else None,
    )  # fmt: skip
    assert done.code == 1
    places = [one["locations"][0]["physicalLocation"] for one in json.loads(done.out)["runs"][0]["results"]]
    assert [place["artifactLocation"]["uri"] for place in places] == [
        "tasks/b.aex" if workspace else "b.aex",
        str(folder.parent / "outside.aex"),
    ]
    assert json.loads(check(folder, ".aex", "--format", "sarif").out)["runs"][0]["results"] == []
