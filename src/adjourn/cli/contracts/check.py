"""`adjourn check`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import click
from msgspec.structs import replace

from adjourn import __version__
from adjourn.aex import discover, examine, github, layer, read_json_policy, render, sarif
from adjourn.cli.shared.context import CommandContext, example, for_machines, in_folder
from adjourn.cli.shared.documents import STDIN, named, read
from adjourn.cli.shared.output import finding_json, safe, say, say_finding, say_json
from adjourn.cli.shared.rule_names import rule_findings
from adjourn.findings import Finding
from adjourn.host import workspace_of


class Examined(NamedTuple):
    """A document and what was found in it. `kind` is empty where the file could not be read.

    `texts` are those that the findings are about, by the names that they use: a JSON policy may extend others.
    """

    path: str
    kind: str
    name: str
    texts: dict[str, str]
    findings: list[Finding]

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return len(self.findings) - self.errors


@click.command(
    epilog=example(
        "adjourn check .aex/policy.aex tasks", "adjourn check . --format sarif > adjourn.sarif"
    )
)  # fmt: skip
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "github", "sarif"]), metavar="FORMAT",
    help="Print text, json, github (workflow annotations) or sarif (SARIF 2.1.0).",
)  # fmt: skip
@in_folder
@for_machines
def check(files: tuple[str, ...], *, form: str | None, as_json: bool) -> int:
    """Check contracts and policies; report every finding with its line and a remedy.

    FILE is a file (a policy may be JSON), a folder (every .aex file below it, hidden folders other than .aex left out) or - for
    stdin.
    Exit code 1 when a file has an error. Warnings change no exit code.
    """
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json is --format json, and --format {form} is given; keep one of them")
    documents = [_examined(path) for path in named(files)]
    _PRINTERS["json" if as_json else form or "text"](documents)
    return 1 if any(one.errors for one in documents) else 0


def _examined(path: str) -> Examined:
    if path.endswith(".json"):
        reading = read_json_policy(path, workspace_of().root)
        names = rule_findings(
            reading.policy, CommandContext()
        )  # which policy of JSON counts here is said when a client is started
        return Examined(
            path, "policy" if path in reading.texts else "", "", reading.texts, [*reading.findings, *names]
        )
    text, findings = read(path)
    if text is None:
        return Examined(path, "", "", {}, findings)
    document = examine(text, path)
    kind = "policy" if document.is_policy else "task"
    findings = document.findings
    if _counts_here(path):
        findings = [*findings, *rule_findings(layer(document), CommandContext())]
    return Examined(path, kind, document.name, {path: text}, findings)


def _counts_here(path: str) -> bool:
    """Whether a file is the policy of this workspace, whose servers have to have the tools that it names."""
    policy = discover(os.curdir)
    return bool(policy) and path != STDIN and os.path.realpath(path) == os.path.realpath(policy or "")


def _print_text(documents: Sequence[Examined]) -> None:
    for one in documents:
        say(f"{safe(one.path)}: {_verdict(one)}", "red" if one.errors else "green")
        for finding in one.findings:
            say_finding(render(finding, one.texts.get(finding.source, "")))


def _print_json(documents: Sequence[Examined]) -> None:
    files = [
        {
            "path": one.path,
            "kind": one.kind,
            "name": one.name,
            "valid": not one.errors,
            "findings": [finding_json(finding) for finding in one.findings],
        }
        for one in documents
    ]
    say_json(valid=not any(one.errors for one in documents), files=files)


def _print_github(documents: Sequence[Examined]) -> None:
    counts = _counted(sum(one.errors for one in documents), sum(one.warnings for one in documents))
    say(f"{len(documents)} checked: {', '.join(counts) or 'all valid'}")
    for command in github(_placed(documents)):
        say(command)


def _print_sarif(documents: Sequence[Examined]) -> None:
    say_json(sarif(_placed(documents), __version__))


_PRINTERS: dict[str, Callable[[Sequence[Examined]], None]] = {
    "text": _print_text,
    "json": _print_json,
    "github": _print_github,
    "sarif": _print_sarif,
}


def _placed(documents: Sequence[Examined]) -> list[Finding]:
    """Every finding, with the path of its file in the repository: a workflow may check from a folder within it."""
    root = os.environ.get("GITHUB_WORKSPACE") or os.getcwd()
    return [
        replace(finding, source=_within(root, finding.source))
        for one in documents
        for finding in one.findings
    ]


def _within(root: str, path: str) -> str:
    """A path below the root as the repository has it; any other one whole."""
    if path == STDIN:
        return path
    whole = os.path.abspath(path)
    inside = os.path.relpath(whole, root)
    return (whole if inside.split(os.sep, 1)[0] == os.pardir else inside).replace(os.sep, "/")


def _verdict(one: Examined) -> str:
    counts = _counted(one.errors, one.warnings)
    return ", ".join(counts if one.errors else [f"valid {one.kind}", *counts])


def _counted(errors: int, warnings: int) -> list[str]:
    numbers = ((errors, "error"), (warnings, "warning"))
    return [f"{count} {word}{'s' * (count > 1)}" for count, word in numbers if count]
