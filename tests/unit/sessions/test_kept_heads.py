"""What a list keeps of transcripts: it lists the same again without opening them, and keeps none of their words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adjourn.sessions import catalog, files, heads
from support.cases import for_each
from support.transcripts import ASKED, FOLDER, ClaudeTranscript, CodexTranscript, bakery


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "GEMINI_CLI_HOME",
        "XDG_DATA_HOME",
        "XDG_CACHE_HOME",
        "COPILOT_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for writer in (ClaudeTranscript, CodexTranscript):
        bakery(writer()).save(tmp_path)
    return tmp_path


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The transcripts that are opened from now on."""
    paths: list[str] = []
    real = files.open_own

    def open_own(path: str, top: str = "") -> int:
        paths.append(path)
        return real(path, top)

    monkeypatch.setattr(files, "open_own", open_own)
    return paths


def kept(home: Path) -> Path:
    return home / ".cache" / "adjourn" / heads.NAME


def test_a_list_opens_no_file_twice(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second list has the same sessions, in each folder, and opens a transcript only for the titles of those that it shows."""
    first = catalog.listed([])
    paths = opened(monkeypatch)
    again = catalog.listed([])
    assert [file.id for file in catalog.listed([FOLDER])] == [file.id for file in again]
    assert catalog.listed(["/home/ada/elsewhere"]) == []
    assert paths == []
    catalog.add_titles(again)
    assert again == first
    assert [file.title for file in again] == [" ".join(ASKED.split())] * 2
    assert len(paths) == 2


def test_a_file_that_grew_is_read_again(home: Path) -> None:
    """A session that has grown has its new time in the next list."""
    before = {file.client: file.touched for file in catalog.listed([])}
    transcript = bakery(ClaudeTranscript())
    transcript.say("Baked.")
    transcript.save(home)
    after = {file.client: file.touched for file in catalog.listed([])}
    assert after["claude"] > before["claude"]
    assert after["codex"] == before["codex"]


def test_no_word_of_a_session_is_kept(home: Path) -> None:
    """The kept file has no word of the first prompt, and only its owner reads it."""
    catalog.listed([])
    text = kept(home).read_text()
    assert FOLDER in text
    assert not [word for word in ASKED.split() if len(word) > 5 and word in text]
    assert kept(home).stat().st_mode & 0o777 == 0o600


@for_each("data", [b"", b"null", b'{"version":1,"files":{"a":[1]}}', b'{"version":2}', b"\xff" * 100])
def test_a_damaged_kept_file_is_made_again(data: bytes, home: Path) -> None:
    """Whatever stands in the kept file, the list is whole."""
    kept(home).unlink(missing_ok=True)
    whole = catalog.listed([])
    kept(home).write_bytes(data)
    assert catalog.listed([]) == whole
    assert FOLDER.encode() in kept(home).read_bytes()


def test_a_kept_file_that_is_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    """A link in the place of the kept file is neither read nor written through."""
    whole = catalog.listed([])
    elsewhere = tmp_path / "elsewhere"
    kept(home).rename(elsewhere)
    before = elsewhere.read_bytes().replace(FOLDER.encode(), b"/home/eve/forged0")
    elsewhere.write_bytes(before)
    kept(home).symlink_to(elsewhere)
    assert [file.folder for file in catalog.listed([])] == [file.folder for file in whole]
    assert elsewhere.read_bytes() == before


def test_a_folder_that_cannot_be_written_keeps_nothing(home: Path) -> None:
    """A list does not need its kept file."""
    (home / ".cache").write_text("")
    assert len(catalog.listed([])) == 2


@for_each("writer", [ClaudeTranscript, CodexTranscript])
def test_a_fork_is_folded_from_what_is_kept(writer: Any, home: Path) -> None:
    """A fork is one line with its parent, also where neither is opened."""
    bakery(writer(id_="0a5e0000-0000-4000-8000-000000000009")).save(home)
    forks = [file.forks for file in catalog.listed([]) if file.client == writer.client]
    assert forks == [1]
    assert [file.forks for file in catalog.listed([]) if file.client == writer.client] == forks


def test_a_list_loads_only_what_it_needs(home: Path) -> None:
    """Neither tasks, policies, pages, SQLite nor a model's client is loaded to list sessions."""
    program = (
        "import sys; from adjourn.sessions import catalog; catalog.listed([]); "
        "print(sorted({name.rpartition('.')[0] or name for name in sys.modules if name.startswith('adjourn.')} "
        "| {'sqlite3', 'tempfile', 'subprocess', 'urllib.parse'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['adjourn', 'adjourn.host', 'adjourn.log', 'adjourn.sessions', 'adjourn.text']"


_LIST = """\
import os, resource, signal, sys
from adjourn.host import workspace
from adjourn.sessions import catalog
if sys.argv[1] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
if sys.argv[1] == "killed":
    os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
for number in range(int(sys.argv[2])):
    print(len(catalog.listed([])))
    os.utime(sys.argv[3], ns=(number, number))
"""


def listing(home: Path, how: str, times: int = 1) -> subprocess.Popen[str]:
    """A process that lists all sessions, and touches one after each time."""
    transcript = next(home.glob(".claude/projects/*/*.jsonl"))
    return subprocess.Popen(
        [sys.executable, "-c", _LIST, how, str(times), str(transcript)],
        env={**os.environ, "HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@for_each("how", ["full", "killed"])
def test_a_write_that_ends_half_way_leaves_what_was_kept(how: str, home: Path) -> None:
    """On a full disk the list is whole; after a kill the next one is. What was kept stays as it was, and no part stays for good."""
    kept(home).unlink(missing_ok=True)
    whole = catalog.listed([])
    before = kept(home).read_bytes()
    bakery(ClaudeTranscript(id_="0a5e0000-0000-4000-8000-000000000007")).save(home)
    out, error = listing(home, how).communicate(timeout=60)
    assert (out, error) == ("" if how == "killed" else f"{len(whole)}\n", "")
    assert kept(home).read_bytes() == before
    for part in kept(home).parent.glob(".*"):
        os.utime(part, (1, 1))
    catalog.listed([])
    assert [path.name for path in kept(home).parent.iterdir()] == [heads.NAME]
    assert kept(home).read_bytes() != before


def test_a_part_that_another_process_deletes_first_is_no_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads are kept all the same."""
    catalog.listed([])
    part = kept(home).parent / f".{heads.NAME}.left"
    part.touch()
    os.utime(part, (1, 1))
    bakery(ClaudeTranscript(id_="0a5e0000-0000-4000-8000-000000000008")).save(home)
    before = kept(home).read_bytes()
    unlink = os.unlink

    def late(path: str) -> None:
        unlink(path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", late)
    catalog.listed([])
    assert kept(home).read_bytes() != before


def test_processes_that_list_at_once_keep_a_whole_file(home: Path) -> None:
    """Each list is whole while three processes replace what is kept, and so is what stays."""
    lists = [listing(home, "at once", 20) for _ in range(3)]
    for each in lists:
        out, error = each.communicate(timeout=60)
        assert (out, error) == ("2\n" * 20, "")
    assert FOLDER in kept(home).read_text()
    assert len(catalog.listed([])) == 2
