"""Write man/*.1 from the commands: `python docs/write_commands.py`. click-man lays out the pages.

The wheel installs the pages to share/man/man1. `reference()` is the page of all commands on the site: `docs/build_site.py` puts it there,
and `python docs/write_commands.py --reference` prints it. Neither depends on how click lays out help, for versions of it differ.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from click_man.man import ManPage

from adjourn.cli.app import group, section_of
from adjourn.cli.help import ENVIRONMENT, ERROR_CODES, EXIT_CODES
from adjourn.verification.report import CODES

ROOT = Path(__file__).parents[1]


def commands(context: click.Context) -> Iterator[click.Context]:
    """The context of a command, then those of the commands below it."""
    yield context
    command = context.command
    if isinstance(command, click.Group):
        names = command.list_commands(context)
        for name in names if command is group else sorted(names):
            below = command.get_command(context, name)
            assert below is not None  # it is listed
            yield from commands(click.Context(below, info_name=name, parent=context))


def prose(command: click.Command) -> str:
    """The help: one line a paragraph, an empty line between them."""
    paragraphs = inspect.cleandoc(command.help or "").replace("\b", "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def options(command: click.Command) -> dict[str, str]:
    """The meaning of each option by its spellings, with commas between them."""
    shown = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    return {
        ", ".join(flag if option.is_flag else f"{flag} {option.metavar or 'N'}" for flag in option.opts): " ".join(
            (option.help or "").split()
        )
        for option in shown
    }


def examples(command: click.Command) -> str:
    return inspect.cleandoc((command.epilog or "").partition("Example:")[2])


# --- manual pages


def pages() -> dict[str, str]:
    """The text of each page by the name of its file."""
    found = {}
    for context in commands(click.Context(group, info_name="adjourn")):
        command = context.command
        page = ManPage(context.command_path)
        page.date = page.version = ""  # the same page from the same commands
        page.short_help = _roff(_summary(command))
        page.synopsis = " ".join(command.collect_usage_pieces(context))
        page.description = _roff(prose(command))
        page.options = [(name, _roff(meaning)) for name, meaning in options(command).items()]
        if isinstance(command, click.Group):
            below = {name: command.get_command(context, name) for name in command.list_commands(context)}
            page.commands = [(name, _roff(_summary(each))) for name, each in below.items() if each]
        more = ""
        if command is group:
            more = _terms("EXIT STATUS", EXIT_CODES) + _terms("ENVIRONMENT", ENVIRONMENT)
        example = f".SH EXAMPLE\n.nf\n{_roff(examples(command))}\n.fi\n"
        found[f"{context.command_path.replace(' ', '-')}.1"] = f"{page}{more}{example}"
    return found


def _summary(command: click.Command) -> str:
    if command is group:
        return "an AI agent's work outlives the session that did it"
    return (command.short_help or prose(command).partition("\n")[0]).rstrip(".")


def _terms(title: str, rows: Mapping[str, str]) -> str:
    return f".SH {title}\n" + "".join(f".TP\n.B {name}\n{_roff(meaning)}\n" for name, meaning in rows.items())


def _roff(text: str) -> str:
    """Text as roff shows it: its backslashes and hyphens are those of a command, and no line is a request."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").split("\n")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)


# --- the reference

_HEAD = """# Command line

Answers go to stdout, and their first line is the answer. Errors go to stderr and say the next step. With `--json` the answer is one
JSON document with stable keys (`log --json`: one stored event a line), also of a failure: `{"error": {"code", "message", "help"}}`. Ids of tasks, questions and calls may be cut to a
beginning that only one has. Times are local or relative in text, RFC 3339 in JSON. There is no colour without a terminal or with
`NO_COLOR`. Reading commands write nothing, neither a store nor a key, and work where nothing can be written.
"""


def reference() -> str:
    """The page of all commands."""
    codes = {name: f"exit code {code}" for name, code in ERROR_CODES.items()}
    parts = [
        _HEAD,
        _table("exit code", EXIT_CODES),
        "",
        _table("`code` of an error", _quoted(codes)),
        "",
        _table("variable", _quoted(ENVIRONMENT)),
        "",
    ]
    title = ""
    for context in commands(click.Context(group, info_name="adjourn")):
        _, *names = context.command_path.split()
        if not names:
            continue
        if section_of(names[0]) != title:
            title = section_of(names[0])
            parts.append(f"\n## {title}\n")
        command, path = context.command, context.command_path
        parts.append(f"\n{'#' * (len(names) + 2)} `{path}`\n")
        parts.append(prose(command))
        parts.append(f"\n```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n")
        if rows := options(command):
            parts.append(f"{_table('option', _quoted(rows))}\n")
        parts.append(f"```sh\n{examples(command)}\n```")
    parts.append("\n## Findings of `verify`\n")
    parts.append(_table("code", _quoted(CODES)))
    return "\n".join(parts) + "\n"


def _table(title: str, rows: Mapping[str, str]) -> str:
    lines = (f"| {name} | {meaning.replace('|', chr(92) + '|')} |" for name, meaning in rows.items())
    return "\n".join([f"| {title} | meaning |", "|---|---|", *lines])


def _quoted(rows: Mapping[str, str]) -> dict[str, str]:
    """The rows with each name as code, of several with commas between them, too."""
    return {", ".join(f"`{part}`" for part in name.split(", ")): meaning for name, meaning in rows.items()}


def main() -> None:
    """Write the manual pages into this checkout, and delete those of removed commands."""
    if "--reference" in sys.argv[1:]:
        print(reference(), end="")
        return
    made = pages()
    for old in (ROOT / "man").glob("*.1"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (ROOT / "man" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
