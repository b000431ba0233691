"""Sessions of Copilot CLI: `~/.copilot/session-state/UUID/events.jsonl`, only appended to.

`success` says that a tool ran, not that its command worked: that is in `shellExecution.exitCode`. A call that was killed has no end, until
a resume writes one with the code `interrupted`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from adjourn.sessions import files
from adjourn.sessions.reader import SessionFile, first_person_words, is_within, kind_of, outcome_of, what_of
from adjourn.sessions.story import Outcome, SessionStory, StoryBuilder, member, objects, text_of

_SKIPPED = frozenset((
    "system.message", "assistant.turn_start", "session.usage_record", "session.info", "session.model_change", "assistant.intent",
    "assistant.reasoning", "hook.start", "hook.end", "session.truncation", "session.handoff", "session.title_changed",
    "session.warning", "tool.user_requested", "tool.execution_partial_result", "tool.execution_progress", "session.mode_changed", "session.plan_changed",
))  # fmt: skip


class CopilotCli:
    """Reads sessions of Copilot CLI."""

    name = "Copilot CLI"
    key = "copilot"
    tried: Sequence[str] = ("1.0.102", "1.0.73")

    def find(self, trees: Sequence[str], name: str = "", since: float = 0.0) -> Iterator[SessionFile]:
        """See `TranscriptReader.find`."""
        top = files.root("COPILOT_HOME", ".copilot")
        states = os.path.join(top, "session-state")
        for id_ in files.folders(states):
            events = files.named(os.path.join(states, id_), "events.jsonl", since) if id_.startswith(name) else []
            for entry in events:
                if (file := self._head(id_, entry.path, top)) and is_within(file.folder, trees):
                    yield file

    def _head(self, id_: str, path: str, top: str) -> SessionFile | None:
        edges = files.edges(path, top, files.LONG_HEAD)
        file = SessionFile(client=self.key, id=id_, path=path, stamp=edges.stamp, size=edges.size)
        for record in edges.first_records():
            kind = member(record, "type")
            if kind == "session.start":
                file.folder = text_of(member(record, "data", "context", "cwd"), 4000)
                file.started = text_of(member(record, "timestamp"), 40)
            elif kind == "user.message":
                file.title = first_person_words([text_of(member(record, "data", "content"))])
                break
        file.touched = edges.last() or file.started
        return file if file.folder and file.title else None

    def read(self, file: SessionFile) -> SessionStory:
        """The story of a session. Raises `NotFoundError`, `InvalidError`."""
        return read(file.path, files.root("COPILOT_HOME", ".copilot"))


def read(path: str, top: str = "") -> SessionStory:
    """The story of one transcript. Raises `NotFoundError`, `InvalidError`."""
    builder = StoryBuilder(CopilotCli.key, path)
    builder.story.id = os.path.basename(os.path.dirname(path))
    scan = files.Scan()
    for record in files.records(path, top, lambda line: b'"user.message"' in line[:400], scan):
        if record.edges:
            builder.story.unreadable += not record.is_readable
        elif isinstance(record.value, dict):
            _tell(record.value, builder)
        else:
            builder.skip("no-object")
    story = builder.finish()
    story.size, story.unread = scan.size, scan.unread
    return story


def _tell(record: dict[str, Any], builder: StoryBuilder) -> None:
    kind, data, at = text_of(record.get("type"), 60), record.get("data"), record.get("timestamp")
    story = builder.story
    if kind.startswith("tool."):
        _tool(kind, data, at, builder)
    elif kind == "user.message":
        builder.prompt(text_of(member(data, "content")), at)
    elif kind == "assistant.message":
        story.limits.clear()
        builder.model(member(data, "model"))
        builder.say(text_of(member(data, "content")), at)
    elif kind in ("session.start", "session.resume"):
        story.resumes += kind == "session.resume"
        story.version = text_of(member(data, "copilotVersion"), 40) or story.version
        story.folder = story.folder or text_of(member(data, "context", "cwd"), 4000)
        story.branch = text_of(member(data, "context", "branch"), 200) or story.branch
        story.head = text_of(member(data, "context", "headCommit"), 80) or story.head
    elif kind in ("assistant.turn_end", "session.shutdown", "session.idle"):
        builder.end_turn()
    elif kind == "abort":
        story.interrupted = builder.step(at)
        builder.end_turn()
    elif kind == "session.error":
        story.limits.append(text_of(member(data, "message"), 300) or "an error")
        del story.limits[:-5]
    elif kind.startswith("session.compaction"):
        story.compactions += kind == "session.compaction_complete"
    elif kind not in _SKIPPED:
        builder.skip(kind)


def _tool(kind: str, data: object, at: object, builder: StoryBuilder) -> None:
    if kind == "tool.execution_start":
        name = text_of(member(data, "toolName"), 100)
        tool = kind_of(name)
        what, path = what_of(member(data, "arguments"))
        builder.call(member(data, "toolCallId"), name, tool, what, at, path=path if tool == "edit" else "")
    elif kind == "tool.execution_complete":
        _ended(data, at, builder)
    elif kind not in _SKIPPED:
        builder.skip(kind)


def _ended(data: object, at: object, builder: StoryBuilder) -> None:
    id_ = member(data, "toolCallId")
    codes = (member(data, "shellExecution", "exitCode"), member(data, "toolTelemetry", "metrics", "exit_code"))
    code = next((value for value in codes if type(value) is int), None)
    error = text_of(member(data, "error", "message"))
    text = error or text_of(member(data, "result", "content"), 64 * 1024)
    outcome: Outcome = "ok" if member(data, "success") is True else "failed"
    reason = member(data, "error", "code")
    if reason == "interrupted":
        outcome = "stopped"
    elif reason in ("denied", "rejected"):
        outcome = "refused"
    elif code is not None:
        outcome = outcome_of(code)
    elif outcome == "ok" and (call := builder.known(id_)) is not None and call.kind == "run":
        outcome = "unrecorded"  # success says that the tool ran, not how the command ended
    builder.result(id_, outcome, text, code=code, at=at)
    for edit in objects(member(data, "fileEdits")):
        change = builder.story.changes.get(text_of(edit.get("path"), 1000))
        if change is not None and edit.get("kind") == "create":
            change.is_new = change.edits == 1
