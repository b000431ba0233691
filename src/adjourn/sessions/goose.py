"""Sessions of Goose: the SQLite file `~/.local/share/goose/sessions/sessions.db`, a message a row, its content a JSON list of blocks.

Earlier versions wrote `ID.jsonl` beside it: what the session is, then a message a line.

The form is known from Goose's own source. A result's status says that a tool ran; a command's exit code is in its structured content,
which earlier versions do not write.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from adjourn.errors import AdjournError, InvalidError
from adjourn.sessions import files
from adjourn.sessions.files import bounded, opened
from adjourn.sessions.reader import (
    SessionFile,
    first_person_words,
    is_within,
    kind_of,
    outcome_of,
    stamp_of,
    texts_in,
    what_of,
)
from adjourn.sessions.story import Kind, Outcome, SessionStory, StoryBuilder, member, objects, text_of

if TYPE_CHECKING:
    import sqlite3

MAX_SESSIONS = 2000
MAX_MESSAGES = 20_000
"""Newest messages of a session that are read, of at most `files.MAX_DOCUMENT` characters; the first prompt is read in any case."""
_TABLES = ("sessions", "messages")
_NEWEST = """
SELECT role, CASE WHEN length(content_json) < :most THEN content_json END, created_timestamp, {metadata}
FROM messages WHERE session_id = :session ORDER BY id DESC LIMIT :count
"""
_FIRST = """
SELECT role, content_json, created_timestamp, {metadata} FROM messages
WHERE session_id = :session AND role = 'user' AND length(content_json) < :most ORDER BY id LIMIT 5
"""
_ITEM = re.compile(r"^\s*[-*] \[( |x|X|~|-)\] (.{1,1000})$", re.MULTILINE)
_SKIPPED = frozenset((
    "thinking", "redactedThinking", "image", "toolConfirmationRequest", "actionRequired", "systemNotification", "document",
    "frontendToolRequest", "reasoning",
))  # fmt: skip


class Goose:
    """Reads sessions of Goose."""

    name = "Goose"
    key = "goose"
    tried: Sequence[str] = ()

    def find(self, trees: Sequence[str], name: str = "", since: float = 0.0) -> Iterator[SessionFile]:
        """See `TranscriptReader.find`."""
        path, known = _path(), set()
        if os.path.isfile(path):
            with suppress(AdjournError):
                for file in self._rows(path, trees, name, since):
                    known.add(file.id)
                    yield file
        for entry in files.named(os.path.dirname(path), ".jsonl", since):
            if entry.name[:-6] in known or not entry.name.startswith(name):
                continue
            if (found := self._head(entry)) and is_within(found.folder, trees):
                yield found

    def _head(self, entry: os.DirEntry[str]) -> SessionFile | None:
        edges = files.edges(entry.path, os.path.dirname(entry.path), files.LONG_HEAD)
        records = edges.first_records()
        folder = text_of(member(next(records, None), "working_dir"), 4000)
        stamps: list[str] = []
        title = first_person_words(_words_in(record, stamps) for record in records)
        file = SessionFile(
            client=self.key, id=entry.name[:-6], path=entry.path, folder=folder, title=title, stamp=edges.stamp, size=edges.size,
            started=next(iter(stamps), ""), touched=stamp_of(int(edges.stamp * 1000)),
        )  # fmt: skip
        return file if folder and title else None

    def _rows(self, path: str, trees: Sequence[str], name: str, since: float) -> Iterator[SessionFile]:
        with opened(path, _TABLES, self.name) as database:
            own = (
                " WHERE session_type IN ('user', 'scheduled')"
                if "session_type" in _columns(database, "sessions")
                else ""
            )
            rows = database.execute(
                f"SELECT id, working_dir, strftime('%s', created_at), strftime('%s', updated_at) FROM sessions{own}"  # noqa: S608  # a constant
                " ORDER BY updated_at DESC LIMIT ?", (MAX_SESSIONS,),
            ).fetchall()  # fmt: skip
            for id_, folder, created, updated in rows:
                stamp = _seconds(updated)
                if not isinstance(id_, str) or not id_.startswith(name) or stamp < since:
                    continue
                if not is_within(text_of(folder, 4000), trees):
                    continue
                messages = _messages(database, _FIRST, id_)
                if title := first_person_words(_words_of(*message[:2], message[3]) for message in messages):
                    yield SessionFile(
                        client=self.key, id=id_, path=path, folder=text_of(folder, 4000), title=title, stamp=float(stamp),
                        started=stamp_of(_seconds(created) * 1000), touched=stamp_of(stamp * 1000),
                    )  # fmt: skip

    def read(self, file: SessionFile) -> SessionStory:
        """The story of a session. Raises `NotFoundError`, `InvalidError`."""
        if file.path.endswith(".jsonl"):
            return _read_lines(file)
        builder = StoryBuilder(self.key, file.path)
        story = builder.story
        story.id, story.started = file.id, file.started
        with opened(file.path, _TABLES, self.name) as database:
            row = database.execute("SELECT working_dir FROM sessions WHERE id = ?", (file.id,)).fetchone()
            if row is None:
                raise InvalidError(f"{file.path} has no session {file.id}")
            story.folder = text_of(row[0], 4000)
            rows = _messages(database, _NEWEST, file.id)[::-1]
            (count,) = database.execute("SELECT count(*) FROM messages WHERE session_id = ?", (file.id,)).fetchone()
            if len(rows) < count:
                rows = _messages(database, _FIRST, file.id)[:1] + rows
            for role, content, at, metadata in rows:
                tell(role, content, at, metadata, builder)
        return builder.finish()


def _read_lines(file: SessionFile) -> SessionStory:
    builder = StoryBuilder(Goose.key, file.path)
    story, scan = builder.story, files.Scan()
    story.id, story.started = file.id, file.started
    for record in files.records(
        file.path, os.path.dirname(file.path), lambda line: b'"role":"user"' in line[:400], scan
    ):
        if isinstance(record.value, dict) and "role" in record.value:
            tell(*_message_of(record.value), builder)
        elif folder := text_of(member(record.value, "working_dir"), 4000):
            story.folder = story.folder or folder
        elif not record.is_readable:
            story.unreadable += 1
        else:
            builder.skip("no-message")
    story.size, story.unread = scan.size, scan.unread
    return builder.finish()


def _message_of(record: object) -> tuple[str, list[dict[str, Any]], str, Any]:
    """Role, blocks, time and metadata of a message in a line."""
    at = _stamp(member(record, "created"))
    return text_of(member(record, "role"), 20), objects(member(record, "content")), at, member(record, "metadata")


def _words_in(record: object, stamps: list[str]) -> str:
    """The person's words in a line; its time goes to `stamps`."""
    role, content, at, metadata = _message_of(record)
    stamps.append(at)
    return _words_of(role, content, metadata)


def _path() -> str:
    return os.path.join(files.root("XDG_DATA_HOME", ".local", "share"), "goose", "sessions", "sessions.db")


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in database.execute(f"PRAGMA table_info({table})")}


def _seconds(value: object) -> int:
    return int(value) if isinstance(value, str) and value.isdigit() and len(value) < 12 else 0


def _messages(
    database: sqlite3.Connection, query: str, session: str
) -> list[tuple[str, list[dict[str, Any]], str, Any]]:
    """Role, blocks, time and metadata of messages."""
    metadata = "NULL"
    if "metadata_json" in _columns(database, "messages"):
        metadata = "CASE WHEN length(metadata_json) < :most THEN metadata_json END"
    arguments = {"session": session, "most": files.MAX_LINE, "count": MAX_MESSAGES}
    rows = bounded(database.execute(query.format(metadata=metadata), arguments))
    return [
        (text_of(role, 20), objects(_decoded(content)), _stamp(at), _decoded(about))
        for role, content, at, about in rows
    ]


def _decoded(data: object) -> Any:
    return files.decode(data.encode(errors="replace"))[0] if isinstance(data, str) else None


def _stamp(at: object) -> str:
    """A time in seconds, or in milliseconds as some versions write it."""
    return stamp_of(at * 1000 if type(at) is int and at < 10**11 else at)


def _words_of(role: str, content: list[dict[str, Any]], metadata: object) -> str:
    """The person's words in a message: what the client does not show them is not theirs."""
    if role != "user" or member(metadata, "userVisible") is False:
        return ""
    return texts_in(content, "text").strip()


def tell(role: str, content: list[dict[str, Any]], at: str, metadata: object, builder: StoryBuilder) -> None:
    """Translate one message."""
    for block in content:
        _block(block, at, builder)
    text = texts_in(content, "text").strip()
    if role == "user":
        if member(metadata, "userVisible") is False and text:
            builder.story.compactions += 1
            builder.say(text, at, is_summary=True)
        builder.prompt(_words_of(role, content, metadata), at)
    elif text:
        builder.story.limits = []
        builder.say(text, at)
        if not any(block.get("type") == "toolRequest" for block in content):
            builder.end_turn()


def _block(block: dict[str, Any], at: str, builder: StoryBuilder) -> None:
    kind = text_of(block.get("type"), 40)
    if kind == "toolRequest":
        _call(block, at, builder)
    elif kind == "toolResponse":
        _result(block, at, builder)
    elif kind == "conversationCompacted":
        builder.story.compactions += 1
    elif kind == "error":
        builder.story.limits = ["an error"]
    elif kind != "text" and kind not in _SKIPPED:
        builder.skip(kind)


def _call(block: dict[str, Any], at: str, builder: StoryBuilder) -> None:
    request = member(block, "toolCall", "value")
    tool, arguments = text_of(member(request, "name"), 100), member(request, "arguments")
    name = tool.removeprefix("developer__")
    kind: Kind = kind_of(name)
    if kind == "other" and "__" in name:
        kind = "mcp"
    elif name == "text_editor" and member(arguments, "command") == "view":
        kind = "read"
    what, path = what_of(arguments)
    if name == "text_editor":
        what = path = text_of(member(arguments, "path"), 1000)
    builder.call(block.get("id"), tool, kind, what, at, path=path if kind == "edit" else "")
    if member(block, "toolCall", "status") == "error":
        builder.result(block.get("id"), "failed", text_of(member(block, "toolCall", "error")), at=at)
    if kind == "list" and isinstance(list_ := member(arguments, "content"), str):
        states = {"x": "done", "X": "done", "~": "active", "-": "active", " ": "open"}
        builder.replan((text, states[mark]) for mark, text in _ITEM.findall(list_[: 64 * 1024]))


def _result(block: dict[str, Any], at: str, builder: StoryBuilder) -> None:
    id_, result = block.get("id"), block.get("toolResult")
    value = member(result, "value")
    code = member(value, "structuredContent", "exit_code")
    code = code if type(code) is int else None
    call = builder.known(id_)
    outcome: Outcome = "unrecorded" if call is not None and call.kind == "run" else "ok"
    if code is not None:
        outcome = outcome_of(code)
    elif member(result, "status") == "error" or member(value, "isError") is True:
        outcome = "failed"
    elif member(result, "status") != "success" and value is None:
        outcome = "unknown"
    text = text_of(member(result, "error")) or texts_in(
        value if isinstance(value, list) else member(value, "content"), "text"
    )
    builder.result(id_, outcome, text, code=code, at=at)
