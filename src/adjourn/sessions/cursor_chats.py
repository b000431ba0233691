"""Chats of Cursor's command line: `~/.cursor/chats/HASH/UUID/store.db`, SQLite with a JSON message in each blob.

The form is known from public sources. `meta` has, as hexadecimal JSON, the id of the root: a Protocol Buffers message with the ids of the
messages in order (field 1) and the folder (field 9). HASH is the MD5 of the folder. Messages have no times. A result of a command begins
with its exit code.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from adjourn.errors import AdjournError
from adjourn.sessions import files
from adjourn.sessions.reader import (
    Blocks,
    SessionFile,
    exit_code,
    first_person_words,
    is_within,
    outcome_of,
    path_of_url,
    result_text,
    stamp_of,
)
from adjourn.sessions.story import Outcome, SessionStory, StoryBuilder, member, objects, text_of

if TYPE_CHECKING:
    import sqlite3

MAX_CHATS = 500
"""Newest chats that are looked at."""
MAX_MESSAGES = 20_000
"""Newest messages of a chat that are read, of at most `files.MAX_DOCUMENT` bytes."""
_FIRST = 20
"""Messages in which the first prompt is looked for."""
_TABLES = ("blobs", "meta")
_ID_BYTES = 32
_IDS, _FOLDER = 1, 9
_SKIPPED = frozenset(("reasoning", "redacted-reasoning", "image", "file", "source"))
Words = Callable[[object], str]
"""Returns the person's words in a message."""


def find(top: str, trees: Sequence[str], name: str, since: float, words: Words) -> Iterator[SessionFile]:
    """The chats in these folders, or all; see `TranscriptReader.find`."""
    hashes = {hashlib.md5(os.fsencode(tree), usedforsecurity=False).hexdigest(): tree for tree in trees}
    chats = os.path.join(top, "chats")
    found = [
        (entry.stat(follow_symlinks=False), entry.path, hash_, id_)
        for hash_ in files.folders(chats)
        for id_ in files.folders(os.path.join(chats, hash_))
        if id_.startswith(name)
        for entry in files.named(os.path.join(chats, hash_, id_), "store.db", since)
    ]
    found.sort(key=lambda chat: chat[0].st_mtime, reverse=True)
    for status, path, hash_, id_ in found[:MAX_CHATS]:
        with suppress(AdjournError):
            about, ids, folder, first = _head(path)
            folder = hashes.get(hash_) or folder
            title = first_person_words(map(words, first))
            if folder and title and ids and is_within(folder, trees):
                yield SessionFile(
                    client="cursor", id=id_, path=path, folder=folder, title=title, stamp=status.st_mtime, size=status.st_size,
                    started=stamp_of(member(about, "createdAt")), touched=stamp_of(int(status.st_mtime * 1000)),
                )  # fmt: skip


def read(path: str, id_: str, words: Words) -> SessionStory:
    """The story of one chat. Raises `NotFoundError`, `InvalidError`."""
    builder = StoryBuilder("cursor", path)
    builder.story.id = id_
    with files.opened(path, _TABLES, "Cursor") as database:
        about, ids, builder.story.folder = _root(database)
        builder.story.started = stamp_of(member(about, "createdAt"))
        builder.model(member(about, "lastUsedModel"))
        messages, size = [], 0
        for number in reversed(ids[-MAX_MESSAGES:]):
            message, length = _message(database, number)
            size += length
            if size > files.MAX_DOCUMENT:
                break
            messages.append(message)
        first = [] if len(messages) == len(ids) else [_message(database, number)[0] for number in ids[:_FIRST]]
    builder.story.unread = len(ids) - len(messages)
    for message in first:
        if text := words(message):
            builder.prompt(text)
            break
    _tell(messages[::-1], builder, words)
    return builder.finish()


def _head(path: str) -> tuple[Any, list[str], str, list[Any]]:
    with files.opened(path, _TABLES, "Cursor") as database:
        about, ids, folder = _root(database)
        return about, ids, folder, [_message(database, number)[0] for number in ids[:_FIRST]]


def _root(database: sqlite3.Connection) -> tuple[Any, list[str], str]:
    """What `meta` says, the ids of the messages, and the folder."""
    row = database.execute(
        "SELECT value FROM meta WHERE key = '0' AND length(value) < ?", (files.MAX_SMALL,)
    ).fetchone()
    about = None
    with suppress(ValueError, TypeError):
        about = files.decode(bytes.fromhex(row[0]))[0]
    data = _blob(database, text_of(member(about, "latestRootBlobId"), 80))
    ids, folder = [], ""
    for field, value in _fields(data):
        if field == _IDS and len(value) == _ID_BYTES:
            ids.append(value.hex())
        elif field == _FOLDER and not folder:
            place = value.decode(errors="replace")[:4000]
            folder = place.rstrip("/") if place.startswith("/") else path_of_url(place)
    return about, ids, folder


def _blob(database: sqlite3.Connection, id_: str) -> bytes:
    row = database.execute("SELECT data FROM blobs WHERE id = ? AND length(data) < ?", (id_, files.MAX_LINE)).fetchone()
    data = row[0] if row else b""
    return data.encode(errors="replace") if isinstance(data, str) else data if isinstance(data, bytes) else b""


def _message(database: sqlite3.Connection, id_: str) -> tuple[Any, int]:
    """The message in a blob in the form of a transcript's record, and its size."""
    data = _blob(database, id_)
    value = files.decode(data)[0]
    if not isinstance(value, dict):
        return None, len(data)
    result = member(value, "providerOptions", "cursor", "highLevelToolCallResult", "output")
    return {"role": value.get("role"), "message": {"content": value.get("content")}, "result": result}, len(data)


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields with a length of a Protocol Buffers message, up to the first one that is none."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            _, at = _varint(data, at)
        elif tag & 7 == 2:
            length, at = _varint(data, at)
            if length > len(data) - at:
                return
            yield tag >> 3, data[at : at + length]
            at += length
        else:
            at += {1: 8, 5: 4}.get(tag & 7, len(data))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            break
    return value, at


def _tell(messages: Sequence[Any], builder: StoryBuilder, words: Words) -> None:
    blocks = Blocks(builder)
    for message in messages:
        role, content = member(message, "role"), member(message, "message", "content")
        if role == "user":
            if text := words(message):
                builder.prompt(text)
        elif role == "assistant":
            _answer(content, blocks, builder)
        elif role == "tool":
            for block in objects(content):
                _result(block, member(message, "result"), builder)
        elif role != "system":
            builder.skip("message" if message is not None else "no-object")


def _answer(content: object, blocks: Blocks, builder: StoryBuilder) -> None:
    if isinstance(content, str):
        builder.say(content)
    has_calls = False
    for block in objects(content):
        kind = block.get("type")
        if kind == "text":
            builder.say(text_of(block.get("text")))
        elif kind == "tool-call":
            has_calls = True
            blocks.call({"id": block.get("toolCallId"), "name": block.get("toolName"), "input": block.get("args")})
        elif kind not in _SKIPPED:
            builder.skip(kind)
    if not has_calls:
        builder.end_turn()


def _result(block: dict[str, Any], typed: Any, builder: StoryBuilder) -> None:
    """A result: a command's by its exit code, another's by the typed result, if there is one."""
    text = result_text(block.get("result"))
    call = builder.known(block.get("toolCallId"))
    code = exit_code(text) if call is not None and call.kind == "run" else None
    outcome: Outcome = "unrecorded"
    if code is not None:
        outcome = outcome_of(code)
    elif isinstance(typed, dict) and (typed.get("isError") is True or not isinstance(typed.get("success"), dict)):
        outcome = "failed"
    elif isinstance(typed, dict) and call is not None and call.kind != "run":
        outcome = "ok"
    builder.result(block.get("toolCallId"), outcome, text, code=code)
