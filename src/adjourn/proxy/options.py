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
        "name the server in policies, as in NAME.TOOL (default: the name it reports)",
        metavar="NAME",
    ),
    Option(
        "--policy", "use this policy file (default: .aex/policy.aex, then aex.policy.aex)", metavar="FILE"
    ),
    Option("--contract", "narrow the policy by this task contract", metavar="FILE"),
    Option(
        "--task",
        "work on this task; create it if new (default: the client's own)",
        metavar="ID",
        environment="ADJOURN_TASK",
    ),
    Option(
        "--store",
        "keep history in this store (default: .aex/adjourn.db)",
        metavar="URL",
        environment="ADJOURN_STORE",
    ),
    Option(
        "--outside",
        "outside any workspace, refuse to start, or pass everything through without a policy (default: refuse)",
        metavar="HOW",
        default="refuse",
        choices=("refuse", "pass"),
    ),
    Option("--take-over", "fence off another live session that holds the task"),
    Option("--auto-confirm", "forward calls that need confirmation, without asking"),
    Option(
        "--confirm-timeout",
        "let a call wait this long for a person (default: 50)",
        metavar="SECONDS",
        default="50",
    ),
    Option(
        "--brief-bytes",
        f"limit the answer of aex.resume to this size (default: {BRIEF_BYTES})",
        metavar="BYTES",
        default=BRIEF_BYTES,
        bounds=BRIEF_BOUNDS,
    ),
    Option(
        "--errors",
        "send refusals in this shape (default: tool)",
        metavar="SHAPE",
        default="tool",
        choices=("tool", "jsonrpc"),
    ),
    Option(
        "--tool-names",
        "spell the meta-tools so (default: auto, by client)",
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
    Option("--no-budget-notice", "add no notice of the budget to the answers of tools"),
    Option("--log-json", "log to stderr as JSON, one object per line"),
    Option(
        "--url", "reach the server at this address over HTTP, instead of starting a command", metavar="URL"
    ),
    Option("--bearer-env", "send the token in this variable to the server of --url", metavar="VAR"),
    Option("--upstream", "start this server; one text, instead of the words after --", metavar="COMMAND"),
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
    if upstream and values["--url"]:
        raise UsageError("--url and a command are two servers", "give one of the two, or start two proxies")
    if not upstream and not values["--url"]:
        raise UsageError(
            "the command of the MCP server is missing",
            "write it after --, as in: adjourn proxy -- npx -y your-mcp-server",
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
            f"--confirm-timeout takes a number of seconds, not {values['--confirm-timeout'][:40]!r}",
            "write it without a unit, as in: --confirm-timeout 300",
        )
