"""Simulate the gateway past this machine.

    python tests/sim/run.py                          the study: prints its tables, writes the page and its plots
    python tests/sim/run.py --shown                  only write the page from the answers of the last study
    python tests/sim/run.py rate=5000 gateways=20    one plan; members are those of `Plan` in tests/sim/settings.py

Owns: this command. Must never: hold a figure.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import msgspec

from sim import report, study
from sim.model import run
from sim.settings import Plan

ANSWERS = Path(__file__).with_name("answers.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("members", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--shown", action="store_true", help="write the page from the last answers")
    options = parser.parse_args()
    if options.members:
        _one(options.members)
        return
    if not options.shown:
        ANSWERS.write_text(json.dumps(study.answers(), indent=1) + "\n", "utf-8")
    answers = json.loads(ANSWERS.read_text("utf-8"))
    for title, table in report.tables(answers).items():
        table.title = title
        print(table.text())
    for path in report.PAGES:
        path.write_text(report.page(answers, path.read_text("utf-8")), "utf-8")
    for name, picture in report.pictures(answers).items():
        (report.ASSETS / name).write_text(picture, "utf-8")


def _one(members: list[str]) -> None:
    pairs = dict(member.partition("=")[::2] for member in members)
    found = run(msgspec.convert(pairs, Plan, strict=False))
    for name in found.__struct_fields__:
        value = getattr(found, name)
        if not isinstance(value, list):
            print(f"{name:24} {value:,.4g}" if isinstance(value, float) else f"{name:24} {value}")
    for part in (0.5, 0.99, 0.999):
        print(f"added, p{part * 100:<4g} ms {found.percentile(part) * 1e3:,.1f}")


if __name__ == "__main__":
    main()
