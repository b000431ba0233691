"""Asks a person before the servers that settings name are started: shows what each would run.

Owns: that question. Must never: start one, or take silence for an approval.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import click

from adjourn.cli.shared.output import safe, say, say_facts, say_prose
from adjourn.setup import ServerEntry, ServerStart, shown_start


class AskedStart(NamedTuple):
    """A server that is started if the person agrees. `behind` is the command of the proxy in front of it; "" for none."""

    entry: ServerEntry
    start: ServerStart
    behind: str = ""


def agreed(asked: Sequence[AskedStart], root: str, purpose: str) -> bool:
    """Whether the person at the terminal agrees that these are started. `purpose` begins a sentence: "to see …"."""
    say_prose(
        f"{purpose}, adjourn starts these servers once, and calls nothing. Files of this folder name them: each runs with your rights,"
        " and may run further files of the folder that it starts in"
    )
    for entry, start, behind in asked:
        say(f"  {safe(entry.name)} ({safe(entry.path.removeprefix(os.path.join(root, '')))})")
        rows = [*shown_start(entry, start, root), *([("behind", behind)] if behind else [])]
        say_facts(*((f"    {name}", safe(value)) for name, value in rows))
    return click.confirm("Start them?", default=False)
