"""Sessions of Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-TIME-UUID.jsonl`, one record a line, only appended to.

A rollout tells most things twice: as `response_item`, what the model saw, and as `event_msg`, what the interface showed. Prompts are read
from the second, calls and answers from the first, outcomes from both: they are matched by the call's id and never added up.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from adjourn.sessions import files, heads
from adjourn.sessions.reader import (
    SessionFile,
    exit_code,
    first_person_words,
    is_within,
    kind_of,
    outcome_of,
    texts_in,
    what_of,
)
from adjourn.sessions.story import Outcome, SessionStory, StoryBuilder, member, objects, text_of

MAX_FILES = 5000
"""Newest rollouts that are looked at for a list."""
_ID = re.compile(r"rollout-.{19}-([0-9a-fA-F-]{36})\.jsonl\Z")
_PATCHED = re.compile(r"^\*\*\* (Update|Add|Delete) File: (.{1,1000})$", re.MULTILINE)
_NOT_WORDS = (
    "# AGENTS.md instructions", "<environment_context>", "<user_instructions>", "<turn_aborted>", "<user_shell_command>",
    "<subagent_notification>", "<permissions instructions>", "<skill", "<INSTRUCTIONS>", "Another language model started to solve",
)  # fmt: skip
_SKIPPED = frozenset(("turn_context", "world_state", "token_usage_record", "ghost_snapshot", "session_state"))
_SKIPPED_EVENTS = frozenset((
    "token_count", "thread_settings_applied", "agent_reasoning", "agent_reasoning_section_break", "agent_reasoning_raw_content",
    "agent_message", "exec_command_begin", "mcp_tool_call_begin", "patch_apply_begin", "entered_review_mode",
    "exited_review_mode", "thread_name_updated", "item_started", "context_compacted", "web_search_begin", "web_search_end",
    "view_image_tool_call", "turn_diff", "background_event", "warning", "plan_update", "thread_rolled_back",
))  # fmt: skip
_RUNNING = re.compile(r"Process running with session ID (\d+)")
_META, _TURNS, _RUNS = "meta", "turns", "runs "
_ADDS, _DELETES = ("add", "added", "Add"), ("delete", "deleted", "Delete")


class Codex:
    """Reads sessions of Codex."""

    name = "Codex"
    key = "codex"
    tried: Sequence[str] = ("0.171.0", "0.98.0")

    def find(self, trees: Sequence[str], name: str = "", since: float = 0.0) -> Iterator[SessionFile]:
        """See `TranscriptReader.find`."""
        top = files.root("CODEX_HOME", ".codex")
        for entry in _rollouts(os.path.join(top, "sessions"), since):
            if f"-{name}" not in entry.name:
                continue
            file = heads.file_of(self.key, entry, self.head) if heads.are_kept() else self._head(entry.path, trees)
            if file and is_within(file.folder, trees):
                yield file

    def head(self, path: str) -> SessionFile | None:
        """The session in a file, by its first records; None for a helper's, or none."""
        return self._head(path, ())

    def _head(self, path: str, trees: Sequence[str]) -> SessionFile | None:
        top = files.root("CODEX_HOME", ".codex")
        edges = files.edges(path, top)
        file = self._described(path, edges, trees)
        if file is not None and not file.title and edges.size > len(edges.head):
            file = self._described(path, files.edges(path, top, files.LONG_HEAD), trees)
        return file if file is not None and file.id and file.folder and file.title else None

    def _described(self, path: str, edges: files.Edges, trees: Sequence[str]) -> SessionFile | None:
        file = SessionFile(client=self.key, id="", path=path, stamp=edges.stamp, size=edges.size)
        for record in edges.first_records():
            payload = member(record, "payload")
            if member(record, "type") == "session_meta" and not file.id:
                if isinstance(member(payload, "source"), dict) or member(payload, "parent_thread_id"):
                    return None
                file.id, file.folder = text_of(member(payload, "id"), 80), text_of(member(payload, "cwd"), 4000)
                if not is_within(file.folder, trees):  # most rollouts, of which only this record is decoded
                    return None
                file.started = text_of(member(record, "timestamp"), 40)
            elif words := _words_of(record):
                file.title = first_person_words([words])
                break
        match = _ID.search(path)
        file.id = file.id or (match[1] if match else "")
        file.touched = edges.last() or file.started
        return file

    def read(self, file: SessionFile) -> SessionStory:
        """The story of a session. Raises `NotFoundError`, `InvalidError`."""
        return read(file.path, files.root("CODEX_HOME", ".codex"))


def _rollouts(top: str, since: float) -> Iterator[os.DirEntry[str]]:
    """The rollouts, the newest first."""
    count = 0
    for year in sorted(files.folders(top), reverse=True):
        for month in sorted(files.folders(os.path.join(top, year)), reverse=True):
            for day in sorted(files.folders(os.path.join(top, year, month)), reverse=True):
                rollouts = files.named(os.path.join(top, year, month, day), ".jsonl", since)
                for entry in sorted(rollouts, key=lambda entry: entry.name, reverse=True):
                    yield entry
                    count += 1
                    if count >= MAX_FILES:
                        return


def read(path: str, top: str = "") -> SessionStory:
    """The story of one rollout. Raises `NotFoundError`, `InvalidError`."""
    builder = StoryBuilder(Codex.key, path)
    scan = files.Scan()
    read_into(builder, path, top, scan)
    story = builder.finish()
    story.size, story.unread = scan.size, scan.unread
    return story


def read_into(builder: StoryBuilder, path: str, top: str, scan: files.Scan) -> None:
    """Add to a story what `scan` is to read of its rollout. Raises `NotFoundError`, `InvalidError`."""
    match = _ID.search(path)
    builder.story.id = builder.story.id or (match[1] if match else "")
    translate = _Translation(builder)
    for record in files.records(path, top, _is_wanted, scan):
        if record.edges:
            builder.story.unreadable += not record.is_readable
            if (id_ := re.search(rb'"call_id":"([^"\\]{1,200})"', record.edges)) and b"_output" in record.edges[:400]:
                builder.result(id_[1].decode(errors="replace"), "unrecorded")
        elif isinstance(record.value, dict):
            translate.record(record.value)
        else:
            builder.skip("no-object")
    translate.keep()


def _is_wanted(line: bytes) -> bool:
    return b'"UserMessage"' in line or b'"user_message"' in line


def _words_of(record: object) -> str:
    """The person's words in a record; "" where there are none."""
    payload = member(record, "payload")
    if member(record, "type") == "event_msg":
        if member(payload, "type") == "user_message":
            return text_of(member(payload, "message"))
        if member(payload, "type") == "item_completed" and member(payload, "item", "type") == "UserMessage":
            return texts_in(member(payload, "item", "content"), "text")
    if (
        member(record, "type") == "response_item"
        and member(payload, "role") == "user"
        and member(payload, "type") == "message"
    ):
        passed = member(payload, "internal_chat_message_metadata_passthrough")
        text = texts_in(member(payload, "content"), "input_text", "text")
        if member(passed, "content_item_kinds") == ["user.text"] and not text.lstrip().startswith(_NOT_WORDS):
            return text
    return ""


class _Translation:
    """Translates records, one after the other."""

    def __init__(self, builder: StoryBuilder) -> None:
        self._builder = builder
        self._story = builder.story
        notes = self._story.notes
        self._has_meta, self._has_turns = _META in notes, _TURNS in notes
        self._running = {name[len(_RUNS) :]: id_ for name, id_ in notes.items() if name.startswith(_RUNS)}
        self._handlers = {
            "session_meta": self._meta, "response_item": self._item, "event_msg": self._event, "compacted": self._compacted,
        }  # fmt: skip

    def record(self, record: dict[str, Any]) -> None:
        """Translate one record."""
        kind, payload = text_of(record.get("type"), 60), record.get("payload")
        if kind in _SKIPPED:
            self._builder.model(member(payload, "model"))
            return
        handler = self._handlers.get(kind)
        if handler is None or not isinstance(payload, dict):
            self._builder.skip(kind)
            return
        handler(payload, record.get("timestamp"), record)

    def keep(self) -> None:
        """Note what the records that follow depend on."""
        notes = self._story.notes
        notes.clear()
        for name in [_META] * self._has_meta + [_TURNS] * self._has_turns:
            self._builder.note(name, "yes")
        for name, id_ in self._running.items():
            self._builder.note(f"{_RUNS}{name}", id_)

    def _meta(self, payload: dict[str, Any], at: object, record: dict[str, Any]) -> None:
        del record
        if self._has_meta:  # a fork holds those of its ancestors, too
            self._story.resumes += 1
            return
        self._has_meta, story = True, self._story
        story.id = text_of(payload.get("id"), 80) or story.id
        story.folder, story.version = text_of(payload.get("cwd"), 4000), text_of(payload.get("cli_version"), 40)
        story.branch = text_of(member(payload, "git", "branch"), 200)
        story.head = text_of(member(payload, "git", "commit_hash"), 80)
        story.is_helper = isinstance(payload.get("source"), dict)
        story.started = text_of(at, 40)

    def _compacted(self, payload: dict[str, Any], at: object, record: dict[str, Any]) -> None:
        del record
        kept = objects(payload.get("replacement_history"))
        self._builder.compacted(texts=[texts_in(item.get("content")) for item in kept if item.get("role") == "user"])
        self._builder.say(text_of(payload.get("message")), at, is_summary=True)

    # --- what the interface showed

    def _event(self, payload: dict[str, Any], at: object, record: dict[str, Any]) -> None:
        kind = text_of(payload.get("type"), 60)
        if kind == "user_message" or (kind == "item_completed" and member(payload, "item", "type") == "UserMessage"):
            self._builder.prompt(_words_of(record), at, by_script=False)
        elif kind == "item_completed":
            self._completed(payload.get("item"), at)
        elif kind == "task_started":
            self._story.is_turn_open = self._has_turns = True
        elif kind == "task_complete":
            self._builder.end_turn()
        elif kind == "turn_aborted":
            self._story.interrupted = self._builder.step(at)
            self._builder.end_turn()
        elif kind in ("error", "stream_error"):
            self._story.limits.append(text_of(payload.get("message"), 300) or "an error of the API")
            del self._story.limits[:-5]
        elif kind == "exec_command_end":
            self._ran(payload.get("call_id"), payload, at)
        elif kind == "patch_apply_end":
            self._builder.result(payload.get("call_id"), "ok" if payload.get("success") is True else "failed", at=at)
        elif kind not in _SKIPPED_EVENTS:
            self._builder.skip(kind)

    def _completed(self, item: object, at: object) -> None:
        kind, id_ = member(item, "type"), member(item, "id")
        if kind == "CommandExecution":
            self._ran(id_, item, at)
        elif kind == "FileChange":
            self._changed(id_, item, at)
        elif kind == "McpToolCall":
            is_ok = member(item, "result", "isError") is False
            text = texts_in(member(item, "result", "content"), "text") or text_of(member(item, "error", "message"))
            self._builder.result(id_, "ok" if is_ok else "failed", text, at=at)
        elif kind == "CollabAgentToolCall":
            call = self._builder.known(id_)
            if call is not None and (asked := text_of(member(item, "prompt"))):
                call.what = asked[:1200]

    def _ran(self, id_: object, item: object, at: object) -> None:
        code = member(item, "exit_code")
        if type(code) is int:
            self._builder.result(
                id_, outcome_of(code), text_of(member(item, "aggregated_output"), 64 * 1024), code=code, at=at
            )

    def _changed(self, id_: object, item: object, at: object) -> None:
        changes = member(item, "changes")
        is_ok = member(item, "status") == "completed"
        call = self._builder.known(id_)
        if call is None or call.ended or not isinstance(changes, dict):
            return
        call.path = ""  # a patch may change several files: each is counted here
        self._builder.result(id_, "ok" if is_ok else "failed", text_of(member(item, "stdout")), at=at)
        for path, change in list(changes.items())[:200]:
            kind = member(change, "type")
            self._builder.change(path, is_done=is_ok, is_new=kind in _ADDS, is_deleted=kind in _DELETES)
            call.path = call.path or path

    # --- what the model saw

    def _item(self, payload: dict[str, Any], at: object, record: dict[str, Any]) -> None:
        kind = payload.get("type")
        if kind == "message":
            self._message(payload, at, record)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            self._call(payload, at)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._output(payload, at)
        elif kind not in (
            "reasoning",
            "web_search_call",
            "ghost_snapshot",
            "compaction",
            "tool_search_call",
            "tool_search_output",
        ):
            self._builder.skip(kind)

    def _message(self, payload: dict[str, Any], at: object, record: dict[str, Any]) -> None:
        role = payload.get("role")
        if role == "assistant":
            self._story.limits.clear()
            self._builder.say(texts_in(payload.get("content"), "output_text", "text"), at)
            if not self._has_turns:
                self._builder.end_turn()
        elif role == "user" and (words := _words_of(record)):
            self._builder.prompt(words, at)

    def _call(self, payload: dict[str, Any], at: object) -> None:
        unnamed = "local_shell" if payload.get("type") == "local_shell_call" else ""
        name, id_ = text_of(payload.get("name"), 100) or unnamed, payload.get("call_id")
        namespace = text_of(payload.get("namespace"), 100)
        arguments = payload.get("arguments", payload.get("action"))
        if isinstance(arguments, str):
            arguments = (
                files.decode(arguments.encode(errors="replace"))[0] if len(arguments) < files.MAX_SMALL else None
            )
        if name == "apply_patch":
            self._patch(
                id_, text_of(payload.get("input"), 64 * 1024) or text_of(member(arguments, "input"), 64 * 1024), at
            )
            return
        kind = "mcp" if namespace.startswith("mcp_") else kind_of(name)
        what, _ = what_of(arguments)
        self._builder.call(id_, f"{namespace}.{name}" if kind == "mcp" and namespace else name, kind, what, at)
        if name == "update_plan":
            self._builder.replan((item.get("step"), item.get("status")) for item in objects(member(arguments, "plan")))
        elif name == "write_stdin" and (id_of := self._running.get(str(member(arguments, "session_id")))):
            self._running[f"call {text_of(id_, 200)}"] = id_of

    def _patch(self, id_: object, patch: str, at: object) -> None:
        paths = [match[2].strip() for match in _PATCHED.finditer(patch)][:200]
        folder = self._story.folder
        full = [path if path.startswith("/") else os.path.join(folder, path) for path in paths]
        self._builder.call(id_, "apply_patch", "edit", ", ".join(paths) or "a patch", at, path=full[0] if full else "")

    def _output(self, payload: dict[str, Any], at: object) -> None:
        id_, output = payload.get("call_id"), payload.get("output")
        text = texts_in(output, "input_text", "output_text", "text")
        if isinstance(output, dict):
            text = text_of(output.get("content"), 64 * 1024)
        inner = (
            files.decode(text.encode(errors="replace"))[0]
            if text.startswith("{") and len(text) < files.MAX_SMALL
            else None
        )
        code = member(inner, "metadata", "exit_code")
        text = text_of(member(inner, "output"), 64 * 1024) if type(code) is int else text
        code = code if type(code) is int else exit_code(text)
        call = self._builder.known(id_)
        if call is None:
            return
        if running := _RUNNING.search(text[:400]):
            self._running[running[1]] = call.id
            return
        if (started := self._running.pop(f"call {call.id}", "")) and code is not None:
            self._builder.result(started, outcome_of(code), text, code=code, at=at)
        if call.tool.endswith("spawn_agent"):  # its finding comes with a later call
            if agent := text_of(member(inner, "agent_id"), 80):
                self._running[agent] = call.id
                return
        elif call.tool.endswith("wait_agent"):
            for agent in [agent for agent in self._running if len(agent) > 30 and agent in text]:
                self._builder.result(self._running.pop(agent), "ok", text, at=at)
        self._builder.result(id_, self._outcome(call.kind, text, code), text, code=code, at=at)

    @staticmethod
    def _outcome(kind: str, text: str, code: int | None) -> Outcome:
        if code is not None:
            return outcome_of(code)
        if "aborted by user" in text[:200]:
            return "stopped"
        if "rejected by user" in text[:300] or "denied by" in text[:300]:
            return "refused"
        if text.startswith(("apply_patch verification failed", "failed to parse", "invalid ", "error", "err:")):
            return "failed"
        return "unknown" if kind == "run" else "ok"
