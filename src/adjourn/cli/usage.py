"""Wrong usage in words: which command, option or argument is wrong, and the one that was most likely meant.

Nothing is run in place of what was typed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

import click

from adjourn.cli.terminal import paint
from adjourn.errors import UsageError
from adjourn.text.near_words import nearest

_COMMANDS: Final = {
    word: tuple(meant.split("|"))
    for word, meant in {
        "list": "tasks|checkpoint list", "ls": "tasks|checkpoint list", "ps": "tasks|status", "jobs": "tasks",
        "task": "tasks", "sessions": "tasks", "history": "log", "events": "log", "audit": "log|verify", "journal": "log",
        "tail": "log", "info": "status", "state": "status", "budget": "status", "watch": "status --watch",
        "load": "resume", "pick": "resume", "checkpoints": "checkpoint list",
        "save": "checkpoint write", "snapshot": "checkpoint write", "commit": "checkpoint write",
        "revert": "rollback", "undo": "rollback|init --undo", "reset": "rollback", "done": "tasks finish",
        "close": "tasks finish", "complete": "tasks finish", "end": "tasks finish", "open": "tasks reopen",
        "delete": "store prune|store gc|distrust", "add": "trust", "remove": "store prune|store gc|distrust",
        "rm": "store prune|store gc", "clean": "store gc|store prune", "cleanup": "store gc|store prune",
        "allow": "approve", "accept": "approve", "confirm": "approve", "yes": "approve", "reject": "deny",
        "refuse": "deny", "no": "deny", "questions": "inbox", "pending": "inbox", "approvals": "inbox|approve",
        "setup": "init", "install": "init", "configure": "init", "config": "init", "new": "init",
        "uninstall": "init --undo", "start": "proxy", "server": "serve", "wrap": "proxy", "validate": "policy check|check",
        "lint": "policy check|check", "permissions": "policy explain|effective", "rules": "policy explain|effective",
        "format": "policy fmt|fmt", "build": "policy compile|compile", "diagnose": "doctor", "debug": "doctor",
        "example": "demo", "try": "demo", "view": "checkpoint show|show", "cat": "checkpoint show|show", "key": "keys",
        "records": "record", "login": "serve login", "logout": "serve logout",
    }.items()
}  # fmt: skip
"""Words of other tools for a command, and the commands of the same meaning."""
_INSTEAD: Final = {"version": "--version"}
"""Words of other tools for an option of the program."""
_LISTS: Final = ("list", "ls", "lst", "all")
"""Words for what a group does without a command."""
_OPTIONS: Final = {
    "--apply": "--yes", "--force": "--yes", "-f": "--yes", "--preview": "--dry-run", "-n": "--tail",
    "--limit": "--tail", "--last": "--tail", "--count": "--tail", "--watch": "--follow", "--output": "--out",
    "-o": "--out", "--config": "--policy", "--rules": "--policy", "--db": "--store", "--database": "--store",
    "--url": "--store", "--cwd": "-C", "--dir": "-C", "--directory": "-C", "--root": "-C", "--path": "-C",
    "--reason": "--because", "--comment": "--note", "--evidence": "--note", "--timeout": "--confirm-timeout",
    "--auto-approve": "--auto-confirm", "--verbose": "--more", "--all": "--full",
}  # fmt: skip
"""Options of other tools, and those of the same meaning here."""


def option_near(flag: str, options: Iterable[str]) -> str:
    """Return the option among `options` that a mistyped one most likely means; "" if none is near."""
    options = list(options)
    meant = _OPTIONS.get(flag, "")
    return meant if meant in options else nearest(flag, [each for each in options if each.startswith("--")])


class HelpFormatter(click.HelpFormatter):
    """The framework's, with headings and names that stand out on a terminal."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, paint(prefix or "Usage: ", "bold", sys.stdout))

    def write_heading(self, heading: str) -> None:
        self.write(f"{'':>{self.current_indent}}{paint(f'{heading}:', 'bold', sys.stdout)}\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(paint(name, "cyan", sys.stdout), text) for name, text in rows], col_max, col_spacing)


class SuggestingGroup(click.Group):
    """A group of commands that names the nearest one when there is none of a name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = "" if not args or args[0].startswith("-") or ctx.resilient_parsing else args[0]
        if word and self.get_command(ctx, word) is None:
            if ctx.parent and word.lower() in _LISTS:
                raise UsageError(f"there is no command {word!r}", f"did you mean: {ctx.command_path}")
            raise unknown_command(word, self.suggestions(ctx), ctx.command_path)
        return super().resolve_command(ctx, args)

    def suggestions(self, ctx: click.Context) -> list[str]:
        """The commands of which the nearest is named: a word each, or several."""
        return self.list_commands(ctx)


def unknown_command(word: str, commands: Iterable[str], path: str) -> UsageError:
    """The error for a command that `path`, a program or a group, does not have."""
    commands = list(commands)
    if word.lower() in _INSTEAD:
        return UsageError(f"there is no command {word!r}", f"did you mean: {path} {_INSTEAD[word.lower()]}".rstrip())
    near = nearest(word, commands)
    words = _COMMANDS.get(word.lower()) or _COMMANDS.get(nearest(word, _COMMANDS), ())
    meant = [name for name in words if name.partition(" --")[0] in commands]
    if not meant:
        meant = [name for name in commands if name.split()[-1] == word.lower()]
    if not meant and near and word.lower() not in _COMMANDS:
        meant = [near]
    run = " or ".join(f"{path} {name}" for name in meant)
    if not run and path == "aex":
        run = " or ".join(f"adjourn {name}" for name in words)
    remedy = f"did you mean: {run}" if run else f"list the commands: {path} --help"
    return UsageError(f"there is no command {word!r}", remedy)


def explained(error: click.ClickException, command: str) -> tuple[str, str]:
    """The message and the remedy of an error of the framework. `command` is the one that was typed, for an error that does not say it."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else command
    remedy = f"show the usage: {path} --help"
    match error:
        case click.NoSuchOption():
            options = [name for each in context.command.get_params(context) for name in each.opts] if context else []
            meant = option_near(error.option_name, options)
            message = f"unknown option {error.option_name}"
            return message, f"did you mean {meant}?" if meant else f"list the options: {path} --help"
        case click.MissingParameter() if error.param and context:
            metavar = error.param.make_metavar(context)
            return f"no {metavar.strip('[]')} is given", f"write: {' '.join(_usage(context))}"
        case click.BadOptionUsage() if "requires" in error.message:
            return f"{error.option_name} needs a value", remedy
        case click.BadParameter() if error.param:
            return f"{'/'.join(error.param.opts)}: {_bad_value(error, error.param)}", remedy
        case click.UsageError() if error.message.startswith("Got unexpected extra arg"):
            argument = error.message.partition("(")[2].rpartition(")")[0]
            return (f"unexpected argument {argument!r}", f"write: {' '.join(_usage(context))}" if context else remedy)
        case _:
            return error.format_message().rstrip("."), remedy


def _usage(context: click.Context) -> list[str]:
    """The command with its arguments, as the usage line shows them."""
    pieces = [piece for piece in context.command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    return [context.command_path, *pieces]


def _shown_range(kind: click.IntRange) -> str:
    return f"of {kind.min} or more" if kind.max is None else f"from {kind.min} to {kind.max}"


def _bad_value(error: click.BadParameter, parameter: click.Parameter) -> str:
    message = error.message.rstrip(".")
    value, sign, _ = message.partition(" is not ")
    if sign and isinstance(parameter.type, click.IntRange):
        return f"{value} is not a whole number {_shown_range(parameter.type)}"
    if sign and isinstance(parameter.type, click.Choice):
        choices = list(parameter.type.choices)
        near = nearest(value.strip("'"), choices)
        return f"{value} is not one of {', '.join(choices)}" + (f"; did you mean {near}?" if near else "")
    return message
