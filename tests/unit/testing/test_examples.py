"""What users import has an example, and the examples are true."""

from __future__ import annotations

import doctest
import json
from types import ModuleType
from typing import Any

import pytest

import adjourn
from adjourn import aex, testing

NAMED = {
    adjourn: {
        "AdjournError", "CRStore", "CognitiveStore", "MemoryStore", "Middleware", "SqliteStore", "TaskRecord", "brief", "create_checkpoint",
        "diff_checkpoints", "estimate_tokens", "format_state_for_prompt", "open_store", "parse_reply", "restore_checkpoint",
        "validate_checkpoint",
    },
    aex: {
        "classify", "compiled", "examine", "explain", "fold", "formatted", "from_text", "glob_text", "load", "matches", "merge",
        "parse", "render", "safe_name", "split_scope", "unparse",
    },
    testing: {*testing.__all__} - {"ModelRequest", "ScriptedReply"},
}  # fmt: skip
"""The names of each list that people use most."""


def examples(door: ModuleType) -> list[doctest.DocTest]:
    """The examples in the docstrings of a list of names, methods included."""
    names = {name: getattr(door, name) for name in door.__all__}
    return [
        example
        for name, thing in names.items()
        for example in doctest.DocTestFinder().find(thing, name, globs=names | {"json": json})
        if example.examples
    ]


@pytest.mark.parametrize(
    "example", [example for door in NAMED for example in examples(door)], ids=lambda example: example.name
)
def test_an_example_answers_what_it_says(example: doctest.DocTest) -> None:
    """Running the example of a docstring prints what stands behind it."""
    lines: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
        example, out=lines.append, clear_globs=False
    )
    assert tried > 0
    assert failed == 0, "".join(lines)


def test_what_is_used_most_has_an_example() -> None:
    """Each name has an example in its own docstring."""
    for door, names in NAMED.items():
        for name in names:
            owner: Any = getattr(door, name)
            assert ">>>" in (owner.__doc__ or ""), name
