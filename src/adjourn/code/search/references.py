"""Finds where a symbol is used, exactly where a language server resolves it, else by its name.

A symbol is never taken for a pattern, and a use that is a guess says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from adjourn.code.deadline import Deadline
from adjourn.code.index import lookup, ripgrep
from adjourn.code.index.analysis import GRAMMAR, MAX_PARSED, as_utf8, symbol_words
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.index import CodeIndex
from adjourn.code.index.languages import has_grammar, language_of, matching_languages
from adjourn.code.index.lookup import Definition, IndexedFile
from adjourn.code.index.outline import COMMENT, IMPORT, STRING, TYPE, RegionMarks, outline
from adjourn.code.language_servers.kinds import NamePosition
from adjourn.code.language_servers.servers import LATE, READY, STARTING, ServerAnswer
from adjourn.code.search.definitions import in_scope, live_definitions, split_symbol
from adjourn.errors import AdjournError

if TYPE_CHECKING:
    from adjourn.code.language_servers.server import LanguageServer


EXACT, SCOPED, NAME = "exact", "scoped", "name"
_ORDER = {EXACT: 0, SCOPED: 1, NAME: 2, STRING: 3, COMMENT: 4}
_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_" + bytes(range(128, 256)))
_SECONDS = 10.0
_LIVE_SECONDS = 3.0
"""How long files are parsed for definitions while the index is incomplete."""
_MAX_RESULTS = 5_000
_MAX_KEPT = 20_000
MAX_LINE = 300
_BATCH = 200
_OF_OBJECT = (b".", b">", b":")


class _TextUse(NamedTuple):
    """A line of a text that uses a symbol, as far as the text and the definitions of the symbol say."""

    line: int
    content: str
    guess: str
    kind: str


class CodeUse(NamedTuple):
    """A line that uses a symbol, as a reply lists it."""

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
    max_results: int = _MAX_RESULTS,
    deadline: Deadline | None = None,
) -> dict[str, Any]:
    """Lines that use a symbol, without its definitions; the most certain first.

    Of a qualified name (`Server.handle`) that a language server resolved, only those uses are listed; `namesakes` counts the other lines with
    the name. While index or server are incomplete, the answer is `partial`.

    `match` of each: `exact`, a language server resolved it; `scoped`, by imports and scopes it is the symbol; `name`, the name is the same; `comment` and `string`, it is only
    mentioned. `kind`: call, import, type or name.
    """
    deadline = deadline or Deadline(_SECONDS)
    under = codebase.repository.existing(path)
    scope, name = split_symbol(symbol)
    codebase.request_update()
    index = codebase.index
    spoken = matching_languages(language)
    answered = codebase.complete()
    search = _ReferenceSearch(codebase, index, scope, name, _definitions(codebase, index, name, under, deadline))
    places = _candidates(codebase, search.text, under, deadline)
    complete = True
    wanted = [place for place in places if spoken is None or place.language in spoken]
    if wanted:
        search.resolved = resolve(codebase, search.definitions, wanted, deadline)
    for done in range(0, len(wanted), _BATCH):
        complete = search.look_at(wanted[done : done + _BATCH], deadline)
        if not complete:
            break
        deadline.report(done, len(wanted))
    search.remember()
    search.look_at_resolved(under, spoken)
    if index is not None and spoken is None and (long := lookup.skipped(index, under)):
        search.look_at_long(long, deadline)
    namesakes = search.drop_namesakes() if scope else 0
    uses = sorted(search.uses, key=lambda use: (_ORDER[use.match], use.file, use.line))
    answer: dict[str, Any] = {
        "symbol": symbol,
        "path": under or ".",
        "references": [use._asdict() for use in uses[: max(1, min(max_results, _MAX_RESULTS))]],
        "total": search.total,
        "definitions": len(search.definitions),
        "by_match": search.by_match,
        "cache_stats": codebase.count_lookup(answered=answered),
        "index_state": codebase.state(),
    }
    if search.resolved.states:
        answer["language_servers"] = search.resolved.states
    if namesakes:
        answer["namesakes"] = namesakes
    if not complete:
        answer["partial"] = "timed out: there may be more"
    elif search.unsettled:
        answer["partial"] = "the language server still reads the project: some namesakes may be uses of this symbol"
    elif not answered:
        answer["partial"] = "the index is incomplete: there may be more"
    return answer


def _definitions(
    codebase: Codebase, index: CodeIndex | None, name: str, under: str, deadline: Deadline
) -> list[Definition]:
    """The definitions of a name: as the index has them, and while it is incomplete, as the files under a path have them."""
    indexed = lookup.definitions(index, [name], "") if index is not None else []
    if codebase.complete():
        return indexed
    seen = {definition.place.path for definition in indexed}
    live = live_definitions(codebase, name, under, deadline.at_most(_LIVE_SECONDS), exact=True)
    return [*indexed, *(definition for definition in live if definition.place.path not in seen)]


def _candidates(codebase: Codebase, text: str, under: str, deadline: Deadline) -> list[IndexedFile]:
    """Files that may contain the text: from the index if it is complete, else from ripgrep."""
    index = codebase.index
    terms = symbol_words(text)
    if index is not None and codebase.complete() and terms:
        return lookup.mentioning(index, terms, under)
    options = ["--fixed-strings", "-e", text]
    paths = ripgrep.files_with(options, [under], cwd=codebase.repository.root, deadline=deadline)
    return [IndexedFile(path, 0, 0, 0, language_of(path), "") for path in sorted(paths)]


class _ReferenceSearch:
    """Searches files for uses of one symbol."""

    def __init__(
        self, codebase: Codebase, index: CodeIndex | None, scope: str, name: str, definitions: Sequence[Definition]
    ) -> None:
        self.uses: list[CodeUse] = []
        self.total = 0
        self.unsettled = False
        """Whether a server resolved uses, but perhaps not all."""
        self.by_match = dict.fromkeys(_ORDER, 0)
        self._codebase = codebase
        self._index = index
        self._name = name
        self.resolved = Resolution()
        within = (
            [definition for definition in definitions if in_scope(definition.symbol, scope)]
            if scope
            else list(definitions)
        )
        self.definitions = within
        # A method is called on any object; anything else of a dotted name (`shlex.split`) is written as it is.
        self.text = name if within or not scope else f"{scope}.{name}"
        self._name_offset = len(self.text.encode()) - len(name.encode())
        self._word = WordFinder(self.text)
        self._size = len(self.text.encode())
        self._definition_lines = {(definition.place.path, definition.symbol.line) for definition in definitions}
        self._defined: dict[int, set[int]] = {}
        for definition in definitions:
            self._defined.setdefault(definition.place.content, set()).add(definition.symbol.name_start)
        places = frozenset((definition.place.content, definition.symbol.name_start) for definition in definitions)
        self._alone = len(places) == 1
        self._memo_key = (self.text, places)
        self._before: dict[int, list[_TextUse]] = codebase.uses.get(self._memo_key) or {}
        self._found: dict[int, list[_TextUse]] = {}

    def remember(self) -> None:
        """Keep what the texts say for the next question about the symbol: then only files that changed are read."""
        remembered = self._before | self._found
        self._codebase.uses.put(self._memo_key, remembered, sum(map(len, remembered.values())))

    def look_at(self, places: list[IndexedFile], deadline: Deadline) -> bool:
        """Search some files. Returns False if the deadline expired first."""
        contents = [place.content for place in places if place.content and place.content not in self._before]
        marks = lookup.marks(self._index, contents) if self._index is not None else {}
        for place in places:
            if deadline.expired():
                return False
            self._look(place, marks.get(place.content, b""))
        return True

    def _look(self, place: IndexedFile, packed: bytes) -> None:
        index = self._index
        before = self._before.get(place.content)
        if before is not None and index is not None and lookup.is_current(index, place):
            self._keep_all(place, before)
            return
        raw = lookup.read_current(index, place) if index is not None and packed else None
        is_read = raw is not None
        if raw is None:
            try:
                raw = self._codebase.repository.read(place.path, MAX_PARSED)
            except AdjournError:
                return
        data = as_utf8(raw)
        if data is None:
            return
        if is_read:
            defined: Collection[int] = self._defined.get(place.content, ())
            marks, parsed = RegionMarks.unpacked(packed), place.engine == GRAMMAR
        else:
            file_outline = outline(data, place.language) if has_grammar(place.language) else None
            marks = RegionMarks.of(file_outline.regions if file_outline else ())
            defined = (
                {symbol.name_start for symbol in file_outline.symbols if symbol.name == self._name}
                if file_outline
                else ()
            )
            parsed = file_outline is not None
        uses = self._uses_in(data, marks, defined, parsed=parsed)
        self._keep_all(place, uses)
        if is_read:
            self._found[place.content] = uses

    def look_at_resolved(self, under: str, spoken: Collection[str] | None) -> None:
        """Add the uses that a server resolved where another name stands: that of an alias."""
        if not self.resolved.lines:
            return
        seen = {(use.file, use.line) for use in self.uses}
        seen |= self._definition_lines
        for path, lines in groupby(sorted(set(self.resolved.lines) - seen), itemgetter(0)):
            within = not under or path == under or path.startswith(f"{under}/")
            if not within or (spoken is not None and language_of(path) not in spoken):
                continue
            try:
                data = self._codebase.repository.read(path, MAX_PARSED)
            except AdjournError:
                continue
            text = data.split(b"\n")
            for _, line in lines:
                if line <= len(text):
                    self._keep([CodeUse(path, line, _line(text[line - 1], 0), EXACT, "name")])

    def drop_namesakes(self) -> int:
        """Drop the uses in languages of which a server resolved uses, unless they are among them. Returns how many were dropped."""
        found = {language_of(use.file) for use in self.uses if use.match == EXACT}
        resolved = found | set(self.resolved.languages)
        if not resolved or not self.definitions:
            return 0
        if not found <= set(self.resolved.languages):
            self.unsettled = True
        own = [use for use in self.uses if use.match == EXACT or language_of(use.file) not in resolved]
        dropped = len(self.uses) - len(own)
        self.uses, self.total = own, self.total - dropped
        self.by_match = {match: sum(use.match == match for use in own) for match in self.by_match}
        return dropped

    def look_at_long(self, paths: list[str], deadline: Deadline) -> None:
        """Search files too long to be indexed, with ripgrep."""
        arguments = ["--fixed-strings", "--word-regexp", "-e", self._name]
        for record in ripgrep.records(
            arguments, paths, cwd=self._codebase.repository.root, deadline=deadline, enough=lambda: False
        ):
            if record["type"] == "match":
                data = record["data"]
                line = data["lines"].get("text", "")[:MAX_LINE] if "lines" in data else ""
                self._keep([CodeUse(ripgrep.path_of(data), data["line_number"], line.strip(), NAME, "name")])

    def _uses_in(self, data: bytes, marks: RegionMarks, defined: Collection[int], *, parsed: bool) -> list[_TextUse]:
        """The uses in one text: per line, the most certain."""
        offset = self._name_offset
        hits = [(hit, marks.at(hit)) for hit in self._word.places(data) if hit + offset not in defined]
        # A file that defines the name or imports it means that one, unless it is some object's.
        local = bool(defined) or any(IMPORT in kinds for _, kinds in hits)
        lines: dict[int, tuple[str, int, frozenset[str]]] = {}
        line, counted = 1, 0
        for start, kinds in hits:
            line += data.count(b"\n", counted, start)
            counted = start
            match = self._match(data, start, kinds, local=local) if parsed else NAME
            if line not in lines or _ORDER[match] < _ORDER[lines[line][0]]:
                lines[line] = match, start, kinds
        return [
            _TextUse(line, _line(data, start), guess, _kind(kinds, data, start + self._size))
            for line, (guess, start, kinds) in lines.items()
        ]

    def _keep_all(self, place: IndexedFile, uses: list[_TextUse]) -> None:
        if self.resolved.lines or place.language in self.resolved.languages:
            matches = [self._resolved(place, use.line, use.guess) for use in uses]
        else:
            matches = [use.guess for use in uses]
        self._keep(
            [
                CodeUse(place.path, use.line, use.content, match, use.kind)
                for use, match in zip(uses, matches, strict=True)
            ]
        )

    def _resolved(self, place: IndexedFile, line: int, guess: str) -> str:
        """The certainty of a line, now that the language server has answered, or not."""
        if (place.path, line) in self.resolved.lines:
            return EXACT
        # Where the server has named every use, one that it did not name is that of another symbol.
        return NAME if guess == SCOPED and place.language in self.resolved.languages else guess

    def _match(self, data: bytes, start: int, kinds: frozenset[str], *, local: bool) -> str:
        if kinds and (mention := next((kind for kind in (COMMENT, STRING) if kind in kinds), None)):
            return mention
        if self._alone or (local and data[start - 1 : start] not in _OF_OBJECT):
            return SCOPED
        return NAME

    def _keep(self, uses: list[CodeUse]) -> None:
        self.total += len(uses)
        for use in uses:
            self.by_match[use.match] += 1
        self.uses += uses[: max(_MAX_KEPT - len(self.uses), 0)]


class WordFinder:
    """Finds a text that is not part of a longer word, as plain bytes: faster than any regular expression."""

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


def _kind(kinds: frozenset[str], data: bytes, end: int) -> str:
    if IMPORT in kinds:
        return "import"
    if TYPE in kinds:
        return "type"
    return "call" if data[end : end + 2].lstrip()[:1] == b"(" else "name"


def _line(data: bytes, place: int) -> str:
    """The line around an offset; of a very long line, the nearby part."""
    start = max(data.rfind(b"\n", 0, place) + 1, place - MAX_LINE // 2)
    end = data.find(b"\n", place)
    end = len(data) if end < 0 else end
    return data[start : min(end, start + MAX_LINE)].decode("utf-8", "replace").strip()


# --- what language servers say of a symbol, asked by its definitions

SECONDS = 5.0
ASK_SECONDS = 30.0
_T = TypeVar("_T")
Question = Callable[["LanguageServer", Deadline], _T]


class Resolution(NamedTuple):
    """`lines` with a resolved use, as (file, line); `languages` of which every use is among them; `states` of the servers."""

    lines: Collection[tuple[str, int]] = ()
    languages: Collection[str] = ()
    states: dict[str, str] = {}  # noqa: RUF012  # a field of a tuple


def resolve(
    codebase: Codebase, definitions: Sequence[Definition], places: Sequence[IndexedFile], deadline: Deadline
) -> Resolution:
    """Ask for the uses of these definitions in `places`, the files that may have some."""
    lines: set[tuple[str, int]] = set()
    complete: set[str] = set()
    states: dict[str, str] = {}
    servers, index = codebase.language_servers, codebase.index
    if servers is None or index is None:
        return Resolution()
    installed = {definition.place.language: servers.installed(definition.place.language) for definition in definitions}
    for server in sorted({name for name in installed.values() if name}):
        mine = [definition for definition in definitions if installed[definition.place.language] == server]
        named = [position_of(index, definition) for definition in mine]
        names = [name for name in named if name is not None]
        answer = servers.ask(
            mine[0].place.language,
            names,
            [place.path for place in places if servers.installed(place.language) == server],
            _uses(names, lines),
            deadline.at_most(SECONDS),
        )
        if answer.value and len(names) == len(named):
            complete |= {place.language for place in places if servers.installed(place.language) == server}
        state = answer.state if answer.value is not False else STARTING
        states[server] = LATE if state == READY and len(names) < len(named) else state
    return Resolution(lines, complete, states)


def _uses(names: Iterable[NamePosition], lines: set[tuple[str, int]]) -> Callable[[LanguageServer, Deadline], bool]:
    """A question that keeps what was found before the time was over, and says whether it is everything."""

    def question(server: LanguageServer, deadline: Deadline) -> bool:
        positions: set[NamePosition] = set()
        for name in names:
            if name in positions:
                continue  # a use of another definition's symbol: overrides have their uses in common
            spans = server.uses(name, deadline)
            positions.update(NamePosition(*span[:3]) for span in spans)
            lines.update((span.path, span.line + 1) for span in spans)
        return server.settled

    return question


def ask(
    codebase: Codebase, language: str, name: NamePosition, question: Question[_T], deadline: Deadline, *, word: str = ""
) -> ServerAnswer[_T] | None:
    """The answer about one place, after waiting for the server's start; None if no server is installed.

    `word`: the files that contain it may matter to the answer.
    """
    servers, index = codebase.language_servers, codebase.index
    if servers is None or index is None or servers.installed(language) is None:
        return None
    candidates = [
        place.path
        for place in (lookup.mentioning(index, symbol_words(word), "") if word else ())
        if servers.installed(place.language) == servers.installed(language)
    ]
    deadline = deadline.at_most(ASK_SECONDS)
    servers.wait(language, deadline)
    return servers.ask(language, [name], {name.path, *candidates}, question, deadline)


def position_of(index: CodeIndex, definition: Definition) -> NamePosition | None:
    """Where the name of a definition stands; None if its file has changed since it was indexed."""
    raw = lookup.read_current(index, definition.place)
    data = as_utf8(raw) if raw is not None else None
    return None if data is None else position_at(definition.place.path, data, definition.symbol.name_start)


def position_at(path: str, data: bytes, offset: int) -> NamePosition:
    """The place of an offset in a file's bytes."""
    before = data[:offset]
    begin = before.rfind(b"\n") + 1
    column = len(before[begin:].decode("utf-8", "replace").encode("utf-16-le")) // 2
    return NamePosition(path, before.count(b"\n"), column)
