"""Reads code by its structure: the outline of files, the function around a line, and symbols whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from itertools import groupby
from typing import Any

from adjourn.code.deadline import Deadline
from adjourn.code.index import lookup
from adjourn.code.index.analysis import MAX_PARSED, SourceFile, of_bytes, open_source, word_parts
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.database import FRESH
from adjourn.code.index.languages import by_name, missing_grammars
from adjourn.code.index.lookup import Definition
from adjourn.code.index.outline import CLASSES, EXPORT, FUNCTIONS, IMPORT, Symbol
from adjourn.code.language_servers.servers import READY
from adjourn.code.repository import CodeRepository
from adjourn.code.search import references
from adjourn.code.search.definitions import definitions_of, get_symbols, to_json
from adjourn.code.search.semantic import place_of
from adjourn.errors import InvalidError, NotFoundError

_MAX_CODE = 2 << 20
_MAX_STATEMENT = 300


def analyze_structure(
    repository: CodeRepository, file_path: str | None = None, *, code: str | None = None, language: str | None = None
) -> dict[str, Any]:
    """Functions, classes, imports and exports of a file, or of a piece of code in a named language."""
    source = _source(repository, file_path, code, language)
    data = source.data
    groups: dict[str, list[dict[str, Any]]] = {"functions": [], "classes": [], "other": []}
    for symbol in source.outline.symbols:
        group = "functions" if symbol.kind in FUNCTIONS else "classes" if symbol.kind in CLASSES else "other"
        groups[group].append(_to_json(symbol))
    statements = {
        kind: [
            {"statement": " ".join(data[r.start : r.end].decode("utf-8", "replace").split())[:_MAX_STATEMENT],
             "start_line": data.count(b"\n", 0, r.start) + 1, "end_line": data.count(b"\n", 0, r.end) + 1}
            for r in source.outline.regions if r.kind == kind
        ]
        for kind in (IMPORT, EXPORT)
    }  # fmt: skip
    return {
        "language": source.language,
        "file_path": source.path or None,
        **{key: groups[key] for key in ("functions", "classes")},
        "imports": statements[IMPORT],
        "exports": statements[EXPORT],
        "other": groups["other"],
        "syntax_errors": source.outline.broken,
        "summary": {
            "total_functions": len(groups["functions"]),
            "total_classes": len(groups["classes"]),
            "total_imports": len(statements[IMPORT]),
            "total_lines": data.count(b"\n") + (not data.endswith(b"\n") and bool(data)),
        },
    }


def get_function_at_line(repository: CodeRepository, file_path: str, line_number: int) -> dict[str, Any]:
    """The innermost function around a line. Raises `NotFoundError` if there is none."""
    source = _source(repository, file_path, None, None)
    around = [s for s in source.outline.symbols if s.kind in FUNCTIONS and s.line <= line_number <= s.end_line]
    if not around:
        raise NotFoundError(
            f"line {line_number} of {file_path} is not inside a function", "list the file's functions with get_symbols"
        )
    innermost = min(around, key=lambda symbol: (symbol.end - symbol.start, -symbol.start))
    return {"file_path": source.path, "language": source.language, **_to_json(innermost)}


def _source(repository: CodeRepository, path: str | None, code: str | None, language: str | None) -> SourceFile:
    entry = by_name(language) if language else None
    if language and entry is None:
        raise InvalidError(
            f"no grammar for language {language!r}", "omit the language, or name one that `adjourn doctor` lists"
        )
    if code is not None:
        if entry is None:
            raise InvalidError("code is given without a language", "name its language")
        if len(code) > _MAX_CODE:
            raise InvalidError("the code is longer than 2 MiB", "send only the relevant part")
        source = of_bytes("", code.encode("utf-8", "replace"), entry.name)
    elif path:
        source = open_source(repository, repository.existing(path))
        if entry is not None and entry.name != source.language:
            source = of_bytes(source.path, source.data, entry.name)
    else:
        raise InvalidError("neither file_path nor code is given", "give file_path, or code and language")
    if not source.parsed:
        package = missing_grammars().get(source.language)
        reason = f"the package {package} is not installed" if package else "parsing took too long"
        if by_name(source.language) is None:
            reason = "its language has no grammar"
        raise InvalidError(f"{source.path or 'the code'} cannot be parsed: {reason}", "use search_text")
    return source


def _to_json(symbol: Symbol) -> dict[str, Any]:
    return {
        "name": symbol.name,
        "type": symbol.kind,
        "scope": symbol.scope,
        "start_line": symbol.line,
        "end_line": symbol.end_line,
        "parameters": parameters(symbol.signature) if symbol.kind in FUNCTIONS else [],
        "signature": symbol.signature,
    }


def parameters(signature: str) -> list[str]:
    """The parameters in a signature, split at top-level commas."""
    start = signature.find("(")
    if signature.startswith("func (") and (close := signature.find(")")) > 0:  # Go names the receiver first
        start = signature.find("(", close)
    if start < 0:
        return []
    names, depth, begin = [], 0, start + 1
    for place in range(start, len(signature)):
        char = signature[place]
        depth += (char in "([{<") - (char in ")]}>" and signature[place - 1] not in "-=")
        if (char == "," and depth == 1) or depth == 0:
            names.append(signature[begin:place].strip())
            begin = place + 1
        if depth == 0:
            break
    return [name for name in names if name]


# --- reads symbols whole

_MAX_BODIES = 5
_MAX_LINES = 600
_HOVER_SECONDS = 2.0
_OUTLINED = 16


def read_symbol(
    codebase: Codebase, symbol: str, path: str = ".", *, language: str | None = None, deadline: Deadline | None = None
) -> dict[str, Any]:
    """The text of each definition of a symbol, the likeliest first; with its type if a language server runs."""
    definitions = definitions_of(codebase, symbol, path, language=language, deadline=deadline)
    bodies = [_body(codebase, definition) for definition in definitions[:_MAX_BODIES]]
    if len(definitions) == 1 and (type_text := _type(codebase, definitions[0], deadline or Deadline())):
        bodies[0]["type"] = type_text
    answer: dict[str, Any] = {
        "symbol": symbol,
        "bodies": bodies,
        "total": len(definitions),
        "index_state": codebase.state(),
    }
    if others := definitions[_MAX_BODIES:]:
        answer["others"] = [to_json(definition) for definition in others]
    return answer


def _body(codebase: Codebase, definition: Definition) -> dict[str, Any]:
    text = codebase.repository.read(definition.place.path, MAX_PARSED).decode("utf-8", "replace")
    first, last = (definition.symbol.line, min(definition.symbol.end_line, definition.symbol.line + _MAX_LINES - 1))
    body = {
        **to_json(definition),
        "content": "\n".join(line.removesuffix("\r") for line in text.split("\n")[first - 1 : last]),
    }
    return {**body, "cut_at": last} if last < definition.symbol.end_line else body


def _type(codebase: Codebase, definition: Definition, deadline: Deadline) -> str:
    """What the language server says of a symbol; "" if it does not run yet: nobody waits for it."""
    servers, index = codebase.language_servers, codebase.index
    if servers is None or index is None or (name := references.position_of(index, definition)) is None:
        return ""
    answer = servers.ask(
        definition.place.language, [name], [name.path], lambda server, ends: server.hover(name, ends),
        deadline.at_most(_HOVER_SECONDS),
    )  # fmt: skip
    return (answer.value or "").strip() if answer.state == READY else ""


def outline_files(
    codebase: Codebase, path: str = ".", *, depth: int = 2, deadline: Deadline | None = None
) -> dict[str, Any]:
    """The symbols of a file or folder as a tree: down to `depth` levels, without variables of functions.

    A file with many symbols is several entries, so that a reply can end within it.
    """
    listed = get_symbols(codebase, path, deadline=deadline)
    files: list[dict[str, Any]] = []
    for file, symbols in groupby(listed["symbols"], lambda symbol: symbol["file"]):
        open_ends: list[int] = []
        rows = []
        for symbol in sorted(symbols, key=lambda symbol: (symbol["line"], -symbol["end_line"])):
            while open_ends and open_ends[-1] < symbol["line"]:
                open_ends.pop()
            if len(open_ends) < depth and symbol["kind"] != "alias":
                row = {key: symbol[key] for key in ("name", "kind", "line", "end_line")}
                rows.append({**row, "level": len(open_ends)})
            open_ends.append(symbol["end_line"])
        parts = range(0, max(len(rows), 1), _OUTLINED)
        files += ({"file": file, "symbols": rows[first : first + _OUTLINED]} for first in parts)
    answer: dict[str, Any] = {"path": listed["path"], "files": files, "index_state": listed["index_state"]}
    if (left := listed["total"] - len(listed["symbols"])) > 0:
        answer["partial"] = f"{left:,} symbols are left out: name a smaller folder"
    return answer


# --- the map of a repository

_MAX_MAPPED = 100_000
_SHOWN_OF_FILE = 4
_NOISE, _SMALL = 0.25, 40
"""A name that is in a larger share of all files of a project that is not small is a common word, whoever defines it."""
_BESIDE = re.compile(r"(^|/)(docs|scripts)/")
"""Code that serves the project, and is not what it is."""
_TYPES = frozenset({"class", "struct", "interface", "trait", "enum"})
_RECENT_NS = 24 * 3600 * 10**9
_MAPPED_SIGNATURE = 72
_OF_RECENT, _OF_COMMON, _OF_PRIVATE = 1.5, 0.1, 0.3
_OF_PLACE = {"implementation": 1.0, "example": 0.3, "generated": 0.1, "test": 0.1, "document": 0.1}


def map_files(codebase: Codebase, path: str = ".", *, of_session: Collection[str] = ()) -> dict[str, Any]:
    """The files of a folder with their types and functions, the most important first: those that the most other files refer to.

    A name counts by the files that have it as a word, shared by the files that define it, of which tests, examples and built files are
    none. The session's files come first, files that changed within a day count more, tests, examples and built files less; so do names
    that are private by the convention of their language. `used_by`: files that mention the file's most used name.
    """
    under = codebase.repository.existing(path)
    codebase.request_update()
    index = codebase.index
    listed = lookup.outer_definitions(index, under, _MAX_MAPPED) if index is not None else []
    total = max(index.stats()["files"], 1) if index is not None else 1
    kinds = {
        path: "example" if _BESIDE.search(path) else place_of(path, "")
        for path in {definition.place.path for definition, _ in listed}
    }
    homes = Counter(
        word
        for word, path in {(_word(definition.symbol), definition.place.path) for definition, _ in listed}
        if kinds[path] == "implementation"
    )
    newest = max((definition.place.mtime for definition, _ in listed), default=0)
    ranked: list[tuple[float, dict[str, Any]]] = []
    for file, group in groupby(listed, lambda row: row[0].place.path):
        rows = list(group)
        uses = [_uses(definition, count, homes[_word(definition.symbol)] or 1, total) for definition, count in rows]
        best = sorted(range(len(rows)), key=lambda number: (-uses[number], number))[:_SHOWN_OF_FILE]
        place = rows[0][0].place
        score = sum(uses[number] ** 0.5 for number in best)
        score *= _OF_RECENT if place.mtime in (FRESH, newest) or newest - place.mtime < _RECENT_NS else 1
        score *= _OF_PLACE[kinds[file]]
        symbols = [_mapped(rows[number][0].symbol) for number in sorted(best)]
        more = {"more": len(rows) - len(best)} if len(rows) > len(best) else {}
        ranked.append((score, {"file": file, "used_by": int(max(uses)), "symbols": symbols, **more}))
    ranked.sort(key=lambda entry: (entry[1]["file"] not in of_session, -entry[0], entry[1]["file"]))
    answer = {
        "path": under or ".",
        "map": [entry for _, entry in ranked],
        "total": len(ranked),
        "index_state": codebase.state(),
    }
    return answer if codebase.complete() else {**answer, "partial": "the index is incomplete: there may be more"}


def _word(symbol: Symbol) -> str:
    """A name as the index of words has it."""
    return symbol.name.lstrip("$").lower()


def _uses(definition: Definition, count: int, homes: int, total: int) -> float:
    """How many other files use a definition, by its name alone. The one type of a capitalized name is what is meant by it."""
    symbol, name = definition.symbol, definition.symbol.name.lstrip("$")
    others = max(count - homes, 0) / homes
    if name.startswith("_") or (definition.place.language == "go" and name[:1].islower()):
        others *= _OF_PRIVATE
    if symbol.kind in _TYPES and homes == 1 and name[:1].isupper():
        return others
    is_common = len(word_parts(name)) < 2 or (count > _NOISE * total and total > _SMALL)
    return others * _OF_COMMON if is_common else others


def _mapped(symbol: Symbol) -> dict[str, Any]:
    signature = " ".join(symbol.signature.split())
    return {"line": symbol.line, "text": signature[:_MAPPED_SIGNATURE] or f"{symbol.kind} {symbol.name}"}
