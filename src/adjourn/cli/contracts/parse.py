"""`adjourn parse`."""

from __future__ import annotations

import click
import msgspec

from adjourn.aex import model, parse, render
from adjourn.cli.shared.context import example, in_folder
from adjourn.cli.shared.documents import read, refuse_errors
from adjourn.cli.shared.output import say_finding, say_json


@click.command(
    "parse", epilog=example("adjourn parse tasks/fix-test.aex", "adjourn parse --tolerant half-written.aex")
)
@click.argument("file", metavar="FILE")
@click.option("--tolerant", is_flag=True, help="Print the part of a text with errors that could be parsed.")
@in_folder
def parse_(file: str, *, tolerant: bool) -> None:
    """Print the syntax tree of a contract or policy as JSON.

    FILE is a file, or - for stdin. Findings of the parser go to stderr; an error among them is exit code 1, unless
    --tolerant is given. The meaning is not checked: use `adjourn check`.
    """
    text, findings = read(file)
    refuse_errors(file, text, findings)
    document = parse(text or "", file)
    if not tolerant:
        refuse_errors(file, text, document.findings)
    for finding in document.findings:
        say_finding(render(finding, text or ""), err=True)
    say_json(msgspec.to_builtins(model(document)))
