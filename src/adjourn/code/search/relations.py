"""Questions that only a language server answers: meanings, callers, implementations, diagnostics, and renames.

No answer comes from text where no server has answered. A rename is shown first, and then made as it was shown.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from adjourn.code.deadline import Deadline
from adjourn.code.index import lookup
from adjourn.code.index.analysis import MAX_PARSED, line_of, open_source
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.languages import language_of
from adjourn.code.index.lookup import Definition
from adjourn.code.language_servers.kinds import CodeProblem, FileSpan, NamePosition, TextEdit
from adjourn.code.language_servers.servers import READY, ServerAnswer
from adjourn.code.search import references
from adjourn.code.search.definitions import definitions_of, split_symbol, to_json
from adjourn.code.search.references import EXACT, MAX_LINE, CodeUse
from adjourn.errors import AdjournError, HeldError, InvalidError, RefusedError, UsageError
from adjourn.host.workspace import resolve_inside, write_file

if TYPE_CHECKING:
    from adjourn.code.language_servers.server import LanguageServer


RELATIONS = ("callers", "callees", "implementations")
_MAX_ASKED = 20
_MAX_FILES = 50
_MAX_IN_LINE = 20
_T = TypeVar("_T")


def definition_at(codebase: Codebase, symbol: str, at: str, deadline: Deadline) -> dict[str, Any]:
    """Where the symbol that is used at `FILE:LINE` is defined; of two uses in the line, where both are."""
    path, number = _place(codebase, at)
    _, name = split_symbol(symbol)
    source = open_source(codebase.repository, path)
    begin = 0
    for _ in range(number - 1):
        begin = source.data.find(b"\n", begin) + 1
    end = source.data.find(b"\n", begin)
    line = source.data[begin : end if end >= 0 else None]
    offsets = list(islice(references.WordFinder(name).places(line), _MAX_IN_LINE))
    if not offsets:
        raise InvalidError(f"{name!r} does not stand in line {number} of {path}", "name the line of a use")
    positions = [references.position_at(path, source.data, begin + offset) for offset in offsets]

    def defined(server: LanguageServer, ends: Deadline) -> list[FileSpan]:
        return [span for position in positions for span in server.definitions(position, ends)]

    spans = dict.fromkeys(_ask_server(codebase, source.language, positions[0], defined, deadline))
    matching = [_defined(codebase, span, name) for span in spans]
    return {
        "symbol": symbol,
        "path": at,
        "definitions": matching,
        "total": len(matching),
        "index_state": codebase.state(),
    }


def related(
    codebase: Codebase, symbol: str, path: str, *, relation: str, language: str | None, deadline: Deadline
) -> dict[str, Any]:
    """The calls of a function (`callers`), the functions it calls (`callees`), or what implements or overrides it."""
    definitions = definitions_of(codebase, symbol, path, language=language, deadline=deadline)
    servers = codebase.language_servers
    served = [
        definition for definition in definitions if servers is not None and servers.installed(definition.place.language)
    ]
    if len(served) > _MAX_ASKED:
        raise UsageError(f"{symbol!r} has {len(served)} definitions", "name one: Class.method, or the file as path")
    rows: set[tuple[str, int, str]] = set()
    for definition in served or definitions[:1]:  # without any server, the first one's error says what to install
        position = position_of(codebase, definition)
        spans = _ask_server(
            codebase, definition.place.language, position, partial(_related, relation, position), deadline, word=definition.symbol.name
        )  # fmt: skip
        rows |= {(span.path, span.line + 1, kind) for span, kind in spans}
    uses = [CodeUse(file, line, _line(codebase, file, line), EXACT, kind) for file, line, kind in sorted(rows)]
    return {
        "symbol": symbol,
        "path": path,
        "relation": relation,
        "references": [use._asdict() for use in uses],
        "total": len(uses),
        "by_match": {EXACT: len(uses)},
        "index_state": codebase.state(),
    }


def _related(
    relation: str, position: NamePosition, server: LanguageServer, deadline: Deadline
) -> list[tuple[FileSpan, str]]:
    if relation == "implementations":
        return [(span, "name") for span in server.implementations(position, deadline)]
    ask = server.callers if relation == "callers" else server.callees
    return [(span, f"call {call.name}") for call in ask(position, deadline) for span in call.spans]


def diagnose(codebase: Codebase, paths: Sequence[str], deadline: Deadline) -> dict[str, Any]:
    """Errors and warnings of files as they are on disk now."""
    if not paths:
        raise UsageError("no file is named, and the session changed none", "name files as paths")
    if len(paths) > _MAX_FILES:
        raise UsageError(f"{len(paths)} files are named", f"name at most {_MAX_FILES}")
    problems: list[CodeProblem] = []
    looked: list[str] = []
    skipped: dict[str, str] = {}
    for name in paths:
        path = codebase.repository.existing(name)
        position = NamePosition(path, 0, 0)
        try:
            problems += _ask_server(codebase, language_of(path), position, partial(_problems, path), deadline)
            looked.append(path)
        except AdjournError as error:
            skipped[path] = error.message
    answer: dict[str, Any] = {
        "files": looked,
        "diagnostics": [
            {"file": problem.path, "line": problem.line, "severity": problem.severity, "message": problem.message}
            for problem in problems
        ],
        "total": len(problems),
    }
    return {**answer, "not_checked": skipped} if skipped else answer


def _problems(path: str, server: LanguageServer, deadline: Deadline) -> list[CodeProblem]:
    return server.diagnostics(path, deadline)


def _ask_server(
    codebase: Codebase,
    language: str,
    position: NamePosition,
    question: references.Question[list[_T]],
    deadline: Deadline,
    *,
    word: str = "",
) -> list[_T]:
    """The answer of the language's server. Raises an error that says why there is none."""
    answer = answer_of(references.ask(codebase, language, position, question, deadline, word=word), language)
    return answer or []


def answer_of(answer: ServerAnswer[_T] | None, language: str) -> _T | None:
    """The value of an answer. Raises an error that says why there is none."""
    if answer is None:
        raise InvalidError(
            f"no language server for {language} is installed",
            "install one: pip install 'adjourn[exact]' for Python; typescript-language-server, gopls, rust-analyzer, clangd on PATH",
        )
    if answer.state != READY:
        raise HeldError(answer.reason, "repeat the call in some seconds, or search by name")
    return answer.value


def position_of(codebase: Codebase, definition: Definition) -> NamePosition:
    """Where the name of a definition stands now."""
    if definition.place.content and codebase.index is not None:
        position = references.position_of(codebase.index, definition)
        if position is not None:
            return position
    source = open_source(codebase.repository, definition.place.path)
    return references.position_at(definition.place.path, source.data, definition.symbol.name_start)


def _place(codebase: Codebase, at: str) -> tuple[str, int]:
    file, _, number = at.rpartition(":")
    if not file or not number.isdecimal() or not 0 < int(number) < 10_000_000:
        raise InvalidError(f"not FILE:LINE: {at[:100]!r}", "give the place of a use, such as src/app.py:12")
    return codebase.repository.existing(file), int(number)


def _defined(codebase: Codebase, span: FileSpan, name: str) -> dict[str, Any]:
    """A place that a server named, as a definition: as the index knows it, else by its line."""
    index, line = codebase.index, span.line + 1
    here = (
        []
        if index is None
        else [
            definition
            for definition in lookup.symbols_under(index, span.path, 20_000)
            if definition.symbol.line == line and lookup.is_current(index, definition.place)
        ]
    )
    if here:
        best = next((definition for definition in here if definition.symbol.name == name), here[0])
        return {**to_json(best), "match": EXACT}
    return {
        "name": name, "file": span.path, "line": line, "end_line": span.end_line + 1, "kind": "name", "scope": "",
        "signature": _line(codebase, span.path, line), "language": language_of(span.path), "match": EXACT,
    }  # fmt: skip


def _line(codebase: Codebase, path: str, number: int) -> str:
    try:
        return line_of(codebase.repository.read(path, MAX_PARSED), number, MAX_LINE).strip()
    except AdjournError:
        return ""


def changed_paths(codebase: Codebase, paths: Sequence[str]) -> list[str]:
    """Of changed files, those that exist and have a language server."""
    servers, repository = codebase.language_servers, codebase.repository
    return [
        path
        for path in paths
        if os.path.isfile(repository.absolute(path)) and servers is not None and servers.installed(language_of(path))
    ]


# --- renames a symbol everywhere

_NAME = re.compile(r"[^\W\d]\w*")
_MAX_RENAMED_FILES = 500


class _RenamedFile(NamedTuple):
    path: str
    before: bytes
    after: bytes
    lines: list[int]


def preview_rename(
    codebase: Codebase, symbol: str, new_name: str, path: str, deadline: Deadline
) -> tuple[dict[str, Any], list[_RenamedFile]]:
    """What a renaming changes, each line before and after; with the files that `apply_rename` writes."""
    if not _NAME.fullmatch(new_name):
        raise InvalidError(f"not a name: {new_name[:100]!r}", "give a name of letters, digits and _")
    definitions = definitions_of(codebase, symbol, path, deadline=deadline)
    if len(definitions) > 1:
        places = ", ".join(f"{definition.place.path}:{definition.symbol.line}" for definition in definitions[:5])
        raise UsageError(
            f"{symbol!r} has {len(definitions)} definitions: {places}", "name one: Class.method, or the file as path"
        )
    (definition,) = definitions
    position = position_of(codebase, definition)
    answer = references.ask(
        codebase, definition.place.language, position, lambda server, ends: server.renaming(position, new_name, ends), deadline,
        word=definition.symbol.name,
    )  # fmt: skip
    edits = answer_of(answer, definition.place.language) or {}
    if not edits:
        raise RefusedError(f"the language server renames nothing for {symbol!r}", "name another symbol")
    if len(edits) > _MAX_RENAMED_FILES:
        raise RefusedError(f"the renaming changes {len(edits)} files", f"at most {_MAX_RENAMED_FILES} are possible")
    # The definition comes last: after a kill before it is written, the same call finds it, and renames the rest.
    order = sorted(edits, key=lambda file: (file == definition.place.path, file))
    files = [_renamed(codebase, file, edits[file]) for file in order]
    lines = [
        {
            "file": file.path,
            "line": line,
            "before": line_of(file.before, line, MAX_LINE).strip(),
            "after": line_of(file.after, line, MAX_LINE).strip(),
        }
        for file in files
        for line in file.lines
    ]
    return {
        "symbol": symbol,
        "new_name": new_name,
        "files": [file.path for file in files],
        "edits": lines,
        "total": len(lines),
        "preview": _digest(files),
        "applied": False,
    }, files


def apply_rename(
    codebase: Codebase, files: list[_RenamedFile], preview: str, check: Callable[[str], str]
) -> dict[str, Any]:
    """Write the files as a preview showed them. `check` says why a file may not be changed, or ""."""
    if preview != _digest(files):
        raise HeldError("the code has changed since the preview", "call again without apply for a new one")
    refused = {file.path: why for file in files if (why := check(file.path))}
    if refused:
        raise RefusedError(
            f"{len(refused)} of {len(files)} files may not be changed: {'; '.join(sorted(refused.values())[:10])}",
            "read them, and add them with add_explored_files",
        )
    for file in files:
        full = resolve_inside(codebase.repository.root, file.path)
        if codebase.repository.read(file.path, MAX_PARSED) != file.before:
            raise HeldError(f"{file.path} has just been changed", "see the changes with git, and rename again")
        mode = stat.S_IMODE(os.stat(full).st_mode)
        write_file(os.path.dirname(full), os.path.basename(full), file.after, mode)
    codebase.request_update()
    return {"applied": True}


def _renamed(codebase: Codebase, path: str, edits: list[TextEdit]) -> _RenamedFile:
    before = codebase.repository.read(path, MAX_PARSED)
    try:
        lines = before.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise RefusedError(f"{path} is not UTF-8", "rename the symbol in it by hand") from error
    starts, offset = [], 0
    for line in lines:
        starts.append(offset)
        offset += len(line) + 1
    text = "\n".join(lines)
    placed = sorted({(*_offsets(path, edit.span, lines, starts), edit.text) for edit in edits})
    parts, last = [], 0
    for begin, end, new in placed:
        if begin < last:
            raise RefusedError(f"the edits of {path} overlap", "rename the symbol by hand")
        parts += [text[last:begin], new]
        last = end
    after = "".join([*parts, text[last:]]).encode()
    numbers = sorted({edit.span.line + 1 for edit in edits})
    return _RenamedFile(path, before, after, numbers)


def _offsets(path: str, span: FileSpan, lines: list[str], starts: list[int]) -> tuple[int, int]:
    """The part of a text, in characters, that a span of UTF-16 columns names."""
    if not 0 <= span.line <= span.end_line < len(lines):
        raise HeldError(f"{path} has been changed meanwhile", "repeat the call")
    begin = starts[span.line] + _characters(lines[span.line], span.column)
    end = starts[span.end_line] + _characters(lines[span.end_line], span.end_column)
    if end < begin:
        raise HeldError(f"{path} has been changed meanwhile", "repeat the call")
    return begin, end


def _characters(line: str, units: int) -> int:
    return len(line.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore"))


def _digest(files: list[_RenamedFile]) -> str:
    """What a preview is recognised by: every file before and after."""
    parts = [(file.path, hashlib.sha256(file.before).digest(), file.after) for file in files]
    return hashlib.sha256(msgspec.msgpack.encode(parts)).hexdigest()[:16]
