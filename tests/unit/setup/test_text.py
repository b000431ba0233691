"""Editing JSON with comments, and TOML, in place: the value is there, and nothing else has changed."""

from __future__ import annotations

import json
import tomllib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import InvalidError
from adjourn.setup import jsonc, toml_text
from support.cases import for_each

WITH_COMMENTS = """\
// the servers
{
\t/* mine */ "servers": {
\t\t"git": {
\t\t\t"command": "uvx", // why
\t\t\t"args": ["git",],
\t\t},
\t},
\t"other": [1, 2.50, null], // last
}
"""
NAMES = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)


# --- JSON


def test_comments_layout_and_numbers_stay() -> None:
    """A value is replaced where it stands, one is added as the others are written; all else is the same text."""
    text = jsonc.edited(WITH_COMMENTS, ("servers", "git", "command"), "adjourn")
    text = jsonc.edited(text, ("servers", "git", "args"), ["proxy", "--", "uvx"])
    text = jsonc.edited(text, ("servers", "time"), {"command": "x"})
    text = jsonc.edited(text, ("other", 3), "end")
    assert text == (
        WITH_COMMENTS.replace('"uvx"', '"adjourn"', 1)
        .replace('["git",]', '["proxy", "--", "uvx"]')
        .replace("\t\t},\n\t},", '\t\t},\n\t\t"time": {\n\t\t\t"command": "x"\n\t\t},\n\t},')
        .replace("null]", 'null, "end"]')
    )


@pytest.mark.parametrize("text", ["", "{}", "{ }", "{\n}\n", "{\n  // nothing yet\n}\n", " \n"])
def test_a_member_can_be_put_into_an_empty_document(text: str) -> None:
    """Objects on the way are made; a comment in an empty object stays."""
    made = jsonc.edited(text, ("hooks", "Stop"), [{"hooks": []}])
    assert jsonc.read(made).value == {"hooks": {"Stop": [{"hooks": []}]}}
    assert ("// nothing yet" in made) == ("// nothing yet" in text)


@given(DOCUMENTS, st.lists(NAMES, min_size=1, max_size=3), VALUES, st.sampled_from((None, 1, "\t")))
def test_what_is_set_is_there_and_all_else_is_as_it_was(
    document: dict[str, Any], path: list[str], value: Any, indent: int | str | None
) -> None:
    """However the text is laid out: reading gives the meant document, or the edit is refused."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    assert jsonc.read(text).value == document
    try:
        made = jsonc.edited(text, path, value)
    except InvalidError:
        return
    meant: Any = document
    for name in path[:-1]:
        meant = meant.setdefault(name, {})
    meant[path[-1]] = value
    assert json.loads(made) == document


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Any TOML text that Python's parser accepts is accepted with the same meaning; other texts are refused."""
    try:
        known = json.loads(text, parse_constant=lambda word: 1 / 0)
    except (ValueError, ZeroDivisionError):
        with suppress(InvalidError):
            jsonc.read(text)  # it may hold comments
    else:
        assert jsonc.read(text).value == known


@for_each(
    "text",
    [
        '{"a": 1, "a": 2}',
        "[" * 100 + "]" * 100,
        '{"a" 1}',
        '{"a": 1} {}',
        '{"a": 01}',
        '{"a": "\n"}',
        "{,}",
        '{"a": tru}',
    ],
)
def test_what_is_not_understood_is_not_edited(text: str) -> None:
    """A name that is there twice, too many levels, and everything that is not JSON."""
    with pytest.raises(InvalidError):
        jsonc.edited(text, ("b",), 1)


@pytest.mark.parametrize(
    ("path", "what"), [(("a", "b"), "int"), ((0,), "dict"), (("l", 5), "list"), (("l", "x"), "list")]
)
def test_a_path_through_something_else_is_refused(path: tuple[str | int, ...], what: str) -> None:
    """A number has no members; a list has no gaps."""
    with pytest.raises(InvalidError, match=what):
        jsonc.edited('{"a": 1, "l": [1]}', path, 2)


# --- TOML

CONFIG = """\
model = "x"  # the model

[mcp_servers.files] # mine
# how it starts
command = "npx"
args = [
  "-y", # yes
  "files",
]
startup_timeout_sec = 20

[mcp_servers."a b".env]
KEY = "v"
"""
PROXY: dict[str, str | list[str]] = {"command": "adjourn", "args": ["proxy", "--", "npx", "-y", "files"]}


def test_the_values_of_a_table_are_replaced_where_they_stand() -> None:
    """Other keys, comments and tables stay; a list over several lines is one value."""
    made = toml_text.with_table(CONFIG, ("mcp_servers", "files"), PROXY)
    start, end = CONFIG.index('command = "npx"'), CONFIG.index("\nstartup")
    assert made == CONFIG[:start] + 'command = "adjourn"\nargs = ["proxy", "--", "npx", "-y", "files"]' + CONFIG[end:]


def test_a_missing_value_is_added_below_its_header_and_a_missing_table_at_the_end() -> None:
    """What has no `args` yet gets some; a name that is not bare is quoted."""
    made = toml_text.with_table('[mcp_servers.x]\ncommand = "a"\n', ("mcp_servers", "x"), PROXY)
    assert tomllib.loads(made)["mcp_servers"]["x"] == PROXY
    made = toml_text.with_table(CONFIG, ("mcp_servers", "c.d"), PROXY)
    assert made.startswith(CONFIG)
    assert tomllib.loads(made)["mcp_servers"]["c.d"] == PROXY
    assert toml_text.with_table("", ("a", "b"), {"c": "d"}) == '[a.b]\nc = "d"\n'


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        (
            'mcp_servers = { x = { command = "a" } } # mine\n',
            'mcp_servers = { x = { command = "b", args = ["c"]} } # mine\n',
        ),
        (
            '[mcp_servers]\n# mine\nx = { command = "a" }\n',
            '[mcp_servers]\n# mine\nx = { command = "b", args = ["c"]}\n',
        ),
        ('mcp_servers.x.command = "a"\n', 'mcp_servers.x.command = "b"\nmcp_servers.x.args = ["c"]\n'),
        (
            '[mcp_servers.x]\ncommand = "a" # why\n\n# about d\n[d]\n',
            '[mcp_servers.x]\ncommand = "b" # why\nargs = ["c"]\n\n# about d\n[d]\n',
        ),
    ],
)
def test_a_table_in_any_spelling_is_edited_in_place(text: str, edited: str) -> None:
    """Tables in one line and dotted keys stay as they are written; the comment of a next table stays before its header."""
    values: dict[str, str | list[str]] = {"command": "b", "args": ["c"]}
    assert toml_text.with_table(text, ("mcp_servers", "x"), values) == edited


@pytest.mark.parametrize("text", ['x = "a"\n', "[[x]]\n"])
def test_what_is_no_table_is_left_alone(text: str) -> None:
    """A value or a list where a table is expected is not edited, and the error says so."""
    with pytest.raises(InvalidError, match="cannot edit"):
        toml_text.with_table(text, ("x",), PROXY)


def test_broken_toml_is_refused() -> None:
    """Broken TOML is refused with the parser's message."""
    with pytest.raises(InvalidError, match="Invalid value"):
        toml_text.read("a = ")


@given(st.dictionaries(NAMES, NAMES | st.lists(NAMES, max_size=3), min_size=1, max_size=3), NAMES)
def test_any_text_can_stand_in_a_table(values: dict[str, str | list[str]], name: str) -> None:
    """What is written is what is read, or it is refused."""
    try:
        made = toml_text.with_table(CONFIG, ("mcp_servers", name), values)
    except InvalidError:
        return
    assert tomllib.loads(made)["mcp_servers"][name] == values
