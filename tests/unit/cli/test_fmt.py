"""`adjourn policy fmt`, `parse` and `compile`: what is printed, what is written, and what is left alone."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from adjourn.cli import check
from adjourn.cli import main as cli

WILD = "goal 'g'\n"
ROUGH = '# why\ntask t v0\ngoal "g"\nuse  a,b\nreturn 1\n'
TIDY = '# why\ntask t v0\n\ngoal "g"\n\nuse a, b\n\nreturn 1\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, text: str) -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return file


def piped(*arguments: str, text: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "adjourn", *arguments]
    return subprocess.run(command, check=False, input=text.encode(), capture_output=True, timeout=60)


def test_files_and_folders_are_written(capfd: pytest.CaptureFixture[str]) -> None:
    """Every document named or below a folder is laid out, once; hidden folders other than .aex are left alone."""
    one, two, hidden, tidy = (write(path, ROUGH) for path in ("a.aex", ".aex/b.aex", ".git/c.aex", "sub/notes.txt"))
    write("sub/d.aex", TIDY)
    assert cli(["fmt", ".", "a.aex"]) == 0
    assert [file.read_text() for file in (one, two, hidden, tidy)] == [TIDY, TIDY, ROUGH, ROUGH]
    assert capfd.readouterr().out == "2 of 3 files formatted\n  a.aex\n  .aex/b.aex\n"
    assert cli(["fmt", "."]) == 0
    assert capfd.readouterr().out == "all formatted: 3 files\n"
    assert sorted(os.listdir()) == [".aex", ".git", "a.aex", "sub"]


def test_permissions_stay_and_line_ends_become_lf() -> None:
    """The file keeps its mode, and CRLF becomes LF."""
    file = write("a.aex", TIDY.replace("\n", "\r\n"))
    file.chmod(0o640)
    assert cli(["fmt", "a.aex"]) == 0
    assert file.read_bytes() == TIDY.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("flag", ["--check", "--diff"])
def test_looking_writes_nothing(flag: str, capfd: pytest.CaptureFixture[str]) -> None:
    """--check and --diff name the files that differ, with exit code 1, and leave them as they are."""
    file = write("a.aex", ROUGH)
    write("b.aex", TIDY)
    before = file.stat().st_ino, file.stat().st_mtime_ns
    assert cli(["fmt", flag, "a.aex", "b.aex"]) == 1
    out = capfd.readouterr().out
    assert out.startswith("1 of 2 files not formatted\n  a.aex\n")
    assert ("+use a, b\n" in out) == ("-use  a,b\n" in out) == (flag == "--diff")
    assert file.read_text() == ROUGH
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == before
    assert cli(["fmt", flag, "b.aex"]) == 0


def test_the_difference_can_be_applied(capfd: pytest.CaptureFixture[str]) -> None:
    """What --diff prints is a patch that makes what `fmt` writes."""
    write("a.aex", ROUGH)
    cli(["fmt", "--diff", "a.aex"])
    patch = capfd.readouterr().out.partition("---")[2]
    subprocess.run(["patch", "-p0", "a.aex"], input=f"---{patch}".encode(), check=True, capture_output=True)
    assert Path("a.aex").read_text() == TIDY


def test_stdin_goes_to_stdout() -> None:
    """- reads a document and prints it laid out; with an error nothing is printed but the findings."""
    done = piped("fmt", "-", text=ROUGH.replace("why", "wärum \x1b"))
    assert (done.returncode, done.stdout.decode()) == (0, TIDY.replace("why", "wärum \x1b"))
    done = piped("fmt", "-", text=WILD)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"AEX100" in done.stderr
    assert piped("fmt", "-", "--check", text=ROUGH).returncode == 1
    assert piped("fmt", "-", "a.aex", text=ROUGH).returncode == 2


def test_a_file_with_an_error_is_left_alone_and_the_others_are_not(capfd: pytest.CaptureFixture[str]) -> None:
    """Findings go to stderr with exit code 1; the other files are laid out all the same."""
    bad, good = write("a.aex", ROUGH + "nonsense\n"), write("b.aex", ROUGH)
    assert cli(["fmt", ".", "missing.aex"]) == 1
    assert (bad.read_text(), good.read_text()) == (ROUGH + "nonsense\n", TIDY)
    told = capfd.readouterr()
    assert told.out.startswith("1 of 3 files formatted\n")
    assert "a.aex:6:1" in told.err
    assert "adjourn: not formatted because of errors: a.aex, missing.aex\n" in told.err


def test_what_would_not_say_the_same_is_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    """The file stays, and the message says why and what to do."""
    text = 'task t v0\ngoal "g"\nif x\n return {\n a: [x\n y]\n }\nreturn 1\n'
    file = write("a.aex", text)
    assert cli(["fmt", "a.aex"]) == 1
    assert file.read_text() == text
    assert "in quotes" in capfd.readouterr().err


def test_no_link_is_written_through(capfd: pytest.CaptureFixture[str]) -> None:
    """A link that is named is refused, one in a folder is passed by; the file behind it stays."""
    behind = write("elsewhere/real.txt", ROUGH)
    Path("link.aex").symlink_to(behind)
    assert cli(["fmt", "link.aex"]) == 1
    assert "is a link" in capfd.readouterr().err
    write("b.aex", TIDY)
    assert cli(["fmt", "."]) == 0
    assert behind.read_text() == ROUGH
    assert Path("link.aex").is_symlink()


def test_what_was_written_meanwhile_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changes between reading and writing keeps its new content."""
    file = write("a.aex", ROUGH)
    laid = check._laid

    def slowly(path: str) -> check.Laid:
        one = laid(path)
        file.write_text("new")
        return one

    monkeypatch.setattr(check, "_laid", slowly)
    assert cli(["fmt", "a.aex"]) == 3
    assert file.read_text() == "new"
    assert os.listdir() == ["a.aex"]


def test_fmt_for_machines(capfd: pytest.CaptureFixture[str]) -> None:
    """--json tells of each file whether it differs and what is wrong with it."""
    write("a.aex", ROUGH)
    write("b.aex", WILD)
    assert cli(["fmt", "--json", "--diff", "."]) == 1
    told = json.loads(capfd.readouterr().out)
    assert told["differ"] == 1
    one, other = told["files"]
    assert (one["path"], one["differs"], one["valid"], one["findings"]) == ("a.aex", True, True, [])
    assert one["diff"].startswith("--- a.aex\n")
    assert (other["differs"], other["valid"], other["findings"][0]["code"]) == (False, False, "AEX100")


def test_parse_prints_the_published_shape(capfd: pytest.CaptureFixture[str]) -> None:
    """The model as JSON; a text with errors only with --tolerant, and its findings go to stderr either way."""
    write("a.aex", ROUGH)
    assert cli(["parse", "a.aex"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert list(told) == ["isPolicy", "use", "deny", "needs", "steps", "agent", "goal", "returnStatement"]
    assert told["steps"] == [{"kind": "return", "expression": "1", "line": 5}]
    write("b.aex", ROUGH + "nonsense\n")
    assert cli(["parse", "b.aex"]) == 1
    strict = capfd.readouterr()
    assert strict.out == ""
    assert "b.aex:6:1" in strict.err
    assert cli(["parse", "--tolerant", "b.aex"]) == 0
    tolerant = capfd.readouterr()
    assert json.loads(tolerant.out) == told
    assert "b.aex:6:1" in tolerant.err
    assert cli(["parse", "--tolerant", "missing.aex"]) == 1


def test_parse_does_not_judge(capfd: pytest.CaptureFixture[str]) -> None:
    """A text that reads well but cannot run is printed: judging it is for `check`."""
    write("a.aex", 'task t v0\ngoal "g"\ndo a()\n')
    assert cli(["parse", "a.aex"]) == 0
    assert cli(["compile", "a.aex"]) == 1
    assert "AEX010" in capfd.readouterr().err


def test_compile_of_nonsense_fails(capfd: pytest.CaptureFixture[str]) -> None:
    """Errors mean exit code 1 with the findings, and nothing on stdout."""
    write("a.aex", ROUGH)
    assert cli(["compile", "a.aex"]) == 0
    assert json.loads(capfd.readouterr().out)["permissions"] == {"use": ["a", "b"], "deny": []}
    write("b.aex", "nonsense")
    for name in ("b.aex", "missing.aex"):
        assert cli(["compile", name]) == 1
        told = capfd.readouterr()
        assert told.out == ""
        assert f"{name}" in told.err
    assert piped("compile", "-", text=ROUGH).returncode == 0
