"""What a successor would be given without a hand-over, from the same history and in the same room.

Owns: these texts. Must never: leave out what the peer would have had room for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from textwrap import indent
from typing import Any

from evaluation.catalogue import Played

Line = dict[str, Any]
_PUBLISHED = {
    "tool.denied", "tool.allowed", "budget.exhausted", "confirm.required", "confirm.auto_approved", "meta.handled",
    "upstream.error", "upstream.crashed",
}  # fmt: skip
_MEMBERS = ("tool", "reason", "used", "limit", "message", "code", "signal")
_DIGEST = 64


def peers(played: Played) -> dict[str, Callable[[int], str]]:
    """By name: what is given in so many bytes."""
    log = history(played)
    lines = [json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in log]
    return {
        "whole log, cut": lambda room: _ends(lines, room),
        "last events": lambda room: "\n".join(_newest(lines, room, _size)),
        "published aex.resume": lambda room: published(played, log, room),
    }


def history(played: Played) -> list[Line]:
    """The events of the task, as far as they can be read: no digests. A settlement repeats the call that it settles."""
    folder = played.home.base / "published" / played.checkpoint / "audit.jsonl"
    if folder.exists():  # of the program that made it
        return [json.loads(line) for line in folder.read_text("utf-8").splitlines()]
    calls: dict[str, Line] = {}
    lines: list[Line] = []
    for event in played.home.events(played.home.task_of(played.checkpoint)):
        found = json.loads(bytes(event.data))
        data = {name: value for name, value in found.items() if not _is_digest(value)}
        if event.event == "tool.allowed":
            calls[data["call"]] = {name: data[name] for name in ("tool", "arguments") if name in data}
        lines.append(
            {"event": event.event, "data": calls.get(data.get("call", ""), {}) | data, "timestamp": event.timestamp}
        )
    return lines


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and len(value) == _DIGEST and " " not in value


def published(played: Played, log: Iterable[Line], room: int) -> str:
    """The answer of the published `aex.resume`, with the newest lines of its audit log that fit; "" without a checkpoint."""
    imported = played.home.base / "published" / played.checkpoint / "checkpoint.json"
    path = played.home.root / ".aex" / "checkpoints" / played.checkpoint / "checkpoint.json"
    path = imported if imported.exists() else path
    if not path.exists():
        return ""
    kept = json.loads(path.read_text("utf-8"))
    answer: Line = {"name": kept["name"]}
    if kept.get("description"):
        answer["description"] = kept["description"]
    answer["toolsCalled"] = list(dict.fromkeys(one["tool"] for one in kept["toolHistory"]))
    answer["callsUsed"] = kept["callsUsed"]
    if "budget" in kept:
        answer["budgetRemaining"] = kept["budget"] - kept["callsUsed"]
    audit = list(_audited(log, kept["timestamp"]))
    answer["auditSummary"] = []
    left = room - _size(_shown(answer)) - 8
    answer["auditSummary"] = _newest(audit, left, lambda line: _size(indent(_shown(line), "    ") + ","))
    return _shown(answer)


def _audited(log: Iterable[Line], until: str) -> Iterator[Line]:
    for line in log:
        if line["event"] in _PUBLISHED and line["timestamp"] <= until:
            data = {name: line["data"][name] for name in _MEMBERS if name in line["data"]}
            yield {"event": line["event"], "data": data, "timestamp": line["timestamp"]}


def _shown(value: Line) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _size(line: str) -> int:
    return len(line.encode()) + 1


def _newest(lines: list[Any], room: int, size: Callable[[Any], int]) -> list[Any]:
    kept: list[Any] = []
    for line in reversed(lines):
        room -= size(line)
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]


def _ends(lines: list[str], room: int) -> str:
    """The beginning and the end of a log, each in half of the room."""
    if sum(map(_size, lines)) <= room:
        return "\n".join(lines)
    head = _newest(lines[::-1], room // 2, _size)[::-1]
    return "\n".join([*head, "…", *_newest(lines[len(head) :], room // 2 - 4, _size)])
