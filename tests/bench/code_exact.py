"""Uses that `find_references` calls exact, beside what the language server says when it is asked about every file.

The repositories are read from clones (`--clones DIR`): httpx, zod, cobra, ripgrep; a row each, where the language server is installed.
"""

from __future__ import annotations

import random
import shutil
import statistics
import time
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

REPOSITORIES = {"httpx": "python", "zod": "typescript", "cobra": "go", "ripgrep": "rust"}
_SYMBOLS = 100
_SETTLE_SECONDS = 3.5
_NAMES = "SELECT DISTINCT name.name FROM symbol JOIN name ON symbol.name = name.id JOIN content ON content.id = symbol.content WHERE content.language = ?"
Line = tuple[str, int]


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; none without clones."""
    if sizes.clones is None:
        return []
    table = Table(
        "Uses that are marked exact",
        ["repository", "server", "symbols", "exact", "precision", "recall", "first, ms p50", "p90", "again, ms p50", "p90"],
        "Names of definitions, drawn at random, each asked for with `find_references`; then its language server, started again and shown a "
        "file of every project, is asked about each definition of the name. Precision: the share of the lines marked exact that it names; "
        "recall: the share of the lines it names that are marked exact, without lines of definitions. First: the first question about "
        "the name, with the server running; again: the same question once more.",
    )  # fmt: skip
    for name, language in REPOSITORIES.items():
        clone = sizes.clones / name
        if clone.is_dir():
            root = Path(folder, f"exact-{name}")
            shutil.copytree(clone, root, symlinks=True, ignore=shutil.ignore_patterns(".code-intel"))
            _add_row(table, name, language, root)
    return [table]


def _add_row(table: Table, name: str, language: str, root: Path) -> None:
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
        asked = {one: lookup.definitions(codebase.index, [one], "") for one in names[:_SYMBOLS]}
        _ask(codebase, names[-1])
        time.sleep(_SETTLE_SECONDS)
        for spent in times:
            for one in asked:
                began = time.perf_counter()
                ours[one] = _ask(codebase, one)
                spent.append((time.perf_counter() - began) * 1000)
        servers.close()
        theirs = _truth(codebase, language, asked, ours)
    shared = sum(len(ours[one] & theirs[one]) for one in asked)
    table.add(
        name,
        server,
        len(asked),
        sum(map(len, ours.values())),
        shared / max(sum(map(len, ours.values())), 1),
        shared / max(sum(map(len, theirs.values())), 1),
        *(figure for spent in times for figure in (statistics.median(spent), _ninth(spent))),
    )


def _ask(codebase: Codebase, name: str) -> set[Line]:
    found = find_references(codebase, name, deadline=Deadline(60))
    return {(one["file"], one["line"]) for one in found["references"] if one["match"] == "exact"}


def _truth(
    codebase: Codebase, language: str, asked: dict[str, list[Definition]], ours: dict[str, set[Line]]
) -> dict[str, set[Line]]:
    """The lines that the server names for each name, without those of its definitions; these are taken out of `ours`, too."""
    index = codebase.index
    assert index is not None
    servers = LanguageServers(codebase.repository.root, language_of)
    servers.wait(language, Deadline(60))
    server = servers.installed(language)
    files = [path for (path,) in index.database.all("SELECT path FROM file WHERE tree = ?", (index.tree,))]
    files = [path for path in files if servers.installed(language_of(path)) == server]
    found: dict[str, set[Line]] = {}
    servers.ask(language, [], files, lambda *_: None, Deadline(60))
    time.sleep(_SETTLE_SECONDS)
    for name, definitions in asked.items():
        own = {(one.place.path, one.symbol.line) for one in definitions}
        lines: set[Line] = set()
        for one in definitions:
            place = position_of(index, one) if servers.installed(one.place.language) == server else None
            if place is None:
                continue
            answer = servers.ask(language, [place], files, partial(_uses, place), Deadline(60))
            if answer.state == READY:
                lines |= {(span.path, span.line + 1) for span in answer.value or ()}
        found[name] = lines - own
        ours[name] -= own
    servers.close()
    return found


def _uses(place: NamePosition, server: LanguageServer, deadline: Deadline) -> list[FileSpan]:
    return server.uses(place, deadline)


def _ninth(times: list[float]) -> float:
    return statistics.quantiles(times, n=10)[-1]
