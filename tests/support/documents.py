"""Working states, checkpoints and records, by hand and by chance: of the right types, with members that this version does not know.

Owns: `make` and the samples. A document is made from one random number, because it has hundreds of parts.
"""

from __future__ import annotations

import copy
import functools
from random import Random
from typing import Any

import msgspec

from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.model.part import DocumentPart
from adjourn.knowledge.model.record import COLLECTIONS, RecordContent

NOW = 1_777_735_812_345
HASH = "ab" * 32
AGENT = {"id": "agent-1", "type": "agent"}
ANN = {"id": "ann", "type": "human", "name": "Ann €"}
BOB = {"id": "bob", "type": "human"}

_WORDS = ["", "a", "deploy", "größer", "x/y~z", "line\nline", "\u2028\x7f😀"]
_IDS = ["n1", "n2", "n3", "n4", "a/b", "é"]
_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 1.5, 1e-7, 1e21, 2**53 - 1, "", "x", [], [1], [True], {}, {"to": {"n": 1}}, {"€": [None]},
]  # fmt: skip
"""Free-form values, among them 1 and True, which Python takes for equal."""


def make(kind: Any, random: Random) -> Any:
    """A JSON value that fits a type, with any of its optional members, and with members that it does not know."""
    return _of(_type_info(kind), random)


_type_info = functools.lru_cache(msgspec.inspect.type_info)


def _of(info: Any, random: Random) -> Any:
    i = msgspec.inspect
    if isinstance(info, i.Metadata):
        return _of(info.type, random)
    if isinstance(info, i.UnionType):
        return _of(info.types[0], random)
    if isinstance(info, i.StructType):
        return _struct(info, random)
    if isinstance(info, i.VarTupleType):
        return _list(info.item_type, random)
    if isinstance(info, i.DictType):
        return {random.choice(_IDS): _of(info.value_type, random) for _ in range(random.randrange(3))}
    return _scalar(info, random)


def _scalar(info: Any, random: Random) -> Any:
    i = msgspec.inspect
    if isinstance(info, i.LiteralType):
        return random.choice(info.values)
    if isinstance(info, i.StrType) and info.pattern:
        return random.choice([HASH, "cd" * 32]) if "64" in info.pattern else "1.0"
    if isinstance(info, i.StrType):
        return random.choice(_IDS if info.min_length else _WORDS)
    if isinstance(info, i.IntType):
        return NOW + random.randrange(6)
    if isinstance(info, i.FloatType):
        return random.choice([0, 1, 0.5, 0.9, 1e-7])
    return random.choice([True, False]) if isinstance(info, i.BoolType) else random.choice(_VALUES)


def _struct(info: Any, random: Random) -> Tree:
    tree = {
        field.encode_name: _of(field.type, random) for field in info.fields if field.required or random.random() < 0.4
    }
    if issubclass(info.cls, DocumentPart) and random.random() < 0.2:
        tree[random.choice(["x-later", "x_note"])] = random.choice(_VALUES)
    return tree


def _list(item_type: Any, random: Random) -> list[Any]:
    items = [_of(item_type, random) for _ in range(random.randrange(4))]
    if items and isinstance(items[0], dict) and "id" in items[0]:
        return list({item["id"]: item for item in items}.values())
    return items


def record_of(random: Random) -> Tree:
    """A sealed record that holds."""
    record: Tree = copy.deepcopy(make(RecordContent, random))
    record |= {"sequence": 3, "parentCRHash": HASH, "contentHash": HASH}
    record.pop("conflicts", None)
    record["task"]["status"] = "in-progress"
    for item in record["learnings"]:
        if "confidence" in item:
            item["confidence"] = 0.5
    for item in record["decisions"]:
        if item["status"] == "contested":
            item["status"] = "tentative"
    for item in record["questionsForUser"]:
        item.pop("options", None)
        _told(item, item["status"] == "answered", "answered")
        if item["status"] == "answered":
            item.setdefault("answer", "")
        else:
            item.pop("answer", None)
    for item in record["blockers"]:
        _told(item, item["status"] == "resolved", "resolved")
    for item in record["resumePoints"]:
        _told(item, "approved" in item["approvalStatus"], "approved")
        _told(item, item["approvalStatus"] == "denied", "denied")
    return record


def _told(item: Tree, due: bool, verb: str) -> None:
    for name, value in ((f"{verb}By", ANN), (f"{verb}At", NOW)):
        if due:
            item.setdefault(name, value)
        else:
            item.pop(name, None)


def _edited(record: Tree, random: Random) -> Tree:
    """A record made from another: some items replaced, added and removed, some members other."""
    other, result = record_of(random), dict(record)
    for name in random.sample([*COLLECTIONS, "metadata", "executionSummary", "task", "x-later"], random.randrange(6)):
        if name in COLLECTIONS:
            mixed = {item["id"]: item for item in [*record[name], *other[name]]}
            if mixed and random.random() < 0.3:
                del mixed[random.choice(list(mixed))]
            result[name] = list(mixed.values())
        elif name in other:
            result[name] = other[name]
    return result


def fork_of(random: Random) -> tuple[Tree, Tree, Tree]:
    """(base, a, b): a record, and two records that were made from it."""
    base = record_of(random)
    a, b = _edited(base, random), _edited(base, random)
    return base, {**a, "id": "A", "contentHash": "1a" * 32}, {**b, "id": "B", "contentHash": "2b" * 32}


def sample() -> Tree:
    """A record with one thing of each kind: its task is under way, and a question and a blocker hold a resume point."""
    return {
        "id": "cr-1",
        "version": "1.0",
        "sequence": 0,
        "contentHash": HASH,
        "task": {"id": "t1", "goal": "g", "successCriteria": ["done"], "status": "in-progress", "startedAt": NOW},
        "createdBy": AGENT,
        "createdAt": NOW,
        "lastModifiedBy": AGENT,
        "lastModifiedAt": NOW,
        "executionSummary": {
            "stepsCompleted": 10, "stepsFailed": 0, "tokensConsumed": 0, "elapsedMs": 0, "actions": [],
        },
        "decisions": [
            {
                "id": "d/1", "description": "use SQLite", "status": "accepted", "rationale": "small", "madeBy": AGENT,
                "madeAt": NOW, "affects": ["n1"], "overridableBy": ["human"],
            }
        ],
        "learnings": [],
        "questionsForUser": [
            {
                "id": "q1", "type": "question", "question": "which?", "context": "why", "status": "open",
                "blocksResumePoints": ["p1"], "priority": "blocking", "askedAt": NOW,
            }
        ],
        "blockers": [
            {
                "id": "b1", "type": "permission", "description": "no key", "status": "active", "severity": "high",
                "createdBy": AGENT, "createdAt": NOW, "blocksResumePoints": ["p1"],
            }
        ],
        "resumePoints": [
            {
                "id": "p1", "label": "deploy", "description": "to production", "when": "tests are green",
                "preconditions": ["backup"], "requiredAuthority": "human", "safeToAutoExecute": False,
                "onTimeout": "escalate", "approvalStatus": "pending", "nextSteps": ["deploy"], "createdAt": NOW,
            }
        ],
        "toolEffects": [
            {
                "id": "e1", "toolName": "mail", "operation": "send", "inputs": {}, "idempotencyKey": "invoice:1",
                "isReplayable": False, "sideEffects": ["mail"], "reversible": False, "executedAt": NOW, "durationMs": 1,
            }
        ],
        "invariants": [
            {
                "id": "i1", "description": "no data loss", "scope": [], "severity": "hard", "status": "holding",
                "establishedBy": ANN, "establishedAt": NOW,
            }
        ],
        "metadata": {"tags": ["old"], "priority": "medium"},
    }  # fmt: skip


def node(name: str, **members: Any) -> Tree:
    return {
        "id": name, "type": "reasoning", "phase": "planning", "status": "pending", "label": name, "assumptions": [],
        "openQuestions": [], "confidence": 0.5, "childIds": [], "createdAt": 1, "branchId": "main", **members,
    }  # fmt: skip


def goal(name: str, **members: Any) -> Tree:
    return {"id": name, "description": name, "status": "active", "subGoalIds": [], "priority": 1, **members}


def state(**members: Any) -> Tree:
    """A working state that holds: two nodes, a fact, a belief, a question, and a goal with a part."""
    return {
        "nodes": [node("n1", childIds=["n2"]), node("n2", parentId="n1", blockedBy=["n1"])],
        "epistemicState": {
            "facts": [{"id": "f1", "content": "c", "source": "tool", "confidence": 1}],
            "assumptions": [{"id": "a1", "content": "c"}],
            "openQuestions": [{"id": "q1", "question": "?", "priority": "low", "blocksNodes": ["n1"]}],
            "beliefs": [{"id": "b1", "statement": "s", "confidence": 0, "evidence": ["f1"]}],
        },
        "intentGraph": {"goals": [goal("g1", subGoalIds=["g2"]), goal("g2", parentGoalId="g1")], "rootIntentId": "g1"},
        **members,
    }
