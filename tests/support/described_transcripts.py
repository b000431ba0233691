"""Transcripts of Cline, and of clients whose forms are known from public sources: `transcripts` says what a writer is."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from support.transcripts import BEGIN, FOLDER


class _Messages:
    """Messages with blocks."""

    client = ""
    default_id = ""

    def __init__(self, id_: str = "", folder: str = FOLDER) -> None:
        self.id = id_ or self.default_id
        self.folder = folder
        self.records: list[Any] = []

    def ms(self) -> int:
        return int(BEGIN.timestamp() * 1000) + 1000 * len(self.records)

    def call_id(self) -> str:
        return f"call_{len(self.records):04}"

    def write(self, path: Path, value: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, separators=(",", ":")))
        return path


class ClineTranscript(_Messages):
    """Cline 3.0.65, the command line."""

    client = "cline"
    default_id = "1759651200000_ab12c"

    def _message(self, role: str, *blocks: dict[str, Any]) -> None:
        self.records.append({"id": f"m{len(self.records)}", "role": role, "content": list(blocks), "ts": self.ms()})

    def ask(self, text: str) -> None:
        self._message("user", {"type": "text", "text": f'<user_input mode="act">{text}</user_input>'})

    def say(self, text: str, *, ends: bool = True) -> None:
        self._message("assistant", {"type": "text", "text": text})

    def call(self, name: str, arguments: dict[str, Any], result: Any = None) -> None:
        id_ = self.call_id()
        self._message("assistant", {"type": "tool_use", "id": id_, "name": name, "input": arguments})
        if result is not None:
            self._message("user", {"type": "tool_result", "tool_use_id": id_, "name": name, "content": result})

    def run(self, command: str, code: int | None, output: str = "") -> None:
        error = {"error": f"Command exited with code {code}"} if code else {}
        head = f"[Command exited with code {code}]\n" if code else ""
        result = [{"query": command, "result": head + output, **error, "success": not code}]
        self.call("run_commands", {"commands": [command]}, None if code is None else result)

    def edit(self, path: str, *, works: bool = True) -> None:
        full = f"{self.folder}/{path}"
        error = {} if works else {"error": "Editor operation failed: No replacement performed: text not found"}
        result = {"query": f"edit:{full}", "result": f"Edited {full}" if works else "", **error, "success": works}
        self.call("editor", {"path": full, "old_text": "a", "new_text": "b"}, json.dumps(result, separators=(",", ":")))

    def plan(self, *items: tuple[str, str]) -> None:
        """This client has no list."""

    def save(self, home: Path) -> Path:
        place = home / ".cline" / "data" / "sessions" / self.id
        origin = {"source": "cli", "version": "3.0.65"}
        about = {
            "session_id": self.id,
            "cwd": self.folder,
            "started_at": "2026-10-05T08:00:00.000Z",
            "status": "running",
        }
        self.write(place / f"{self.id}.json", about)
        document = {"version": 1, "sessionId": self.id, "origin": origin, "messages": self.records}
        return self.write(place / f"{self.id}.messages.json", document)


class CursorTranscript(_Messages):
    """Cursor's agent: no times, no results."""

    client = "cursor"
    default_id = "0a5e0000-0000-4000-8000-000000000006"

    def _message(self, role: str, *blocks: dict[str, Any]) -> None:
        self.records.append({"role": role, "message": {"content": list(blocks)}})

    def ask(self, text: str) -> None:
        self._message(
            "user", {"type": "text", "text": f"<user_info>OS: linux</user_info>\n<user_query>\n{text}\n</user_query>"}
        )

    def say(self, text: str, *, ends: bool = True) -> None:
        self._message("assistant", {"type": "text", "text": text})
        if ends:
            self.records.append({"type": "turn_ended", "status": "success"})

    def call(self, name: str, arguments: dict[str, Any]) -> None:
        self._message("assistant", {"type": "tool_use", "name": name, "input": arguments})

    def run(self, command: str, code: int | None, output: str = "") -> None:
        self.call("Shell", {"command": command, "working_directory": self.folder})

    def edit(self, path: str, *, works: bool = True) -> None:
        self.call("StrReplace", {"path": f"{self.folder}/{path}", "old_string": "a", "new_string": "b"})

    def plan(self, *items: tuple[str, str]) -> None:
        todos = [{"id": f"{number}", "content": text, "status": state} for number, (text, state) in enumerate(items)]
        self.call("TodoWrite", {"merge": False, "todos": todos})

    def save(self, home: Path) -> Path:
        slug = "-".join("".join(char if char.isalnum() else " " for char in self.folder).split())
        path = home / ".cursor" / "projects" / slug / "agent-transcripts" / self.id / f"{self.id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(record) + "\n" for record in self.records))
        return path


class AmpTranscript(_Messages):
    """Amp: one document, results with the state of a run."""

    client = "amp"
    default_id = "T-0a5e0000-0000-4000-8000-000000000007"

    def _message(self, role: str, *blocks: dict[str, Any], **members: Any) -> None:
        meta = {"meta": {"sentAt": self.ms()}}
        self.records.append({"role": role, "messageId": len(self.records), "content": list(blocks), **meta, **members})

    def ask(self, text: str) -> None:
        self._message("user", {"type": "text", "text": text})

    def say(self, text: str, *, ends: bool = True) -> None:
        reason = "end_turn" if ends else "tool_use"
        self._message("assistant", {"type": "text", "text": text}, state={"type": "complete", "stopReason": reason})

    def call(self, name: str, arguments: dict[str, Any], run: dict[str, Any] | None) -> None:
        id_ = self.call_id()
        block = {"type": "tool_use", "id": id_, "name": name, "input": arguments}
        self._message("assistant", block, state={"type": "complete", "stopReason": "tool_use"})
        run = run or {"status": "in-progress"}
        self._message("user", {"type": "tool_result", "toolUseID": id_, "run": run})

    def run(self, command: str, code: int | None, output: str = "") -> None:
        done = {"status": "done", "result": {"output": output, "exitCode": code}}
        self.call("Bash", {"cmd": command, "cwd": self.folder}, None if code is None else done)

    def edit(self, path: str, *, works: bool = True) -> None:
        run = (
            {"status": "done", "result": "@@"} if works else {"status": "error", "error": {"message": "no match found"}}
        )
        self.call("edit_file", {"path": f"{self.folder}/{path}", "old_str": "a", "new_str": "b"}, run)

    def plan(self, *items: tuple[str, str]) -> None:
        states = {"in_progress": "in-progress", "pending": "todo"}
        todos = [
            {"id": f"{n}", "content": text, "status": states.get(state, state)} for n, (text, state) in enumerate(items)
        ]
        self.call("todo_write", {"todos": todos}, {"status": "done", "result": "ok"})

    def save(self, home: Path) -> Path:
        initial = {"trees": [{"uri": f"file://{self.folder}"}], "platform": {"clientVersion": "0.0.1"}}
        document = {
            "v": 1,
            "id": self.id,
            "created": int(BEGIN.timestamp() * 1000),
            "messages": self.records,
            "env": {"initial": initial},
        }
        return self.write(home / ".local" / "share" / "amp" / "threads" / f"{self.id}.json", document)


class GooseTranscript(_Messages):
    """Goose: rows of a database."""

    client = "goose"
    default_id = "20261005_1"

    def _message(self, role: str, block: dict[str, Any], **metadata: Any) -> None:
        self.records.append((role, [block], metadata))

    def ask(self, text: str) -> None:
        self._message("user", {"type": "text", "text": text})

    def say(self, text: str, *, ends: bool = True) -> None:
        self._message("assistant", {"type": "text", "text": text})

    def call(self, name: str, arguments: dict[str, Any], value: dict[str, Any] | None) -> None:
        id_ = self.call_id()
        call = {"status": "success", "value": {"name": name, "arguments": arguments}}
        self._message("assistant", {"type": "toolRequest", "id": id_, "toolCall": call})
        if value is not None:
            result = {"status": "success", "value": value}
            self._message("user", {"type": "toolResponse", "id": id_, "toolResult": result})

    def run(self, command: str, code: int | None, output: str = "") -> None:
        value = {
            "content": [{"type": "text", "text": output}],
            "structuredContent": {"stdout": output, "exit_code": code},
            "isError": False,
        }
        self.call("developer__shell", {"command": command}, None if code is None else value)

    def edit(self, path: str, *, works: bool = True) -> None:
        arguments = {"command": "str_replace", "path": f"{self.folder}/{path}", "old_str": "a", "new_str": "b"}
        value = {"content": [{"type": "text", "text": "ok" if works else "no match"}], "isError": not works}
        self.call("developer__text_editor", arguments, value)

    def plan(self, *items: tuple[str, str]) -> None:
        lines = [f"- [{'x' if state == 'completed' else ' '}] {text}" for text, state in items]
        self.call("todo__todo_write", {"content": "\n".join(lines)}, {"content": [], "isError": False})

    def save(self, home: Path) -> Path:
        path = home / ".local" / "share" / "goose" / "sessions" / "sessions.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        begin = int(BEGIN.timestamp())
        with closing(sqlite3.connect(path)) as database, database:
            database.executescript("""
                CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, name, session_type, working_dir, created_at, updated_at);
                CREATE TABLE IF NOT EXISTS messages (
                    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id, role, content_json, created_timestamp, metadata_json
                );
            """)
            row = (self.id, self.folder, "2026-10-05 08:00:00", "2026-10-05 08:10:00")
            database.execute("INSERT INTO sessions VALUES (?, '', 'user', ?, ?, ?)", row)
            database.executemany(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp, metadata_json) VALUES (?, ?, ?, ?, ?)",
                [
                    (self.id, role, json.dumps(content), begin + number, json.dumps(metadata))
                    for number, (role, content, metadata) in enumerate(self.records)
                ],
            )
        return path


class GooseLines(GooseTranscript):
    """An earlier Goose: a file of lines, whose first says what the session is."""

    default_id = "20250605_080000"

    def save(self, home: Path) -> Path:
        path = home / ".local" / "share" / "goose" / "sessions" / f"{self.id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        begin = int(BEGIN.timestamp())
        about = {"working_dir": self.folder, "description": "Bread", "message_count": len(self.records)}
        lines = [
            {"role": role, "created": begin + number, "content": content, "metadata": metadata}
            for number, (role, content, metadata) in enumerate(self.records)
        ]
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in (about, *lines)))
        return path


class CursorChat(_Messages):
    """Cursor's command line: messages as blobs of a database, and a root that names them in order."""

    client = "cursor"
    default_id = "0a5e0000-0000-4000-8000-000000000008"

    def _message(self, role: str, *blocks: dict[str, Any], **members: Any) -> None:
        self.records.append({"role": role, "content": list(blocks), **members})

    def ask(self, text: str) -> None:
        if not self.records:
            self.records.append({"role": "system", "content": "You are an agent."})
            self.records.append(
                {"role": "user", "content": f"<user_info>\nWorkspace Path: {self.folder}\n</user_info>"}
            )
        self._message("user", {"type": "text", "text": f"<user_query>\n{text}\n</user_query>"})

    def say(self, text: str, *, ends: bool = True) -> None:
        self._message("assistant", {"type": "redacted-reasoning", "data": "x"}, {"type": "text", "text": text})

    def call(self, name: str, arguments: dict[str, Any], result: str | None = None, *, works: bool = True) -> None:
        about = {"toolCallId": self.call_id(), "toolName": name}
        self._message("assistant", {"type": "tool-call", "args": arguments, **about})
        if result is not None:
            output = {"success": {"executionTime": 3}, "isError": False} if works else {"error": {}, "isError": True}
            options = {"cursor": {"highLevelToolCallResult": {"output": output}}}
            self._message("tool", {"type": "tool-result", "result": result, **about}, providerOptions=options)

    def run(self, command: str, code: int | None, output: str = "") -> None:
        result = None if code is None else f"Exit code: {code}\n\nCommand output:\n{output}"
        self.call("Shell", {"command": command}, result)

    def edit(self, path: str, *, works: bool = True) -> None:
        arguments = {"path": f"{self.folder}/{path}", "old_string": "a", "new_string": "b"}
        self.call("StrReplace", arguments, "ok" if works else "no match", works=works)

    def plan(self, *items: tuple[str, str]) -> None:
        todos = [{"id": f"{number}", "content": text, "status": state} for number, (text, state) in enumerate(items)]
        self.call("TodoWrite", {"merge": False, "todos": todos}, "ok")

    def save(self, home: Path) -> Path:
        hash_ = hashlib.md5(self.folder.encode(), usedforsecurity=False).hexdigest()
        path = home / ".cursor" / "chats" / hash_ / self.id / "store.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        blobs = [json.dumps(record).encode() for record in self.records]
        ids = [hashlib.sha256(blob).digest() for blob in blobs]
        place = f"file://{self.folder}".encode()
        root = b"".join(b"\x0a\x20" + id_ for id_ in ids) + b"\x28\x07" + b"\x4a" + bytes([len(place)]) + place
        root_id = hashlib.sha256(root).hexdigest()
        about = {"agentId": self.id, "latestRootBlobId": root_id, "name": "Bread", "createdAt": self.ms()}
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
            database.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
            rows = {id_.hex(): blob for id_, blob in zip(ids, blobs, strict=True)} | {root_id: root}
            database.executemany("INSERT INTO blobs VALUES (?, ?)", rows.items())
            database.execute("INSERT INTO meta VALUES ('0', ?)", (json.dumps(about).encode().hex(),))
        return path


class RooTranscript(_Messages):
    """An extension for VS Code: what the person saw, and what was sent to the model. The texts of Roo Code name exit codes."""

    client = "roo"
    default_id = "1759651200000"

    def __init__(self, id_: str = "", folder: str = FOLDER) -> None:
        super().__init__(id_, folder)
        self.sent: list[Any] = []

    def show(self, kind: str, text: str, way: str = "say", **members: Any) -> None:
        self.records.append({"ts": self.ms(), "type": way, way: kind, "text": text, **members})

    def send(self, role: str, *texts: str) -> None:
        self.sent.append({"role": role, "content": [{"type": "text", "text": text} for text in texts], "ts": self.ms()})

    def ask(self, text: str) -> None:
        first = not self.records
        self.show("text" if first else "user_feedback", text)
        tag = "task" if first else "feedback"
        details = f"<environment_details>\n# Current Workspace Directory ({self.folder}) Files\n</environment_details>"
        self.send("user", f"<{tag}>\n{text}\n</{tag}>", details)

    def say(self, text: str, *, ends: bool = True) -> None:
        self.show("completion_result" if ends else "text", text)
        self.send("assistant", text)

    def run(self, command: str, code: int | None, output: str = "") -> None:
        self.show("command", command, way="ask")
        self.send("assistant", f"<execute_command>\n<command>{command}</command>\n</execute_command>")
        if code is not None:
            self.show("command_output", output)
            words = f"Command executed in terminal within working directory '{self.folder}'.\nExit code: {code}\nOutput:\n{output}"
            self.send("user", f"[execute_command for '{command}'] Result:", words)

    def edit(self, path: str, *, works: bool = True) -> None:
        self.show("tool", json.dumps({"tool": "editedExistingFile", "path": path, "diff": "@@"}), way="ask")
        self.send("assistant", f"<apply_diff>\n<path>{path}</path>\n</apply_diff>")
        failed = "The tool execution failed with the following error:\n<error>\nno match\n</error>"
        worked = f"The content was successfully saved to {path}."
        self.send("user", f"[apply_diff for '{path}'] Result:", worked if works else failed)

    def plan(self, *items: tuple[str, str]) -> None:
        """Its list is not read."""

    def save(self, home: Path) -> Path:
        top = home / ".config" / "Code" / "User" / "globalStorage" / "rooveterinaryinc.roo-cline"
        self.write(top / "tasks" / self.id / "api_conversation_history.json", self.sent)
        return self.write(top / "tasks" / self.id / "ui_messages.json", self.records)


WRITERS: tuple[type[Any], ...] = (ClineTranscript, CursorTranscript, AmpTranscript, GooseTranscript, RooTranscript)
