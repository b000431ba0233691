"""The evaluation of the hand-over: `make eval`, or from the folder of the tests

    python -m evaluation [--seeds N] [--only TITLE] [--jobs N] [--json FILE] [--misses FILE] [--folder DIR]

Plays sixty scenarios with real clients, proxies and hooks, reads what a successor is given, and prints how much of what it must know
is in it. Exit code 1 if a limit is not kept (`judging.py`). With ANTHROPIC_API_KEY or OPENAI_API_KEY in the environment, a model answers
ten questions about each scenario, too. `tests/bench/page.py` puts the tables of FILE into tests/bench/RESULTS.md.

Owns: options, tables. Must never: decide what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
import tempfile
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import machine
from tables import Table

from evaluation import questions
from evaluation.catalogue import PLOTS, SHORT, Plot, named
from evaluation.judging import LARGE, LIMITS, RENDERINGS, SMALL, Reading, as_json, evaluate, misses

SEEDS = 2
_SHOWN = 30
_REASON = 500
"""Characters of the reason why a scenario could not be played."""


class Result(NamedTuple):
    """The outcome of one scenario and seed. `failure` says why it could not be played, "" for nothing."""

    readings: list[Reading]
    answers: list[questions.Answered]
    failure: str = ""


def main() -> None:
    options = _options().parse_args()
    os.environ["XDG_RUNTIME_DIR"] = "/proc/nowhere"  # a hook leaves no process behind
    plots = named(SHORT if options.short else options.only)
    seeds = range(1, 1 + (1 if options.short else options.seeds))
    model = questions.model_name()
    with tempfile.TemporaryDirectory(prefix="adjourn-eval-", dir=options.folder) as folder:
        about = machine.describe(shlex.join(["python", "-m", "evaluation", *sys.argv[1:]]), folder)
        work = [(plot, seed, f"{folder}/{seed}-{PLOTS.index(plot)}", model) for seed in seeds for plot in plots]
        with ProcessPoolExecutor(options.jobs) as pool:
            results = list(pool.map(_one, work))
    about["load at the end"] = machine.load()
    readings = [reading for result in results for reading in result.readings]
    tables = [summary(readings, len(seeds)), by_scenario(readings, plots, len(seeds))]
    if model:
        tables.append(questions.table([one for result in results for one in result.answers], model))
    for table in tables:
        print(table.text())
    if not model:
        print("No model was asked: neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set.")
    if options.json:
        body = {
            "machine": about,
            "tables": [table.as_json() for table in tables],
            "readings": [*map(as_json, readings)],
        }
        Path(options.json).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    if options.misses:
        Path(options.misses).write_text("\n".join(misses(readings)) + "\n", encoding="utf-8")
    sys.exit(_verdict(readings, [result.failure for result in results if result.failure]))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, metavar="N", help=f"play each scenario N times (default: {SEEDS})"
    )
    parser.add_argument("--only", action="append", default=[], metavar="TITLE", choices=[plot.title for plot in PLOTS])
    parser.add_argument("--short", action="store_true", help="play a few scenarios, once")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="scenarios at the same time")
    parser.add_argument("--json", metavar="FILE", help="write the tables, and every reading")
    parser.add_argument("--misses", metavar="FILE", help="write what each text does not tell, or tells wrong")
    parser.add_argument("--folder", metavar="DIR", help="create the files in DIR")
    return parser


def _one(work: tuple[Plot, int, str, str]) -> Result:
    plot, seed, folder, model = work
    try:
        played, readings = evaluate(plot, seed, Path(folder))
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {error}"
        return Result([], [], f"{plot.trade}, {plot.title} (seed {seed}) was not played: {why}"[:_REASON])
    answers = questions.ask(model, played, readings) if model and seed == 1 else []
    return Result(readings, answers)


def _verdict(readings: Iterable[Reading], failures: Iterable[str]) -> int:
    faults = [*failures]
    faults += [
        f"{one.plot.trade}, {one.plot.title} (seed {one.seed}), {one.what} at {one.room} bytes: {fault}"
        for one in readings
        if one.is_ours
        for fault in one.faults()
    ]
    for fault in faults[:_SHOWN]:
        print(fault)
    if len(faults) > _SHOWN:
        print(f"and {len(faults) - _SHOWN} more")
    print(f"{len(faults)} faults" if faults else "Everything holds.")
    return 1 if faults else 0


# --- tables


def summary(readings: Sequence[Reading], seeds: int) -> Table:
    """One row for each rendering and peer, at each size."""
    table = Table(
        "Hand-over: what a successor finds",
        ["", "room", "recall, mean", "least", "vital, mean", "next step, %", "traps", "bytes, mean", "tokens", "bytes per needle"],
        f"Of {len({one.plot for one in readings})} scenarios, each with {seeds} seed{'s' * (seeds > 1)}. Recall: the part of the needles that the scripted "
        "reader finds; a vital one weighs three times a useful one. Next step: of the scenarios that have one. Traps: false "
        "statements that it finds, in all. Tokens: bytes / 4, mean. Bytes per needle: all bytes by all needles found.",
    )  # fmt: skip
    whats = sorted({one.what for one in readings}, key=lambda what: (what not in RENDERINGS, what))
    for room in LIMITS:
        for what in whats:
            mine = [one.score for one in readings if one.what == what and one.room == room]
            steps = [one.next_step for one in mine if one.next_step is not None]
            table.add(
                what,
                room,
                statistics.fmean(one.recall for one in mine),
                min(one.recall for one in mine),
                statistics.fmean(one.vital for one in mine),
                100 * sum(steps) / max(1, len(steps)),
                sum(len(one.sprung) for one in mine),
                round(statistics.fmean(one.size for one in mine)),
                round(statistics.fmean(one.tokens for one in mine)),
                round(sum(one.size for one in mine) / max(1, sum(one.found for one in mine))),
            )
    return table


def by_scenario(readings: Sequence[Reading], plots: Sequence[Plot], seeds: int) -> Table:
    """One row for each scenario: the least recall of all seeds."""
    places = [(what, room) for room in (LARGE, SMALL) for what in RENDERINGS]
    places += [("published aex.resume", LARGE), ("whole log, cut", LARGE)]
    table = Table(
        "Hand-over: recall by scenario",
        ["scenario", "calls", *(f"{what}, {room // 1024} KiB" for what, room in places)],
        f"The least of {seeds} seed{'s' * (seeds > 1)}. At least {LIMITS[LARGE]} is to be reached at 8 KiB, {LIMITS[SMALL]} at 2 KiB.",
    )
    for plot in plots:
        mine = [one for one in readings if one.plot == plot]
        if not mine:
            continue
        least = [min(one.score.recall for one in mine if (one.what, one.room) == place) for place in places]
        table.add(f"{plot.trade}: {plot.title}", plot.calls, *least)
    return table


if __name__ == "__main__":
    main()
