"""`adjourn reflect`."""

from __future__ import annotations

import os

import click

from adjourn.checkpoints import reflect
from adjourn.cli.shared.context import example, for_machines, in_folder
from adjourn.cli.shared.output import complain, counted, safe, say, say_json, say_table
from adjourn.host import workspace_of, write_file


@click.command(
    "reflect",
    epilog=example("adjourn reflect", "adjourn reflect --svg plots", "adjourn reflect --dry-run --json"),
)
@click.option("--svg", default="", metavar="DIR", help="Write the plots into DIR, as SVG.")
@click.option("--dry-run", is_flag=True, help="Change nothing in memory/MEMORY.md and the archives.")
@in_folder
@for_machines
def reflect_(*, svg: str, dry_run: bool, as_json: bool) -> None:
    """Derive heuristics from archived work: statistics over its checkpoints, and rules on which five tasks or more agree.

    Heuristics are kept in memory/MEMORY.md under "Checkpoint heuristics", one line each, replaced by the next run, and removed when
    they no longer apply. The same archives give the same lines.
    """
    root = workspace_of().tree
    found = reflect.reflect(root)
    changed = False if dry_run else reflect.remember(root, found)
    if svg:
        os.makedirs(svg, exist_ok=True)
        for name, picture in reflect.draw(found).items():
            write_file(svg, name, picture.encode())
    if as_json:
        say_json(_to_json(found, changed=changed))
    else:
        _print(found, changed=changed)
    for reason in found.broken:
        complain(safe(reason))


def _to_json(found: reflect.Reflection, *, changed: bool) -> dict[str, object]:
    return {
        "tasks": len(found.chains),
        "checkpoints": sum(len(chain) for chain in found.chains),
        "statistics": [
            {
                "name": one.name,
                "title": one.title,
                "tasks": one.n,
                "rate": one.rate if one.rate >= 0 else None,
                "value": one.value,
                "heuristic": one.heuristic,
                "evidence": list(one.evidence),
            }
            for one in found.statistics
        ],
        "memoryChanged": changed,
    }


def _print(found: reflect.Reflection, *, changed: bool) -> None:
    heuristics = [one for one in found.statistics if one.heuristic]
    count = sum(len(chain) for chain in found.chains)
    wrote = "; memory/MEMORY.md brought up to date" if changed else ""
    say(
        f"{counted(len(heuristics), 'heuristic')} from {counted(len(found.chains), 'archived task')}, {counted(count, 'checkpoint')}{wrote}"
    )
    rows = [(one.title, str(one.n), one.value or "nothing yet") for one in found.statistics]
    say_table(("STATISTIC", "TASKS", "VALUE"), rows)
    for one in heuristics:
        say(f"- {safe(one.heuristic)}")
