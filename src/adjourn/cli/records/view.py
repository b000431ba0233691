"""What a record says, and how two of them differ, for people.

Owns: the wording and order. Must never: read a store, or decide what to show of what is contested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from adjourn.cli.records.select import stamp
from adjourn.cli.shared.output import cut, safe, say, say_facts
from adjourn.cli.shared.terminal import width
from adjourn.knowledge.model import COLLECTIONS, CRChange, CRConflict, CRDiff, Tree, parts_of
from adjourn.knowledge.records import OPERATION, THROUGH, omitted_count
from adjourn.text import ago

_TITLES = {
    "task": "Mission",
    "decisions": "Decisions",
    "learnings": "Learnings",
    "questionsForUser": "Questions",
    "resumePoints": "Resume points",
    "blockers": "Blockers",
    "invariants": "Invariants",
    "toolEffects": "Effects",
    "executionSummary": "Progress",
    "metadata": "Planning",
    "conflicts": "Unresolved",
}
"""The parts of a record in the order in which they are shown."""
_TEXT = {
    "decisions": "description", "learnings": "content", "questionsForUser": "question", "resumePoints": "label",
    "blockers": "description", "invariants": "description", "toolEffects": "toolName",
}  # fmt: skip
_MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "modified": ("~", "yellow")}


def summary(found: CRDiff) -> str:
    """`1 decision, 2 questions`: what differs, in a few words; `nothing` for the same."""
    counts: dict[str, int] = {}
    for name, count in found.summary.items():
        counts[name] = count.added + count.removed + count.modified
    for change in found.changes:
        name = parts_of(change.path)[0]
        if name != THROUGH:
            counts.setdefault(name, 1)
    parts = [_counted(_TITLES.get(name, name).lower(), counts[name], name) for name in _ordered(counts)]
    return ", ".join(parts) or "nothing"


def say_diff(found: CRDiff) -> None:
    """The changes, part by part."""
    by_part: dict[str, list[CRChange]] = {}
    for change in found.changes:
        by_part.setdefault(parts_of(change.path)[0], []).append(change)
    by_part.pop(THROUGH, None)  # which events were read for it
    for part in _ordered(by_part):
        say(f"\n{_TITLES.get(part, part)}", "bold")
        # The history says when something was done; that is left out here, unless it is all there is.
        plain = [change for change in by_part[part] if not change.path.endswith("At")]
        for change in plain or by_part[part]:
            mark, colour = _MARKS[change.kind]
            for number, line in enumerate(_change(part, change)):
                say(cut(f"  {mark if not number else ' '} {line}", width()), colour)


def say_conflicts(conflicts: Iterable[CRConflict]) -> None:
    """The changes of both sides, and how they were resolved."""
    for conflict in conflicts:
        say(
            f"\n{safe(conflict.path)}: {_OUTCOME[conflict.resolution]}",
            "red" if _open(conflict) else "yellow",
        )
        sides = (("base", conflict.base), ("a", conflict.a), ("b", conflict.b))
        say_facts(*[(f"  {name}", "absent" if value is UNSET else brief(value)) for name, value in sides])


def say_record(record: Tree, now: int) -> None:
    """A record, in the order in which the next agent needs it."""
    task = record["task"]
    by = record["lastModifiedBy"]
    say(f"{safe(task['status'])}: {safe(task['goal'])}", "bold")
    summary_ = record["executionSummary"]
    say_facts(
        ("  record", f"{record['id']} version {record['sequence']}"),
        ("  hash", record["contentHash"]),
        ("  written", f"{ago(stamp(record['lastModifiedAt']), now)} by {by['id']} ({by['type']})"),
        ("  done when", "; ".join(task["successCriteria"])),
        ("  steps", f"{summary_['stepsCompleted']} done, {summary_['stepsFailed']} failed"),
    )
    for part in _ordered(COLLECTIONS):
        lines = [line for item in record[part] for line in _item(part, item)]
        if lines:
            say(f"\n{_TITLES[part]}", "bold")
            for line in lines:
                say(cut(f"  {line}", width()))
        if part == "toolEffects" and (rest := omitted_count(record)):
            say(f"  and {rest:,} older settled ones: adjourn log")
    for conflict in record.get("conflicts", ()):
        say(f"\nunresolved: {safe(conflict['path'])}", "red")


def brief(value: Any) -> str:
    """A value in a line."""
    if isinstance(value, str):
        return safe(value)
    if (
        isinstance(value, dict)
        and value.keys() >= {"id", "type"}
        and len(value) <= 5
        and "status" not in value
    ):
        return safe(str(value["id"]))  # an author
    if isinstance(value, dict) and value.keys() >= {"author", "decision", "rationale"}:
        return _variant(value)
    if isinstance(value, dict):
        for name in ("description", "content", "question", "label", "toolName", "path"):
            if isinstance(value.get(name), str):
                return safe(value[name]) + (f" ({safe(_status(value))})" if _status(value) else "")
    return safe(msgspec.json.encode(value).decode())


_OUTCOME = {
    "a": "took a's",
    "b": "took b's",
    "both": "kept both",
    "contested": "contested: all variants are kept",
    "unresolved": "UNRESOLVED",
}


def _open(conflict: CRConflict) -> bool:
    return conflict.resolution == "unresolved"


def _change(part: str, change: CRChange) -> Iterator[str]:
    parts = parts_of(change.path)
    name = ".".join(safe(one) for one in parts[1:])
    if part in COLLECTIONS and len(parts) == 2:
        yield f"{name}  {brief(change.after if change.kind != 'removed' else change.before)}"
        return
    value = change.before if change.kind == "removed" else change.after
    if isinstance(value, list) and change.kind != "modified":
        yield from [f"{name}:", *(f"  {brief(one)}" for one in value)] if name else map(brief, value)
        return
    if change.kind == "modified":
        before, after = brief(change.before), brief(change.after)
        if len(name) + len(before) + len(after) + 8 <= width():
            yield f"{name}: {before} → {after}"
        else:
            yield f"{name}:"
            yield f"  was  {before}"
            yield f"  is   {after}"
        return
    yield f"{name}: {brief(value)}".removeprefix(": ")


def _item(part: str, item: Tree) -> Iterator[str]:
    status = _status(item)
    text = safe(str(item[_TEXT[part]]))
    if part == "toolEffects":
        does = safe(item["operation"])
        text = (
            f"{text} {safe(str(item['inputs'].get('redacted', '')))}".rstrip()
            if does == OPERATION
            else f"{text} {does}"
        )
    yield f"{safe(item['id'])}  {text}{f' ({safe(status)})' if status else ''}"
    if part == "decisions":
        yield from (f"    {_variant(one)}" for one in item.get("variants", ()) if status == "contested")
    if part == "questionsForUser" and status == "answered":
        yield f"    {safe(item['answeredBy']['id'])}: {safe(item['answer'])}"
    if part == "resumePoints":
        yield from (f"    {number}. {safe(step)}" for number, step in enumerate(item["nextSteps"], 1))


def _variant(variant: Tree) -> str:
    return f"{safe(variant['author']['id'])}: {safe(variant['decision'])} ({safe(variant['rationale'])})"


def _status(item: Tree) -> str:
    return str(item.get("approvalStatus", item.get("status", "")))


def _ordered(names: Iterable[str]) -> list[str]:
    order = list(_TITLES)
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))


def _counted(title: str, count: int, name: str) -> str:
    if name not in COLLECTIONS:
        return title
    return f"{count} {title.removesuffix('s') if count == 1 else title}"
