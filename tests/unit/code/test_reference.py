"""docs/reference/code.md says what the tables of the code say."""

from __future__ import annotations

import re
from pathlib import Path

from adjourn.code.index.analysis import MAX_PARSED
from adjourn.code.index.languages import LANGUAGES
from adjourn.code.search.text import MAX_LINE, MAX_PATTERNS
from adjourn.code.server.replies import MAX_REPLY, MAX_TEXT, MOST
from adjourn.code.server.server import TOOLS
from adjourn.code.server.tool import CodeTool, SearchTool, arguments_of
from adjourn.code.session_state import Phase
from adjourn.code.workflow import payloads, phases
from adjourn.code.workflow.request import flag_table

TEXT = (Path(__file__).parents[3] / "docs" / "reference" / "code.md").read_text(encoding="utf-8")


def phases_of(tool: type[CodeTool]) -> str:
    """The phases in which a tool may be called, in the words of the table."""
    permitted = list(dict.fromkeys(row.phase for row in phases.STEPS if tool.name in phases.allowed(row)))
    first, last = permitted[0], permitted[-1]
    words = "any" if len(permitted) == len(Phase) else first if first == last else f"from {first} on"
    return f"{words}, with `--symbols`" if tool.symbols else words


def test_every_tool_is_there_with_what_it_takes() -> None:
    """One row a tool, as its declaration says: its arguments in order, those that are required marked, and its phases."""
    rows = re.findall(r"^\| `\w+` \| .*$", TEXT.partition("## Phases")[0], re.MULTILINE)
    expected = []
    for tool in TOOLS:
        fields = [field for field in arguments_of(tool) if field.name != "format"]
        takes = ", ".join(f"`{field.name}{'*' if field.required else ''}`" for field in fields)
        expected.append(f"| `{tool.name}` | {takes} | {phases_of(tool)} |")
    assert rows == expected
    assert "Searches answer in text" in TEXT
    with_text = {tool.name for tool in TOOLS if tool.as_text is not None}
    assert {tool.name for tool in TOOLS if issubclass(tool, SearchTool)} == with_text


def test_every_step_is_there_with_what_is_submitted() -> None:
    """One row a step: its payload, and the tools it needs."""
    section = TEXT.partition("## Phases")[2].partition("## Strictness")[0]
    rows = re.findall(r"^\| (\d+) \| (\w+) \|(.*?)\|(.*?)\|$", section, re.MULTILINE)
    assert [(int(number), name) for number, name, _, _ in rows] == [(row.step, row.phase) for row in phases.STEPS]
    for (_, name, submitted, needed), row in zip(rows, phases.STEPS, strict=True):
        names = set(re.findall(r"`(\w+)`", submitted))
        assert names == set(payloads.expected(row.payload)), name
        assert set(re.findall(r"`(\w+)`", needed)) == set(row.needs), name


def test_the_flags_are_those_of_the_server() -> None:
    """The table of flags is made from the one that the server reads."""
    assert flag_table() in TEXT


def test_the_languages_are_those_of_the_table() -> None:
    """The page lists each language in one row, with its files."""
    section = TEXT.partition("### Languages")[2].partition("### Limits")[0]
    rows = re.findall(r"^\| (\w+) \| (`.*?) \|$", section, re.MULTILINE)
    assert rows == [
        (language.name, ", ".join(f"`{extension}`" for extension in language.extensions)) for language in LANGUAGES
    ]


def test_the_limits_are_those_that_hold() -> None:
    """The page states each limit as it is in the code."""
    section = TEXT.partition("### Limits")[2].partition("### The index")[0]
    rows = dict(re.findall(r"^\| (.*?) \| ([\d,]+) \|$", section, re.MULTILINE))
    assert {name: int(value.replace(",", "")) for name, value in rows.items()} == {
        "bytes of a reply as text": MAX_TEXT,
        "bytes of a reply as JSON, a body, a hit or a diff": MAX_REPLY,
        "definitions in a reply": MOST["definitions"],
        "references in a reply": MOST["references"],
        "symbols in a reply": MOST["symbols"],
        "patterns at once": MAX_PATTERNS,
        "characters shown of a line": MAX_LINE,
        "bytes of a file that has symbols": MAX_PARSED,
    }
