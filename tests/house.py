"""Figures of the source and of what it takes to run: `python tests/house.py [--names] [--json] [--src OTHER/src ...]`.

Counts modules, lines, class names, import cycles and `noqa`; the functions and files that one warm `tools/call` through
`adjourn proxy` and one `adjourn resume` enter; and how long commands take to start. With --src other trees are measured beside
this one, taking turns. `--static` leaves out what runs anything.

Owns: the figures. Must never: judge them, or need a name inside of adjourn beside its package and its program.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "bench"))

from peer import ADJOURN, ARGUMENTS, Peer, child_environment, wall_time
from profiling import SETTLED_SECONDS, Entered, Profile, profiled
from tables import Cell, Table, median, percentile

REPOSITORY = Path(__file__).parents[1]
PACKAGE = "adjourn"
UPSTREAM = [sys.executable, "-I", "-S", str(Path(__file__).parent / "bench" / "echo_upstream.py")]
POLICY = """\
policy workspace v1

goal "Measure."

use notes.*, files.*, file.read:src/**, shell.exec
deny network.*, secrets.read
confirm before tests.run
budget calls=1000000
"""
HOOK = {"tool_name": "Read", "tool_input": {"file_path": "src/main.py"}, "hook_event_name": "PreToolUse"}
CHECKPOINT = "house"
WARM_UP, CALLS = 20, 7


# --- what is written ------------------------------------------------------------------------------------------------


class Module(NamedTuple):
    """A file of the package."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


class Source:
    """The package in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.modules: dict[str, Module] = {}
        for path in sorted((self.folder / PACKAGE).rglob("*.py")):
            parts = path.relative_to(self.folder).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text("utf-8")
            self.modules[name] = Module(name, path, text, ast.parse(text))
        if not self.modules:
            raise SystemExit(f"{folder}: no package {PACKAGE} is there")

    def figures(self) -> dict[str, Cell]:
        """Row → value."""
        lines = [module.lines for module in self.modules.values()]
        functions = [
            (node.end_lineno or node.lineno) - node.lineno + 1
            for module in self.modules.values()
            for node in ast.walk(module.tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        text = "\n".join(module.text for module in self.modules.values())
        cycles, deferred = self.cycles(), self.cycles(deferred=True)
        return {
            "packages": sum(module.is_package for module in self.modules.values()),
            "modules": len(self.modules),
            "modules of more than 500 lines": sum(count > 500 for count in lines),
            "modules in the fullest folder": max(self.folders().values()),
            "lines": sum(lines),
            "lines per module, median": median(lines),
            "lines per module, p90": percentile(lines, 0.9),
            "lines per module, most": max(lines),
            "functions": len(functions),
            "lines per function, median": median(functions),
            "lines per function, p90": percentile(functions, 0.9),
            "class names of more than one class": len(self.repeated_names()),
            "import cycles": len(cycles),
            "modules in import cycles": sum(map(len, cycles)),
            "import cycles, with imports in functions": len(deferred),
            "modules in those": sum(map(len, deferred)),
            "noqa": len(re.findall(r"#\s*noqa", text)),
        }

    def folders(self) -> Counter[str]:
        """Folder → modules directly in it."""
        return Counter(str(module.path.parent) for module in self.modules.values())

    def repeated_names(self) -> dict[str, list[str]]:
        """Name → modules, for names of several classes."""
        found = defaultdict(list)
        for module in self.modules.values():
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(module.name)
        return {name: places for name, places in sorted(found.items()) if len(places) > 1}

    def cycles(self, *, deferred: bool = False) -> list[list[str]]:
        """Sets of modules that import each other; `deferred`: in functions, too. Imports for type checkers never count.

        An import loads the packages that its module lies in, too; a module's own packages are there before it, and do not count.
        """
        graph = {
            module.name: {
                loaded
                for target in self.imports_of(module, deferred=deferred)
                for loaded in (target, *_packages_of(target))
                if loaded != module.name and loaded not in _packages_of(module.name)
            }
            for module in self.modules.values()
        }
        return sorted(sorted(part) for part in _strongly_connected(graph) if len(part) > 1)

    def imports_of(self, module: Module, *, deferred: bool = False) -> set[str]:
        """The modules of the package that a module imports; `deferred`: in functions, too."""
        nodes = _imports(module.tree, deferred=deferred)
        return {target for node in nodes for target in self._targets(module, node)}

    def imports_from_elsewhere(self, module: Module) -> set[str]:
        """The top names of what a module imports, anywhere in it, that is not of the package."""
        found = set()
        for node in _imports(module.tree, deferred=True):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif not node.level and node.module:
                found.add(node.module.partition(".")[0])
        return found - {PACKAGE}

    def _targets(self, module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in self.modules)
            return
        base = node.module or ""
        if node.level:
            above = module.name.split(".")[: -node.level + module.is_package or None]
            base = ".".join([*above, base] if base else above)
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            if inner in self.modules:
                yield inner
            elif base in self.modules:
                yield base


@cache
def product() -> Source:
    """The source of this repository, read when it is first asked for: nobody who only lists the tests waits for it."""
    return Source(REPOSITORY / "src")


def _imports(tree: ast.AST, *, deferred: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run with the module; `deferred`: those of its functions, too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and _is_for_types(node.test):
            for part in node.orelse:
                yield from _imports(ast.Module([part], []), deferred=deferred)
        elif deferred or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _imports(node, deferred=deferred)


def _packages_of(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _is_for_types(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


def _strongly_connected(graph: Mapping[str, set[str]]) -> Iterator[set[str]]:
    """Tarjan's algorithm (1972), with a stack of its own in place of recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    for root in graph:
        work = [] if root in index else [(root, iter(sorted(graph[root])))]
        while work:
            name, targets = work[-1]
            if name not in index:
                index[name] = low[name] = len(index)
                path.append(name)
            new = next((one for one in targets if one not in index or one in path), None)
            if new is not None and new not in index:
                work.append((new, iter(sorted(graph[new]))))
                continue
            if new is not None:
                low[name] = min(low[name], index[new])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[name])
            if low[name] == index[name]:
                at = path.index(name)
                yield set(path[at:])
                del path[at:]


# --- what is run ----------------------------------------------------------------------------------------------------

_RUN = "from adjourn.__main__ import main; main()"


class Tree:
    """A source tree that is run, in a workspace of its own."""

    def __init__(self, name: str, source: Source, folder: Path) -> None:
        self.name = name
        self.source = source
        self.workspace = folder / "workspace"
        self._report = folder / "entered.json"
        (self.workspace / ".aex").mkdir(parents=True)
        (self.workspace / ".aex" / "policy.aex").write_text(POLICY)
        self.environment = child_environment(str(folder / "config")) | {"PYTHONPATH": str(source.folder)}
        self._hook = json.dumps(HOOK | {"cwd": str(self.workspace)}).encode()

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-c", _RUN, *words]

    @cached_property
    def _proxy(self) -> tuple[str, ...]:
        return ("proxy", "--task", "measured", "--", *UPSTREAM)

    # --- functions

    def _profiled(self, *words: str) -> list[str]:
        return profiled(self._report, ADJOURN, *words)

    def call(self, tool: str) -> tuple[Entered, int]:
        """One warm call and all that is done for it, even after its answer: the median of several. Modules loaded at the end."""
        peer = Peer(self._profiled(*self._proxy), str(self.workspace), self.environment)
        spans = []
        try:
            peer.greet()
            peer.sequential(tool, WARM_UP)
            time.sleep(SETTLED_SECONDS)
            for _ in range(CALLS):
                began = time.perf_counter_ns()
                peer.ask("tools/call", {"name": tool, "arguments": ARGUMENTS})
                time.sleep(SETTLED_SECONDS)
                spans.append((began, time.perf_counter_ns()))
            peer.ask("tools/call", {"name": "aex.checkpoint", "arguments": {"name": CHECKPOINT}})
        finally:
            peer.close()
        profile = self._profile()
        found = [profile.between(*span) for span in spans]
        middle = Entered(*(round(statistics.median(values)) for values in zip(*found, strict=True)))
        return middle, profile.loaded(PACKAGE)

    def resume(self) -> tuple[Entered, int]:
        """The whole of `adjourn resume`, from its start to its end. Modules loaded at the end."""
        words = ("resume", CHECKPOINT, "--json")
        subprocess.run(
            self._profiled(*words), cwd=self.workspace, env=self.environment, check=True, stdout=subprocess.DEVNULL
        )
        profile = self._profile()
        return profile.between(), profile.loaded(PACKAGE)

    def _profile(self) -> Profile:
        return Profile(self._report, self.source.folder / PACKAGE)

    # --- times

    def starts(self) -> Iterator[tuple[str, float]]:
        """Milliseconds that each command took, once."""
        for name, words, given in (
            ("--version", ("--version",), b""),
            ("status", ("status",), b""),
            ("hook", ("hook", "--settle"), self._hook),
        ):
            yield name, wall_time(self.command(*words), str(self.workspace), self.environment, given)
        peer = Peer(self.command(*self._proxy), str(self.workspace), self.environment)
        try:
            yield "proxy, to the answer of initialize", peer.greet() * 1e3
        finally:
            peer.close()


# --- what is shown ---------------------------------------------------------------------------------------------------


def written(sources: Mapping[str, Source]) -> Table:
    table = Table(
        "Source", ["", *sources], "Lines are those of the files. Imports for type checkers only are no imports."
    )
    figures = [source.figures() for source in sources.values()]
    for row in figures[0]:
        table.add(row, *(one[row] for one in figures))
    return table


def entered(trees: list[Tree]) -> Table:
    table = Table(
        "Entered",
        ["", *(tree.name for tree in trees)],
        "Functions and files of the package that run: for one warm tools/call, until the proxy is idle again (median of "
        f"{CALLS}), and for a whole `adjourn resume`. Entries count each time that one is entered, calls those of libraries, too.",
    )
    rows: dict[str, list[tuple[Entered, int]]] = {}
    for tree in trees:
        rows.setdefault("a reading call", []).append(tree.call("notes.get"))
        rows.setdefault("a call with effects", []).append(tree.call("notes.set"))
        rows.setdefault("resume", []).append(tree.resume())
    for name, found in rows.items():
        for figure in Entered._fields:
            table.add(f"{name}: {figure}", *(getattr(one, figure) for one, _ in found))
        table.add(f"{name}: modules loaded by the end", *(modules for _, modules in found))
    return table


def started(trees: list[Tree], rounds: int) -> Table:
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(rounds + 1):
        for tree in trees if number % 2 else trees[::-1]:
            for name, took in tree.starts():
                if number:  # the first one fills the caches
                    times[name][tree.name].append(took)
    table = Table(
        "Starts, ms",
        ["", *(f"{tree.name}: {what}" for tree in trees for what in ("best", "median"))],
        f"{rounds} each, taking turns; the whole process but for `proxy`.",
    )
    for name, by_tree in times.items():
        table.add(name, *(value for tree in trees for value in (min(by_tree[tree.name]), median(by_tree[tree.name]))))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--names", action="store_true", help="list repeated class names and the import cycles")
    parser.add_argument("--static", action="store_true", help="run nothing")
    parser.add_argument("--rounds", type=int, default=15, help="starts of each command (default: 15)")
    parser.add_argument("--src", action="append", default=[], type=Path, help="another tree's src folder")
    parser.add_argument("--only", action="store_true", help="leave out the tree of this file")
    asked = parser.parse_args()
    folders = [REPOSITORY / "src"] * (not asked.only) + asked.src
    labels = ["here"] * (not asked.only) + [str(folder) for folder in asked.src]
    sources = dict(zip(labels, map(Source, folders), strict=True))
    tables = [written(sources)]
    if not asked.static:
        with tempfile.TemporaryDirectory() as folder:
            trees = [
                Tree(name, source, Path(folder, str(number))) for number, (name, source) in enumerate(sources.items())
            ]
            tables += [entered(trees), started(trees, asked.rounds)]
    names: dict[str, Any] = {
        label: {
            "repeated class names": source.repeated_names(),
            "import cycles": source.cycles(),
            "import cycles, with imports in functions": source.cycles(deferred=True),
        }
        for label, source in sources.items()
    }
    if asked.json:
        print(json.dumps({"tables": [table.as_json() for table in tables], "names": names}, indent=1))
        return
    for table in tables:
        print(table.text())
    if asked.names:
        print(json.dumps(names, indent=1))


if __name__ == "__main__":
    main()
