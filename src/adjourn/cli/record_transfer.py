"""`adjourn record verify`, `prove`, `export` and `import`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from adjourn.cli.context import FILE_PATH, CommandContext, at_store, example, flag, for_machines, speak, text_option
from adjourn.cli.output import safe, say, say_json
from adjourn.cli.record_view import author, find_id, find_version, records_at, written
from adjourn.errors import AdjournError, InvalidError, UsageError
from adjourn.host import keys
from adjourn.host.finding import workspace_of
from adjourn.host.workspace import read_file, read_lines, write_file
from adjourn.knowledge.model.documents import MAX_DOCUMENT_BYTES, tree_of
from adjourn.knowledge.records.proofs import SignedRecordHead, read_proof
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.transfer import MAX_BYTES, Fork, export_record, import_record
from adjourn.log.signing import fingerprint

if TYPE_CHECKING:
    from adjourn.knowledge.records.proofs import ConsistencyProof, InclusionProof


_MAX_PROOF = 64 * 1024


@click.command(
    epilog=example(
        "adjourn record verify",
        "adjourn record verify 4f1c --expect-head 9f86d0...",
        "adjourn record verify --proof head.json",
    )
)
@click.argument("name", metavar="[RECORD]", default="")
@text_option("--expect-head HASH", "Require this hash of the newest version.", default=None)
@text_option("--expect-root HASH", "Require this Merkle root.", default=None)
@text_option("--proof FILE", "Check a proof made by `adjourn record prove` instead.")
@at_store
@for_machines
def verify(
    context: CommandContext, name: str, *, expect_head: str | None, expect_root: str | None, proof: str, as_json: bool
) -> int:
    """Verify that the versions of a record, or of every record, are those that were written. Exit code 1 when one is not.

    Truncation is detected only by a hash, a root or a signed head that you kept elsewhere.
    """
    if proof:
        return _verify_proof(proof, as_json=as_json)
    store = records_at(context)
    if not name and (expect_head or expect_root):
        name = find_id(store, "")
    ids = [find_id(store, name)] if name else store.ids()
    results: list[dict[str, Any]] = []
    for cr_id in ids:
        chain = store.verify_chain(cr_id, expected_head=expect_head, expected_root=expect_root)
        result: dict[str, Any] = {"record": cr_id, "valid": chain.valid, "checked": chain.checked, "head": chain.head}
        results.append(result if chain.valid else result | {"brokenAt": chain.broken_at, "reason": chain.reason})
    broken = [result for result in results if not result["valid"]]
    if as_json:
        say_json(valid=not broken, records=results)
        return 1 if broken else 0
    versions = sum(result["checked"] for result in results)
    if not broken:
        say(f"valid: {len(results)} record{'' if len(results) == 1 else 's'}, {versions:,} versions", "green")
    for result in broken:
        say(f"BROKEN: record {safe(result['record'])}, after {result['checked']} versions: {result['reason']}", "red")
        say(f"  at: {safe(result['brokenAt'])}")
        say("  help: do not continue from it; compare it with an export or a backup")
    return 1 if broken else 0


@click.command(
    epilog=example(
        "adjourn record prove 4f1c@3", "adjourn record prove 4f1c --since 12", "adjourn record prove 4f1c --sign"
    )
)
@click.argument("name", metavar="[RECORD]", default="")
@click.option(
    "--since", type=click.IntRange(min=1), metavar="N", help="Prove that the record only grew since it had N versions."
)
@flag("--sign", "Sign the hash of the newest version.")
@at_store
@for_machines
def prove(context: CommandContext, name: str, *, since: int | None, sign: bool, as_json: bool) -> None:
    """Print a proof as JSON, for those who do not have the store: by default, that a version is in its record.

    `adjourn record verify --proof FILE` checks it. Compare its root with one from another source.
    """
    del as_json  # a proof is a document
    if since and sign:
        raise UsageError("--since and --sign are both given", "give only one of them")
    store = records_at(context)
    proof: InclusionProof | ConsistencyProof | SignedRecordHead
    if sign:
        proof = store.signed_head(find_id(store, name), keys.private_key())
    elif since:
        proof = store.consistency_proof(find_id(store, name), since)
    else:
        proof = store.inclusion_proof(find_version(store, name)["contentHash"])
    say_json(tree_of(proof))


@click.command(epilog=example("adjourn record export 4f1c --to handover.jsonl"))
@click.argument("name", metavar="[RECORD]", default="")
@text_option("--to FILE", "Write to FILE (default: ID.record.jsonl here).", dest="target")
@at_store
@for_machines
def export(context: CommandContext, name: str, *, target: str, as_json: bool) -> None:
    """Export a record to a file: all versions and their ancestors, and your signature of the newest one."""
    store = records_at(context)
    cr_id = find_id(store, name)
    path = target or f"{os.path.basename(cr_id)}.record.jsonl"
    write_file(os.path.dirname(path) or ".", os.path.basename(path), export_record(store, cr_id, keys.private_key()))
    head = store.resolve(cr_id)
    if as_json:
        say_json(record=cr_id, path=path, sequence=head["sequence"], contentHash=head["contentHash"])
    else:
        say(f"written: {safe(path)} (record {safe(cr_id)}, {head['sequence'] + 1} versions)")


@click.command(
    "import", epilog=example("adjourn record import handover.jsonl", "adjourn record import theirs.jsonl --as theirs")
)
@click.argument("file", type=FILE_PATH)
@text_option("--as ID", "Import it as a fork, to merge, if the record changed here too.", dest="fork")
@at_store
@for_machines
def import_(context: CommandContext, file: str, *, fork: str, as_json: bool) -> None:
    """Import a record from a file, which is verified first. You vouch for it: approvals and answers in it count here.

    A signature by a key that you do not trust is reported.
    """
    trusted = keys.trusted()
    store = RecordTrees(context.make_store(), clock=context.clock)
    as_fork = Fork(fork, author(), context.now) if fork else None
    lines = read_lines(file, MAX_BYTES, MAX_DOCUMENT_BYTES)
    imported = import_record(store, lines, trusted.values(), as_fork, before_writing=speak)
    names = [name for name, public in trusted.items() if fingerprint(public) == imported.signer]
    signer = names[0] if names else ""
    if as_json:
        say_json(written(imported.record, added=imported.added, key=imported.signer, signer=signer))
        return
    by = f"signed by {imported.signer} ({'trusted as ' + safe(signer) if signer else 'vouched for by you'})"
    say(
        f"imported record {safe(imported.record['id'])} at version {imported.record['sequence']}: {imported.added} new, {by}"
    )


def _verify_proof(path: str, *, as_json: bool) -> int:
    try:
        value = json.loads(read_file(path, _MAX_PROOF, workspace_of().root))
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"{path} is not JSON: {error}", "give a file written by `adjourn record prove`") from error
    proof = read_proof(value if isinstance(value, dict) else {})
    signer = ""
    if isinstance(proof, SignedRecordHead):
        signer = _signer(proof)
        valid, outcome = (
            bool(signer),
            f"{signer or 'no key that you trust'} signed version {proof.sequence} as the newest",
        )
    else:
        valid = proof.holds()
        outcome = f"{type(proof).__name__} {'verified' if valid else 'not verified'}"
    if as_json:
        say_json(valid=valid, proof=type(proof).__name__, record=proof.id, signer=signer)
    else:
        say(f"{'valid' if valid else 'BROKEN'}: record {safe(proof.id)}: {safe(outcome)}", "green" if valid else "red")
    return 0 if valid else 1


def _signer(head: SignedRecordHead) -> str:
    """The name of the trusted key that signed a head; empty if none did."""
    for name, public in keys.trusted().items():
        try:
            head.check(public)
        except AdjournError:
            continue
        return name
    return ""
