"""`adjourn verify` and `adjourn sign`: histories, checkpoints and contracts, and the signatures on them."""

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
    for_machines,
    in_folder,
    speak,
    user,
)
from adjourn.cli.documents import text_of
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
    key = click.option(
        "--key",
        metavar="SECRET",
        help="Shared secret. Other users of this machine can see it on the command line.",
    )
    key_file = click.option(
        "--key-file", metavar="FILE", type=FILE_PATH, help="File that contains the shared secret."
    )
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


def verify_signature(asked: SignatureQuery, *, as_json: bool) -> int:
    """Check the signature of a contract, say what it is worth; returns the exit code."""
    text = text_of(asked.file).encode()
    path = asked.signature or signatures.place(asked.file)
    try:
        held = signatures.verify(
            text,
            read_file(path, MAX_SEAL_BYTES, workspace_of().root),
            secret=asked.secret,
            signer=asked.signer,
        )
    except (InvalidError, NotFoundError) as error:
        remedy = error.remedy or f"sign it: adjourn sign {asked.file}"
        if as_json:
            say_json(_signatures_to_json(asked.file, path, reason=error.message, help=remedy))
        else:
            say(f"INVALID: {safe(asked.file)}: {safe(error.message)}", "red")
            say(f"  help: {safe(remedy)}")
        return 1
    if as_json:
        covers = _COVERS[:1] if held.only_text else _COVERS
        told = _signatures_to_json(
            asked.file, path, covers=covers, trustedAs=held.names, signature=members(held.seal)
        )
        say_json(told)
        return 0
    known = f", trusted as {safe(' and '.join(held.names))}" if held.names else ""
    said = f"{safe(held.seal.signer)} at {safe(held.seal.signed_at)}"
    say(f"valid: {safe(asked.file)}, signed by {said} with {what_signed(held.seal)}{known}", "green")
    if held.only_text:
        say("warning: this old form covers only the text; signer and time may have been changed")
        say("  sign it again: adjourn sign FILE")
    return 0


def _signatures_to_json(file: str, path: str, *, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"valid": not reason, "file": file, "path": path, "reason": reason, **more}


def members(made: Seal | PublishedSeal) -> dict[str, Any]:
    """Of a signature file, for machines."""
    told: dict[str, Any] = msgspec.to_builtins(made)
    return told


def what_signed(made: Seal | PublishedSeal) -> str:
    """What signed, for people."""
    return made.key if isinstance(made, Seal) and not made.shared else "a shared secret"


class VerifyOptions(NamedTuple):
    """The options of `adjourn verify`, by their names: three for histories, four for contracts."""

    expect_head: str
    quick: bool
    accept: bool
    signature: str
    signer: str
    key: str | None
    key_file: str | None

    @property
    def for_history(self) -> bool:
        return bool(self.expect_head or self.quick or self.accept)

    @property
    def for_contract(self) -> bool:
        return bool(self.signature or self.signer) or self.key is not None or self.key_file is not None


@click.command(
    epilog=example(
        "adjourn verify",
        "adjourn verify 20261121 --expect-head 9f86d081884c7d65...",
        "adjourn verify .aex/checkpoints/fix-auth",
        "adjourn verify 20261121 --accept",
        "adjourn verify tasks/fix-test.aex --id ann",
    )
)
@click.argument("what", default="", type=FILE_PATH)
@click.option("--expect-head", default="", metavar="HASH", help="Require this hash of the last event.")
@click.option("--quick", is_flag=True, help="Check the hash chain only: decode nothing, check no signature.")
@click.option(
    "--accept",
    is_flag=True,
    help="Accept a history that was truncated or emptied. Calls that it lacks do not count as spent.",
)
@click.option(
    "--signature",
    default="",
    metavar="FILE",
    type=FILE_PATH,
    help="Signature file of a contract (default: WHAT.signature.json).",
)
@click.option("--id", "signer", default="", metavar="NAME", help="Require that NAME signed the contract.")
@with_secret
@at_store
@for_machines
def verify(context: CommandContext, what: str, *, as_json: bool, **options: Any) -> int:
    """Check that history, or a contract, is what was written and signed, and list what fails verification.

    WHAT is a task with its records, a checkpoint's folder (a path), or the file of a signed contract. Without it, every task,
    record and cognitive session of the store is checked. Exit code 1 when a check failed. A signature by a key that is not trusted is a warning
    in a history, and an error on a contract.

    A history that was truncated or deleted is detected by the head kept beside your keys, and by signed folders in the workspace.
    To check without these, keep the `head` that `adjourn status --json` prints, and give it with --expect-head.

    No session continues with such a history. Restore a backup, or `adjourn import` the newest folder; if there is none, --accept
    lets the next session continue from what is there.
    """
    from adjourn.cli.lookup import verify_sessions
    from adjourn.verification.verify import verify_folder

    given = VerifyOptions(**options)
    if os.path.isfile(what) or what.endswith(".aex"):
        if given.for_history:
            raise UsageError(
                "--expect-head, --quick and --accept are for histories", "leave them out for a contract"
            )
        secret = secret_of(given.key, given.key_file)
        return verify_signature(SignatureQuery(what, given.signature, given.signer, secret), as_json=as_json)
    if given.for_contract:
        raise UsageError(
            f"{what or 'a store'!r} is not a contract: the file does not exist", "name the signed file"
        )
    if what and (os.path.isdir(what) or os.sep in what):
        if given.accept:
            raise UsageError("--accept needs a task of the store", "name the task")

        with Spinner("verifying"):
            report = verify_folder(what, expect_head=given.expect_head)
    else:
        report = _of_store(context, what, given.expect_head, deep=not given.quick)
        if given.accept:
            report = _accepted(context, report)
    sessions = verify_sessions(context.store) if not what and not given.quick else []
    broken = [one for one in sessions if not one["valid"]]
    if as_json:
        told = _to_json(report)
        say_json(told | {"valid": told["valid"] and not broken, "sessions": sessions})
    else:
        for one in broken:
            say(f"BROKEN: session {safe(one['session'])}: {safe(one['reason'])}", "red")
        _print(report)
        if sessions:
            say(f"cognitive sessions: {len(sessions) - len(broken)} valid, {len(broken)} broken")
    return 0 if report.valid and not broken else 1


def _of_store(context: CommandContext, what: str, expect_head: str, *, deep: bool) -> VerificationReport:
    from adjourn.verification.verify import Around, verify_store, verify_task

    around = Around(reading_secret(), context.root)
    with ProgressLine("verifying") as progress:
        if what:
            task = _task_id(context, what)
            return verify_task(
                context.store, task, expect_head=expect_head, deep=deep, progress=progress, around=around
            )
        if expect_head:
            raise UsageError("--expect-head is the hash of one task", "name the task")
        return verify_store(context.store, deep=deep, progress=progress, around=around)


def _accepted(context: CommandContext, report: VerificationReport) -> VerificationReport:
    """Take each history that was cut for what counts, and check it again.

    Raises `RefusedError` where the events that are left do not hold.
    """
    from adjourn.checkpoints import anchors
    from adjourn.verification.report import VerificationReport

    speak()
    checked = VerificationReport(deep=report.deep, tasks=[], records=report.records, loose=report.loose)
    for task in report.tasks:
        codes = {one.finding.code for one in task.findings if one.finding.severity == "error"}
        if codes - {"history-cut", "ref-mismatch"}:
            raise RefusedError(
                f"the events of task {task.task} fail verification: {', '.join(sorted(codes))}",
                "restore a backup; --accept is only for a history that was truncated",
            )
        if codes:
            anchors.accept(context.store, task.task, reading_secret())
            complain(
                f"task {task.task} continues from its {task.total} events; calls that it lacks do not count as spent"
            )
        if task.total:
            checked.tasks += _of_store(context, task.task, "", deep=report.deep).tasks
    return checked


def _task_id(context: CommandContext, start: str) -> str:
    """The id itself, without loading the task: loading refuses what is to be examined here. One that is missing, too."""
    from adjourn.tasks.heads import KeptHeads

    kept = [one.task for one in KeptHeads(context.store, reading_secret()).known()]
    names = list(dict.fromkeys([*tasks_of(context.store), *kept]))
    found = [name for name in names if name == start] or [name for name in names if name.startswith(start)]
    if len(found) != 1:
        count = f"{len(found)} tasks have an id that begins with" if found else "no task has the id"
        near = "" if found else did_you_mean(start, names)
        remedy = near or "list the tasks: adjourn tasks; give a folder as a path, such as ./FOLDER"
        raise NotFoundError(f"{count} {start[:80]!r}", remedy)
    return found[0]


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
            {
                "task": task.task,
                "events": task.events,
                "total": task.total,
                "head": task.head,
                "valid": task.valid,
            }
            for task in report.tasks
        ],
        "records": [
            {"record": one.record, "versions": one.versions, "head": one.head, "valid": one.broken is None}
            for one in report.records
        ],
        "findings": [_finding(found) for found in report.findings],
    }


def _finding(found: Located) -> dict[str, Any]:
    return {
        "code": found.finding.code,
        "severity": found.finding.severity,
        "message": found.finding.message,
        "help": found.finding.help,
        "task": found.task,
        "seq": found.seq if found.seq >= 0 else None,
        "hash": found.hash,
    }


def _print(report: VerificationReport) -> None:
    errors = [found for found in report.findings if found.finding.severity == "error"]
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
    for found in report.findings:
        finding = found.finding
        lines = [f"{finding.severity} {finding.code} · {_where(found)} · {safe(finding.message)}"]
        lines += [f"  hash: {safe(found.hash)}"] * bool(found.hash)
        say_finding("\n".join([*lines, f"  help: {safe(finding.help)}"]))


def _where(found: Located) -> str:
    if found.finding.code == "record-broken":
        return "a record"
    task = safe(found.task) or "this folder"
    return f"event {found.seq} of task {task}" if found.seq >= 0 else f"task {task}" if found.task else task


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# --- `adjourn sign`


@click.command(
    epilog=example(
        "adjourn sign tasks/fix-test.aex", "adjourn sign tasks/fix-test.aex --id ann --key-file team.secret"
    )
)
@click.argument("file", type=FILE_PATH)
@click.option(
    "--id", "signer", default="", metavar="NAME", help="Who signs (default: the name of your account)."
)
@with_secret
@click.option(
    "--output",
    default="",
    metavar="FILE",
    type=FILE_PATH,
    help="Signature file (default: FILE.signature.json).",
)
@in_folder
@for_machines
def sign(
    file: str, *, signer: str, key: str | None, key_file: str | None, output: str, as_json: bool
) -> None:
    """Sign a contract: record that you vouch for exactly this text.

    Signs with your own key; others get it from `adjourn keys show`. With --key or --key-file, signs with a secret that you share
    with those who verify; each of them could have made the signature.
    """
    secret = secret_of(key, key_file)
    text = text_of(file).encode()
    speak()
    made = signatures.sign(file, text, signer=signer or user().id, signed_at=timestamp(now()), secret=secret)
    path = output or signatures.place(file)
    signatures.write(made, path)
    if as_json:
        say_json(path=path, signature=members(made))
        return
    say(f"signed: {safe(file)}, by {safe(made.signer)} with {what_signed(made)}")
    say(f"  written: {safe(path)} ({members(made)['schema']})")
