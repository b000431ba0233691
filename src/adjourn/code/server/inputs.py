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


Path = Annotated[str, msgspec.Meta(description="File or folder, relative to the root of the repository.")]
Language = Annotated[
    str | None, msgspec.Meta(description="Only files of this language, such as python or go.")
]
FileType = Annotated[str | None, msgspec.Meta(description="ripgrep's name of a file type, such as py or js.")]
Cursor = Annotated[
    str,
    msgspec.Meta(description="The `cursor` of a truncated reply to the same call, to get the rest."),
]
Format = Literal["text", "json"]
Repo = Annotated[
    str, msgspec.Meta(description="Folder of the repository or work tree; default: where the server runs.")
]


class SearchInput(Input, kw_only=True):
    """Base of the inputs of tools whose reply is text, or the JSON that it is made of."""

    format: Format = "text"


class StartSession(Input, kw_only=True):
    intent: Annotated[
        Intent,
        msgspec.Meta(
            description="IMPLEMENT something new, MODIFY what is there, INVESTIGATE why, or answer a QUESTION. Only the first two change files."
        ),
    ]
    query: Annotated[
        str, msgspec.Meta(min_length=1, description="What the user asked for, in their own words.")
    ]
    repo_path: Repo = "."
    gate_level: Annotated[
        GateLevel,
        msgspec.Meta(description="full: no phase is skipped. auto: the answers to Q1, Q2 and Q3 decide."),
    ] = "auto"
    flags: Annotated[
        Flags | str,
        msgspec.Meta(
            description="Only flags that the user typed: as an object, or as a string such as `--fast -g=f`."
        ),
    ] = msgspec.field(default_factory=Flags)


class SubmitPhase(Input, kw_only=True):
    data: Annotated[
        dict[str, Any] | str,
        msgspec.Meta(
            description="An object with the members that `expected_payload` of the last reply names."
        ),
    ]


class SessionStatus(Input, kw_only=True):
    repo_path: Repo = "."


class SearchText(SearchInput, kw_only=True):
    pattern: Annotated[
        str | list[str],
        msgspec.Meta(
            description="A regular expression (Rust syntax), or up to five that are searched for at once."
        ),
    ]
    path: Path = "."
    file_type: FileType = None
    case_sensitive: bool = True
    context_lines: Annotated[int, msgspec.Meta(ge=0, description="Lines shown around each match.")] = 0
    max_results: Annotated[int, msgspec.Meta(ge=1, description="Maximum number of matches in the reply.")] = (
        100
    )
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
        msgspec.Meta(description="Match the exact name only; else any name that contains it, ignoring case."),
    ] = False
    cursor: Cursor = ""


class FindReferences(SearchInput, kw_only=True):
    symbol: Annotated[str, msgspec.Meta(description="The whole name of a symbol, or Class.method.")]
    path: Path = "."
    language: Language = None
    cursor: Cursor = ""


class AnalyzeStructure(SearchInput, kw_only=True):
    file_path: Annotated[str | None, msgspec.Meta(description="The file; or give `code` and `language`.")] = (
        None
    )
    code: str | None = None
    language: str | None = None


class GetSymbols(SearchInput, kw_only=True):
    path: Path
    kind: Annotated[
        str | None, msgspec.Meta(description="Only symbols of this kind, such as function or class.")
    ] = None
    language: Language = None
    cursor: Cursor = ""


class FunctionAtLine(SearchInput, kw_only=True):
    file_path: Path
    line_number: Annotated[int, msgspec.Meta(ge=1, description="Counted from 1.")]


class Query(SearchInput, kw_only=True):
    question: Annotated[str, msgspec.Meta(min_length=1, description="The question, in words.")]
    intent: Intent | None = None
    path: Path = "."
    symbol: Annotated[str | None, msgspec.Meta(description="A name that the question is about.")] = None
    file_path: Annotated[str | None, msgspec.Meta(description="A file that the question is about.")] = None
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
        msgspec.Meta(
            description="map: agreements of earlier sessions. forest: the code. auto: the map, then the code if the map has no good match."
        ),
    ] = "auto"
    n_results: Annotated[int, msgspec.Meta(ge=1)] = 10
    cursor: Cursor = ""


class WriteTarget(Input, kw_only=True):
    file_path: Path
    allow_new_files: bool = True


class ExploredFiles(Input, kw_only=True):
    files: Annotated[
        list[str], msgspec.Meta(description="Files or folders that you read after the exploration.")
    ]


class Revert(Input, kw_only=True):
    keep_results: Annotated[
        bool, msgspec.Meta(description="false: drop the results of semantic search and verification.")
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
        msgspec.Meta(
            description="Delete the branches (a ref keeps their commits), or merge each into its base branch."
        ),
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


def schema(kind: type[Input]) -> dict[str, Any]:
    """The JSON schema of an input: one object, with its definitions in `$defs`."""
    (_,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    found: dict[str, Any] = {"type": "object", **parts.pop(kind.__name__)}
    for name in ("title", "description"):
        found.pop(name, None)
    return {**found, "$defs": parts} if parts else found
