"""The programs `adjourn` and `aex`: the table of their commands, the group that loads one when it is asked for, and wrong usage on stderr.

`aex` has the commands that work on contracts, under their published names, so that configurations stay valid. No command is imported here.
Annexes add commands to `adjourn` (`adjourn.cli.annexes`), which are looked up only for a word that is in no table here, and for lists.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache, wraps
from importlib import import_module
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from adjourn.cli import annexes
from adjourn.cli.context import check_person, check_when_said, example, in_folder
from adjourn.cli.output import complain, safe
from adjourn.cli.start import exit_code, say_version
from adjourn.cli.usage import SuggestingGroup, explained
from adjourn.policy.person_commands import ALWAYS, AT_TERMINAL, OUTSIDE_CLIENT, WHEN_SAID, WHEN_WRITING


class CommandEntry(NamedTuple):
    """Where a command is (`module:variable` below `adjourn.cli`; "" in an annex), what it does in one line, and its help section."""

    target: str
    summary: str
    title: str

    def load(self, name: str) -> click.Command:
        """The command of this entry, which `name` names."""
        command = _load(self.target, name)
        command.short_help = self.summary
        return command


_TABLE = {
    "Working": {
        "proxy": ("edges:proxy_", "Run an MCP server behind a proxy that checks and records calls."),
        "hook": ("edges:hook", "Answer a client's hooks before it runs tools of its own."),
        "status": ("tasks:status", "Show a task's status: budget, sessions, doubts, next step."),
        "watch": ("tasks:watch", "Watch a task live: its status and its last calls."),
        "tasks": ("tasks:tasks", "List the tasks in the store."),
        "done": ("tasks:done", "Finish a task: archive its page, and offer it to no new session."),
        "reopen": ("tasks:reopen_", "Make a finished task active again."),
        "report": ("report:report", "Report a task as HTML or Markdown: calls, approvals, checkpoints."),
        "log": ("log:log", "Show what happened in a task, call by call."),
    },
    "Checkpoints": {
        "checkpoint": ("checkpoint:checkpoint", "Write, check, edit and show the page that the next session reads."),
        "checkpoints": ("checkpoints:checkpoints", "List the checkpoints that can be resumed."),
        "show": ("checkpoints:show", "Show one checkpoint in full."),
        "resume": ("checkpoints:resume", "Show what a session that resumes a checkpoint receives."),
        "export": ("export:export", "Export a checkpoint as a folder that can be verified anywhere."),
        "import": ("export:import_", "Import a checkpoint folder that was made elsewhere."),
        "record": ("record:record", "Show, compare, merge, transfer and verify Continuation Records."),
        "rollback": ("archive:rollback", "Roll back to a checkpoint: page, files or both. Preview first."),
        "archive": ("archive:archive", "Archive the pages of finished work, with an index."),
        "restore": ("archive:restore", "Make the last archived page the active one again."),
        "reflect": ("archive:reflect_", "Derive heuristics from archived work."),
        "prune": ("prune:prune_", "Delete old checkpoints: pages, folders, documents. Preview first."),
        "gc": ("prune:gc", "Delete data that nothing refers to; report the space freed."),
    },
    "Questions to a person": {
        "inbox": ("inbox:inbox", "Show everything that waits for a person, and how to answer it."),
        "approve": ("answer:approve", "Approve a call that waits for a person; list waiting calls."),
        "deny": ("answer:deny", "Deny a call that waits for a person."),
        "answer": ("answer:answer_", "Answer a question that an agent left in a record."),
        "decide": ("answer:decide", "Override, contest or settle a decision in a record."),
        "settle": ("answer:settle", "Record whether a call in doubt took effect; list such calls."),
    },
    "Trust": {
        "verify": ("verify:verify", "Check the chain and signatures of a history or a contract."),
        "sign": ("verify:sign", "Sign a contract with your key."),
        "keys": ("keys:keys_", "Show your key; manage the keys of others that you trust."),
    },
    "Contracts": {
        "init": ("init:init", "Set up the clients of this workspace; write a policy or task."),
        "run": ("run:run", "Run the steps of a contract; resume an interrupted run."),
        "check": ("check:check", "Check contracts and policies; report every finding."),
        "fmt": ("check:fmt", "Format contracts; keep comments and meaning."),
        "parse": ("check:parse_", "Print the syntax tree of a contract as JSON."),
        "compile": ("check:compile_", "Print the intermediate representation of a contract as JSON."),
        "effective": ("effective:effective_", "Show what is permitted, and which line decides it."),
        "tighten": ("draft:tighten", "Propose a narrower policy from the calls that were recorded."),
        "review": ("draft:review", "Show what a task requests, and what the policy grants of it."),
        "draft": ("draft:draft_", "Draft a task with a model, and check it under the policy."),
        "classify": ("draft:classify_", "Classify from its wording whether a request needs a contract."),
    },
    "Finding your way": {
        "doctor": ("doctor:doctor", "Diagnose this workspace, its store and your keys."),
        "migrate": ("prune:migrate_", "Bring a store to the newest schema while others use it."),
        "help": ("help:help_", "Explain a topic, or show the help of a command."),
        "completion": ("help:completion", "Print the script by which a shell completes commands and names."),
        "demo": ("demo:demo", "Show how a killed session is resumed, in a folder of its own."),
    },
}  # fmt: skip
COMMANDS = {
    name: CommandEntry(target, summary, title)
    for title, rows in _TABLE.items()
    for name, (target, summary) in rows.items()
}


@cache
def every_command() -> dict[str, CommandEntry]:
    """The commands of `adjourn`, those of annexes too, section by section. Imports the modules of the latter."""
    entries = dict(COMMANDS)
    for name in annexes.names("adjourn.commands"):
        command = annexes.load("adjourn.commands", name)
        entries.setdefault(name, CommandEntry("", command.short_help, command.section))
    titles = list(_TABLE)
    return dict(sorted(entries.items(), key=lambda item: titles.index(item[1].title)))


class LazyGroup(SuggestingGroup):
    """A group whose commands are those of a table; without one, all commands of `adjourn`."""

    def __init__(self, *arguments: Any, table: Mapping[str, CommandEntry] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._table = table

    @property
    def table(self) -> Mapping[str, CommandEntry]:
        return every_command() if self._table is None else self._table

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        entry = COMMANDS.get(cmd_name) if self._table is None else self._table.get(cmd_name)
        if entry is not None:
            return entry.load(cmd_name)
        is_annex = self._table is None and cmd_name in annexes.names("adjourn.commands")
        return _load("", cmd_name) if is_annex else None  # without a look at the other annexes

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As the framework's, without loading a command."""
        commands = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.table.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        for title in dict.fromkeys(entry.title for entry in self.table.values()):
            with formatter.section(title):
                formatter.write_dl(
                    [(name, entry.summary) for name, entry in self.table.items() if entry.title == title]
                )


@cache
def _load(target: str, name: str) -> click.Command:
    module, _, variable = target.partition(":")
    command: click.Command = (
        getattr(import_module(f"adjourn.cli.{module}"), variable) if target else annexes.load("adjourn.commands", name)
    )
    _guard(command, name)
    return command


def _guard(command: click.Command, name: str) -> None:
    """Have a command, and those of a group, checked before they speak for a person."""
    callback = command.callback
    if callback is not None and (name in AT_TERMINAL or name in OUTSIDE_CLIENT):

        @wraps(callback)
        def checked(**values: Any) -> Any:
            words = _given(command, values)
            attended = not words.isdisjoint(AT_TERMINAL.get(name, ()))
            if attended or not words.isdisjoint(OUTSIDE_CLIENT.get(name, ())):
                context = values.get("context")
                if name in WHEN_WRITING and context is not None:
                    context.check_when_writing(name)
                elif name in WHEN_SAID and attended:
                    check_when_said(name, context)
                else:
                    check_person(name, context, attended=attended)
            return callback(**values)

        command.callback = checked
    for part, other in command.commands.items() if isinstance(command, click.Group) else ():
        _guard(other, f"{name} {part}")


def _given(command: click.Command, values: Mapping[str, Any]) -> set[str]:
    """The arguments by their names, and options by their spellings, that are given; what each command has among them."""
    words = {*ALWAYS}
    for parameter in command.params:
        if values.get(parameter.name or ""):
            words.update(parameter.opts)
    return words


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("adjourn init --policy", "adjourn proxy -- npx -y your-mcp-server", "adjourn status"),
)
@in_folder
@click.option("-V", "--version", is_flag=True, help="Print the version; with --json, also the platform and schemas.")
@click.option("--json", "as_json", is_flag=True, hidden=True)
@click.pass_context
def group(ctx: click.Context, *, version: bool, as_json: bool) -> None:
    """adjourn: an AI agent's work outlives the session that did it.

    Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 refused by a policy or by the holder of a task.
    """
    if version:
        say_version(ctx.info_name or "", as_json=as_json)
    elif as_json:
        raise click.UsageError("--json belongs to a command or to --version")
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


AEX_COMMANDS: Final = (
    "init", "parse", "check", "compile", "fmt", "sign", "verify", "effective",
    "run", "proxy", "gate", "draft", "review", "classify",
)  # fmt: skip
AEX_RENAMED: Final = {"gate": "hook"}
"""Where the published name is not the one of `adjourn`."""

AEX_TABLE: Final = {name: COMMANDS[AEX_RENAMED.get(name, name)] for name in AEX_COMMANDS}

_AEX_HELP = """aex: run the contract commands of adjourn by their published names.

The commands are those of `adjourn`; `adjourn --help` lists the others. Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 refused by a
policy or by the holder of a task.
"""

aex_group: Final = LazyGroup(
    name="aex",
    table=AEX_TABLE,
    help=_AEX_HELP,
    epilog=example("aex init --policy", "aex check .aex/policy.aex", "aex proxy -- npx -y your-mcp-server"),
    params=group.params,
    callback=group.callback,
    invoke_without_command=True,
    context_settings=group.context_settings,
)


def main(arguments: list[str], program: str = "adjourn", commands: click.Group = group) -> int:
    """Run one of `commands`; every failure is printed on stderr, with the next step. Returns the exit code."""

    def work() -> object:
        stdout = sys.stdout
        try:
            return commands.main(arguments, prog_name=program, standalone_mode=False)
        except SystemExit:
            if sys.stdout is not stdout:  # how click hides that nobody reads
                raise BrokenPipeError from None
            raise
        except click.ClickException as error:
            typed = [word for word in arguments[:1] if word in every_command()]
            message, remedy = explained(error, " ".join([program, *typed]))
            complain(safe(message), safe(remedy))
            return 2
        except click.Abort:
            raise KeyboardInterrupt from None

    return exit_code(work)
