"""Work that another tool wrote down, as far as adjourn can continue it.

Owns: the type that every reader of a format returns, and its limits. Must never: read a file, or write anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

import msgspec

from adjourn.checkpoints import NO_REPORT, AgentReport
from adjourn.errors import InvalidError
from adjourn.host import check_name
from adjourn.knowledge.model import Tree
from adjourn.knowledge.records import agent_notes
from adjourn.log import kinds
from adjourn.text import clean, fit_text, one_line, without_secrets

Source = Literal["aex", "continuum", "langgraph", "handoff"]
SOURCES: tuple[Source, ...] = get_args(Source)
MAX_FILE_BYTES = 16 * 1024 * 1024
"""A file that is read whole."""
MAX_ENTRIES = 10_000
"""Entries of a history that become events; all of them stay in the document."""
MAX_STATEMENTS = 200
"""Items of one kind (facts, decisions, …) that are imported."""
MAX_WORD, MAX_LINE = 128, 200
NO_NOTE = agent_notes.AgentNote()


class ForeignWork(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says, without secrets. None of it is verified; all of it is somebody's words.

    `documents` are what the store keeps of it: the file, and its audit.jsonl if it has one. `at` is its time as it states it, `calls`
    and `budget` are numbers of calls, `entries` its history, `report` is for the page, `note` for the record. `record` and `mind` are
    the members of a Continuation Record and a cognitive checkpoint, if that is what it is. `kept` and `left_out` say what was taken
    over and what was not.
    """

    source: Source
    name: str
    documents: tuple[bytes, ...]
    goal: str = ""
    description: str = ""
    at: str = ""
    calls: int = 0
    budget: int | None = None
    entries: tuple[kinds.EntryImported, ...] = ()
    report: AgentReport = NO_REPORT
    note: agent_notes.AgentNote = NO_NOTE
    record: Tree = {}
    mind: Tree = {}
    kept: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def word(value: Any, limit: int = MAX_WORD) -> str:
    """A short text for an event: one line, without secrets; "" for what is not text."""
    return one_line(without_secrets(clean(value)), limit) if isinstance(value, str) else ""


def prose(value: Any, limit: int = agent_notes.MAX_STATEMENT) -> str:
    """A text of the file without secrets and control characters, at most `limit` characters; "" for what is not text."""
    return fit_text(without_secrets(clean(value)).strip(), limit) if isinstance(value, str) else ""


def statements(values: Iterable[Any]) -> tuple[str, ...]:
    """The texts among the values, each once, as far as there is room."""
    return tuple(dict.fromkeys(text for one in values if (text := prose(one))))[:MAX_STATEMENTS]


def name_from(text: str, source: Source) -> str:
    """A checkpoint's name made from a text; the name of the format where the text has no character for one."""
    name = "".join(char if char.isascii() and char.isalnum() else "-" for char in text.lower())
    name = "-".join(part for part in name.split("-") if part)[:40].strip("-")
    try:
        return name if name and without_secrets(name) == check_name(name) else source
    except InvalidError:
        return source


def counted(number: int, thing: str) -> str:
    """`1 call`, `2 calls`, `2 entries`."""
    if number == 1:
        return f"1 {thing}"
    return f"{number} {thing[:-1] + 'ies' if thing.endswith('y') else thing + 's'}"
