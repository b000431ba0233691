"""The manual pages and the reference of the command line, made from the commands: `python -m adjourn.cli.setup.manual` writes both.

The wheel installs the pages to share/man/man1. The reference does not depend on how click lays out help, for versions of it differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from adjourn.cli.app import COMMANDS, group
from adjourn.cli.setup.help import ENVIRONMENT, EXIT_CODES
from adjourn.verification.report import CODES


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


# --- the reference

_HEAD = """# Command line

Made by `python -m adjourn.cli.setup.manual`; do not edit.

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


# --- writing both


def write(root: Path) -> None:
    """Write the pages and the reference into a checkout, and delete the pages of commands that are gone."""
    made = pages()
    for old in (root / "man").glob("*.1"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (root / "man" / name).write_text(text, encoding="utf-8")
    (root / "docs/reference/cli.md").write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    write(Path.cwd())
