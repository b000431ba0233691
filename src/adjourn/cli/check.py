"""`adjourn policy check`, `fmt`, `parse` and `compile`: what the files of contracts say, and what is wrong with them.

Also the findings about rules that name no known tool; no server is started for them.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import click
import msgspec
from msgspec.structs import replace

from adjourn import __version__
from adjourn.aex.check import examine
from adjourn.aex.diagnostics import render
from adjourn.aex.format import formatted
from adjourn.aex.json_policy import read_json_policy
from adjourn.aex.layers import discover
from adjourn.aex.match import NOTHING_KNOWN, KnownTools
from adjourn.aex.permissions import layer
from adjourn.aex.policy import Policy
from adjourn.aex.reports import github, sarif
from adjourn.cli.context import FILE_PATH, CommandContext, example, flag, for_machines, in_folder
from adjourn.cli.lookup import STDIN, named, read, refuse_errors
from adjourn.cli.output import complain, finding_json, safe, safe_lines, say, say_finding, say_json, unified_diff
from adjourn.cli.terminal import print_diff
from adjourn.errors import AdjournError, InvalidError, NotFoundError, RefusedError, UsageError
from adjourn.findings import Finding
from adjourn.host.finding import workspace_of
from adjourn.host.workspace import write_file


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
        "adjourn policy check", "adjourn policy check .aex/policy.aex tasks",
        "adjourn policy check . --format sarif > adjourn.sarif",
    )
)  # fmt: skip
@click.argument("files", nargs=-1, metavar="[FILE]...", type=FILE_PATH)
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "github", "sarif"]), metavar="FORMAT",
    help="Print text, json, github (workflow annotations) or sarif (SARIF 2.1.0).",
)  # fmt: skip
@in_folder
@for_machines
def check(files: tuple[str, ...], *, form: str | None, as_json: bool) -> int:
    """Check contracts and policies; report every finding with its line and a remedy.

    FILE is a file (a policy may be JSON), a folder (every .aex file below it, hidden folders other than .aex left out) or - for
    stdin. Without it: the policy of this workspace, and the contracts in tasks/ and .aex/.
    Exit code 1 when a file has an error. Warnings change no exit code.
    """
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json is --format json, and --format {form} is given; keep one of them")
    documents = [_examined(path) for path in (named(files) if files else _of_workspace())]
    _PRINTERS["json" if as_json else form or "text"](documents)
    return 1 if any(document.errors for document in documents) else 0


def _of_workspace() -> list[str]:
    """The policy of the workspace and its contracts, as paths from the current folder."""
    root = os.path.relpath(workspace_of().root)
    policy = discover(root)
    paths = [] if policy is None else [os.path.normpath(policy)]
    for folder in (os.path.normpath(os.path.join(root, name)) for name in ("tasks", ".aex")):
        with suppress(NotFoundError):
            paths += named([folder]) if os.path.isdir(folder) else []
    if not paths:
        raise NotFoundError("there is neither a policy nor a contract here", "write a policy: adjourn init")
    return list(dict.fromkeys(paths))


def _examined(path: str) -> Examined:
    if path.endswith(".json"):
        reading = read_json_policy(path, workspace_of().root)
        names = rule_findings(
            reading.policy, CommandContext()
        )  # which policy of JSON counts here is said when a client is started
        return Examined(path, "policy" if path in reading.texts else "", "", reading.texts, [*reading.findings, *names])
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
    policy = discover(workspace_of().root)
    return bool(policy) and path != STDIN and os.path.realpath(path) == os.path.realpath(policy or "")


def _print_text(documents: Sequence[Examined]) -> None:
    for document in documents:
        say(f"{safe(document.path)}: {_verdict(document)}", "red" if document.errors else "green")
        for finding in document.findings:
            say_finding(render(finding, document.texts.get(finding.source, "")))


def _print_json(documents: Sequence[Examined]) -> None:
    files = [
        {
            "path": document.path,
            "kind": document.kind,
            "name": document.name,
            "valid": not document.errors,
            "findings": [finding_json(finding) for finding in document.findings],
        }
        for document in documents
    ]
    say_json(valid=not any(document.errors for document in documents), files=files)


def _print_github(documents: Sequence[Examined]) -> None:
    counts = _counted(sum(document.errors for document in documents), sum(document.warnings for document in documents))
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
        for document in documents
        for finding in document.findings
    ]


def _within(root: str, path: str) -> str:
    """A path below the root as the repository has it; any other one whole."""
    if path == STDIN:
        return path
    full = os.path.abspath(path)
    inside = os.path.relpath(full, root)
    return (full if inside.split(os.sep, 1)[0] == os.pardir else inside).replace(os.sep, "/")


def _verdict(document: Examined) -> str:
    counts = _counted(document.errors, document.warnings)
    return ", ".join(counts if document.errors else [f"valid {document.kind}", *counts])


def _counted(errors: int, warnings: int) -> list[str]:
    numbers = ((errors, "error"), (warnings, "warning"))
    return [f"{count} {word}{'s' * (count > 1)}" for count, word in numbers if count]


# --- rules that name no known tool


def known_here(context: CommandContext) -> KnownTools:
    """The tools that the servers of the workspace have listed; none without a store that can be read."""
    from adjourn.clients.served_tools import known_tools

    try:
        store = context.store_or_none()
        return NOTHING_KNOWN if store is None else known_tools(store)
    except AdjournError:
        return NOTHING_KNOWN


def rule_findings(policy: Policy, context: CommandContext) -> list[Finding]:
    """The findings about the rules of a policy that name no known tool."""
    from adjourn.aex.rule_names import unmatched_rules
    from adjourn.setup.checks import listed_servers
    from adjourn.setup.places import home

    tools = known_here(context)
    listed = listed_servers(os.path.realpath(context.root), home(os.environ))
    is_complete = bool(listed) and listed <= tools.servers.keys()
    return unmatched_rules(policy, tools, listed=listed, is_complete=is_complete)


# --- `adjourn policy fmt`


class Laid(NamedTuple):
    """A document before and after. `after` is None where it could not be formatted; the findings or `refusal` say why."""

    path: str
    before: str
    after: str | None
    findings: Sequence[Finding] = ()
    refusal: str = ""

    @property
    def differs(self) -> bool:
        """Whether formatting would change the text."""
        return self.after is not None and self.after != self.before


@click.command(
    epilog=example("adjourn policy fmt .aex tasks", "adjourn policy fmt --check .", "adjourn policy fmt - < task.aex")
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=FILE_PATH)
@flag("--check", "Write nothing; list the files that are not formatted.")
@flag("--diff", "Write nothing; show the difference.")
@in_folder
@for_machines
def fmt(files: tuple[str, ...], *, check: bool, diff: bool, as_json: bool) -> int:
    """Format contracts and policies; keep comments and meaning.

    FILE is a file, a folder (every .aex file below it, hidden folders other than .aex left out) or - for stdin, which
    is printed. Exit code 1 when a file has an error, which leaves it as it is; with --check and --diff also when one
    differs.
    """
    if STDIN in files and len(files) > 1:
        raise UsageError("- stands for stdin and cannot be named with files", "run it once for each")
    documents = [_laid(path) for path in named(files)]
    changing = [document for document in documents if document.differs]
    failed = [document for document in documents if document.after is None]
    dry = check or diff
    if not dry and files != (STDIN,):
        for document in changing:
            _write(document)
    if as_json:
        _fmt_print_json(documents, diff=diff)
    elif not dry and files == (STDIN,):
        _show(documents[0].after or "")
    else:
        _print(documents, dry=dry, diff=diff)
    _complain(failed, as_json=as_json)
    return 1 if failed or (dry and changing) else 0


def _laid(path: str) -> Laid:
    text, findings = read(path)
    if text is None:
        return Laid(path, "", None, findings)
    document = examine(text, path)
    errors = [finding for finding in document.findings if finding.severity == "error"]
    if errors:
        return Laid(path, text, None, errors)
    try:
        return Laid(path, text, formatted(document))
    except InvalidError as error:
        return Laid(path, text, None, (), str(error))


def _write(document: Laid) -> None:
    """Replace the file whole, with the permissions that it has; not through a link, nor over what was written since."""
    assert document.after is not None
    status = os.lstat(document.path)
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError(
            f"{document.path} is a symbolic link; adjourn does not write through links", "name the file itself"
        )
    if read(document.path)[0] != document.before:
        raise RefusedError(f"{document.path} changed while the command ran", "run the command again")
    folder, name = os.path.split(document.path)
    write_file(folder or ".", name, document.after.encode(), stat.S_IMODE(status.st_mode))


def _print(documents: Sequence[Laid], *, dry: bool, diff: bool) -> None:
    changing = [document for document in documents if document.differs]
    of = f"{len(changing)} of {len(documents)} file{'s' * (len(documents) != 1)}"
    if all(document.after == document.before for document in documents):
        say(f"all formatted: {len(documents)} file{'s' * (len(documents) != 1)}", "green")
    elif dry:
        say(f"{of} not formatted", "red")
    else:
        say(f"{of} formatted", "green")
    for document in changing:
        say(f"  {safe(document.path)}")
    for document in changing if diff else ():
        _show(_difference(document), diff=True)


def _show(text: str, *, diff: bool = False) -> None:
    """A text of others: byte for byte into a file or pipe, without what a terminal would obey on a terminal."""
    sys.stdout.flush()
    if sys.stdout.isatty() and diff:
        print_diff(safe_lines(text.removesuffix("\n")))
        return
    if sys.stdout.isatty():
        text = safe_lines(text)
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def _difference(document: Laid) -> str:
    before, after = document.before.split("\n"), (document.after or "").split("\n")
    diff = unified_diff(before, after, document.path, f"{document.path} (formatted)")
    return f"{diff}\n" if diff else ""


def _fmt_print_json(documents: Sequence[Laid], *, diff: bool) -> None:
    files: list[dict[str, Any]] = []
    for document in documents:
        row: dict[str, Any] = {"path": document.path, "differs": document.differs, "valid": document.after is not None}
        row["findings"] = [finding_json(finding) for finding in document.findings]
        if document.refusal:
            row["refusal"] = document.refusal
        if document.path == STDIN:
            row["text"] = document.after
        if diff:
            row["diff"] = _difference(document) if document.differs else ""
        files.append(row)
    say_json(differ=sum(document.differs for document in documents), files=files)


def _complain(failed: Sequence[Laid], *, as_json: bool) -> None:
    for document in failed if not as_json else ():
        sys.stdout.flush()
        for finding in document.findings:
            say_finding(render(finding, document.before), err=True)
        if document.refusal:
            complain(safe(document.refusal))
    if failed:
        names = ", ".join(safe(document.path) for document in failed[:3]) + (" and more" if len(failed) > 3 else "")
        complain(f"not formatted because of errors: {names}", "fix them; `adjourn policy check FILE` shows them")


# --- `adjourn policy parse`


@click.command(
    "parse",
    epilog=example("adjourn policy parse tasks/fix-test.aex", "adjourn policy parse --tolerant half-written.aex"),
)
@click.argument("file", metavar="FILE", type=FILE_PATH)
@flag("--tolerant", "Print the part of a text with errors that could be parsed.")
@in_folder
def parse_(file: str, *, tolerant: bool) -> None:
    """Print the syntax tree of a contract or policy as JSON.

    FILE is a file, or - for stdin. Findings of the parser go to stderr; an error among them is exit code 1, unless
    --tolerant is given. The meaning is not checked: use `adjourn policy check`.
    """
    from adjourn.aex.parser import parse
    from adjourn.aex.shape import model

    text, findings = read(file)
    refuse_errors(file, text, findings)
    document = parse(text or "", file)
    if not tolerant:
        refuse_errors(file, text, document.findings)
    for finding in document.findings:
        say_finding(render(finding, text or ""), err=True)
    say_json(msgspec.to_builtins(model(document)))


# --- `adjourn policy compile`


@click.command(name="compile", epilog=example("adjourn policy compile tasks/fix-test.aex > fix-test.json"))
@click.argument("file", metavar="FILE", type=FILE_PATH)
@in_folder
def compile_(file: str) -> None:
    """Print the intermediate representation of a contract or policy: JSON, described by spec/aex-ir.schema.json.

    FILE is a file, or - for stdin. A text with an error is not compiled: its findings go to stderr, exit code 1.
    """
    from adjourn.aex.ir import compiled

    text, findings = read(file)
    refuse_errors(file, text, findings)
    document = examine(text or "", file)
    refuse_errors(file, text, document.findings)
    say_json(msgspec.to_builtins(compiled(document)))
