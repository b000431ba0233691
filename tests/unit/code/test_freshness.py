"""Whether the index says truly how fresh it is, and what is done about files that changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.code.deadline import Deadline
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.index import CodeIndex
from adjourn.code.search.definitions import find_definitions
from support.code_files import repository, write


@pytest.fixture
def codebase(tmp_path: Path) -> Iterator[Codebase]:
    repository(tmp_path, {f"part{n}.py": f"def part{n}():\n    pass\n" for n in range(12)})
    with Codebase(str(tmp_path)) as found:
        found.sync()
        found._unseen = False  # as after the first comparison behind a running watcher
        yield found


def test_an_edited_file_is_read_before_it_is_answered_about(codebase: Codebase, tmp_path: Path) -> None:
    """A file that the watcher has told of is indexed before the next answer, which then knows what is new in it."""
    write(tmp_path, {"part3.py": "def written_just_now():\n    pass\n"})
    codebase._changed.add("part3.py")
    assert codebase.state() == {
        "state": "stale",
        "stale_files": 1,
        "ready": ["definitions", "references", "semantic_search"],
    }
    answer = find_definitions(codebase, "written_just_now", exact_match=True)
    assert (answer["total"], answer["index_state"]["state"]) == (1, "ready")
    assert find_definitions(codebase, "part3", exact_match=True)["total"] == 0
    compared = _index(codebase).synced()
    codebase._update(Deadline())
    assert _index(codebase).synced() == compared, "all files were compared for one that was indexed already"
    codebase._update(Deadline())
    assert _index(codebase).synced() != compared


def test_many_changed_files_are_told_and_left_to_the_background(codebase: Codebase, tmp_path: Path) -> None:
    """An answer waits for a few files only; until the others are indexed the state counts them."""
    write(tmp_path, {f"part{n}.py": f"def other{n}():\n    pass\n" for n in range(12)})
    codebase._changed.update(f"part{n}.py" for n in range(12))
    answer = find_definitions(codebase, "other3", exact_match=True)
    assert (answer["index_state"]["state"], answer["index_state"]["stale_files"]) == ("stale", 12)
    codebase._update(Deadline())
    assert codebase.state()["state"] == "ready"
    assert find_definitions(codebase, "other3", exact_match=True)["total"] == 1


def test_a_new_file_is_left_to_a_comparison(codebase: Codebase, tmp_path: Path) -> None:
    """Only a comparison knows whether a new file is ignored; until then the state is `updating`."""
    write(tmp_path, {"new.py": "def brand_new():\n    pass\n"})
    codebase._changed.add("new.py")
    assert find_definitions(codebase, "brand_new", exact_match=True)["index_state"]["state"] == "updating"
    codebase._update(Deadline())
    assert find_definitions(codebase, "brand_new", exact_match=True)["total"] == 1


def test_a_comparison_counts_what_it_has_still_to_index(codebase: Codebase, tmp_path: Path) -> None:
    """While a comparison indexes what it found changed, the state is `stale`, with what is left."""
    write(tmp_path, {f"part{n}.py": f"def other{n}():\n    pass\n" for n in range(5)})
    told = []

    def tell(done: int, total: int) -> None:
        codebase._tell(done, total)
        told.append(codebase.state())

    codebase.sync(Deadline(progress=tell))
    assert {"state": "stale", "stale_files": 5}.items() <= told[0].items()
    codebase._progress = (0, 0)
    assert codebase.state()["state"] == "ready"


def _index(codebase: Codebase) -> CodeIndex:
    assert codebase.index is not None
    return codebase.index


def test_a_file_with_its_old_size_and_time_is_seen(codebase: Codebase, tmp_path: Path) -> None:
    """An edit is indexed although a program gave the file its old size and modification time back."""
    path = tmp_path / "part3.py"
    for text in ("def aaa(): pass\n", "def bbb(): pass\n"):
        path.write_text(text)
        os.utime(path, (1.6e9, 1.6e9))
        codebase.sync()
    assert find_definitions(codebase, "bbb", exact_match=True)["total"] == 1
