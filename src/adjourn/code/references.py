"""Where a symbol is used.

Owns: `find_references`, and what is said of each use. Must never: read the symbol as a pattern, or hide that a use is a guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from adjourn.code import ripgrep, words
from adjourn.code.analysis import GRAMMAR, MAX_PARSED, as_utf8
from adjourn.code.codebase import Codebase
from adjourn.code.definitions import in_scope, split_symbol
from adjourn.code.grammars import has_grammar
from adjourn.code.index import lookup
from adjourn.code.index.index import Index
from adjourn.code.index.lookup import Place
from adjourn.code.languages import language_of, spoken_as
from adjourn.code.marks import Marks
from adjourn.code.outline import COMMENT, IMPORT, STRING, TYPE, outline
from adjourn.code.pace import Pace
from adjourn.errors import AdjournError

EXACT, HEURISTIC = "exact", "heuristic"
_ORDER = {EXACT: 0, HEURISTIC: 1, STRING: 2, COMMENT: 3}
_LETTERS = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_" + bytes(range(128, 256))
)
_SECONDS = 10.0
_DEFAULT_RESULTS = 500
_MAX_RESULTS = 5_000
_MAX_KEPT = 20_000
_MAX_LINE = 300


class _Use(NamedTuple):
    file: str
    line: int
    content: str
    match: str
    kind: str


def find_references(
    codebase: Codebase,
    symbol: str,
    path: str = ".",
    *,
    language: str | None = None,
    max_results: int = _DEFAULT_RESULTS,
    pace: Pace | None = None,
) -> dict[str, Any]:
    """Lines that use a symbol, its definitions left out; the surest first.

    `match` of each: `exact`, only one definition can be meant; `heuristic`, another one of that name may be, or no grammar has read the
    file; `comment` and `string`, it is only mentioned. `kind`: call, import, type or name.
    """
    pace = pace or Pace(_SECONDS)
    under = codebase.repository.existing(path)
    scope, name = split_symbol(symbol)
    codebase.nudge()
    index = codebase.index
    spoken = spoken_as(language)
    search = _Search(codebase, index, scope, name)
    places = _candidates(codebase, search.text, under, pace)
    complete = True
    for done, place in enumerate(places):
        if pace.over():
            complete = False
            break
        if spoken is None or place.language in spoken:
            search.look(place)
        if not done % 100:
            pace.tell(done, len(places))
    if index is not None and spoken is None and (long := lookup.skipped(index, under)):
        search.look_at_long(long, pace)
    answered = codebase.complete()
    codebase.hits += answered
    codebase.misses += not answered
    uses = sorted(search.uses, key=lambda use: (_ORDER[use.match], use.file, use.line))
    answer: dict[str, Any] = {
        "symbol": symbol,
        "path": under or ".",
        "references": [use._asdict() for use in uses[: max(1, min(max_results, _MAX_RESULTS))]],
        "total": search.total,
        "by_match": search.by_match,
        "cache_stats": {"hits": codebase.hits, "misses": codebase.misses},
        "index_state": codebase.state(),
    }
    if not complete:
        answer["partial"] = "time was up: there may be more"
    return answer


def _candidates(codebase: Codebase, text: str, under: str, pace: Pace) -> list[Place]:
    """Files that may have the text: by the index, and by ripgrep for what it does not hold."""
    index = codebase.index
    terms = words.of_symbol(text)
    if index is not None and codebase.complete() and terms:
        return lookup.mentioning(index, terms, under)
    options = ["--fixed-strings", "-e", text, "--", under or "."]
    paths = ripgrep.files_with(options, cwd=codebase.repository.root, pace=pace)
    return [Place(path, 0, 0, 0, language_of(path), "") for path in sorted(paths)]


class _Search:
    """Looks through files, one after the other."""

    def __init__(self, codebase: Codebase, index: Index | None, scope: str, name: str) -> None:
        self.uses: list[_Use] = []
        self.total = 0
        self.by_match = dict.fromkeys(_ORDER, 0)
        self._codebase = codebase
        self._index = index
        self._name = name
        definitions = lookup.definitions(index, [name], "") if index is not None else []
        within = [one for one in definitions if in_scope(one.symbol, scope)] if scope else definitions
        # A method is called on any object; anything else of a dotted name (`shlex.split`) is written as it is.
        self.text = name if within or not scope else f"{scope}.{name}"
        self._name_offset = len(self.text.encode()) - len(name.encode())
        self._word = _Word(self.text)
        self._size = len(self.text.encode())
        self._defined: dict[int, set[int]] = {}
        for one in definitions:
            self._defined.setdefault(one.place.content, set()).add(one.symbol.name_start)
        self._alone = len({(d.place.content, d.symbol.name_start) for d in definitions}) == 1

    def look(self, place: Place) -> None:
        index = self._index
        raw = lookup.read_current(index, place) if index is not None and place.content else None
        known = raw is not None
        if raw is None:
            try:
                raw = self._codebase.repository.read(place.path, MAX_PARSED)
            except AdjournError:
                return
        data = as_utf8(raw)
        if data is None:
            return
        if known and index is not None:
            marks, defined = lookup.marks(index, place.content), self._defined.get(place.content, set())
            parsed = place.engine == GRAMMAR
        else:
            found = outline(data, place.language) if has_grammar(place.language) else None
            marks = Marks.of(found.regions if found else ())
            symbols = found.symbols if found else []
            defined = {one.name_start for one in symbols if one.name == self._name}
            parsed = found is not None
        self._add(place, data, marks, defined, parsed=parsed)

    def look_at_long(self, paths: list[str], pace: Pace) -> None:
        """Files too long to be indexed: what ripgrep finds in them."""
        arguments = ["--fixed-strings", "--word-regexp", "-e", self._name, "--", *paths]
        for record in ripgrep.records(
            arguments, cwd=self._codebase.repository.root, pace=pace, enough=lambda: False
        ):
            if record["type"] == "match":
                data = record["data"]
                line = data["lines"].get("text", "")[:_MAX_LINE] if "lines" in data else ""
                self._keep(
                    _Use(data["path"].get("text", ""), data["line_number"], line.strip(), HEURISTIC, "name")
                )

    def _add(self, place: Place, data: bytes, marks: Marks, defined: set[int], *, parsed: bool) -> None:
        """The uses of one file, one for a line: the surest of it."""
        hits = [hit for hit in self._word.places(data) if hit + self._name_offset not in defined]
        if not hits:
            return
        # A file that defines the name or imports it means that one, unless it is some object's.
        local = bool(defined) or any(marks.at(hit, IMPORT) for hit in hits)
        line, counted = 1, 0
        best: _Use | None = None
        best_at = 0
        for start in hits:
            line += data.count(b"\n", counted, start)
            counted = start
            if parsed:
                of_object = data[start - 1 : start] in (b".", b">", b":") and start > 0
                match = marks.mention(start) or (
                    EXACT if self._alone or (local and not of_object) else HEURISTIC
                )
            else:
                match = HEURISTIC
            use = _Use(place.path, line, "", match, _kind(marks, data, start, start + self._size))
            if best is not None and best.line == line:
                if _ORDER[match] < _ORDER[best.match]:
                    best = use
                continue
            if best is not None:
                self._keep(best._replace(content=_line(data, best_at)))
            best, best_at = use, start
        if best is not None:
            self._keep(best._replace(content=_line(data, best_at)))

    def _keep(self, use: _Use) -> None:
        self.total += 1
        self.by_match[use.match] += 1
        if len(self.uses) < _MAX_KEPT:
            self.uses.append(use)


class _Word:
    """A text where it is no part of a longer word. Looked for as plain bytes, which is quicker than any pattern."""

    def __init__(self, text: str) -> None:
        self._text = text.encode()
        self._begins = self._text[0] in _LETTERS
        self._ends = self._text[-1] in _LETTERS

    def places(self, data: bytes) -> Iterator[int]:
        text, size = self._text, len(self._text)
        place = data.find(text)
        while place >= 0:
            after = place + size
            inside = (self._begins and place and data[place - 1] in _LETTERS) or (
                self._ends and after < len(data) and data[after] in _LETTERS
            )
            if not inside:
                yield place
            place = data.find(text, after)


def _kind(marks: Marks, data: bytes, start: int, end: int) -> str:
    if marks.at(start, IMPORT):
        return "import"
    if marks.at(start, TYPE):
        return "type"
    return "call" if data[end : end + 2].lstrip()[:1] == b"(" else "name"


def _line(data: bytes, place: int) -> str:
    """The line around a place; of a very long one, what is near."""
    start = max(data.rfind(b"\n", 0, place) + 1, place - _MAX_LINE // 2)
    end = data.find(b"\n", place)
    end = len(data) if end < 0 else end
    return data[start : min(end, start + _MAX_LINE)].decode("utf-8", "replace").strip()
