"""The contract a session works under: the policy, read and reread, merged with the contract of the task.

A task's contract never widens the policy, and no text that has an error or lacks its signature is worked under. What a policy means is
kept outside of every workspace, so that the parser, which takes longer than all else of a start, is loaded for a text that is new.
"""

from __future__ import annotations

import hmac
import os
from contextlib import suppress

import msgspec

from adjourn import __version__, aex
from adjourn.aex.files import load
from adjourn.aex.layers import discover, merge
from adjourn.aex.policy import Policy
from adjourn.errors import AdjournError, IntegrityError
from adjourn.findings import Finding
from adjourn.host import folders, keys
from adjourn.host.workspace import read_file, write_file
from adjourn.log.canonical_json import digest
from adjourn.store.base import Store


class BrokenContractError(AdjournError):
    """A policy or contract has errors. `findings` are all of them, with `texts` by source for rendering."""

    def __init__(self, findings: list[Finding], texts: dict[str, str]) -> None:
        errors = sum(finding.severity == "error" for finding in findings)
        super().__init__(
            f"{errors} error{'s' * (errors != 1)} in the policy or contract",
            "fix them; `adjourn policy check FILE` shows them",
        )
        self.findings = findings
        self.texts = texts


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """Both texts as they were read, and the effective permissions. An empty text: there is none.

    `policy_files` are the policy's own file and those that it extends.
    """

    policy: Policy
    policy_text: str = ""
    policy_source: str = ""
    policy_files: tuple[str, ...] = ()
    contract_text: str = ""
    contract_source: str = ""
    findings: tuple[Finding, ...] = ()


def read_contract(root: str, policy: str = "", contract: str = "", *, searched: str = "") -> Contract:
    """Read the policy (given, or found in `root`) and the contract (if given). Raises `BrokenContractError`.

    `searched` says in which folders a workspace was looked for, if there is none.
    """
    own = _read(root, policy or discover(root) or "", "policy")
    task = _read(root, contract, "contract")
    findings = [*own.findings, *task.findings]
    if not own.source:
        missing = Finding(
            code="AEX135",
            message=f"no policy: there is no .aex/policy.aex or aex.policy.aex {searched or 'in the workspace'}",
            help="write one with `adjourn init --policy`, or name one with --policy",
        )
        findings.append(missing)
    if own.policy is not None and task.policy is not None:
        findings += unsigned(root, contract, task.text, own.policy, task.source)
    if any(finding.severity == "error" for finding in findings):
        raise BrokenContractError(findings, own.texts | task.texts)
    if own.policy is not None and task.policy is not None:
        from adjourn.aex.permissions import not_granted

        findings += not_granted(own.policy, task.policy)
    return Contract(
        policy=merge(own.policy, task.policy),
        policy_text=own.text,
        policy_source=own.source,
        policy_files=tuple(own.texts),
        contract_text=task.text,
        contract_source=task.source,
        findings=tuple(findings),
    )


def reread_policy(root: str, base: Contract) -> Contract:
    """`base` under its policy file as it is now. The contract stays as it was read: an agent can edit that file.

    Raises `BrokenContractError`; then `base` still counts.
    """
    own = _read(root, base.policy_source, "policy")
    if own.policy is None or any(finding.severity == "error" for finding in own.findings):
        raise BrokenContractError(own.findings, own.texts)
    findings = own.findings
    task = None
    if base.contract_text:
        from adjourn.aex.permissions import from_text, not_granted

        task = from_text(base.contract_text, base.contract_source)[0]
        if refused := unsigned(root, base.contract_source, base.contract_text, own.policy, base.contract_source):
            raise BrokenContractError(refused, {base.contract_source: base.contract_text})
        findings = [*findings, *not_granted(own.policy, task)]
    return msgspec.structs.replace(
        base,
        policy=merge(own.policy, task),
        policy_text=own.text,
        policy_files=tuple(own.texts),
        findings=tuple(findings),
    )


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """The policy or the contract as it was read. Without a `source` there is none, without a `policy` it is unreadable."""

    policy: Policy | None = None
    text: str = ""
    source: str = ""
    texts: dict[str, str] = {}
    findings: list[Finding] = []


def _read(root: str, path: str, wanted: str) -> _Part:
    if not path:
        return _Part()
    source = os.path.relpath(path, root) if os.path.isabs(path) else path
    source = path if source.startswith("..") else source
    full_path = os.path.join(root, path)
    if wanted == "policy" and path.endswith(".json"):
        from adjourn.aex.json_policy import read_json_policy

        reading = read_json_policy(full_path, root, source)
        return _Part(
            policy=reading.policy, text=reading.text, source=source, texts=reading.texts, findings=reading.findings
        )
    text, unreadable = load(full_path, source=source, root=root)
    if text is None:
        return _Part(source=source, findings=unreadable)
    if wanted == "policy":
        layer, findings = _policy_of(text, source, full_path)
    else:
        from adjourn.aex.permissions import read_layer

        layer, findings = read_layer(text, source, wanted)
    return _Part(policy=layer, text=text, source=source, texts={source: text}, findings=findings)


# --- policies that were read before

MAX_KEPT_BYTES = 1 << 20


def _policy_of(text: str, source: str, path: str) -> tuple[Policy, list[Finding]]:
    """The policy that the file at `path` states, and every finding about it: kept, if this very text was read before without one.

    INVARIANT: what is kept counts only with a seal over it, the text, its source and the parser's files. An agent has no secret to seal
    with, and a policy that changed, or a parser that did, is read again.
    """
    folder, name = os.path.join(folders.config(), "policies"), digest(os.fsencode(os.path.abspath(path)))[:32]
    kept, about = os.path.join(folder, name), b""
    with suppress(AdjournError, OSError, ValueError):
        with os.scandir(os.path.dirname(aex.__file__)) as files:
            parser = [(f.name, (at := f.stat()).st_size, at.st_mtime_ns) for f in files if f.name.endswith(".py")]
        about = f"adjourn/policy/2:{__version__}:{sorted(parser)}:{source}\0{len(text)}:{text}".encode(
            errors="surrogateescape"
        )
        seal, _, value = read_file(kept, MAX_KEPT_BYTES).partition(b":")
        if hmac.compare_digest(seal, _seal(about + value)):
            return msgspec.msgpack.decode(value, type=Policy), []
    from adjourn.aex.permissions import read_layer

    policy, findings = read_layer(text, source, "policy")
    if about and not findings and keys.has_secret():
        with suppress(
            AdjournError, OSError, ValueError, OverflowError
        ):  # no form for some names of files and long numbers
            value = msgspec.msgpack.encode(policy, enc_hook=dict)  # of its mappings that cannot change
            os.makedirs(folder, 0o700, exist_ok=True)
            write_file(folder, name, _seal(about + value) + b":" + value, 0o600)
    return policy, findings


def _seal(value: bytes) -> bytes:
    return hmac.digest(keys.reading_secret(), value, "sha256").hex().encode()


def unsigned(root: str, path: str, text: str, policy: Policy, source: str) -> list[Finding]:
    """The reasons that the contract in the file `path` does not count as signed by the signers that the policy names."""
    if not policy.signers:
        return []
    from adjourn.policy import signatures  # few policies require it

    missing = signatures.required(root, path, text.encode(), policy.signers, source)
    return [missing] if missing else []


def for_task(base: Contract, store: Store, contract_digest: str) -> Contract:
    """`base` narrowed by the contract that a task was opened under, whose text the store keeps."""
    if not contract_digest or contract_digest == digest(base.contract_text.encode()):
        return base
    stored = store.get_blob(contract_digest)
    if stored is None:
        raise IntegrityError(
            f"the contract {contract_digest[:12]} that the task was opened under is not in the store",
            "import the checkpoint again, or start a new task",
        )
    from adjourn.aex.permissions import from_text

    source = f"contract {contract_digest[:12]}"
    layer, findings = from_text(stored.decode(errors="replace"), source)
    if any(finding.severity == "error" for finding in findings):
        raise BrokenContractError(findings, {source: stored.decode(errors="replace")})
    return msgspec.structs.replace(base, policy=merge(base.policy, layer))
