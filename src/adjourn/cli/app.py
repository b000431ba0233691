"""The table of commands, and the one place where errors become lines on stderr and exit codes.

Owns: `COMMANDS`, lazy loading, `main`. Must never: import a command that was not asked for.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from functools import cache, wraps
from importlib import import_module
from typing import Any, NamedTuple

import click

from adjourn.cli.shared.context import example, speak
from adjourn.cli.shared.output import complain, safe
from adjourn.errors import AdjournError, NotFoundError
from adjourn.policy import ALWAYS, AT_TERMINAL, OUTSIDE_CLIENT


class Entry(NamedTuple):
    """Where a command is, what it does in one line, and under which title `adjourn --help` lists it."""

    place: str
    summary: str
    title: str


_LOOK = "check the path and its permissions"
_RUN, _POINTS, _PEOPLE = "Working", "Checkpoints", "Questions to a person"
_TRUST, _RULES, _HELP = "Trust", "Contracts", "Finding your way"
COMMANDS = {
    "proxy": Entry(
        "working.proxy:proxy", "Stand between client and server: gate, journal, checkpoint.", _RUN
    ),
    "hook": Entry("working.hook:hook", "Answer a client that asks before it runs a tool of its own.", _RUN),
    "code": Entry("working.code:code", "Serve code intelligence over MCP; see where a session stands.", _RUN),
    "status": Entry(
        "working.status:status", "How a task stands: budget, holders, doubts, and the next step.", _RUN
    ),
    "tasks": Entry("working.tasks:tasks", "List the tasks of the store.", _RUN),
    "log": Entry("working.log:log", "Show what happened to a task, event by event.", _RUN),
    "checkpoint": Entry(
        "checkpoints.checkpoint:checkpoint",
        "The page that tells the next session where the work stands.",
        _POINTS,
    ),
    "checkpoints": Entry(
        "checkpoints.checkpoints:checkpoints", "List the checkpoints that can be resumed.", _POINTS
    ),
    "show": Entry("checkpoints.show:show", "Show one checkpoint in full.", _POINTS),
    "resume": Entry(
        "checkpoints.resume:resume", "Show what a session that resumes a checkpoint will be told.", _POINTS
    ),
    "export": Entry(
        "checkpoints.export:export", "Write a checkpoint as a folder that verifies itself.", _POINTS
    ),
    "import": Entry(
        "checkpoints.import_command:import_", "Take in a checkpoint folder that was made elsewhere.", _POINTS
    ),
    "record": Entry(
        "records.record:record", "What one agent hands to the next: show, compare, merge, verify.", _POINTS
    ),
    "rollback": Entry(
        "checkpoints.rollback:rollback", "Go back to a checkpoint: page, files or both. Shows first.", _POINTS
    ),
    "archive": Entry(
        "checkpoints.archive:archive", "Put the pages of finished work away, with an index.", _POINTS
    ),
    "restore": Entry(
        "checkpoints.restore:restore", "Make the last archived page the active one again.", _POINTS
    ),
    "reflect": Entry("checkpoints.reflect:reflect", "What archived work tells, kept as heuristics.", _POINTS),
    "prune": Entry(
        "checkpoints.prune:prune", "Let old checkpoints go: pages, folders, documents. Shows first.", _POINTS
    ),
    "gc": Entry("checkpoints.gc:gc", "Free what nothing needs any more, and say how much.", _POINTS),
    "approve": Entry(
        "records.answer:approve", "Say yes to a call that waits for a person; list what waits.", _PEOPLE
    ),
    "deny": Entry("records.answer:deny", "Say no to a call that waits for a person.", _PEOPLE),
    "answer": Entry(
        "records.answer:answer_", "Answer a question that an agent has left in a record.", _PEOPLE
    ),
    "decide": Entry("records.decide:decide", "Override, contest or settle a decision in a record.", _PEOPLE),
    "settle": Entry(
        "working.settle:settle", "Record whether a call in doubt had its effect; list such calls.", _PEOPLE
    ),
    "verify": Entry(
        "contracts.verify:verify", "Check that a history or contract is what was signed.", _TRUST
    ),
    "sign": Entry("contracts.sign:sign", "Sign a contract: stand behind this very text.", _TRUST),
    "keys": Entry("contracts.keys:keys", "Your key, and the keys of others that you trust.", _TRUST),
    "init": Entry("setup.init:init", "Set up the clients here; write a first policy or task.", _RULES),
    "run": Entry(
        "working.run:run", "Run the steps of a contract; go on with a run that was cut off.", _RULES
    ),
    "check": Entry("contracts.check:check", "Check contracts and policies, with every finding.", _RULES),
    "fmt": Entry(
        "contracts.fmt:fmt", "Write contracts in the one layout. Comments and meaning stay.", _RULES
    ),
    "parse": Entry("contracts.parse:parse", "Print what a contract says, as JSON.", _RULES),
    "compile": Entry(
        "contracts.compile:compile_", "Print a contract for programs that carry it out, as JSON.", _RULES
    ),
    "effective": Entry("contracts.effective:effective", "Show what is permitted, and by which line.", _RULES),
    "review": Entry(
        "contracts.review:review", "Show what a task asks for, and what the policy grants of it.", _RULES
    ),
    "draft": Entry("contracts.draft:draft", "Let a model write a task that keeps to the policy.", _RULES),
    "classify": Entry(
        "contracts.classify:classify", "Tell by its words whether a request needs a contract.", _RULES
    ),
    "doctor": Entry("setup.doctor:doctor", "Look for what is wrong here, and say how to mend it.", _HELP),
    "demo": Entry("setup.demo:demo", "See a session cut off and resumed, in a folder of its own.", _HELP),
}


class LazyGroup(click.Group):
    """A group whose commands are those of a table, by default `COMMANDS`."""

    def __init__(self, *arguments: Any, table: Mapping[str, Entry] = COMMANDS, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        command = _load(entry.place, cmd_name)
        command.short_help = entry.summary
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.table:
            from difflib import get_close_matches  # noqa: PLC0415  # only for a slip

            near = get_close_matches(args[0], self.table, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            ctx.fail(f"there is no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        for title in dict.fromkeys(entry.title for entry in self.table.values()):
            with formatter.section(title):
                formatter.write_dl(
                    [(name, entry.summary) for name, entry in self.table.items() if entry.title == title]
                )


@cache
def _load(place: str, name: str) -> click.Command:
    module, _, variable = place.partition(":")
    command: click.Command = getattr(import_module(f"adjourn.cli.{module}"), variable)
    _guard(command, name)
    return command


def _guard(command: click.Command, name: str) -> None:
    """Have a command, and those of a group, checked before they speak for a person."""
    callback = command.callback
    if callback is not None and (name in AT_TERMINAL or name in OUTSIDE_CLIENT):

        @wraps(callback)
        def checked(**values: Any) -> Any:
            given = _given(command, values)
            attended = not given.isdisjoint(AT_TERMINAL.get(name, ()))
            if attended or not given.isdisjoint(OUTSIDE_CLIENT.get(name, ())):
                speak(name, values.get("place"), attended=attended)
            return callback(**values)

        command.callback = checked
    for part, other in command.commands.items() if isinstance(command, click.Group) else ():
        _guard(other, f"{name} {part}")


def _given(command: click.Command, values: Mapping[str, Any]) -> set[str]:
    """The arguments by their names, and options by their spellings, that are given; what each command has among them."""
    given = {*ALWAYS}
    for parameter in command.params:
        if values.get(parameter.name or ""):
            given.update(parameter.opts)
    return given


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("adjourn init --policy", "adjourn proxy -- npx -y your-mcp-server", "adjourn status"),
)
@click.option("-V", "--version", is_flag=True, help="Print the version.")
@click.pass_context
def group(ctx: click.Context, *, version: bool) -> None:
    """adjourn: an AI agent's work outlives the session that did it.

    Exit codes: 0 done, 1 the thing asked about is not so, 2 wrong usage, 3 refused by a policy or a holder.
    """
    if version:
        from adjourn import __version__  # noqa: PLC0415  # rarely this way: `run` answers it

        click.echo(f"{ctx.info_name} {__version__}")
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: list[str], program: str = "adjourn") -> int:
    """Run a command of `adjourn` or `aex`; every failure is said on stderr, with the next step."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        result: Any = _group(program).main(arguments, prog_name=program, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        complain(
            safe(error.format_message()),
            f"`{context.command_path if context else program} --help` tells more",
        )
        return 2
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted")
        return 130
    except AdjournError as error:
        _explain(error)
        return error.exit_code
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        complain(safe(f"{error.filename or 'a file'}: {error.strerror or error}"), _LOOK)
        return 1
    return result if isinstance(result, int) else 0


def _group(program: str) -> click.Group:
    if program != "aex":
        return group
    from adjourn.cli.aex import group as published  # noqa: PLC0415  # made of this module's table

    return published


def _explain(error: AdjournError) -> None:
    findings = getattr(error, "findings", None)
    if findings:
        from adjourn.aex import render  # noqa: PLC0415  # only when a contract is broken

        texts: dict[str, str] = getattr(error, "texts", {})
        for finding in findings:
            click.echo(render(finding, texts.get(finding.source, "")), err=True)
    remedy = error.remedy or (
        _LOOK if isinstance(error, NotFoundError) else ""
    )  # a reader of files has no better one
    complain(safe(error.message), safe(remedy))
