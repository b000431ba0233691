"""`adjourn page`, `adjourn checkpoint write` and `rules`: the page of a checkpoint, to be read, corrected, checked, and written by hand."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from adjourn.aex.diagnostics import render
from adjourn.checkpoints import environment, page_files
from adjourn.checkpoints.page import MAX_PAGE_BYTES, NO_REPORT, AgentReport, report_of
from adjourn.checkpoints.page_writer import edit_page
from adjourn.checkpoints.parser import parse
from adjourn.checkpoints.save import CheckpointRequest, save_checkpoint, task_checkpoint_name
from adjourn.cli.context import (
    FILE_PATH,
    TASK_NAME,
    CommandContext,
    at_store,
    example,
    for_machines,
    in_folder,
    text_option,
    user,
)
from adjourn.cli.output import complain, finding_json, safe, safe_lines, say, say_finding, say_json, say_table
from adjourn.errors import AdjournError, ConflictError, InvalidError, NotFoundError, UsageError
from adjourn.host.clock import now
from adjourn.host.executables import find
from adjourn.host.finding import workspace_of
from adjourn.host.workspace import create_file, read_file
from adjourn.log.canonical_json import digest
from adjourn.log.event import timestamp
from adjourn.policy.destructive import COMMANDS, FILE, TOOLS, read_settings
from adjourn.tasks.task import tasks_of
from adjourn.text.times import span

if TYPE_CHECKING:
    from adjourn.checkpoints.page_files import FoundPage


@click.command(epilog=example("adjourn page", "adjourn page list --json"))
@in_folder
@for_machines
def pages(*, as_json: bool) -> None:
    """List the checkpoint pages: Markdown files in tmp/ that describe the state of the work for the next session.

    What you change on the active page counts: the next session reads it, and the next page keeps it.
    """
    _list(page_files.search(workspace_of().tree), now(), as_json=as_json)


@click.command(epilog=example("adjourn checkpoint write -m 'Tests first'", "adjourn checkpoint write --from page.md"))
@click.argument("task", default="", type=TASK_NAME)
@text_option("--name NAME", "The checkpoint's name (default: the task's id).")
@text_option("-m, --message TEXT", "What was done, and what the next session does first.")
@text_option(
    "--from FILE", "Read the report from FILE: a page, or JSON with its members; - is standard input.", dest="source"
)
@at_store
@for_machines
def write(context: CommandContext, task: str, *, name: str, message: str, source: str, as_json: bool) -> None:
    """Save a checkpoint of TASK as it is now: in the store, as a folder, and as the active page.

    TASK is an id or a beginning of it; without it, the task of the active page, or the only one there is.
    """
    report = _said(source) if source else NO_REPORT
    if message and report.resumption_point is msgspec.UNSET:
        report = msgspec.structs.replace(report, resumption_point=message)
    opened = context.writable(task or task_here(context))
    saved = save_checkpoint(
        opened,
        context.root,
        CheckpointRequest(
            name or task_checkpoint_name(opened.id), description=message, said=report, trigger="person", by=user()
        ),
        tree=context.tree,
    )
    if as_json:
        point = saved.checkpoint
        say_json(
            name=point.data.name,
            task=opened.id,
            seq=point.event.seq,
            hash=point.hash,
            folder=saved.folder,
            page=saved.page,
            notes=saved.notes,
        )
    else:
        say(f"written: {saved.page or saved.folder} ({saved.checkpoint.event.seq + 1} events of task {opened.id})")
    for note in saved.notes:
        complain(safe(note))


def task_here(context: CommandContext) -> str:
    """The current task: that of the newest page, else the only one of the store."""
    tasks = tasks_of(context.store)
    active = page_files.find_active(context.tree)
    if active is not None and active.task in tasks:
        return active.task
    if len(tasks) == 1:
        return next(iter(tasks))
    raise UsageError(f"choose one of {len(tasks)} tasks", "name it; list them with `adjourn tasks`")


def _said(source: str) -> AgentReport:
    data = (
        sys.stdin.buffer.read(MAX_PAGE_BYTES + 1)
        if source == "-"
        else read_file(source, MAX_PAGE_BYTES, workspace_of().root)
    )
    if data.lstrip()[:1] == b"{":
        try:
            return msgspec.json.decode(data, type=AgentReport)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidError(f"{source}: {error}", "see the members: adjourn page show --json") from error
    reading = parse(data, source)
    if reading.page is None:
        raise InvalidError(f"{source} is not a page", f"list its errors: adjourn page lint {shlex.quote(source)}")
    return report_of(reading.page)


@click.command(epilog=example("adjourn page show", "adjourn page show fix-auth --json"))
@click.argument("page", default="", type=FILE_PATH)
@in_folder
@for_machines
def show(page: str, *, as_json: bool) -> None:
    """Show a page, its age, and whether it was edited. Exit code 1 if no page can be read."""
    root = workspace_of().tree
    search = page_files.search(root)
    chosen = _chosen(root, search, page)
    if as_json:
        say_json(_to_json(chosen, now(), with_page=True))
    else:
        say(f"{safe(chosen.path)}: {summary(chosen, now())}")
        say(safe_lines(chosen.text.rstrip("\n")))
    _warn(search, chosen, now(), named=bool(page))
    machine = chosen.machine
    for note in [
        *environment.file_changes(root, machine.get("artifacts")),
        *environment.commit_change(root, machine.get("commit")),
    ]:
        complain(safe(note), "review them before you rely on the page")


def _chosen(root: str, search: page_files.Search, page: str) -> FoundPage:
    if page.endswith(".md"):
        path = os.path.abspath(page) if os.path.lexists(page) else page
        return page_files.read(root, page_files.check_inside(root, path))
    named = [each for each in search.pages if not page or each.machine.get("name") == page]
    if not named:
        for path, reason in search.broken:
            complain(f"{safe(path)} cannot be read: {safe(reason)}")
        what = f'no page of a checkpoint "{page}"' if page else "there is no page that can be read"
        raise NotFoundError(what, "write one now: adjourn checkpoint write")
    return named[0]


def _warn(search: page_files.Search, chosen: FoundPage, now: int, *, named: bool) -> None:
    if not named:
        for path, reason in search.broken:
            complain(
                f"{safe(path)} cannot be read: {safe(reason)}",
                f"{safe(chosen.path)} is the newest that can be read; list every finding: adjourn page lint",
            )
    if chosen.reading.edited:
        complain(
            f"{safe(chosen.path)} was edited since it was written",
            "nothing to do: the next session receives the edited text",
        )
    if page_files.is_stale(chosen, now):
        complain(
            f"{safe(chosen.path)} is older than 24 hours",
            "check files and services before you continue: they may have changed",
        )


def summary(file: FoundPage, now: int) -> str:
    """`4 of 7 done, next: Remediation recommendations; 3 h ago`."""
    page = file.page
    done = sum(item.status == "done" for item in page.progress)
    following = f", next: {safe(page.next_step.text)}" if page.next_step else ""
    return f"{done} of {len(page.progress)} done{following}; {span(max(0, now - file.at) // 1000)} ago"


def _to_json(file: FoundPage, now: int, *, with_page: bool = False) -> dict[str, Any]:
    members = {
        "path": file.path,
        "id": file.id,
        "task": file.task,
        "timestamp": timestamp(file.at),
        "active": file.is_active,
        "edited": file.reading.edited,
        "stale": page_files.is_stale(file, now),
    }
    return members | ({"page": msgspec.to_builtins(file.page)} if with_page else {})


def _list(search: page_files.Search, now: int, *, as_json: bool) -> None:
    if as_json:
        broken = [{"path": path, "reason": reason} for path, reason in search.broken]
        say_json(pages=[_to_json(page, now) for page in search.pages], broken=broken)
        return
    if search.pages:
        rows = [(page.path, str(page.machine.get("trigger", "")), summary(page, now)) for page in search.pages]
        say_table(("PAGE", "TRIGGER", "STATE"), rows)
    else:
        say("no pages yet")
    for path, reason in search.broken:
        complain(f"{safe(path)} cannot be read: {safe(reason)}")


@click.command(epilog=example("adjourn page edit"))
@click.argument("page", default="", type=FILE_PATH)
@in_folder
def edit(page: str) -> int:
    """Edit a page in $VISUAL or $EDITOR, and save it if it can still be read.

    A text that cannot be read is kept in a separate file; its name is printed, and the exit code is 1.
    """
    root = workspace_of().tree
    chosen = _chosen(root, page_files.search(root), page)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not editor:
        raise UsageError("neither VISUAL nor EDITOR is set", f"set one, or edit {chosen.path} directly")
    folder, name = os.path.split(os.path.join(root, chosen.path))
    copies = page_files.numbered(f".{name.removesuffix('.md')}.edit")  # the first may hold what was written before
    copy = next(free for free in copies if create_file(folder, free, chosen.text.encode()))
    path = os.path.join(folder, copy)
    named, *options = shlex.split(editor)
    program = find(named, root)
    if program is None:
        raise UsageError(f"{named} is not on PATH outside of {root}", "set VISUAL to the path of a program")
    if subprocess.run([program, *options, path], check=False).returncode:
        raise AdjournError(f"{editor} failed", f"your text is in {os.path.relpath(path, root)}")
    data = read_file(path, MAX_PAGE_BYTES, root)
    if data == chosen.text.encode():
        os.unlink(path)
        say(f"{chosen.path}: unchanged")
        return 0
    copy_path = os.path.relpath(path, root)
    try:
        reading = edit_page(root, chosen.path, data, was=digest(chosen.text.encode()))
    except ConflictError as error:
        raise ConflictError(error.message, f"your text is in {copy_path}") from error
    if reading.page is None:
        _print_findings(chosen.path, data, list(reading.findings))
        complain(f"{chosen.path} was not changed", f"fix {copy_path}, and copy it there")
        return 1
    os.unlink(path)
    say(f"{chosen.path}: changed; the next session receives the new text")
    return 0


@click.command(epilog=example("adjourn page lint", "adjourn page lint page.md --json"))
@click.argument("paths", nargs=-1, metavar="[FILE]...", type=FILE_PATH)
@in_folder
@for_machines
def lint(paths: tuple[str, ...], *, as_json: bool) -> int:
    """Check pages, by default all in tmp/, with every finding. Exit code 1 when one cannot be read as a page."""
    results, failed = [], False
    root = workspace_of().tree
    for path in paths or page_files.names_of_pages(root):
        data = read_file(path if paths else os.path.join(root, path), MAX_PAGE_BYTES, root)
        reading = parse(data, path)
        failed = failed or reading.page is None
        findings = list(reading.findings)
        results.append(
            {
                "path": path,
                "valid": reading.page is not None,
                "findings": [finding_json(finding) for finding in findings],
            }
        )
        if not as_json:
            _print_findings(path, data, findings)
    if as_json:
        say_json(valid=not failed, pages=results)
    elif not results:
        say("no pages yet")
    return 1 if failed else 0


def _print_findings(path: str, data: bytes, findings: list[Any]) -> None:
    errors = sum(finding.severity == "error" for finding in findings)
    say(f"{safe(path)}: {f'{errors} errors' if errors else 'valid'}", "red" if errors else "green")
    for finding in findings:
        say_finding(render(finding, data.decode(errors="replace")))


@click.command(epilog=example("adjourn checkpoint rules"))
@in_folder
@for_machines
def rules(*, as_json: bool) -> None:
    """List the rules for destructive calls. A checkpoint is saved before such a call."""
    settings = read_settings(workspace_of().root)
    off = set(settings.off)
    listed = [
        {"label": rule.label, "on": rule.label not in off, "pattern": " … ".join(rule.parts), "example": rule.example}
        for rule in COMMANDS
    ]
    listed += [{"label": rule.label, "on": True, "pattern": rule.command, "example": FILE} for rule in settings.rules]
    tools = sorted(TOOLS - off)
    if as_json:
        say_json(commands=listed, toolWords=tools)
        return
    rows = [(str(row["label"]), "on" if row["on"] else "off", str(row["example"])) for row in listed]
    say_table(("RULE", "STATE", "SUCH AS"), rows)
    say(f"also tools that are marked as destructive, or have a name that contains: {', '.join(tools)}")
