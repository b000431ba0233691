"""Finds where symbols are defined. No line number is that of an older version of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from adjourn.code.deadline import Deadline
from adjourn.code.index import analysis, lookup, ripgrep
from adjourn.code.index.analysis import GRAMMAR, TAGS, open_source
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.index import CodeIndex
from adjourn.code.index.languages import matching_languages
from adjourn.code.index.lookup import Definition, IndexedFile
from adjourn.code.index.outline import CLASSES, FUNCTIONS, KINDS, Symbol
from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.text.near_words import did_you_mean

MAX_SYMBOL = 200
_MAX_RESULTS = 20_000
_MAX_SYMBOLS = 250_000
_MAX_LISTED = 20_000
_FALLBACK_FILES = 300
_FALLBACK_SECONDS = 5.0
_ENOUGH_NAMES = 10_000
_NEAR, _MAX_NEAR = 3, 500
_FIRST = CLASSES | FUNCTIONS | {"type", "module", "namespace"}
_TEST = re.compile(r"(^|[/_.])tests?([/_.]|$)")


def find_definitions(
    codebase: Codebase,
    symbol: str,
    path: str = ".",
    *,
    language: str | None = None,
    exact_match: bool = False,
    max_results: int = _MAX_RESULTS,
    deadline: Deadline | None = None,
) -> dict[str, Any]:
    """Definitions whose name is `symbol` or, unless `exact_match`, contains it ignoring case; the closest match first.

    `Server.handle` finds `handle` in `Server`. `match` is `scoped` if a grammar found the definition, `name` if Universal Ctags did.
    """
    under = codebase.repository.existing(path)
    answered = codebase.complete()
    matching, limited = _matching_definitions(
        codebase, symbol, under, language=language, exact=exact_match, deadline=deadline
    )
    returned = matching[: max(1, min(max_results, _MAX_RESULTS))]
    answer: dict[str, Any] = {
        "symbol": symbol,
        "path": under or ".",
        "definitions": [to_json(definition) for definition in returned],
        "total": len(matching),
        "cache_hit": answered,
        "cache_stats": codebase.count_lookup(answered=answered),
        "index_state": codebase.state(),
    }
    if not answered:
        answer["partial"] = "the index is incomplete: there may be more"
    if limited:
        answer["partial"] = f"{_ENOUGH_NAMES:,} names match: there may be more"
    return answer


def definitions_of(
    codebase: Codebase, symbol: str, path: str = ".", *, language: str | None = None, deadline: Deadline | None = None
) -> list[Definition]:
    """The definitions of a symbol of just this name, the likeliest first. Raises `NotFoundError` if there is none."""
    under = codebase.repository.existing(path)
    matching, _ = _matching_definitions(codebase, symbol, under, language=language, exact=True, deadline=deadline)
    if not matching:
        raise NotFoundError(f"no definition of {symbol!r} is found", "look for it with find_definitions")
    return matching


def _matching_definitions(
    codebase: Codebase, symbol: str, under: str, *, language: str | None, exact: bool, deadline: Deadline | None
) -> tuple[list[Definition], bool]:
    """The definitions that match, in order, and whether so many names match that not all were looked up."""
    scope, name = split_symbol(symbol)
    codebase.request_update()
    index = codebase.index
    matching_languages(language)  # an unknown one is an error before anything is searched
    candidates: list[Definition] = []
    names: list[str] = []
    if index is not None:
        names = [name] if exact else lookup.names_like(index, name)[:_ENOUGH_NAMES]
        named = lookup.definitions(index, names, under)
        candidates = current(codebase, index, named, lambda symbol: _matches(symbol, name, exact=exact))
    if not codebase.complete():
        deadline = deadline or Deadline(_FALLBACK_SECONDS)
        seen = {definition.place.path for definition in candidates}
        candidates += [
            definition
            for definition in live_definitions(codebase, name, under, deadline, exact=exact)
            if definition.place.path not in seen
        ]
    matching = [
        definition
        for definition in candidates
        if _is_of_language(definition, language) and (not scope or in_scope(definition.symbol, scope))
    ]
    matching.sort(key=lambda definition: _rank(definition, name))
    return matching, len(names) == _ENOUGH_NAMES


def get_symbols(
    codebase: Codebase,
    path: str,
    *,
    kind: str | None = None,
    language: str | None = None,
    max_results: int = _MAX_LISTED,
    deadline: Deadline | None = None,
) -> dict[str, Any]:
    """The symbols of a file, or of all files of a folder, in order."""
    under = codebase.repository.existing(path)
    codebase.request_update()
    index = codebase.index
    candidates: list[Definition] = []
    if index is not None:
        candidates = current(codebase, index, lookup.symbols_under(index, under, _MAX_SYMBOLS), lambda _: True)
    if not candidates and not codebase.complete():
        candidates = _live(
            codebase,
            ripgrep.files((), [under], cwd=codebase.repository.root, deadline=deadline or Deadline()),
            deadline,
        )
    spoken = [definition for definition in candidates if _is_of_language(definition, language)]
    matching = [definition for definition in spoken if not kind or definition.symbol.kind == kind]
    if kind and not matching and kind not in KINDS:
        kinds = {definition.symbol.kind for definition in spoken} or KINDS
        meant = did_you_mean(kind, kinds | KINDS)
        raise InvalidError(f"unknown kind {kind[:50]!r}", meant or f"use one of {', '.join(sorted(kinds))}")
    returned = matching[: max(1, max_results)]
    keys = ("name", "file", "line", "end_line", "kind", "scope", "language")
    return {
        "path": under or ".",
        "symbols": [{key: entry[key] for key in keys} for entry in map(to_json, returned)],
        "total": len(matching),
        "index_state": codebase.state(),
    }


def split_symbol(symbol: str) -> tuple[str, str]:
    """`Server.handle` and `Server::handle` as (`Server`, `handle`)."""
    if not isinstance(symbol, str) or not symbol.strip():
        raise InvalidError("the symbol is empty", "name a function, class or variable")
    if len(symbol) > MAX_SYMBOL:
        raise InvalidError(f"the symbol is longer than {MAX_SYMBOL} characters", "name one symbol")
    plain = symbol.strip().removesuffix("()").replace("::", ".")
    scope, dot, name = plain.rpartition(".")
    return (scope, name) if dot and scope and name and " " not in plain else ("", plain)


def current(codebase: Codebase, index: CodeIndex, definitions: Iterable[Definition], wanted: Any) -> list[Definition]:
    """Definitions with their current lines: files that changed since indexing are read again."""
    live_ones: list[Definition] = []
    states: dict[str, bool] = {}
    for definition in definitions:
        path = definition.place.path
        if path not in states:
            states[path] = lookup.is_current(index, definition.place)
            if not states[path]:
                live_ones += [live for live in _live(codebase, [path], None) if wanted(live.symbol)]
        if states[path]:
            live_ones.append(definition)
    return live_ones


def _live(codebase: Codebase, paths: Iterable[str], deadline: Deadline | None) -> list[Definition]:
    definitions = []
    for path in paths:
        if deadline is not None and deadline.expired():
            break
        try:
            source = open_source(codebase.repository, path)
        except AdjournError:
            continue
        symbols, engine = source.outline.symbols, GRAMMAR
        if not source.parsed:
            symbols, engine = analysis.ctags_symbols([path], cwd=codebase.repository.root).get(path, []), TAGS
        definitions += [Definition(IndexedFile(path, 0, 0, 0, source.language, engine), symbol) for symbol in symbols]
    return definitions


def live_definitions(codebase: Codebase, name: str, under: str, deadline: Deadline, *, exact: bool) -> list[Definition]:
    """Without an index: parse the files that contain the name, until the deadline."""
    options = ["--fixed-strings", *(["--ignore-case"] if not exact else []), "-e", name]
    paths = ripgrep.files_with(options, [under], cwd=codebase.repository.root, deadline=deadline)[:_FALLBACK_FILES]
    return [
        definition for definition in _live(codebase, paths, deadline) if _matches(definition.symbol, name, exact=exact)
    ]


def _matches(symbol: Symbol, name: str, *, exact: bool) -> bool:
    return symbol.name == name if exact else name.casefold() in symbol.name.casefold()


def in_scope(symbol: Symbol, scope: str) -> bool:
    """Whether a symbol is defined in a scope; `Server` also matches `net.Server`."""
    return f".{symbol.scope}".casefold().endswith(f".{scope}".casefold())


def _is_of_language(definition: Definition, language: str | None) -> bool:
    spoken = matching_languages(language)
    return spoken is None or definition.place.language in spoken


def _rank(definition: Definition, name: str) -> tuple[Any, ...]:
    symbol, path = definition.symbol, definition.place.path
    folded, wanted = symbol.name.casefold(), name.casefold()
    return (
        symbol.name != name,
        folded != wanted,
        not folded.startswith(wanted),
        symbol.kind == "prototype",
        symbol.kind not in _FIRST,
        bool(_TEST.search(path)),
        len(symbol.name),
        path,
        symbol.line,
    )


def near_name(codebase: Codebase, symbol: str) -> str:
    """`did you mean NAME?` for a symbol that nothing defines; "" if no name is near."""
    _, name = split_symbol(symbol)
    if codebase.index is None:
        return ""
    names = [
        *lookup.names_like(codebase.index, name[:_NEAR])[:_MAX_NEAR],
        *lookup.names_like(codebase.index, name[-_NEAR:])[:_MAX_NEAR],
    ]
    return did_you_mean(name, [other for other in names if other != name])


def to_json(definition: Definition) -> dict[str, Any]:
    place, symbol = definition
    return {
        "name": symbol.name,
        "file": place.path,
        "line": symbol.line,
        "end_line": symbol.end_line,
        "kind": symbol.kind,
        "scope": symbol.scope,
        "signature": symbol.signature,
        "language": place.language,
        "match": "name" if place.engine == TAGS else "scoped",
    }
