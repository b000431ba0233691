"""Properties over any text: nothing raises, every byte is kept, every finding points into the text."""

from __future__ import annotations

import time

from hypothesis import given

from adjourn.aex import from_text, merge, review
from adjourn.aex.check import examine
from adjourn.aex.diagnostics import DIAGNOSTICS, render
from adjourn.aex.parser import parse
from adjourn.aex.shape import model
from adjourn.aex.tree import unparse, walk
from support import strategies
from support.campaign import scaled, scaled_seconds
from support.cases import for_each

HEAD = 'task t v0\ngoal "g"\nuse file.*\nneed a: str\n'
SHAPES = {
    "steps": HEAD + 'do file.read(paths=a, b="x, y") -> z\n' * scaled(26_000),
    "unknown lines": HEAD + "zzz zzz zzz zzz zzz\n" * scaled(50_000),
    "bodies": HEAD + "if a\n  do file.read(x=a)\n" * scaled(38_000),
    "one list": HEAD + "use " + "a.b.c.d.e," * scaled(100_000),
    "brackets": HEAD + "return " + "[" * scaled(500_000) + "]" * scaled(500_000),
    "stray brackets": HEAD + "do file.read(" + "([{)" * scaled(250_000),
    "quotes": HEAD + "do file.read(" + "\" '" * scaled(330_000) + ")",
    "open blocks": HEAD + "return {\n" * scaled(110_000),
    "deeper and deeper": HEAD + "".join(" " * i + "if a\n" for i in range(scaled(1300))),
    "a path": HEAD + "check " + "a." * scaled(500_000),
    "blanks": HEAD + "\n" * scaled(190_000),
}


@given(strategies.contract_texts)
def test_a_tree_gives_back_its_text_and_holds_each_line_once(text: str) -> None:
    """The tree of any text writes the same text again, and each line is in exactly one node."""
    tree = parse(text).tree
    assert unparse(tree) == text
    seen = [index for node in walk(tree.nodes) for index in range(node.first, node.last + 1)]
    assert seen == list(range(text.count("\n") + 1))


@given(strategies.contract_texts)
def test_no_text_raises_and_every_finding_is_registered_and_in_the_text(text: str) -> None:
    """Any text can be examined: findings have a registered code, a message, help and a place in the text."""
    document = examine(text, "any.aex")
    lines = text.split("\n")
    model(document)
    for found in document.findings:
        assert found.code in DIAGNOSTICS
        assert found.message
        assert found.help
        assert all(line.replace("\t", "").isprintable() for line in render(found, text).split("\n"))
        if found.span.line:
            line = lines[found.span.line - 1]
            assert 1 <= found.span.column <= len(line) + 1
            assert found.span.column - 1 + found.span.length <= len(line)
        else:
            assert found.span.length == 0


@given(strategies.contract_documents, strategies.contract_documents)
def test_a_merge_never_permits_what_the_policy_does_not(one: str, other: str) -> None:
    """A merge allows a call only if the policy and the contract do, and its budget is not larger than the policy's."""
    policy, contract = from_text(one, "p")[0], from_text(other, "c")[0]
    merged = merge(policy, contract)
    review(other, "c", policy)
    for tool in ("file.read", "file.write", "git.push", "x", "file"):
        if merged.judge(tool).effect == "allow":
            assert policy.judge(tool).effect == "allow"
            assert contract.judge(tool).effect == "allow"
    assert merged.budget is None or policy.budget is None or merged.budget <= policy.budget


@for_each("text", SHAPES.values(), ids=SHAPES.keys())
def test_a_megabyte_of_any_shape_is_examined_in_seconds(text: str) -> None:
    """The time to examine a text grows in proportion to its size, whatever its shape."""
    started = time.process_time()
    document = examine(text)
    assert time.process_time() - started < scaled_seconds(30)  # quadratic work takes ten times as long
    assert unparse(document.tree) == text
