"""What this annex adds to the command line: `adjourn code`, its check of `adjourn doctor`, and the files of `adjourn init --code`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
import msgspec

from adjourn.cli.annexes import AnnexCommand
from adjourn.cli.context import CommandContext, example, flag, for_machines, in_folder, needing, text_option
from adjourn.cli.output import complain, safe, say, say_facts, say_json
from adjourn.errors import AdjournError, NotFoundError, UsageError
from adjourn.findings import Finding
from adjourn.host.clock import now
from adjourn.text.times import ago

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


@click.command(
    "code",
    cls=AnnexCommand,
    section="Started by clients",
    short_help="Serve code intelligence over MCP; show its sessions.",
    epilog=example("adjourn code", "adjourn code --search-only", "adjourn code --resume"),
)
@flag("--resume", "Show the session that was interrupted here, and its current step. Starts nothing.")
@click.option(
    "--strictness",
    type=click.Choice(["lenient", "standard", "strict"]),
    default="standard",
    show_default=True,
    help="Set how much evidence a phase requires.",
)
@text_option("--store URL", "Store of the history (default: $ADJOURN_STORE, else .aex/adjourn.db).")
@flag("--search-only", "Serve the search tools only, without sessions.")
@flag("--symbols", "Serve read_symbol, outline, rename_symbol and diagnostics, too.")
@text_option(
    "--test-command COMMAND",
    "Run this, without a shell, before a session's change counts as verified; repeatable.",
    dest="test_commands",
    multiple=True,
)
@text_option(
    "--language-server LANGUAGE=COMMAND",
    "Resolve names of a language with this server, which is trusted as you trust it; repeatable.",
    dest="language_servers",
    multiple=True,
)
@in_folder
@for_machines
def code_(*, resume: bool, as_json: bool, **served: Any) -> None:
    """Serve code intelligence over MCP: search, symbols, and sessions that continue where they were interrupted.

    The server speaks MCP on stdin and stdout; a client starts it. `adjourn init --code` sets it up, and `adjourn serve` serves it over HTTP.
    """
    if resume:
        _show(as_json=as_json)
        return
    if as_json:
        raise UsageError("a server speaks MCP, not --json", "show the sessions as JSON: adjourn code --resume --json")
    with needing("code"):
        from adjourn.code.server.server import CodeServer
        from adjourn.code.server.stdio_transport import serve_stdio
        from adjourn.code.server.tool import CodeOptions, command_words, named_server

        options = CodeOptions(
            strictness=served["strictness"],
            store=served["store"],
            search_only=served["search_only"],
            symbols=served["symbols"],
            test_commands=[command_words("--test-command", text) for text in served["test_commands"]],
            language_servers=dict(map(named_server, served["language_servers"])),
        )
        with CodeServer(".", options) as server:
            if os.isatty(0):
                complain("waiting for an MCP client on stdin", "let a client start this command; Ctrl-C ends it")
            serve_stdio(server)


def _show(*, as_json: bool) -> None:
    """Where the sessions of this work tree stand."""
    from adjourn.code.repository import CodeRepository
    from adjourn.code.workflow.active_session import read_all, summary
    from adjourn.code.workflow.request import Worktree
    from adjourn.code.workflow.sessions import status

    worktree = Worktree(CodeRepository("."))
    sessions, damaged = read_all(worktree.repository.root)
    for session, why in () if as_json else damaged.items():
        complain(f"the checkpoint of {safe(session)} is damaged: {safe(why)}", "resume: the store has the session")
    if not sessions:
        raise NotFoundError("no interrupted session was found here", "start one in your client with /code")
    newest = sessions[-1]
    if as_json:
        say_json(
            {
                **status(newest, worktree),
                "checkpoint_at": newest.checkpoint_at,
                "others": [summary(other) for other in sessions[:-1]],
                "damaged": damaged,
            }
        )
        return
    shown_status = status(newest, worktree)
    say(f"{safe(newest.session_id)}: step {shown_status['step']}, {shown_status['phase']}")
    progress = shown_status["task_progress"]
    rows = [
        ("request", newest.query[:300]),
        ("saved", ago(newest.checkpoint_at, now())),
        ("branch", newest.task_branch_name or ""),
        ("tasks", f"{progress['completed']} of {progress['total']} done" if progress else ""),
        ("next", shown_status["instruction"]),
        ("others", ", ".join(other.session_id for other in sessions[:-1])),
        ("resume", "/code --resume in your client"),
    ]
    say_facts(*rows)


def findings(context: CommandContext) -> Iterator[Finding]:
    """Search programs and grammars that are missing here, and tools that the policy refuses; nothing without coding sessions."""
    from adjourn.setup.checks import has_code_behind_proxy

    if os.path.isdir(os.path.join(context.root, ".code-intel")):
        yield from missing_engines(installed_engines(context.root))
        if has_code_behind_proxy(context.root):
            yield from _refused_tools(context.root)


def _refused_tools(root: str) -> Iterator[Finding]:
    """Under a first policy, which names no tool of `adjourn code`, no coding session can start."""
    from adjourn.code.server.server import TOOLS
    from adjourn.policy.contract import read_contract

    with suppress(AdjournError):  # doctor's check of the policy reports it
        policy = read_contract(root).policy
        names = [tool.name for tool in TOOLS if not tool.symbols]
        refused = [name for name in names if not (policy.observe or policy.visible(name))]
        if refused:
            yield Finding(
                code="code-refused",
                message=f"the policy refuses {len(refused)} of {len(names)} tools of `adjourn code`",
                severity="warning",
                help=f"permit them: use {', '.join(refused)}",
            )


# --- search programs and packages on this machine

_EXTRA = "pip install 'adjourn[code]'"


class Engines(msgspec.Struct, frozen=True):
    """Paths of programs (None: not installed), whether each language has a grammar, and missing grammar packages."""

    ripgrep: str | None
    ctags: str | None
    languages: dict[str, bool]
    missing_packages: list[str]
    watching: bool


def installed_engines(workspace: str) -> Engines:
    """The engines that are installed, outside the workspace. Loads no grammar."""
    from adjourn.code.index import analysis, languages, ripgrep
    from adjourn.code.index.codebase import can_watch
    from adjourn.code.index.languages import LANGUAGES

    return Engines(
        ripgrep=ripgrep.program(workspace),
        ctags=analysis.ctags_program(workspace),
        languages={language.name: languages.has_grammar(language.name) for language in LANGUAGES},
        missing_packages=sorted(set(languages.missing_grammars().values())),
        watching=can_watch(),
    )


def missing_engines(engines: Engines) -> Iterator[Finding]:
    """A finding for each missing engine. Only ripgrep is required."""
    if engines.ripgrep is None:
        yield Finding(
            code="code-ripgrep",
            message="ripgrep is not installed: search_text and search_files fail",
            severity="error",
            help=_EXTRA,
        )
    unread = [name for name, readable in engines.languages.items() if not readable]
    if unread:
        yield _warning(
            "code-grammars",
            f"no symbols for {', '.join(unread)}: packages not installed: {', '.join(engines.missing_packages)}",
            _EXTRA,
        )
    if not engines.watching:
        yield _warning("code-watching", "watchfiles is not installed: the index is updated only after a search", _EXTRA)
    if engines.ctags is None:
        yield _warning(
            "code-ctags",
            f"Universal Ctags is not installed: only the {len(engines.languages)} languages with a grammar have symbols",
            "install Universal Ctags for symbols of other languages, such as Perl, R or Haskell",
        )


def _warning(code: str, message: str, remedy: str) -> Finding:
    return Finding(code=code, message=message, severity="warning", help=remedy)


# --- the files of `adjourn init --code`

MCP_FILE = ".mcp.json"
_SKILLS = {
    ".claude/commands/code.md": "claude_command.md",
    ".claude/skills/code-session/SKILL.md": "claude_skill.md",
    ".agents/skills/code/SKILL.md": "codex_skill.md",
}


def files() -> dict[str, str]:
    """The /code skill, the prompts of its phases, and the client's settings: path in the workspace to text."""
    from importlib import resources

    from adjourn.code.repository import FOLDER
    from adjourn.code.workflow.request import flag_table

    skill = resources.files("adjourn.code") / "skill"
    procedure = (skill / "procedure.md").read_text("utf-8").replace("{flags}", flag_table()).rstrip()
    skills = {
        path: (skill / name).read_text("utf-8").replace("{procedure}", procedure) for path, name in _SKILLS.items()
    }
    return {**skills, MCP_FILE: _mcp_entry(_agreed_checks()), **_prompts(skill / "prompts", FOLDER)}


def _mcp_entry(checks: list[str]) -> str:
    words = ["code", *(word for command in checks for word in ("--test-command", command))]
    return f"""\
{{
  "mcpServers": {{
    "code-intel": {{
      "command": "adjourn",
      "args": {json.dumps(words)}
    }}
  }}
}}
"""


def _agreed_checks() -> list[str]:
    """The first command that tests or builds this project by its own files, if a person at the terminal lets the server run it.

    A file of the repository may come from anyone: without a person's yes, no command is written. None is run here.
    """
    from adjourn.code.repository import CodeRepository
    from adjourn.code.workflow.checks import suggested_checks

    with suppress(AdjournError):
        if sys.stdin.isatty() and not os.path.lexists(MCP_FILE):
            for command in suggested_checks(CodeRepository("."))[:1]:
                question = f"Run `{safe(command)}` before a change counts as verified? The server runs it, not now."
                return [command] if click.confirm(question, default=False, err=True) else []
    return []


def _prompts(folder: Traversable, path: str) -> dict[str, str]:
    prompts: dict[str, str] = {}
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        below = f"{path}/{entry.name}"
        prompts |= _prompts(entry, below) if entry.is_dir() else {below: entry.read_text("utf-8")}
    return prompts
