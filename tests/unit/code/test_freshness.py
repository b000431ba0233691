"""Whether the index says truly how fresh it is, and what is done about files that changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.code.deadline import CancelledError, Deadline
from adjourn.code.index import vectors
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.index import CodeIndex
from adjourn.code.search.definitions import find_definitions
from adjourn.code.search.semantic import semantic_search
from adjourn.code.server.codebases import CodeOptions
from adjourn.code.server.server import CodeServer
from support.code_files import repository, write

needs_vectors = pytest.mark.skipif(not vectors.available(), reason="the extra `semantic` is not installed")


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


@needs_vectors
def test_one_process_makes_vectors(codebase: Codebase, tmp_path: Path) -> None:
    """A second index of the repository waits for the lock, and has nothing to make once it has it."""
    index = codebase.index
    assert index is not None
    waiting = threading.Event()

    def looked() -> bool:
        waiting.set()
        return False

    made: list[int] = []
    with Codebase(str(tmp_path)) as other:
        assert other.index is not None
        embedder = threading.Thread(
            target=lambda: made.append(vectors.embed(_index(other), Deadline(cancelled=looked)))
        )
        with index.lock(vectors._LOCK, Deadline()):
            embedder.start()
            assert waiting.wait(60)
            with index.database.transaction() as cursor:
                cursor.executemany(
                    "INSERT INTO vector VALUES (?, ?, x'00')",
                    [(vectors.MODEL, key) for key, _ in vectors.missing(index)],
                )
        embedder.join(60)
        assert made == [0]


def _index(codebase: Codebase) -> CodeIndex:
    assert codebase.index is not None
    return codebase.index


@needs_vectors
def test_without_embedding_only_complete_vectors_are_used(codebase: Codebase, tmp_path: Path) -> None:
    """`embeds=False` makes none, and loads those that another process has made."""
    with Codebase(str(tmp_path), embeds=False) as other:
        other.embed(Deadline())
        assert "vectors" not in other.state()["ready"]
        assert vectors.missing(_index(other))
        codebase.embed(Deadline())
        assert codebase.state()["ready"][-1] == "vectors"
        other.embed(Deadline())
        assert other.state()["ready"][-1] == "vectors"
        assert semantic_search(other, "part3")["hits"][0]["metadata"]["name"] == "part3"


def test_a_server_can_leave_vectors_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `--no-embed` sets reaches each work tree that the server opens."""
    monkeypatch.setattr(Codebase, "start", lambda _: None)
    root = repository(tmp_path, {"a.py": "def one():\n    pass\n"})
    for embeds in (True, False):
        server = CodeServer(str(root), CodeOptions(embeds=embeds))
        try:
            assert server.codebases.of(str(root))._embeds == embeds
        finally:
            server.codebases.close()


@needs_vectors
def test_closing_ends_the_embedder(tmp_path: Path) -> None:
    """A codebase whose vectors are complete closes as soon as it is asked to."""
    repository(tmp_path, {"a.py": "def one():\n    pass\n"})
    codebase = Codebase(str(tmp_path))
    codebase.sync()
    codebase.embed(Deadline())
    codebase.start(watch=False)
    closing = threading.Thread(target=codebase.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()


@needs_vectors
def test_vectors_are_made_behind_everything_else(codebase: Codebase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that makes vectors has the lowest priority, and the others keep theirs."""
    niceness: list[int] = []

    def embed(_codebase: Codebase, _deadline: Deadline) -> None:
        niceness.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        raise CancelledError("enough")

    monkeypatch.setattr(Codebase, "embed", embed)
    codebase._worded.set()
    thread = threading.Thread(target=codebase._embed)
    thread.start()
    thread.join(60)
    assert niceness == [19]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) < 19


def test_a_file_with_its_old_size_and_time_is_seen(codebase: Codebase, tmp_path: Path) -> None:
    """An edit is indexed although a program gave the file its old size and modification time back."""
    path = tmp_path / "part3.py"
    for text in ("def aaa(): pass\n", "def bbb(): pass\n"):
        path.write_text(text)
        os.utime(path, (1.6e9, 1.6e9))
        codebase.sync()
    assert find_definitions(codebase, "bbb", exact_match=True)["total"] == 1
