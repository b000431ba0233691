"""Sessions of Cursor's agent: `~/.cursor/projects/SLUG/agent-transcripts/UUID/UUID.jsonl`, one message a line, only appended to; and
chats of its command line, which say more (`cursor_chats`).

The form is known from public sources. Neither times nor results of calls are written: a call behind which something stands came back, and
nobody knows how. SLUG is the folder with a hyphen for each character that is no letter or digit, so the folder is looked for on the disk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from adjourn.sessions import cursor_chats, files
from adjourn.sessions.reader import (
    Blocks,
    SessionFile,
    exit_code,
    first_person_words,
    is_within,
    outcome_of,
    result_text,
    stamp_of,
    texts_in,
)
from adjourn.sessions.story import Outcome, SessionStory, StoryBuilder, member, objects, text_of

MAX_FOLDERS = 2000
"""Folders that are looked at to find the one that a slug means."""
_QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)
_NOT_WORDS = (
    "<user_info>", "<attached_files>", "<system_reminder>", "<system-reminder>", "<git_status>", "<rules>", "<cursor_commands>",
    "<agent_transcripts>", "<agent_skills>", "<open_and_recently_viewed_files>", "<project_layout>", "<timestamp>", "<task_notification>",
)  # fmt: skip
_SLUG = re.compile(r"[^A-Za-z0-9]+")


class CursorAgent:
    """Reads sessions of Cursor's agent."""

    name = "Cursor"
    key = "cursor"
    tried: Sequence[str] = ()

    def find(self, trees: Sequence[str], name: str = "", since: float = 0.0) -> Iterator[SessionFile]:
        """See `TranscriptReader.find`."""
        top = files.root("CURSOR_CONFIG_DIR", ".cursor")
        known = set()
        for chat in cursor_chats.find(top, trees, name, since, _words_of):
            known.add(chat.id)
            yield chat
        projects = os.path.join(top, "projects")
        slugs = [_slug(tree) for tree in trees]
        for slug in files.folders(projects):
            if slugs and not any(slug == start or slug.startswith(f"{start}-") for start in slugs):
                continue
            folder = _folder(slug)
            if not folder or not is_within(folder, trees):
                continue
            transcripts = os.path.join(projects, slug, "agent-transcripts")
            entries = files.named(transcripts, ".jsonl", since)
            for id_ in files.folders(transcripts):
                entries += (entry for entry in files.named(os.path.join(transcripts, id_), f"{id_}.jsonl", since))
            for entry in entries:
                if entry.name[:-6] in known or not entry.name.startswith(name):
                    continue
                if file := self._head(entry, top, folder):
                    yield file

    def _head(self, entry: os.DirEntry[str], top: str, folder: str) -> SessionFile | None:
        edges = files.edges(entry.path, top)
        words = first_person_words(map(_words_of, edges.first_records()))
        touched = stamp_of(int(edges.stamp * 1000))
        file = SessionFile(
            client=self.key, id=entry.name[:-6], path=entry.path, folder=folder, title=words, touched=touched, stamp=edges.stamp,
            size=edges.size,
        )  # fmt: skip
        return file if words else None

    def read(self, file: SessionFile) -> SessionStory:
        """The story of a session. Raises `NotFoundError`, `InvalidError`."""
        if file.path.endswith(".db"):
            story = cursor_chats.read(file.path, file.id, _words_of)
        else:
            story = read(file.path, files.root("CURSOR_CONFIG_DIR", ".cursor"))
        story.folder, story.touched = file.folder, file.touched
        return story


def read(path: str, top: str = "") -> SessionStory:
    """The story of one transcript. Raises `NotFoundError`, `InvalidError`."""
    builder = StoryBuilder(CursorAgent.key, path)
    builder.story.id = os.path.basename(path).removesuffix(".jsonl")
    scan = files.Scan()
    translate = _Translation(builder)
    for record in files.records(path, top, lambda line: b'"role":"user"' in line[:200].replace(b" ", b""), scan):
        if record.edges:
            builder.story.unreadable += not record.is_readable
        elif isinstance(record.value, dict):
            translate.record(record.value)
        else:
            builder.skip("no-object")
    story = builder.finish()
    story.size, story.unread = scan.size, scan.unread
    return story


def _slug(folder: str) -> str:
    return _SLUG.sub("-", folder).strip("-")


@lru_cache(maxsize=256)
def _folder(slug: str) -> str:
    """The folder on this disk that a slug means; "" for none."""
    looked, open_ = 0, ["/"]
    while open_ and looked < MAX_FOLDERS:
        place = open_.pop()
        looked += 1
        if _slug(place) == slug and place != "/":
            return place
        below = [os.path.join(place, name) for name in files.folders(place)]
        open_ += [path for path in below if slug == _slug(path) or slug.startswith(f"{_slug(path)}-")]
    return ""


def _words_of(record: object) -> str:
    """The person's words in a record; "" where there are none."""
    if member(record, "role") != "user":
        return ""
    text = texts_in(member(record, "message", "content"), "text").strip()
    queries = _QUERY.findall(text[: 64 * 1024])
    return "\n".join(queries) if queries else "" if text.startswith(_NOT_WORDS) else text


class _Translation:
    """Translates records, one after the other. The calls of a message wait for the next record."""

    def __init__(self, builder: StoryBuilder) -> None:
        self._builder = builder
        self._blocks = Blocks(builder)
        self._waiting: list[str] = []
        self._made = 0

    def record(self, record: dict[str, Any]) -> None:
        """Translate one record."""
        role, content = record.get("role"), member(record, "message", "content")
        for block in objects(content):
            if block.get("type") == "tool_result":
                self._result(block)
        if role == "user":
            if words := _words_of(record):  # what was not answered before it was never answered
                self._waiting.clear()
                self._builder.prompt(words)
            return
        self._came_back()
        if role == "assistant":
            self._answer(content)
        elif record.get("type") == "turn_ended":
            self._ended(text_of(record.get("status"), 40))
        else:
            self._builder.skip(record.get("type") or role)

    def _answer(self, content: object) -> None:
        if isinstance(content, str):
            self._builder.say(content)
        for block in objects(content):
            kind = block.get("type")
            if kind == "text":
                self._builder.say(text_of(block.get("text")))
            elif kind == "tool_use":
                self._made += 1
                self._waiting.append(self._blocks.call(block, id_=f"call {self._made}").id)
            elif kind not in ("thinking", "reasoning", "redacted_thinking", "tool_result"):
                self._builder.skip(kind)
        if not self._waiting:
            self._builder.end_turn()

    def _result(self, block: dict[str, Any]) -> None:
        id_ = text_of(block.get("tool_use_id"), 200) or next(iter(self._waiting), "")
        text = result_text(block.get("content"))
        code = exit_code(text)
        outcome: Outcome = "failed" if block.get("is_error") is True else "unrecorded"
        self._builder.result(id_, outcome if code is None else outcome_of(code), text, code=code)
        if id_ in self._waiting:
            self._waiting.remove(id_)

    def _came_back(self) -> None:
        for id_ in self._waiting:
            self._builder.result(id_, "unrecorded")
        self._waiting.clear()

    def _ended(self, status: str) -> None:
        story = self._builder.story
        if status in ("aborted", "cancelled", "canceled", "interrupted"):
            story.interrupted = self._builder.step()
        elif status == "error":
            story.limits = ["an error"]
        self._builder.end_turn()
