"""Reads symbols whole: the body of one, the outline of many.

Owns: `read_symbol`, `outline`. Must never: show lines of an older version of a file.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from adjourn.code.index.analysis import MAX_PARSED
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.lookup import Definition
from adjourn.code.language_servers.servers import READY
from adjourn.code.model.deadline import Deadline
from adjourn.code.search import resolution
from adjourn.code.search.definitions import definitions_of, get_symbols, to_json

_MAX_BODIES = 5
_MAX_LINES = 600
_HOVER_SECONDS = 2.0


def read_symbol(
    codebase: Codebase,
    symbol: str,
    path: str = ".",
    *,
    language: str | None = None,
    deadline: Deadline | None = None,
) -> dict[str, Any]:
    """The text of each definition of a symbol, the likeliest first; with its type if a language server runs."""
    found = definitions_of(codebase, symbol, path, language=language, deadline=deadline)
    bodies = [_body(codebase, one) for one in found[:_MAX_BODIES]]
    if len(found) == 1 and (told := _type(codebase, found[0], deadline or Deadline())):
        bodies[0]["type"] = told
    answer: dict[str, Any] = {
        "symbol": symbol,
        "bodies": bodies,
        "total": len(found),
        "index_state": codebase.state(),
    }
    if others := found[_MAX_BODIES:]:
        answer["others"] = [to_json(one) for one in others]
    return answer


def _body(codebase: Codebase, one: Definition) -> dict[str, Any]:
    text = codebase.repository.read(one.place.path, MAX_PARSED).decode("utf-8", "replace")
    first, last = one.symbol.line, min(one.symbol.end_line, one.symbol.line + _MAX_LINES - 1)
    body = {
        **to_json(one),
        "content": "\n".join(line.removesuffix("\r") for line in text.split("\n")[first - 1 : last]),
    }
    return {**body, "cut_at": last} if last < one.symbol.end_line else body


def _type(codebase: Codebase, one: Definition, deadline: Deadline) -> str:
    """What the language server says of a symbol; "" if it does not run yet: nobody waits for it."""
    servers, index = codebase.language_servers, codebase.index
    if servers is None or index is None or (name := resolution.position_of(index, one)) is None:
        return ""
    answer = servers.ask(
        one.place.language, [name], [name.path], lambda server, ends: server.hover(name, ends),
        deadline.at_most(_HOVER_SECONDS),
    )  # fmt: skip
    return (answer.value or "").strip() if answer.state == READY else ""


def outline(
    codebase: Codebase, path: str = ".", *, depth: int = 2, deadline: Deadline | None = None
) -> dict[str, Any]:
    """The symbols of a file or folder as a tree: down to `depth` levels, without variables of functions."""
    listed = get_symbols(codebase, path, deadline=deadline)
    files = []
    for file, symbols in groupby(listed["symbols"], lambda one: one["file"]):
        open_ends: list[int] = []
        kept = []
        for one in sorted(symbols, key=lambda one: (one["line"], -one["end_line"])):
            while open_ends and open_ends[-1] < one["line"]:
                open_ends.pop()
            if len(open_ends) < depth and one["kind"] != "alias":
                told = {key: one[key] for key in ("name", "kind", "line", "end_line")}
                kept.append({**told, "level": len(open_ends)})
            open_ends.append(one["end_line"])
        files.append({"file": file, "symbols": kept})
    answer: dict[str, Any] = {"path": listed["path"], "files": files, "index_state": listed["index_state"]}
    if (left := listed["total"] - len(listed["symbols"])) > 0:
        answer["partial"] = f"{left:,} symbols are left out: name a smaller folder"
    return answer
