"""What the code server works on (options, work trees, folders of its client), and its tools: one class declares all of a tool.

A call may name a folder outside of the server's own repository only if it is in one of the client's folders (MCP roots). A client
without roots may name any.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from adjourn.code.changes import FileChange, list_changes
from adjourn.code.deadline import Deadline
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.languages import by_name
from adjourn.code.repository import native
from adjourn.code.search import context
from adjourn.code.server.replies import MAX_REPLY
from adjourn.code.session_state import QueryFrame, Strictness
from adjourn.code.workflow.active_session import ClientConnection
from adjourn.code.workflow.sessions import Sessions
from adjourn.errors import AdjournError, RefusedError, UsageError
from adjourn.host.finding import top_of

MAX_TREES = 16
"""Maximum number of open work trees; the least recently used one is closed."""
_NOTE = "summaries of the project's documents and rules; read the files themselves for details"


class Codebases:
    """Codebases by root, opened when first used."""

    def __init__(self, options: CodeOptions) -> None:
        self._options = options
        self._open: dict[str, Codebase] = {}
        self._lock = Lock()

    def of(self, root: str) -> Codebase:
        """The codebase of the work tree that contains `root`, indexed in the background."""
        with self._lock:
            codebase = self._open.pop(root, None)
            if codebase is None:
                if len(self._open) >= MAX_TREES:
                    self._open.pop(next(iter(self._open))).close()
                codebase = Codebase(root, language_servers=self._options.language_servers)
                codebase.start()
            self._open[root] = codebase  # the most recently used one is last
            return codebase

    def context_of(self, root: str) -> dict[str, Any]:
        """The state of the index, and the summaries of the project's documents and rules."""
        tree = self.of(root)
        state = tree.state()
        available = tree.index is not None
        reply: dict[str, Any] = {
            "chromadb": {
                "available": available,
                "stats": {"files": tree.index.stats()["files"]} if tree.index is not None else {},
                "needs_sync": not tree.complete(),
                "auto_sync": {"started": True} if available else None,
                **({} if available else {"error": state.get("reason", "")}),
            },
            "index_state": state,
        }
        try:
            if context.initialise(tree.repository) is not None:
                reply["context_initialized"] = True
            if (wanted := context.needed(tree.repository)) is not None:
                reply["context_update_required"] = wanted
            stored = context.load(tree.repository)
        except AdjournError as error:
            return {**reply, "context_error": str(error)}
        essential, rules = stored.get("essential_docs") or {}, stored.get("project_rules") or {}
        if isinstance(essential, dict) and isinstance(rules, dict):
            known = {"design_docs": essential.get("summaries") or [], "project_rules": rules.get("summary") or ""}
            if any(known.values()):
                reply |= {"essential_context": known, "essential_context_note": _NOTE}
        return reply

    def close(self) -> None:
        with self._lock:
            for tree in self._open.values():
                tree.close()
            self._open.clear()


# --- what a code server is started with


class CodeOptions(NamedTuple):
    """`search_only` serves the tools that search, and no sessions; `symbols`, those that read and rename symbols, too.

    `test_commands` are run before a change counts as verified.
    `language_servers`: by language, the command of the server that the user names for it. `store`: its URL ("": the workspace's).
    """

    strictness: Strictness = "standard"
    store: str = ""
    search_only: bool = False
    symbols: bool = False
    test_commands: Sequence[tuple[str, ...]] = ()
    language_servers: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def command_words(option: str, text: str) -> tuple[str, ...]:
    """The words of a command that the user names; no shell reads it. Raises `UsageError`."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}", "close the quote") from error
    if not words:
        raise UsageError(f"{option} is empty", "name a command, such as 'make test'")
    return words


def named_server(text: str) -> tuple[str, tuple[str, ...]]:
    """Language and command in `LANGUAGE=COMMAND`. Raises `UsageError`."""
    name, equals, command = text.partition("=")
    language = by_name(name)
    if not equals or language is None:
        raise UsageError(
            f"--language-server {text[:100]!r} names no language", "write it as in 'java=jdtls -data /tmp/jdtls'"
        )
    return language.name, command_words("--language-server", command)


# --- the folders that a client has opened for its servers (MCP roots)

ROOTS_KEY = "roots"
"""What our one question is called where a client answers it by repeating its call."""
ROOTS_METHOD = "roots/list"
_MAX_ROOTS = 1_000

ClientRoots = Callable[[], list[str] | None]
"""Asks a client for its folders; None if it has no roots. Raises `RootsNeededError`."""


class RootsNeededError(Exception):
    """The client has to repeat its call with its roots: in its protocol a server sends no requests."""


class _Root(msgspec.Struct):
    uri: str


class _Roots(msgspec.Struct):
    roots: list[_Root]


def no_roots() -> list[str] | None:
    return None


def folders_of(answer: Any) -> list[str]:
    """The folders in a client's answer, as real paths; none if it is malformed."""
    try:
        listed = msgspec.convert(answer, _Roots).roots[:_MAX_ROOTS]
    except msgspec.ValidationError:
        return []
    parts = [urlsplit(root.uri) for root in listed]
    paths = [unquote(part.path, errors="surrogateescape") for part in parts if part.scheme == "file"]
    return [os.path.realpath(path) for path in paths if os.path.isabs(path) and "\0" not in path]


def check_folder(home: str, path: str, roots: ClientRoots) -> str:
    """A folder that a call names, relative to the server's folder `home`. Raises `RefusedError`, `RootsNeededError`."""
    full = os.path.realpath(os.path.join(home, native(path)))
    if "\0" in path or _is_inside(full, top_of(home) or home):
        return path
    opened = roots()
    if opened is None or any(_is_inside(full, root) for root in opened):
        return path
    raise RefusedError(
        f"{path} is outside of the folders that the client has opened",
        "open the folder in the client, or start a server there",
    )


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# A tool of the code server: one class that declares all of it, and what every client sees of it. The class is the
# type of the tool's input: its fields are the arguments. From it derive the schema, the entry in `tools/list`, the
# dispatch of a call and the text of its reply. `search_tools` and `session_tools` have the tools.

Reply = dict[str, Any]

Path = Annotated[str, msgspec.Meta(description="File or folder.")]
Language = Annotated[str | None, msgspec.Meta(description="Only this language.")]
FileType = Annotated[str | None, msgspec.Meta(description="As `rg --type`: py, js.")]
Cursor = Annotated[str, msgspec.Meta(description="From a truncated reply: gets the rest.")]
Repo = Annotated[str, msgspec.Meta(description="Repository or work tree; default: the server's.")]


class ToolInvocation(msgspec.Struct):
    """What a tool works with: the client that called it, its session, its codebase, and the time it has."""

    sessions: Sessions
    codebases: Codebases
    client: ClientConnection
    deadline: Deadline
    roots: ClientRoots = no_roots

    def folder(self, path: str) -> str:
        """A folder that the call names. Raises `RefusedError` if the client has not opened it."""
        return check_folder(self.sessions.root, path, self.roots)

    @property
    def root(self) -> str:
        """The work tree of the call: the session's, else the server's working folder."""
        active = self.client.active
        return active.worktree.repository.root if active else self.sessions.root

    @property
    def frame(self) -> QueryFrame | None:
        """What the session's request says so far; None without a session."""
        return self.client.active.state.query_frame if self.client.active else None

    @property
    def codebase(self) -> Codebase:
        return self.codebases.of(self.root)

    def session_files(self) -> list[str]:
        """The files that the session explored, or that its tasks name; none without a session."""
        active = self.client.active
        if active is None:
            return []
        return [*active.state.explored, *(path for task in active.state.tasks for path in task.files)]

    def changes(self) -> list[FileChange]:
        """The files that the session changed. Raises `RefusedError` without a session."""
        active = self.sessions.require_active(self.client)
        state, worktree = active.state, active.worktree
        return list_changes(worktree.git, worktree.base_commit(state), state.dirty_before)


class CodeTool(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of all tools."""

    name: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    read_only: ClassVar[bool] = False
    """Changes nothing."""
    destructive: ClassVar[bool] = False
    """May delete branches, after backing them up under a ref."""
    gated: ClassVar[bool] = True
    """The phase of the session decides whether it may be called."""
    searches: ClassVar[bool] = False
    """Useful without a session: `--search-only` serves it."""
    symbols: ClassVar[bool] = False
    """Served only with `--symbols`."""
    limit: ClassVar[int] = MAX_REPLY
    """Maximum bytes of a reply as JSON."""
    whole: ClassVar[bool] = False
    """Asks for one text: its reply is not shortened to `MAX_TEXT`."""
    as_text: ClassVar[Callable[[Reply], Iterator[str]] | None] = None
    """The lines of a reply as text; None: its replies are JSON."""

    def run(self, call: ToolInvocation) -> Reply:
        """Do the work; returns the reply before the size cap."""
        raise NotImplementedError

    @classmethod
    def remedy(cls) -> str:
        """What to do about arguments that cannot be read: the names of those that the tool takes."""
        names = [name for name in cls.__struct_fields__ if name != "format"]
        return f"{cls.name} takes {', '.join(names) or 'no arguments'}; its inputSchema has their types"


class SearchTool(CodeTool, kw_only=True):
    """Base of the tools whose reply is text, or the JSON that it is made of."""

    format: Literal["text", "json"] = "text"


class PagedTool(SearchTool, kw_only=True):
    """Base of the tools whose reply is a list: a cursor continues it."""

    cursor: Cursor = ""


class SymbolTool(PagedTool, kw_only=True):
    """Base of the tools about one symbol."""

    symbol: Annotated[str, msgspec.Meta(description="The whole name of a symbol, or Class.method.")]
    path: Path = "."
    language: Language = None


# --- what every client sends to its model

_GUESSED = ("path", "cursor", "language", "file_type")
_RARE = ("show_plan", "target_feature", "intent", "collection")
_UNSAID = ("title", "additionalProperties", "minLength", "minimum")


def listing(tool: type[CodeTool], *, brief: bool) -> dict[str, Any]:
    """The tool as `tools/list` returns it."""
    title = {} if brief else {"title": tool.title}
    hints = {"readOnlyHint": True} if tool.read_only else {"destructiveHint": tool.destructive}
    about = {"description": tool.description, "inputSchema": schema(tool, brief=brief)}
    return {"name": tool.name, **title, **about, "annotations": hints}


def schema(kind: type[CodeTool], *, brief: bool = False) -> dict[str, Any]:
    """The JSON schema of an input, as small as it can be: every client sends it to its model.

    It leaves out what a model does not need: that an unknown argument is refused, that null is taken for a missing one, defaults that are
    empty, the members of an object that may also be passed as text, and `format`, which is for programs. `brief` leaves out rare
    arguments, other defaults, and descriptions that can be guessed, too.
    """
    (_,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    component = parts[kind.__name__]
    hidden = {"format", *(_RARE if brief else ())}
    required = {"required": component["required"]} if component["required"] else {}
    properties = {
        field.name: _small(component["properties"][field.name], parts)
        for field in arguments_of(kind)
        if field.name not in hidden
    }
    if brief:
        for name, about in properties.items():
            if about.get("default") is not True:
                about.pop("default", None)
            if name in _GUESSED:
                about.pop("description", None)
    return {"type": "object", "properties": properties, **required}


def arguments_of(kind: type[CodeTool]) -> list[msgspec.structs.FieldInfo]:
    """The arguments of a tool in the order of reading: what the question is about, how it is asked, and the next page."""
    return sorted(msgspec.structs.fields(kind), key=lambda field: (not field.required, field.name == "cursor"))


def _small(about: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in about:
        return _small(parts[about["$ref"]], parts)
    small = {name: value for name, value in about.items() if name not in _UNSAID}
    if not small.get("default", True):
        del small["default"]
    choices = [choice for choice in small.pop("anyOf", ()) if choice != {"type": "null"}]
    for choice in choices:
        small |= choice
    if len(choices) > 1:
        small.pop("$ref", None)
        small["type"] = sorted({choice.get("type", "object") for choice in choices})
    if "enum" in small:
        small["enum"] = [value for value in small["enum"] if value is not None]
    if "items" in small:
        small["items"] = _small(small["items"], parts)
    if "properties" in small:
        small["properties"] = {name: _small(inner, parts) for name, inner in small["properties"].items()}
    return small
