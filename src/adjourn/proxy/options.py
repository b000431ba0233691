"""The proxy's command line, as one table: the fast parser here and the help of `adjourn proxy --help` both read it.

Owns: the options. Must never: import anything beyond the standard library's core; it runs before the upstream starts.
"""

from __future__ import annotations

from adjourn.clients.options import BRIEF_BOUNDS, BRIEF_BYTES, Option, read
from adjourn.errors import UsageError

MAX_NAME = 64
OPTIONS = (
    Option(
        "--name",
        "name of the server in policies, as in NAME.TOOL (default: the one it gives itself)",
        metavar="NAME",
    ),
    Option("--policy", "policy file (default: .aex/policy.aex, then aex.policy.aex)", metavar="FILE"),
    Option("--contract", "task contract that narrows the policy", metavar="FILE"),
    Option(
        "--task",
        "task to work on, made if new (default: the client's own)",
        metavar="ID",
        environment="ADJOURN_TASK",
    ),
    Option(
        "--store",
        "where history is kept (default: .aex/adjourn.db)",
        metavar="URL",
        environment="ADJOURN_STORE",
    ),
    Option("--take-over", "fence off another living session that holds the task"),
    Option("--auto-confirm", "pass what the policy wants confirmed, without asking"),
    Option(
        "--confirm-timeout",
        "how long a call waits for a person (default: 50)",
        metavar="SECONDS",
        default="50",
    ),
    Option(
        "--brief-bytes",
        f"the most that aex.resume answers (default: {BRIEF_BYTES})",
        metavar="BYTES",
        default=BRIEF_BYTES,
        bounds=BRIEF_BOUNDS,
    ),
    Option(
        "--errors",
        "shape of refusals (default: tool)",
        metavar="SHAPE",
        default="tool",
        choices=("tool", "jsonrpc"),
    ),
    Option(
        "--tool-names",
        "spelling of the meta-tools (default: auto, by client)",
        metavar="STYLE",
        default="auto",
        choices=("auto", "dotted", "underscored"),
    ),
    Option(
        "--meta-tools",
        "list the meta-tools once for all proxies of the client, or by each (default: once)",
        metavar="WHERE",
        default="once",
        choices=("once", "always"),
    ),
    Option("--no-budget-notice", "tell the agent nothing of its budget in the answers of tools"),
    Option("--log-json", "log to stderr as one JSON object a line"),
    Option("--upstream", "upstream command as one text, instead of words after --", metavar="COMMAND"),
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
    values, rest = read(
        OPTIONS, arguments, "list the options: adjourn proxy --help; write the server's command after --"
    )
    upstream = rest[1:] if rest[:1] == ["--"] else rest
    upstream = upstream or values["--upstream"].split()
    if not upstream:
        raise UsageError(
            "no command of an MCP server", "write it after --, as in: adjourn proxy -- npx -y your-mcp-server"
        )
    _check(values)
    return ProxyOptions(values, upstream)


def _check(values: dict[str, str]) -> None:
    """Raise `UsageError` for a value that its option cannot have."""
    name = values["--name"]
    if name and (len(name) > MAX_NAME or not any(char.isascii() and char.isalnum() for char in name)):
        raise UsageError(
            f"--name takes a server's name of at most {MAX_NAME} characters, not {name[:80]!r}",
            "use letters, digits and _, as in: adjourn proxy --name inv -- npx -y your-mcp-server",
        )
    if not values["--confirm-timeout"].isdecimal():
        raise UsageError(
            f"--confirm-timeout takes a number of seconds, not {values['--confirm-timeout'][:40]!r}"
        )
