"""The manual pages, made from the commands: `python -m adjourn.cli.setup.manual` writes them to man/.

The wheel installs them to share/man/man1.

Owns: those pages. Must never: say of a command what its help does not.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from adjourn.cli.app import group
from adjourn.cli.setup.topics import ENVIRONMENT, EXIT_CODES
from adjourn.cli.shared.commands import COMMANDS


def pages() -> dict[str, str]:
    """The text of each page by the name of its file."""
    context = click.Context(group, info_name="adjourn")
    found = {"adjourn.1": _program()}
    for name, entry in COMMANDS.items():
        command = group.get_command(context, name)
        assert command is not None  # it is in the table
        found[f"adjourn-{name}.1"] = "\n".join(_page(command, context, name, entry.summary)) + "\n"
    return found


def _program() -> str:
    lines = [
        '.TH "ADJOURN" "1" "" "adjourn" "adjourn"',
        ".SH NAME",
        r"adjourn \- an AI agent's work outlives the session that did it",
        ".SH SYNOPSIS",
        r".B adjourn",
        r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH DESCRIPTION",
        "Each command has a page of its own, such as",
        r".BR adjourn\-status (1).",
    ]
    for title in dict.fromkeys(entry.title for entry in COMMANDS.values()):
        lines.append(f".SS {_escaped(title)}")
        rows = {
            rf"adjourn\-{name}": entry.summary for name, entry in COMMANDS.items() if entry.title == title
        }
        lines += _terms(rows)
    lines += [".SH EXIT STATUS", *_terms(EXIT_CODES), ".SH ENVIRONMENT", *_terms(ENVIRONMENT)]
    return "\n".join(lines) + "\n"


def _page(command: click.Command, parent: click.Context, name: str, summary: str) -> Iterator[str]:
    yield f'.TH "ADJOURN\\-{name.upper()}" "1" "" "adjourn" "adjourn"'
    yield ".SH NAME"
    yield rf"adjourn\-{name} \- {_escaped(summary.rstrip('.'))}"
    yield ".SH SYNOPSIS"
    yield from _usage(command, parent, name)
    yield ".SH DESCRIPTION"
    yield from _prose(command)
    yield from _options(command, ".SH OPTIONS")
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name, parent=parent)
        yield ".SH COMMANDS"
        for sub in sorted(command.commands):
            yield f".SS {_escaped(f'adjourn {name} {sub}')}"
            yield from _usage(command.commands[sub], context, sub)
            yield ".PP"
            yield from _prose(command.commands[sub])
            yield from _options(command.commands[sub], "")
    yield ".SH EXAMPLE"
    yield ".nf"
    for line in inspect.cleandoc((command.epilog or "").partition("Example:")[2]).splitlines():
        yield _escaped(line)
    yield ".fi"
    yield ".SH SEE ALSO"
    yield ".BR adjourn (1)"


def _usage(command: click.Command, parent: click.Context, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f".B {_escaped(context.command_path)}"
    yield _escaped(" ".join(command.collect_usage_pieces(context)))


def _prose(command: click.Command) -> Iterator[str]:
    for number, paragraph in enumerate(inspect.cleandoc(command.help or "").strip().split("\n\n")):
        if number:
            yield ".PP"
        yield _escaped(" ".join(paragraph.replace("\b", "").split()))


def _options(command: click.Command, heading: str) -> Iterator[str]:
    rows = {}
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            value = "" if option.is_flag else f" {option.metavar or 'N'}"
            rows[", ".join(f"{flag}{value}" for flag in option.opts)] = " ".join((option.help or "").split())
    if rows and heading:
        yield heading
    yield from _terms({_escaped(name): meaning for name, meaning in rows.items()})


def _terms(rows: Mapping[str, str]) -> Iterator[str]:
    for name, meaning in rows.items():
        yield ".TP"
        yield f".B {name}"
        yield _escaped(meaning)


def _escaped(text: str) -> str:
    """Text as roff shows it: its backslashes and hyphens are those of a command, and no line is a request."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def write(folder: Path) -> None:
    """Write the pages into a folder, and delete those of commands that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    made = pages()
    for old in folder.glob("*.1"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "man"))
