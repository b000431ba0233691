"""Uses that `find_references` lists, beside what a language server says when it is asked about every file.

The repositories are read from clones (`--clones DIR`, with DIR/httpx and so on); a row each, where it is there and its language server
is installed.
"""

from __future__ import annotations

import random
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path

from sizes import Sizes
from tables import Table

from adjourn.code.deadline import Deadline
from adjourn.code.index import lookup
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.languages import language_of
from adjourn.code.index.lookup import Definition
from adjourn.code.language_servers.kinds import FileSpan, NamePosition
from adjourn.code.language_servers.server import LanguageServer
from adjourn.code.language_servers.servers import READY, LanguageServers
from adjourn.code.search.references import find_references, position_of

REPOSITORIES = {
    "httpx": "python", "click": "python", "requests": "python", "zod": "typescript", "hono": "typescript", "zustand": "typescript",
    "axios": "javascript", "cobra": "go", "gin": "go", "ripgrep": "rust", "fd": "rust",
}  # fmt: skip
_SETTLE_SECONDS = 3.5
_NAMES = "SELECT DISTINCT name.name FROM symbol JOIN name ON symbol.name = name.id JOIN content ON content.id = symbol.content WHERE content.language = ? ORDER BY name.name"
Line = tuple[str, int]


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; none without clones."""
    if sizes.clones is None:
        return []
    table = Table(
        "Uses that are marked exact",
        ["repository", "server", "names", "exact", "precision", "recall", "qualified: listed", "precision", "recall", "first, ms p50", "p90", "again, ms p50", "p90"],
        "Names of definitions, drawn at random, each asked for with `find_references`; then its language server, started again and shown a "
        "file of every project, is asked about each definition of the name. Precision: the share of the lines marked exact that it names; "
        "recall: the share of the lines it names that are marked exact, without lines of definitions. Qualified: of the names that are asked for again with "
        "their scope, all lines listed in the server's languages, beside what it names of this definition. First: the first question about "
        "the name, with the server running; again: the same question once more.",
    )  # fmt: skip
    for name, language in REPOSITORIES.items():
        clone = sizes.clones / name
        if clone.is_dir():
            root = Path(folder, f"exact-{name}")
            shutil.copytree(clone, root, symlinks=True, ignore=shutil.ignore_patterns(".code-intel"))
            _add_row(table, name, language, root, sizes.code_uses)
    return [table]


def _add_row(table: Table, name: str, language: str, root: Path, wanted: int) -> None:
    with Codebase(str(root)) as codebase:
        codebase.sync()
        assert codebase.index is not None
        names = [one for (one,) in codebase.index.database.all(_NAMES, (language,)) if one.isidentifier()]
        random.Random(1).shuffle(names)
        servers = codebase.language_servers = LanguageServers(str(root), language_of)
        server = servers.installed(language)
        if server is None:
            return
        servers.wait(language, Deadline(60))
        ours: dict[str, set[Line]] = {}
        times: tuple[list[float], list[float]] = ([], [])
        found = {one: lookup.definitions(codebase.index, [one], "") for one in names[:wanted]}
        asked = {  # a key of package.json is no symbol of the server
            one: [definition for definition in definitions if servers.installed(definition.place.language) == server]
            for one, definitions in found.items()
        }
        _ask(codebase, names[-1])
        time.sleep(_SETTLE_SECONDS)
        for spent in times:
            for one in asked:
                began = time.perf_counter()
                ours[one] = _ask(codebase, one)
                spent.append((time.perf_counter() - began) * 1000)
        qualified = {dotted: _listed(codebase, dotted, language) for dotted in _dotted(asked)}
        servers.close()
        each = _truth(codebase, language, asked)
    theirs = {one: frozenset[Line]().union(*each[one].values()) - _own(asked[one]) for one in asked}
    exact = [(ours[one] - _own(asked[one]), theirs[one]) for one in asked]
    listed = [(qualified[dotted] - {own}, each[name][own] - {own}) for dotted, (name, own) in _dotted(asked).items()]
    table.add(
        name, server, len(asked), *_shares(exact), *_shares(listed),
        *(figure for spent in times for figure in (statistics.median(spent), _ninth(spent))),
    )  # fmt: skip


def _shares(pairs: Sequence[tuple[AbstractSet[Line], AbstractSet[Line]]]) -> tuple[int, float, float]:
    """How many lines are ours, the share of them that is theirs, too, and the share of theirs that is ours."""
    ours, theirs, shared = (
        sum(map(len, lines)) for lines in ((a for a, _ in pairs), (b for _, b in pairs), (a & b for a, b in pairs))
    )
    return ours, shared / max(ours, 1), shared / max(theirs, 1)


def _own(definitions: list[Definition]) -> set[Line]:
    return {(one.place.path, one.symbol.line) for one in definitions}


def _dotted(asked: dict[str, list[Definition]]) -> dict[str, tuple[str, Line]]:
    """The names with a scope that one definition has, each with its bare name and place."""
    named = [
        (one.symbol.dotted, name, one) for name, definitions in asked.items() for one in definitions if one.symbol.scope
    ]
    count = Counter(dotted for dotted, _, _ in named)
    return {dotted: (name, (one.place.path, one.symbol.line)) for dotted, name, one in named if count[dotted] == 1}


def _listed(codebase: Codebase, dotted: str, language: str) -> set[Line]:
    answer = find_references(codebase, dotted, language=language, deadline=Deadline(60))
    return {(one["file"], one["line"]) for one in answer["references"]}


def _ask(codebase: Codebase, name: str) -> set[Line]:
    found = find_references(codebase, name, deadline=Deadline(60))
    return {(one["file"], one["line"]) for one in found["references"] if one["match"] == "exact"}


def _truth(codebase: Codebase, language: str, asked: dict[str, list[Definition]]) -> dict[str, dict[Line, set[Line]]]:
    """The lines that the server names for each definition of each name."""
    index = codebase.index
    assert index is not None
    servers = LanguageServers(codebase.repository.root, language_of)
    servers.wait(language, Deadline(60))
    server = servers.installed(language)
    files = [path for (path,) in index.database.all("SELECT path FROM file WHERE tree = ?", (index.tree,))]
    files = [path for path in files if servers.installed(language_of(path)) == server]
    found: dict[str, dict[Line, set[Line]]] = {}
    servers.ask(language, [], files, lambda *_: None, Deadline(60))
    time.sleep(_SETTLE_SECONDS)
    for name, definitions in asked.items():
        found[name] = {own: set() for own in _own(definitions)}
        for one in definitions:
            place = position_of(index, one) if servers.installed(one.place.language) == server else None
            if place is None:
                continue
            answer = servers.ask(language, [place], files, partial(_uses, place), Deadline(60))
            if answer.state == READY:
                found[name][one.place.path, one.symbol.line] |= {
                    (span.path, span.line + 1) for span in answer.value or ()
                }
    servers.close()
    return found


def _uses(place: NamePosition, server: LanguageServer, deadline: Deadline) -> list[FileSpan]:
    return server.uses(place, deadline)


def _ninth(times: list[float]) -> float:
    return statistics.quantiles(times, n=10)[-1]
