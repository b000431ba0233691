"""`adjourn fmt`."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from adjourn.aex import examine, formatted, render
from adjourn.cli.shared.context import example, for_machines, in_folder
from adjourn.cli.shared.documents import STDIN, named, read
from adjourn.cli.shared.output import (
    complain,
    finding_json,
    safe,
    safe_lines,
    say,
    say_finding,
    say_json,
    unified_diff,
)
from adjourn.cli.shared.terminal import print_diff
from adjourn.errors import InvalidError, RefusedError, UsageError
from adjourn.findings import Finding
from adjourn.host import write_file


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


@click.command(epilog=example("adjourn fmt .aex tasks", "adjourn fmt --check .", "adjourn fmt - < task.aex"))
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True, help="Write nothing; list the files that are not formatted.")
@click.option("--diff", is_flag=True, help="Write nothing; show the difference.")
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
    changing = [one for one in documents if one.differs]
    failed = [one for one in documents if one.after is None]
    dry = check or diff
    if not dry and files != (STDIN,):
        for one in changing:
            _write(one)
    if as_json:
        _print_json(documents, diff=diff)
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


def _write(one: Laid) -> None:
    """Replace the file whole, with the permissions that it has; not through a link, nor over what was written since."""
    assert one.after is not None
    status = os.lstat(one.path)
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError(
            f"{one.path} is a symbolic link; adjourn does not write through links", "name the file itself"
        )
    if read(one.path)[0] != one.before:
        raise RefusedError(f"{one.path} changed while the command ran", "run the command again")
    folder, name = os.path.split(one.path)
    write_file(folder or ".", name, one.after.encode(), stat.S_IMODE(status.st_mode))


def _print(documents: Sequence[Laid], *, dry: bool, diff: bool) -> None:
    changing = [one for one in documents if one.differs]
    of = f"{len(changing)} of {len(documents)} file{'s' * (len(documents) != 1)}"
    if all(one.after == one.before for one in documents):
        say(f"all formatted: {len(documents)} file{'s' * (len(documents) != 1)}", "green")
    elif dry:
        say(f"{of} not formatted", "red")
    else:
        say(f"{of} formatted", "green")
    for one in changing:
        say(f"  {safe(one.path)}")
    for one in changing if diff else ():
        _show(_difference(one), diff=True)


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


def _difference(one: Laid) -> str:
    before, after = one.before.split("\n"), (one.after or "").split("\n")
    shown = unified_diff(before, after, one.path, f"{one.path} (formatted)")
    return f"{shown}\n" if shown else ""


def _print_json(documents: Sequence[Laid], *, diff: bool) -> None:
    files: list[dict[str, Any]] = []
    for one in documents:
        told: dict[str, Any] = {"path": one.path, "differs": one.differs, "valid": one.after is not None}
        told["findings"] = [finding_json(finding) for finding in one.findings]
        if one.refusal:
            told["refusal"] = one.refusal
        if one.path == STDIN:
            told["text"] = one.after
        if diff:
            told["diff"] = _difference(one) if one.differs else ""
        files.append(told)
    say_json(differ=sum(one.differs for one in documents), files=files)


def _complain(failed: Sequence[Laid], *, as_json: bool) -> None:
    for one in failed if not as_json else ():
        sys.stdout.flush()
        for finding in one.findings:
            say_finding(render(finding, one.before), err=True)
        if one.refusal:
            complain(safe(one.refusal))
    if failed:
        names = ", ".join(safe(one.path) for one in failed[:3]) + (" and more" if len(failed) > 3 else "")
        complain(f"not formatted because of errors: {names}", "fix them; `adjourn check FILE` shows them")
