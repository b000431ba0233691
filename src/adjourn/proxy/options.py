"""The proxy's command line, as one table: the fast parser here and the help of `adjourn proxy --help` both read it.

Owns: the options. Must never: import anything beyond the standard library's core; it runs before the upstream starts.
"""

from __future__ import annotations

import os

from adjourn.errors import UsageError
from adjourn.store.passwords import check_argument


class ProxyOption:
    """One option. `metavar` is empty for a switch; `choices` are its allowed values; `environment` names its default."""

    def __init__(
        self,
        flag: str,
        help: str,  # noqa: A002  # the word of every option parser
        *,
        metavar: str = "",
        default: str = "",
        choices: tuple[str, ...] = (),
        environment: str = "",
    ) -> None:
        self.flag = flag
        self.help = help
        self.metavar = metavar
        self.default = default
        self.choices = choices
        self.environment = environment


BRIEF_BYTES, MIN_BYTES, MAX_BYTES = "8192", 1024, 65536
MAX_NAME = 64
OPTIONS = (
    ProxyOption(
        "--name",
        "name of the server in policies, as in NAME.TOOL (default: the one it gives itself)",
        metavar="NAME",
    ),
    ProxyOption("--policy", "policy file (default: .aex/policy.aex, then aex.policy.aex)", metavar="FILE"),
    ProxyOption("--contract", "task contract that narrows the policy", metavar="FILE"),
    ProxyOption(
        "--task",
        "task to work on, made if new (default: the client's own)",
        metavar="ID",
        environment="ADJOURN_TASK",
    ),
    ProxyOption(
        "--store",
        "where history is kept (default: .aex/adjourn.db)",
        metavar="URL",
        environment="ADJOURN_STORE",
    ),
    ProxyOption("--take-over", "fence off another living session that holds the task"),
    ProxyOption("--auto-confirm", "pass what the policy wants confirmed, without asking"),
    ProxyOption(
        "--confirm-timeout",
        "how long a call waits for a person (default: 50)",
        metavar="SECONDS",
        default="50",
    ),
    ProxyOption(
        "--brief-bytes",
        f"the most that aex.resume answers (default: {BRIEF_BYTES})",
        metavar="BYTES",
        default=BRIEF_BYTES,
    ),
    ProxyOption(
        "--errors",
        "shape of refusals (default: tool)",
        metavar="SHAPE",
        default="tool",
        choices=("tool", "jsonrpc"),
    ),
    ProxyOption(
        "--tool-names",
        "spelling of the meta-tools (default: auto, by client)",
        metavar="STYLE",
        default="auto",
        choices=("auto", "dotted", "underscored"),
    ),
    ProxyOption(
        "--meta-tools",
        "list the meta-tools once for all proxies of the client, or by each (default: once)",
        metavar="WHERE",
        default="once",
        choices=("once", "always"),
    ),
    ProxyOption("--no-budget-notice", "tell the agent nothing of its budget in the answers of tools"),
    ProxyOption("--log-json", "log to stderr as one JSON object a line"),
    ProxyOption("--upstream", "upstream command as one text, instead of words after --", metavar="COMMAND"),
)


class ProxyOptions:
    """The parsed command line. `options[flag]` is a value; switches are "yes" or ""."""

    def __init__(self, values: dict[str, str], upstream: list[str]) -> None:
        self._values = values
        self.upstream = upstream

    def __getitem__(self, flag: str) -> str:
        return self._values[flag]


def parse(arguments: list[str]) -> ProxyOptions:
    """Parse what follows `adjourn proxy`. Raises `UsageError`; an unknown option is one, never the upstream."""
    table = {option.flag: option for option in OPTIONS}
    values = {option.flag: os.environ.get(option.environment, "") or option.default for option in OPTIONS}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        flag, equals, value = rest.pop(0).partition("=")
        option = table.get(flag)
        if option is None:
            raise UsageError(
                f"unknown option {flag}", "`adjourn proxy --help` lists them; the upstream follows --"
            )
        if option.metavar and not equals and not rest:
            raise UsageError(f"{flag} needs a value ({option.metavar})")
        if not option.metavar and equals:
            raise UsageError(f"{flag} takes no value")
        if not equals:
            value = rest.pop(0) if option.metavar else "yes"
        if option.choices and value not in option.choices:
            raise UsageError(f"{flag} is {' or '.join(option.choices)}, not {value!r}")
        values[flag] = check_argument(value) if flag == "--store" else value
    upstream = rest[1:] if rest[:1] == ["--"] else rest
    upstream = upstream or values["--upstream"].split()
    if not upstream:
        raise UsageError(
            "no upstream command", "write it after --, as in: adjourn proxy -- npx -y your-mcp-server"
        )
    _check(values)
    return ProxyOptions(values, upstream)


def _check(values: dict[str, str]) -> None:
    """Raise `UsageError` for a value that its option cannot have."""
    name = values["--name"]
    if name and (len(name) > MAX_NAME or not any(char.isascii() and char.isalnum() for char in name)):
        raise UsageError(
            f"--name is a server's name of at most {MAX_NAME} characters, not {name[:80]!r}",
            "give it letters, digits and _, as in: adjourn proxy --name inv -- npx -y your-mcp-server",
        )
    if not values["--confirm-timeout"].isdecimal():
        raise UsageError(f"--confirm-timeout is a number of seconds, not {values['--confirm-timeout']!r}")
    size = values["--brief-bytes"]
    if not (size.isascii() and size.isdecimal() and len(size) < 6 and MIN_BYTES <= int(size) <= MAX_BYTES):
        raise UsageError(f"--brief-bytes is a number from {MIN_BYTES} to {MAX_BYTES}, not {size[:40]!r}")
