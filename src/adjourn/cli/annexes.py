"""The door for annexes: packages of this distribution that the core never imports, such as `adjourn.code`.

An annex names what it adds as entry points in pyproject.toml, under its own name:

    adjourn.commands   a click command, with `cls=AnnexCommand` or `AnnexGroup`; `adjourn NAME` runs it
    adjourn.findings   a check of `adjourn doctor`: a function from `CommandContext` to findings
    adjourn.files      a function that returns files to write into a workspace: path to text
    adjourn.pages      what makes the page for people that `adjourn serve` shows

Only entry points of the distribution `adjourn` count: no other package can add a command to a program that speaks for a person.
"""

from __future__ import annotations

from typing import Any, Literal

import click

from adjourn.cli.usage import SuggestingGroup
from adjourn.errors import NotFoundError

Group = Literal["adjourn.commands", "adjourn.findings", "adjourn.files", "adjourn.pages"]


class _InSection(click.Command):
    def __init__(self, *arguments: Any, section: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.section = section


class AnnexCommand(_InSection):
    """A command of an annex. `section` is its part of `adjourn --help`, `short_help` its line there."""


class AnnexGroup(_InSection, SuggestingGroup):
    """A command of an annex that has commands of its own."""


def names(group: Group) -> list[str]:
    """The names that annexes add to a group, sorted. Loads no annex."""
    return sorted(_points(group))


def load(group: Group, name: str) -> Any:
    """What an annex adds under this name. Imports the module that has it. Raises `NotFoundError` if no annex adds it."""
    point = _points(group).get(name)
    if point is None:
        raise NotFoundError(
            f"the package adjourn.{name} is not installed", f"install it: pip install 'adjourn[{name}]'"
        )
    return point.load()


def _points(group: Group) -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, distribution  # 20 ms, and no command of the core needs it

    try:
        points = distribution("adjourn").entry_points
    except PackageNotFoundError:  # a source tree that nobody installed
        return {}
    return {point.name: point for point in points.select(group=group)}
