"""What language servers resolve of a symbol's uses.

Owns: `resolve`: asking the server of each language for the uses of the definitions. Must never: answer from an older version of a file
than the index has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from adjourn.code.index import lookup
from adjourn.code.index.analysis import as_utf8
from adjourn.code.index.index import CodeIndex
from adjourn.code.index.lookup import Definition, IndexedFile
from adjourn.code.language_servers.servers import READY, LanguageServers, NamePosition

_SECONDS = 5.0
_MAX_DEFINITIONS = 20


class Resolution(NamedTuple):
    """`lines` with a resolved use, as (file, line); `languages` of which every use is among them; `states` of the servers."""

    lines: Collection[tuple[str, int]] = ()
    languages: Collection[str] = ()
    states: dict[str, str] = {}  # noqa: RUF012  # a field of a tuple


def resolve(
    servers: LanguageServers,
    index: CodeIndex,
    definitions: Sequence[Definition],
    places: Sequence[IndexedFile],
    seconds: float | None,
) -> Resolution:
    """Ask for the uses of these definitions in `places`, the files that may have some."""
    lines: set[tuple[str, int]] = set()
    whole: set[str] = set()
    states: dict[str, str] = {}
    for language in sorted({one.place.language for one in definitions}):
        if (server := servers.installed(language)) is None:
            continue
        of_language = [one for one in definitions if one.place.language == language]
        names = [_position(index, one) for one in of_language[:_MAX_DEFINITIONS]]
        answer = servers.references(
            language,
            [name for name in names if name is not None],
            [place.path for place in places if place.language == language],
            _SECONDS if seconds is None else min(_SECONDS, seconds),
        )
        states[server] = answer.state
        lines |= answer.lines
        if answer.state == READY and None not in names and len(of_language) <= _MAX_DEFINITIONS:
            whole.add(language)
    return Resolution(lines, whole, states)


def _position(index: CodeIndex, one: Definition) -> NamePosition | None:
    """Where the name of a definition stands; None if its file has changed since it was indexed."""
    raw = lookup.read_current(index, one.place)
    data = as_utf8(raw) if raw is not None else None
    if data is None:
        return None
    before = data[: one.symbol.name_start]
    begin = before.rfind(b"\n") + 1
    column = len(before[begin:].decode("utf-8", "replace").encode("utf-16-le")) // 2
    return NamePosition(one.place.path, before.count(b"\n"), column)
