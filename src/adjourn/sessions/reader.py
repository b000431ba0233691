"""What the readers of clients' transcripts share: steps, kinds of calls, limits, and messages of blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from adjourn.sessions.story import Kind, Outcome, SessionCall, SessionStory, StoryBuilder, member, objects, text_of
from adjourn.sessions.texts import persons_words


class SessionFile(msgspec.Struct, kw_only=True):
    """A session that was found: where it is, and what its first records say. `stamp` is when the file was last written, in seconds.

    `mark` stands for the title where only that is kept (`sessions.heads`).
    """

    client: str
    id: str
    path: str
    folder: str = ""
    title: str = ""
    started: str = ""
    touched: str = ""
    stamp: float = 0.0
    size: int = 0
    forks: int = 0
    mark: str = ""


class TranscriptReader(Protocol):
    """One client: how its sessions are found and read. `tried` are the versions of which files were tried, the newest first; none where the
    format is known from public sources alone.
    """

    name: str
    key: str
    tried: Sequence[str]

    def find(self, trees: Sequence[str], name: str = "", since: float = 0.0) -> Iterator[SessionFile]:
        """The sessions in these folders and below; without any, all. Their ids start with `name`, and something was written to them
        `since` (seconds). Helpers' sessions are left out.
        """

    def read(self, file: SessionFile) -> SessionStory:
        """The story of a session. Raises `NotFoundError`, `InvalidError`; whatever the file holds raises nothing else."""


def is_within(folder: str, trees: Sequence[str]) -> bool:
    """Whether a folder is one of these or below; any where there are none."""
    return not trees or any(folder == tree or folder.startswith(tree.rstrip("/") + "/") for tree in trees)


def path_of_url(url: str) -> str:
    """The folder that a `file:` URL names, without a slash at its end; "" for another text."""
    if not url.startswith("file://"):
        return ""
    from urllib.parse import unquote, urlsplit  # slow to import, for few clients

    with suppress(ValueError):
        return unquote(urlsplit(url).path).rstrip("/")
    return ""


MAX_TITLE = 1000
"""Characters of a first prompt that are kept for a list, which shows less."""


def first_person_words(texts: Iterable[str]) -> str:
    """The first text that says something, on one line; of a page of `adjourn continue`, the person's first words in it."""
    return next((" ".join(persons_words(text)[0].split())[:MAX_TITLE] for text in texts if text.strip()), "")


_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("bash", "shell", "shell_command", "exec_command", "run_shell_command", "local_shell", "powershell", "execute_command", "run_commands"), "run"),
    **dict.fromkeys(("write_stdin", "bashoutput", "read_bash", "killshell", "kill_shell"), "other"),
    **dict.fromkeys(("edit", "write", "multiedit", "notebookedit", "apply_patch", "replace", "write_file", "create", "str_replace", "patch", "str_replace_editor", "strreplace", "applypatch", "delete", "editor", "text_editor", "edit_file", "create_file", "write_to_file", "replace_in_file", "apply_diff", "insert_content", "search_and_replace"), "edit"),
    **dict.fromkeys(("read", "glob", "grep", "ls", "view", "view_image", "read_file", "read_many_files", "list_directory", "search_file_content", "list", "search", "toolsearch", "glob_tool", "read_files", "search_codebase", "list_files", "search_files", "finder", "semanticsearch", "readlints"), "read"),
    **dict.fromkeys(("todowrite", "todoread", "taskcreate", "taskupdate", "tasklist", "taskget", "update_plan", "write_todos", "update_topic", "exitplanmode", "enterplanmode", "report_intent", "update_todo", "todo_write", "todo_read", "todo__todo_write", "update_todo_list", "attempt_completion"), "list"),
    **dict.fromkeys(("task", "agent", "spawn_agent", "wait_agent", "send_input", "close_agent", "delegate_to_agent", "oracle", "new_task", "delegate"), "helper"),
    **dict.fromkeys(("webfetch", "websearch", "web_fetch", "google_web_search", "web_search", "fetch_web_content", "read_web_page"), "web"),
    **dict.fromkeys(("askuserquestion", "request_user_input", "ask_user", "askquestion", "ask_question", "ask_followup_question"), "list"),
}  # fmt: skip


def kind_of(tool: str) -> Kind:
    """What a tool does, by its name."""
    kind = _KINDS.get(tool.lower())
    if kind is not None:
        return kind
    return "mcp" if tool.startswith("mcp_") else "other"


_EXIT = re.compile(
    r"(?:^|\n)(?:Process exited with code|Exit [Cc]ode:?|<shellId: \d+ completed with exit code)\s*(-?\d{1,10})"
)


def exit_code(text: str) -> int | None:
    """The exit code that a client wrote into a result; None for none. Clients write it before the output, or behind all of it."""
    for part in (text[:400], text[-400:]):
        if match := _EXIT.search(part):
            return int(match[1])
    return None


def outcome_of(code: int) -> Outcome:
    """The outcome that an exit code tells."""
    return "ok" if code == 0 else "failed"


def what_of(
    arguments: object, paths: Sequence[str] = ("file_path", "filePath", "path", "notebook_path", "target_file")
) -> tuple[str, str]:
    """What a call is about, and the path in its arguments."""
    if not isinstance(arguments, dict):
        return text_of(arguments), ""
    command = next((arguments[name] for name in ("command", "cmd", "script") if name in arguments), None)
    if isinstance(command, list):
        words = [text_of(word) for word in command[:100]]
        return (words[-1] if len(words) == 3 and words[1] in ("-lc", "-c") else " ".join(words)), ""
    if isinstance(command, str):
        return command, ""
    path = next((text for name in paths if (text := text_of(arguments.get(name), 1000))), "")
    if path:
        return path, path
    for name in ("prompt", "message", "query", "url", "pattern", "text", "description"):
        if text := text_of(arguments.get(name)):
            return text, ""
    return _short_json(arguments), ""


def _short_json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()[:1200]
    except (TypeError, ValueError, RecursionError):
        return ""


def texts_in(content: object, *types: str) -> str:
    """The text of a message: a string, or the text of its blocks of these types."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = []
    for block in content[:1000]:
        if isinstance(block, str):
            parts.append(block)
        elif isinstance(block, dict) and (not types or block.get("type") in types):
            parts.append(text_of(block.get("text"), 64 * 1024))
    return "\n".join(part for part in parts if part)


def stamp_of(milliseconds: object) -> str:
    """A time in milliseconds since 1970 as the text that the stories hold; "" for none."""
    if type(milliseconds) is not int or not 0 <= milliseconds < 10**14:
        return ""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"


# --- messages with a list of blocks (text, tool_use, tool_result), a form that Amp, Cline and Cursor share


class Blocks:
    """Translates blocks of one session, in the order of the file."""

    def __init__(self, builder: StoryBuilder) -> None:
        self._builder = builder
        self._todos: dict[str, tuple[object, object]] = {}

    def call(self, block: dict[str, Any], at: object = "", id_: object = "") -> SessionCall:
        """A block `tool_use`; `id_` stands for its id where the client writes none."""
        name, arguments = text_of(block.get("name"), 100), block.get("input")
        kind = kind_of(name)
        what, path = what_of(arguments)
        commands = member(arguments, "commands")
        if isinstance(commands, list):
            what = "; ".join(text_of(item) or text_of(member(item, "command")) for item in commands[:100])
        call = self._builder.call(block.get("id") or id_, name, kind, what, at, path=path if kind == "edit" else "")
        if kind == "list":
            self._listed(arguments, at)
        return call

    def _listed(self, arguments: object, at: object) -> None:
        todos = objects(member(arguments, "todos"))
        if todos and member(arguments, "merge") is not True:
            self._todos.clear()
        for number, todo in enumerate(todos):
            id_ = text_of(todo.get("id"), 100) or f"{number}"
            text, state = self._todos.get(id_, ("", "pending"))
            if id_ in self._todos or len(self._todos) < 100:
                self._todos[id_] = (todo.get("content") or text, todo.get("status") or state)
        if todos:
            self._builder.replan(self._todos.values())
        asked = [
            member(arguments, "question"),
            *(item.get("question") for item in objects(member(arguments, "questions"))),
        ]
        for question in asked:
            self._builder.say(text_of(question), at)


def result_text(value: object) -> str:
    """The text of a result: a string, blocks of text, or the `output` of an object."""
    if isinstance(value, dict):
        value = value.get("output", value.get("content"))
    return texts_in(value, "text")[: 64 * 1024]
