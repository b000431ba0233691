"""The formatter: one layout, every comment kept, nothing said differently."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from adjourn.aex import layer, templates
from adjourn.aex.check import examine
from adjourn.aex.format import comments, formatted, meaning
from adjourn.errors import InvalidError
from support import strategies
from support.campaign import scaled, scaled_seconds
from support.cases import for_each
from support.policies import POLICY

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").rglob("*.aex"))
TASK = 'task t v0\n\ngoal "g"\n\nuse *\n\n'
END = "\n\nreturn 1\n"

VALUES = st.sampled_from(
    ["a", '"a, b"', "'x'", "'it is \"so\"'", "[a, [b]]", "{k: a, j: {x: 1}}", "12", "-.5", "a.b", "npm test", "it's", '"', ""]
)  # fmt: skip
NAMES = st.sampled_from(["a", "B", "b", "_c", "d-e", "f.g", "A"])
COMMENTS = st.sampled_from(["", "", "", "# note\n", "  #  deep \n", "\n", "\n# apart\n\n", "\t#\n\n\n"])
DECLARATIONS = st.sampled_from(
    [
        "task t v0", "agent other v0.1", 'goal "g "x" # "', "use *,file.read , git.*", "use net.fetch", "use ,",
        "deny secrets.*", "deny a,b", "need n:list[ str ]", "need  m : json?", "budget calls=1e2", "budget calls = 3, usd=1",
    ]
)  # fmt: skip
RETURNS = st.sampled_from(
    [
        "return {a: 1}", "return  done", "return {\n  a: 1,\n\n // no\n      b: [\n1\n  ]\n}", "return {a: {\n}}",
        'return {\n "}": "{"\n\t}\r',
    ]
)  # fmt: skip
STEPS = st.one_of(
    st.builds("do  x.y( {}={},{} = {} , {})->k".format, NAMES, VALUES, NAMES, VALUES, VALUES),
    st.builds("make m : t  from a,b  with\n -one\n--  two\n -".format),
    st.builds("check  {}".format, NAMES),
    st.just("confirm before file.*"),
    RETURNS,
)

VERSION_1 = [
    "policy p v1", 'goal "g"', "mode  observe", "require signed  by ann,bob", "limit  a,b 10  per minute",
    'allow a,b where cmd  matches "git *"  and depth<=3 and x.y in [1,"b, c"]', "deny c where n is true", "allow d,e",
    "allow f", "once a  by  invoice.id", "checkpoint  at 75%,90%, before a,b", "checkpoint before c", "budget calls=1", "budget calls=5  per\tday",
    'confirm before a else deny within 10m by human where n ~ "x+"', "budget minutes = 90", "deny g:src/**",
]  # fmt: skip


@st.composite
def bodies(draw: st.DrawFn, indent: str = "") -> str:
    """Steps with comments, nested, in any indentation that is one."""
    text = ""
    for _ in range(draw(st.integers(1, 3))):
        text += draw(COMMENTS)
        if len(indent) < 5 and draw(st.integers(0, 3)) == 0:
            text += indent + draw(st.sampled_from(["if  a\n", "for x  in a\n"]))
            text += draw(bodies(indent + draw(st.sampled_from([" ", "   "]))))
        else:
            lines = draw(STEPS).split("\n")
            text += "".join(indent + line + "\n" for line in lines)
    return text + draw(COMMENTS)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Tasks without errors, mostly: declarations in any order, comments anywhere."""
    pieces = [f"{draw(COMMENTS)}{line}\n" for line in draw(st.lists(DECLARATIONS, max_size=8))]
    pieces += ["task t v0\n", 'goal "g"\n', "use *\n", "need a: json\n"]
    text = "".join(draw(st.permutations(pieces))) + draw(bodies())
    return text + "return 1\n" + draw(COMMENTS)


def tidy(text: str) -> str:
    document = examine(text, "t.aex")
    assert not [found for found in document.findings if found.severity == "error"], text
    return formatted(document)


def says_the_same(text: str) -> str:
    """Format, and examine everything that must hold of it."""
    document = examine(text)
    assume(all(found.severity != "error" for found in document.findings))
    after = formatted(document)
    again = examine(after)
    assert meaning(again) == meaning(document)
    assert comments(again) == comments(document)
    assert formatted(again) == after
    assert [found.code for found in again.findings].sort() == [found.code for found in document.findings].sort()
    return after


@given(programs())
def test_a_program_is_laid_out_and_says_the_same(text: str) -> None:
    """Any task without errors has a layout, which is its own layout, and loses neither meaning nor comment."""
    after = says_the_same(text)
    assert after.endswith("\n")
    assert not after.endswith("\n\n")
    assert "\n\n\n" not in after.replace("\n\n // no", "\n // no")
    assert "\r" not in after


@given(st.permutations(VERSION_1), st.lists(COMMENTS, min_size=len(VERSION_1), max_size=len(VERSION_1)))
def test_version_1_is_laid_out_and_says_the_same(lines: list[str], between: list[str]) -> None:
    """Rules of version 1 keep their clauses and comments in whatever order they stand."""
    after = says_the_same("".join(f"{above}{line}\n" for above, line in zip(between, lines, strict=True)))
    assert 'allow a, b where cmd matches "git *" and depth <= 3 and x.y in [1, "b, c"]\n' in after
    assert "checkpoint before a, b, at 75%, 90%\n" in after
    assert 'confirm before a where n ~ "x+" by human within 10m else deny\n' in after


@given(strategies.contract_texts)
def test_whatever_has_no_error_can_be_laid_out_or_is_refused(text: str) -> None:
    """No text at all brings the formatter down, and what it answers says the same."""
    head = 'task t v0\ngoal "g"\nuse *\nneed a: json\n'
    for whole in (text, head + text + "\nreturn 1"):
        document = examine(whole)
        if all(found.severity != "error" for found in document.findings):
            try:
                says_the_same(whole)
            except InvalidError:
                assert "\n" in whole.partition("return")[2].strip()


@for_each("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_in_the_layout(path: Path) -> None:
    """What is given as an example is laid out as `fmt` would."""
    assert tidy(path.read_text()) == path.read_text()


def test_the_published_layout() -> None:
    """A text without comments comes out as earlier implementations print it: order, blank lines, joined lists."""
    text = """
    budget  calls=5
    need b :str
    deny  x.*
    use a.b
    need c: int?
    agent  t  v0.2
    use c,d
    goal   "get it done"
    do a.b(z=1,b=[1,2] , A="x")->k
    if k
         check k
         return {k: k}
    return 'no'
    """
    assert tidy(text) == (
        'task t v0.2\n\ngoal "get it done"\n\nuse a.b, c, d\ndeny x.*\n\nneed b: str\nneed c: int?\n\n'
        'budget calls=5\n\ndo a.b(A="x", b=[1,2], z=1) -> k\n\n'
        "if k\n  check k\n  return {k: k}\n\nreturn 'no'\n"
    )


def test_a_policy_allows_and_a_task_uses() -> None:
    """`use` in a policy is written `allow`, which it is another name of."""
    text = 'policy p v0\n\ngoal "g"\n\nuse a\n\nallow b\nconfirm before a\n'
    assert tidy(text) == 'policy p v0\n\ngoal "g"\n\nallow a, b\n\nconfirm before a\n'


def test_the_layout_of_version_1() -> None:
    """Mode and signers stand below the goal, bounds beside the budget, and a line with a condition by itself."""
    assert tidy("\n".join(VERSION_1)) == (
        'policy p v1\n\ngoal "g"\n\nmode observe\nrequire signed by ann, bob\n\n'
        'allow a, b where cmd matches "git *" and depth <= 3 and x.y in [1, "b, c"]\nallow d, e, f\n'
        "deny c where n is true\ndeny g:src/**\n\n"
        "budget calls=1, calls=5 per day, minutes=90\nlimit a, b 10 per minute\nonce a by invoice.id\n"
        "checkpoint before a, b, at 75%, 90%\ncheckpoint before c\n\n"
        'confirm before a where n ~ "x+" by human within 10m else deny\n'
    )


def test_a_comment_goes_where_its_statement_goes() -> None:
    """Declarations are put in order with the comments above them; lines with a comment are not joined with others."""
    text = (
        "# Licence\n\n# why not\ndeny c\n"
        'goal "g"\nuse a\nuse b\n\n# b2 is new\n#   really\nuse b2\nuse b3\n# name\ntask t v0\nreturn 1\n# end\n'
    )
    assert tidy(text) == (
        '# Licence\n\n# name\ntask t v0\n\ngoal "g"\n\nuse a, b\n\n# b2 is new\n#   really\nuse b2\nuse b3\n\n'
        "# why not\ndeny c\n\nreturn 1\n# end\n"
    )


def test_comments_in_bodies_stay_in_their_bodies() -> None:
    """A comment is indented with the body that it stands in, also below the last statement of that body."""
    text = TASK + "need a: json\nif a\n\n # first\n check a\n\n # last\n# outside\nreturn 1\n"
    assert "if a\n  # first\n  check a\n  # last\n\n# outside\nreturn 1\n" in tidy(text)


@pytest.mark.parametrize(
    ("written", "laid"),
    [
        ("do a(b='x', a=y)", 'do a(a=y, b="x")'),
        ("do a(b='say \"x\"')", "do a(b='say \"x\"')"),
        ("do a(x=npm test,  b=[1,  2])", "do a(b=[1,  2], x=npm test)"),
        ("do a(a, c=, b)", "do a(a, b, c=)"),
        ("do a(b=2, b=1, B=3, a_b=4, a1=5)", "do a(a_b=4, a1=5, b=2, b=1, B=3)"),
        ('do  a ( b="x", a=it" )', 'do a(a=it", b="x")'),
        ('do  a ( b="x", a=" )', 'do  a ( b="x", a=" )'),
    ],
)  # fmt: skip
def test_arguments_keep_their_values(written: str, laid: str) -> None:
    """Arguments are sorted by name; quoted stays quoted and bare stays bare, or the line stays as it is."""
    assert tidy(TASK + written + END) == TASK + laid + END


def test_a_return_over_several_lines_is_stable() -> None:
    """Its lines are indented by the brackets around them, as often as one likes; lines that are text are not touched."""
    body = 'return {\n  a: [\n    1,\n    {b: "{"}\n  ]\n\n  c: 2\n}\n'
    assert tidy(TASK + body.replace("  ", "")) == TASK + body
    text = TASK + "if a\n  return {\n      a: [x\n         y]\n  }" + END
    assert tidy(text) == text


def test_what_cannot_be_moved_is_refused() -> None:
    """A text over several lines whose blanks would have to change is not laid out, and the message says what to do."""
    text = TASK + "if x\n return {\n a: [x\n y]\n }\nreturn 1\n"
    with pytest.raises(InvalidError, match="formatting would change its meaning") as refused:
        tidy(text)
    assert "in quotes" in refused.value.remedy


def test_line_ends_and_marks_of_other_systems_go() -> None:
    """CRLF becomes LF, and a byte order mark goes."""
    assert tidy("\ufeff" + (TASK + "return 1\n").replace("\n", "\r\n")) == TASK + "return 1\n"


def test_what_init_writes_says_the_same_when_laid_out() -> None:
    """The first policy permits the same before and after."""
    after = tidy(POLICY)
    before, then = layer(examine(POLICY)), layer(examine(after))
    assert [rule.pattern for rule in before.allow] == [rule.pattern for rule in then.allow]
    assert tidy(templates.sample_task()) == templates.sample_task()


@pytest.mark.parametrize(
    "text",
    [
        TASK + 'do file.read(paths=a, b="x, y") -> z\n' * scaled(5_000) + END,
        TASK + "# note\nuse a.b\n" * scaled(5_000) + END,
        TASK + "return {\n" + "[\n" * scaled(8_000) + "]\n" * scaled(8_000) + "}",
        TASK + "do a(" + "([{)" * scaled(25_000) + ")" + END,
    ],
    ids=["steps", "comments", "brackets", "stray brackets"],
)
def test_large_documents_take_seconds(text: str) -> None:
    """Time grows with the text, whatever its shape."""
    document = examine(text)
    started = time.process_time()
    formatted(document)
    assert time.process_time() - started < scaled_seconds(10)  # quadratic work takes ten times as long
