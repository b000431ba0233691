"""The input of a brief, and its sections 1 to 6: header, warnings, mission, next step, what not to repeat, what to verify first.

The most important item comes first. `compose` bounds the length, and keeps a text of the record from passing for ours.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from adjourn.knowledge.cognition.checkpoints import HOUR, STALE_HOURS
from adjourn.knowledge.model.documents import Tree, by_id
from adjourn.knowledge.records.interventions import consumption_key, obstacles, usable_resume_points, who
from adjourn.knowledge.records.versions import ChainVerification
from adjourn.log.canonical_json import canonical
from adjourn.log.event import timestamp
from adjourn.text.quoting import one_line

# --- the input of a brief, and the words that all sections share

Item = tuple[str, ...]
"""One item of a section: one or more parts, each on a new line."""
_MINUTE = 60_000
_LAST_TIME = 253_402_300_799_999


class BriefContext(NamedTuple):
    """The record and the checkpoint of a brief. Without a record, `record` is an empty one. `stale` says why facts are, by their ids."""

    record: Tree
    checkpoint: Tree | None
    now: int
    consumed: Container[str]
    has_record: bool
    stale: Mapping[str, str] = {}

    @property
    def written_at(self) -> int:
        at: int = self.checkpoint["timestamp"] if self.checkpoint else self.record["lastModifiedAt"]
        return at

    def is_consumed(self, point: Tree) -> bool:
        """Whether the approval of a resume point was used."""
        return point["approvalStatus"] in ("approved", "auto-approved") and (
            "consumedAt" in point or consumption_key(self.record, point["id"]) in self.consumed
        )

    @property
    def nodes(self) -> Sequence[Tree]:
        return self.checkpoint["nodes"] if self.checkpoint else ()

    @property
    def known(self) -> Tree:
        empty: Tree = {"facts": [], "assumptions": [], "openQuestions": [], "beliefs": []}
        return self.checkpoint["epistemicState"] if self.checkpoint else empty

    @property
    def graph(self) -> Tree:
        return self.checkpoint["intentGraph"] if self.checkpoint else {"goals": [], "rootIntentId": ""}


def author_of(author: Tree) -> str:
    model = f", {author['model']}" if author.get("model") else ""
    return f"{one_line(author.get('name') or author['id'])} ({author['type']}{model})"


def when(milliseconds: int) -> str:
    return timestamp(milliseconds) if milliseconds <= _LAST_TIME else "after the year 9999"


def duration(milliseconds: int) -> str:
    for unit, size in (("day", 24 * HOUR), ("hour", HOUR), ("minute", _MINUTE), ("second", 1000)):
        if milliseconds >= 2 * size or unit == "second":
            number = milliseconds // size
            return f"{number} {unit}{'' if number == 1 else 's'}"
    raise AssertionError


# --- 1, 2: what this is, and what to beware of


def header(matter: BriefContext, verified: ChainVerification | None) -> Iterator[Item]:
    record, checkpoint = matter.record, matter.checkpoint
    if checkpoint:
        yield (f"checkpoint {checkpoint['id']}: {checkpoint['label']} (branch {checkpoint['branchId']})",)
    if matter.has_record:
        yield (f"record {record['id']}, version {record['sequence']} ({record['contentHash'][:12]})",)
        yield (f"written by {author_of(record['lastModifiedBy'])}",)
    yield (f"written at {when(matter.written_at)}, {_age(matter.now - matter.written_at)}",)
    if matter.has_record:
        yield (f"chain verified: {_verified(verified)}",)


def warnings(matter: BriefContext, verified: ChainVerification | None, given: Sequence[str]) -> Iterator[Item]:
    record, hours = matter.record, (matter.now - matter.written_at) / HOUR
    if verified is not None and not verified.valid:
        yield (f"the record's chain fails verification ({verified.reason}): do not rely on it, and tell a person",)
    if hours > STALE_HOURS:
        yield (f"this is older than {STALE_HOURS} hours: verify the state outside before anything else",)
    elif hours < 0:
        yield ("this is dated in the future: a clock is wrong",)
    yield from ((text,) for text in given)
    if record.get("conflicts"):
        yield (f"{len(record['conflicts'])} conflicts of a merge are unresolved: ask before you rely on them",)
    for item in record["invariants"]:
        if item["status"] == "violated":
            yield (f"invariant {item['id']} ({item['severity']}) is violated: {item['description']}", *evidence(item))
    for question in record["questionsForUser"]:
        if question["status"] in ("expired", "skipped") and question["priority"] != "blocking":
            yield (f"question {question['id']} was {question['status']}, not answered: {question['question']}",)


# --- 3, 4: where to go


def mission(matter: BriefContext) -> Iterator[Item]:
    goals = by_id(matter.graph["goals"])
    root = goals.get(matter.graph["rootIntentId"], {})
    task = matter.record["task"]
    yield (task["goal"] or root.get("description", "not recorded"),)
    yield from ((f"done when: {criterion}",) for criterion in task["successCriteria"])


def next_step(matter: BriefContext) -> list[Item]:
    record = matter.record
    if record["task"]["status"] == "completed":
        return [("nothing: the task is completed",)]
    usable = usable_resume_points(record, consumed=matter.consumed)
    if usable:
        return [steps_of(point) for point in usable]
    return list(awaited(matter)) or from_nodes(matter) or [("no step is recorded: continue towards the mission",)]


def steps_of(point: Tree) -> Item:
    how = f"{point['approvalStatus']} by {author_of(point['approvedBy'])}"
    return (
        f"resume point {point['id']}: {point['label']} ({how})",
        *((point["description"],) if point["description"] else ()),
        *_conditions(point),
    )


def _conditions(point: Tree) -> Iterator[str]:
    """What must be true before a resume point's steps start, and the steps."""
    yield from (f"make sure: {text}" for text in (point["when"], *point["preconditions"]) if text)
    yield from (f"{number}. {step}" for number, step in enumerate(point["nextSteps"], 1))


def evidence(invariant: Tree) -> Iterator[str]:
    """What the last check of an invariant found."""
    if invariant.get("evidence"):
        yield f"evidence: {invariant['evidence']}"


def awaited(matter: BriefContext) -> Iterator[Item]:
    """Why no resume point can be used, and who must act."""
    for point in matter.record["resumePoints"]:
        name = f"resume point {point['id']}: {point['label']}"
        why = "; ".join(obstacles(matter.record, point["id"]))
        if point["approvalStatus"] == "pending":
            waits = f"{name} waits for the approval of {who(point['requiredAuthority'])}"
            yield (waits + (f"; before that: {why}" if why else ""), *_conditions(point))
        elif point["approvalStatus"] == "denied":
            yield (f"{name} was denied: {point.get('deniedReason', '')}", *_alternatives(point))
        elif not matter.is_consumed(point):
            yield (f"{name} is approved, but: {why}",)


def _alternatives(point: Tree) -> Iterator[str]:
    for path in point.get("alternativePaths", ()):
        yield f"instead, if {path['condition']}: {'; '.join(path['steps'])}"


def from_nodes(matter: BriefContext) -> list[Item]:
    """Without resume points: the active nodes, else the paused ones, else the next pending one."""
    for status in ("active", "paused", "pending"):
        nodes = [node for node in matter.nodes if node["status"] == status]
        if nodes:
            return [
                node_item(node, f"continue what is {status}: ")
                for node in (nodes[:1] if status == "pending" else nodes)
            ]
    return []


# --- 5, 6: what is done, and what may be


def do_not_repeat(matter: BriefContext) -> Iterator[Item]:
    for effect in matter.record["toolEffects"]:
        if effect.get("status", "completed") != "completed" or _is_unnamed(effect):
            continue
        if not effect["isReplayable"]:
            yield (f"done: {_effect(effect)}", *(f"changed: {text}" for text in effect["sideEffects"]))
        else:
            yield from ((f"exists: {text}",) for text in effect["sideEffects"])


def verify_first(matter: BriefContext) -> Iterator[Item]:
    for effect in matter.record["toolEffects"]:
        error = (effect["error"],) if effect.get("error") else ()
        if effect.get("status") in ("claimed", "unknown"):
            yield (f"started, outcome unknown ({effect['status']}): {_effect(effect)}", *error)
        elif effect.get("status") == "failed" and not effect["isReplayable"] and not _is_unnamed(effect):
            yield (f"failed, ask before you try again: {_effect(effect)}", *error)
    for point in matter.record["resumePoints"]:
        if matter.is_consumed(point):
            yield ("these steps were started: check how far they got", *steps_of(point))
    for node in matter.nodes:
        if "toolBinding" in node and not node["toolBinding"]["inputsComplete"]:
            yield _binding(node)
    for item in matter.record["invariants"]:
        if item["status"] == "unknown" or item.get("lastCheckedAt", -1) < matter.written_at:
            yield (f"invariant {item['id']} ({item['severity']}) was not checked since: {item['description']}",)


def _is_unnamed(effect: Tree) -> bool:
    """Whether an effect is a session's call that no `once` rule covers: it may be repeated."""
    return "session" in effect and "idempotencyKey" not in effect


def _binding(node: Tree) -> Item:
    binding = node["toolBinding"]
    return (
        f"node {node['id']} has an incomplete call of {binding['toolName']}, with {_json(binding['inputs'])}",
        *(
            f"not {alternative['toolName']}: {alternative['reason']}"
            for alternative in binding.get("rejectedAlternatives", ())
        ),
    )


# --- words


def node_item(node: Tree, before: str) -> Item:
    first = f"{before}{node['label']} ({node['type']}, {node['phase']})"
    if node["status"] == "completed":
        return (first,)
    return (
        first,
        *((node["description"],) if node.get("description") else ()),
        *(f"assumes: {text}" for text in node["assumptions"]),
        *(f"open: {text}" for text in node["openQuestions"]),
    )


def _effect(effect: Tree) -> str:
    key = f", key {effect['idempotencyKey']}" if "idempotencyKey" in effect else ""
    return f"{effect['toolName']} {effect['operation']} with {_json(effect['inputs'])} (effect {effect['id']}{key})"


def _json(value: Tree) -> str:
    return one_line(canonical(value).decode())


def _verified(verified: ChainVerification | None) -> str:
    if verified is None:
        return "not looked at"
    if verified.valid:
        return f"yes, {verified.checked} versions"
    return f"no: {verified.reason} at {(verified.broken_at or '')[:12]}"


def _age(milliseconds: int) -> str:
    return "in the future" if milliseconds < 0 else f"{duration(milliseconds)} ago"
