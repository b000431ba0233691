"""Put the figures of a run into tests/bench/RESULTS.md, and draw its plots.

    python tests/bench/page.py RUN.json... [--page tests/bench/RESULTS.md] [--assets docs/assets]

RUN.json is what `run.py --json` wrote. A table goes between `<!-- figures: TITLE -->` and `<!-- end of figures -->`, with the
time, the commit and the load of its run; that of the machine is of a run of the relays. Tables that no run has stay as they are.

Owns: what stands between such lines. Must never: change any other line, or drop a table for which the page has no place.
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

import plots
from tables import Table

DOCS = Path(__file__).parents[2] / "docs"
WIDTH = 118
MACHINE, RELAYS = "machine", "Relays: "
_BLOCK = re.compile(r"(?<=<!-- figures: )(?P<title>.*?)(?P<open> -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.json")
    parser.add_argument("--page", type=Path, default=Path(__file__).parent / "RESULTS.md")
    parser.add_argument("--assets", type=Path, default=DOCS / "assets", help="the folder of the plots")
    options = parser.parse_args()
    blocks: dict[str, str] = {}
    tables: dict[str, Table] = {}
    for path in options.runs:
        run = json.loads(path.read_text("utf-8"))
        about = run["machine"]
        for row in run["tables"]:
            if row["title"].startswith(RELAYS):
                blocks[MACHINE] = _machine(about)
            table = tables[row["title"]] = Table(**row)
            load = about["load at the start"].partition(",")[0]
            source = f"Measured {about['date']}, adjourn {about['adjourn']}, at a load of {load}. {table.note}"
            blocks[table.title] = f"{table.markdown()}\n{_wrapped(source)}\n"
    options.page.write_text(filled(options.page.read_text("utf-8"), blocks), "utf-8")
    for name, picture in plots.of(tables):
        (options.assets / name).write_text(picture, "utf-8")


def filled(page: str, blocks: Mapping[str, str]) -> str:
    """The page with new blocks, by title. Raises `SystemExit` for a block that it has no place for."""
    if missing := set(blocks) - {found["title"] for found in _BLOCK.finditer(page)}:
        raise SystemExit("the page has no place for: " + "; ".join(sorted(missing)))
    return _BLOCK.sub(
        lambda found: (
            f"{found['title']}{found['open']}\n{blocks[found['title']]}\n" if found["title"] in blocks else found[0]
        ),
        page,
    )


def _machine(about: Mapping[str, str]) -> str:
    table = Table("", ["", ""])
    for name, value in about.items():
        table.add(name, value)
    return table.markdown()


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False))


if __name__ == "__main__":
    main()
