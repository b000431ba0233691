"""Documents of resumable agents, in JSON: three kinds, distinguished by their members.

    a Continuation Record       task, decisions, learnings, questionsForUser, resumePoints, …   version "1.0" or "1.0.0"
    a cognitive checkpoint      nodes, epistemicState, intentGraph, metrics
    a CONTINUUM interchange     schema "continuum.interchange/v1", kind "semantic_state", data {goal, plan, decisions, …}

Owns: reading them. Must never: carry over an approval that a person gave elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from adjourn.checkpoints.page import AgentReport, ReportedStep
from adjourn.errors import InvalidError
from adjourn.handover.foreign.work import (
    MAX_FILE_BYTES,
    MAX_STATEMENTS,
    ForeignWork,
    counted,
    name_from,
    prose,
    statements,
    word,
)
from adjourn.host.workspace import read_file
from adjourn.knowledge.cognition.store import CognitiveStore
from adjourn.knowledge.model.cognition import CognitiveCheckpoint
from adjourn.knowledge.model.documents import Tree, from_published, without
from adjourn.knowledge.model.record import COLLECTIONS, ContinuationRecord
from adjourn.knowledge.records import agent_notes
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log.canonical_json import canonical
from adjourn.log.event import timestamp
from adjourn.store.memory import MemoryStore
from adjourn.text.redact import redact_json
from adjourn.text.strict_json import check_text, check_values, count_keys

INTERCHANGE = "continuum.interchange/v1"
_ENVELOPE = (
    "id", "sequence", "contentHash", "merkleRoot", "parentCRHash", "mergeParentHashes", "checkpointId", "effectsThrough",
    "createdBy", "createdAt", "lastModifiedBy", "lastModifiedAt", "conflicts",
)  # fmt: skip
_DONE = ("completed", "verified")
_APPROVAL = ("approvedBy", "approvedAt", "consumedAt")
_DO_NOT = "name a Continuation Record, a cognitive checkpoint or a CONTINUUM interchange file"


def read(path: str) -> ForeignWork:
    """Read one document. Raises `InvalidError`, `NotFoundError`."""
    value = redact_json(_parsed(path, read_file(path, MAX_FILE_BYTES)))
    kind = kind_of(value)
    if not kind:
        raise InvalidError(f"{path} is none of the documents that can be imported", _DO_NOT)
    try:
        if kind == "record":
            return _record(value)
        return _mind(value) if kind == "checkpoint" else _state(value["data"])
    except InvalidError as error:
        raise InvalidError(f"{path}: {error.message}", error.remedy) from error
    except (msgspec.ValidationError, TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise InvalidError(f"{path} is malformed: {str(error)[:200]}", _DO_NOT) from error


def kind_of(value: Any) -> str:
    """`record`, `checkpoint` or `state`; "" for another document."""
    if not isinstance(value, dict):
        return ""
    if value.get("schema") == INTERCHANGE:
        return "state" if value.get("kind") == "semantic_state" and isinstance(value.get("data"), dict) else ""
    if isinstance(value.get("task"), dict) and ("resumePoints" in value or "questionsForUser" in value):
        return "record"
    return "checkpoint" if isinstance(value.get("epistemicState"), dict) and "intentGraph" in value else ""


def _parsed(path: str, data: bytes) -> Any:
    check_values(data, path)
    try:
        value = msgspec.json.decode(data)
        check_text(data, count_keys(value))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"{path} is not JSON: {error}", _DO_NOT) from error
    except InvalidError as error:
        raise InvalidError(f"{path}: {error.message}", error.remedy) from error
    return value


def _record(value: Tree) -> ForeignWork:
    tree = from_published(value, ContinuationRecord)
    record = without(tree, *_ENVELOPE)
    points = [_without_approval(resume_point) for resume_point in record.get("resumePoints", [])]
    if points:
        record["resumePoints"] = points
    # refused here, before anything is written
    fields = RecordTrees(MemoryStore()).create(record, cr_id="imported")
    goal = prose(fields["task"]["goal"], 4000)
    steps = [
        f"{resume_point['label']}: {'; '.join(resume_point['nextSteps'])}"
        for resume_point in fields["resumePoints"]
        if _is_open(resume_point)
    ]
    counts = [f"{name}: {counted(len(fields[name]), 'item')}" for name in COLLECTIONS if fields[name]]
    approved = sum(
        resume_point.get("approvalStatus") in ("approved", "auto-approved")
        for resume_point in value.get("resumePoints") or []
    )
    return ForeignWork(
        source="continuum",
        name=name_from(str(tree.get("id", "")), "continuum"),
        documents=(canonical(value),),
        goal=goal,
        description=prose(steps[0]) if steps else "",
        at=_stated_time(tree.get("lastModifiedAt")),
        record=record,
        report=_report(goal, prose(steps[0]) if steps else ""),
        kept=("the task with its criteria and status", *counts),
        left_out=(
            "id, hashes, chain and authors of the version: the record here begins a chain of its own, and names this document",
            "contentHash and merkleRoot: not verified",
            *([f"{counted(approved, 'approval')}: ask for them again"] if approved else []),
        ),
    )


def _stated_time(milliseconds: Any) -> str:
    """A time of a document as a time stamp; "" for what is none."""
    try:
        return timestamp(milliseconds) if isinstance(milliseconds, int) else ""
    except InvalidError:
        return ""


def _without_approval(point: Tree) -> Tree:
    """A resume point as it was before anyone approved it. What is denied stays denied."""
    if point.get("approvalStatus") not in ("approved", "auto-approved"):
        return point
    return {**without(point, *_APPROVAL), "approvalStatus": "pending"}


def _is_open(point: Tree) -> bool:
    return point["approvalStatus"] != "denied" and bool(point["nextSteps"])


def _report(goal: str, point: str) -> AgentReport:
    return AgentReport(mission=goal or UNSET, resumption_point=point or UNSET)


def _mind(value: Tree) -> ForeignWork:
    tree = from_published(value, CognitiveCheckpoint)
    scratch = CognitiveStore(MemoryStore(), "imported", triggers=())
    scratch.restore_from_checkpoint(tree, move_head=True)  # refused here, before anything is written
    epistemic_state, graph = tree["epistemicState"], tree["intentGraph"]
    root = next((one for one in graph["goals"] if one["id"] == graph["rootIntentId"]), None)
    goal = prose(root["description"], 4000) if root else prose(tree["label"])
    active = next((node["label"] for node in tree["nodes"] if node["status"] in ("active", "paused")), "")
    waiting = next((node["label"] for node in tree["nodes"] if node["status"] == "pending"), "")
    point = prose(f"Continue with: {active or waiting}") if active or waiting else ""
    return ForeignWork(
        source="continuum",
        name=name_from(str(tree["label"]), "continuum"),
        documents=(canonical(value),),
        goal=goal,
        description=point or prose(tree.get("description", "")),
        at=_stated_time(tree["timestamp"]),
        mind=tree,
        report=_report(goal, point),
        kept=(
            counted(len(tree["nodes"]), "node"),
            counted(len(epistemic_state["facts"]), "fact"),
            counted(len(epistemic_state["assumptions"]), "assumption"),
            counted(len(epistemic_state["openQuestions"]), "open question"),
            counted(len(epistemic_state["beliefs"]), "belief"),
            counted(len(graph["goals"]), "goal"),
        ),
        left_out=("other checkpoints and branches of its session",),
    )


def _state(data: Mapping[str, Any]) -> ForeignWork:
    goal = prose(data["goal"]["description"], 4000)
    constraints = statements(data["goal"].get("constraints") or [])
    plan, work = _dicts(data.get("plan")), _dicts(data.get("pending_work"))
    done = [row for row in plan if row.get("status") in _DONE]
    steps = [ReportedStep(text=text, status="done") for text in statements(row.get("description") for row in done)]
    todo = statements(row.get("description") for row in (*plan, *work) if row.get("status") not in (*_DONE, "invalid"))
    steps += [ReportedStep(text=text) for text in todo]
    decisions = tuple(
        agent_notes.NotedDecision(
            decision=prose(row.get("decision")) or "?",
            because=prose(row.get("reason")),
            status="tentative" if row.get("status") == "valid" else "rejected",
        )
        for row in _dicts(data.get("decisions"))[:MAX_STATEMENTS]
    )
    facts = statements(row.get("claim") for row in _dicts(data.get("findings")) if row.get("status") == "valid")
    depends = statements(
        f"Depends on {row.get('resource')} {row.get('version') or ''}: verify it"
        for row in _dicts(data.get("external_dependencies"))
    )
    approvals = len(_dicts(data.get("approvals")))
    return ForeignWork(
        source="continuum",
        name=name_from(str(data.get("run_id", "")), "continuum"),
        documents=(canonical(data),),
        goal=goal,
        description=todo[0] if todo else "",
        at=word(data.get("updated_at")),
        report=AgentReport(
            mission=goal,
            progress=tuple(steps[:MAX_STATEMENTS]) or (ReportedStep(text="Review what was done"),),
            resumption_point=todo[0] if todo else UNSET,
        ),
        note=agent_notes.AgentNote(
            facts=facts,
            assumptions=depends,
            decisions=decisions,
            learnings=tuple(
                agent_notes.NotedLearning(content=constraint, type="constraint") for constraint in constraints
            ),
        ),
        kept=(
            f"{counted(len(steps), 'step')} of the plan and the pending work",
            counted(len(decisions), "decision"),
            f"{counted(len(facts), 'finding')} as facts",
            f"{counted(len(depends), 'dependency')} as assumptions",
            counted(len(constraints), "constraint"),
        ),
        left_out=(
            "evidence, pins, the model's state and provenance: only in the document",
            "findings and steps that are marked invalid",
            *([f"{counted(approvals, 'approval')}: ask for them again"] if approvals else []),
        ),
    )


def _dicts(values: Any) -> list[dict[str, Any]]:
    found: Iterable[Any] = values if isinstance(values, list) else ()
    return [value for value in found if isinstance(value, dict)]
