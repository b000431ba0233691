"""Tasks of the VS Code extensions Cline, Roo Code and Kilo Code: `…/globalStorage/EXTENSION/tasks/ID/`, two JSON lists a task.

The form is known from the extensions' own sources. `ui_messages.json` is what the person saw, with who said what; how a call ended is in
`api_conversation_history.json`, in the text that the extension writes for the model. Both are written whole, so either may be cut.
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
    SessionFile,
    first_person_words,
    is_within,
    kind_of,
    outcome_of,
    result_text,
    stamp_of,
    texts_in,
)
from adjourn.sessions.story import Outcome, SessionCall, SessionStory, StoryBuilder, member, objects, text_of

MAX_RESULTS = 5000
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code")
_FOLDER = re.compile(rb"# Current (?:Working|Workspace) Directory \((/[^\n\"\\]{1,4000}?)\) Files")
_RESULT = re.compile(r"\s*\[(\w{1,60})(?: for '(.{0,4000}?)')?\] Result:[ \n]?(.*)\Z", re.DOTALL)
_TASK = re.compile(r"\s*<(task|user_message)>\s*(.*?)\s*</\1>", re.DOTALL)
_EXIT = re.compile(r"(?:^|\n)Exit code: (-?\d{1,10})")
_EDITS = ("editedExistingFile", "newFileCreated", "appliedDiff", "insertContent", "searchAndReplace", "fileDeleted")
_QUIET = frozenset((
    "reasoning", "api_req_retried", "error", "diff_error", "api_req_deleted", "api_req_finished", "checkpoint_created", "checkpoint_saved", "shell_integration_warning",
    "user_feedback_diff", "mcp_server_request_started", "load_mcp_documentation", "info", "hook_status", "task_progress", "condense_context",
    "resume_task", "resume_completed_task", "command_output", "codebase_search_result", "browser_action", "browser_action_result",
    "browser_action_launch", "clineignore_error", "rooignore_error", "subtask_result", "auto_approval_max_req_reached", "mistake_limit_reached",
))  # fmt: skip


class ClineTasks:
    """Reads tasks of Cline's, Roo Code's and Kilo Code's extensions for VS Code."""

    name = "Cline or Roo (VS Code)"
    key = "roo"
    tried: Sequence[str] = ()

    def find(self, trees: Sequence[str], name: str = "", since: float = 0.0) -> Iterator[SessionFile]:
        """See `TranscriptReader.find`."""
        for top in _tops():
            tasks = os.path.join(top, "tasks")
            for id_ in files.folders(tasks):
                file = self._described(id_, os.path.join(tasks, id_), top, since) if id_.startswith(name) else None
                if file is not None and is_within(file.folder, trees):
                    yield file

    def _described(self, id_: str, task: str, top: str, since: float) -> SessionFile | None:
        entries = {entry.name: entry for entry in files.named(task, ".json")}
        entry = entries.get("ui_messages.json") or entries.get("api_conversation_history.json")
        if entry is None or (stamp := entry.stat(follow_symlinks=False).st_mtime) < since:
            return None
        head = files.edges(os.path.join(task, "api_conversation_history.json"), top).head
        about = files.decode(files.small(os.path.join(task, "history_item.json"), top))[0]
        match = _FOLDER.search(head)
        folder = text_of(member(about, "workspace"), 4000) or (match[1].decode(errors="replace") if match else "")
        if not folder:
            return None
        title = text_of(member(about, "task"))
        if not title:
            with suppress(AdjournError):
                title = read(os.path.join(task, "ui_messages.json"), top).title
        return SessionFile(
            client=self.key, id=id_, path=os.path.join(task, "ui_messages.json"), folder=folder, title=first_person_words([title]),
            started=stamp_of(int(id_) if id_.isdigit() and len(id_) < 15 else 0), touched=stamp_of(int(stamp * 1000)), stamp=stamp,
        )  # fmt: skip

    def read(self, file: SessionFile) -> SessionStory:
        """The story of a task. Raises `NotFoundError`, `InvalidError`."""
        top = next((top for top in _tops() if file.path.startswith(f"{top}/")), os.path.dirname(file.path))
        story = read(file.path, top)
        story.id, story.folder = file.id, file.folder
        return story


def read(path: str, top: str = "") -> SessionStory:
    """The story of one task, by the path of its `ui_messages.json`. Raises `NotFoundError`, `InvalidError`."""
    builder = StoryBuilder(ClineTasks.key, path)
    shown = sent = None
    with suppress(AdjournError):
        shown = files.document(path, top)
    with suppress(AdjournError):
        sent = files.document(os.path.join(os.path.dirname(path), "api_conversation_history.json"), top)
    if not isinstance(shown, list) and not isinstance(sent, list):
        raise InvalidError(f"{path} is not the JSON of a task", "continue in the extension itself")
    builder.story.unreadable += not isinstance(shown, list) or not isinstance(sent, list)
    translate(shown, sent, builder)
    return builder.finish()


def translate(shown: object, sent: object, builder: StoryBuilder) -> None:
    """Translate a task: what was shown, with the results that were sent; what was sent alone where the other is cut."""
    results = _Results(sent)
    if isinstance(shown, list):
        screen = _Screen(builder, results, _task(sent))
        for message in objects(shown):
            screen.message(message)
        return
    for message in objects(sent):
        at = stamp_of(message.get("ts"))
        text = texts_in(message.get("content"), "text")
        if message.get("role") == "assistant":
            builder.say(text, at)
        elif match := _TASK.match(text):
            builder.prompt(match[2], at)
    for number, (kind, what, result) in enumerate(results.all):
        path = what if kind == "edit" else ""
        call = builder.call(
            f"sent {number}", kind, "edit" if kind == "edit" else "run" if kind == "run" else "mcp", what, path=path
        )
        _settle(call, result, builder)


def _task(sent: object) -> str:
    """The task as it was sent; "" where that is not known."""
    texts = (texts_in(message.get("content"), "text") for message in objects(sent)[:3] if message.get("role") == "user")
    return next((match[2] for text in texts if (match := _TASK.match(text))), "")


class _Results:
    """The results in what was sent to the model: kind of call, its command, path or server, and the text, in order."""

    def __init__(self, sent: object) -> None:
        self.all: list[tuple[str, str, str]] = []
        self._open: dict[tuple[str, str], list[str]] = {}
        names: dict[str, tuple[str, str]] = {}
        for message in objects(sent):
            blocks = objects(message.get("content"))
            for block in blocks:
                if block.get("type") == "tool_use":
                    arguments = block.get("input")
                    argument = next(
                        (
                            text
                            for name in ("command", "path", "server_name")
                            if (text := text_of(member(arguments, name)))
                        ),
                        "",
                    )
                    names[text_of(block.get("id"), 200)] = text_of(block.get("name"), 60), argument
                elif block.get("type") == "tool_result":
                    tool, argument = names.get(text_of(block.get("tool_use_id"), 200), ("", ""))
                    self._add(tool, argument, result_text(block.get("content")))
            if message.get("role") == "user":
                self._texts([text_of(block.get("text"), 64 * 1024) for block in blocks if block.get("type") == "text"])

    def _texts(self, texts: list[str]) -> None:
        """Results that stand in texts: only the beginning of a text can be the extension's own words."""
        waiting: tuple[str, str] | None = None
        for text in texts:
            if waiting is not None:
                self._add(*waiting, text)
                waiting = None
            elif match := _RESULT.match(text):
                if match[3].strip():
                    self._add(match[1], match[2] or "", match[3])
                else:
                    waiting = match[1], match[2] or ""

    def _add(self, tool: str, argument: str, text: str) -> None:
        kind = {"execute_command": "run", "use_mcp_tool": "mcp"}.get(tool, "edit" if kind_of(tool) == "edit" else "")
        if kind and len(self.all) < MAX_RESULTS:
            self.all.append((kind, argument, text))
            self._open.setdefault((kind, argument), []).append(text)

    def take(self, kind: str, argument: str) -> str | None:
        """The first result of such a call that was not taken yet."""
        found = self._open.get((kind, argument))
        return found.pop(0) if found else None


def _settle(call: SessionCall, text: str, builder: StoryBuilder) -> None:
    """End a call with the text that was sent. Its beginning is the extension's; a server's answer has none."""
    outcome: Outcome = "ok" if call.kind == "mcp" else "unrecorded"
    code: int | None = None
    head = text[:600].partition("\nOutput:")[0] if call.kind == "run" else text[:600]
    if call.kind != "mcp" and head.lstrip().startswith("The user denied this operation"):
        outcome = "refused"
    elif head.lstrip().startswith("The tool execution failed"):
        outcome = "failed"
    elif call.kind == "run" and "ommand is still running" in head:
        return
    elif call.kind == "run" and (match := _EXIT.search(head)):
        code = int(match[1])
        outcome = outcome_of(code)
    elif call.kind == "edit" and "successfully saved" in head:
        outcome = "ok"
    builder.result(call.id, outcome, text.partition("<environment_details>")[0], code=code)


class _Screen:
    """Translates what the person saw, one message after the other."""

    def __init__(self, builder: StoryBuilder, results: _Results, task: str) -> None:
        self._builder, self._results, self._task = builder, results, task
        self._waiting: SessionCall | None = None
        self._output = ""
        self._seen = 0
        self._made = 0

    def message(self, message: dict[str, Any]) -> None:
        """Translate one message."""
        way, at = message.get("type"), stamp_of(message.get("ts"))
        kind, text = text_of(message.get(text_of(way, 4)), 60), text_of(message.get("text"), 64 * 1024)
        if kind == "command_output":
            self._output = text or self._output
            return
        if kind in _QUIET:
            return
        self._came_back(settles=kind != "user_feedback")
        is_first, self._seen = self._seen == 0, self._seen + 1
        is_task = kind == "text" and (text.strip() == self._task if self._task else is_first)
        if is_task or kind in ("task", "user_feedback"):
            self._builder.prompt(text, at)
        elif kind in ("text", "completion_result", "plan_mode_respond", "followup"):
            self._said(kind, text, at)
        elif message.get("partial") is not True and kind in ("command", "tool", "use_mcp_server"):
            self._call(kind, text, at)
        elif kind == "api_req_failed":
            self._builder.story.limits = [text[:300] or "an error of the API"]
        elif kind == "api_req_started":
            self._request(text)
        elif message.get("partial") is not True:
            self._builder.skip(kind)

    def _said(self, kind: str, text: str, at: str) -> None:
        value = files.decode(text.encode(errors="replace"))[0] if text.startswith("{") else None
        words = text_of(member(value, "response")) or text_of(member(value, "question")) or text
        self._builder.story.limits.clear()
        self._builder.say(words, at)
        if kind != "text":
            self._builder.end_turn()

    def _call(self, kind: str, text: str, at: str) -> None:
        self._made += 1
        id_ = f"call {self._made}"
        if kind == "command":
            what = text.partition("\nOutput:")[0].removesuffix("REQ_APP").strip()
            call, key = self._builder.call(id_, "execute_command", "run", what, at), ("run", what)
        else:
            value = files.decode(text.encode(errors="replace"))[0]
            if kind == "use_mcp_server":
                server, tool = text_of(member(value, "serverName"), 100), text_of(member(value, "toolName"), 100)
                what = text_of(member(value, "arguments"))
                call, key = self._builder.call(id_, f"{server}.{tool}", "mcp", what, at), ("mcp", server)
            else:
                name, path = text_of(member(value, "tool"), 60), text_of(member(value, "path"), 1000)
                if name not in _EDITS:
                    self._builder.result(self._builder.call(id_, name, "read", path, at).id, "ok")
                    return
                call, key = self._builder.call(id_, name, "edit", path, at, path=path), ("edit", path)
        if (result := self._results.take(*key)) is not None:
            _settle(call, result, self._builder)
        if not call.ended:
            self._waiting = call

    def _came_back(self, *, settles: bool) -> None:
        """What follows a call that has no result says that it came back, but for the person's words."""
        if self._waiting is not None and settles:
            self._builder.result(self._waiting.id, "unrecorded", self._output)
        self._waiting, self._output = None, ""

    def _request(self, text: str) -> None:
        value = files.decode(text.encode(errors="replace"))[0]
        for name in ("tokensIn", "tokensOut"):
            count = member(value, name)
            self._builder.story.tokens += count if type(count) is int and 0 <= count < 10**12 else 0
        if member(value, "cancelReason") == "user_cancelled":
            self._builder.story.interrupted = self._builder.step()


def _tops() -> list[str]:
    """The extensions' folders in each editor, here and where an editor's remote server keeps them."""
    home = files.home()
    users = [os.path.join(home, ".config", editor, "User") for editor in _EDITORS]
    users += [os.path.join(home, "Library", "Application Support", editor, "User") for editor in _EDITORS]
    users += [os.path.join(home, server, "data", "User") for server in (".vscode-server", ".cursor-server")]
    return [
        top for user in users for extension in _EXTENSIONS
        if os.path.isdir(top := os.path.join(user, "globalStorage", extension))
    ]  # fmt: skip
