"""Threads of Amp: `~/.local/share/amp/threads/T-UUID.json`, one JSON document each, written whole again and again.

The form is known from public sources. `run.status` says whether a tool ran; how a command ended is its `exitCode`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from adjourn.errors import AdjournError, InvalidError
from adjourn.sessions import files
from adjourn.sessions.reader import (
    Blocks,
    SessionFile,
    first_person_words,
    is_within,
    outcome_of,
    path_of_url,
    result_text,
    stamp_of,
    texts_in,
)
from adjourn.sessions.story import Outcome, SessionStory, StoryBuilder, member, objects, text_of

_ENDED: dict[str, Outcome] = {"error": "failed", "cancelled": "stopped", "rejected-by-user": "refused"}


class Amp:
    """Reads threads of Amp."""

    name = "Amp"
    key = "amp"
    tried: Sequence[str] = ()

    def find(self, trees: Sequence[str], name: str = "", since: float = 0.0) -> Iterator[SessionFile]:
        """See `TranscriptReader.find`."""
        top = _top()
        for entry in files.named(os.path.join(top, "threads"), ".json", since):
            if not entry.name.startswith(name or "T-"):
                continue
            document: Any = None
            with suppress(AdjournError):  # one thread that cannot be read hides no other
                document = files.document(entry.path, top)
            folder = _folder(document)
            if not folder or not is_within(folder, trees):
                continue
            if title := first_person_words(map(_words_of, objects(member(document, "messages")))):
                status = entry.stat(follow_symlinks=False)
                yield SessionFile(
                    client=self.key, id=entry.name[:-5], path=entry.path, folder=folder, title=title, size=status.st_size,
                    started=stamp_of(member(document, "created")), touched=stamp_of(int(status.st_mtime * 1000)), stamp=status.st_mtime,
                )  # fmt: skip

    def read(self, file: SessionFile) -> SessionStory:
        """The story of a thread. Raises `NotFoundError`, `InvalidError`."""
        return read(file.path, _top())


def read(path: str, top: str = "") -> SessionStory:
    """The story of one thread. Raises `NotFoundError`, `InvalidError`."""
    document = files.document(path, top)
    if not isinstance(document, dict):
        raise InvalidError(f"{path} is not the JSON of a thread", "continue in Amp itself")
    builder = StoryBuilder(Amp.key, path)
    translate(document, builder)
    return builder.finish()


def translate(document: dict[str, Any], builder: StoryBuilder) -> None:
    """Translate a thread."""
    story, blocks = builder.story, Blocks(builder)
    story.id = text_of(document.get("id"), 80)
    story.folder = _folder(document)
    story.started = stamp_of(document.get("created"))
    initial = member(document, "env", "initial")
    story.version = text_of(member(initial, "platform", "clientVersion"), 40)
    tree = next(iter(objects(member(initial, "trees"))), None)
    story.branch = text_of(member(tree, "repository", "ref"), 200).removeprefix("refs/heads/")
    story.head = text_of(member(tree, "repository", "sha"), 80)
    for message in objects(document.get("messages")):
        _message(message, builder, blocks)


def _message(message: dict[str, Any], builder: StoryBuilder, blocks: Blocks) -> None:
    role, content = message.get("role"), message.get("content")
    at = stamp_of(member(message, "meta", "sentAt")) or text_of(member(message, "usage", "timestamp"), 40)
    if role == "user":
        for block in objects(content):
            if block.get("type") == "tool_result":
                _result(block, builder)
        builder.prompt(_words_of(message), at)
    elif role == "assistant":
        _answer(message, at, builder, blocks)
    elif role == "info":
        for block in objects(content):
            if summary := text_of(member(block, "summary", "summary")):
                builder.story.compactions += 1
                builder.say(summary, at, is_summary=True)
    else:
        builder.skip(role)


def _answer(message: dict[str, Any], at: str, builder: StoryBuilder, blocks: Blocks) -> None:
    builder.model(member(message, "usage", "model"))
    for block in objects(message.get("content")):
        kind = block.get("type")
        if kind == "text":
            builder.say(text_of(block.get("text")), at)
        elif kind == "tool_use":
            blocks.call(block, at)
        elif kind not in ("thinking", "redacted_thinking"):
            builder.skip(kind)
    _ended(message, builder)


def _ended(message: dict[str, Any], builder: StoryBuilder) -> None:
    state = member(message, "state", "type")
    if state == "complete" and member(message, "state", "stopReason") != "tool_use":
        builder.end_turn()
    elif state == "cancelled":
        builder.story.interrupted = builder.step()
        builder.end_turn()
    builder.story.limits = ["an error"] if state == "error" else []


def _words_of(message: dict[str, Any]) -> str:
    """The person's words in a message; "" where there are none."""
    return texts_in(message.get("content"), "text").strip() if message.get("role") == "user" else ""


def _result(block: dict[str, Any], builder: StoryBuilder) -> None:
    id_ = block.get("toolUseID") or block.get("tool_use_id")
    run = block["run"] if isinstance(block.get("run"), dict) else block
    status, result = text_of(run.get("status"), 40), run.get("result", run.get("output"))
    code = member(result, "exitCode")
    code = code if type(code) is int else None
    if status in _ENDED:
        error = run.get("error")
        text = text_of(error) or text_of(member(error, "message")) or text_of(run.get("reason")) or result_text(result)
        builder.result(id_, _ENDED[status], text, code=code)
    elif status == "done":
        call = builder.known(id_)
        outcome: Outcome = "unrecorded" if call is not None and call.kind == "run" else "ok"
        builder.result(id_, outcome if code is None else outcome_of(code), result_text(result), code=code)


def _folder(document: object) -> str:
    """The folder of a thread: the first tree that it was started with."""
    for tree in objects(member(document, "env", "initial", "trees")):
        if folder := path_of_url(text_of(tree.get("uri"), 4000)):
            return folder
    return ""


def _top() -> str:
    return os.path.join(files.root("XDG_DATA_HOME", ".local", "share"), "amp")
