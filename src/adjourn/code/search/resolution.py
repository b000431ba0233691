"""What language servers say of a symbol, asked by its definitions.

Owns: `resolve`, the uses of definitions; `ask`, any other question about one; positions of names. Must never: ask about an older version of
a file than the one on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from adjourn.code.index import lookup
from adjourn.code.index.analysis import as_utf8
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.index import CodeIndex
from adjourn.code.index.lookup import Definition, IndexedFile
from adjourn.code.language_servers.places import NamePosition
from adjourn.code.language_servers.servers import LATE, READY, STARTING, ServerAnswer
from adjourn.code.model import words
from adjourn.code.model.deadline import Deadline

if TYPE_CHECKING:
    from adjourn.code.language_servers.server import LanguageServer

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
    whole: set[str] = set()
    states: dict[str, str] = {}
    servers, index = codebase.language_servers, codebase.index
    if servers is None or index is None:
        return Resolution()
    asked = {one.place.language: servers.installed(one.place.language) for one in definitions}
    for server in sorted({name for name in asked.values() if name}):
        mine = [one for one in definitions if asked[one.place.language] == server]
        named = [position_of(index, one) for one in mine]
        names = [name for name in named if name is not None]
        answer = servers.ask(
            mine[0].place.language,
            names,
            [place.path for place in places if servers.installed(place.language) == server],
            _uses(names, lines),
            deadline.at_most(SECONDS),
        )
        if answer.value and len(names) == len(named):
            whole |= {place.language for place in places if servers.installed(place.language) == server}
        state = answer.state if answer.value is not False else STARTING
        states[server] = LATE if state == READY and len(names) < len(named) else state
    return Resolution(lines, whole, states)


def _uses(
    names: Iterable[NamePosition], lines: set[tuple[str, int]]
) -> Callable[[LanguageServer, Deadline], bool]:
    """A question that keeps what was found before the time was over, and says whether it is everything."""

    def question(server: LanguageServer, deadline: Deadline) -> bool:
        known: set[NamePosition] = set()
        for name in names:
            if name in known:
                continue  # a use of another definition's symbol: overrides have their uses in common
            spans = server.uses(name, deadline)
            known.update(NamePosition(*span[:3]) for span in spans)
            lines.update((span.path, span.line + 1) for span in spans)
        return server.settled

    return question


def ask(
    codebase: Codebase,
    language: str,
    name: NamePosition,
    question: Question[_T],
    deadline: Deadline,
    *,
    word: str = "",
) -> ServerAnswer[_T] | None:
    """The answer about one place, after waiting for the server's start; None if no server is installed.

    `word`: the files that contain it may matter to the answer.
    """
    servers, index = codebase.language_servers, codebase.index
    if servers is None or index is None or servers.installed(language) is None:
        return None
    candidates = [
        one.path
        for one in (lookup.mentioning(index, words.of_symbol(word), "") if word else ())
        if servers.installed(one.language) == servers.installed(language)
    ]
    deadline = deadline.at_most(ASK_SECONDS)
    servers.wait(language, deadline)
    return servers.ask(language, [name], {name.path, *candidates}, question, deadline)


def position_of(index: CodeIndex, one: Definition) -> NamePosition | None:
    """Where the name of a definition stands; None if its file has changed since it was indexed."""
    raw = lookup.read_current(index, one.place)
    data = as_utf8(raw) if raw is not None else None
    return None if data is None else position_at(one.place.path, data, one.symbol.name_start)


def position_at(path: str, data: bytes, offset: int) -> NamePosition:
    """The place of an offset in a file's bytes."""
    before = data[:offset]
    begin = before.rfind(b"\n") + 1
    column = len(before[begin:].decode("utf-8", "replace").encode("utf-16-le")) // 2
    return NamePosition(path, before.count(b"\n"), column)
