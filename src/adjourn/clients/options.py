"""The command line of a process that a client starts: a table of options, which its parser and its help both read.

Owns: what an option is, and reading a table of them. Must never: import what a start does not need; it runs before the upstream starts.
"""

from __future__ import annotations

import os

from adjourn.errors import UsageError
from adjourn.store.passwords import check_argument
from adjourn.text.near_words import did_you_mean

BRIEF_BYTES = "8192"
"""The default of --brief-bytes."""
BRIEF_BOUNDS = (1024, 65536)

_SYNONYMS = {
    "--config": "--policy",
    "--rules": "--policy",
    "--db": "--store",
    "--database": "--store",
}
"""Options of other tools, and those of the same meaning here."""


class Option:
    """One option. `metavar` is empty for a switch; `choices` are its values, or `bounds` those of a whole number; `environment`
    names its default.
    """

    def __init__(
        self,
        flag: str,
        help: str,  # noqa: A002  # the word of every option parser
        metavar: str = "",
        *,
        default: str = "",
        choices: tuple[str, ...] = (),
        bounds: tuple[int, int] | None = None,
        environment: str = "",
    ) -> None:
        self.flag = flag
        self.help = help
        self.metavar = metavar
        self.default = default
        self.choices = choices
        self.bounds = bounds
        self.environment = environment

    def check(self, value: str) -> str:
        """The value itself. Raises `UsageError` for one that the option cannot have."""
        if self.choices and value not in self.choices:
            remedy = did_you_mean(value, self.choices)
            raise UsageError(f"{self.flag} takes {' or '.join(self.choices)}, not {value[:40]!r}", remedy)
        if self.bounds is not None:
            least, most = self.bounds
            is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(most))
            if not (is_number and least <= int(value) <= most):
                raise UsageError(f"{self.flag} takes a number from {least} to {most}, not {value[:40]!r}")
        return check_argument(value) if self.flag == "--store" else value


def read(options: tuple[Option, ...], arguments: list[str], remedy: str) -> tuple[dict[str, str], list[str]]:
    """The value of every option by its flag (switches are "yes" or ""), and the arguments from the first that is no option.

    Raises `UsageError`, with the `remedy` for an unknown option.
    """
    table = {option.flag: option for option in options}
    values = {option.flag: os.environ.get(option.environment, "") or option.default for option in options}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        flag, equals, value = rest.pop(0).partition("=")
        option = table.get(flag)
        if option is None:
            raise UsageError(f"unknown option {flag[:40]}", did_you_mean(flag, table, _SYNONYMS) or remedy)
        if option.metavar and not equals and not rest:
            raise UsageError(f"{flag} needs a value", f"write: {flag} {option.metavar}")
        if not option.metavar and equals:
            raise UsageError(f"{flag} takes no value", f"write {flag} alone")
        if not equals:
            value = rest.pop(0) if option.metavar else "yes"
        values[flag] = option.check(value)
    return values, rest
