"""The examples in the docstrings of `adjourn.testing` are true."""

from __future__ import annotations

import doctest
import json
from typing import Any

import pytest

from adjourn import testing

NAMES = {name: getattr(testing, name) for name in testing.__all__}
EXAMPLES: list[doctest.DocTest] = [
    example
    for name, thing in NAMES.items()
    for example in doctest.DocTestFinder().find(thing, name, globs=NAMES | {"json": json})
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_answers_what_it_says(example: doctest.DocTest) -> None:
    """Running the example of a docstring prints what stands behind it."""
    told: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
        example, out=told.append, clear_globs=False
    )
    assert tried > 0
    assert failed == 0, "".join(told)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example(name: str) -> None:
    """Each name of the list has an example in its own docstring."""
    owner: Any = NAMES[name]
    assert ">>>" in (owner.__doc__ or "")
