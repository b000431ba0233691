"""Uses as `find_references` lists them for qualified names, beside what jedi says of each place where the name stands.

Of the Python repositories in the folder of clones. jedi follows every use of the name on its own, from where it stands, so that neither
the index nor the language server is asked about itself.
"""

from __future__ import annotations

import io
import random
import shutil
import time
import tokenize
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from sizes import Sizes
from tables import Table

from adjourn.code.deadline import Deadline
from adjourn.code.index import lookup
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.languages import language_of
from adjourn.code.language_servers.servers import READY, LanguageServers
from adjourn.code.search.references import find_references

REPOSITORIES = ("httpx", "click", "requests")
_MOST = 150
"""Places of one name that jedi follows: `get` stands in thousands."""
_SETTLE_SECONDS = 3.5
_TRIES = 10
_ASKED = frozenset({"function", "method", "class"})
Line = tuple[str, int]


class _Place(NamedTuple):
    path: str
    line: int
    column: int


def run(sizes: Sizes, folder: str) -> list[Table]:
    """One row for each repository, with a language server and by words only; no table without clones."""
    if sizes.clones is None:
        return []
    table = Table(
        "Uses of qualified names beside jedi",
        ["repository", "resolved by", "names", "listed", "jedi follows, %", "precision", "recall"],
        "Functions, methods and classes, drawn at random, each asked for by its qualified name. jedi follows (`goto`, imports followed) every "
        f"place in code where the name stands, {_MOST} at most. Precision: of the lines that are listed and that jedi follows, the share that leads "
        "to the definition; recall: of the lines that lead there, the share that is listed. By words: without a language server the lines of "
        "namesakes are listed, too, each marked as a guess.",
    )
    for name in REPOSITORIES:
        if (clone := sizes.clones / name).is_dir():
            root = Path(folder, name)
            shutil.copytree(clone, root, symlinks=True, ignore=shutil.ignore_patterns(".code-intel"))
            for served in (True, False):
                _add_row(table, name, root, sizes.code_uses, served=served)
    return [table]


def _add_row(table: Table, repository: str, root: Path, wanted: int, *, served: bool) -> None:
    with Codebase(str(root)) as codebase:
        codebase.sync()
        if served:
            servers = codebase.language_servers = LanguageServers(str(root), language_of)
            if servers.installed("python") is None:
                return
            servers.wait("python", Deadline(60))
        places = _places(root)
        judge = _Judge(root)
        drawn = _drawn(codebase, places, wanted)
        if served:
            find_references(codebase, drawn[0][0], deadline=Deadline(60))
            time.sleep(_SETTLE_SECONDS)
        listed = followed = right = due = found = 0
        for dotted, own in drawn:
            answer = _answer(codebase, dotted)
            ours = {
                (one["file"], one["line"]) for one in answer["references"] if one["match"] not in {"comment", "string"}
            }
            truth = judge.follow(places[dotted.rpartition(".")[2]], own)
            listed += len(ours)
            known = [truth[line] for line in ours if line in truth]
            followed += len(known)
            right += sum(known)
            meant = {line for line, leads in truth.items() if leads} - {own}
            due += len(meant)
            found += len(meant & ours)
    resolved_by = "basedpyright" if served else "words"
    table.add(
        repository, resolved_by, len(drawn), listed, followed * 100 / max(listed, 1), right / max(followed, 1), found / max(due, 1)
    )  # fmt: skip


def _answer(codebase: Codebase, dotted: str) -> dict[str, Any]:
    """What is listed once a server has resolved it; without a server, at once."""
    for _ in range(_TRIES):
        answer = find_references(codebase, dotted, language="python", deadline=Deadline(60))
        states = answer.get("language_servers", {})
        if "partial" not in answer and set(states.values()) <= {READY}:
            return answer
        time.sleep(_SETTLE_SECONDS)
    raise SystemExit(f"no server resolved {dotted}: {states}")


def _drawn(codebase: Codebase, places: dict[str, list[_Place]], wanted: int) -> list[tuple[str, Line]]:
    """Qualified names that one definition has, each with its place."""
    index = codebase.index
    assert index is not None
    every = [
        one
        for one in lookup.symbols_under(index, "", 1_000_000)
        if one.place.language == "python" and one.symbol.kind in _ASKED
    ]
    named = defaultdict(list)
    for one in every:
        named[one.symbol.dotted].append((one.place.path, one.symbol.line))
    few = [
        (dotted, lines[0])
        for dotted, lines in sorted(named.items())
        if len(lines) == 1 and len(places.get(dotted.rpartition(".")[2], ())) <= _MOST
    ]
    return random.Random(42).sample(few, min(wanted, len(few)))


def _places(root: Path) -> dict[str, list[_Place]]:
    """Where each name stands in code, but for comments, strings and the lines that define it, or override it."""
    places: dict[str, list[_Place]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        try:
            before = ""
            for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
                if token.type == tokenize.NAME and before not in {"def", "class"}:
                    places[token.string].append(_Place(name, *token.start))
                before = token.string
        except (SyntaxError, tokenize.TokenError, UnicodeDecodeError):
            continue
    return places


class _Judge:
    """Where jedi says that uses lead."""

    def __init__(self, root: Path) -> None:
        import jedi  # a peer

        self._jedi: Any = jedi
        self._root = root.resolve()
        source = root / "src"
        self._project = jedi.Project(root, added_sys_path=[str(source)] if source.is_dir() else [str(root)])
        self._scripts: dict[str, Any] = {}

    def follow(self, places: list[_Place], own: Line) -> dict[Line, bool]:
        """For each line that jedi can follow, whether it leads to a definition."""
        led: dict[Line, bool] = {}
        for place in places:
            line = (place.path, place.line)
            targets = self._targets(place)
            if targets:
                led[line] = led.get(line, False) or own in targets
        return led

    def _targets(self, place: _Place) -> set[Line]:
        script = self._scripts.get(place.path)
        if script is None:
            script = self._jedi.Script(path=self._root / place.path, project=self._project)
            self._scripts[place.path] = script
        try:
            names = script.goto(place.line, place.column, follow_imports=True)
        except Exception:  # jedi fails with errors of any class; then it does not know
            return set()
        return {
            (Path(one.module_path).relative_to(self._root).as_posix(), one.line)
            for one in names
            if one.module_path and Path(one.module_path).is_relative_to(self._root)
        }
