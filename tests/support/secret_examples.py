"""An example of every shape of a secret, made up for each test from the templates of the table: no scanner finds a literal here.

Each is `(before, secret, after)`: what stands around it where its shape needs that, and must stay.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from adjourn.text import redact

LOWER = "abcdefghijklmnopqrstuvwxyz"
UPPER = LOWER.upper()
DIGITS = "0123456789"
HEX = DIGITS + "abcdef"
ALNUM = LOWER + UPPER + DIGITS
CLASSES = {
    "lower": LOWER,
    "upper": UPPER,
    "digits": DIGITS,
    "hex": HEX,
    "alnum": ALNUM,
    "loweralnum": LOWER + DIGITS,
    "upperalnum": UPPER + DIGITS,
    "base32": UPPER + "234567",
    "base64": ALNUM + "+/",
    "word": ALNUM + "_-",
}
"""The characters that a template names."""


class Example(NamedTuple):
    before: str
    secret: str
    after: str = ""

    @property
    def text(self) -> str:
        return self.before + self.secret + self.after


class Maker:
    """Random parts of secrets."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(str(seed))

    def some(self, characters: str, count: int) -> str:
        """`count` of the characters; a letter first and a digit second where there are both, as no secret is one word."""
        made = [self._random.choice(characters) for _ in range(count)]
        for place, wanted in ((0, LOWER + UPPER), (1, DIGITS)):
            known = [c for c in wanted if c in characters]
            if place < count and known:
                made[place] = self._random.choice(known)
        return "".join(made)

    def mixed(self, count: int) -> str:
        """Capitals, digits and small letters in turn."""
        kinds = (UPPER, DIGITS, LOWER)
        return "".join(self._random.choice(kinds[place % 3]) for place in range(count))

    def filled(self, template: str) -> str:
        """A template with its `<class:count>` made up."""
        return re.sub(r"<(\w+):(\d+)>", self._part, template.replace("<KEY>", "KEY"))

    def _part(self, found: re.Match[str]) -> str:
        name, count = found[1], int(found[2])
        return self.mixed(count) if name == "random" else self.some(CLASSES[name], count)


class _Templates(msgspec.Struct):
    """What the tests read of a shape of the table."""

    name: str
    examples: list[str]


@cache
def templates() -> list[tuple[str, str]]:
    """The templates of the table, each with the name of its shape."""
    table = Path(redact.TABLE).read_bytes()
    return [(shape.name, one) for shape in msgspec.json.decode(table, type=list[_Templates]) for one in shape.examples]


@cache
def examples() -> tuple[tuple[str, Example], ...]:
    """One of each template, with the name of its shape."""
    made = []
    for number, (name, template) in enumerate(templates()):
        before, secret, after = re.split("[«»]", Maker(f"{name} {number}").filled(template))
        made.append((name, Example(before, secret, after)))
    return tuple(made)
