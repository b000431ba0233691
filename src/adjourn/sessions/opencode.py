"""Sessions of opencode: the SQLite file `~/.local/share/opencode/opencode.db`, with tables of sessions, messages and parts.

A part of the type `tool` with the state `running` has no end; `completed` says nothing about the command: its exit code is in the
metadata.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from adjourn.errors import InvalidError
from adjourn.sessions import files
from adjourn.sessions.files import bounded, opened
from adjourn.sessions.reader import SessionFile, first_person_words, is_within, kind_of, outcome_of, stamp_of, what_of
from adjourn.sessions.story import Outcome, SessionStory, StoryBuilder, member, text_of

if TYPE_CHECKING:
    import sqlite3

MAX_SESSIONS = 2000
MAX_PARTS = 20_000
"""Newest parts of a session that are read, of at most `files.MAX_DOCUMENT` characters; the first prompt is read in any case."""
_TABLES = ("session", "message", "part", "todo")
_PARTS = """
SELECT m.id, CASE WHEN length(m.data) < :most THEN m.data END, CASE WHEN length(p.data) < :most THEN p.data END, p.time_created
FROM part p JOIN message m ON m.id = p.message_id WHERE m.session_id = :session
ORDER BY m.time_created DESC, m.id DESC, p.id DESC LIMIT :count
"""
_COUNT = "SELECT count(*) FROM part p JOIN message m ON m.id = p.message_id WHERE m.session_id = ?"
_FIRST = """
SELECT m.id, m.data, p.data, p.time_created FROM part p JOIN message m ON m.id = p.message_id
WHERE m.session_id = :session AND length(m.data) < :most AND length(p.data) < :most
ORDER BY m.time_created, m.id, p.id LIMIT 20
"""
_SKIPPED = frozenset(
    ("step-start", "step-finish", "reasoning", "patch", "file", "snapshot", "agent", "retry", "subtask")
)


class OpenCode:
    """Reads sessions of opencode."""

    name = "opencode"
    key = "opencode"
    tried: Sequence[str] = ("1.18.33", "1.17.19")

    def find(self, trees: Sequence[str], name: str = "", since: float = 0.0) -> Iterator[SessionFile]:
        """See `TranscriptReader.find`."""
        path = _path()
        if not os.path.isfile(path):
            return
        with opened(path, _TABLES, self.name) as database:
            rows = database.execute(
                "SELECT id, directory, time_created, time_updated FROM session WHERE parent_id IS NULL AND time_updated >= ? ORDER BY time_updated DESC LIMIT ?",
                (int(since * 1000), MAX_SESSIONS),
            ).fetchall()
            for id_, folder, created, updated in rows:
                if not isinstance(id_, str) or not id_.startswith(name) or not is_within(text_of(folder, 4000), trees):
                    continue
                words = [_words_of(part) for role, part, _ in _first(database, id_) if role == "user"]
                if title := first_person_words(words):
                    yield SessionFile(
                        client=self.key, id=id_, path=path, folder=text_of(folder, 4000), title=title, started=stamp_of(created),
                        touched=stamp_of(updated), stamp=updated / 1000 if type(updated) is int else 0.0,
                    )  # fmt: skip

    def read(self, file: SessionFile) -> SessionStory:
        """The story of a session. Raises `NotFoundError`, `InvalidError`."""
        builder = StoryBuilder(self.key, file.path)
        story = builder.story
        story.id = file.id
        with opened(file.path, _TABLES, self.name) as database:
            row = database.execute(
                "SELECT directory, version, time_updated FROM session WHERE id = ?", (file.id,)
            ).fetchone()
            if row is None:
                raise InvalidError(f"{file.path} has no session {file.id}")
            story.folder, story.version = text_of(row[0], 4000), text_of(row[1], 40)
            arguments = {"session": file.id, "most": files.MAX_LINE, "count": MAX_PARTS}
            rows = bounded(database.execute(_PARTS, arguments))[::-1]
            (count,) = database.execute(_COUNT, (file.id,)).fetchone()
            if len(rows) < count:
                for role, part, at in _first(database, file.id)[: count - len(rows)]:
                    _tell(role, part, at, builder)
            told: dict[str, dict[str, Any]] = {}
            for id_, message, part, at in rows:
                about = told.setdefault(id_, _decoded(message))
                _tell(text_of(about.get("role"), 20), _decoded(part), stamp_of(at), builder)
            _ends(list(told.values()), builder)
            todos = database.execute(
                "SELECT content, status FROM todo WHERE session_id = ? ORDER BY position LIMIT 100", (file.id,)
            )
            builder.replan(todos.fetchall())
        return builder.finish()


def _path() -> str:
    return os.path.join(files.root("XDG_DATA_HOME", ".local", "share"), "opencode", "opencode.db")


def _first(database: sqlite3.Connection, session: str) -> list[tuple[str, dict[str, Any], str]]:
    """Role, part and time of the first parts of a session."""
    rows = database.execute(_FIRST, {"session": session, "most": files.MAX_LINE}).fetchall()
    return [(text_of(_decoded(message).get("role"), 20), _decoded(part), stamp_of(at)) for _, message, part, at in rows]


def _decoded(data: object) -> dict[str, Any]:
    value = files.decode(data.encode(errors="replace"))[0] if isinstance(data, str) else None
    return value if isinstance(value, dict) else {}


def _words_of(part: dict[str, Any]) -> str:
    """The text of a part, without the quotation marks that `opencode run` writes around a prompt."""
    if part.get("type") != "text" or part.get("synthetic") is True:
        return ""
    text = text_of(part.get("text")).strip()
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' else text


def _tell(role: str, part: dict[str, Any], at: str, builder: StoryBuilder) -> None:
    kind = text_of(part.get("type"), 40)
    if kind == "text" and role == "user":
        builder.prompt(_words_of(part), at)
    elif kind == "text":
        if part.get("synthetic") is not True:
            builder.say(text_of(part.get("text")), at)
    elif kind == "tool":
        _tool(part, at, builder)
    elif kind == "compaction":
        builder.story.compactions += 1
    elif kind not in _SKIPPED:
        builder.skip(kind)


def _tool(part: dict[str, Any], at: str, builder: StoryBuilder) -> None:
    name, id_, state = text_of(part.get("tool"), 100), part.get("callID"), part.get("state")
    kind = kind_of(name)
    what, path = what_of(member(state, "input"))
    builder.call(id_, name, kind, what, at, path=path if kind == "edit" else "")
    status, code = member(state, "status"), member(state, "metadata", "exit")
    error = text_of(member(state, "error"))
    outcome: Outcome
    if status == "completed":
        outcome = outcome_of(code) if type(code) is int else "ok"
    elif status == "error":
        refused = "rule which prevents" in error[:200] or "rejected permission" in error[:200]
        outcome = "refused" if refused else "stopped" if "aborted" in error[:100].lower() else "failed"
    else:
        return  # pending or running: nobody knows
    text = error or text_of(member(state, "output"), 64 * 1024)
    builder.result(id_, outcome, text, code=code if type(code) is int else None, at=at)
    if member(state, "metadata", "exists") is False and (change := builder.story.changes.get(path)):
        change.is_new = change.edits == 1


def _ends(messages: list[dict[str, Any]], builder: StoryBuilder) -> None:
    """Whether the last answer has an end."""
    for message in messages:
        builder.model(message.get("modelID"))
        total = member(message, "tokens", "total")
        builder.story.tokens += total if type(total) is int and 0 <= total < 10**12 else 0
        if isinstance(message.get("error"), dict):
            builder.story.limits = [text_of(member(message, "error", "data", "message"), 300) or "an error"]
        elif message.get("role") == "assistant":
            builder.story.limits = []
    if messages and messages[-1].get("role") == "assistant" and type(member(messages[-1], "time", "completed")) is int:
        builder.end_turn()
