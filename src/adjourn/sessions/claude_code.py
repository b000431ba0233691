"""Sessions of Claude Code: `~/.claude/projects/KEY/UUID.jsonl`, one record a line, only appended to.

The order of the file counts; `parentUuid` may dangle. Its marks say whose words a record of the role user holds, not its role.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from adjourn.host.process import started
from adjourn.sessions import files, heads
from adjourn.sessions.reader import SessionFile, first_person_words, is_within, kind_of, texts_in, what_of
from adjourn.sessions.story import MAX_SEARCHED, Outcome, SessionStory, StoryBuilder, member, objects, text_of

_KEY = re.compile(r"[^A-Za-z0-9]")
_LONG_KEY = 150
"""Characters of a folder's key that count: the client cuts long keys."""
_NOT_WORDS = (
    "<local-command", "<command-message>", "<system-reminder>", "<task-notification>", "[SYSTEM NOTIFICATION", "[Image: source",
    "Caveat:", "<bash-stdout>", "<bash-stderr>", "<user-prompt-submit-hook>", "[Request interrupted by user",
)  # fmt: skip
_SUMMARY = "This session is being continued from a previous conversation"
_COMMAND = re.compile(r"<command-name>\s*(\S*?)\s*</command-name>(?:.*?<command-args>(.*?)</command-args>)?", re.DOTALL)
_INPUT = re.compile(r"<bash-input>(.*?)</bash-input>", re.DOTALL)
_EXIT = re.compile(r"^(?:Error: )?Exit code (-?\d{1,10})\b")
_ERROR = re.compile(r"</?tool_use_error>")
_CUT_CALL = re.compile(
    rb'"type":"tool_use","id":"([^"\\]{1,200})","name":"([^"\\]{1,100})","input":\{"(?:command|file_path)":"((?:[^"\\]|\\.){1,1000})'
)
_RESULT_OF = re.compile(rb'"tool_use_id":"([^"\\]{1,200})"')
_SKIPPED = frozenset((
    "api-request", "api-request-shape", "api-request-blob", "cost-state", "atis-latch", "tools-used", "last-prompt", "mode",
    "permission-mode", "file-history-snapshot", "file-history-delta", "summary", "custom-title", "ai-title", "progress", "pr-link",
    "agent-name", "tag",
))  # fmt: skip
_TASK = "task "
MAX_PRESERVED = 10_000
"""Records that a compaction can name as kept."""
MAX_PROCESSES = 200
"""Notes of processes that are read."""
_COMMANDS_OF_CLIENT = frozenset(
    ("/compact", "/clear", "/model", "/exit", "/quit", "/resume", "/cost", "/help", "/config")
)


class ClaudeCode:
    """Reads sessions of Claude Code."""

    name = "Claude Code"
    key = "claude"
    tried: Sequence[str] = ("2.1.330", "2.0.76")

    def find(self, trees: Sequence[str], name: str = "", since: float = 0.0) -> Iterator[SessionFile]:
        """See `TranscriptReader.find`."""
        top = files.root("CLAUDE_CONFIG_DIR", ".claude")
        projects = os.path.join(top, "projects")
        keys = [_KEY.sub("-", tree)[:_LONG_KEY] for tree in trees]
        for folder in files.folders(projects):
            if keys and not any(folder.startswith(key) for key in keys):
                continue
            for entry in files.named(os.path.join(projects, folder), ".jsonl", since):
                if entry.name.startswith("agent-") or not entry.name.startswith(name):
                    continue
                if (file := heads.file_of(self.key, entry, self.head)) and is_within(file.folder, trees):
                    yield file

    def head(self, path: str) -> SessionFile | None:
        """The session in a file, by its first records; None for a helper's, or none."""
        top = files.root("CLAUDE_CONFIG_DIR", ".claude")
        edges = files.edges(path, top)
        file = self._described(path, edges)
        if file is not None and not file.title and edges.size > len(edges.head):
            file = self._described(path, files.edges(path, top, files.LONG_HEAD))
        return file if file is not None and file.folder and file.title else None

    def _described(self, path: str, edges: files.Edges) -> SessionFile | None:
        id_ = os.path.basename(path)[:-6]
        file = SessionFile(client=self.key, id=id_, path=path, stamp=edges.stamp, size=edges.size)
        queued = ""
        for record in edges.first_records():
            if not isinstance(record, dict):
                continue
            if record.get("isSidechain") is True:
                return None
            file.folder = file.folder or text_of(record.get("cwd"), 4000)
            file.started = file.started or text_of(record.get("timestamp"), 40)
            if record.get("operation") == "enqueue":
                queued = queued or text_of(record.get("content"))
            elif record.get("type") == "user" and (words := _words_of(record)):
                file.title = first_person_words([words])
                break
        file.title = file.title or first_person_words([queued])
        file.touched = edges.last() or file.started
        return file

    def read(self, file: SessionFile) -> SessionStory:
        """The story of a session. Raises `NotFoundError`, `InvalidError`."""
        return read(file.path, files.root("CLAUDE_CONFIG_DIR", ".claude"))


def processes() -> dict[str, bool]:
    """The sessions of which a process is noted, and whether it still runs. A client that ends in order removes its note."""
    top = files.root("CLAUDE_CONFIG_DIR", ".claude")
    found: dict[str, bool] = {}
    for entry in files.named(os.path.join(top, "sessions"), ".json")[:MAX_PROCESSES]:
        note = files.decode(files.small(entry.path, top))[0]
        pid, id_ = member(note, "pid"), text_of(member(note, "sessionId"), 80)
        if type(pid) is int and 0 < pid < 2**31 and id_:
            since = started(pid)
            runs = since == 0 or (since is not None and str(since) == text_of(member(note, "procStart"), 40))
            found[id_] = found.get(id_, False) or runs
    return found


def read(path: str, top: str = "") -> SessionStory:
    """The story of one transcript. Raises `NotFoundError`, `InvalidError`."""
    builder = StoryBuilder(ClaudeCode.key, path)
    scan = files.Scan()
    read_into(builder, path, top, scan)
    story = builder.finish()
    story.size, story.unread = scan.size, scan.unread
    return story


def read_into(builder: StoryBuilder, path: str, top: str, scan: files.Scan) -> None:
    """Add to a story what `scan` is to read of its transcript. Raises `NotFoundError`, `InvalidError`."""
    builder.story.id = os.path.basename(path).removesuffix(".jsonl")
    translate = _Translation(builder)
    for record in files.records(path, top, _is_wanted, scan):
        if record.edges:
            translate.edges(record.edges, is_cut=not record.is_readable)
        elif isinstance(record.value, dict):
            translate.record(record.value)
        else:
            builder.skip("no-object")


def _is_wanted(line: bytes) -> bool:
    if b'"type":"user"' not in line:
        return b'"type":"queue-operation"' in line or b'"compact_boundary"' in line
    return b'"tool_result"' not in line


class _Translation:
    """Translates records, one after the other."""

    def __init__(self, builder: StoryBuilder) -> None:
        self._builder = builder
        self._story = builder.story
        self._seen: set[str] = set()
        self._about: tuple[Any, ...] = ()
        self._handlers = {
            "user": self._user, "assistant": self._assistant, "system": self._system, "attachment": self._attachment,
            "queue-operation": self._queue,
        }  # fmt: skip

    def record(self, record: dict[str, Any]) -> None:
        """Translate one record."""
        kind = text_of(record.get("type"), 60)
        if record.get("isSidechain") is True or kind in _SKIPPED:
            return
        handler = self._handlers.get(kind)
        if handler is None:
            self._builder.skip(kind)
            return
        about = (record.get("cwd"), record.get("gitBranch"), record.get("version"))
        if about != self._about:  # few records change it
            story, self._about = self._story, about
            story.folder = story.folder or text_of(about[0], 4000)
            story.branch = text_of(about[1], 200) or story.branch
            story.version = text_of(about[2], 40) or story.version
        handler(record)

    def edges(self, edges: bytes, *, is_cut: bool) -> None:
        """A record that was cut, or is too long: what can be seen of its call or result."""
        if is_cut and (match := _CUT_CALL.search(edges)):
            id_, name, what = (part.decode(errors="replace") for part in match.groups())
            kind = kind_of(name)
            self._builder.call(id_, name, kind, what, path=what if kind == "edit" else "")
        elif match := _RESULT_OF.search(edges):
            self._builder.result(match[1].decode(errors="replace"), _seen_outcome(edges, is_cut=is_cut))
        if is_cut:
            self._story.unreadable += 1

    # --- the person, and what wears their role

    def _user(self, record: dict[str, Any]) -> None:
        at = record.get("timestamp")
        content = member(record, "message", "content")
        blocks = objects(content)
        results = [block for block in blocks if block.get("type") == "tool_result"]
        for block in results:
            self._result(block, record)
        if results:
            return
        text = texts_in(content, "text")
        if record.get("isCompactSummary") is True or text.startswith(_SUMMARY):
            self._builder.say(text, at, is_summary=True)
        elif text.startswith("[Request interrupted by user"):
            self._story.interrupted = self._builder.step(at)
            self._builder.end_turn()
        elif words := _words_in(text, record):
            self._builder.prompt(words, at, by_script=record.get("promptSource") == "sdk", record=record.get("uuid"))
        elif command := _INPUT.search(text):
            call = self._builder.call("", "shell of the person", "list", command[1], at)
            call.outcome, call.by_person = "ok", True
            self._builder.end_turn()
        if images := len([block for block in blocks if block.get("type") == "image"]):
            self._builder.prompt(f"({images} image{'s' if images > 1 else ''}, not copied)", at)
        elif content is not None and not isinstance(content, str | list):
            self._builder.skip("user-message")

    def _queue(self, record: dict[str, Any]) -> None:
        text = text_of(record.get("content"))
        if record.get("operation") != "enqueue":
            self._builder.unqueue(text)
        elif text.startswith("<task-notification>"):
            self._notification(text)
            self._builder.queue(text)
        else:
            self._builder.queue(text, record.get("timestamp"))

    # --- the agent

    def _assistant(self, record: dict[str, Any]) -> None:
        message, at = record.get("message"), record.get("timestamp")
        if (
            member(message, "model") == "<synthetic>"
            or record.get("madeBy") == "other"
            or record.get("isApiErrorMessage")
        ):
            if record.get("isApiErrorMessage"):
                self._story.limits.append(texts_in(member(message, "content"), "text")[:300] or "an error of the API")
                del self._story.limits[:-5]
            return
        self._builder.model(member(message, "model"))
        self._usage(message)
        content = member(message, "content")
        if isinstance(content, str):
            self._builder.say(content, at)
        for block in objects(content):
            kind = block.get("type")
            if kind == "text":
                self._story.limits.clear()
                self._builder.say(text_of(block.get("text")), at)
            elif kind == "tool_use":
                self._call(block, at)
            elif kind not in ("thinking", "redacted_thinking", "server_tool_use", "image"):
                self._builder.skip(kind)
        if member(message, "stop_reason") == "end_turn":
            self._builder.end_turn()

    def _usage(self, message: object) -> None:
        id_, usage = text_of(member(message, "id"), 200), member(message, "usage")
        if id_ and id_ not in self._seen and len(self._seen) < 100_000:
            self._seen.add(id_)
            for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
                count = member(usage, name)
                self._story.tokens += count if type(count) is int and 0 <= count < 10**12 else 0

    def _call(self, block: dict[str, Any], at: object) -> None:
        name, arguments = text_of(block.get("name"), 100), block.get("input")
        kind = kind_of(name)
        what, path = what_of(arguments)
        self._builder.call(block.get("id"), name, kind, what, at, path=path if kind == "edit" else "")
        if name == "TodoWrite":
            self._builder.replan(
                (todo.get("content"), todo.get("status")) for todo in objects(member(arguments, "todos"))
            )
        elif name == "ExitPlanMode":
            self._builder.say(text_of(member(arguments, "plan")), at)
        elif name == "AskUserQuestion":
            for question in objects(member(arguments, "questions")):
                self._builder.say(text_of(question.get("question")), at)

    # --- results

    def _result(self, block: dict[str, Any], record: dict[str, Any]) -> None:
        id_, typed = block.get("tool_use_id"), record.get("toolUseResult")
        text = texts_in(block.get("content"), "text")
        read = text_of(member(typed, "file", "content"), MAX_SEARCHED) or text
        outcome, code = self._outcome(block, record, text)
        call = self._builder.known(id_)
        if call is not None and call.kind == "helper" and member(typed, "isAsync") is True:
            call.words = "(started in the background)"
            return
        if record.get("toolDenialBeforeRun") is True:
            read = "declined by the person"
        is_new = outcome == "ok" and member(typed, "type") == "create"
        self._builder.result(id_, outcome, _ERROR.sub("", read), code=code, at=record.get("timestamp"))
        if call is not None and is_new and (change := self._story.changes.get(call.path)):
            change.is_new = change.edits == 1
        if call is not None and call.tool in ("TaskCreate", "TaskUpdate"):
            self._task(call.what, typed)

    def _task(self, what: str, typed: object) -> None:
        id_ = text_of(member(typed, "task", "id"), 40) or text_of(member(typed, "taskId"), 40)
        if not id_:
            return
        notes = self._story.notes
        state, _, subject = notes.get(f"{_TASK}{id_}", f"pending {what}").partition(" ")
        subject = text_of(member(typed, "task", "subject")) or subject
        state = text_of(member(typed, "statusChange", "to"), 30).replace(" ", "_") or state
        self._builder.note(f"{_TASK}{id_}", f"{state} {subject}")
        tasks = [value.partition(" ") for name, value in notes.items() if name.startswith(_TASK)]
        self._builder.replan((subject, state) for state, _, subject in tasks)

    @staticmethod
    def _outcome(block: dict[str, Any], record: dict[str, Any], text: str) -> tuple[Outcome, int | None]:
        denial = record.get("toolDenialKind")
        if denial == "interrupted":
            return "stopped", None
        if (
            denial == "user-rejected"
            and record.get("toolDenialBeforeRun") is not True
            and "toolDenialBeforeRun" not in record
        ):
            return "stopped", None
        if (
            denial is not None
            or "<tool_use_error>Blocked:" in text
            or member(record, "permissionDecision", "decision") == "reject"
        ):
            return "refused", None
        if match := _EXIT.match(text):
            return "failed", int(match[1])
        if member(record, "toolUseResult", "interrupted") is True:
            return "stopped", None
        if block.get("is_error") is True:
            if text.startswith("The user doesn't want to proceed"):  # versions that do not tell a refusal from a stop
                return "stopped", None
            return ("refused" if "has been denied" in text[:300] else "failed"), None
        typed = record.get("toolUseResult")
        return "ok", 0 if isinstance(typed, dict) and "stdout" in typed else None

    # --- the client

    def _system(self, record: dict[str, Any]) -> None:
        if record.get("subtype") == "compact_boundary":
            kept = member(record, "compactMetadata", "preservedMessages", "uuids")
            self._builder.compacted(kept[:MAX_PRESERVED] if isinstance(kept, list) else ())
            self._builder.step(record.get("timestamp"))
        elif record.get("subtype") in ("turn_duration", "stop_hook_summary"):
            self._builder.end_turn()
        elif record.get("subtype") == "api_error":
            self._story.limits.append("an error of the API")
            del self._story.limits[:-5]

    def _attachment(self, record: dict[str, Any]) -> None:
        attachment = record.get("attachment")
        if member(attachment, "type") != "queued_command":
            return
        text = texts_in(member(attachment, "prompt"))
        if "<task-notification>" in text[:200] or member(attachment, "commandMode") == "task-notification":
            self._notification(text)
        else:
            self._builder.unqueue(text)
            self._builder.prompt(text, record.get("timestamp"))

    def _notification(self, text: str) -> None:
        """A helper in the background has ended: its finding belongs to the call that started it."""
        id_, found = (
            re.search(r"<tool-use-id>([^<]{1,200})", text),
            re.search(r"<result>(.*?)</result>", text, re.DOTALL),
        )
        if id_ is not None:
            self._builder.result(id_[1], "ok", found[1] if found else "")


def _seen_outcome(edges: bytes, *, is_cut: bool) -> Outcome:
    """How a call ended, by the beginning and the end of its result: a part that is missing may say that it failed."""
    if b'"is_error":true' in edges:
        return "failed"
    return "ok" if not is_cut and b'"interrupted":false' in edges[-1024:] else "unrecorded"


def _words_of(record: dict[str, Any]) -> str:
    """The person's words in a record of the role user; "" where they are another's."""
    content = member(record, "message", "content")
    is_result = any(block.get("type") == "tool_result" for block in objects(content))
    return "" if is_result else _words_in(texts_in(content, "text"), record)


def _words_in(text: str, record: dict[str, Any]) -> str:
    """The same, of a record with this text."""
    if (
        record.get("isMeta") is True
        or record.get("isCompactSummary") is True
        or record.get("isVisibleInTranscriptOnly") is True
    ):
        return ""
    text = text.strip()
    if member(record, "origin", "kind") not in (None, "human") or text.startswith(_SUMMARY):
        return ""
    if command := _COMMAND.search(text[:20_000]):
        arguments = (command[2] or "").strip()
        if command[1] in _COMMANDS_OF_CLIENT:
            return ""
        return f"{command[1]} {arguments}".strip()
    return "" if text.startswith(_NOT_WORDS) or _INPUT.match(text) else text
