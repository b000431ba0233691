"""Sessions of Cline: `~/.cline/data/sessions/ID/ID.messages.json`, one JSON document each, with `ID.json`, which names the folder.

The document is written whole after each message. A call that was killed has no result. A command's exit code stands in the line that
Cline writes in front of its output, and `success` agrees with it.
"""

from __future__ import annotations

import os
import re
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
    result_text,
    stamp_of,
    texts_in,
)
from adjourn.sessions.story import Outcome, SessionStory, StoryBuilder, member, objects, text_of

_INPUT = re.compile(r'<user_input mode="\w{1,20}">(.*?)</user_input>', re.DOTALL)
_NOTICE = re.compile(r"<mode_notice>.*?</mode_notice>", re.DOTALL)
_EXIT = re.compile(r"\[?Command exited with code (-?\d{1,10})")


class Cline:
    """Reads sessions of Cline's command line and of its newer extensions."""

    name = "Cline"
    key = "cline"
    tried: Sequence[str] = ("3.0.65",)

    def find(self, trees: Sequence[str], name: str = "", since: float = 0.0) -> Iterator[SessionFile]:
        """See `TranscriptReader.find`."""
        top = _top()
        sessions = os.path.join(top, "data", "sessions")
        for id_ in files.folders(sessions):
            if not id_.startswith(name):
                continue
            for entry in files.named(os.path.join(sessions, id_), f"{id_}.messages.json", since):
                about = files.decode(files.small(os.path.join(sessions, id_, f"{id_}.json"), top))[0]
                file = self._described(id_, entry, about)
                if file is not None and is_within(file.folder, trees):
                    yield file

    def _described(self, id_: str, entry: os.DirEntry[str], about: object) -> SessionFile | None:
        if member(about, "parent_session_id") or member(about, "is_subagent") is True:
            return None
        title = first_person_words([_own(text_of(member(about, "prompt")))])
        folder = text_of(member(about, "cwd"), 4000)
        if not title and folder:
            with suppress(AdjournError):
                messages = objects(member(files.document(entry.path, _top()), "messages"))
                title = first_person_words(map(_words_of, messages))
        status = entry.stat(follow_symlinks=False)
        file = SessionFile(
            client=self.key, id=id_, path=entry.path, folder=folder, title=title, stamp=status.st_mtime, size=status.st_size,
            started=text_of(member(about, "started_at"), 40), touched=stamp_of(int(status.st_mtime * 1000)),
        )  # fmt: skip
        return file if folder and title else None

    def read(self, file: SessionFile) -> SessionStory:
        """The story of a session. Raises `NotFoundError`, `InvalidError`."""
        story = read(file.path, _top())
        story.id, story.folder = file.id, file.folder
        story.started = file.started or story.started
        return story


def read(path: str, top: str = "") -> SessionStory:
    """The story of one session. Raises `NotFoundError`, `InvalidError`."""
    document = files.document(path, top)
    if not isinstance(document, dict):
        raise InvalidError(f"{path} is not the JSON of a session", "continue in Cline itself")
    builder = StoryBuilder(Cline.key, path)
    translate(document, builder)
    return builder.finish()


def translate(document: dict[str, Any], builder: StoryBuilder) -> None:
    """Translate a session."""
    story, blocks = builder.story, Blocks(builder)
    story.id = text_of(document.get("sessionId"), 80)
    story.version = text_of(member(document, "origin", "version"), 40)
    for message in objects(document.get("messages")):
        role, content, at = message.get("role"), message.get("content"), stamp_of(message.get("ts"))
        if role == "user":
            for block in objects(content):
                if block.get("type") == "tool_result":
                    _result(block, at, builder)
            builder.prompt(_words_of(message), at)
        elif role == "assistant":
            _answer(message, content, at, builder, blocks)
        else:
            builder.skip(role)


def _answer(message: dict[str, Any], content: object, at: str, builder: StoryBuilder, blocks: Blocks) -> None:
    builder.model(member(message, "modelInfo", "id"))
    for name in ("inputTokens", "outputTokens"):
        count = member(message, "metrics", name)
        builder.story.tokens += count if type(count) is int and 0 <= count < 10**12 else 0
    has_call = False
    for block in objects(content):
        kind = block.get("type")
        if kind == "text":
            builder.say(text_of(block.get("text")), at)
        elif kind == "tool_use":
            has_call = True
            blocks.call(block, at)
        elif kind not in ("thinking", "redacted_thinking", "image"):
            builder.skip(kind)
    if not has_call:
        builder.end_turn()


def _words_of(message: dict[str, Any]) -> str:
    """The person's words in a message; "" where there are none."""
    if message.get("role") != "user":
        return ""
    return "\n".join(
        filter(None, (_own(text_of(block.get("text"))) for block in objects(message.get("content"))))
    ) or _own(text_of(message.get("content")))


def _own(text: str) -> str:
    """A text without the envelope in which Cline puts what the person typed."""
    match = _INPUT.search(text)
    return _NOTICE.sub("", match[1] if match else text).strip()


def _result(block: dict[str, Any], at: str, builder: StoryBuilder) -> None:
    """A call's result: a text, or an object or several with `result`, `error` and `success`, which may be a text of JSON."""
    id_, content = block.get("tool_use_id"), block.get("content")
    if isinstance(content, str) and content.startswith('{"query":') and len(content) < files.MAX_SMALL:
        content = files.decode(content.encode(errors="replace"))[0]
    items = objects(content if isinstance(content, list) else [content])
    parts = [item for item in items if "success" in item]
    call = builder.known(id_)
    is_run = call is not None and call.kind == "run"
    if not parts:
        text = text_of(content) or texts_in(content, "text") or result_text(content)
        outcome: Outcome = "failed" if block.get("is_error") is True else "unrecorded" if is_run else "ok"
        builder.result(id_, outcome, text, at=at)
        return
    codes = [int(match[1]) for item in parts if (match := _EXIT.match(text_of(item.get("error"), 200)))]
    is_ok = all(item.get("success") is True for item in parts)
    code = next((code for code in codes if code), None)
    if is_run and is_ok:
        code = 0
    texts = [text_of(item.get("result"), 64 * 1024) or text_of(item.get("error")) for item in parts]
    text = "\n".join(texts)
    builder.result(id_, outcome_of(code) if code is not None else "ok" if is_ok else "failed", text, code=code, at=at)


def _top() -> str:
    return files.root("CLINE_DIR", ".cline")
