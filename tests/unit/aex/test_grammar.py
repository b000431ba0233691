"""The grammar as an oracle: what it makes is read without an error, and what is read without an error it makes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark
from lark import Lark
from lark.exceptions import UnexpectedInput

from adjourn.aex.check import examine
from adjourn.aex.tree import Tree, TreeNode, unparse
from support import strategies
from support.campaign import scaled

ROOT = Path(__file__).parents[3]
SPEC = (ROOT / "spec" / "aex.lark").read_text(encoding="utf-8")
GRAMMAR = Lark(SPEC, start=["start", "policy_line", "rule", "policy_rule", "block"])
MARKED = Lark(SPEC.replace("%declare _INDENT _DEDENT", '_INDENT: "\x01"\n_DEDENT: "\x02"'), start="start")
"""The same for texts whose indentation is marked."""
OF_THE_PARSER = {"AEX040", "AEX100", "AEX120", "AEX121", *(f"AEX{number}" for number in range(139, 147))}
OF_ITS_MEANING = ("there are two", "is longer than a year", "cannot use the expression")
"""What errors of these codes say where the form is right."""
V1 = 'policy p v1\ngoal "g"\n'
HARD = settings(suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.reuse, Phase.generate])


def laid_out(text: str) -> str:
    """The text with its marks of indentation turned into blanks at the beginning of lines."""
    lines, depth = [], 0
    for line in text.split("\n"):
        depth += line.count("\x01") - line.count("\x02")
        lines.append("  " * depth + line.replace("\x01", "").replace("\x02", ""))
    return "\n".join(lines)


def made(start: str) -> st.SearchStrategy[str]:
    """Texts that the grammar makes."""
    explicit = {"_INDENT": st.just("\x01"), "_DEDENT": st.just("\x02"), "_S": st.sampled_from([" ", "  ", "\t"])}
    return from_lark(
        GRAMMAR, start=start, explicit=explicit, alphabet=st.characters(codec="utf-8", exclude_characters="\x01\x02")
    )


def errors(text: str) -> list[str]:
    """The error findings of a text that speak of its form."""
    return [
        found.message
        for found in examine(text).findings
        if found.code in OF_THE_PARSER
        and found.severity == "error"
        and not any(said in found.message for said in OF_ITS_MEANING)
    ]


@example(
    'agent a v1\ngoal "g"\nfor one\tin\t{a: b}\n\x01do x.y()\n\x02return 1'
)  # a colon, and no blank before it but tabs
@given(made("start"))
@HARD
def test_what_the_grammar_makes_is_read_without_an_error(text: str) -> None:
    """Whole policies and tasks of both versions, with bodies, comments, make items and blocks."""
    text = laid_out(text)
    assert errors(text) == []
    assert unparse(examine(text).tree) == text


@given(made("start"), st.lists(strategies.text_mutations, min_size=1, max_size=4))
@HARD
def test_what_is_made_of_it_by_accident_is_read_or_reported(text: str, changes: list[tuple[int, int, str]]) -> None:
    """Parsing a mutilated text never raises and keeps every byte."""
    text = strategies.mutated(laid_out(text), changes)
    assert unparse(examine(text).tree) == text


SEEDS = st.sampled_from(
    [
        'allow shell.exec, git.* where cmd matches "git *" and options.depth <= 3',
        "deny a.b where x in [\"p\", 'q', 1.5] and y is true",
        'confirm before a, b where x ~ "^a, b$" by human within 10m else deny',
        "confirm before deploy.* by group:/leads",
        "limit network.fetch, a 10 per minute",
        "once payments.charge by invoice.id",
        "checkpoint before deploy.*, a, at 75%, 90%",
        "mode observe",
        "require signed by alice, bob",
    ]
)
PIECES = st.sampled_from(
    [" ", "  ", ",", ", ", '"', "'", "[", "]", "where", " where ", " and ", "by", " by ", "at", "per", "is ", "<", "=", "~", "1", "%",
     "0", ".", "-", "x", "in", "within 5m", " else allow", "before", "matches "]
)  # fmt: skip
EDITS = st.lists(st.tuples(st.integers(0, 70), st.integers(0, 6), PIECES | st.just("")), max_size=3)


@example('allow -exec,.* where cmd matches "git *" and -s.depth <= 3', [])  # the prefix of a pattern may be empty
@given(SEEDS, EDITS)
@HARD
def test_a_rule_that_is_read_without_an_error_is_of_the_grammar(line: str, edits: list[tuple[int, int, str]]) -> None:
    """A line of version 1, changed at random, has an error finding unless the grammar makes it."""
    line = strategies.mutated(line, edits).strip(" ")
    if not line or any(found.severity == "error" for found in examine(V1 + line).findings):
        return
    for start in ("rule", "policy_rule", "policy_line"):
        try:
            GRAMMAR.parse(line, start=start)
        except UnexpectedInput:
            continue
        return
    pytest.fail(f"the parser reads what the grammar does not make: {line!r}")


WHOM = st.sampled_from(["for group:ops", "for user:ann@example.com, service:ci", "for group:org:team/a"])
BLOCK_RULES = st.sampled_from(
    [
        "  allow a.*, b",
        '  deny a where x is "y"',
        "  confirm before a by human within 5m",
        "  limit a, b 3 per day",
        "  budget calls=5 per day each principal, minutes=3",
    ]
)
BLOCK_PIECES = PIECES | st.sampled_from([":", "for ", "group:", "user:", "\n", "\n  ", " each principal", "*"])
BLOCK_EDITS = st.lists(st.tuples(st.integers(0, 70), st.integers(0, 6), BLOCK_PIECES | st.just("")), max_size=3)


@example("for group:ops", ["  allow a.*, b"], [(4, 0, ",")])  # a list may begin with a comma
@example("for group:ops", ["  allow a.*, b"], [(27, 0, ":for :a")])  # a scope is any text
@example("for group:ops", ["  allow a.*, b"], [(27, 0, " :a")])  # behind a colon among blanks
@given(WHOM, st.lists(BLOCK_RULES, min_size=1, max_size=3), BLOCK_EDITS)
@HARD
def test_a_block_that_is_read_without_an_error_is_of_the_grammar(
    whom: str, rules: list[str], edits: list[tuple[int, int, str]]
) -> None:
    """Rules for somebody, changed at random, have an error finding unless the grammar makes the whole policy."""
    text = "policy p v1\n" + strategies.mutated("\n".join([whom, *rules, ""]), edits)
    document = examine(text)
    if not document.blocks or any(found.code in ("AEX048", "AEX042") for found in document.findings):
        return
    if any(found.severity == "error" for found in document.findings):
        return
    try:
        MARKED.parse(_marked(document.tree))
    except UnexpectedInput:
        pytest.fail(f"the parser reads what the grammar does not make: {text!r}")


def _marked(tree: Tree) -> str:
    """The statements with marks in the place of the indentation of blocks."""

    def lines(nodes: Sequence[TreeNode]) -> str:
        text = ""
        for node in nodes:
            if node.kind not in ("blank", "comment"):
                inner = lines(node.children)
                text += f"{tree.word(node).text}\n" + (f"\x01{inner}\x02" if inner else "")
        return text

    return lines(tree.nodes)


def _rules(size: int) -> str:
    line = 'allow shell.exec, git.* where cmd matches "git *" and options.depth <= 3 and x in ["a", "b"]\n'
    return V1 + line * (size // len(line))


def _one_line(size: int) -> str:
    return V1 + "confirm before a where " + 'x is "a" and ' * (size // 13) + 'x is "a" by human'


def _marks(size: int) -> str:
    return V1 + "deny a where x in [" + "\"' ([ " * (size // 7)


def _keywords(size: int) -> str:
    return V1 + "confirm before a" + " by where within else and" * (size // 25)


def _steps(size: int) -> str:
    step = 'do file.read(paths=[a, b], mode="x, y") -> z\n'
    return 'task p v1\ngoal "g"\nuse file.*\nneed a: str\n' + step * (size // len(step)) + "return z"


def _lists(size: int) -> str:
    line = "deny " + "secrets.read, network.*, " * 400 + 'a where x in ["' + "x" * 2000 + '"]\n'
    return V1 + line * (size // len(line))


SMALL = [(shape, scaled(100_000)) for shape in (_rules, _one_line, _marks, _keywords, _steps)]


@pytest.mark.parametrize(("shape", "size"), [*SMALL, (_lists, scaled(990_000))])
def test_time_grows_with_the_text_and_not_faster(shape: Callable[[int], str], size: int) -> None:
    """Ten times the text takes about ten times as long; in a campaign once up to the most that a document may have."""
    gc.disable()  # a collection costs by what the tests before left
    try:
        took = [_seconds(shape(size)), _seconds(shape(10 * size))]
    finally:
        gc.enable()
    assert took[1] < 40 * took[0]


def _seconds(text: str) -> float:
    """Processor time, the least of three: what else runs here can only add to it."""
    took = []
    for _ in range(3):
        began = time.process_time()
        document = examine(text)
        took.append(time.process_time() - began)
        assert document.tree.looked_at
    return min(took)
