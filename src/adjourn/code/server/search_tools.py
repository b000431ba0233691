"""The tools that search, read and rename code, each declared once; `text_replies` has the text of their replies."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec

from adjourn.code.search import relations
from adjourn.code.search.definitions import find_definitions, get_symbols, near_name
from adjourn.code.search.patterns import search_pattern
from adjourn.code.search.references import find_references
from adjourn.code.search.relations import changed_paths, definition_at, diagnose, related
from adjourn.code.search.routing import Question, query
from adjourn.code.search.semantic import fetch_chunk_detail, note_search, semantic_search
from adjourn.code.search.structure import analyze_structure, get_function_at_line, map_files, outline_files, read_symbol
from adjourn.code.search.text import TextOptions, search_files, search_text
from adjourn.code.server import text_replies
from adjourn.code.server.tool import (
    CodeTool,
    FileType,
    Language,
    PagedTool,
    Path,
    Reply,
    SearchTool,
    SymbolTool,
    ToolInvocation,
)
from adjourn.code.session_state import Intent
from adjourn.code.workflow import evidence
from adjourn.errors import InvalidError


class SearchText(PagedTool, kw_only=True):
    name = "search_text"
    title = "Search text"
    description = "Find lines by regular expression, in files that git does not ignore."
    read_only = searches = True
    as_text = text_replies.search_text

    pattern: Annotated[str | list[str], msgspec.Meta(description="One regular expression, or up to five.")]
    path: Path = "."
    file_type: FileType = None
    case_sensitive: bool = True
    context_lines: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_results: Annotated[int, msgspec.Meta(ge=1)] = 100
    structural: Annotated[
        bool, msgspec.Meta(description="The pattern is code: `$X.get($$$)` ($X: a node, $$$: any).")
    ] = False

    def run(self, call: ToolInvocation) -> Reply:
        options = TextOptions(self.file_type, self.case_sensitive, self.context_lines, self.max_results)
        repository = call.codebase.repository
        if not self.structural:
            return search_text(repository, self.pattern, self.path, options, deadline=call.deadline)
        if not isinstance(self.pattern, str) or self.context_lines:
            raise InvalidError("structural takes one pattern and no context_lines", "call once for each pattern")
        return search_pattern(repository, self.pattern, self.path, options, call.deadline)


class SearchFiles(PagedTool, kw_only=True):
    name = "search_files"
    title = "Search files"
    description = "Find files by a glob of their path."
    read_only = searches = True
    as_text = text_replies.search_files

    pattern: Annotated[str, msgspec.Meta(description="A glob, such as *.py or src/**/test_*.")]
    path: Path = "."
    file_type: FileType = None

    def run(self, call: ToolInvocation) -> Reply:
        return search_files(
            call.codebase.repository, self.pattern, self.path, file_type=self.file_type, deadline=call.deadline
        )


class FindDefinitions(SymbolTool, kw_only=True):
    name = "find_definitions"
    title = "Find definitions"
    description = "Find where functions, classes, methods and variables are defined."
    read_only = searches = True
    as_text = text_replies.find_definitions

    symbol: Annotated[str, msgspec.Meta(description="A name, a part of one, or Class.method.")]
    exact_match: Annotated[bool, msgspec.Meta(description="Only this name, not those that contain it.")] = False
    at: Annotated[str, msgspec.Meta(description="FILE:LINE of a use: only what it means.")] = ""

    def run(self, call: ToolInvocation) -> Reply:
        if self.at:
            return definition_at(call.codebase, self.symbol, self.at, call.deadline)
        answer = find_definitions(
            call.codebase,
            self.symbol,
            self.path,
            language=self.language,
            exact_match=self.exact_match,
            deadline=call.deadline,
        )
        near = "" if answer["total"] or "partial" in answer else near_name(call.codebase, self.symbol)
        return {**answer, "near": near} if near else answer


class FindReferences(SymbolTool, kw_only=True):
    name = "find_references"
    title = "Find references"
    description = "Find where a symbol is used. Each hit says how certain it is."
    read_only = searches = True
    as_text = text_replies.find_references

    relation: Literal["uses", "callers", "callees", "implementations"] = "uses"

    def run(self, call: ToolInvocation) -> Reply:
        if self.relation != "uses":
            return related(
                call.codebase,
                self.symbol,
                self.path,
                relation=self.relation,
                language=self.language,
                deadline=call.deadline,
            )
        answer = find_references(call.codebase, self.symbol, self.path, language=self.language, deadline=call.deadline)
        if answer["total"] or answer["definitions"] or answer.get("namesakes") or "partial" in answer:
            return answer
        return {
            "error": "not_found",
            "message": f"{self.symbol!r} is neither defined nor used in {answer['path']}",
            "hint": near_name(call.codebase, self.symbol) or "look for it with search_text",
            **answer,
        }


class ReadSymbol(SymbolTool, kw_only=True):
    name = "read_symbol"
    title = "Read a symbol"
    description = "Read the body of a function, class or method."
    read_only = searches = symbols = True
    whole = True
    as_text = text_replies.read_symbol

    def run(self, call: ToolInvocation) -> Reply:
        return read_symbol(call.codebase, self.symbol, self.path, language=self.language, deadline=call.deadline)


class OutlineOf(PagedTool, kw_only=True):
    name = "outline"
    title = "Outline"
    description = "Show the classes and functions of a file or folder as a tree."
    read_only = searches = symbols = True
    as_text = text_replies.outline

    path: Path
    depth: Annotated[int, msgspec.Meta(ge=1)] = 2

    def run(self, call: ToolInvocation) -> Reply:
        return outline_files(call.codebase, self.path, depth=self.depth, deadline=call.deadline)


class RenameSymbol(PagedTool, kw_only=True):
    name = "rename_symbol"
    title = "Rename a symbol"
    description = "In READY: rename a symbol everywhere. Shows the changes; with `apply`, writes them."
    symbols = True
    as_text = text_replies.rename_symbol

    symbol: Annotated[str, msgspec.Meta(description="The whole name of a symbol, or Class.method.")]
    new_name: str
    path: Path = "."
    apply: Annotated[str, msgspec.Meta(description="The `preview` of the last reply, to write it.")] = ""

    def run(self, call: ToolInvocation) -> Reply:
        """Show a renaming; with `apply`, write it if the session may change all the files."""
        active = call.sessions.require_active(call.client)
        preview, files = relations.preview_rename(call.codebase, self.symbol, self.new_name, self.path, call.deadline)
        if not self.apply:
            return preview

        def refusal(path: str) -> str:
            answer = evidence.check_target(active.state, active.worktree, path, allow_new_files=False)
            return "" if answer["allowed"] else str(answer["error"])

        with active.lock:
            return {**preview, **relations.apply_rename(call.codebase, files, self.apply, refusal)}


class Diagnose(PagedTool, kw_only=True):
    name = "diagnostics"
    title = "Diagnostics"
    description = "List errors and warnings of files as they are now. Call it after each change."
    read_only = searches = symbols = True
    as_text = text_replies.diagnostics

    paths: Annotated[list[str], msgspec.Meta(description="Default: what the session changed.")] = msgspec.field(
        default_factory=list
    )

    def run(self, call: ToolInvocation) -> Reply:
        paths = self.paths
        if not paths and call.client.active is not None:
            paths = changed_paths(call.codebase, [change.path for change in call.changes()])
        return diagnose(call.codebase, paths, call.deadline)


class AnalyzeStructure(PagedTool, kw_only=True):
    name = "analyze_structure"
    title = "Structure of a file"
    description = "Outline one file, or a code snippet, with its imports and exports."
    read_only = searches = True
    as_text = text_replies.analyze_structure

    file_path: Annotated[str | None, msgspec.Meta(description="Or `code` and `language`.")] = None
    code: str | None = None
    language: str | None = None

    def run(self, call: ToolInvocation) -> Reply:
        return analyze_structure(call.codebase.repository, self.file_path, code=self.code, language=self.language)


class GetSymbols(PagedTool, kw_only=True):
    name = "get_symbols"
    title = "List symbols"
    description = (
        "List the symbols of a file; of a folder, a map: its most used files and symbols first. A good first look."
    )
    read_only = searches = True
    as_text = text_replies.get_symbols

    path: Path
    kind: Annotated[str | None, msgspec.Meta(description="Such as function or class.")] = None
    language: Language = None

    def run(self, call: ToolInvocation) -> Reply:
        codebase = call.codebase
        is_folder = os.path.isdir(codebase.repository.absolute(codebase.repository.existing(self.path)))
        if is_folder and self.format == "text" and not (self.kind or self.language):
            mapped = map_files(codebase, self.path, of_session=call.session_files())
            if mapped["total"]:
                return mapped
        return get_symbols(codebase, self.path, kind=self.kind, language=self.language, deadline=call.deadline)


class FunctionAtLine(SearchTool, kw_only=True):
    name = "get_function_at_line"
    title = "Function around a line"
    description = "Find the function around a line."
    read_only = True
    as_text = text_replies.get_function_at_line

    file_path: Path
    line_number: Annotated[int, msgspec.Meta(ge=1)]

    def run(self, call: ToolInvocation) -> Reply:
        return get_function_at_line(call.codebase.repository, self.file_path, self.line_number)


class Query(PagedTool, kw_only=True):
    name = "query"
    title = "Ask about the code"
    description = "Answer a question in words with all search tools that fit it. A good first call."
    read_only = searches = True
    as_text = text_replies.query

    question: Annotated[str, msgspec.Meta(min_length=1)]
    intent: Intent | None = None
    path: Path = "."
    symbol: Annotated[str | None, msgspec.Meta(description="A name that it is about.")] = None
    file_path: Annotated[str | None, msgspec.Meta(description="A file that it is about.")] = None
    show_plan: bool = True

    def run(self, call: ToolInvocation) -> Reply:
        active, frame = call.client.active, call.frame
        return query(
            call.codebase,
            Question(
                self.question,
                self.intent or (active.state.intent if active else "INVESTIGATE"),
                self.path,
                self.symbol,
                self.file_path,
                frame.slots if frame else {},
            ),
            show_plan=self.show_plan,
            deadline=call.deadline,
        )


class ChunkDetail(SearchTool, kw_only=True):
    name = "fetch_chunk_detail"
    title = "Fetch a search hit"
    description = "Fetch the whole text of a semantic_search hit."
    read_only = searches = True
    whole = True
    as_text = text_replies.fetch_chunk_detail

    chunk_id: Annotated[str, msgspec.Meta(description="The `id` of a hit of semantic_search.")]
    path: Path = "."

    def run(self, call: ToolInvocation) -> Reply:
        return fetch_chunk_detail(call.codebase, self.chunk_id)


class SemanticSearch(PagedTool, kw_only=True):
    name = "semantic_search"
    title = "Search by meaning"
    description = "Find code by a description of what it does. In a session: from SEMANTIC on."
    read_only = searches = True
    as_text = text_replies.semantic_search

    query: Annotated[str, msgspec.Meta(min_length=1, description="What the code does, in words.")]
    path: Path = "."
    target_feature: str | None = None
    collection: Annotated[
        Literal["auto", "map", "forest"],
        msgspec.Meta(description="map: agreements of earlier sessions; forest: code; auto: map first."),
    ] = "auto"
    n_results: Annotated[int, msgspec.Meta(ge=1)] = 10

    def run(self, call: ToolInvocation) -> Reply:
        active, frame = call.client.active, call.frame
        answer = semantic_search(
            call.codebase,
            self.query,
            self.path,
            target_feature=self.target_feature or (frame.target_feature if frame else None),
            collection=self.collection,
            n_results=self.n_results,
        )
        if active is None:
            return answer
        with active.lock:
            answer = note_search(active.state, call.codebase, answer, call.deadline)
            active.save()
            return answer


TOOLS: tuple[type[CodeTool], ...] = (
    SearchText, SearchFiles, FindDefinitions, FindReferences, ReadSymbol, OutlineOf, RenameSymbol, Diagnose,
    AnalyzeStructure, GetSymbols, FunctionAtLine, Query, ChunkDetail, SemanticSearch,
)  # fmt: skip
"""In the order in which clients list them."""
