"""The benchmarks: `make bench`, or

    python tests/bench/run.py [--quick] [--only NAME] [--json FILE] [--idle SECONDS] [--beside NAME=SRC]
                               [--clones DIR] [--folder DIR]

Prints tables. Every subject has peers in the same run that do less, or nothing, and they take turns. Files are made in the
temporary folder, or in DIR: on a file system in memory, durability is free. `page.py` puts the figures of FILE into
tests/bench/RESULTS.md.

Owns: the order of sections, options. Must never: judge a time.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import backends
import code_exact
import code_first
import code_index
import code_questions
import code_uses
import deciding
import gateway_load
import growth
import machine
import records
import relays
import resuming
import starts
import stores
import threads
import transcripts
import ui_load
from sizes import FULL, QUICK, TINY, Sizes
from tables import Table

import adjourn

PACKAGE = Path(adjourn.__file__).parent
Section = Callable[[Sizes, str], list[Table]]
SECTIONS: dict[str, Section] = {
    "relays": relays.run,
    "starts": starts.run,
    "stores": stores.run,
    "backends": backends.run,
    "record": records.run,
    "threads": threads.run,
    "growth": growth.run,
    "resume": resuming.run,
    "decide": deciding.run,
    "code": code_index.run,
    "questions": code_questions.run,
    "exact": code_exact.run,
    "uses": code_uses.run,
    "first": code_first.run,
    "continue": transcripts.run,
    "ui": ui_load.run,
    "gateway": gateway_load.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", const=QUICK, dest="sizes", help="run fewer rounds")
    size.add_argument("--tiny", action="store_const", const=TINY, dest="sizes", help="check that everything runs")
    parser.add_argument("--only", choices=SECTIONS, action="append", metavar="NAME", help=", ".join(SECTIONS))
    parser.add_argument("--json", metavar="FILE", help="write the values as measured")
    parser.add_argument("--folder", metavar="DIR", help="create the files in DIR; the disk matters")
    parser.add_argument(
        "--idle",
        type=float,
        default=0,
        metavar="SECONDS",
        help="keep only rounds in which the machine does nothing else; wait for them so long at most",
    )
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="NAME=SRC",
        help="measure the proxy of another source tree in the same run of relays, and its gateway, as NAME",
    )
    parser.add_argument(
        "--clones",
        type=Path,
        metavar="DIR",
        help="ask the questions of tests/data/code_questions about the clones DIR/httpx and so on; find the uses of names in them",
    )
    options = parser.parse_args()
    beside = {name: Path(source).resolve() for name, _, source in (one.partition("=") for one in options.beside)}
    sizes = replace(options.sizes or FULL, idle_seconds=options.idle, beside=beside, clones=options.clones)
    command = shlex.join(["python", "tests/bench/run.py", *sys.argv[1:]])
    for tree in (PACKAGE, Path(__file__).parent, *beside.values()):
        compileall.compile_dir(tree, quiet=2)
    tables: list[Table] = []
    with tempfile.TemporaryDirectory(prefix="adjourn-bench-", dir=options.folder) as folder:
        os.environ["ADJOURN_CONFIG"] = f"{folder}/config"
        about = machine.describe(command, folder)
        for name in options.only or SECTIONS:
            tables += _run(name, sizes, folder)
    about["load at the end"] = machine.load()
    if options.json:
        body = {"machine": about, "tables": [table.as_json() for table in tables]}
        Path(options.json).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def _run(name: str, sizes: Sizes, folder: str) -> list[Table]:
    place = Path(folder, name)
    place.mkdir()
    began = time.monotonic()
    tables = SECTIONS[name](sizes, str(place))
    for table in tables:
        print(table.text(), flush=True)
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return tables


if __name__ == "__main__":
    main()
