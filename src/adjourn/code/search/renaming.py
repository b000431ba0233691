"""Renames a symbol everywhere: first as a preview, then, as it was shown, in the files.

Owns: `preview` and `apply`. Must never: write anything but the edits that were shown, or a file that is not one of the session's.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from adjourn.code.index.analysis import MAX_PARSED
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.reading import line_of
from adjourn.code.language_servers.places import FileSpan, TextEdit
from adjourn.code.model.deadline import Deadline
from adjourn.code.search import relations, resolution
from adjourn.code.search.definitions import definitions_of
from adjourn.code.search.references import MAX_LINE
from adjourn.errors import HeldError, InvalidError, RefusedError, UsageError
from adjourn.host import resolve_inside, write_file

_NAME = re.compile(r"[^\W\d]\w*")
_MAX_FILES = 500


class _RenamedFile(NamedTuple):
    path: str
    before: bytes
    after: bytes
    lines: list[int]


def preview(
    codebase: Codebase, symbol: str, new_name: str, path: str, deadline: Deadline
) -> tuple[dict[str, Any], list[_RenamedFile]]:
    """What a renaming changes, each line before and after; with the files that `apply` writes."""
    if not _NAME.fullmatch(new_name):
        raise InvalidError(f"{new_name[:100]!r} is no name", "give a name of letters, digits and _")
    definitions = definitions_of(codebase, symbol, path, deadline=deadline)
    if len(definitions) > 1:
        places = ", ".join(f"{one.place.path}:{one.symbol.line}" for one in definitions[:5])
        raise UsageError(
            f"{symbol!r} has {len(definitions)} definitions: {places}",
            "name one: Class.method, or the file as path",
        )
    (one,) = definitions
    position = relations.position_of(codebase, one)
    answer = resolution.ask(
        codebase, one.place.language, position, lambda server, ends: server.renaming(position, new_name, ends), deadline,
        word=one.symbol.name,
    )  # fmt: skip
    edits = relations.answered(answer, one.place.language) or {}
    if not edits:
        raise RefusedError(f"the language server renames nothing for {symbol!r}", "name another symbol")
    if len(edits) > _MAX_FILES:
        raise RefusedError(f"the renaming changes {len(edits)} files", f"at most {_MAX_FILES} are possible")
    # The definition comes last: after a kill before it is written, the same call finds it, and renames the rest.
    order = sorted(edits, key=lambda file: (file == one.place.path, file))
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


def apply(
    codebase: Codebase, files: list[_RenamedFile], shown: str, check: Callable[[str], str]
) -> dict[str, Any]:
    """Write the files as a preview showed them. `check` says why a file may not be changed, or ""."""
    if shown != _digest(files):
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
            raise HeldError(
                f"{file.path} has just been changed", "see the changes with git, and rename again"
            )
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
