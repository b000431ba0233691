"""Diagnostics: every code is produced by a text, every finding points at what is wrong, the reference is current."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from adjourn.aex import KnownTool, KnownTools, effective, from_text, unmatched_rules
from adjourn.aex.ast import check_inputs, is_of, known_type
from adjourn.aex.check import MAX_FINDINGS, examine
from adjourn.aex.diagnostics import DIAGNOSTICS, reference, render
from adjourn.aex.json_policy import read_json_policy
from adjourn.aex.seal import check_sealed
from adjourn.aex.tree import DECLARATIONS, STEPS, V1_RULES
from adjourn.findings import Finding, Span
from support.cases import for_each

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "diagnostics.md"

TASK = 'task t v0\ngoal "g"\nuse file.*, git.push\nneed a: str\nneed items: list[str]\n'  # lines 1 to 5
POLICY = 'policy p v0\ngoal "g"\n'
V1 = 'policy p v1\ngoal "g"\n'
DEEP = "".join(" " * depth + "if a\n" for depth in range(66)) + " " * 66 + "return a"

# code, severity, 1-based line (0: whole document), the text under the span, the source
CASES = [
    ("AEX001", "error", 0, "", 'goal "g"\nreturn 1'),
    ("AEX002", "error", 0, "", 'task t v0\ngoal ""\nreturn 1'),
    ("AEX002", "error", 0, "", "policy p v0"),
    ("AEX003", "error", 0, "", TASK + "do file.read()"),
    ("AEX004", "error", 1, "policy p v9", 'policy p v9\ngoal "g"'),
    ("AEX004", "error", 1, "policy p v2.0", 'policy p v2.0\ngoal "g"'),
    ("AEX004", "error", 1, "task t v10", 'task t v10\ngoal "g"\nreturn 1'),
    ("AEX010", "error", 6, "shell.exec", TASK + "do shell.exec()\nreturn a"),
    ("AEX010", "error", 7, "x", TASK + "if a\n  do x()\nreturn a"),
    ("AEX010", "error", 6, "File.read", TASK + "do File.read()\nreturn a"),
    ("AEX011", "error", 7, "git.push", TASK + "deny GIT_*, git-push\ndo git.push()\nreturn a"),
    ("AEX020", "error", 6, "b", TASK + "make c: diff from a, b with:\nreturn c"),
    ("AEX020", "error", 6, "a.b", TASK + "make c: diff from a.b with\nreturn c"),
    ("AEX020", "error", 8, "x", TASK + "for i in items\n  do file.read() -> x\nmake c: d from x with:\nreturn c"),
    ("AEX032", "error", 6, "text", TASK + "need b: text\nreturn b"),
    ("AEX032", "error", 6, "list[text]?", TASK + "need b: list[text]?\nreturn b"),
    ("AEX040", "error", 8, "do git.push()", TASK + "if a\n    do file.read()\n  do git.push()\nreturn a"),
    ("AEX041", "error", 3, "net_*", POLICY + "deny net_*"),
    ("AEX041", "error", 3, "network.* # and more", POLICY + "deny network.* # and more"),
    ("AEX041", "error", 3, "*.read", POLICY + "confirm before *.read"),
    ("AEX041", "error", 6, "file.*", TASK + "do file.*()\nreturn a"),
    ("AEX041", "warning", 7, "file.*", TASK + "if a\n  do file.*()\nreturn a"),
    ("AEX042", "warning", 3, "policy q v0", POLICY + "policy q v0"),
    ("AEX042", "warning", 3, "g", POLICY + 'goal "g"'),
    ("AEX042", "warning", 6, "a", TASK + "need a: num\nreturn a"),
    ("AEX042", "warning", 3, "x", POLICY + "allow x, y, x"),
    ("AEX042", "warning", 4, "x", POLICY + "deny x\ndeny x"),
    ("AEX042", "warning", 3, "calls", POLICY + "budget calls=1, calls=2"),
    ("AEX042", "warning", 6, "b", TASK + "do file.read(b=a, b=a)\nreturn a"),
    ("AEX042", "warning", 8, "k", TASK + "return {\n  k: a\n  k: 1\n}"),
    ("AEX043", "error", 6, "nothere.passed", TASK + "check nothere.passed\nreturn a"),
    ("AEX043", "error", 6, "files", TASK + "check a touches only files\nreturn a"),
    ("AEX043", "warning", 6, "b", TASK + 'check b does not include "x"\nreturn a'),
    ("AEX043", "warning", 7, "b", TASK + "if a\n  check b\nreturn a"),
    ("AEX043", "warning", 8, "b", TASK + "if a\n  return a\ncheck b\nreturn a"),
    ("AEX043", "warning", 6, "b", TASK + "if b\n  do file.read()\nreturn a"),
    ("AEX043", "error", 6, "list", TASK + "for x in list\n  do file.read()\nreturn a"),
    ("AEX043", "warning", 8, "x", TASK + "for x in items\n  do file.read()\ndo file.read(p=x)\nreturn a"),
    ("AEX043", "warning", 6, "README.md", TASK + "do file.read(paths=[a, README.md])\nreturn a"),
    ("AEX043", "warning", 7, "b", TASK + "return {\n  k: {j: b}\n}"),
    ("AEX044", "error", 6, "a is fine", TASK + "check a is fine\nreturn a"),
    ("AEX044", "error", 6, "a==1", TASK + "check a==1\nreturn a"),
    ("AEX044", "warning", 6, "a is fine", TASK + "if a is fine\n  do file.read()\nreturn a"),
    ("AEX045", "warning", 7, "do file.read()", TASK + "return a\ndo file.read()"),
    ("AEX045", "warning", 8, "check a", TASK + "if a\n  return a\n  check a\nreturn a"),
    ("AEX046", "warning", 3, "usd", POLICY + "budget usd=3"),
    ("AEX046", "error", 3, "1e300", POLICY + "budget calls=1e300"),
    ("AEX046", "error", 3, "9007199254740993", POLICY + "budget calls=9007199254740993"),
    ("AEX047", "warning", 3, "calls", POLICY + "budget calls="),
    ("AEX047", "warning", 3, "-1", POLICY + "budget calls=-1"),
    ("AEX047", "warning", 3, "1.5", POLICY + "budget calls = 1.5"),
    ("AEX047", "warning", 6, "path", TASK + "do file.read(path)\nreturn a"),
    ("AEX047", "warning", 6, '"x', TASK + 'do file.read(path="x)\nreturn a'),
    ("AEX047", "warning", 6, "k", TASK + "return {k}"),
    ("AEX048", "warning", 6, "if a", TASK + "if a\nreturn a"),
    ("AEX048", "warning", 6, "for x in items", TASK + "for x in items\nreturn a"),
    ("AEX048", "warning", 6, "net.*", TASK + "confirm before net.*\nreturn a"),
    ("AEX049", "error", 6, "3", TASK + "for x in 3\n  do file.read()\nreturn a"),
    ("AEX049", "error", 6, '"items"', TASK + 'for x in "items"\n  do file.read()\nreturn a'),
    ("AEX049", "warning", 7, "{k: 1}", TASK + "if a\n  for x in {k: 1}\n    do file.read()\nreturn a"),
    ("AEX100", "error", 0, "", "# nothing"),
    ("AEX100", "error", 1, "task t", "task t"),
    ("AEX100", "error", 1, "agent t vx", "agent t vx"),
    ("AEX100", "error", 2, "goal g", "task t v0\ngoal g"),
    ("AEX100", "error", 2, 'goal "g" # why', 'task t v0\ngoal "g" # why'),
    ("AEX100", "error", 6, "need b str", TASK + "need b str\nreturn a"),
    ("AEX100", "error", 3, "calls=many", POLICY + "budget calls=many"),
    ("AEX100", "error", 3, "5", POLICY + "budget 5"),
    ("AEX100", "error", 6, "do file-read()", TASK + "do file-read()\nreturn a"),
    ("AEX100", "error", 6, "do file.read() -> a b", TASK + "do file.read() -> a b\nreturn a"),
    ("AEX100", "error", 6, "make b from a with:", TASK + "make b from a with:\n- x\nreturn a"),
    ("AEX100", "error", 6, "make b: c from a", TASK + "make b: c from a\nreturn a"),
    ("AEX100", "error", 6, "for x of items", TASK + "for x of items\n  do file.read()\nreturn a"),
    ("AEX100", "error", 6, "if", TASK + "if\n  do file.read()\nreturn a"),
    ("AEX100", "error", 6, "use\tgit", TASK + "use\tgit\nreturn a"),
    ("AEX100", "error", 6, "- stray", TASK + "- stray\nreturn a"),
    ("AEX100", "error", 7, "deny x", TASK + "if a\n  deny x\nreturn a"),
    ("AEX100", "error", 6, "return {", TASK + "return {\n  k: a"),
    ("AEX120", "error", 3, "do file.read()", POLICY + "do file.read()"),
    ("AEX120", "error", 1, "need b: str", "need b: str\n" + POLICY),
    ("AEX120", "error", 3, "make b: c from d with:", POLICY + "make b: c from d with:\n - x"),
    ("AEX121", "error", 6, "allow x", TASK + "allow x\nreturn a"),
    ("AEX131", "error", 0, "", "\n" * 200_000),
    ("AEX131", "error", 0, "", "\xe4" * 6_000_000),
    ("AEX133", "error", 70, "if a", TASK + DEEP + "\nreturn a"),
    ("AEX133", "warning", 6, "[" * 70 + "]" * 70, TASK + "return " + "[" * 70 + "]" * 70),
    ("AEX137", "error", 0, "", "x\n" * (MAX_FINDINGS + 1)),
    ("AEX041", "error", 3, "a:src/**", V1 + "limit a:src/** 1 per day"),
    ("AEX041", "error", 3, "a b", V1 + "once a b by x"),
    ("AEX041", "error", 3, "*.x", V1 + "checkpoint before *.x"),
    ("AEX041", "error", 3, "where cmd is 1", V1 + "allow where cmd is 1"),
    ("AEX041", "error", 3, "a, b", POLICY + "confirm before a, b"),
    ("AEX042", "warning", 4, "mode observe", V1 + "mode observe\nmode observe"),
    ("AEX042", "error", 4, "mode enforce", V1 + "mode observe\nmode enforce"),
    ("AEX046", "warning", 3, "tokens", POLICY + "budget tokens=5"),
    ("AEX046", "error", 3, "token", V1 + "budget token=5"),
    ("AEX046", "error", 3, "1e300", V1 + "budget tokens=1e300"),
    ("AEX047", "warning", 3, "-1", V1 + "budget usd=-1"),
    ("AEX139", "error", 3, "per day", POLICY + "budget calls=5 per day"),
    ("AEX143", "error", 3, "week", V1 + "budget calls=5 per week"),
    ("AEX046", "error", 3, "day", V1 + "budget usd=5 per day"),
    ("AEX042", "warning", 3, "calls", V1 + "budget calls=5 per day, calls=6 per day"),
    ("AEX047", "warning", 3, "file.read:/etc/**", POLICY + "deny file.read:/etc/**"),
    ("AEX047", "warning", 3, '"git"', V1 + 'allow x where cmd ~ "git"'),
    ("AEX048", "warning", 3, "75%", V1 + "checkpoint at 75%"),
    ("AEX139", "error", 3, "where cmd is 1", POLICY + "allow x where cmd is 1"),
    ("AEX139", "error", 3, "where cmd is 1", POLICY + "deny x where cmd is 1"),
    ("AEX139", "error", 3, "where cmd is 1", POLICY + "confirm before x where cmd is 1"),
    ("AEX139", "error", 3, "by human", POLICY + "confirm before x by human within 5m"),
    ("AEX139", "error", 3, "within 5m", POLICY + "confirm before x by human within 5m"),
    ("AEX139", "error", 3, "else deny", POLICY + "confirm before x else deny"),
    ("AEX139", "error", 3, "limit x 1 per day", POLICY + "limit x 1 per day"),
    ("AEX139", "error", 3, "once x by y", POLICY + "once x by y"),
    ("AEX139", "error", 3, "checkpoint at 5%", POLICY + "checkpoint at 5%"),
    ("AEX139", "error", 3, "mode observe", POLICY + "mode observe"),
    ("AEX139", "error", 3, "require signed by a", POLICY + "require signed by a"),
    ("AEX139", "error", 3, "mode observe", 'policy p v1.0\ngoal "g"\nmode observe'),
    ("AEX139", "error", 1, "limit x 1 per day", "limit x 1 per day\n" + POLICY),
    ("AEX140", "error", 3, "where", V1 + "allow x where"),
    ("AEX140", "error", 3, '"a" is 1', V1 + 'allow x where "a" is 1'),
    ("AEX140", "error", 3, "a..b is 1", V1 + "allow x where a..b is 1"),
    ("AEX140", "error", 3, ".b is 2", V1 + "deny x where a is 1 and .b is 2"),
    ("AEX140", "error", 3, "a", V1 + "allow x where a"),
    ("AEX140", "error", 3, "==", V1 + "allow x where a == 1"),
    ("AEX140", "error", 3, "!=", V1 + "allow x where a != 1"),
    ("AEX140", "error", 3, "contains", V1 + 'allow x where a contains "b"'),
    ("AEX140", "error", 3, "is", V1 + "allow x where a is"),
    ("AEX140", "error", 3, "a is 1 and", V1 + "allow x where a is 1 and"),
    ("AEX141", "error", 3, "main", V1 + "allow x where a is main"),
    ("AEX141", "error", 3, "1 or b is 2", V1 + "allow x where a is 1 or b is 2"),
    ("AEX141", "error", 3, '"a" or b is "c"', V1 + 'allow x where a is "a" or b is "c"'),
    ("AEX141", "error", 3, "[]", V1 + "allow x where a in []"),
    ("AEX141", "error", 3, '"a"', V1 + 'allow x where a in "a"'),
    ("AEX141", "error", 3, "b", V1 + 'allow x where a in ["c", b]'),
    ("AEX141", "error", 3, "1", V1 + "allow x where a matches 1"),
    ("AEX141", "error", 3, "true", V1 + "allow x where a <= true"),
    ("AEX141", "error", 3, '"1"', V1 + 'allow x where a < "1"'),
    ("AEX141", "error", 3, "Infinity", V1 + "allow x where a < Infinity"),
    ("AEX142", "error", 3, '"(a"', V1 + 'deny x where a ~ "(a"'),
    ("AEX142", "error", 3, '"^(?=b)"', V1 + 'confirm before x where a ~ "^(?=b)"'),
    ("AEX142", "error", 3, '"' + "a" * 1001 + '"', V1 + 'deny x where a ~ "' + "a" * 1001 + '"'),
    ("AEX143", "error", 3, "0", V1 + "limit x 0 per day"),
    ("AEX143", "error", 3, "1.5", V1 + "limit x 1.5 per day"),
    ("AEX143", "error", 3, "1000001", V1 + "limit x 1000001 per day"),
    ("AEX143", "error", 3, "1e300", V1 + "limit x 1e300 per day"),
    ("AEX143", "error", 3, "9" * 400, V1 + f"limit x {'9' * 400} per day"),
    ("AEX143", "error", 3, "366d", V1 + "confirm before x within 366d"),
    ("AEX143", "error", 3, "999999999s", V1 + "confirm before x within 999999999s"),
    ("AEX143", "error", 3, "1000000000000d", V1 + "confirm before x within 1000000000000d"),
    ("AEX143", "error", 3, "week", V1 + "limit x 5 per week"),
    ("AEX143", "error", 3, "per", V1 + "limit x 5 per"),
    ("AEX143", "error", 3, "0m", V1 + "confirm before x within 0m"),
    ("AEX143", "error", 3, "10 min", V1 + "confirm before x within 10 min"),
    ("AEX143", "error", 3, "within", V1 + "confirm before x within"),
    ("AEX143", "error", 3, "0%", V1 + "checkpoint at 0%"),
    ("AEX143", "error", 3, "101%", V1 + "checkpoint at 50%, 101%"),
    ("AEX143", "error", 3, "50", V1 + "checkpoint at 50"),
    ("AEX144", "error", 3, "once x", V1 + "once x"),
    ("AEX144", "error", 3, "by", V1 + "once x by"),
    ("AEX144", "error", 3, "limit x", V1 + "limit x"),
    ("AEX144", "error", 3, "limit 5 per day", V1 + "limit 5 per day"),
    ("AEX144", "error", 3, "checkpoint x", V1 + "checkpoint x"),
    ("AEX144", "error", 3, "checkpoint before", V1 + "checkpoint before"),
    ("AEX144", "error", 3, "mode watch", V1 + "mode watch"),
    ("AEX144", "error", 3, "else ask", V1 + "confirm before x else ask"),
    ("AEX144", "error", 3, "by a b", V1 + "confirm before x by a b"),
    ("AEX144", "error", 3, "by b", V1 + "confirm before x by a by b"),
    ("AEX144", "error", 3, "where b is 2", V1 + "allow x where a is 1 where b is 2"),
    ("AEX144", "error", 3, "require a", V1 + "require a"),
    ("AEX144", "error", 3, "require signed by a b", V1 + "require signed by a b"),
    ("AEX145", "error", 2, "mode observe", "task t v1\nmode observe"),
    ("AEX145", "error", 2, "require signed by a", "task t v1\nrequire signed by a"),
    ("AEX146", "error", 3, "ops", V1 + "for ops\n  deny x"),
    ("AEX146", "error", 3, "team:ops", V1 + "for user:ann, team:ops\n  deny x"),
    ("AEX146", "error", 3, "group:ops deny x", V1 + "for group:ops deny x"),
    ("AEX146", "error", 3, "group:*", V1 + "for group:*\n  deny x"),
    ("AEX146", "error", 3, "group:ops:", V1 + "for group:ops:\n  deny x"),
    ("AEX146", "error", 3, "all group:ops", V1 + "for user:ann, all group:ops\n  deny x"),
    ("AEX146", "error", 3, "for ,", V1 + "for ,\n  deny x"),
    ("AEX100", "error", 4, "mode observe", V1 + "for group:ops\n  mode observe"),
    ("AEX100", "error", 4, "once x by a", V1 + "for group:ops\n  once x by a"),
    ("AEX100", "error", 4, "for user:ann", V1 + "for group:ops\n  for user:ann\n    deny x"),
    ("AEX100", "error", 2, "for group:ops", "task t v1\nfor group:ops\n  deny x"),
    ("AEX120", "error", 3, "for x in y", V1 + "for x in y\n  deny x"),
    ("AEX139", "error", 3, "for group:ops", POLICY + "for group:ops\n  deny x"),
    ("AEX041", "error", 4, "x y", V1 + "for group:ops\n  deny x y"),
    ("AEX142", "error", 4, '"("', V1 + 'for group:ops\n  deny x where a ~ "("'),
    ("AEX040", "error", 5, "allow y", V1 + "for group:ops\n    deny x\n  allow y"),
    ("AEX042", "warning", 3, "user:ann", V1 + "for user:ann, user:ann\n  deny x"),
    ("AEX048", "warning", 3, "for group:ops", V1 + "for group:ops\ndeny x"),
    ("AEX048", "warning", 5, "x", V1 + "deny X\nfor group:ops\n  allow x"),
    ("AEX048", "warning", 5, "x.y:src/**", V1 + "allow x.*\nfor group:ops\n  allow x.y:src/**"),
    ("AEX048", "warning", 5, "calls=9 per day", V1 + "budget calls=9 per day\nfor group:ops\n  budget calls=9 per day"),
    ("AEX144", "error", 3, "each user", V1 + "budget calls=9 per day each user"),
    ("AEX144", "error", 3, "each principal", V1 + "budget calls=9 each principal"),
    ("AEX046", "error", 3, "day", V1 + "budget usd=9 per day each principal"),
]  # fmt: skip


def underlined(found: Finding, text: str) -> str:
    if not found.span.line:
        return ""
    line = text.split("\n")[found.span.line - 1]
    return line[found.span.column - 1 : found.span.column - 1 + found.span.length]


@for_each(("code", "severity", "line", "piece", "text"), CASES)
def test_a_text_gives_its_finding_at_the_right_place(
    code: str, severity: str, line: int, piece: str, text: str
) -> None:
    """Each text has its finding, with severity, line and underlined piece (AEX040, AEX041 among them)."""
    findings = examine(text, "any.aex").findings
    given = [(found.code, found.severity, found.span.line, underlined(found, text)) for found in findings]
    assert (code, severity, line, piece) in given
    assert all(found.source == "any.aex" and found.help for found in findings)


def produced(tmp_path: Path) -> set[str]:
    """Every code that the cases above, files and inputs give."""
    codes = {found.code for case in CASES for found in examine(case[4]).findings}
    document = examine(TASK + "return a")
    codes |= {found.code for found in check_inputs(document, {"items": 1})}
    (tmp_path / "task.aex").write_text(TASK + "return a")
    (tmp_path / "policy.aex").write_text(POLICY + "allow file.read")
    (tmp_path / "bytes.aex").write_bytes(b"\xff")
    for policy, contract in (("task.aex", "missing"), ("policy.aex", "task.aex"), ("bytes.aex", None), (None, None)):
        paths = [str(tmp_path / name) if name else None for name in (policy, contract)]
        codes |= {found.code for found in effective(paths[0], paths[1])[1]}
    for name, text in (("list", "[]"), ("self", '{"extends": "self.json"}'), ("empty", "{}")):
        (tmp_path / f"{name}.json").write_text(text)
        codes |= {found.code for found in read_json_policy(str(tmp_path / f"{name}.json"), str(tmp_path)).findings}
    known = KnownTools({server: (KnownTool("search"),) for server in ("inv", "notes")})
    rules = from_text(POLICY + "allow search, inv.other, git.*", "p.aex")[0]
    codes |= {found.code for found in unmatched_rules(rules, known, listed=["git"])}
    unsigned = check_sealed(b"", None, ["alice"], {})
    return codes | ({unsigned.code} if unsigned else set())


def test_every_code_is_registered_and_every_registered_code_is_produced(tmp_path: Path) -> None:
    """The cases here produce each code of the registry and no other."""
    assert produced(tmp_path) == set(DIAGNOSTICS)


def test_cases_of_both_severities_are_told_in_the_registry() -> None:
    """A finding has the severity of the registry, or either one where the registry says so."""
    for code, severity, *_ in CASES:
        entry = DIAGNOSTICS[code]
        assert severity == entry.severity or entry.either, code


GOOD = [
    TASK + "return a",
    TASK + "do file.read(p=a, q='x', r=\"1, 2\", s=[a, 1, true], t={k: a.b, j: \"x\"}) -> r\nreturn r.any",
    TASK + "make b: diff from $a, items with:\n  - x\n- y\nreturn b",
    TASK + "if a\n  do file.read() -> x\nmake c: d from x with:\nreturn c",
    TASK + "for x in items\n  make c: d from x with\n  do file.read(p=x) -> y\ncheck y\nreturn a",
    TASK + "for x in [a, 1]\n  do file.read(p=x)\nreturn a",
    TASK + "for x in a.list\n  do file.read(p=x)\nreturn a",
    TASK + 'check a has "x"\ncheck a has citations\ncheck a does not include "y"\ncheck a does not include items\n'
    "check a touches only items\ncheck a is valid diff\ncheck a has valid diff\ncheck a.b.c\nreturn a",
    TASK + "return a\nconfirm before file.write",
    TASK + "  # indented as it likes\n\treturn a",
    "\ufeff" + TASK.replace("\n", "\r\n") + "return {\r\n  a: a,\r\n}\r\n",
    "allow file.read\n" + POLICY + "deny x",
    POLICY.replace("v0", "v0.3") + "budget calls=9007199254740991",
    POLICY.replace("v0", "v1.0") + "budget calls=Infinity",
    POLICY + "use file.read, tests.run\nbudget calls=0x10\nconfirm before mcp.*",
    TASK + "if a\n  do file.read()\n\n# outside\n\n  # inside\n  do file.read()\n\nreturn a",
    TASK + "if a\n  if a\n    do file.read()\n  do file.read()\nreturn a",
    TASK + "need b: list[int?]?\nneed c: str??\nreturn c",
    POLICY + "allow where, by, a, within\ndeny per\nconfirm before where",
    POLICY + 'allow file.read:src/**, tests.run:pytest "a where b"',
    V1 + "limit a, b 5 per second\nlimit a 9 per hour\nonce c.*, d by x.y-z_$ref\nbudget calls=1, minutes=.5, tokens=1e6, usd=2",
    V1 + "budget calls=5, calls=50 per day, calls=9 per hour",
    V1 + "checkpoint before a.*, b\ncheckpoint before a, at 5%\ncheckpoint at 1%, 100%\nbudget calls=9",
    V1 + 'allow a, b where x is "it\'s, and where" and by in ["a", 1, true] and and<=3 and n ~ "^[a, ]$"',
    V1 + 'deny a\twhere x  matches  "*"\ndeny a where x is 1\ndeny a where x is 2',
    V1 + 'confirm before a, b.* where by is "x" by alice@example.org else allow within 30s\nconfirm before c',
    V1 + "mode enforce\nrequire signed by alice, bob-2\nrequire signed by carol",
    TASK.replace("v0", "v1") + 'use git.tag where name matches "v*"\nlimit file.* 5 per minute\ndo git.tag()\nreturn a',
]  # fmt: skip


@for_each("text", GOOD)
def test_a_sound_text_has_no_finding(text: str) -> None:
    """A correct contract has no finding."""
    assert examine(text).findings == []


def test_a_remedy_names_the_operator_that_is_meant() -> None:
    """An operator of another language is answered with that of this one."""
    for operator, remedy in (("==", "`is`"), ("=~", "`~`"), ("!=", "`deny`"), ("like", "`matches`"), ("%", "matches")):
        found = examine(V1 + f'allow x where a {operator} "b"').findings[0]
        assert found.code == "AEX140"
        assert remedy in found.help


def test_several_findings_come_from_one_line() -> None:
    """A line that is wrong in two ways is reported twice, in one run."""
    found = examine(V1 + "limit x 0 per week\ndeny x where a == 1 and b <= true").findings
    assert [each.code for each in found] == ["AEX143", "AEX143", "AEX140", "AEX141"]


def test_without_the_library_an_expression_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where google-re2 cannot be imported a policy that uses `~` is refused, with the reason."""
    monkeypatch.setitem(sys.modules, "re2", None)
    found = examine(V1 + 'deny x where a ~ "^never seen before$"').findings
    assert [(each.code, "not installed" in each.message) for each in found] == [("AEX142", True)]


def test_the_kind_comes_from_the_header_wherever_it_stands() -> None:
    """Lines above the header are judged by the header's kind."""
    document = examine('do file.read()\nallow x\ngoal "g"\npolicy p v0')
    assert document.is_policy
    assert [(found.code, found.span.line) for found in document.findings] == [("AEX120", 1)]
    assert [word.text for word in document.use] == ["x"]


def test_findings_come_in_the_order_of_the_text_with_the_parser_first() -> None:
    """Findings of the parser precede those of the checks, each group in the order of the text."""
    found = examine("zzz\nneed a: b\nqqq\ndo x()").findings
    assert [each.code for each in found] == [
        "AEX100", "AEX100", "AEX100", "AEX100", "AEX001", "AEX002", "AEX003", "AEX032", "AEX010",
    ]  # fmt: skip
    assert [each.span.line for each in found[:4]] == [1, 3, 0, 0]


def test_a_finding_is_shown_with_its_line_underlined() -> None:
    """A finding is shown as its message, the line with the place underlined, and the help."""
    text = TASK + "do\tfile.read(p=b)\ndo shell.exec()\nreturn a"
    found = next(each for each in examine(text, "t.aex").findings if each.code == "AEX010")
    assert render(found, text).split("\n") == [
        "error AEX010 · t.aex:7:4 · tool `shell.exec` is not in `use`",
        "7 | do shell.exec()",
        "  |    ^^^^^^^^^^",
        "help: add the tool to `use`, or remove the step",
    ]


def test_a_shown_finding_holds_no_control_characters_and_stays_short() -> None:
    """A finding about a long line with control characters is shown short and escaped."""
    text = TASK + "\x1b[31mzzz" + "y" * 5000 + "\nreturn a"
    shown = render(examine(text, "t\x1b.aex").findings[0], text)
    assert "\x1b" not in shown
    assert len(shown) < 600


def test_parts_that_are_absent_are_left_out() -> None:
    """A finding without a place, a source or help is shown without them."""
    bare = Finding(code="AEX003", message="the task has no return")
    assert render(bare) == "error AEX003 · the task has no return"
    placed = Finding(code="AEX134", message="m", span=Span(3), source="", severity="warning")
    assert render(placed, "only one line") == "warning AEX134 · line 3 · m"


def test_the_reference_is_current() -> None:
    """docs/reference/diagnostics.md is what the registry generates."""
    assert REFERENCE.read_text() == reference(), (
        "run: python -m adjourn.aex.diagnostics > docs/reference/diagnostics.md"
    )


@for_each(
    ("kind", "good", "bad"),
    [
        ("str", ["", "x"], [1, None, []]),
        ("num", [1, 1.5, -2], [True, float("nan"), float("inf"), "1"]),
        ("int", [1, 2.0], [1.5, True, "1"]),
        ("bool", [True, False], [0, "true"]),
        ("json", [None, {}, 1], []),
        ("file", ["a"], ["", 1]),
        ("url", ["http://x", "mailto:a@b"], ["x", "http://", "://x", "1:x", 1]),
        ("list[str]", [[], ["a"]], ["a", [1], None]),
        ("list[list[int]]", [[[1], []]], [[1]]),
        ("str?", ["a"], [None]),
        ("nonsense", [], ["a"]),
    ],
)
def test_types_say_which_values_they_take(kind: str, good: list[object], bad: list[object]) -> None:
    """Each type of the language accepts its own values only, and an unknown type accepts none."""
    assert known_type(kind) is (kind != "nonsense")
    assert all(is_of(kind, value) for value in good)
    assert not any(is_of(kind, value) for value in bad)


def test_all_inputs_are_checked_before_a_run() -> None:
    """`check_inputs` reports every input of a wrong type and every missing one at once."""
    document = examine(TASK + "need b: int?\nneed c: num\nneed d: json\nreturn a")
    found = check_inputs(document, {"a": 1, "items": None, "c": True, "d": {}, "unknown": 1})
    assert [(each.code, each.message) for each in found] == [
        ("AEX031", "input `a` is a number, not str"),
        ("AEX031", "input `items` is null, not list[str]"),
        ("AEX031", "input `c` is a boolean, not num"),
    ]
    assert check_inputs(document, {"a": "", "items": [], "c": 1, "d": None}) == []
    assert [each.code for each in check_inputs(document, {"a": {}, "items": "x"})] == [
        "AEX031",
        "AEX031",
        "AEX030",
        "AEX030",
    ]


def test_remedies_need_nothing_but_the_program() -> None:
    """No remedy sends to a file of the repository, which is not installed; that for a line of no kind names every kind that its version has."""
    assert not [entry.code for entry in DIAGNOSTICS.values() if "spec/" in entry.help or "docs/" in entry.help]
    for text, words in ((TASK, DECLARATIONS - V1_RULES), (TASK.replace("v0", "v1"), DECLARATIONS)):
        named = next(found.help for found in examine(f"{text}zzz x").findings if found.code == "AEX100")
        assert set(named.partition(": ")[2].split(", ")) == STEPS | words
    [header, goal] = examine("# nothing", "").findings[:2]
    assert ("policy NAME v0" in header.help, "goal " in goal.help) == (True, True)
