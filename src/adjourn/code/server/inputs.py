"""The input of each tool: types, from which the JSON schemas are generated.

Owns: the input types and `schema`. Must never: run anything.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from adjourn.code.model.session_state import GateLevel, Intent
from adjourn.code.workflow.flags import Flags


class Input(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of all inputs."""


Path = Annotated[str, msgspec.Meta(description="File or folder.")]
Language = Annotated[str | None, msgspec.Meta(description="Only this language.")]
FileType = Annotated[str | None, msgspec.Meta(description="As `rg --type`: py, js.")]
Cursor = Annotated[str, msgspec.Meta(description="From a truncated reply: gets the rest.")]
Format = Literal["text", "json"]
Repo = Annotated[str, msgspec.Meta(description="Repository or work tree; default: the server's.")]


class SearchInput(Input, kw_only=True):
    """Base of the inputs of tools whose reply is text, or the JSON that it is made of."""

    format: Format = "text"


class StartSession(Input, kw_only=True):
    intent: Annotated[
        Intent,
        msgspec.Meta(description="Only IMPLEMENT and MODIFY change files."),
    ]
    query: Annotated[str, msgspec.Meta(min_length=1, description="The user's own words.")]
    repo_path: Repo = "."
    gate_level: Annotated[
        GateLevel,
        msgspec.Meta(description="full: no phase is skipped; auto: Q1, Q2 and Q3 decide."),
    ] = "auto"
    flags: Annotated[
        Flags | str,
        msgspec.Meta(description="Only what the user typed, such as `--fast -g=f`."),
    ] = msgspec.field(default_factory=Flags)


class SubmitPhase(Input, kw_only=True):
    data: Annotated[
        dict[str, Any] | list[dict[str, Any] | str] | str,
        msgspec.Meta(
            description="What `expected_payload` of the last reply names; a list of such objects for the next phases, too."
        ),
    ]


class SessionStatus(Input, kw_only=True):
    repo_path: Repo = "."


class SearchText(SearchInput, kw_only=True):
    pattern: Annotated[
        str | list[str],
        msgspec.Meta(description="One regular expression, or up to five."),
    ]
    path: Path = "."
    file_type: FileType = None
    case_sensitive: bool = True
    context_lines: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_results: Annotated[int, msgspec.Meta(ge=1)] = 100
    cursor: Cursor = ""


class SearchFiles(SearchInput, kw_only=True):
    pattern: Annotated[str, msgspec.Meta(description="A glob, such as *.py or src/**/test_*.")]
    path: Path = "."
    file_type: FileType = None
    cursor: Cursor = ""


class FindDefinitions(SearchInput, kw_only=True):
    symbol: Annotated[str, msgspec.Meta(description="A name, a part of one, or Class.method.")]
    path: Path = "."
    language: Language = None
    exact_match: Annotated[
        bool,
        msgspec.Meta(description="Only this name, not those that contain it."),
    ] = False
    at: Annotated[str, msgspec.Meta(description="FILE:LINE of a use: only what it means.")] = ""
    cursor: Cursor = ""


class FindReferences(SearchInput, kw_only=True):
    symbol: Annotated[str, msgspec.Meta(description="The whole name of a symbol, or Class.method.")]
    path: Path = "."
    language: Language = None
    relation: Literal["uses", "callers", "callees", "implementations"] = "uses"
    cursor: Cursor = ""


class ReadSymbol(SearchInput, kw_only=True):
    symbol: Annotated[str, msgspec.Meta(description="The whole name of a symbol, or Class.method.")]
    path: Path = "."
    language: Language = None
    cursor: Cursor = ""


class OutlineOf(SearchInput, kw_only=True):
    path: Path
    depth: Annotated[int, msgspec.Meta(ge=1)] = 2
    cursor: Cursor = ""


class RenameSymbol(SearchInput, kw_only=True):
    symbol: Annotated[str, msgspec.Meta(description="The whole name of a symbol, or Class.method.")]
    new_name: str
    path: Path = "."
    apply: Annotated[str, msgspec.Meta(description="The `preview` of the last reply, to write it.")] = ""
    cursor: Cursor = ""


class Diagnose(SearchInput, kw_only=True):
    paths: Annotated[list[str], msgspec.Meta(description="Default: what the session changed.")] = []
    cursor: Cursor = ""


class AnalyzeStructure(SearchInput, kw_only=True):
    file_path: Annotated[str | None, msgspec.Meta(description="Or `code` and `language`.")] = None
    code: str | None = None
    language: str | None = None


class GetSymbols(SearchInput, kw_only=True):
    path: Path
    kind: Annotated[str | None, msgspec.Meta(description="Such as function or class.")] = None
    language: Language = None
    cursor: Cursor = ""


class FunctionAtLine(SearchInput, kw_only=True):
    file_path: Path
    line_number: Annotated[int, msgspec.Meta(ge=1)]


class Query(SearchInput, kw_only=True):
    question: Annotated[str, msgspec.Meta(min_length=1)]
    intent: Intent | None = None
    path: Path = "."
    symbol: Annotated[str | None, msgspec.Meta(description="A name that it is about.")] = None
    file_path: Annotated[str | None, msgspec.Meta(description="A file that it is about.")] = None
    show_plan: bool = True
    cursor: Cursor = ""


class ChunkDetail(SearchInput, kw_only=True):
    chunk_id: Annotated[str, msgspec.Meta(description="The `id` of a hit of semantic_search.")]
    path: Path = "."


class SemanticSearch(SearchInput, kw_only=True):
    query: Annotated[str, msgspec.Meta(min_length=1, description="What the code does, in words.")]
    path: Path = "."
    target_feature: str | None = None
    collection: Annotated[
        Literal["auto", "map", "forest"],
        msgspec.Meta(description="map: agreements of earlier sessions; forest: code; auto: map first."),
    ] = "auto"
    n_results: Annotated[int, msgspec.Meta(ge=1)] = 10
    cursor: Cursor = ""


class WriteTarget(Input, kw_only=True):
    file_path: Path
    allow_new_files: bool = True


class ExploredFiles(Input, kw_only=True):
    files: Annotated[list[str], msgspec.Meta(description="Files or folders.")]


class Revert(Input, kw_only=True):
    keep_results: Annotated[
        bool, msgspec.Meta(description="false: drop results of semantic search and verification.")
    ] = True


class ReviewChanges(Input, kw_only=True):
    cursor: Cursor = ""


class AnalyzeImpact(Input, kw_only=True):
    target_files: Annotated[list[str], msgspec.Meta(description="The files that will be changed.")]
    change_description: Annotated[str, msgspec.Meta(description="What will be changed, in words.")] = ""
    cursor: Cursor = ""


class Cleanup(Input, kw_only=True):
    repo_path: Repo = "."
    action: Annotated[
        Literal["delete", "merge"],
        msgspec.Meta(description="Delete branches (a ref keeps their commits), or merge each into its base."),
    ] = "delete"


class SyncIndex(Input, kw_only=True):
    path: Path = "."
    force: Annotated[bool, msgspec.Meta(description="Rebuild the index from scratch.")] = False
    sync_map: bool = True


class DocSummary(msgspec.Struct, kw_only=True):
    path: str
    summary: str
    file: str = ""


class UpdateContext(Input, kw_only=True):
    design_doc_summaries: list[DocSummary] = []
    project_rules_summary: str = ""


def schema(kind: type[Input], *, brief: bool = False) -> dict[str, Any]:
    """The JSON schema of an input, as small as it can be: every client sends it to its model.

    It leaves out what a model does not need: that an unknown argument is refused, that null is taken for a missing one, defaults that are
    empty, the members of an object that may also be passed as text, and `format`, which is for programs. `brief` leaves out rare
    arguments, other defaults, and descriptions that can be guessed, too.
    """
    (_,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    found = parts[kind.__name__]
    hidden = {"format", *(_RARE if brief else ())}
    properties = {
        name: _small(about, parts) for name, about in found["properties"].items() if name not in hidden
    }
    if brief:
        for name, about in properties.items():
            if about.get("default") is not True:
                about.pop("default", None)
            if name in _GUESSED:
                about.pop("description", None)
    required = {"required": found["required"]} if found["required"] else {}
    return {"type": "object", "properties": properties, **required}


def _small(about: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in about:
        return _small(parts[about["$ref"]], parts)
    kept = {name: value for name, value in about.items() if name not in _UNSAID}
    if not kept.get("default", True):
        del kept["default"]
    choices = [one for one in kept.pop("anyOf", ()) if one != {"type": "null"}]
    for one in choices:
        kept |= one
    if len(choices) > 1:
        kept.pop("$ref", None)
        kept["type"] = sorted({one.get("type", "object") for one in choices})
    if "enum" in kept:
        kept["enum"] = [value for value in kept["enum"] if value is not None]
    if "items" in kept:
        kept["items"] = _small(kept["items"], parts)
    if "properties" in kept:
        kept["properties"] = {name: _small(inner, parts) for name, inner in kept["properties"].items()}
    return kept


_GUESSED = ("path", "cursor", "language", "file_type")
_RARE = ("show_plan", "target_feature", "intent", "collection")
_UNSAID = ("title", "additionalProperties", "minLength", "minimum")
