"""A tool of the code server: one class that declares all of it, and what every client sees of it.

The class is the type of the tool's input: its fields are the arguments. From it derive the schema, the entry in `tools/list`, the
dispatch of a call and the text of its reply. `search_tools` and `session_tools` have the tools.

Must never: know a transport.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from adjourn.code.deadline import Deadline
from adjourn.code.git.changes import FileChange, list_changes
from adjourn.code.index.codebase import Codebase
from adjourn.code.server.codebases import ClientRoots, Codebases, check_folder, no_roots
from adjourn.code.server.replies import MAX_REPLY
from adjourn.code.session_state import QueryFrame
from adjourn.code.workflow.active_session import ClientConnection
from adjourn.code.workflow.sessions import Sessions

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
