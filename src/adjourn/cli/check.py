"""`adjourn check`."""

from __future__ import annotations

from typing import Any

import click

from adjourn.cli.output import safe, say, say_json
from adjourn.cli.place import example, for_machines, in_folder


@click.command(epilog=example("adjourn check .aex/policy.aex tasks/*.aex"))
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@in_folder
@for_machines
def check(files: tuple[str, ...], *, as_json: bool) -> int:
    """Check contracts and policies; show every finding with its line and what to do.

    Exit code 1 when a file has an error. Warnings change no exit code.
    """
    from adjourn.aex.diagnostics import render  # noqa: PLC0415  # not for --help

    told, shown = [], []
    for path in files:
        one, text = _examined(path)
        told.append({key: value for key, value in one.items() if key != "found"})
        shown.append((one, text))
    valid = all(one["valid"] for one in told)
    if as_json:
        say_json({"valid": valid, "files": told})
        return 0 if valid else 1
    for one, text in shown:
        say(f"{safe(one['path'])}: {_verdict(one)}", "green" if one["valid"] else "red")
        for finding in one["found"]:
            say(render(finding, text))
    return 0 if valid else 1


def _examined(path: str) -> tuple[dict[str, Any], str]:
    from adjourn.aex.check import examine  # noqa: PLC0415
    from adjourn.aex.files import load  # noqa: PLC0415

    text, findings = load(path)
    kind, name = "", ""
    if text is not None:
        document = examine(text, path)
        findings = document.findings
        kind, name = ("policy" if document.is_policy else "task"), document.name
    return {
        "path": path,
        "kind": kind,
        "name": name,
        "valid": all(finding.severity != "error" for finding in findings),
        "findings": [as_told(finding) for finding in findings],
        "found": findings,
    }, text or ""


def as_told(finding: Any) -> dict[str, Any]:
    """A finding for machines."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "source": finding.source,
        "line": finding.span.line,
        "column": finding.span.column,
        "length": finding.span.length,
        "help": finding.help,
    }


def _verdict(one: dict[str, Any]) -> str:
    errors = sum(finding["severity"] == "error" for finding in one["findings"])
    warnings = len(one["findings"]) - errors
    counts = [
        f"{count} {word}{'s' * (count > 1)}"
        for count, word in ((errors, "error"), (warnings, "warning"))
        if count
    ]
    if one["valid"]:
        return f"valid {one['kind']}" + (f", {counts[0]}" if counts else "")
    return ", ".join(counts)
