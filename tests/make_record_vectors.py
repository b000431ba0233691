"""Writes spec/vectors/records.json, spec/schemas and the table of statuses in spec/record.md:
`python tests/make_record_vectors.py`.

Hashes are for ever: it refuses to change a version of the vectors. To add one, append to `said_by_version`, and run this.
"""

from __future__ import annotations

import json
import sys
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from adjourn.knowledge.cognition.deltas import diff_checkpoints
from adjourn.knowledge.cognition.transitions import EDGES
from adjourn.knowledge.model.cognition import CheckpointDiff, CognitiveCheckpoint, CognitiveSession
from adjourn.knowledge.model.documents import Tree, tree_of, view
from adjourn.knowledge.model.part import DocumentPart
from adjourn.knowledge.model.record import ContinuationRecord, CRAuthor, CRDiff, CREvent, CRMergeResult
from adjourn.knowledge.records.merge import diff, merge
from adjourn.knowledge.records.versions import (
    Stored,
    empty_record,
    first_version,
    head_message,
    next_version,
    root_after,
    sealed,
    store_form,
)
from adjourn.log import merkle
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.signing import encode_bytes, public_key
from support.documents import ANN, sample

SPEC = Path(__file__).parent.parent / "spec"
SCHEMAS = SPEC / "schemas"
TEXT = SPEC / "record.md"
BEGIN, END = "<!-- edges: begin -->\n", "<!-- edges: end -->\n"
VECTORS = SPEC / "vectors" / "records.json"
PUBLISHED: dict[str, type[DocumentPart]] = {
    "record": ContinuationRecord,
    "record-diff": CRDiff,
    "record-event": CREvent,
    "record-merge": CRMergeResult,
    "checkpoint": CognitiveCheckpoint,
    "checkpoint-diff": CheckpointDiff,
    "session": CognitiveSession,
}
"""Documents that have a schema: name of the file, without `.json` → type."""
START = 1_750_000_000_000
AGENT = CRAuthor(id="agent-1", type="agent")
PERSON = view(ANN, CRAuthor)
PRIVATE = bytes(range(32))
LEARNING = {
    "id": "l1",
    "type": "constraint",
    "source": "feedback",
    "content": "Use 7-day rotation",
    "confidence": 0.9,
    "learnedBy": ANN,
    "learnedAt": START + 2000,
    "affects": [],
}


def said_by_version() -> list[tuple[CRAuthor, Tree]]:
    """Who wrote each version, and what it says."""
    task = {"id": "t1", "goal": "Review auth", "successCriteria": ["report written"], "status": "in-progress"}
    said = empty_record({**task, "startedAt": START})
    versions: list[tuple[CRAuthor, Tree]] = []
    for number, author in enumerate([AGENT, AGENT, AGENT, PERSON, AGENT]):
        said = {**said, "executionSummary": {**said["executionSummary"], "stepsCompleted": number}}
        if number == 2:
            said = {**said, "learnings": [LEARNING]}
        versions.append((author, said))
    parts = {name: value for name, value in sample().items() if isinstance(value, list)}
    versions.append((AGENT, {**said, **parts, "learnings": said["learnings"]}))
    versions.append((AGENT, {**versions[-1][1], "x-later": {"größer": [1.0, 1e-7, True, None]}}))
    return versions


def chain() -> list[Stored]:
    line: list[Stored] = []
    tree = merkle.Frontier()
    for number, (author, said) in enumerate(said_by_version()):
        now = START + 1000 * number
        made = next_version(sealed(line[-1]), said, author, now) if line else None
        record = made or first_version(said, author, now, new_id="cr-1")
        content_hash, content = store_form(record)
        line.append(Stored(content_hash, content, root_after(tree, content_hash)))
    return line


def _merge() -> dict[str, Any]:
    """Two records that came from one, and what they are together."""
    base = sealed(chain()[5])
    decision = base["decisions"][0]
    sides = {}
    for name, author in (("a", AGENT), ("b", PERSON)):
        changed = {**decision, "description": f"as {name} says", "madeBy": tree_of(author)}
        said = {**base, "decisions": [changed], "task": {**base["task"], "goal": f"the goal of {name}"}}
        record = first_version(said, author, START + 9000, new_id=f"cr-{name}", parent=base)
        content_hash, content = store_form(record)
        sides[name] = sealed(Stored(content_hash, content))
    merged = merge(sides["a"], sides["b"], base, "manual")
    return {
        "base": base,
        **sides,
        "strategy": "manual",
        "conflicts": [tree_of(conflict) for conflict in merged.conflicts],
        "says": {name: merged.record[name] for name in ("task", "decisions", "conflicts")},
        "diff": tree_of(diff(sides["a"], sides["b"], base_hash=base["contentHash"])),
    }


def _checkpoints() -> dict[str, Any]:
    node = {
        "id": "n1", "type": "tool-call", "phase": "execution", "status": "active", "label": "run the tests", "assumptions": [],
        "openQuestions": ["which ones?"], "confidence": 0.5, "childIds": [], "createdAt": START, "branchId": "main",
        "toolBinding": {"toolName": "bash", "inputs": {"command": "make test"}, "inputsComplete": True},
    }  # fmt: skip
    base = {
        "id": "c1", "timestamp": START, "label": "before", "nodes": [node, {**node, "id": "n2"}],
        "epistemicState": {
            "facts": [{"id": "f1", "content": "it is Python", "source": "tool output", "confidence": 1}],
            "assumptions": [], "openQuestions": [], "beliefs": [],
        },
        "intentGraph": {
            "goals": [{"id": "g", "description": "green", "status": "active", "subGoalIds": [], "priority": 1}],
            "rootIntentId": "g",
        },
        "branchId": "main",
        "metrics": {"totalNodes": 2, "completedNodes": 0, "tokenEstimate": 100, "elapsedMs": 0},
    }  # fmt: skip
    done = {name: value for name, value in node.items() if name != "toolBinding"}
    current = {
        **base,
        "id": "c2",
        "parentCheckpointId": "c1",
        "timestamp": START + 1000,
        "nodes": [{**done, "id": "n3"}, {**done, "status": "completed", "completedAt": START + 900}],
        "epistemicState": {**base["epistemicState"], "facts": []},  # type: ignore[dict-item]  # it is an object
    }
    return {
        "base": base,
        "baseHash": digest(canonical(base)),
        "current": current,
        "diff": diff_checkpoints(base, current),
    }


def vectors() -> dict[str, Any]:
    line = chain()
    leaves = [bytes.fromhex(stored.hash) for stored in line]
    head = sealed(line[-1])
    return {
        "about": "spec/record.md: a line of versions with hashes and roots, proofs over it, a merge, and a checkpoint as a difference",
        "versions": [{"record": sealed(stored), "content": stored.content.decode()} for stored in line],
        "inclusion": {"index": 1, "size": 5, "path": [n.hex() for n in merkle.inclusion_proof(leaves[:5], 1)]},
        "consistency": {"old": 3, "new": 5, "path": [n.hex() for n in merkle.consistency_proof(leaves[:5], 3)]},
        "signed_head": {
            "private_key": PRIVATE.hex(),
            "public_key": encode_bytes(public_key(PRIVATE)),
            "message": head_message(head).decode(),
            "signature": encode_bytes(_signature(head_message(head))),
        },
        "merge": _merge(),
        "checkpoints": _checkpoints(),
    }


def _signature(message: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(PRIVATE).sign(message)


def schema_text(name: str) -> str:
    """The schema of a published document, as its file has it."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_dedented(msgspec.json.schema(PUBLISHED[name])),
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=1).decode() + "\n"


def _dedented(schema: Any) -> Any:
    """A schema whose descriptions are as Python 3.13 keeps docstrings: without the indentation of the code."""
    if isinstance(schema, list):
        return [_dedented(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: cleandoc(value) if key == "description" and isinstance(value, str) else _dedented(value)
        for key, value in schema.items()
    }


def with_edges(text: str) -> str:
    """The text of spec/record.md with the table of statuses as it is now."""
    rows = [
        f"| {kind} | `{old}` | {', '.join(f'`{status}`' for status in new) or 'nothing'} |"
        for kind, edges in EDGES.items()
        for old, new in edges.items()
    ]
    table = "\n".join(["| thing | status | may become |", "|---|---|---|", *rows]) + "\n"
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table + END + rest.partition(END)[2]


def main() -> int:
    made = vectors()
    if VECTORS.exists():
        kept = json.loads(VECTORS.read_text("utf-8"))["versions"]
        if made["versions"][: len(kept)] != kept:
            print("a version of the vectors would change; hashes are for ever", file=sys.stderr)
            return 1
    VECTORS.write_text(json.dumps(made, ensure_ascii=True, indent=1) + "\n", "utf-8")
    SCHEMAS.mkdir(exist_ok=True)
    for name in PUBLISHED:
        (SCHEMAS / f"{name}.json").write_text(schema_text(name), "utf-8")
    TEXT.write_text(with_edges(TEXT.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
