"""The two passes of the index: definitions and references first, the words of chunks after them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.code.deadline import CancelledError, Deadline
from adjourn.code.index import database, workers
from adjourn.code.index.analysis import SKIPPED, ChunkText, chunks_of, words_of
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.index import CodeIndex
from adjourn.code.index.outline import outline
from adjourn.code.index.workers import AnalysisRequest
from adjourn.code.search.definitions import find_definitions
from adjourn.code.search.references import find_references
from adjourn.code.search.semantic import semantic_search
from adjourn.host import executables
from support.code_files import SHAPES, USER, repository, write

SURFACE = "the surface that a circle covers"
FILES = 6


@pytest.fixture
def codebase(tmp_path: Path) -> Iterator[Codebase]:
    files = {f"part{n}.py": f'def part{n}():\n    """Handles invoice{n}."""\n' for n in range(FILES)}
    repository(tmp_path, {"shapes.py": SHAPES, "use.py": USER, "notes.txt": "plain words\n", **files})
    with Codebase(str(tmp_path)) as found:
        yield found


def _index(codebase: Codebase) -> CodeIndex:
    assert codebase.index is not None
    return codebase.index


def _names(codebase: Codebase, query: str) -> list[str]:
    return [hit["metadata"]["name"] for hit in semantic_search(codebase, query)["hits"]]


def test_definitions_and_references_are_ready_before_words(codebase: Codebase) -> None:
    """After the first pass the index answers by name, and its state says that a search by meaning is still to come."""
    _index(codebase).sync()
    answer = find_definitions(codebase, "total_area", exact_match=True)
    assert (answer["total"], answer["cache_hit"]) == (1, True)
    assert answer["index_state"] == {"state": "ready", "ready": ["definitions", "references"]}
    assert {one["file"] for one in find_references(codebase, "total_area")["references"]} == {"shapes.py", "use.py"}
    assert _names(codebase, SURFACE) == []
    assert _index(codebase).add_words()
    assert codebase.state()["ready"] == ["definitions", "references", "semantic_search"]
    assert _names(codebase, SURFACE)[0] == "Circle.area"


def test_a_sync_does_both_passes(codebase: Codebase) -> None:
    """`sync` returns when the index answers everything."""
    assert not codebase.sync().partial
    assert codebase.state() == {"state": "ready", "ready": ["definitions", "references", "semantic_search"]}
    assert codebase.sync(Deadline(0)).partial


def test_an_interrupted_second_pass_keeps_what_it_has(codebase: Codebase) -> None:
    """What was done before an interruption is in the index; the next pass does the rest."""
    _index(codebase).sync()
    looks = iter([False] * 3)
    with pytest.raises(CancelledError):
        _index(codebase).add_words(Deadline(cancelled=lambda: next(looks, True)))
    (left,) = _index(codebase).database.all("SELECT count(*) FROM content WHERE worded = 0")[0]
    assert 0 < left < FILES + 3
    assert _index(codebase).add_words()
    for number in range(FILES):
        assert _names(codebase, f"handles invoice{number}")[0] == f"part{number}"


def test_a_file_that_changed_between_the_passes_is_left_to_the_next_sync(codebase: Codebase, tmp_path: Path) -> None:
    """Words are only taken from the bytes that the chunks were cut from."""
    _index(codebase).sync()
    write(tmp_path, {"shapes.py": "# shorter\n" + SHAPES.replace("surface", "outside")})
    (tmp_path / "use.py").unlink()
    assert _index(codebase).add_words()
    assert "Circle.area" not in _names(codebase, SURFACE)
    codebase.sync()
    assert _names(codebase, "the outside that a circle covers")[0] == "Circle.area"


def test_words_are_added_once_and_never_to_another_content(codebase: Codebase) -> None:
    """Words that another process added, or that are of a content which was replaced under its number, are dropped."""
    index = _index(codebase)
    index.sync()
    (number, key), *_ = index.database.all("SELECT id, hash FROM content ORDER BY id")
    (chunks,) = index.database.all("SELECT count(*) FROM chunk WHERE content = ?", (number,))[0]
    words = [("", "", "zebra")] * chunks
    database.save_words(index.database, {(number, b"another"): words})
    found = "SELECT count(*) FROM chunk_words WHERE chunk_words MATCH 'zebra'"
    assert index.database.all(found) == [(0,)]
    for _ in range(2):
        database.save_words(index.database, {(number, key): words})
        assert index.database.all(found) == [(chunks,)]


def test_two_processes_share_the_second_pass(codebase: Codebase, tmp_path: Path) -> None:
    """Two indexes of one work tree that add words at once give each chunk its words once."""
    _index(codebase).sync()
    with Codebase(str(tmp_path)) as other:
        threads = [threading.Thread(target=_index(one).add_words) for one in (codebase, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert _index(other).has_words()
    assert _names(codebase, SURFACE).count("Circle.area") == 1


@pytest.mark.parametrize(
    ("data", "language"),
    [(SHAPES.encode(), "python"), (b"one\ntwo\n" * 120, "text"), (b"\n" * 60 + b"word", "text"), (b"", "text")],
)
def test_the_bytes_of_a_chunk_are_its_text(data: bytes, language: str) -> None:
    """Start and end of a chunk cut out its lines, so that its words can be found later without parsing."""
    found = outline(data, language) if language != "text" else None
    for chunk in chunks_of(data, found):
        text = data[chunk.start : chunk.end]
        lines = data.split(b"\n")[chunk.line - 1 : chunk.end_line]
        assert text.strip() in b"\n".join(lines)
        name, doc, words = words_of(data, ChunkText(chunk.name, chunk.kind, chunk.doc, chunk.start, chunk.end))
        assert set(doc.split()) <= set(words.split())
        assert bool(name) == (chunk.kind not in {"block", "module"})


_WORKER = """
import os, sys, time
from adjourn.code.index import workers as worker
perform = worker.AnalysisRequest.perform
def fail(self):
    if self.data == b"stall":
        time.sleep(300)
    if self.data == b"crash":
        os._exit(1)
    return perform(self)
worker.AnalysisRequest.perform = fail
open(f"{sys.argv[1]}/{os.getpid()}", "w").close()
worker.main()
"""


def test_a_file_that_stalls_or_crashes_a_worker_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One watch over all workers kills the one that takes too long; its file is skipped, every other is analyzed, in order."""
    monkeypatch.setattr(workers, "_FILE_SECONDS", 1.0)
    monkeypatch.setattr(workers, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(executables, "python_command", lambda *_: [sys.executable, "-c", _WORKER, str(tmp_path)])
    start = workers._Worker._started

    def started(worker: workers._Worker) -> subprocess.Popen[bytes]:
        """A worker that has imported what it needs: the limit is about its files."""
        process = start(worker)
        while process.poll() is None and not (tmp_path / str(process.pid)).exists():
            time.sleep(0.01)
        return process

    monkeypatch.setattr(workers._Worker, "_started", started)
    datas = [b"one two"] * 100
    datas[20], datas[40] = b"stall", b"crash"
    requests = ((number, AnalysisRequest(data, "text")) for number, data in enumerate(datas))
    found = list(workers.answers(requests, len(datas), "/"))
    assert [number for number, _ in found] == [*range(100)]
    assert [number for number, analysis in found if analysis.engine == SKIPPED] == [20, 40]
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
