"""The review of a contract: the published answer, one validator, what a policy does not grant."""

from __future__ import annotations

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import Review, from_text, merge, review, reviewed
from adjourn.aex.check import examine
from adjourn.aex.diagnostics import DIAGNOSTICS, finding
from support.cases import for_each
from support.policies import POLICY

TOOLS = ("a", "a.b", "a.c", "a.b.c", "A.B", "A/b", "x", "x.y")
patterns = st.lists(st.sampled_from((*TOOLS, "*", "a.*", "A.*", "a.b.*", "x.*")), max_size=4)
policies = st.tuples(patterns, patterns)
EXAMPLES = Path(__file__).parents[3] / "examples"
BASE = from_text(POLICY, ".aex/policy.aex")[0]


def text_of(header: str, use: list[str], deny: list[str]) -> str:
    lines = [f"use {pattern}" for pattern in use] + [f"deny {pattern}" for pattern in deny]
    return "\n".join((header, 'goal "g"', *lines))


def test_the_published_example_comes_out_field_by_field() -> None:
    """The review of the published example is the published answer."""
    answer = review((EXAMPLES / "fix-test.aex").read_text(), "examples/fix-test.aex", BASE)
    assert list(answer.items()) == [
        ("task", "fix_test"),
        ("goal", "Fix the failing test with the smallest safe change."),
        ("requested", ["file.read", "file.write", "tests.run"]),
        ("denied", ["network.*", "secrets.read"]),
        (
            "effective",
            {
                "allow": ["file.read", "file.write", "tests.run"],
                "deny": ["network.*", "secrets.read"],
                "confirm": ["file.write"],
                "budget": 20,
            },
        ),
        ("checks", ["patch is valid diff", "patch touches only target_files", "final.passed"]),
        ("makeSteps", ["make patch: diff from failure, sources"]),
        ("valid", True),
        (
            "warnings",
            ["`tests.run` is narrowed to `tests.run:npm test*`", "`tests.run` is narrowed to `tests.run:pytest*`"],
        ),
    ]


def test_what_the_policy_does_not_grant_is_warned_of_first() -> None:
    """Warnings about permissions precede those of the checks."""
    text = 'task t v0\ngoal "g"\nuse file.*, shell.exec\nneed a: str\ndo x.y(p=b)\nreturn a\n'
    answer = review(text, "tasks/t.aex", BASE)
    assert answer["effective"]["allow"] == []
    assert answer["valid"] is False
    assert answer["warnings"] == [
        "AEX134: line 3: the policy does not grant all of `file.*`, so none of it is permitted",
        "AEX134: line 3: the policy does not grant all of `shell.exec`, so none of it is permitted",
        f"AEX010: line 5: {DIAGNOSTICS['AEX010'].title}",
        f"AEX043: line 5: {DIAGNOSTICS['AEX043'].title}",
    ]


def test_valid_is_what_check_says_also_for_what_only_parses() -> None:
    """A contract with errors is not valid, and one without a header is named after its file."""
    assert review('task t v0\ngoal "g"\n', "t.aex", BASE)["valid"] is False
    assert review("", "tasks/some-name.aex", BASE)["task"] == "some-name"


def test_checks_and_makes_in_bodies_are_listed() -> None:
    """The review lists checks and make steps inside `if` and `for` too, and no budget where there is none."""
    text = 'task t v0\ngoal "g"\nneed a: str\nif a\n  make m: diff from a with:\n  for x in m\n    check x\nreturn m'
    answer = review(text, "t.aex", None)
    assert answer["checks"] == ["x"]
    assert answer["makeSteps"] == ["make m: diff from a"]
    assert "budget" not in answer["effective"]


def reviewed_under(policy: str, *lines: str) -> Review:
    text = "\n".join(('task t v0\ngoal "g"\nneed a: str', *lines, "return a\n"))
    return reviewed(text, "tasks/t.aex", from_text(f'policy p v0\ngoal "g"\n{policy}', "p.aex")[0])


@for_each(
    ("policy", "lines"),
    [
        ("allow file.read", ["use file.read"]),
        ("allow *", ["use file.*, network.fetch"]),
        ("allow *\ndeny network.*", ["use file.*"]),
        ("allow git.*\ndeny git.push", ["use git.*", "deny git.push"]),
        ("allow git.*\ndeny git.push", ["use git.status, git.diff"]),
        ("allow *\ndeny network.*", ["use *", "deny network.*"]),
        ("allow file.*\ndeny file.write:secrets/**", ["use file.write"]),
        ("allow file.read", []),
    ],
)
def test_a_task_runs_under_a_policy_that_refuses_nothing_of_it(policy: str, lines: list[str]) -> None:
    """What the task itself denies is not asked for; a refusal with a scope leaves other calls open."""
    told = reviewed_under(policy, *lines)
    assert told.runs_under_policy, told.warnings


@for_each(
    ("policy", "lines", "named"),
    [
        ("", ["use file.read"], "file.read"),
        ("use file.write", ["use file.read"], "file.read"),
        ("use file.read", ["use file.*"], "file.*"),
        ("use file.read", ["use *"], "*"),
        ("use *\ndeny network.*", ["use file.read, network.fetch"], "network.fetch"),
        ("use *\ndeny network.*", ["use Network/fetch"], "Network/fetch"),
        ("use git.*\ndeny git.push", ["use git.*"], "git.*"),
        ("use *\ndeny network.*", ["use *"], "*"),
        ("use *\ndeny *", ["use file.read"], "file.read"),
        ("use *\ndeny git.push", ["use Git.*"], "Git.*"),
        ("use *\ndeny *", ["use a.*", "deny a"], "a.*"),
        ("use git.*\ndeny git.push, git.reset", ["use git.*", "deny git.push"], "git.*"),
    ],
)
def test_d29_review_judges_by_the_rules_that_a_run_is_judged_by(policy: str, lines: list[str], named: str) -> None:
    """An empty allow permits nothing, a `*` is known, and a refusal counts: each was missed by a matcher of its own."""
    told = reviewed_under(policy, *lines)
    assert not told.runs_under_policy
    assert any(f"`{named}`" in warning for warning in told.warnings)


@given(policies, policies)
def test_d29_what_runs_under_a_policy_is_permitted_by_the_merge(
    policy: tuple[list[str], list[str]], task: tuple[list[str], list[str]]
) -> None:
    """In a task that runs under a policy, each tool that it names and leaves open is open in the effective permissions."""
    base = from_text(text_of("policy p v0", *policy), "p.aex")[0]
    text = text_of("task t v0", *task)
    told = reviewed(text, "t.aex", base)
    contract = from_text(text, "t.aex")[0]
    merged = merge(base, contract)
    refused = [tool for tool in TOOLS if contract.visible(tool) and not merged.visible(tool)]
    assert not (refused and told.runs_under_policy), refused


def test_d45_one_validator(tmp_path: Path) -> None:
    """The review calls a text not valid exactly when `check` refuses it."""
    for text in (
        'task t v0\ngoal "g"\nuse a\ndo a() -> b\nreturn b\n',
        'task t v0\ngoal "g"\nuse a\ndo b() -> c\nreturn c\n',
        'task t v0\ngoal "g"\nuse a\ndo a() -> b\n',
        'task t v0\ngoal "g"\nuse a b\nreturn 1\n',
        'task t v0\ngoal "g"\ncheck nothing\nreturn 1\n',
        'task t v0\ngoal "g"\nneed x: strange\nreturn x\n',
    ):
        errors = [found for found in examine(text).findings if found.severity == "error"]
        assert reviewed(text, "t.aex", BASE).valid is not bool(errors)
        assert review(text, "t.aex", BASE)["valid"] is not bool(errors)


def test_the_answer_of_the_command_has_the_published_fields() -> None:
    """Paths, every confirmation in any body, and whether it runs; `unknown` for a task without a name."""
    told = reviewed(
        'goal "g"\nneed a: str\nif a\n  confirm before git.push\nconfirm before b\nreturn a\n',
        "tasks/t.aex",
        BASE,
        policy_source=".aex/policy.aex",
    )
    plain = msgspec.to_builtins(told)
    assert list(plain) == [
        "task", "goal", "source", "requested", "denied", "effective", "checks", "makeSteps", "confirmRequired",
        "valid", "runsUnderPolicy", "warnings",
    ]  # fmt: skip
    assert plain["task"] == "unknown"
    assert plain["source"] == {"task": "tasks/t.aex", "policy": ".aex/policy.aex"}
    assert plain["confirmRequired"] == ["git.push", "b"]
    assert "policy" not in msgspec.to_builtins(reviewed("", "t.aex", None))["source"]


def test_a_policy_is_no_task() -> None:
    """It is valid as what it is, and cannot run."""
    told = reviewed(POLICY, ".aex/policy.aex", None)
    assert told.valid
    assert not told.runs_under_policy
    assert told.warnings == ["AEX136: line 1: the file is a policy, not a contract"]


def test_what_else_keeps_it_from_running_counts() -> None:
    """A refusal that only the caller can know, such as a missing signature."""
    found = finding("AEX134", "no")
    told = reviewed('task t v0\ngoal "g"\nreturn 1\n', "t.aex", BASE, refusals=[found])
    assert not told.runs_under_policy
    assert told.warnings == ["AEX134: no"]


def test_what_a_scoped_grant_leaves_is_told() -> None:
    """A wider request is narrowed, and the warning says to what."""
    told = reviewed_under("allow file.write:src/**", "use file.write")
    assert told.runs_under_policy
    assert "`file.write` is narrowed to `file.write:src/**`" in told.warnings
