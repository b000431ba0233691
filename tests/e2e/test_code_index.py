"""The index with real processes: killed while it works, shared by several, and watching files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import watchfiles

from adjourn.code.index.codebase import Codebase
from adjourn.code.search.definitions import find_definitions
from support.code_files import git, repository, write
from support.processes import children, command

_SYNC = """
import sys
from adjourn.code.index.codebase import Codebase
with Codebase(sys.argv[1]) as codebase:
    print("begun", flush=True)
    report = codebase.sync()
    print(report.added, flush=True)
"""
_STOP_IN_THE_MIDDLE = """
import signal, sys
from adjourn.code.index.codebase import Codebase
from adjourn.code.deadline import Deadline

def stop(done, total):
    if 0 < done < total:
        print("begun", flush=True)
        signal.pause()

with Codebase(sys.argv[1]) as codebase:
    codebase.sync(Deadline(progress=stop))
"""
FILES = 260  # the first 200 are written at once


@pytest.fixture
def many(tmp_path: Path) -> Path:
    body = "".join(f"def part{{0}}_{i}(value):\n    return value + {i}\n\n" for i in range(60))
    root = repository(tmp_path / "r", {f"m{i // 50}/f{i}.py": body.replace("{0}", str(i)) for i in range(FILES)})
    time.sleep(2.1)  # what was written just now is examined twice
    return root


def _start(root: Path, script: str = _SYNC) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", script, str(root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def _until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def _workers(pid: int) -> list[int]:
    return [child for child in children(pid) if b"worker" in b" ".join(command(child))]


def test_killed_while_indexing_the_next_one_goes_on(many: Path) -> None:
    """After kill -9 no worker stays behind, what was written is kept, and the next sync finishes it."""
    process = _start(many, _STOP_IN_THE_MIDDLE)
    workers = _workers(process.pid)
    assert workers
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    _until(lambda: not any(b"worker" in b" ".join(command(worker)) for worker in workers))
    with Codebase(str(many)) as codebase:
        assert not codebase.complete()
        assert 0 < codebase.sync().unchanged < FILES
        assert find_definitions(codebase, f"part{FILES - 1}_59", exact_match=True)["total"] == 1
        assert codebase.index is not None
        assert codebase.index.stats()["files"] == FILES


def test_two_processes_make_one_index(many: Path) -> None:
    """Two servers that start at once do the work once and both are complete."""
    first, second = _start(many), _start(many)
    added = sorted(int(process.communicate(timeout=120)[0]) for process in (first, second))
    assert sum(added) == FILES
    with Codebase(str(many)) as codebase:
        assert codebase.complete()
        assert codebase.sync().unchanged == FILES


def test_nothing_waits_for_the_index(many: Path) -> None:
    """While the index is built in the background, answers come at once, are right, and say so."""
    with Codebase(str(many)) as codebase:
        codebase.start(watch=False)
        began = time.monotonic()
        answer = find_definitions(codebase, "part7_3", exact_match=True)
        assert time.monotonic() - began < 10
        assert [one["file"] for one in answer["definitions"]] == ["m0/f7.py"]
        assert answer["index_state"]["state"] in {"building", "empty", "ready"}
        _until(lambda: codebase.state()["state"] == "ready", 120)
        assert find_definitions(codebase, "part7_3", exact_match=True)["cache_hit"]


def test_closing_ends_the_work(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing while the index is built ends its thread and its workers."""
    saved, closing = threading.Event(), threading.Event()

    def wait(_codebase: Codebase, done: int, _total: int) -> None:
        if 0 < done < FILES:
            saved.set()
            closing.wait(60)

    monkeypatch.setattr(Codebase, "_tell", wait)
    codebase = Codebase(str(many))
    codebase.start()
    assert saved.wait(60)
    assert _workers(os.getpid())
    threading.Timer(0.1, closing.set).start()
    codebase.close()
    assert not _workers(os.getpid())


def test_a_watched_tree_is_up_to_date(tmp_path: Path) -> None:
    """New, changed and deleted files and a branch switch reach the index without anybody asking."""
    root = repository(tmp_path / "r", {"a.py": "def one(): pass\n", ".gitignore": "out/\n"})
    git(root, "checkout", "--quiet", "-b", "other")
    write(root, {"b.py": "def on_other(): pass\n"})
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "other")
    git(root, "checkout", "--quiet", "main")
    with Codebase(str(root)) as codebase:
        codebase.start()
        _until(codebase.complete)

        def known(name: str) -> bool:
            return _is_known(codebase, name)

        write(root, {"c.py": "def added(): pass\n", "out/d.py": "def ignored(): pass\n"})
        _until(lambda: known("added"))
        write(root, {"a.py": "def renamed(): pass\n"})
        _until(lambda: known("renamed") and not known("one"))
        (root / "c.py").unlink()
        _until(lambda: not known("added"))
        git(root, "stash", "--quiet", "--include-untracked")
        git(root, "checkout", "--quiet", "other")
        _until(lambda: known("on_other"))
        assert not known("ignored")


def test_a_change_before_the_watcher_runs_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written after the first comparison and before a slow watcher runs reaches the index without a query."""
    root = repository(tmp_path / "r", {"a.py": "def one(): pass\n"})
    watch, released = watchfiles.watch, threading.Event()

    def slow_watch(*paths: str, **options: Any) -> Iterator[set[tuple[watchfiles.Change, str]]]:
        released.wait()
        yield from watch(*paths, **options)

    monkeypatch.setattr(watchfiles, "watch", slow_watch)
    with Codebase(str(root)) as codebase:
        codebase.start()
        _until(codebase.complete)
        write(root, {"b.py": "def between(): pass\n"})
        released.set()
        _until(lambda: _is_known(codebase, "between"))


def _is_known(codebase: Codebase, name: str) -> bool:
    assert codebase.index is not None
    row = codebase.index.database.one(
        "SELECT 1 FROM name JOIN symbol ON symbol.name = name.id JOIN file USING (content) WHERE name.name = ?", (name,)
    )
    return row is not None


def test_a_worker_answers_and_ends_with_its_input() -> None:
    """A worker speaks only through its pipe and ends when that closes, or when a message is cut short."""
    command = [sys.executable, "-m", "adjourn.code.index.workers"]
    for data in (b"", (100).to_bytes(4, "big") + b"short"):
        done = subprocess.run(command, input=data, capture_output=True, timeout=30, check=True)
        assert (done.stdout, done.stderr) == (b"", b"")


def test_importing_is_light() -> None:
    """The library imports no grammar, no watcher and no numbers until they are used."""
    script = "import sys, json, adjourn.code.search.context, adjourn.code.search.semantic, adjourn.code.search.impact; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in json.loads(done.stdout)}
    assert not loaded & {"tree_sitter", "tree_sitter_python", "watchfiles", "numpy", "mcp", "asyncio", "click"}
