r"""The shapes of well-known secrets: what their issuers document, what gitleaks and detect-secrets look for, and how a secret is given.

They are data, in `secret_shapes.json`. Each names texts of which one is in every match (`marks`), so that a text without them costs no
regular expression; most are looked for only where there is a long run of letters, digits, dashes and underscores, as every token has
one. Matching takes time linear in the text, also where the text was written to make it slow: behind its mark a pattern has either
bounded repetitions or one unbounded run, and a match with an unbounded beginning starts at a boundary only.

Each shape has examples, which the tests read: `«…»` is the secret, `<hex:32>` stands for 32 characters made up for each test, so that
no scanner finds a literal there.

Owns: reading the table. Must never: match a commit hash, a UUID, a digest or an import path.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

TABLE = __file__.rpartition(".")[0] + ".json"
"""The file of the table."""
LONG_RUN = 16
"""Letters, digits, dashes and underscores in a row, its mark included, that a token has at the least."""
_AT = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))"
"""Where a token begins: not within a word; behind an escape of JSON or a URL is not within one."""
_BEGUN = r"(?:(?<=(?<![A-Za-z0-9]).)|(?<=\\[bfnrt].)|(?<=%[0-9A-Fa-f]{2}.))"
"""The same behind the first character: a pattern that begins with a character is searched for faster."""
_QUOTE = r"""(?:\\{0,3}["'`])?"""
_IS = rf"{_QUOTE}[ \t]{{0,3}}(?::=|=>|=|:|%3[Dd])[ \t]{{0,3}}{_QUOTE}"
"""What stands between a name and its value, in code, JSON, YAML, a shell, a header or a query."""
_VALUE = r"""[^\s"'`\\,;&|<>(){}\[\]$]"""

_PARTS = {"@AT@": _AT, "@BEGUN@": _BEGUN, "@IS@": _IS, "@VALUE@": _VALUE}


class Shape(msgspec.Struct, eq=False):
    """`pattern` matches the secret; what its first group matches, if it has one, precedes the secret and is kept.

    `marks` stand in a run of `LONG_RUN` or more (`where` is "run"); or anywhere in a text that has such a run ("beside"), in any text
    ("text"), or in any text in lower case ("lower").
    """

    name: str
    marks: list[str]
    pattern: str
    where: str = "run"

    @property
    def expression(self) -> str:
        """The regular expression, with what many patterns have in common."""
        pattern = self.pattern
        for name, part in _PARTS.items():
            pattern = pattern.replace(name, part)
        return pattern


@cache
def shapes() -> list[Shape]:
    """The table, read when a text is first examined."""
    loader: Any = __spec__ and __spec__.loader  # what reads a module reads what lies beside it
    return msgspec.json.decode(loader.get_data(TABLE), type=list[Shape])
