"""`adjourn verify` and `adjourn policy sign`: histories, checkpoints and contracts, and the signatures on them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
import msgspec

from adjourn.aex.seal import MAX_SEAL_BYTES, Seal
from adjourn.cli.context import (
    FILE_PATH,
    CommandContext,
    at_store,
    example,
    flag,
    for_machines,
    in_folder,
    speak,
    text_option,
    time_of,
    user,
)
from adjourn.cli.lookup import check_plain, text_of
from adjourn.cli.output import complain, safe, say, say_finding, say_json
from adjourn.cli.terminal import ProgressLine, Spinner
from adjourn.errors import InvalidError, NotFoundError, RefusedError, UsageError
from adjourn.host.clock import now
from adjourn.host.finding import workspace_of
from adjourn.host.keys import reading_secret
from adjourn.host.workspace import read_file
from adjourn.log.event import timestamp
from adjourn.policy import signatures
from adjourn.policy.signatures import read_secret
from adjourn.tasks.task import tasks_of
from adjourn.text.near_words import did_you_mean

if TYPE_CHECKING:
    from adjourn.aex.seal import PublishedSeal
    from adjourn.verification.report import Located, VerificationReport


_F = TypeVar("_F", bound=Callable[..., Any])
_COVERS = ("text", "signer", "time")


def with_secret(function: _F) -> _F:
    """Adds --key and --key-file."""
    key = text_option(
        "--key SECRET", "Shared secret. Other users of this machine can see it on the command line.", default=None
    )
    key_file = text_option("--key-file FILE", "File that contains the shared secret.", default=None)
    return key(key_file(function))


def secret_of(key: str | None, key_file: str | None) -> bytes | None:
    """The shared secret that was given, if one was. An empty one, of a variable that is not set, must not pass for none."""
    if key is not None and key_file is not None:
        raise UsageError("--key and --key-file are both given", "give only one of them")
    if key == "" or key_file == "":
        raise UsageError("the secret is empty", "leave out --key and --key-file to sign with your own key")
    if key is not None:
        return key.encode(errors="surrogateescape")
    if key_file is None:
        return None

    return read_secret(key_file, workspace_of().root)


class SignatureQuery(NamedTuple):
    """What `adjourn verify FILE` was asked."""

    file: str
    signature: str
    signer: str
    secret: bytes | None


def verify_signature(query: SignatureQuery, *, as_json: bool) -> int:
    """Check the signature of a contract, say what it is worth; returns the exit code."""
    text = text_of(query.file).encode()
    path = query.signature or signatures.place(query.file)
    try:
        held = signatures.verify(
            text, read_file(path, MAX_SEAL_BYTES, workspace_of().root), secret=query.secret, signer=query.signer
        )
    except (InvalidError, NotFoundError) as error:
        remedy = error.remedy or f"sign it: adjourn policy sign {query.file}"
        if as_json:
            say_json(_signatures_to_json(query.file, path, reason=error.message, help=remedy))
        else:
            say(f"INVALID: {safe(query.file)}: {safe(error.message)}", "red")
            say(f"  help: {safe(remedy)}")
        return 1
    if as_json:
        covers = _COVERS[:1] if held.only_text else _COVERS
        document = _signatures_to_json(
            query.file, path, covers=covers, trustedAs=held.names, signature=members(held.seal)
        )
        say_json(document)
        return 0
    trusted = f", trusted as {safe(' and '.join(held.names))}" if held.names else ""
    signer = f"{safe(held.seal.signer)} at {safe(held.seal.signed_at)}"
    say(f"valid: {safe(query.file)}, signed by {signer} with {what_signed(held.seal)}{trusted}", "green")
    if held.only_text:
        say("warning: this old form covers only the text; signer and time may have been changed")
        say("  sign it again: adjourn policy sign FILE")
    return 0


def _signatures_to_json(file: str, path: str, *, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"valid": not reason, "file": file, "path": path, "reason": reason, **more}


def members(seal: Seal | PublishedSeal) -> dict[str, Any]:
    """Of a signature file, for machines."""
    document: dict[str, Any] = msgspec.to_builtins(seal)
    return document


def what_signed(seal: Seal | PublishedSeal) -> str:
    """What signed, for people."""
    return seal.key if isinstance(seal, Seal) and not seal.shared else "a shared secret"


class VerifyOptions(NamedTuple):
    """The options of `adjourn verify`, by their names: four for histories, four for contracts."""

    expect_head: str
    quick: bool
    accept: bool
    since: int | None
    signature: str
    signer: str
    key: str | None
    key_file: str | None

    def check_since(self, what: str) -> None:
        """Raise `UsageError` where --since is not about all tasks, or not in the past."""
        if self.since is not None and (what or not self.accept):
            raise UsageError("--since is for the whole store", "use it with --accept, and name no task")
        if self.since is not None and self.since > now():
            raise UsageError(f"{timestamp(self.since)} is in the future", "give the time of the backup")


@click.command(
    epilog=example(
        "adjourn verify",
        "adjourn verify 20261121 --expect-head 9f86d081884c7d65...",
        "adjourn verify .aex/checkpoints/fix-auth",
        "adjourn verify audit.jsonl",
        "adjourn verify 20261121 --accept",
        "adjourn verify --accept --since 2026-11-28T02:00Z",
        "adjourn verify tasks/fix-test.aex --id ann",
    )
)
@click.argument("what", default="", type=FILE_PATH)
@text_option("--expect-head HASH", "Require this hash of the last event.")
@flag("--quick", "Check the hash chain only: decode nothing, check no signature.")
@flag("--accept", "Accept a history that was truncated or emptied. Calls that it lacks do not count as spent.")
@text_option(
    "--since TIME",
    "With --accept, for all tasks: the store was restored from a backup of that time (2026-11-28T02:00Z).",
    callback=time_of,
)
@text_option("--signature FILE", "Signature file of a contract (default: WHAT.signature.json).")
@text_option("--id NAME", "Require that NAME signed the contract.", dest="signer")
@with_secret
@at_store
@for_machines
def verify(context: CommandContext, what: str, *, as_json: bool, **options: Any) -> int:
    """Check that history, or a contract, is what was written and signed, and list what fails verification.

    WHAT is a task with its records, a checkpoint's folder (a path), events that `adjourn store export` wrote (FILE.jsonl), or the file of a
    signed contract. Without it, every task, record and cognitive session of the store is checked. Exit code 1 when a check failed. A signature
    by a key that is not trusted is a warning in a history, and an error on a contract and on exported events.

    A history that was truncated or deleted is detected by the head kept beside your keys, and by signed folders in the workspace.
    Or save the `head` that `adjourn status --json` prints, and pass it as --expect-head.

    No session continues with such a history. Restore a backup, or `adjourn checkpoint import` the newest folder; if there is none, --accept
    lets the next session continue from what is there. After a backup was restored, --accept --since accepts the loss once for all tasks
    and users: the acceptance is signed with your key, and holds for whoever trusts it.
    """
    from adjourn.cli.lookup import verify_sessions
    from adjourn.verification.verify import verify_folder

    wanted = VerifyOptions(**options)
    wanted.check_since(what)
    if os.path.isfile(what) or what.endswith((".aex", ".jsonl")):
        return _verify_file(what, wanted, as_json=as_json)
    if wanted.signature or wanted.signer or wanted.key is not None or wanted.key_file is not None:
        raise UsageError(f"{what or 'a store'!r} is not a contract: the file does not exist", "name the signed file")
    if what and (os.path.isdir(what) or os.sep in what):
        if wanted.accept:
            raise UsageError("--accept needs a task of the store", "name the task")

        with Spinner("verifying"):
            report = verify_folder(what, expect_head=wanted.expect_head)
    else:
        report = _of_store(context, what, wanted.expect_head, deep=not wanted.quick)
        if wanted.accept:
            report = _accepted(context, report, wanted.since)
    sessions = verify_sessions(context.store) if not what and not wanted.quick else []
    broken = [session for session in sessions if not session["valid"]]
    if as_json:
        document = _to_json(report)
        say_json(document | {"valid": document["valid"] and not broken, "sessions": sessions})
    else:
        for session in broken:
            say(f"BROKEN: session {safe(session['session'])}: {safe(session['reason'])}", "red")
        _print(report)
        if sessions:
            say(f"cognitive sessions: {len(sessions) - len(broken)} valid, {len(broken)} broken")
    return 0 if report.valid and not broken else 1


def _verify_file(file: str, wanted: VerifyOptions, *, as_json: bool) -> int:
    """Check the file of a contract, or of exported events, say what was found; returns the exit code."""
    from adjourn.host.workspace import read_lines
    from adjourn.verification.audit import MAX_FILE, MAX_LINE, verify_lines

    if wanted.expect_head or wanted.quick or wanted.accept:
        raise UsageError("--expect-head, --quick and --accept are for histories", "leave them out for a file")
    secret = secret_of(wanted.key, wanted.key_file)
    if not file.endswith(".jsonl"):
        return verify_signature(SignatureQuery(file, wanted.signature, wanted.signer, secret), as_json=as_json)
    if wanted.signature or wanted.signer or secret is not None:
        raise UsageError("exported events have their signature in the file", "leave out the options of contracts")
    check_plain(file)
    with Spinner("verifying"):
        report = verify_lines(read_lines(file, MAX_FILE, MAX_LINE))
    if as_json:
        say_json(_to_json(report))
    else:
        _print(report)
    return 0 if report.valid else 1


def _of_store(context: CommandContext, what: str, expect_head: str, *, deep: bool) -> VerificationReport:
    from adjourn.verification.verify import Around, verify_store, verify_task

    around = Around(reading_secret(), context.root)
    with ProgressLine("verifying") as progress:
        if what:
            task = task_id(context, what)
            return verify_task(
                context.store, task, expect_head=expect_head, deep=deep, progress=progress, around=around
            )
        if expect_head:
            raise UsageError("--expect-head is the hash of one task", "name the task")
        return verify_store(context.store, deep=deep, progress=progress, around=around)


def _accepted(context: CommandContext, report: VerificationReport, since: int | None) -> VerificationReport:
    """Take each history that was cut for what counts, and check it again; `since` a time, the losses of all users.

    Raises `RefusedError` where the events that are left do not hold.
    """
    from adjourn.checkpoints import anchors
    from adjourn.verification.report import VerificationReport

    speak()
    cut = {
        task.task: {entry.finding.code for entry in task.findings if entry.finding.severity == "error"}
        for task in report.tasks
    }
    for name, codes in cut.items():
        if codes - {"history-cut", "ref-mismatch"}:
            raise RefusedError(
                f"the events of task {name} fail verification: {', '.join(sorted(codes))}",
                "restore a backup; --accept is only for a history that was truncated",
            )
    if since is not None:
        tasks = [name for name, codes in cut.items() if codes]
        anchors.accept_since(context.store, since, user(), tasks, now=now(), secret=reading_secret())
        complain("the loss is accepted and signed; other users' tasks continue where your key is trusted")
        return _of_store(context, "", "", deep=report.deep)
    checked = VerificationReport(deep=report.deep, tasks=[], records=report.records, loose=report.loose)
    for task in report.tasks:
        if cut[task.task]:
            anchors.accept(context.store, task.task, reading_secret())
            complain(
                f"task {task.task} continues from its {task.total} events; calls that it lacks do not count as spent"
            )
        if task.total:
            checked.tasks += _of_store(context, task.task, "", deep=report.deep).tasks
    return checked


def task_id(context: CommandContext, start: str) -> str:
    """The id itself, without loading the task: loading refuses what is to be examined here. One that is missing, too."""
    from adjourn.tasks.heads import KeptHeads

    heads = [head.task for head in KeptHeads(context.store, reading_secret()).known()]
    names = list(dict.fromkeys([*tasks_of(context.store), *heads]))
    matches = [name for name in names if name == start] or [name for name in names if name.startswith(start)]
    if len(matches) != 1:
        count = f"{len(matches)} tasks have an id that starts with" if matches else "no task has the id"
        near = "" if matches else did_you_mean(start, names)
        remedy = near or "list the tasks: adjourn tasks; give a folder as a path, such as ./FOLDER"
        raise NotFoundError(f"{count} {start[:80]!r}", remedy)
    return matches[0]


def _to_json(report: VerificationReport) -> dict[str, Any]:
    return {
        "valid": report.valid,
        "deep": report.deep,
        "checked": {
            "tasks": len(report.tasks),
            "events": report.events,
            "checkpoints": report.checkpoints,
            "documents": report.documents,
            "records": len(report.records),
            "versions": report.versions,
        },
        "tasks": [
            {"task": task.task, "events": task.events, "total": task.total, "head": task.head, "valid": task.valid}
            for task in report.tasks
        ],
        "records": [
            {"record": record.record, "versions": record.versions, "head": record.head, "valid": record.broken is None}
            for record in report.records
        ],
        "findings": [_finding(located) for located in report.findings],
    }


def _finding(located: Located) -> dict[str, Any]:
    return {
        "code": located.finding.code,
        "severity": located.finding.severity,
        "message": located.finding.message,
        "help": located.finding.help,
        "task": located.task,
        "seq": located.seq if located.seq >= 0 else None,
        "hash": located.hash,
    }


def _print(report: VerificationReport) -> None:
    errors = [located for located in report.findings if located.finding.severity == "error"]
    parts = [_count(len(report.tasks), "task"), _count(report.events, "event")]
    if report.deep:
        parts += [_count(report.checkpoints, "checkpoint"), _count(report.documents, "document")]
    if report.records:
        parts += [_count(len(report.records), "record"), _count(report.versions, "version")]
    checked = ", ".join(parts) + ("" if report.deep else " (chain only)")
    if errors:
        say(f"BROKEN: {_where(errors[0])}: {errors[0].finding.code}", "red")
        say(f"checked: {checked}")
    else:
        say(f"valid: {checked}", "green")
    for located in report.findings:
        finding = located.finding
        lines = [f"{finding.severity} {finding.code} · {_where(located)} · {safe(finding.message)}"]
        lines += [f"  hash: {safe(located.hash)}"] * bool(located.hash)
        say_finding("\n".join([*lines, f"  help: {safe(finding.help)}"]))


def _where(located: Located) -> str:
    if located.finding.code == "record-broken":
        return "a record"
    if located.finding.code == "export-broken":
        return "this file"
    task = safe(located.task) or "this folder"
    return f"event {located.seq} of task {task}" if located.seq >= 0 else f"task {task}" if located.task else task


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# --- `adjourn policy sign`


@click.command(
    epilog=example(
        "adjourn policy sign tasks/fix-test.aex",
        "adjourn policy sign tasks/fix-test.aex --id ann --key-file team.secret",
    )
)
@click.argument("file", type=FILE_PATH)
@text_option("--id NAME", "Who signs (default: the name of your account).", dest="signer")
@with_secret
@text_option("--output FILE", "Signature file (default: FILE.signature.json).")
@in_folder
@for_machines
def sign(file: str, *, signer: str, key: str | None, key_file: str | None, output: str, as_json: bool) -> None:
    """Sign a contract: record that you vouch for exactly this text.

    Signs with your own key; others get it from `adjourn keys show`. With --key or --key-file, signs with a secret that you share
    with those who verify; each of them could have made the signature.
    """
    secret = secret_of(key, key_file)
    text = text_of(file).encode()
    speak()
    seal = signatures.sign(file, text, signer=signer or user().id, signed_at=timestamp(now()), secret=secret)
    path = output or signatures.place(file)
    signatures.write(seal, path)
    if as_json:
        say_json(path=path, signature=members(seal))
        return
    say(f"signed: {safe(file)}, by {safe(seal.signer)} with {what_signed(seal)}")
    say(f"  written: {safe(path)} ({members(seal)['schema']})")
