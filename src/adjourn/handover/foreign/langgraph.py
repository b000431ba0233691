"""A thread of LangGraph, from the SQLite file of langgraph-checkpoint-sqlite.

    checkpoints(thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
    writes(thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value)

The newest checkpoint of a thread's root graph is read, from a copy of the file. Its objects are data: no class is imported, nothing
is unpickled or called.

Owns: reading that file, within bounds. Must never: write to it, or run SQL of its schema for longer than `MAX_SECONDS`.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from adjourn.checkpoints.page import AgentReport, ReportedStep
from adjourn.errors import InvalidError, NotFoundError
from adjourn.handover.foreign.work import (
    MAX_LINE,
    MAX_STATEMENTS,
    ForeignWork,
    counted,
    name_from,
    prose,
    statements,
    word,
)
from adjourn.host.workspace import open_regular
from adjourn.knowledge.records import agent_notes
from adjourn.log import kinds
from adjourn.log.canonical_json import MAX_SAFE_INTEGER, canonical
from adjourn.text.redact import preview, redact_json
from adjourn.text.strict_json import check_values, count_keys

MAGIC = b"SQLite format 3\0"
MAX_DATABASE_BYTES = 256 * 1024 * 1024
MAX_VALUE_BYTES = 16 * 1024 * 1024
MAX_WRITES = 1000
MAX_SECONDS = 10.0
MAX_SHOWN = 10
MAX_DEPTH = 64
MAX_VALUES = 500_000
MAX_KEY = 200
"""Characters of a key that is no text."""
_CHUNK = 1024 * 1024
_GOALS = ("goal", "task", "objective", "mission", "input", "query", "question")
_ONE_ARGUMENT, _ARGUMENTS, _MEMBERS, _METHOD, _MODEL_1, _MODEL_2, _ARRAY, _SNAPSHOT = range(8)
"""The extension types of LangGraph's serializer."""
_PLAIN = frozenset(
    ("builtins", "collections", "datetime", "decimal", "fractions", "ipaddress", "pathlib", "uuid", "zoneinfo")
)
_BRANCH = "branch:to:"
_DO_NOT = "name a file that SqliteSaver of langgraph-checkpoint-sqlite wrote"


def read(path: str, thread: str = "") -> ForeignWork:
    """Read the newest checkpoint of a thread: the named one, or the only one of the file. Raises `InvalidError`, `NotFoundError`."""
    with _opened(path) as database:
        text = _thread(database, thread, path)
        rows = database.execute(
            "SELECT checkpoint_id, type, checkpoint, metadata FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = '' "
            "ORDER BY checkpoint_id DESC LIMIT 1",
            (text,),
        ).fetchall()
        if not rows:
            raise NotFoundError(f"{path}: thread {text[:100]!r} has no checkpoint of its root graph", _DO_NOT)
        newest, kind, data, metadata = rows[0]
        writes = database.execute(
            "SELECT channel, type, value FROM writes WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ? "
            "ORDER BY task_id, idx LIMIT ?",
            (text, newest, MAX_WRITES),
        ).fetchall()
    checkpoint = _decoded(kind, data)
    if not isinstance(checkpoint, dict):
        raise InvalidError(f"{path}: the checkpoint of thread {text[:100]!r} is not a map", _DO_NOT)
    values = checkpoint.get("channel_values")
    about = _metadata(metadata)
    waiting = [(str(channel), _decoded(kind, value)) for channel, kind, value in writes]
    return _work(text, checkpoint, values if isinstance(values, dict) else {}, about, waiting)


# --- the file


@contextmanager
def _opened(path: str) -> Iterator[sqlite3.Connection]:
    """A connection to a copy of the file and its write-ahead log, in which only these two tables can be read."""
    with tempfile.TemporaryDirectory(prefix="adjourn-import-") as folder:
        copy = os.path.join(folder, "copy.sqlite")
        _copy(path, copy)
        with suppress(NotFoundError):
            _copy(f"{path}-wal", f"{copy}-wal")
        deadline = time.monotonic() + MAX_SECONDS
        with closing(sqlite3.connect(copy)) as database:
            try:
                database.execute("PRAGMA trusted_schema = OFF")
                database.execute("PRAGMA query_only = ON")
                database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
                database.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
                check_schema(database, path)
                yield database
            except sqlite3.Error as error:
                raise InvalidError(f"{path} cannot be read: {error}", _DO_NOT) from error


def _copy(path: str, target: str) -> None:
    with os.fdopen(open_regular(path, MAX_DATABASE_BYTES), "rb") as source, open(target, "xb") as copy:
        left = MAX_DATABASE_BYTES
        while left > 0 and (chunk := source.read(min(_CHUNK, left))):
            copy.write(chunk)
            left -= len(chunk)


def check_schema(database: sqlite3.Connection, path: str) -> None:
    """Check that both are tables with their columns, not views, which could run anything. Raises `InvalidError`."""
    for table, columns in (
        ("checkpoints", ("thread_id", "checkpoint_ns", "checkpoint_id", "type", "checkpoint", "metadata")),
        ("writes", ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value")),
    ):
        row = database.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        there = [value[1] for value in database.execute(f"PRAGMA table_info({table})")]
        if row is None or row[0] != "table" or not str(row[1]).upper().startswith("CREATE TABLE"):
            raise InvalidError(f"{path} has no table {table}", _DO_NOT)
        if missing := [name for name in columns if name not in there]:
            raise InvalidError(f"{path}: the table {table} has no column {missing[0]}", _DO_NOT)


def _thread(database: sqlite3.Connection, thread: str, path: str) -> str:
    rows = database.execute(
        "SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id LIMIT ?", (MAX_SHOWN + 1,)
    ).fetchall()
    names = [row[0] for row in rows if isinstance(row[0], str)]
    if thread:
        return thread
    if len(names) != 1:
        text = ", ".join(word(name) for name in names[:MAX_SHOWN]) + (", …" if len(names) > MAX_SHOWN else "")
        raise InvalidError(
            f"{path} has {'several threads: ' + text if names else 'no thread'}",
            "name the thread: --thread ID" if names else _DO_NOT,
        )
    return names[0]


# --- values


class Extension(NamedTuple):
    """A MessagePack value of an extension type: its number and its bytes."""

    code: int
    data: bytes


def _decoded(kind: object, data: object) -> Any:
    """A stored value without its classes. One that is pickled, or of an unknown kind, is not decoded."""
    if kind == "null" or data is None:
        return None
    if kind == "msgpack" and isinstance(data, bytes):
        return _plain(decode(data))
    if kind == "json" and isinstance(data, bytes | str):
        return _json(data)
    if kind in ("bytes", "bytearray") and isinstance(data, bytes):
        return _plain(data)
    return {"type": f"{str(kind)[:60]}, not decoded", "bytes": len(data) if isinstance(data, bytes | str) else 0}


def decode(data: bytes) -> Any:
    """The value of a MessagePack text, extensions as `Extension`. Raises `InvalidError`, also for too many levels or values."""
    _check_values(data)
    try:
        value = msgspec.msgpack.decode(data, ext_hook=lambda code, inner: Extension(code, bytes(inner)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"a value is not MessagePack: {error}", _DO_NOT) from error
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        if not inner:
            return value
        level = inner
    raise InvalidError(f"a MessagePack value has more than {MAX_DEPTH} levels", _DO_NOT)


_SKIPPED = {
    0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1), 0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0),
    0xCA: (0, 4), 0xCB: (0, 8), 0xCC: (0, 1), 0xCD: (0, 2), 0xCE: (0, 4), 0xCF: (0, 8), 0xD0: (0, 1), 0xD1: (0, 2), 0xD2: (0, 4),
    0xD3: (0, 8), 0xD4: (0, 2), 0xD5: (0, 3), 0xD6: (0, 5), 0xD7: (0, 9), 0xD8: (0, 17), 0xDC: (0, 2), 0xDD: (0, 4),
    0xDE: (0, 2), 0xDF: (0, 4),
}  # fmt: skip
"""What follows the first byte of a MessagePack value: the bytes of a length, and further ones beside so many."""


def _check_values(data: bytes) -> None:
    """Count the values of a MessagePack text. Raises `InvalidError` for too many: msgspec makes all of them before one can be counted."""
    at = 0
    for _ in range(MAX_VALUES + 1):
        if at >= len(data):
            return
        first = data[at]
        of_length, more = _SKIPPED.get(first, (0, first & 0x1F if 0xA0 <= first < 0xC0 else 0))
        at += 1 + of_length + more + int.from_bytes(data[at + 1 : at + 1 + of_length], "big")
    raise InvalidError(f"a MessagePack value has more than {MAX_VALUES:,} values", _DO_NOT)


def _json(data: bytes | str) -> Any:
    check_values(data, "a value")
    try:
        value = msgspec.json.decode(data)
        count_keys(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"a value is not JSON: {error}", _DO_NOT) from error
    return value


def _metadata(data: object) -> dict[str, Any]:
    value = _json(data) if isinstance(data, bytes | str) and data else {}
    return value if isinstance(value, dict) else {}


def _plain(value: Any, depth: int = 0) -> Any:
    """A decoded value as JSON. `depth` counts extensions in extensions."""
    if isinstance(value, Extension):
        return _extension(value, depth)
    if isinstance(value, bytes):
        return {"type": "bytes", "bytes": len(value)}
    if isinstance(value, list):
        return [_plain(item, depth) for item in value]
    if isinstance(value, dict):
        members = {
            key if isinstance(key, str) else str(key)[:MAX_KEY]: _plain(member, depth) for key, member in value.items()
        }
        if len(members) < len(value):
            raise InvalidError("two keys of a map are the same as text", _DO_NOT)
        return members
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    if (isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER) or isinstance(value, datetime):
        return str(value)
    return value


def _extension(value: Extension, depth: int) -> Any:
    """An object as its type's name and its members: `{"type": "module.Name", …}`; of a plain type of Python, its one value."""
    unknown = {"type": f"extension {value.code}", "bytes": len(value.data)}
    if depth > MAX_SHOWN or not 0 <= value.code <= _SNAPSHOT or value.code == _ARRAY:
        return unknown | ({"type": "numpy array"} if value.code == _ARRAY else {})
    inner = decode(value.data)
    if value.code == _SNAPSHOT:
        return _plain(inner, depth + 1)
    if not isinstance(inner, list) or len(inner) < 3 or not all(isinstance(one, str) for one in inner[:2]):
        return unknown
    module, name, arguments = inner[0], inner[1], _plain(inner[2], depth + 1)
    if module.partition(".")[0] in _PLAIN and value.code in (_ONE_ARGUMENT, _METHOD):
        return arguments
    by_name = {"type": f"{module}.{name}"[:200]}
    return by_name | (arguments if isinstance(arguments, dict) and "type" not in arguments else {"value": arguments})


# --- what it says


def _work(
    thread: str,
    checkpoint: dict[str, Any],
    values: dict[str, Any],
    about: dict[str, Any],
    writes: Sequence[tuple[str, Any]],
) -> ForeignWork:
    channels = {name: value for name, value in values.items() if not name.startswith(("branch:", "__"))}
    messages = [_message(message) for value in channels.values() for message in _messages(value)]
    fields = {name: value for name, value in channels.items() if not _messages(value)}
    goal = _goal(fields, messages)
    seen, due = _nodes(checkpoint)
    texts = [_question(value) for channel, value in writes if channel == "__interrupt__"]
    failed = [prose(preview(value, MAX_LINE)) for channel, value in writes if channel == "__error__"]
    pending = sum(not channel.startswith(("__", "branch:")) for channel, _ in writes)
    last = next((text for kind, text in reversed(messages) if kind == "ai" and text), "")
    step = about.get("step")
    state = [f"LangGraph thread {word(thread)} at step {step if isinstance(step, int) else 'unknown'}"]
    state += [f"The last answer of the model: {last}"] if last else []
    state += [f"A node failed: {text}" for text in failed]
    steps = [ReportedStep(text=f"Node {word(node)}", status="done") for node in seen if node not in due]
    steps += [ReportedStep(text=f"Node {word(node)}") for node in due]
    point = f"Continue with {'node' if len(due) == 1 else 'the nodes'} {', '.join(map(word, due))}" if due else ""
    facts = statements(f"{name} = {preview(redact_json(value), 1500)}" for name, value in fields.items())
    calls = _tool_calls(channels)
    document = {
        "thread": thread,
        "checkpoint": checkpoint,
        "metadata": about,
        "writes": [list(write) for write in writes],
    }
    return ForeignWork(
        source="langgraph",
        name=name_from(thread, "langgraph"),
        documents=(canonical(redact_json(document)),),
        goal=goal,
        description=prose(f"LangGraph thread {thread}. {point or 'No node is due.'}"),
        at=word(checkpoint.get("ts")),
        entries=tuple(calls[-MAX_STATEMENTS:]),
        report=AgentReport(
            mission=goal or f"Continue the LangGraph thread {word(thread)}",
            progress=tuple(steps[:MAX_STATEMENTS]) or (ReportedStep(text="Review what was done"),),
            current_state=tuple(state),
            open_questions=tuple(text for text in texts if text),
            resumption_point=point or "Review the values of the thread, and decide on the next step",
        ),
        note=agent_notes.AgentNote(facts=facts),
        kept=(
            f"{counted(len(fields), 'value')} of the state",
            f"{counted(len(messages), 'message')}: the last answer; all in the document",
            counted(len(calls), "tool call"),
            f"{counted(len(due), 'node')} due, {counted(len(texts), 'interrupt')}",
        ),
        left_out=(
            "older checkpoints of the thread, and those of subgraphs",
            *([f"{counted(pending, 'pending write')}: only in the document"] if pending else []),
            "objects: their classes are not imported, only their members are kept",
        ),
    )


def _messages(value: Any) -> list[dict[str, Any]]:
    """The messages in a channel's value; empty if it holds anything else."""
    items = value if isinstance(value, list) else []
    found = [item for item in items if isinstance(item, dict) and ".messages." in str(item.get("type", ""))]
    return found if items and len(found) == len(items) else []


def _message(value: dict[str, Any]) -> tuple[str, str]:
    """Who says it (`human`, `ai`, `tool`, …), and the text."""
    members = value["value"] if isinstance(value.get("value"), dict) else value
    kind = str(value["type"]).rpartition(".")[2].removesuffix("Chunk").removesuffix("Message").lower()
    content = members.get("content", "")
    if isinstance(content, list):
        content = "\n".join(str(one.get("text", "")) if isinstance(one, dict) else str(one) for one in content)
    return kind, prose(content)


def _tool_calls(channels: dict[str, Any]) -> list[kinds.EntryImported]:
    """The tool calls of the model's messages. They were made outside of adjourn, and count for no budget."""
    tool_calls = []
    for value in channels.values():
        for message in _messages(value):
            members = message["value"] if isinstance(message.get("value"), dict) else message
            asked = members.get("tool_calls")
            for one in asked if isinstance(asked, list) else []:
                if isinstance(one, dict) and word(one.get("name")):
                    text = preview(redact_json(one.get("args")), MAX_LINE)
                    tool_calls.append(
                        kinds.EntryImported(entry="langgraph.tool_call", reason=text, tool=word(one.get("name")))
                    )
    return tool_calls


def _goal(fields: dict[str, Any], messages: Sequence[tuple[str, str]]) -> str:
    """The value of a channel with a telling name, else the first words of a person."""
    named = next((text for name in _GOALS if (text := prose(fields.get(name)))), "")
    return named or next((text for kind, text in messages if kind == "human" and text), "")


def _nodes(checkpoint: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The nodes that ran, and those that are due: their channel is newer than what they have seen."""
    versions, seen = checkpoint.get("channel_versions"), checkpoint.get("versions_seen")
    versions = versions if isinstance(versions, dict) else {}
    seen = seen if isinstance(seen, dict) else {}
    ran = [node for node in seen if not node.startswith("__")]
    values = checkpoint.get("channel_values")
    marked = values if isinstance(values, dict) else {}
    due = []
    for channel, version in versions.items():
        node = channel.removeprefix(_BRANCH)
        if node != channel and channel in marked:
            value = seen.get(node)
            if not isinstance(value, dict) or value.get(channel) != version:
                due.append(node)
    return ran, due


def _question(value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    values = [item.get("value", item) if isinstance(item, dict) else item for item in items]
    return prose("; ".join(one if isinstance(one, str) else preview(redact_json(one), MAX_LINE * 2) for one in values))
