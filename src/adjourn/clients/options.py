"""The options of `adjourn proxy`, `hook` and `run`: one table, which the parser of the first two and the help of all three read.

A proxy and a hook parse their options here, before a server starts or a client waits, so this imports next to nothing. `adjourn run` is
a command of the framework, which gets its options from the same rows.
"""

from __future__ import annotations

import os

from adjourn.errors import UsageError
from adjourn.host import executables
from adjourn.store.url import check_argument
from adjourn.text.near_words import did_you_mean

BRIEF_BYTES = "8192"
"""The default of --brief-bytes."""
MAX_NAME = 64
"""Characters of a server's name."""

_SYNONYMS = {"--config": "--policy", "--rules": "--policy", "--db": "--store", "--database": "--store"}
"""Options of other tools, and those of the same meaning here."""


class Option:
    """One option of the `programs`, which are names of commands with blanks between them.

    `metavar` is empty for a switch. `choices` are its values, or a range of whole numbers. `environment` names its default.
    """

    def __init__(
        self,
        programs: str,
        flag: str,
        help: str,  # noqa: A002  # the word of every option parser
        metavar: str = "",
        *,
        default: str = "",
        choices: tuple[str, ...] | range = (),
        environment: str = "",
    ) -> None:
        self.programs = programs.split()
        self.flag = flag
        self.help = help
        self.metavar = metavar
        self.default = default
        self.choices = choices
        self.environment = environment

    def check(self, value: str) -> str:
        """The value itself. Raises `UsageError` for one that the option cannot have."""
        if isinstance(self.choices, range):
            least, most = self.choices[0], self.choices[-1]
            is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(most))
            if not (is_number and int(value) in self.choices):
                raise UsageError(f"{self.flag} takes a number from {least} to {most}, not {value[:40]!r}")
        elif self.choices and value not in self.choices:
            remedy = did_you_mean(value, self.choices)
            raise UsageError(f"{self.flag} takes {' or '.join(self.choices)}, not {value[:40]!r}", remedy)
        return check_argument(value) if self.flag == "--store" else value


OPTIONS = (
    Option(
        "hook", "--client", "Answer this client (default: claude-code).", "NAME",
        default="claude-code", choices=("claude-code", "codex", "gemini"),
    ),
    Option("proxy", "--name", "Name the server in policies, as in NAME.TOOL (default: the name it reports).", "NAME"),
    Option("run", "--resume", "Resume the newest unfinished run (of FILE), or that of --task."),
    Option("run", "--inputs", "Read the inputs from FILE, a JSON object; - is stdin.", "FILE"),
    Option("proxy hook run", "--policy", "Use this policy file, .aex or JSON (default: .aex/policy.aex, then aex.policy.aex).", "FILE"),
    Option("proxy hook", "--contract", "Narrow the policy by this task contract.", "FILE"),
    Option(
        "proxy", "--task", "Work on this task; create it if new (default: the client's own).", "ID",
        environment="ADJOURN_TASK",
    ),
    Option(
        "hook", "--task", "Count calls in this task (default: the client's, else the workspace's).", "ID",
        environment="ADJOURN_TASK",
    ),
    Option("run", "--task", "Name of the run's task (default: generated).", "NAME"),
    Option(
        "proxy hook", "--store", "Keep history in this store (default: .aex/adjourn.db).", "URL",
        environment="ADJOURN_STORE",
    ),
    Option("hook", "--allow-no-policy", "Allow every call if there is no policy."),
    Option(
        "proxy hook", "--outside",
        "Outside any workspace, refuse, or pass every call on without a policy (default: refuse).", "HOW",
        default="refuse", choices=("refuse", "pass"),
    ),
    Option("proxy", "--take-over", "Fence off another live session that holds the task."),
    Option("proxy run", "--auto-confirm", "Make calls that need confirmation without asking. Calls in doubt are still asked about."),
    Option("proxy", "--confirm-timeout", "Let a call wait this long for a person (default: 50).", "SECONDS", default="50"),
    Option(
        "run", "--confirm-timeout", "Time that a question waits without a terminal (default: until it expires).", "SECONDS",
    ),
    Option(
        "hook", "--format", "Print the answer in this shape (default: claude).", "SHAPE",
        default="claude", choices=("claude", "aex"),
    ),
    Option(
        "hook", "--proxied",
        "Leave the tools of these MCP servers, separated by commas, to the proxy that lists them (default: adjourn).", "NAMES",
    ),
    Option(
        "proxy hook", "--brief-bytes", f"Limit what a resuming session receives to this size (default: {BRIEF_BYTES}).", "BYTES",
        default=BRIEF_BYTES, choices=range(1024, 65537),
    ),
    Option(
        "proxy", "--errors", "Send refusals in this shape (default: tool).", "SHAPE",
        default="tool", choices=("tool", "jsonrpc"),
    ),
    Option(
        "proxy", "--tool-names", "Spell the meta-tools so (default: auto, by client).", "STYLE",
        default="auto", choices=("auto", "dotted", "underscored"),
    ),
    Option(
        "proxy", "--meta-tools", "List the meta-tools once for all proxies of the client, or by each (default: once).", "WHERE",
        default="once", choices=("once", "always"),
    ),
    Option("proxy hook", "--no-budget-notice", "Send the agent no notice of its budget."),
    Option("hook", "--settle", "Keep calls open until a PostToolUse hook reports their outcome."),
    Option("hook", "--no-prompt", "Do not record what the person asks for."),
    Option("hook", "--no-transcripts", "Do not read transcripts, neither this client's nor those of others."),
    Option("hook", "--stay", "Keep a standby process for ten minutes; it answers later hooks in half the time (Linux)."),
    Option("proxy", "--log-json", "Log to stderr as JSON, one object per line."),
    Option("run", "--registry", "Use the tools of a remote registry; they override the built-in ones.", "URL"),
    Option("run", "--otlp-endpoint", "Send each event as a span to a collector: OTLP over HTTP, as JSON.", "URL"),
    Option("run", "--log-json", "Print events as JSON with time and trace."),
    Option("proxy", "--url", "Reach the server at this address over HTTP, instead of starting a command.", "URL"),
    Option("proxy", "--bearer-env", "Send the token in this variable to the server of --url.", "VAR"),
    Option(
        "proxy", "--header-env", "Send headers to the server of --url, each from a variable: NAME=VAR, separated by commas.", "HEADERS",
    ),
    Option("proxy", "--upstream", "Start this server; one text, instead of the words after --.", "COMMAND"),
)  # fmt: skip


def options_of(program: str) -> tuple[Option, ...]:
    """The options of `proxy`, `hook` or `run`."""
    return tuple(option for option in OPTIONS if program in option.programs)


class ProxyOptions:
    """The parsed command line. `options[flag]` is a value; switches are "yes" or ""."""

    def __init__(self, values: dict[str, str], upstream: list[str]) -> None:
        self._values = values
        self.upstream = upstream

    def __getitem__(self, flag: str) -> str:
        return self._values[flag]


def parse_proxy(arguments: list[str]) -> ProxyOptions:
    """Parse what follows `adjourn proxy`. Raises `UsageError`; an unknown option is one, never the upstream."""
    values, texts = _parse(
        "proxy", arguments, "list the options: adjourn proxy --help; write the server's command after --"
    )
    upstream = texts[1:] if texts[:1] == ["--"] else texts
    upstream = upstream or values["--upstream"].split()
    if upstream and values["--url"]:
        raise UsageError("--url and a command are two servers", "give one of the two, or start two proxies")
    if not upstream and not values["--url"]:
        raise UsageError(
            "no command of an MCP server is given", "write it after --, as in: adjourn proxy -- npx -y your-mcp-server"
        )
    name, seconds = values["--name"], values["--confirm-timeout"]
    if name and (len(name) > MAX_NAME or not any(map(str.isalnum, name))):
        raise UsageError(
            f"--name takes a server's name of at most {MAX_NAME} characters, not {name[:80]!r}",
            "use letters, digits and _, as in: adjourn proxy --name inv -- npx -y your-mcp-server",
        )
    if not seconds.isdecimal():
        raise UsageError(
            f"--confirm-timeout takes a number of seconds, not {seconds[:40]!r}",
            "write it without a unit, as in: --confirm-timeout 300",
        )
    return ProxyOptions(values, upstream)


def connect_words(url: str, bearer_env: str = "", header_env: str = "") -> list[str]:
    """The command that reaches a server at a URL: what a proxy with --url starts."""
    options = [("--bearer-env", bearer_env), ("--header-env", header_env)]
    given = [word for option, value in options if value for word in (option, value)]
    return executables.python_command("-m", "adjourn", "connect", *given, "--", url)


def parse_hook(arguments: list[str]) -> dict[str, str]:
    """The value of every option of `adjourn hook` by its flag; switches are "yes" or "". Raises `UsageError`."""
    remedy = "list the options: adjourn hook --help"
    values, texts = _parse("hook", arguments, remedy)
    if texts:
        raise UsageError(f"unknown option {texts[0]}", remedy)
    return values


def proxied_servers(options: dict[str, str]) -> list[str]:
    """The servers that --proxied names."""
    return [name for name in options["--proxied"].split(",") if name]


def _parse(program: str, arguments: list[str], remedy: str) -> tuple[dict[str, str], list[str]]:
    """The value of every option by its flag (switches are "yes" or ""), and the arguments from the first that is no option.

    Raises `UsageError`, with the `remedy` for an unknown option.
    """
    table = {option.flag: option for option in options_of(program)}
    values = {flag: os.environ.get(option.environment, "") or option.default for flag, option in table.items()}
    texts = list(arguments)
    while texts and texts[0].startswith("-") and texts[0] != "--":
        flag, equals, value = texts.pop(0).partition("=")
        option = table.get(flag)
        if option is None:
            raise UsageError(f"unknown option {flag[:40]}", did_you_mean(flag, table, _SYNONYMS) or remedy)
        if option.metavar and not equals and not texts:
            raise UsageError(f"{flag} needs a value", f"write: {flag} {option.metavar}")
        if not option.metavar and equals:
            raise UsageError(f"{flag} takes no value", f"write {flag} alone")
        if not equals:
            value = texts.pop(0) if option.metavar else "yes"
        values[flag] = option.check(value)
    return values, texts
