"""Changes one place of a module at a time and runs its tests: `python tests/mutants.py [--most N] MODULE[=TESTS] ...`.

    python tests/mutants.py --most 8 src/adjourn/aex/match.py
    python tests/mutants.py src/adjourn/log/merkle.py=tests/unit/log

A change that no test notices survives and is printed. TESTS are the unit tests of the module's package if none are named.
Owns: the changes, and a copy of the source to make them in. Must never: change a file of the repository.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 120
"""A change that makes the tests run longer counts as noticed."""
OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


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


def mutants(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, the code before, the whole text after) of each change inside a function."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    inside = {
        child
        for function in nodes
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for child in ast.walk(statement)
    }
    for number, node in enumerate(nodes):
        other = ast.parse(text)
        if node in inside and change(list(ast.walk(other))[number]):
            yield getattr(node, "lineno", 0), ast.unparse(node), ast.unparse(ast.fix_missing_locations(other))


def passes(source: Path, tests: str) -> bool:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "--timeout",
        str(SECONDS),
        tests,
    ]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(source)}, capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--most", type=int, default=10, help="changes of one module, drawn by a fixed seed")
    parser.add_argument("modules", nargs="+", metavar="MODULE[=TESTS]")
    options = parser.parse_args()
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="adjourn-mutants-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for module, _, named in (word.partition("=") for word in options.modules):
            target = source / Path(module).relative_to("src")
            tests = named or f"tests/unit/{target.relative_to(source / 'adjourn').parts[0]}"
            text = target.read_text(encoding="utf-8")
            target.write_text(
                ast.unparse(ast.parse(text)), encoding="utf-8"
            )  # without comments, as each change is
            if not passes(source, tests):
                print(f"{module}: {tests} fail without any change")
                return 2
            found = list(mutants(text))
            drawn = random.Random(1).sample(found, min(options.most, len(found)))
            lived = []
            for line, before, after in drawn:
                target.write_text(after, encoding="utf-8")
                if passes(source, tests):
                    lived.append(f"  {module}:{line}: {before[:100]}")
            target.write_text(text, encoding="utf-8")
            print(
                f"{module}: {len(drawn) - len(lived)} of {len(drawn)} changes noticed",
                *lived,
                sep="\n",
                flush=True,
            )
            survivors += len(lived)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
