"""Code intelligence on a large corpus: what indexing and answering cost, and how good the answers are.

The corpus is the standard library of the running Python and packages installed beside it: Python files only, the same for each subject.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import code_answers
import code_truth
from sizes import Sizes
from tables import Table, median, percentile, ratio

from adjourn.code.index import ripgrep
from adjourn.code.index.codebase import Codebase
from adjourn.code.search.definitions import find_definitions, get_symbols
from adjourn.code.search.references import find_references
from adjourn.code.search.semantic import semantic_search
from adjourn.code.search.structure import get_function_at_line
from adjourn.code.search.text import search_text

_INDEX = """
import json, resource, sys, time
from adjourn.code.index.codebase import Codebase
with Codebase(sys.argv[1]) as codebase:
    began = time.perf_counter()
    report = codebase.index.sync(force=True)
    first = time.perf_counter() - began
    codebase.index.add_words()
    whole = time.perf_counter() - began
    from adjourn.code.search.references import find_references
    find_references(codebase, "self")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"files": report.added, "first": first, "whole": whole, "own": own, "worker": worker}))
"""
PATTERNS = ["TemporaryDirectory", r"def \w+_lock", "import"]
FREQUENT = ["OrderedDict", "namedtuple", "TemporaryDirectory", "shlex", "Path", "os"]
_NAMES = """
SELECT DISTINCT name.name FROM name JOIN symbol ON symbol.name = name.id WHERE kind IN ('function', 'method', 'class') ORDER BY 1
"""
_LARGE, _USUAL = "stdlib/argparse.py", "stdlib/abc.py"
QUESTIONS = [
    "split a shell command line into words",
    "create a temporary directory and remove it afterwards",
    "cache the results of a function, least recently used first",
]


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The tables of this section."""
    root = Path(folder, "corpus")
    size = _corpus(root, sizes.code_files)
    indexing = _indexing(sizes, root, size)
    with Codebase(str(root)) as codebase:
        codebase.sync()
        answering = _answering(sizes, codebase)
        truth = code_truth.table(sizes, codebase)
    return [indexing, answering, code_answers.table(root), truth]


def _corpus(root: Path, count: int) -> int:
    """Copy so many files. Their bytes."""
    total = 0
    for number, (source, name) in enumerate(_python_files()):
        if number == count:
            break
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        total += target.stat().st_size
    return total


def _python_files() -> Iterator[tuple[Path, str]]:
    for place in ("stdlib", "purelib"):
        base = Path(sysconfig.get_path(place))
        for path in sorted(base.rglob("*.py")):
            name = path.relative_to(base)
            if "site-packages" not in name.parts and path.stat().st_size < 2 << 20:
                yield path, f"{place}/{name}"


def _indexing(sizes: Sizes, root: Path, size: int) -> Table:
    table = Table(
        "Indexing a large repository",
        ["work", "median ms", "fastest ms", "files/s", "MB/s", "resident, MiB", "a worker's, MiB", "index, MB"],
        f"{sizes.code_files:,} Python files, {size / 1e6:.0f} MB, in a process of its own with its workers. Resident: the most that the process "
        "has taken, after it has also looked for every `self`. Targets: 300 MiB; definitions and references 12 s on two free cores; one changed file 100 ms. "
        "The fastest is what it costs where nothing else runs.",
    )
    done = subprocess.run([sys.executable, "-c", _INDEX, str(root)], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    megabytes = (root / ".code-intel" / "index.db").stat().st_size / 1e6
    for what, seconds in (("definitions and references", told["first"]), ("everything", told["whole"])):
        table.add(
            f"first index, until it answers {what}",
            seconds * 1e3,
            None,
            told["files"] / seconds,
            size / 1e6 / seconds,
            told["own"],
            told["worker"],
            megabytes,
        )
    with Codebase(str(root)) as codebase:
        index = codebase.index
        assert index is not None
        codebase.sync()
        times = [_timed(codebase.sync)[0] for _ in range(sizes.code_rounds)]
        table.add("nothing changed, all files compared", median(times), min(times), *[None] * 5)
        for changed in (_USUAL, _LARGE):
            text = (root / changed).read_text()
            works: dict[str, Callable[[], Any]] = {
                "as the watcher tells it": lambda changed=changed: index.refresh([changed]),  # type: ignore[misc]
                "all files compared": codebase.sync,
            }
            for how, work in works.items():
                times = []
                for number in range(sizes.code_rounds):
                    (root / changed).write_text(f"{text}\n# {how} {number}\n")
                    times.append(_timed(work)[0])
                about = f"one changed file of {len(text) / 1e3:.0f} kB, {how}"
                table.add(about, median(times), min(times), *[None] * 5)
    return table


def _answering(sizes: Sizes, codebase: Codebase) -> Table:
    table = Table(
        "Answering from the index",
        ["question", "first, ms", "median, ms", "p90, ms", "bare rg, ms", "times rg"],
        f"First: the first call of a new `Codebase`. The others: all subjects of a row in turn; definitions and references of {sizes.code_names} names "
        "drawn from all functions, methods and classes, and references of some that are used often (`os` on 11,000 lines). Bare rg prints the same matches to a pipe that is "
        "read; they take turns. Targets: text 1.2 times rg; definitions 5 ms; references 50 ms at the 90th percentile.",
    )
    root = codebase.repository.root
    rg = ripgrep.program("")
    assert rg is not None
    for pattern in PATTERNS:
        ours, bare = [], []
        command = [rg, "-n", pattern, root]
        for _ in range(sizes.code_rounds):
            ours.append(_timed(search_text, codebase.repository, pattern)[0])
            bare.append(_timed(subprocess.run, command, capture_output=True)[0])
        table.add(
            f"search_text {pattern}",
            ours[0],
            median(ours),
            percentile(ours, 0.9),
            median(bare),
            ratio(median(ours), median(bare)),
        )
    assert codebase.index is not None
    names = [name for (name,) in codebase.index.database.all(_NAMES)]
    sample = random.Random(4).sample(names, min(sizes.code_names, len(names)))
    questions: dict[str, tuple[list[str], Callable[[Codebase, str], Any]]] = {
        "find_definitions, exact": (sample, lambda c, s: find_definitions(c, s, exact_match=True)),
        "find_definitions, part of a name": (sample, find_definitions),
        "find_references": (sample, find_references),
        **{f"find_references `{name}`": ([name], find_references) for name in FREQUENT},
        "get_symbols of a file": ([_LARGE], get_symbols),
        "get_function_at_line": ([_LARGE], lambda c, s: get_function_at_line(c.repository, s, 520)),
        "semantic_search": (QUESTIONS, semantic_search),
    }
    for name, (subjects, ask) in questions.items():
        with Codebase(root) as fresh:
            first = _timed(ask, fresh, subjects[0])[0]
        rounds = max(1, sizes.code_rounds // 3) if len(subjects) > sizes.code_rounds else sizes.code_rounds
        times = [_timed(ask, codebase, subject)[0] for _ in range(rounds) for subject in subjects]
        table.add(name, first, median(times), percentile(times, 0.9), None, None)
    times = [_greeted(root) for _ in range(sizes.code_rounds)]
    table.add(
        "`initialize`, from the start of the process", times[0], median(times), percentile(times, 0.9), None, None
    )
    return table


def _greeted(root: str) -> float:
    """Milliseconds until a new server has answered the first message, beside an index that it will update."""
    greeting = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
    }  # fmt: skip
    began = time.perf_counter()
    command = [sys.executable, "-m", "adjourn", "code"]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(greeting).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        took = (time.perf_counter() - began) * 1e3
        process.kill()
    assert answer["result"]["serverInfo"]["name"] == "code-intel"
    return took


def _timed(work: Callable[..., Any], *values: Any, **options: Any) -> tuple[float, Any]:
    """Milliseconds, and its outcome."""
    began = time.perf_counter()
    result = work(*values, **options)
    return (time.perf_counter() - began) * 1e3, result
