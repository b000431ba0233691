"""The reference of the command line, made from the commands: `python -m adjourn.cli.setup.reference > docs/reference/cli.md`.

Owns: that page. Must never: depend on how click lays out help; versions of it differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from adjourn.cli.app import group
from adjourn.cli.setup.topics import ENVIRONMENT, EXIT_CODES
from adjourn.cli.shared.commands import COMMANDS
from adjourn.verification import CODES

_HEAD = """# Command line

Made by `python -m adjourn.cli.setup.reference`; do not edit.

Answers go to stdout, and their first line is the answer. Errors go to stderr and say the next step. With `--json` the answer is one
JSON document with stable keys (`log --json`: one stored event a line). Ids of tasks, questions and calls may be cut to a
beginning that only one has. Times are local or relative in text, RFC 3339 in JSON. There is no colour without a terminal or with
`NO_COLOR`. Reading commands write nothing, neither a store nor a key, and work where nothing can be written.

{exit_codes}

{environment}
"""


def reference() -> str:
    """The page."""
    context = click.Context(group, info_name="adjourn")
    tables = {
        "exit_codes": _table("exit code", EXIT_CODES),
        "environment": _table("variable", ENVIRONMENT, "`"),
    }
    parts = [_HEAD.format(**tables)]
    for title in dict.fromkeys(entry.title for entry in COMMANDS.values()):
        names = [name for name, entry in COMMANDS.items() if entry.title == title]
        parts.append(f"\n## {title}\n")
        for name in names:
            command = group.get_command(context, name)
            assert command is not None
            parts += _command(command, context, name)
    parts.append("\n## Findings of `verify`\n\n| code | meaning |\n|---|---|")
    parts += [f"| `{code}` | {meaning} |" for code, meaning in CODES.items()]
    return "\n".join(parts) + "\n"


def _table(title: str, rows: dict[str, str], quote: str = "") -> str:
    """A table of names and meanings; a name may be several with commas between."""
    shown = (
        f"| {', '.join(f'{quote}{one}{quote}' for one in name.split(', '))} | {meaning.replace('|', chr(92) + '|')} |"
        for name, meaning in rows.items()
    )
    return "\n".join([f"| {title} | meaning |", "|---|---|", *shown])


def _command(command: click.Command, parent: click.Context, name: str, level: int = 3) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f"\n{'#' * level} `{context.command_path}`\n"
    prose = inspect.cleandoc(command.help or "")
    yield "\n\n".join(" ".join(paragraph.split()) for paragraph in prose.strip().split("\n\n"))
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n```text\n{context.command_path} {usage}\n```\n"
    rows = [
        _option(option) for option in command.params if isinstance(option, click.Option) and not option.hidden
    ]
    if rows:
        yield "| option | meaning |\n|---|---|"
        yield from rows
        yield ""
    lines = inspect.cleandoc((command.epilog or "").partition("Example:")[2])
    yield f"```sh\n{lines}\n```"
    if isinstance(command, click.Group):
        for sub in sorted(command.commands):
            yield from _command(command.commands[sub], context, sub, level + 1)


def _option(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.metavar or 'N'}"
    names = ", ".join(f"`{flag}{value}`" for flag in option.opts)
    help_ = " ".join((option.help or "").replace("|", "\\|").split())
    return f"| {names} | {help_} |"


if __name__ == "__main__":
    print(reference(), end="")
