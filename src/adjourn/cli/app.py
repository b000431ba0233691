"""The programs `adjourn` and `aex`: the table of their commands, the group that loads one when it is asked for, and wrong usage on stderr.

`aex` has the commands that work on contracts, under their published names, so that configurations stay valid. No command is imported here.
Annexes add commands to `adjourn` (`adjourn.cli.annexes`), which are looked up only for a word that is in no table here, and for lists.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache, wraps
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

import click
from click.shell_completion import CompletionItem

from adjourn.cli import annexes
from adjourn.cli.context import check_person, check_when_said, example, in_folder
from adjourn.cli.start import exit_code, fail, say_version
from adjourn.cli.usage import HelpFormatter, SuggestingGroup, explained
from adjourn.policy.person_commands import ALWAYS, AT_TERMINAL, OUTSIDE_CLIENT, PUBLISHED, WHEN_SAID, WHEN_WRITING


class CommandEntry(NamedTuple):
    """Where a command is (`module:variable` below `adjourn.cli`; "" in an annex), what it does in one line, and its help section."""

    target: str
    summary: str
    title: str


class Noun(NamedTuple):
    """A word that only groups commands: the one that runs without another word ("": none), what they do in one line, and its section."""

    default: str
    summary: str
    title: str


_TABLE = {
    "Start": {
        "init": ("init:init", "Set up this project's clients; --undo restores them."),
        "doctor": ("doctor:doctor", "Find what does not work, and say how to fix it."),
        "demo": ("demo:demo", "Watch a killed session being resumed in another client."),
    },
    "Look": {
        "status": ("tasks:status", "Show a task: budget, sessions, calls in doubt, next step."),
        "log": ("log:log", "Show what happened in a task, call by call."),
        "report": ("report:report", "Write a report of a task, as HTML or Markdown."),
        "tasks list": ("tasks:tasks", "List the tasks of this workspace."),
        "tasks spend": ("tasks:spend_", "Show what each person has spent."),
        "tasks finish": ("tasks:finish_", "Finish a task; offer it to no new session."),
        "tasks reopen": ("tasks:reopen_", "Make a finished task active again."),
    },
    "Answer": {
        "inbox": ("inbox:inbox", "Answer everything that waits for you."),
        "approve": ("answer:approve", "Approve a call that waits for a person; list them."),
        "deny": ("answer:deny", "Deny a call that waits for a person."),
        "answer": ("answer:answer_", "Answer a question that an agent left in a record."),
        "decide": ("answer:decide", "Override, contest or settle a decision in a record."),
        "settle": ("answer:settle", "Record whether a call in doubt took effect; list them."),
    },
    "Continue": {
        "continue": ("continue_session:continue_", "Continue a session of any client."),
        "resume": ("checkpoints:resume", "Show what the next session learns from a checkpoint."),
        "checkpoint list": ("checkpoints:checkpoints", "List the checkpoints that can be resumed."),
        "checkpoint show": ("checkpoints:show", "Show one checkpoint in full."),
        "checkpoint write": ("checkpoint:write", "Save a checkpoint of a task now."),
        "checkpoint export": ("export:export", "Export a checkpoint as a folder; verify it anywhere."),
        "checkpoint import": ("export:import_", "Import a checkpoint folder made elsewhere."),
        "checkpoint rules": ("checkpoint:rules", "List the calls before which a checkpoint is saved."),
        "rollback": ("archive:rollback", "Go back to a checkpoint: page, files or both."),
        "page list": ("checkpoint:pages", "List the checkpoint pages in tmp/."),
        "page show": ("checkpoint:show", "Show a page, its age, and whether it was edited."),
        "page edit": ("checkpoint:edit", "Edit a page; the next session reads your text."),
        "page lint": ("checkpoint:lint", "Check checkpoint pages, and list every finding."),
        "page archive": ("archive:archive", "Archive the pages of finished work, with an index."),
        "page restore": ("archive:restore", "Make the last archived page the active one again."),
        "record": ("record:record", "Show, compare, merge and verify Continuation Records."),
        "reflect": ("archive:reflect_", "Derive heuristics from archived work."),
    },
    "Rules": {
        "policy explain": ("effective:effective_", "Show what is permitted, and which line decides it."),
        "policy check": ("check:check", "Check policies and contracts; report every finding."),
        "policy fmt": ("check:fmt", "Format policies and contracts; keep comments and meaning."),
        "policy tighten": ("draft:tighten", "Propose a narrower policy from recorded calls."),
        "policy review": ("draft:review", "Show what the policy grants of a contract."),
        "policy draft": ("draft:draft_", "Draft a contract with a model, and check it."),
        "policy classify": ("draft:classify_", "Tell from its wording if a request needs a contract."),
        "policy sign": ("verify:sign", "Sign a contract with your key."),
        "policy parse": ("check:parse_", "Print a contract's syntax tree as JSON."),
        "policy compile": ("check:compile_", "Print a contract's intermediate representation as JSON."),
        "run": ("run:run", "Run the steps of a contract; resume an interrupted run."),
    },
    "Trust": {
        "verify": ("verify:verify", "Check the hash chain and the signatures of a history."),
        "keys": ("keys:keys_", "Show your key; set a PIN; trust the keys of others."),
    },
    "Team": {},
    "Storage": {
        "store show": ("prune:show", "Show what takes room in the store."),
        "store prune": ("prune:prune_", "Delete old checkpoints. Preview first."),
        "store gc": ("prune:gc", "Delete data that nothing refers to."),
        "store export": ("export:export_events", "Export events for an audit, with a signed proof."),
        "store import": ("export:import_threads_", "Import LangGraph threads for AdjournSaver."),
        "store migrate": ("prune:migrate_", "Bring a store to the newest schema while it is used."),
    },
    "Started by clients": {
        "proxy": ("edges:proxy_", "Run an MCP server behind the policy and the journal."),
        "hook": ("edges:hook", "Answer a client's hooks before it runs one of its tools."),
    },
    "Help": {
        "help": ("help:help_", "Explain a topic or a command; --all lists all."),
        "completion": ("help:completion", "Print the script for completion in a shell."),
    },
}  # fmt: skip
COMMANDS = {
    path: CommandEntry(target, summary, title)
    for title, rows in _TABLE.items()
    for path, (target, summary) in rows.items()
}
"""By its path, the words that call it, each command of the core."""
_NOUNS: Final = {
    "tasks": Noun("list", "List the tasks of this workspace; finish and reopen them.", "Look"),
    "checkpoint": Noun("list", "List, show, save, export and import checkpoints.", "Continue"),
    "page": Noun("list", "Show and edit the checkpoint pages: Markdown for the next session.", "Continue"),
    "policy": Noun("explain", "Show what is allowed and why; check and change the rules.", "Rules"),
    "store": Noun("show", "Show what takes room; delete old data; import; migrate.", "Storage"),
}
DAY: Final = (
    "init", "doctor", "status", "log", "ui", "report", "inbox", "continue", "resume", "checkpoint", "rollback", "policy", "run",
    "verify", "keys", "serve",
)  # fmt: skip
"""What `adjourn --help` lists, in the order of a day. `adjourn help --all` lists the rest."""


@cache
def every_command() -> dict[str, CommandEntry]:
    """By its path each command of `adjourn`, those of annexes too, section by section. Imports the modules of the latter."""
    entries = dict(COMMANDS)
    for name in annexes.names("adjourn.commands"):
        command = annexes.load("adjourn.commands", name)
        entries.setdefault(name, CommandEntry("", command.short_help, command.section))
    titles = list(_TABLE)
    return dict(sorted(entries.items(), key=lambda item: titles.index(item[1].title)))


class LazyGroup(SuggestingGroup):
    """A group whose commands are loaded when they are asked for.

    `paths` has by its name here the path of each; without it, they are the first words of all commands of `adjourn`. `default` is the
    command that runs where none is named.
    """

    def __init__(
        self, *arguments: Any, paths: Mapping[str, str] | None = None, default: str = "", **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._paths = paths
        self._default = default

    @property
    def paths(self) -> Mapping[str, str]:
        return self._paths or {word: word for word in dict.fromkeys(path.split()[0] for path in every_command())}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self._paths is None and args[:2] == ["import", "langgraph"] and len(args) > 2:
            args = ["store", "import", *args[2:]]
        is_named = bool(args) and (args[0][:1] != "-" or args[0] in ctx.help_option_names)
        if self._default and not is_named and not ctx.resilient_parsing:
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.paths)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if self._paths is not None:
            path = self._paths.get(cmd_name)
        else:  # without a look at the annexes, where a command of the core is meant
            path = PUBLISHED.get(cmd_name, cmd_name)
            first = path.partition(" ")[0]
            if path not in COMMANDS and path not in _NOUNS and first not in annexes.names("adjourn.commands"):
                return None
        return None if path is None else _load(path)

    def suggestions(self, ctx: click.Context) -> list[str]:
        return self.list_commands(ctx) if self._paths is not None else [*self.paths, *every_command()]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As the framework's, without loading a command."""
        commands = [
            CompletionItem(name, help=summary_of(path))
            for name, path in self.paths.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        if self._paths is not None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, summary_of(path)) for name, path in self._paths.items()])
            return
        write_commands(formatter, DAY)


def write_commands(formatter: click.HelpFormatter, paths: Iterable[str]) -> None:
    """Write each command with its summary, by section."""
    listed = list(paths)
    size = max(map(len, listed))
    for title in _TABLE:
        rows = [(path.ljust(size), summary_of(path)) for path in listed if section_of(path) == title]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def summary_of(path: str) -> str:
    """What a command or a noun does, in one line."""
    return (_NOUNS.get(path) or every_command()[path]).summary


def section_of(path: str) -> str:
    return (_NOUNS.get(path) or every_command()[path]).title


@cache
def _load(path: str) -> click.Command:
    if path in _NOUNS:
        below = {each.partition(" ")[2]: each for each in COMMANDS if each.startswith(f"{path} ")}
        noun = _NOUNS[path]
        bare = f"\n\nWithout a command: {noun.default}." if noun.default else ""
        return LazyGroup(
            path,
            paths=below,
            default=noun.default,
            help=noun.summary + bare,
            epilog=example(*(f"adjourn {each}" for each in list(below.values())[:3])),
        )
    command: click.Command
    if path in COMMANDS:
        module, _, variable = COMMANDS[path].target.partition(":")
        command = getattr(import_module(f"adjourn.cli.{module}"), variable)
        command.short_help = COMMANDS[path].summary
    elif " " in path:  # of a group in an annex
        group, _, name = path.partition(" ")
        return cast("click.Group", _load(group)).commands[name]
    else:
        command = annexes.load("adjourn.commands", path)
    _guard(command, path)
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
                elif name in WHEN_SAID:
                    check_when_said(name, context, attended=attended)
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


click.Context.formatter_class = HelpFormatter


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "color": True,
    },  # the formatter knows where colours are wanted
    epilog=example("adjourn init", "adjourn status", "adjourn inbox")
    + "\n\nadjourn help --all lists every command, adjourn help TOPIC explains a topic.",
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
"""What `aex` publishes."""

_AEX_HELP = """aex: run the contract commands of adjourn by their published names.

The commands are those of `adjourn`; `adjourn help --all` lists the others. Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 refused by
a policy or by the holder of a task.
"""

aex_group: Final = LazyGroup(
    name="aex",
    paths={name: PUBLISHED.get(name, name) for name in AEX_COMMANDS},
    help=_AEX_HELP,
    epilog=example("aex init --policy", "aex check .aex/policy.aex", "aex proxy -- npx -y your-mcp-server"),
    params=group.params,
    callback=group.callback,
    invoke_without_command=True,
    context_settings=group.context_settings,
)


def _typed(arguments: list[str]) -> list[str]:
    """The words of a command line that name a command."""
    paths = {*every_command(), *_NOUNS, *PUBLISHED}
    return next((arguments[:count] for count in (2, 1) if " ".join(arguments[:count]) in paths), [])


def main(arguments: list[str], program: str = "adjourn", commands: click.Group = group) -> int:
    """Run one of `commands`; every failure is printed with the next step: on stderr, with --json on stdout. Returns the exit code."""
    as_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]

    def work() -> object:
        stdout = sys.stdout
        try:
            return commands.main(arguments, prog_name=program, standalone_mode=False)
        except SystemExit:
            if sys.stdout is not stdout:  # how click hides that nobody reads
                raise BrokenPipeError from None
            raise
        except click.ClickException as error:
            message, remedy = explained(error, " ".join([program, *_typed(arguments)]))
            fail("usage", message, remedy, as_json=as_json)
            return 2
        except click.Abort:
            raise KeyboardInterrupt from None

    return exit_code(work, as_json=as_json)
