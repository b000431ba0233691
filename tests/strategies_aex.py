"""Strategies for texts of the contract language: well-formed, mutilated, and anything at all."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b.c", "x-y", "patch", "target_files", "final.passed", "it's", "1", ""])
TOOLS = st.sampled_from(
    ["file.read", "file.*", "*", "git.push", "net_*", "x y", "file.read:src/**", ".*", ""]
)
VALUES = st.sampled_from(
    [
        "a",
        '"a, b"',
        "'x",
        "[a, [b]]",
        "{k: a, j: {x: 1}}",
        "12",
        "-.5",
        "true",
        "a.b.c",
        "((",
        "}",
        "it's, b",
        "",
    ]
)
INDENTS = st.sampled_from(["", " ", "  ", "    ", "\t", "\ufeff", "\u00a0 "])
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\n# note\n"])

_STATEMENTS = st.one_of(
    st.builds("{} {} v{}".format, st.sampled_from(["task", "agent", "policy"]), NAMES, NAMES),
    st.builds('goal "{}"'.format, VALUES),
    st.builds("{} {}, {}".format, st.sampled_from(["use", "allow", "deny"]), TOOLS, TOOLS),
    st.builds("need {}: {}".format, NAMES, st.sampled_from(["str", "list[file]", "json??", "lst", ""])),
    st.builds("budget {}={}".format, st.sampled_from(["calls", "usd"]), VALUES),
    st.builds("do {}({}={}, {}) -> {}".format, TOOLS, NAMES, VALUES, VALUES, NAMES),
    st.builds("make {}: t from {}, {} with:\n - one\n- two".format, NAMES, NAMES, NAMES),
    st.builds(
        "check {} {} {}".format, NAMES, st.sampled_from(["has", "touches only", "does not include"]), VALUES
    ),
    st.builds("check {}".format, NAMES),
    st.builds("confirm before {}".format, TOOLS),
    st.builds("return {}".format, VALUES),
    st.builds("return {{\n  {}: {}\n{}".format, NAMES, VALUES, st.sampled_from(["}", "", "  }", "x }"])),
    st.builds("if {}".format, NAMES),
    st.builds("for {} in {}".format, NAMES, VALUES),
    st.sampled_from(["use", "if", "- item", "confirm x", "else", "use\tx", "}", '"']),
)

lines = st.builds("{}{}{}".format, INDENTS, _STATEMENTS, ENDS)
documents = st.lists(lines, max_size=20).map("".join)
mutations = st.tuples(st.integers(0, 400), st.integers(0, 30), st.text(max_size=3))


def _mutated(document: str, changes: list[tuple[int, int, str]]) -> str:
    for start, length, text in changes:
        document = document[:start] + text + document[start + length :]
    return document


texts = st.one_of(
    documents, st.builds(_mutated, documents, st.lists(mutations, max_size=4)), st.text(max_size=200)
)

tool_names = st.text("abcXYZ019_.-/", min_size=1, max_size=24)
patterns = st.one_of(st.just("*"), tool_names, tool_names.map(lambda name: name + ".*"))
