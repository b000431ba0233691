"""Changes one place of a module at a time and runs tests on it: `python tests/mutants.py [options] MODULE[=TESTS] ...`.

    python tests/mutants.py --most 8 src/adjourn/aex/match.py
    python tests/mutants.py src/adjourn/log/merkle.py=tests/unit/log
    python tests/mutants.py --draw 300 --seed 1 --jobs 2
    python tests/mutants.py --draw 300 --seed 1 --root ../before

A change that no test notices survives and is printed. With --draw, changes are drawn from all modules of the packages in `TESTS`,
and a table is printed: the same seed draws the same changes of the same source, whatever the tests are. --root is the checkout
whose source is changed and whose tests are run.
Owns: the changes, and a copy of the source to make them in. Must never: change a file of the repository.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
TESTS: dict[str, tuple[str, ...]] = {
    "handover": ("tests/unit/handover", "tests/unit/tasks"),
    "log": ("tests/unit/log", "tests/unit/verification", "tests/unit/tasks"),
    "policy": ("tests/unit/policy", "tests/unit/tasks"),
    "relay": ("tests/unit/relay", "tests/unit/proxy", "tests/e2e/test_proxy_*.py"),
    "store": ("tests/contract/test_store*.py", "tests/unit/tasks"),
    "tasks": ("tests/unit/tasks", "tests/unit/clients", "tests/unit/relay"),
}
"""Package → the tests that are run on a change of it, in this order, the slow ones left out."""
PATIENCE = 4
"""A change that makes the tests run so many times as long counts as noticed."""


class Mutant(NamedTuple):
    """One change: the node of that number in the module's tree."""

    module: str
    number: int


def change(node: ast.AST) -> bool:
    """Change a comparison, connective, constant or returned value in place. False where there is nothing to change."""
    if isinstance(node, ast.Compare):
        node.ops[0] = OTHER[type(node.ops[0])]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        node.value += 1
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        node.value = ast.Constant(None)
    else:
        return False
    return True


def mutants(root: Path, module: str) -> Iterator[Mutant]:
    """Each change inside a function of a module."""
    nodes = list(ast.walk(ast.parse((root / module).read_text(encoding="utf-8"))))
    inside = {
        child
        for function in nodes
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in function.body
        for child in ast.walk(statement)
    }
    for number, node in enumerate(nodes):
        if node in inside and change(copy.copy(node) if not isinstance(node, ast.Compare) else copy.deepcopy(node)):
            yield Mutant(module, number)


def mutated(root: Path, mutant: Mutant) -> tuple[int, str, str]:
    """(line, the code before, the whole text after)."""
    tree = ast.parse((root / mutant.module).read_text(encoding="utf-8"))
    node = list(ast.walk(tree))[mutant.number]
    line, before = getattr(node, "lineno", 0), ast.unparse(node)
    change(node)
    return line, before.replace("\n", " ")[:100], ast.unparse(ast.fix_missing_locations(tree))


class Plan(NamedTuple):
    """What pytest is asked to run, and how long that may take."""

    words: list[str]
    seconds: float


class Tries:
    """Runs tests on changed copies of a checkout's source, each change in a copy that no other uses meanwhile."""

    def __init__(self, root: Path, folder: Path, jobs: int) -> None:
        self.root = root
        self._copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            shutil.copytree(root / "src", folder / str(number), ignore=shutil.ignore_patterns("__pycache__"))
            self._copies.put(folder / str(number))

    def files(self, tests: tuple[str, ...]) -> list[str]:
        return [str(path.relative_to(self.root)) for pattern in tests for path in sorted(self.root.glob(pattern))]

    def run(self, texts: dict[str, str], tests: Sequence[str], seconds: float | None = None) -> str | None:
        """Run tests while modules have other texts. Returns what pytest says of failures, None where it took too long."""
        place = self._copies.get()
        kept = {module: (place / Path(module).relative_to("src")).read_text("utf-8") for module in texts}
        try:
            for module, text in texts.items():
                (place / Path(module).relative_to("src")).write_text(text, "utf-8")
            return self._pytest(place, tests, seconds)
        finally:
            for module, text in kept.items():
                (place / Path(module).relative_to("src")).write_text(text, "utf-8")
            self._copies.put(place)

    def _pytest(self, source: Path, tests: Sequence[str], seconds: float | None) -> str | None:
        options = ["-q", "--tb=no", "-rfE", "-m", "not slow", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *options, *tests],
                cwd=self.root,
                env=os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "9999"},
                stdout=subprocess.PIPE,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
        found = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return "\n".join(found) or ("" if done.returncode == 0 else f"exit code {done.returncode}")

    def plan(self, modules: set[str], tests: tuple[str, ...]) -> Plan:
        """How the tests of these modules are run: those that fail in a copy without any change are left out."""
        plain = {name: ast.unparse(ast.parse((self.root / name).read_text("utf-8"))) for name in modules}
        files = self.files(tests)
        began = time.monotonic()
        said = self.run(plain, files) or ""
        failing = [
            line.removeprefix("FAILED ").partition(" - ")[0] for line in said.splitlines() if line.startswith("FAILED ")
        ]
        if said and not failing:
            raise SystemExit(f"{' '.join(tests)}: {said} without any change")
        left_out = [word for name in failing for word in ("--deselect", name)]
        return Plan([*files, "-x", *left_out], PATIENCE * (time.monotonic() - began) + 30)


def tried(tries: Tries, drawn: dict[Mutant, tuple[str, ...]], jobs: int) -> list[Mutant]:
    """Try each change with its tests, and print the outcome. Returns those that no test noticed."""
    wanted: dict[tuple[str, ...], set[str]] = {}
    for mutant, tests in drawn.items():
        wanted.setdefault(tests, set()).add(mutant.module)
    plans = {tests: tries.plan(modules, tests) for tests, modules in wanted.items()}

    def survives(mutant: Mutant) -> bool:
        line, before, after = mutated(tries.root, mutant)
        plan = plans[drawn[mutant]]
        lived = tries.run({mutant.module: after}, plan.words, plan.seconds) == ""
        print(f"{'survived' if lived else 'killed  '} {mutant.module}:{line}: {before}", flush=True)
        return lived

    with ThreadPoolExecutor(jobs) as pool:
        lived = list(pool.map(survives, drawn))
    return [mutant for mutant, alive in zip(drawn, lived, strict=True) if alive]


def package_of(module: str) -> str:
    return Path(module).relative_to("src/adjourn").parts[0].removesuffix(".py")


def table(drawn: dict[Mutant, tuple[str, ...]], lived: list[Mutant]) -> str:
    """Package, changes, killed, survived."""
    every, alive = (Counter(package_of(mutant.module) for mutant in those) for those in (drawn, lived))
    rows = [f"{name:10} {every[name]:6} {every[name] - alive[name]:6} {alive[name]:8}" for name in sorted(every)]
    total = f"{'all':10} {len(drawn):6} {len(drawn) - len(lived):6} {len(lived):8}"
    return "\n".join([f"{'package':10} drawn  killed survived", *rows, total])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=10, help="changes of each named module")
    parser.add_argument("--draw", type=int, default=0, help="changes of all modules of the packages")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("modules", nargs="*", metavar="MODULE[=TESTS]")
    options = parser.parse_args()
    root, rng = options.root.resolve(), random.Random(options.seed)
    drawn: dict[Mutant, tuple[str, ...]] = {}
    for module, _, named in (word.partition("=") for word in options.modules):
        found = list(mutants(root, module))
        tests = (named or f"tests/unit/{package_of(module)}",)
        drawn |= dict.fromkeys(rng.sample(found, min(options.most, len(found))), tests)
    if options.draw:
        paths = [path for package in TESTS for path in sorted((root / "src/adjourn" / package).rglob("*.py"))]
        found = [mutant for path in paths for mutant in mutants(root, str(path.relative_to(root)))]
        chosen = rng.sample(found, min(options.draw, len(found)))
        drawn |= {mutant: TESTS[package_of(mutant.module)] for mutant in sorted(chosen)}
    with tempfile.TemporaryDirectory(prefix="adjourn-mutants-") as folder:
        lived = tried(Tries(root, Path(folder), options.jobs), drawn, options.jobs)
    print(table(drawn, lived))
    return 1 if lived else 0


if __name__ == "__main__":
    sys.exit(main())
