"""`adjourn doctor`: the checks, each a function that yields what it finds."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import click

from adjourn import __version__
from adjourn.checkpoints import rollback
from adjourn.cli import annexes, doctor_tries, task_view
from adjourn.cli.context import CommandContext, at_store, example, flag, for_machines
from adjourn.cli.doctor_tries import problem
from adjourn.cli.output import finding_json, safe, say, say_finding, say_json
from adjourn.errors import AdjournError
from adjourn.findings import Finding
from adjourn.handover.inbox import waiting_in_record
from adjourn.host import keys
from adjourn.host.executables import strays
from adjourn.host.git import GitCommand, distrusting
from adjourn.host.keys import reading_secret
from adjourn.log.kinds import tool_name
from adjourn.policy.contract import BrokenContractError, read_contract
from adjourn.setup.checks import findings, needing_policy
from adjourn.setup.places import home
from adjourn.store.base import EMPTY, LATEST, Store
from adjourn.tasks.accepted_loss import covering
from adjourn.tasks.heads import KeptHeads
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.work_index import is_complete, places, waiting_heads

_GIT_SECONDS = 5
_OLDEST_PYTHON = (3, 11)


@click.command(epilog=example("adjourn doctor"))
@flag("--yes, -y", "Start the registered servers without asking.")
@flag("--fix", "Fix problems that need no decision; print each fix.")
@at_store
@for_machines
def doctor(context: CommandContext, *, yes: bool, fix: bool, as_json: bool) -> int:
    """Diagnose this workspace: its servers, hooks, rules, store and your keys; report each problem with its remedy.

    Starts each registered server as its client would, behind the proxy or directly, and lists its tools; calls none. It asks before,
    unless --yes is given, and starts none where there is no terminal to ask on. --fix adds the lines that git has to ignore, closes
    your keys to others, marks sessions that have ended as lost, and corrects the path of an adjourn that was moved.

    Exit code 1 when there is an error: something that stops work. Warnings change no exit code.
    """
    findings: list[Finding] = []
    checks = []
    fixed = list(doctor_tries.fix(context)) if fix else []
    servers = partial(doctor_tries.servers, yes=yes, as_json=as_json)
    added = {name: annexes.load("adjourn.findings", name) for name in annexes.names("adjourn.findings")}
    looks: dict[str, Callable[[CommandContext], Iterator[Finding]]] = {**CHECKS, "servers": servers, **added}
    for name, look in looks.items():
        found = list(look(context))
        findings += found
        checks.append(
            {"check": name, "ok": not any(finding.severity == "error" for finding in found), "findings": len(found)}
        )
    errors = sum(finding.severity == "error" for finding in findings)
    clients = doctor_tries.clients(context)
    if as_json:
        findings_json = [finding_json(finding) for finding in findings]
        say_json(
            healthy=not errors,
            checks=checks,
            findings=findings_json,
            clients=clients,
            **({"fixed": fixed} if fix else {}),
        )
        return 1 if errors else 0
    for line in fixed:
        say(f"fixed: {safe(line)}", "green")
    warnings = len(findings) - errors
    if not findings:
        say(f"no problems found: {', '.join(looks)}", "green")
    else:
        say(
            f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}",
            "red" if errors else "yellow",
        )
    for finding in findings:
        where = (
            f" · {safe(finding.source)}" + (f":{finding.span.line}" if finding.span.line else "")
            if finding.source
            else ""
        )
        say_finding(f"{finding.severity} {finding.code}{where} · {safe(finding.message)}\n  help: {safe(finding.help)}")
    if servers_listed := doctor_tries.listed_servers(context):
        say(f"servers: {safe(', '.join(servers_listed))}")
    if clients:
        versions = ", ".join(f"{name} {version or '(version unknown)'}" for name, version in clients.items())
        say(f"clients: {safe(versions)}; adjourn {__version__}")
    return 1 if errors else 0


def _workspace(context: CommandContext) -> Iterator[Finding]:
    for reason in context.workspace.skipped:
        yield problem("workspace-skipped", reason, "make it yours, or remove it", "warning")
    try:
        if rollback.interrupted(context.tree):
            yield problem("rollback", "a rollback was interrupted", "finish it: adjourn rollback --yes")
    except AdjournError as error:
        yield problem("rollback", error.message, error.remedy, "warning")


def _python(context: CommandContext) -> Iterator[Finding]:
    for name, entry in strays(os.environ, context.root):
        yield problem(
            "code-from-here", f"{name} has the entry {entry!r}: programs load code from the folder that they are started in",
            f"remove it from {name}, or use the absolute path of a folder outside the workspace", "warning",
        )  # fmt: skip
    if sys.version_info < _OLDEST_PYTHON:
        yield problem("python", f"Python {sys.version.split()[0]} is too old", "install Python 3.11 or newer")


def _store(context: CommandContext) -> Iterator[Finding]:
    try:
        store = context.store_or_none()
        if store is None:
            yield problem(
                "no-store", "there is no store yet", "start a session behind `adjourn proxy` to create it", "warning"
            )
            return
        is_complete(store)  # reads one ref
    except AdjournError as error:
        yield problem("store", error.message, error.remedy)
        return
    if getattr(store, "writable", True) is False:
        yield problem("store-read-only", "the store is read-only", "make the file and its folder writable", "warning")
    if getattr(store, "schema", latest := LATEST["postgres"]) < latest:
        yield problem(
            "store-schema",
            f"the store has an older schema than this adjourn writes (below {latest})",
            "update adjourn wherever the store is used, then: adjourn store migrate",
            "warning",
        )


def _keys(context: CommandContext) -> Iterator[Finding]:
    folder = keys.folder()
    try:
        keys.check_outside(context.root)
    except AdjournError as error:
        yield problem("keys-in-workspace", error.message, error.remedy)
    if not os.path.isdir(folder):
        yield from _can_make(folder)
        return
    for name in ("", "default.key", "secret", "trusted"):
        path = os.path.join(folder, name).rstrip("/")
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
        except FileNotFoundError:
            continue
        except OSError as error:
            yield problem("keys", f"{path}: {error.strerror}", "make yourself its owner: chown, then chmod u+rw")
            continue
        open_to_all = mode & 0o022 if name in ("", "trusted") else mode & 0o077
        if open_to_all:
            wanted = "700" if name in ("", "trusted") else "600"
            yield problem("keys-open", f"others may use {path} (mode {mode:o})", f"chmod {wanted} {path}")
    try:
        keys.trusted()
    except AdjournError as error:
        yield problem("keys", error.message, error.remedy)


def _can_make(folder: str) -> Iterator[Finding]:
    above = folder
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if not os.access(above, os.W_OK):
        yield problem(
            "keys-unwritable", f"cannot create a key in {folder}: {above} is not writable",
            "make it writable, or set ADJOURN_CONFIG to a folder that is",
        )  # fmt: skip


def _policy(context: CommandContext) -> Iterator[Finding]:
    try:
        yield from read_contract(context.root).findings
    except BrokenContractError as error:
        if [finding.code for finding in error.findings] == ["AEX135"]:
            stopped = needing_policy(context.root)
            named = f" (here: {', '.join(stopped)})" if stopped else ""
            yield problem(
                "no-policy",
                f"there is no policy {context.workspace.searched()}: no proxy starts, and hooks refuse every call{named}",
                "write one: adjourn init --policy",
                "error" if stopped else "warning",
            )
        else:
            yield from error.findings


def _untried(context: CommandContext) -> Iterator[Finding]:
    """The place of the servers among the checks: before the rules, which are compared with the tools that they list."""
    del context
    yield from ()


def _rules(context: CommandContext) -> Iterator[Finding]:
    from adjourn.cli.check import rule_findings

    with suppress(AdjournError):  # `_policy` has said it
        yield from rule_findings(read_contract(context.root).policy, context)


def _git(context: CommandContext) -> Iterator[Finding]:
    if _run_git(context.root, "rev-parse", "--is-inside-work-tree") != 0:
        return
    for path in (".aex/adjourn.db", ".aex/adjourn.db-wal"):
        if _run_git(context.root, "ls-files", "--error-unmatch", path) == 0:
            yield problem(
                "store-tracked",
                f"git tracks {path}",
                f"git rm --cached {path}; commit checkpoints instead",
                source=path,
            )
        elif (
            os.path.exists(os.path.join(context.root, path)) and _run_git(context.root, "check-ignore", "-q", path) == 1
        ):
            yield problem(
                "store-not-ignored", f"git does not ignore {path}", "add the line `.aex/adjourn.db*` to .gitignore",
                "warning", path,
            )  # fmt: skip
            break  # one line ignores both
    for path in (".aex/policy.aex", ".aex/checkpoints"):
        there = os.path.exists(os.path.join(context.root, path))
        if there and _run_git(context.root, "check-ignore", "-q", path) == 0:
            yield problem(
                "ignored", f"git ignores {path}, so it is not shared with others",
                "ignore only `.aex/adjourn.db*`", "warning", path,
            )  # fmt: skip


def _run_git(root: str, *arguments: str) -> int:
    """Exit code of git; -1 when there is no git or no repository, or it takes too long. Runs nothing that the repository names."""

    def run(command: GitCommand, words: Sequence[str]) -> tuple[int, bytes]:
        done = subprocess.run(
            [*command.words, *words],
            env=command.environment,
            cwd=root,
            check=False,
            capture_output=True,
            timeout=_GIT_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode, done.stdout

    try:
        return run(distrusting(root, run, files=False), arguments)[0]
    except (AdjournError, OSError, subprocess.TimeoutExpired):
        return -1


def _clients(context: CommandContext) -> Iterator[Finding]:
    root = os.path.realpath(context.root)
    yield from findings(root, home(os.environ), context.workspace.start)


def _tasks(context: CommandContext) -> Iterator[Finding]:
    try:
        if context.store_or_none() is None:
            return
        tasks = list(task_view.each_task(context, _checked(context.store)))
        yield from _missing(context)
    except AdjournError:
        return  # `_store` has said it
    for name, task in tasks:
        if isinstance(task, AdjournError):
            yield problem("task-unreadable", f"task {name}: {task.message}", "find the first bad event: adjourn verify")
            continue
        try:
            task.check_history()
        except AdjournError as error:
            yield problem(
                "task-changed", error.message, "restore a backup or `adjourn checkpoint import` its newest folder"
            )
            continue
        ledger = task.ledger
        sessions = task_view.holders(context, ledger)
        for holder in sessions:
            if not holder.alive and holder.session.pid:  # the sessions of hooks never close
                state = "its process has exited" if holder.alive is False else "its lease has expired"
                yield problem(
                    "stale-session", f"task {name}: session {holder.session.id} of {task_view.who(holder.session)} has not closed; {state}",
                    "nothing to do: the next session on the task marks it as lost", "warning",
                )  # fmt: skip
        yield from _waiting(context, name, ledger, sessions)


def _waiting(context: CommandContext, name: str, ledger: Ledger, sessions: list[task_view.Holder]) -> Iterator[Finding]:
    """What waits for a person in a task."""
    for call in task_view.doubts(ledger, sessions):
        yield problem(
            "in-doubt", f"task {name}: call {call.call} ({call.tool}) is in doubt: it may have had its effect",
            f"check its effect, then: adjourn settle {call.call} --done   (or --not-done)", "warning",
        )  # fmt: skip
    for question in task_view.questions(ledger, context.now):
        yield problem(
            "waiting", f"task {name}: {tool_name(question)} waits for an answer",
            f"adjourn approve {question.id}   (or deny)", "warning",
        )  # fmt: skip
    try:
        noted = waiting_in_record(context.store, ledger, context.now)
    except AdjournError as error:
        yield problem(
            "record-unreadable", f"the record of task {name}: {error.message}", "find the first bad event: adjourn verify"
        )  # fmt: skip
        return
    if noted:
        yield problem(
            "waiting-in-record", f"task {name}: {len(noted)} waiting in its record, first {noted[0].kind} {noted[0].id}",
            "adjourn inbox", "warning",
        )  # fmt: skip


def _checked(store: Store) -> list[str]:
    """The first tasks of each space, and all in which something may wait; `adjourn verify` checks the others, too."""
    waiting = [name for name in waiting_heads(store, "") if "/" not in name]
    return sorted({*waiting, *(place.task for place in places(store, doctor_tries.NEWEST_OF))})


def _missing(context: CommandContext) -> Iterator[Finding]:
    """Tasks that this user's sessions used in this store, and that it no longer has."""
    for head in KeptHeads(context.store, reading_secret()).known():
        if context.store.head(head.task) == EMPTY and covering(context.store, head) is None:
            yield problem(
                "task-missing", f"task {head.task} is missing from the store: it had {head.seq + 1} events, {head.calls} calls used",
                "restore a backup or `adjourn checkpoint import` its folder, else: adjourn verify --accept",
            )  # fmt: skip


CHECKS: dict[str, Callable[[CommandContext], Iterator[Finding]]] = {
    "workspace": _workspace,
    "python": _python,
    "program": doctor_tries.program,
    "store": _store,
    "keys": _keys,
    "policy": _policy,
    "servers": _untried,
    "rules": _rules,
    "git": _git,
    "clients": _clients,
    "hooks": doctor_tries.hooks,
    "tasks": _tasks,
    "refusals": doctor_tries.refusals,
}
