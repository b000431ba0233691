"""A checkpoint folder in the published format: checkpoint.json without a signature, and audit.jsonl if it has one.

    checkpoint.json   name, description?, timestamp, callsUsed, budget?, toolHistory [{tool, timestamp, decision, reason?}]
    audit.jsonl       one {event, data, timestamp} a line

`toolHistory` covers all sessions, audit.jsonl only the last one: of a decision that both have, the one of `toolHistory` counts.

Owns: reading them. Must never: take a value that is out of range, or count fewer calls than the history has.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from adjourn.checkpoints import MAX_DESCRIPTION, NO_REPORT, AgentReport, folder
from adjourn.errors import InvalidError, NotFoundError
from adjourn.handover.foreign.work import (
    MAX_ENTRIES,
    MAX_FILE_BYTES,
    MAX_LINE,
    ForeignWork,
    counted,
    prose,
    word,
)
from adjourn.host import check_name, read_file
from adjourn.log import kinds
from adjourn.text import check_text, check_values, count_keys, preview

MAX_CALLS = 10**9
MAX_LINE_BYTES = 64 * 1024
_REASONS = {"budget.exhausted": "budget_exhausted", "confirm.required": "confirm_required"}
_DO_NOT = "do not resume from it"


class _Call(msgspec.Struct, frozen=True):
    """An entry of `toolHistory`."""

    tool: str
    decision: Literal["forward", "block"]
    timestamp: str = ""
    reason: str | None = None


class _Line(msgspec.Struct, frozen=True):
    """A line of audit.jsonl."""

    event: str
    data: dict[str, Any] | None = None
    timestamp: str = ""


def read(directory: str) -> ForeignWork:
    """Read the folder of a checkpoint with the published fields only. Raises `InvalidError`, `NotFoundError`."""
    stored = folder.read_published(directory)
    file = stored.file
    if file.adjourn is not None:
        raise InvalidError(f"{directory} is signed by adjourn", "import the folder, which is verified first")
    check_name(file.name)
    if len(file.description) > MAX_DESCRIPTION:
        raise InvalidError(
            f"{directory}: the description is too long: {len(file.description)} characters (limit {MAX_DESCRIPTION})",
            "shorten it",
        )
    if not 0 <= file.calls_used <= MAX_CALLS or (
        file.budget is not None and not 0 <= file.budget <= MAX_CALLS
    ):
        raise InvalidError(f"{directory}: callsUsed or budget is outside 0 … {MAX_CALLS}", _DO_NOT)
    calls = [_called(one) for one in _history(directory, file.tool_history)]
    audit = _audit(directory)
    lines = _lines(os.path.join(directory, folder.AUDIT_FILE), audit)
    entries = _in_order([*calls, *_further(lines, calls)])
    spent = max(file.calls_used, sum(one.decision == "forward" for one in entries))
    kept = [counted(spent, "spent call"), counted(len(calls), "entry") + " of toolHistory"]
    kept += [f"the budget of {counted(file.budget, 'call')}"] if file.budget is not None else []
    kept += [f"{counted(len(lines), 'line')} of audit.jsonl"] if audit else []
    left_out = [] if audit else ["audit.jsonl: the folder has none"]
    if spent > file.calls_used:
        left_out.append(f"callsUsed {file.calls_used}: the history has {counted(spent, 'call')}, which count")
    if len(entries) > MAX_ENTRIES:
        left_out.append(f"{counted(len(entries) - MAX_ENTRIES, 'oldest entry')}: only in the kept files")
    return ForeignWork(
        source="aex",
        name=file.name,
        documents=(stored.data, *([audit] if audit else [])),
        goal=prose(file.description, MAX_DESCRIPTION),
        description=prose(file.description, MAX_DESCRIPTION),
        at=word(file.timestamp),
        calls=spent,
        budget=file.budget,
        entries=tuple(entries[-MAX_ENTRIES:]),
        report=AgentReport(resumption_point=prose(file.description))
        if prose(file.description)
        else NO_REPORT,
        kept=tuple(kept),
        left_out=tuple(left_out),
    )


def _history(directory: str, entries: list[dict[str, Any]]) -> list[_Call]:
    try:
        return msgspec.convert(entries, list[_Call])
    except msgspec.ValidationError as error:
        raise InvalidError(
            f"{os.path.join(directory, folder.JSON_FILE)}: toolHistory is malformed: {error}", _DO_NOT
        ) from error


def _called(one: _Call) -> kinds.EntryImported:
    event = "tool.allowed" if one.decision == "forward" else "tool.denied"
    return kinds.EntryImported(
        at=word(one.timestamp),
        decision=one.decision,
        entry=event,
        reason=word(one.reason, MAX_LINE),
        tool=word(one.tool),
    )


def _audit(directory: str) -> bytes:
    try:
        return read_file(os.path.join(directory, folder.AUDIT_FILE), MAX_FILE_BYTES)
    except NotFoundError:
        return b""


def _lines(path: str, data: bytes) -> list[kinds.EntryImported]:
    """The lines of audit.jsonl as entries; blank ones are skipped. Raises `InvalidError` with the number of a bad line."""
    check_values(data, path)
    found = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(_read_line(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidError) as error:
            message = error.message if isinstance(error, InvalidError) else str(error)
            raise InvalidError(
                f"line {number} of {path} is malformed: {message}", "correct the line, or remove the file"
            ) from error
    return found


def _read_line(line: bytes) -> kinds.EntryImported:
    if len(line) > MAX_LINE_BYTES:
        raise InvalidError(f"it has more than {MAX_LINE_BYTES} bytes")
    check_text(line, count_keys(msgspec.json.decode(line)))
    return _told(msgspec.json.decode(line, type=_Line))


def _told(line: _Line) -> kinds.EntryImported:
    data = line.data or {}
    decision: Literal["", "forward", "block"] = ""
    reason = data.get("reason") or _REASONS.get(line.event, "")
    if line.event == "tool.allowed":
        decision = "forward"
    elif line.event == "tool.denied" or line.event in _REASONS:
        decision = "block"
    elif rest := {name: value for name, value in data.items() if name != "tool"}:
        reason = preview(rest, MAX_LINE)
    return kinds.EntryImported(
        at=word(line.timestamp),
        decision=decision,
        entry=word(line.event),
        reason=word(reason, MAX_LINE),
        tool=word(data.get("tool")),
    )


def _further(
    lines: Iterable[kinds.EntryImported], calls: Iterable[kinds.EntryImported]
) -> Iterable[kinds.EntryImported]:
    """The lines that say more than `toolHistory`: events that are no decisions on a call, and decisions that it lacks."""
    known = Counter((one.tool, one.decision) for one in calls)
    for line in lines:
        if not line.decision:
            yield line
        elif known[(line.tool, line.decision)] > 0:
            known[(line.tool, line.decision)] -= 1
        else:
            yield line


def _in_order(entries: list[kinds.EntryImported]) -> list[kinds.EntryImported]:
    """The entries by their times, if all of them state one; else as they are."""
    try:
        return sorted(entries, key=lambda one: _time(one.at))
    except (ValueError, OverflowError):
        return entries


def _time(stamp: str) -> datetime:
    found = datetime.fromisoformat(stamp)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
