"""The contract a session works under: the workspace's policy, merged with the contract of the task.

Owns: finding and reading both texts, refusing broken ones, merging the contract that a resumed task brings.
Must never: let a task's contract widen the policy, or go on with a text that has an error.
"""

from __future__ import annotations

import os

import msgspec

from adjourn.aex.files import load
from adjourn.aex.policy import Policy, discover, from_text, merge, not_granted, read_layer
from adjourn.errors import AdjournError, IntegrityError
from adjourn.findings import Finding
from adjourn.log.canonical import digest
from adjourn.store.base import Store


class BrokenContractError(AdjournError):
    """A policy or contract has errors. `findings` are all of them, with `texts` by source for rendering."""

    def __init__(self, findings: list[Finding], texts: dict[str, str]) -> None:
        errors = sum(finding.severity == "error" for finding in findings)
        super().__init__(
            f"{errors} error(s) in the policy or contract", "mend them; `adjourn check FILE` shows them"
        )
        self.findings = findings
        self.texts = texts


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """Both texts as they were read, and the effective permissions. An empty text: there is none."""

    policy: Policy
    policy_text: str = ""
    policy_source: str = ""
    contract_text: str = ""
    contract_source: str = ""
    findings: tuple[Finding, ...] = ()


def read_contract(root: str, policy: str = "", contract: str = "") -> Contract:
    """Read the policy (given, or found in `root`) and the contract (if given). Raises `BrokenContractError`."""
    texts: dict[str, str] = {}
    findings: list[Finding] = []
    parts: list[tuple[Policy | None, str, str]] = []
    for path, wanted in ((policy or discover(root) or "", "policy"), (contract, "contract")):
        if not path:
            parts.append((None, "", ""))
            continue
        source = os.path.relpath(path, root) if os.path.isabs(path) else path
        source = path if source.startswith("..") else source
        text, unreadable = load(os.path.join(root, path), source=source)
        findings += unreadable
        if text is None:
            parts.append((None, "", source))
            continue
        texts[source] = text
        layer, more = read_layer(text, source, wanted)
        findings += more
        parts.append((layer, text, source))
    if not parts[0][2]:
        missing = Finding(
            code="AEX135",
            message="no policy: neither .aex/policy.aex nor aex.policy.aex is in the workspace",
            help="`adjourn init --policy` writes one to start from; or name one with --policy",
        )
        findings.append(missing)
    if any(finding.severity == "error" for finding in findings):
        raise BrokenContractError(findings, texts)
    (own, policy_text, policy_source), (task, contract_text, contract_source) = parts
    if own is not None and task is not None:
        findings += not_granted(own, task)
    return Contract(
        policy=merge(own, task),
        policy_text=policy_text,
        policy_source=policy_source,
        contract_text=contract_text,
        contract_source=contract_source,
        findings=tuple(findings),
    )


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
    source = f"contract {contract_digest[:12]}"
    layer, findings = from_text(stored.decode(errors="replace"), source)
    if any(finding.severity == "error" for finding in findings):
        raise BrokenContractError(findings, {source: stored.decode(errors="replace")})
    return msgspec.structs.replace(base, policy=merge(base.policy, layer))
