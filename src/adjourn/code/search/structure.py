"""The structure of one file, and the function around a line.

Owns: `analyze_structure` and `get_function_at_line`. Must never: use the index; a file is read as it is now.
"""

from __future__ import annotations

from typing import Any

from adjourn.code.index.grammars import missing
from adjourn.code.index.languages import by_name
from adjourn.code.index.outline import CLASSES, EXPORT, FUNCTIONS, IMPORT, Symbol
from adjourn.code.index.reading import SourceFile, of_bytes, open_source
from adjourn.code.model.repository import CodeRepository
from adjourn.errors import InvalidError, NotFoundError

_MAX_CODE = 2 << 20
_MAX_STATEMENT = 300


def analyze_structure(
    repository: CodeRepository,
    file_path: str | None = None,
    *,
    code: str | None = None,
    language: str | None = None,
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
    around = [
        s for s in source.outline.symbols if s.kind in FUNCTIONS and s.line <= line_number <= s.end_line
    ]
    if not around:
        raise NotFoundError(
            f"line {line_number} of {file_path} is not inside a function",
            "list the file's functions with get_symbols",
        )
    innermost = min(around, key=lambda symbol: (symbol.end - symbol.start, -symbol.start))
    return {"file_path": source.path, "language": source.language, **_to_json(innermost)}


def _source(
    repository: CodeRepository, path: str | None, code: str | None, language: str | None
) -> SourceFile:
    known = by_name(language) if language else None
    if language and known is None:
        raise InvalidError(
            f"no grammar for language {language!r}",
            "omit the language, or name one that `adjourn doctor` lists",
        )
    if code is not None:
        if known is None:
            raise InvalidError("code is given without a language", "name its language")
        if len(code) > _MAX_CODE:
            raise InvalidError("the code is longer than 2 MiB", "send only the relevant part")
        source = of_bytes("", code.encode("utf-8", "replace"), known.name)
    elif path:
        source = open_source(repository, repository.existing(path))
        if known is not None and known.name != source.language:
            source = of_bytes(source.path, source.data, known.name)
    else:
        raise InvalidError("neither file_path nor code is given", "give file_path, or code and language")
    if not source.parsed:
        package = missing().get(source.language)
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
    found, depth, begin = [], 0, start + 1
    for place in range(start, len(signature)):
        char = signature[place]
        depth += (char in "([{<") - (char in ")]}>" and signature[place - 1] not in "-=")
        if (char == "," and depth == 1) or depth == 0:
            found.append(signature[begin:place].strip())
            begin = place + 1
        if depth == 0:
            break
    return [one for one in found if one]
