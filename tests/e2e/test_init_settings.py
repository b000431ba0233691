"""`adjourn init --yes`, then `adjourn init --undo --yes`, by the real command on the settings files of nine clients: not a byte changes."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import pytest

from support.home import Home
from support.settings import FILES, PLACES, place_of

BY_CLIENT = [
    [file for file in FILES if file.parent.name == client and file.name.startswith("home-") == is_home]
    for client in PLACES
    for is_home in (False, True)
]
GROUPS = [[file for file in group if file] for group in zip_longest(*BY_CLIENT)]
"""Files that lie at different places, so that they can be set up together."""


def test_every_file_is_in_a_group() -> None:
    """All of the forty files and more are tried."""
    assert sorted(file for group in GROUPS for file in group) == FILES
    assert len(FILES) >= 40


@pytest.mark.parametrize("files", GROUPS, ids=[str(number) for number, _ in enumerate(GROUPS)])
def test_set_up_and_undo_leave_every_file_as_it_was(tmp_path: Path, files: list[Path]) -> None:
    """Project and home folder are set up at once, and both are taken back, byte for byte and without a new file."""
    at = Home(tmp_path)
    (at.home / ".claude").mkdir()
    for file in files:
        place = place_of(file, at.root, at.home)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.read_bytes())
    before = at.files()
    nothing = {"PATH": f"{tmp_path}/bin"}  # no server can be started, or fetch anything
    for words in (["init", "--yes", "--no-start"], ["init", "--user", "--yes"]):
        done = at.run(*words, **nothing)
        assert done.code == 0, done
    changed = {path for path, content in at.files().items() if before.get(path) != content}
    assert len(changed & before.keys()) >= len(files) // 2
    for words in (["init", "--user", "--undo", "--yes"], ["init", "--undo", "--yes"]):
        done = at.run(*words, **nothing)
        assert done.code == 0, done
    assert at.files() == before
