"""The command line of `adjourn hook`, as one table: the parser here and the help of `adjourn hook --help` both read it.

Owns: the options. Must never: import what an answer does not need.
"""

from __future__ import annotations

from adjourn.clients.options import BRIEF_BOUNDS, BRIEF_BYTES, Option, read
from adjourn.errors import UsageError

OPTIONS = (
    Option(
        "--client",
        "answer this client (default: claude-code)",
        "NAME",
        default="claude-code",
        choices=("claude-code", "codex"),
    ),
    Option("--policy", "read this policy file (default: .aex/policy.aex, then aex.policy.aex)", "FILE"),
    Option("--contract", "narrow the policy by this task contract", "FILE"),
    Option("--allow-no-policy", "allow every call if there is no policy"),
    Option(
        "--outside",
        "outside any workspace, refuse every call, or leave every call to the client (default: refuse)",
        "HOW",
        default="refuse",
        choices=("refuse", "pass"),
    ),
    Option(
        "--format",
        "print the answer in this shape (default: claude)",
        "SHAPE",
        default="claude",
        choices=("claude", "aex"),
    ),
    Option(
        "--proxied",
        "leave the tools of these MCP servers, separated by commas, to the proxy that lists them (default: adjourn)",
        "NAMES",
    ),
    Option(
        "--brief-bytes",
        f"limit what a new session receives about unfinished work (default: {BRIEF_BYTES})",
        "BYTES",
        default=BRIEF_BYTES,
        bounds=BRIEF_BOUNDS,
    ),
    Option("--no-budget-notice", "send the agent no notice of its budget after its calls"),
    Option("--settle", "keep calls open until a PostToolUse hook reports their outcome"),
    Option("--no-prompt", "do not record what the person asks for"),
    Option(
        "--stay",
        "keep a standby process for ten minutes; it answers later hooks in half the time (Linux)",
    ),
    Option(
        "--task",
        "count calls in this task (default: the client's, else the workspace's)",
        "ID",
        environment="ADJOURN_TASK",
    ),
    Option(
        "--store", "keep history in this store (default: .aex/adjourn.db)", "URL", environment="ADJOURN_STORE"
    ),
)


def parse(arguments: list[str]) -> dict[str, str]:
    """The value of every option by its flag; switches are "yes" or "". Raises `UsageError`."""
    remedy = "list the options: adjourn hook --help"
    values, rest = read(OPTIONS, arguments, remedy)
    if rest:
        raise UsageError(f"unknown option {rest[0]}", remedy)
    return values


def proxied_in(options: dict[str, str]) -> list[str]:
    """The servers that --proxied names."""
    return [name for name in options["--proxied"].split(",") if name]
