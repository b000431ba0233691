"""Every reply fits a model's context: 4 KiB of text, or at most 256 KiB of JSON, still valid. Cursors continue a truncated one.

Must never: cut inside a value that can be left out whole, or hide that something was left out.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from adjourn.errors import AdjournError, HeldError, InvalidError, NotFoundError, RefusedError, StoreError, UsageError

MAX_REPLY = 262_144
MAX_TEXT = 4_096
"""Bytes of a reply as text, unless the question is for a text as a whole."""
_MAX_PER_LIST = 256
"""More items of a list never fit into `MAX_TEXT`."""
_MAX_REST = 16
"""How many files are named of the items that did not fit."""
MOST = {"definitions": 200, "references": 500, "results": 500, "symbols": 2_000}
"""Maximum number of items in lists of these names, even if more would fit; a cursor returns the rest."""
_ROOM = 1_024
_MAX_CURSOR = 2_048
_LONGEST = 2_000


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a truncated reply continues: of each list, its path in the reply and the number of items returned; and a hash of the call."""

    given: list[tuple[list[str], int]]
    question: str


def to_json(value: Any) -> str:
    """The text of a reply: indented JSON, without escaping non-ASCII characters."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, such as a file name that is not UTF-8 has, cannot be sent
        data = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return msgspec.json.format(data, indent=2).decode()


def size(value: Any) -> int:
    return len(to_json(value).encode())


def capped(
    result: dict[str, Any], question: Any = None, *, cursor: str | None = None, limit: int = MAX_REPLY
) -> dict[str, Any]:
    """The result itself if it fits; else a copy without some items of its longest lists, or of those named in `MOST`.

    `question` is the call (tool and arguments). A truncated reply has a `cursor`; the same call with
    the cursor continues the list. Raises `InvalidError` if the cursor belongs to another call.
    """
    before: list[tuple[list[str], int]] = []
    if cursor is not None:
        before = _decode(cursor, question).given
        result = _without_returned(result, before)
    if not _overlong_lists(result) and size(result) <= limit:
        return result
    reply = copy.deepcopy(result)
    room = limit - min(_ROOM, limit // 8) - min(_MAX_CURSOR, limit // 8)
    cuts = _cut_lists(reply, room, _overlong_lists(reply))
    if size(reply) > room:
        _shorten(reply, max(_LONGEST, room // 64))
    if size(reply) > room:
        reply = {key: value for key, value in reply.items() if value is None or isinstance(value, bool | int | float)}
    while size(reply) > room:
        reply.popitem()
    returned = sum(count_kept for _, count_kept, _ in cuts)
    total = max(sum(count for _, _, count in cuts), _total_of(result))
    reply |= {
        "truncated": True,
        "total_matches": total,
        "returned_matches": returned,
        "message": f"The reply is truncated: it has {returned:,} of {total:,} items. "
        "Narrow the question, or repeat the call with the cursor for the rest.",
    }
    if cuts:
        reply["cursor"] = _cursor(reply, [place for place, _, _ in cuts], before, question)
    return reply


def fitted(
    result: dict[str, Any],
    question: Any,
    cursor: str | None,
    render: Callable[[dict[str, Any]], str],
    most: int = MAX_TEXT,
) -> str:
    """A reply as text of at most `most` bytes: the first items that fit, the number of the others in each file, and a cursor."""
    before: list[tuple[list[str], int]] = []
    if cursor is not None:
        before = _decode(cursor, question).given
        result = _without_returned(result, before)
    low, high = 1, min(_MAX_PER_LIST, max((len(items) for _, items in _lists(result, [])), default=1))
    while low < high:
        middle = (low + high + 1) // 2
        if len(render(_first(result, middle, before, question)).encode()) <= most:
            low = middle
        else:
            high = middle - 1
    reply = _first(result, low, before, question)
    text = render(reply)
    if len(text.encode()) > most:  # one item is too long
        reply = copy.deepcopy(reply)
        _shorten(reply, most // 8, keep=("cursor",))
        text = render(reply)
    return text


def _first(result: dict[str, Any], count: int, before: list[tuple[list[str], int]], question: Any) -> dict[str, Any]:
    """A reply with at most `count` items of each list."""
    cuts = [(place, items) for place, items in _lists(result, []) if place and len(items) > count]
    reply: dict[str, Any] = _sliced(result, count)
    if not cuts:
        return reply
    total = max(sum(len(items) for _, items in cuts), _total_of(result))
    rest = Counter(file for _, items in cuts for item in items[count:] if (file := _file_of(item)))
    return reply | {
        "truncated": True,
        "total_matches": total,
        "returned_matches": count * len(cuts),
        **({"rest": dict(rest.most_common(_MAX_REST)), "rest_files": len(rest)} if rest.total() > len(rest) else {}),
        "cursor": _cursor(reply, [place for place, _ in cuts], before, question),
    }


def _sliced(value: Any, count: int) -> Any:
    if isinstance(value, list):
        return value[:count]
    return {name: _sliced(inner, count) for name, inner in value.items()} if isinstance(value, dict) else value


def _file_of(item: Any) -> str:
    file = item.get("file") or item.get("file_path") or "" if isinstance(item, dict) else ""
    return file if isinstance(file, str) else ""


def _cursor(reply: dict[str, Any], cut: list[list[str]], before: list[tuple[list[str], int]], question: Any) -> str:
    """The cursor after a reply. All lists of the name of one that was cut count, as those of several patterns: so each reply of a series
    has items that none before had.
    """
    counts = {tuple(place): count for place, count in before}
    names = {place[-1] for place in (*cut, *counts) if place}
    for place, items in _lists(reply, []):
        if place and place[-1] in names:
            counts[tuple(place)] = counts.get(tuple(place), 0) + len(items)
    cursor = Cursor([(list(place), count) for place, count in counts.items()], _digest(question))
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


def returned(cursor: str, name: str) -> int:
    """How many items of a list of the reply earlier replies returned, by their cursor; `capped` checks that it belongs to the call."""
    with suppress(InvalidError):
        return next((count for place, count in _read_cursor(cursor).given if place == [name]), 0)
    return 0


def _overlong_lists(result: dict[str, Any]) -> list[list[str]]:
    """The paths of lists that exceed their maximum in `MOST`."""
    return [place for place, items in _lists(result, []) if place and len(items) > MOST.get(place[-1], len(items))]


def _cut_lists(reply: dict[str, Any], room: int, long: list[list[str]]) -> list[tuple[list[str], int, int]]:
    """Shorten the long lists, then the longest until the reply fits. Returns path, items kept and total of each."""
    cuts = []
    lists = _lists(reply, [])
    counts = [len(items) for _, items in lists]
    for place, items in lists:
        if place in long:
            del items[MOST[place[-1]] :]
    for (place, items), count in sorted(zip(lists, counts, strict=True), key=lambda entry: -size(entry[0][1])):
        over = size(reply) - room
        if over > 0:
            del items[_that_fit(items, len(place) + 1, over) :]
        if len(items) < count:
            cuts.append((place, len(items), count))
    return cuts


def _without_returned(result: dict[str, Any], before: list[tuple[list[str], int]]) -> dict[str, Any]:
    """The result without the items that earlier replies returned."""
    remaining = copy.deepcopy(result)
    lists = {tuple(place): items for place, items in _lists(remaining, [])}
    for place, count in before:
        if tuple(place) not in lists:
            raise InvalidError("the answer changed since the cursor was made", "repeat the call without the cursor")
        del lists[tuple(place)][:count]
    return remaining


def _lists(value: Any, place: list[str]) -> list[tuple[list[str], list[Any]]]:
    """Lists of a result with their paths, without nested lists: an item is kept or dropped whole."""
    if isinstance(value, list):
        return [(place, value)] if value else []
    if isinstance(value, dict):
        return [entry for key, inner in value.items() for entry in _lists(inner, [*place, key])]
    return []


def _that_fit(items: list[Any], depth: int, over: int) -> int:
    """The number of leading items to keep when `over` bytes must be removed: at least one, or a cursor would not advance."""
    count = len(items)
    while count > 1 and over > 0:
        count -= 1
        text = to_json(items[count])
        over -= len(text.encode()) + 2 * depth * (text.count("\n") + 1) + 2
    return count


def _shorten(value: Any, most: int, keep: Sequence[str] = ()) -> None:
    """Truncate the long strings of a reply whose lists are already short."""
    entries = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, inner in entries:
        if key in keep:
            continue
        if isinstance(inner, str) and len(inner) > most:
            value[key] = f"{inner[:most]}… ({len(inner):,} characters)"
        else:
            _shorten(inner, most, keep)


def _total_of(result: dict[str, Any]) -> int:
    totals = [result.get(key) for key in ("total_matches", "total", "total_files", "total_results", "total_changes")]
    return max((n for n in totals if isinstance(n, int)), default=0)


def _digest(question: Any) -> str:
    return hashlib.sha256(json.dumps(question, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _read_cursor(cursor: str) -> Cursor:
    decoded = None
    if len(cursor) <= _MAX_CURSOR:
        with suppress(ValueError, msgspec.DecodeError):
            decoded = msgspec.json.decode(base64.urlsafe_b64decode(cursor.encode()), type=Cursor)
    if decoded is None or any(count < 0 for _, count in decoded.given):
        raise InvalidError("invalid cursor", "pass the cursor of a reply unchanged")
    return decoded


def _decode(cursor: str, question: Any) -> Cursor:
    decoded = _read_cursor(cursor)
    if decoded.question != _digest(question):
        raise InvalidError(
            "the cursor belongs to another question",
            "repeat the call that returned the cursor, with the same arguments",
        )
    return decoded


_CODES: tuple[tuple[type[AdjournError], str], ...] = (
    (HeldError, "session_held"),
    (RefusedError, "refused"),
    (NotFoundError, "not_found"),
    (InvalidError, "invalid_arguments"),
    (UsageError, "invalid_arguments"),
    (StoreError, "store_failed"),
)


def write_reply(
    reply: dict[str, Any],
    question: Any = None,
    cursor: str | None = None,
    *,
    render: Callable[[dict[str, Any]], str] | None = None,
    whole: bool = False,
    limit: int = MAX_REPLY,
) -> tuple[str, bool]:
    """A reply as it is sent, and whether it reports a failure. `render` makes the text of a result; without it, and for errors, JSON is
    sent. A reply that is asked for as a `whole` has the size cap of JSON.
    """
    if render is None or whole or "error" in reply:
        result = capped(reply, question, cursor=cursor, limit=limit)
        return (to_json if "error" in reply or render is None else render)(result), is_failure(reply)
    return fitted(reply, question, cursor, render), False


def is_failure(reply: dict[str, Any]) -> bool:
    """Whether a reply reports a failed call. A refusal (`allowed`) is an answer, not a failure."""
    return "error" in reply and "allowed" not in reply


def error_of(error: AdjournError) -> dict[str, Any]:
    code = next((code for kind, code in _CODES if isinstance(error, kind)), "failed")
    return {"error": code, "message": error.message, **({"hint": error.remedy} if error.remedy else {})}
