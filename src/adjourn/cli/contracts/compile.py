"""`adjourn compile`."""

from __future__ import annotations

import click
import msgspec

from adjourn.aex import compiled, examine
from adjourn.cli.shared.context import example, in_folder
from adjourn.cli.shared.documents import read, refuse_errors
from adjourn.cli.shared.output import say_json


@click.command(name="compile", epilog=example("adjourn compile tasks/fix-test.aex > fix-test.json"))
@click.argument("file", metavar="FILE")
@in_folder
def compile_(file: str) -> None:
    """Print the intermediate representation of a contract or policy: JSON, described by spec/aex-ir.schema.json.

    FILE is a file, or - for stdin. A text with an error is not compiled: its findings go to stderr, exit code 1.
    """
    text, findings = read(file)
    refuse_errors(file, text, findings)
    document = examine(text or "", file)
    refuse_errors(file, text, document.findings)
    say_json(msgspec.to_builtins(compiled(document)))
