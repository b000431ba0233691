"""The proxy's command line: one table, unknown options are errors, and everything behind them is the upstream."""

from __future__ import annotations

import pytest

from adjourn.clients.options import options_of, parse_proxy
from adjourn.errors import UsageError
from support.cases import for_each


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in options_of("proxy"):
        if option.environment:
            monkeypatch.delenv(option.environment, raising=False)


@pytest.mark.parametrize(
    "words",
    [
        ["--", "server", "--flag", "--", "x"],
        ["server", "--flag", "--", "x"],
        ["--upstream", "server --flag -- x"],
        ["--upstream=server --flag -- x", "--"],
    ],
)
def test_the_upstream_is_what_follows(words: list[str]) -> None:
    """The server command is what follows `--`, the first word that is no option, or --upstream."""
    assert parse_proxy(words).upstream == ["server", "--flag", "--", "x"]


def test_values_come_with_a_blank_or_an_equals_sign() -> None:
    """A value follows its option after a blank or an equals sign, and missing options have their defaults."""
    options = parse_proxy(["--policy", "p.aex", "--task=t=1", "--take-over", "--confirm-timeout", "3", "--", "s"])
    assert (options["--policy"], options["--task"], options["--take-over"]) == ("p.aex", "t=1", "yes")
    assert (options["--confirm-timeout"], options["--auto-confirm"], options["--errors"]) == ("3", "", "tool")


def test_an_option_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option has precedence over its environment variable."""
    monkeypatch.setenv("ADJOURN_TASK", "from-environment")
    assert parse_proxy(["--", "s"])["--task"] == "from-environment"
    assert parse_proxy(["--task", "given", "--", "s"])["--task"] == "given"


@for_each(
    "words",
    [
        [],
        ["--"],
        ["--nonsense", "--", "s"],
        ["-x", "--", "s"],
        ["--policy"],
        ["--take-over=1", "--", "s"],
        ["--errors", "loud", "--", "s"],
        ["--confirm-timeout", "-1", "--", "s"],
        ["--confirm-timeout", "1.5", "--", "s"],
        ["--confirm-timeout", "\u00b2", "--", "s"],
        ["--upstream", ""],
        ["--brief-bytes", "1023", "--", "s"],
        ["--brief-bytes", "65537", "--", "s"],
        ["--brief-bytes", "\u0664096", "--", "s"],
        ["--brief-bytes=", "--", "s"],
    ],
)
def test_what_is_not_well_formed_is_a_usage_error(words: list[str]) -> None:
    """A missing server command, an unknown option or an invalid value is a usage error."""
    with pytest.raises(UsageError):
        parse_proxy(words)
