"""How many bytes an answer of the code server has, over 200 questions to the corpus of the code section."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tables import Table, median

from adjourn.code.deadline import Deadline
from adjourn.code.server.replies import MAX_TEXT
from adjourn.code.server.server import CodeServer
from adjourn.code.server.tool import CodeOptions
from adjourn.code.workflow.active_session import ClientConnection

_NAMES = "SELECT name FROM name ORDER BY name"
_FILES = "SELECT path FROM file JOIN content ON content.id = content WHERE language = 'python' ORDER BY path"


def table(root: Path) -> Table:
    """The bytes of replies as text and as JSON, by tool."""
    rows = Table(
        "Bytes of an answer",
        ["tool", "questions", "text: median", "largest", "JSON: median", "largest"],
        f"What an agent asks about names and files drawn at random, always the same ones. As text no answer exceeds {MAX_TEXT:,} bytes, except "
        "bodies of symbols; a cursor continues it. JSON is for programs.",
    )
    with CodeServer(str(root), CodeOptions(symbols=True)) as server:
        codebase = server.codebases.of(str(root))
        codebase.sync()
        client, sizes = ClientConnection("bench"), dict[str, list[tuple[int, int]]]()
        for tool, arguments in questions(codebase):
            texts = [
                server.reply(client, tool, {**arguments, **form}, Deadline(20))[0] for form in ({}, {"format": "json"})
            ]
            sizes.setdefault(tool, []).append((len(texts[0].encode()), len(texts[1].encode())))
    for tool, pairs in sizes.items():
        columns = [sorted(size) for size in zip(*pairs, strict=True)]
        rows.add(tool, len(pairs), *(f"{value:,.0f}" for column in columns for value in (median(column), column[-1])))
    return rows


def questions(codebase: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tools and arguments."""
    drawn = random.Random(42)  # the same questions each time
    names = [name for (name,) in codebase.index.database.all(_NAMES)]
    files = [path for (path,) in codebase.index.database.all(_FILES)]
    for tool, count in (("find_definitions", 50), ("find_references", 50), ("read_symbol", 20)):
        yield from ((tool, {"symbol": name}) for name in drawn.sample(names, min(count, len(names))))
    for tool, argument, count in (
        ("get_symbols", "path", 20),
        ("outline", "path", 20),
        ("analyze_structure", "file_path", 20),
    ):
        yield from ((tool, {argument: path}) for path in drawn.sample(files, min(count, len(files))))
    yield "get_symbols", {"path": "."}
    yield from (("search_text", {"pattern": word}) for word in ("def", "import", "return", "class", "TODO"))
    yield from (
        ("search_files", {"pattern": pattern}) for pattern in ("*.py", "**/test_*.py", "*.toml", "**/__init__.py")
    )
    yield from (
        ("semantic_search", {"query": text}) for text in ("read a file in parts", "retry with a delay", "parse a date")
    )
    yield from (("query", {"question": text}) for text in ("how are tokens counted", "where is a lock taken"))
