"""What is published does not change unnoticed: commands, exit codes, public names, events, schemas, tools, the language, the
members of what commands answer with --json.

Compared with tests/data/surface, which `python tests/surface.py` rewrites after a change that is meant.
"""

from __future__ import annotations

import json

import pytest

import surface


@pytest.mark.extra("code")
@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=pytest.mark.slow if part == "answers" else ())  # asks each command
        for part in sorted(surface.PARTS)
    ],
)
def test_what_is_published_is_what_the_file_says(part: str) -> None:
    """A published part of adjourn differs from the committed file only together with it."""
    frozen = json.loads((surface.FOLDER / f"{part}.json").read_text("utf-8"))
    assert json.loads(surface.text(part)) == frozen, "if it is meant: python tests/surface.py"


def test_no_file_is_left_of_a_part_that_is_gone() -> None:
    """Each file of the frozen surface is compared."""
    assert sorted(path.stem for path in surface.FOLDER.iterdir()) == sorted(surface.PARTS)


def test_every_command_with_json_is_asked() -> None:
    """The frozen answers hold a form of each command of `adjourn` that has --json."""
    commands, answers = (
        json.loads((surface.FOLDER / f"{part}.json").read_text("utf-8")) for part in ("commands", "answers")
    )
    names = sorted((name for name in commands if name.startswith("adjourn ")), key=len, reverse=True)
    asked = {next(name for name in names if f"adjourn {form} ".startswith(f"{name} ")) for form in answers}
    assert asked == {name for name in names if "--json" in commands[name]["options"]}
