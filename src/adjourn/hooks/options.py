"""The command line of `adjourn hook`, as one table: the parser here and the help of `adjourn hook --help` both read it.

Owns: the options. Must never: import what an answer does not need.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from adjourn.errors import UsageError
from adjourn.store.passwords import check_argument


class Option(NamedTuple):
    """One option. `metavar` is empty for a switch; `choices` are its values; `environment` names its default."""

    flag: str
    help: str
    metavar: str = ""
    default: str = ""
    choices: tuple[str, ...] = ()
    environment: str = ""


BRIEF_BYTES, MIN_BYTES, MAX_BYTES = "8192", 1024, 65536
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
        f"tell a new session at most this much about unfinished work (default: {BRIEF_BYTES})",
        "BYTES",
        default=BRIEF_BYTES,
    ),
    Option("--no-budget-notice", "tell the agent nothing of its budget after its calls"),
    Option("--settle", "keep calls open until a PostToolUse hook reports their outcome"),
    Option("--no-prompt", "leave what the person asks for out of the history"),
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
    table = {option.flag: option for option in OPTIONS}
    values = {option.flag: os.environ.get(option.environment, "") or option.default for option in OPTIONS}
    rest = list(arguments)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        option = table.get(flag)
        if option is None:
            raise UsageError(f"unknown option {flag}", "`adjourn hook --help` lists them")
        if option.metavar and not equals and not rest:
            raise UsageError(f"{flag} needs a value ({option.metavar})")
        if not option.metavar and equals:
            raise UsageError(f"{flag} takes no value")
        if not equals:
            value = rest.pop(0) if option.metavar else "yes"
        if option.choices and value not in option.choices:
            raise UsageError(f"{flag} is {' or '.join(option.choices)}, not {value!r}")
        if flag == "--brief-bytes" and not (
            value.isascii() and value.isdecimal() and len(value) < 6 and MIN_BYTES <= int(value) <= MAX_BYTES
        ):
            raise UsageError(f"{flag} is a number from {MIN_BYTES} to {MAX_BYTES}, not {value[:40]!r}")
        values[flag] = check_argument(value) if flag == "--store" else value
    return values


def proxied_in(options: dict[str, str]) -> list[str]:
    """The servers that --proxied names."""
    return [name for name in options["--proxied"].split(",") if name]
