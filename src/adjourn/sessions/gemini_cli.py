"""Sessions of Gemini CLI: `~/.gemini/tmp/NAME/chats/session-*.jsonl`, a log of messages and patches that is folded first.

A message whose id occurred replaces the earlier one, and each resume writes the whole history again. A call is written only when it has
ended, so one that was killed is not in the file. The exit code stands in the text of the result alone, and not where it is 0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from adjourn.sessions import files
from adjourn.sessions.reader import SessionFile, first_person_words, is_within, kind_of, outcome_of, texts_in, what_of
from adjourn.sessions.story import Outcome, SessionStory, StoryBuilder, member, objects, text_of

MAX_MESSAGES = 20_000
_NOT_WORDS = ("<session_context>", "<system", "This is the Gemini CLI.")
_HOOK, _HOOK_ENDS = "<hook_context>", "</hook_context>"
_EXIT = re.compile(
    r"\nExit Code: (-?\d{1,10})(?=\n(?:Signal:|Error:|Background PIDs|Process Group PGID|</untrusted_context>)|\s*\Z)"
)


class GeminiCli:
    """Reads sessions of Gemini CLI."""

    name = "Gemini CLI"
    key = "gemini"
    tried: Sequence[str] = ("0.61", "0.51")

    def find(self, trees: Sequence[str], name: str = "", since: float = 0.0) -> Iterator[SessionFile]:
        """See `TranscriptReader.find`."""
        top = _top()
        projects = os.path.join(top, "tmp")
        for project in files.folders(projects):
            folder = files.small(os.path.join(projects, project, ".project_root"), top).decode(errors="replace").strip()
            if not folder or not is_within(folder, trees):
                continue
            for entry in files.named(os.path.join(projects, project, "chats"), ".jsonl", since):
                if (file := self._head(entry, top, folder)) and file.id.startswith(name):
                    yield file

    def _head(self, entry: os.DirEntry[str], top: str, folder: str) -> SessionFile | None:
        edges = files.edges(entry.path, top, files.LONG_HEAD)
        file = SessionFile(client=self.key, id="", path=entry.path, folder=folder, stamp=edges.stamp, size=edges.size)
        for record in edges.first_records():
            if not file.id and (id_ := text_of(member(record, "sessionId"), 80)):
                if member(record, "kind") == "subagent":
                    return None
                file.id, file.started = id_, text_of(member(record, "startTime"), 40)
            messages = objects(member(record, "$set", "messages")) or objects([record])
            if words := first_person_words(map(_words_of, messages)):
                file.title = words
                break
        file.touched = max(edges.last(b"lastUpdated"), edges.last(), file.started)
        return file if file.id and file.title else None

    def read(self, file: SessionFile) -> SessionStory:
        """The story of a session. Raises `NotFoundError`, `InvalidError`."""
        story = read(file.path, _top())
        story.folder = story.folder or file.folder
        return story


def _top() -> str:
    """The client's folder. Its variable replaces the home folder above it."""
    return os.path.join(files.root("GEMINI_CLI_HOME"), ".gemini")


def read(path: str, top: str = "") -> SessionStory:
    """The story of one transcript. Raises `NotFoundError`, `InvalidError`."""
    builder = StoryBuilder(GeminiCli.key, path)
    scan = files.Scan()
    messages: dict[str, dict[str, Any]] = {}
    for record in files.records(path, top, _is_wanted, scan):
        if record.edges:
            builder.story.unreadable += not record.is_readable
        elif isinstance(record.value, dict):
            _fold(record.value, messages, builder)
        else:
            builder.skip("no-object")
    for message in messages.values():
        _tell(message, builder)
    story = builder.finish()
    story.size, story.unread = scan.size, scan.unread
    return story


def _is_wanted(line: bytes) -> bool:
    return b'"type":"user"' in line and b'"functionResponse"' not in line


def _fold(record: dict[str, Any], messages: dict[str, dict[str, Any]], builder: StoryBuilder) -> None:
    story = builder.story
    if "$set" in record:
        for message in objects(member(record, "$set", "messages")):
            _keep(message, messages)
    elif "$rewindTo" in record:
        ids = list(messages)
        cut = text_of(record["$rewindTo"], 200)
        for id_ in ids[ids.index(cut) + 1 :] if cut in ids else []:
            del messages[id_]
    elif "sessionId" in record:
        story.resumes += bool(story.id)
        story.id = text_of(record["sessionId"], 80)
        story.is_helper = record.get("kind") == "subagent"
        story.started = story.started or text_of(record.get("startTime"), 40)
    elif "type" in record:
        _keep(record, messages)
    else:
        builder.skip(next(iter(record), "empty"))


def _keep(message: dict[str, Any], messages: dict[str, dict[str, Any]]) -> None:
    """A message replaces the one with its id, but for the calls: what a resume writes again does not have their results."""
    id_ = text_of(message.get("id"), 200)
    before = messages.get(id_)
    if before is not None and "toolCalls" in before and "toolCalls" not in message:
        return
    if id_ and (before is not None or len(messages) < MAX_MESSAGES):
        messages[id_] = message


def _words_of(message: dict[str, Any]) -> str:
    """The person's words in a message; "" where there are none."""
    if message.get("type") != "user":
        return ""
    content = message.get("content")
    if any("functionResponse" in part for part in objects(content)):
        return ""
    text = texts_in(content).strip()
    if text.startswith(_HOOK):  # what a hook said as the session began stands before the first prompt
        text = text.rpartition(_HOOK_ENDS)[2].strip()
    return "" if text.startswith(_NOT_WORDS) else text


def _tell(message: dict[str, Any], builder: StoryBuilder) -> None:
    kind, at = text_of(message.get("type"), 40), message.get("timestamp")
    if kind == "user":
        builder.prompt(_words_of(message), at)
    elif kind == "gemini":
        builder.model(message.get("model"))
        total = member(message, "tokens", "total")
        builder.story.tokens += total if type(total) is int and 0 <= total < 10**12 else 0
        parts = [part for part in objects(message.get("content")) if part.get("thought") is not True]
        text = texts_in(parts) if parts else texts_in(message.get("content"))
        calls = objects(message.get("toolCalls"))
        builder.say(text, at)
        if text.strip() and not calls:
            builder.end_turn()
        for call in calls:
            _call(call, builder)
    elif kind == "error":
        builder.story.limits.append(texts_in(message.get("content"))[:300] or "an error")
        del builder.story.limits[:-5]
    elif kind not in ("info", "warning"):
        builder.skip(kind)


def _call(call: dict[str, Any], builder: StoryBuilder) -> None:
    name, arguments, at = text_of(call.get("name"), 100), call.get("args"), call.get("timestamp")
    kind = kind_of(name)
    what, path = what_of(arguments)
    builder.call(call.get("id"), name, kind, what, at, path=path if kind == "edit" else "")
    response = next((member(part, "functionResponse", "response") for part in objects(call.get("result"))), None)
    error = text_of(member(response, "error"))
    text = error or text_of(member(response, "output"), 64 * 1024)
    code: int | None = None
    if kind == "run" and not error and (codes := _EXIT.findall(text[-2000:])):
        code = int(codes[-1])
    outcome: Outcome = "failed" if error or call.get("status") == "error" else "ok"
    if call.get("status") == "cancelled":
        outcome = "stopped"
    elif "denied by policy" in error or "rejected" in error[:100]:
        outcome = "refused"
    elif code is not None:
        outcome = outcome_of(code)
    elif kind == "run" and outcome == "ok" and response is not None:
        code = 0
    builder.result(call.get("id"), outcome, text_of(call.get("resultDisplay"), 64 * 1024) or text, code=code, at=at)
    if member(call, "resultDisplay", "isNewFile") is True and (change := builder.story.changes.get(path)):
        change.is_new = change.edits == 1
    if name == "write_todos" and outcome == "ok":
        builder.replan((todo.get("description"), todo.get("status")) for todo in objects(member(arguments, "todos")))
