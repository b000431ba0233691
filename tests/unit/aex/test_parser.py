"""Parsing: statements as documents, the published shape, values, and the tree's nesting."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import adjourn.aex
from adjourn.aex import expr
from adjourn.aex.ast import DoStep, ReturnStep
from adjourn.aex.check import examine
from adjourn.aex.expr import (
    Constant,
    ListOf,
    Name,
    ObjectOf,
    Text,
    Value,
    Word,
    arguments,
    brace_balance,
    number,
    parse_value,
)
from adjourn.aex.shape import model
from adjourn.aex.templates import safe_name, sample_task
from adjourn.aex.tree import build, walk
from support.cases import for_each
from support.policies import POLICY

EXAMPLES = Path(__file__).parents[3] / "examples"


def published(text: str) -> Any:
    return json.loads(msgspec.json.encode(model(examine(text))))


def plain(value: Value | None) -> Any:
    """A value as plain data: names in angle brackets, bare text as it is."""
    match value:
        case Text():
            return value.value
        case Constant():
            return value.value
        case Name():
            return f"<{value.path}>"
        case ListOf():
            return [plain(item) for item in value.items]
        case ObjectOf():
            return {entry.key.text: plain(entry.value) for entry in value.entries}
        case None:
            return None


def test_the_published_shape_has_the_published_keys_in_order() -> None:
    """A parsed document has the members of the published format, in its order."""
    text = """task t v1.0
goal "say "hi""
use a.b, , c
deny d
need x: str
need y.z : list[int]?
budget calls=2, usd=1.5
do a.b(p="x, y", q=x, r) -> out
make m: diff from $x, out with:
  - first
  -- second
check m.ok
confirm before a.*
if x has "y"
  for i in y.z
    return i
return {
  k: x
}
"""
    shape = published(text)
    assert list(shape) == ["isPolicy", "use", "deny", "needs", "steps", "agent", "goal", "budget", "returnStatement"]
    assert shape["use"] == ["a.b", "c"]
    assert shape["goal"] == 'say "hi"'
    assert shape["needs"] == {"x": "str", "y.z": "list[int]?"}
    assert shape["budget"] == {"calls": 2, "usd": 1.5}
    assert shape["agent"] == {"name": "t", "version": "1.0"}
    assert shape["returnStatement"] == "{\n  k: x\n}"
    assert shape["steps"] == [
        {"kind": "do", "tool": "a.b", "args": {"p": "x, y", "q": "x", "r": ""}, "line": 8, "bind": "out"},
        {"kind": "make", "bind": "m", "type": "diff", "inputs": ["$x", "out"], "instructions": ["first", "second"], "line": 9},
        {"kind": "check", "condition": "m.ok", "line": 12},
        {"kind": "confirm", "before": "a.*", "line": 13},
        {"kind": "if", "condition": 'x has "y"', "line": 14, "body": [
            {"kind": "for", "variable": "i", "iterable": "y.z", "line": 15, "body": [
                {"kind": "return", "expression": "i", "line": 16},
            ]},
        ]},
        {"kind": "return", "expression": "{\n  k: x\n}", "line": 19},
    ]  # fmt: skip


def test_the_lines_of_version_1_are_in_the_shape_as_written() -> None:
    """A document of version 1 has one more key, so that a condition is not taken for a rule without one."""
    shape = published(
        'policy p v1\ngoal "g"\nallow a where x is 1\nallow b\nlimit b 5 per day\nonce b by c\ncheckpoint before b\n'
        "mode observe\nrequire signed by d\nconfirm before b by human\nconfirm before b"
    )
    assert shape["use"] == ["a", "b"]
    assert [(rule["line"], rule["text"].split(" ")[0]) for rule in shape["rules"]] == [
        (3, "allow"), (5, "limit"), (6, "once"), (7, "checkpoint"), (8, "mode"), (9, "require"), (10, "confirm"),
    ]  # fmt: skip
    assert "rules" not in published(POLICY)


def test_what_is_absent_is_left_out_of_the_published_shape() -> None:
    """The published shape of an empty document has the required members only."""
    assert published("") == {"isPolicy": False, "use": [], "deny": [], "needs": {}, "steps": []}


def test_the_last_of_repeated_declarations_counts() -> None:
    """Of several headers, goals or budgets, the last one counts."""
    shape = published('task a v0\npolicy b v1\ntask c v2\ngoal "1"\ngoal "2"\nbudget calls=1\nbudget calls=2')
    assert shape["isPolicy"]
    assert shape["agent"] == {"name": "c", "version": "2"}
    assert (shape["goal"], shape["budget"]) == ("2", {"calls": 2})


@for_each(
    ("text", "value"),
    [
        ('"a, b"', "a, b"),
        ("'a'", "a"),
        ("a", "<a>"),
        ("a.b-c.d", "<a.b-c.d>"),
        ("true", True),
        ("false", False),
        ("null", "<null>"),
        ("-1.5e3", -1500.0),
        ("1.2.3", "1.2.3"),
        ("npm test", "npm test"),
        ("src/a.ts", "src/a.ts"),
        ("[]", []),
        ("[ a, 'x', [1] , ]", ["<a>", "x", [1]]),
        ("[a", "[a"),
        ("[a) ]", ["a)"]),
        ("{a: 1, b: {c: [x]}, 'd e': \"f: g, h\"}", {"a": 1, "b": {"c": ["<x>"]}, "d e": "f: g, h"}),
        ("{\n  a: 1,\n  // a: 2\n  b: it's done, all of it\n  c: :(\n}", {"a": 1, "b": "it's done, all of it", "c": ":("}),
        ("{a}", {"a": None}),
        ("{}", {}),
        ('"open', '"open'),
        ('"a" and "b"', 'a" and "b'),
        ("", ""),
        ("'", "'"),
    ],
)  # fmt: skip
def test_values_are_expressions(text: str, value: Any) -> None:
    """Literals, lists, objects and dotted paths are values, nested and on one line."""
    assert plain(parse_value(Word(text, 1, 1))) == value


def test_quotes_and_brackets_protect_commas_of_arguments() -> None:
    """A comma in quotes or brackets separates nothing."""
    found = arguments(Word("a=\"x, y\", b=[1, 2], c = f(1, 2), it's=1, d='z, =', , e", 1, 1))
    assert [(entry.key.text, entry.raw) for entry in found] == [
        ("a", '"x, y"'),
        ("b", "[1, 2]"),
        ("c", "f(1, 2)"),
        ("it's", "1"),
        ("d", "'z, ='"),
        ("e", ""),
    ]


def test_a_quoted_text_is_told_from_a_bare_name() -> None:
    """Quotes make a literal, also of a text that is a name."""
    quoted, bare = parse_value(Word('"a"', 1, 1)), parse_value(Word("a", 1, 1))
    assert isinstance(quoted, Text)
    assert quoted.quoted
    assert isinstance(bare, Name)


def test_pieces_of_values_know_their_places() -> None:
    """Each name inside a value has its line and column, also in a value of several lines."""
    document = examine('task t v0\ngoal "g"\n  do x( a = [b, {k: c}] ) -> d\nreturn {\n  k: [\n    e, f\n  ]\n}')
    names = [
        name.word
        for step in document.steps
        if isinstance(step, DoStep)
        for e in step.arguments
        for name in expr.parts(e.value, Name)
    ]
    names += [
        name.word for step in document.steps if isinstance(step, ReturnStep) for name in expr.parts(step.value, Name)
    ]
    assert [(word.text, word.line, word.column) for word in names] == [
        ("b", 3, 14), ("c", 3, 21), ("e", 6, 5), ("f", 6, 8),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "balance"), [("{", 1), ("{}", 0), ('"{" }', -1), ("it's {", 1), ("'{' {{", 2), ('" {', 1), ("", 0)]
)
def test_braces_in_literals_do_not_count(line: str, balance: int) -> None:
    """The balance of a line counts braces outside of closed string literals only."""
    assert brace_balance(line) == balance


def test_a_return_block_ends_where_its_braces_balance() -> None:
    """An object over several lines is one value."""
    shape = published('task t v0\ngoal "g"\nreturn {\n  a: "}"\n\n# kept\n  b: {x: 1}\n}\nconfirm before x')
    assert shape["returnStatement"] == '{\n  a: "}"\n\n# kept\n  b: {x: 1}\n}'
    assert [step["kind"] for step in shape["steps"]] == ["return", "confirm"]
    assert published('task t v0\nreturn "{"\ncheck a')["steps"][1]["kind"] == "check"


@for_each(
    ("text", "value"),
    [
        ("", 0), (" 7 ", 7), ("1e2", 100), ("0x10", 16), ("0b11", 3), ("0o17", 15), ("-.5", -0.5), ("5.", 5),
        ("1_000", None), ("nan", None), ("inf", None), ("0x", None), ("0xg", None), ("0x1_0", None), ("-0x1", None),
        ("1e", None), ("--1", None), ("\u0661", None), ("x", None),
    ],
)  # fmt: skip
def test_numbers_are_read_as_v0_reads_them(text: str, value: float | None) -> None:
    """Decimal, hexadecimal, octal and binary numbers are read; any other text is no number."""
    assert number(text) == value


def test_comments_stand_in_the_block_they_are_indented_for() -> None:
    """A comment belongs to the block that its indentation fits."""
    tree = build("if a\n  # in\n  do x()\n  # in too\n\n# out\ncheck b\n")
    assert [(node.kind, node.first) for node in tree.nodes] == [
        ("if", 0), ("blank", 4), ("comment", 5), ("check", 6), ("blank", 7),
    ]  # fmt: skip
    assert [(node.kind, node.first) for node in tree.nodes[0].children] == [("comment", 1), ("do", 2), ("comment", 3)]


def test_a_body_ends_before_a_line_that_is_indented_less() -> None:
    """The lines of a `make` or `return` body end where the indentation does."""
    text = "if a\n    do x()\n      do y()\n    make m: t from a with:\n    - one\n    return {\n  k: 1\n    }"
    kinds = [(node.kind, node.first, node.last) for node in walk(build(text).nodes)]
    assert ("make", 3, 4) in kinds
    assert ("return", 5, 5) in kinds


@for_each("path", sorted(EXAMPLES.rglob("*.aex")), ids=lambda path: path.name)
def test_the_examples_have_no_finding(path: Path) -> None:
    """Each contract under examples/ is valid without warnings."""
    assert examine(path.read_text()).findings == []


def test_the_examples_of_the_specification_have_no_finding() -> None:
    """Every block that the specification shows can be copied."""
    text = (EXAMPLES.parent / "spec" / "aex.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```aex\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        assert examine(block).findings == []


def test_what_init_writes_has_no_finding() -> None:
    """The policy and the sample task of `adjourn init` are valid without warnings."""
    assert examine(POLICY).findings == []
    assert examine(sample_task()).findings == []
    assert examine(sample_task("fix it/now")).name == "fix_it_now"
    assert safe_name("") == "_"


def test_public_names_are_lazy_and_sorted() -> None:
    """`dir(adjourn.aex)` lists the public names in order, and any other name raises AttributeError."""
    names = adjourn.aex.__all__
    assert dir(adjourn.aex) == sorted(names)
    for name in names:
        assert getattr(adjourn.aex, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = adjourn.aex.nothing  # type: ignore[attr-defined]  # that is the test
