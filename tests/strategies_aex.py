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

_OPERATORS = st.sampled_from(["is", "in", "matches", "~", "<=", "==", "and", ""])
_STATEMENTS = st.one_of(
    st.builds(
        "{} {} v{}".format,
        st.sampled_from(["task", "agent", "policy"]),
        NAMES,
        st.sampled_from(["0", "1", "1", "x"]),
    ),
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
    st.builds(
        "{} {} where {} {} {}".format,
        st.sampled_from(["use", "deny", "confirm before"]),
        TOOLS,
        NAMES,
        _OPERATORS,
        VALUES,
    ),
    st.builds("confirm before {} by {} within {} else {}".format, TOOLS, NAMES, VALUES, NAMES),
    st.builds("limit {} {} per {}".format, TOOLS, VALUES, st.sampled_from(["day", "week", ""])),
    st.builds("once {} by {}".format, TOOLS, NAMES),
    st.builds("checkpoint before {}, at {}%".format, TOOLS, VALUES),
    st.builds("{} {}".format, st.sampled_from(["mode", "require signed by", "checkpoint at"]), NAMES),
    st.builds("if {}".format, NAMES),
    st.builds("for {} in {}".format, NAMES, VALUES),
    st.sampled_from(["use", "if", "- item", "confirm x", "else", "use\tx", "}", '"']),
)

lines = st.builds("{}{}{}".format, INDENTS, _STATEMENTS, ENDS)
documents = st.lists(lines, max_size=20).map("".join)
mutations = st.tuples(st.integers(0, 400), st.integers(0, 30), st.text(max_size=3))


def mutated(document: str, changes: list[tuple[int, int, str]]) -> str:
    """The text with pieces replaced: start, length and what stands there instead."""
    for start, length, text in changes:
        document = document[:start] + text + document[start + length :]
    return document


texts = st.one_of(
    documents, st.builds(mutated, documents, st.lists(mutations, max_size=4)), st.text(max_size=200)
)

tool_names = st.text("abcXYZ019_.-/", min_size=1, max_size=24)
patterns = st.one_of(st.just("*"), tool_names, tool_names.map(lambda name: name + ".*"))

# Version 1: calls, and the rules that say what becomes of them

_SCALARS = st.sampled_from(["x", "X", "git status", "", 0, 1, 2.5, True, False, None, "\ud800"])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["b", "c"]), inner, max_size=2)
    ),
    max_leaves=6,
)
arguments = st.dictionaries(st.sampled_from(["a", "b"]), _VALUES, max_size=2)
_ARGUMENT = st.sampled_from(["a", "b", "a.b", "a.b.c"])
_TESTS = st.one_of(
    st.builds("{} is {}".format, _ARGUMENT, st.sampled_from(['"x"', "1", "true"])),
    st.builds("{} in {}".format, _ARGUMENT, st.sampled_from(['["x", 1]', '["git status"]', "[0, 2.5]"])),
    st.builds("{} matches {}".format, _ARGUMENT, st.sampled_from(['"*"', '"git *"', '"?"'])),
    st.builds("{} ~ {}".format, _ARGUMENT, st.sampled_from(['"^x$"', '"(?i)^x"', '"t"'])),
    st.builds(
        "{} {} {}".format, _ARGUMENT, st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from(["1", "2.5"])
    ),
)
wheres = st.lists(_TESTS, min_size=1, max_size=2).map(lambda tests: "where " + " and ".join(tests))
_NAMED = st.sampled_from(["*", "t", "t.*", "t.a", "u", "T", "t_a"])
_SCOPES = st.sampled_from(["", "", ":src/**", ":src/a/*", ":docs/*", ":**"])
scoped_patterns = st.builds("{}{}".format, _NAMED, _SCOPES)
_CLAUSES = st.one_of(st.just(""), st.just(""), wheres)
_ALLOWS = st.builds("use {} {}".format, scoped_patterns, _CLAUSES)
_DENIES = st.builds("deny {} {}".format, scoped_patterns, _CLAUSES)
_CONFIRMS = st.builds(
    "confirm before {} {}{}{}{}".format,
    scoped_patterns,
    _CLAUSES,
    st.sampled_from(["", " by human", " by alice"]),
    st.sampled_from(["", " within 5m", " within 1h"]),
    st.sampled_from(["", " else allow", " else deny"]),
)
_OTHERS = st.one_of(
    st.builds("limit {} {} per {}".format, _NAMED, st.integers(1, 9), st.sampled_from(["second", "day"])),
    st.builds("once {} by a".format, _NAMED),
    st.builds("checkpoint before {}, at {}%".format, _NAMED, st.integers(1, 100)),
    st.builds(
        "budget {}={}".format,
        st.sampled_from(["calls", "minutes", "tokens", "usd"]),
        st.sampled_from(["0", "5", "9"]),
    ),
)
rule_lines = st.lists(st.one_of(_ALLOWS, _ALLOWS, _DENIES, _CONFIRMS, _OTHERS), max_size=8)
call_tools = st.sampled_from(["t", "t.a", "t.b", "u", "T", "t_a", "t/a", "v"])
call_paths = st.lists(st.sampled_from(["src/x", "src/a/b", "docs/c", "SRC/a/x", "etc"]), max_size=2)
