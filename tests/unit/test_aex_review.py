"""The review of a contract: the published answer, one validator, what a policy does not grant."""

from __future__ import annotations

from pathlib import Path

from adjourn.aex.policy import from_text
from adjourn.aex.review import review
from adjourn.aex.templates import POLICY

EXAMPLES = Path(__file__).parents[2] / "examples"
BASE = from_text(POLICY, ".aex/policy.aex")[0]


def test_the_published_example_comes_out_field_by_field() -> None:
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
        ("warnings", []),
    ]


def test_what_the_policy_does_not_grant_is_warned_of_first() -> None:
    text = 'task t v0\ngoal "g"\nuse file.*, shell.exec\nneed a: str\ndo x.y(p=b)\nreturn a\n'
    answer = review(text, "tasks/t.aex", BASE)
    assert answer["effective"]["allow"] == []
    assert answer["valid"] is False
    assert answer["warnings"] == [
        "`file.*` is not granted by the policy",
        "`shell.exec` is not granted by the policy",
        "AEX010: line 5: tool `x.y` is not in `use`",
        "AEX043: line 5: `b` is not defined here: it is taken as a text",
    ]


def test_valid_is_what_check_says_also_for_what_only_parses() -> None:
    assert review('task t v0\ngoal "g"\n', "t.aex", BASE)["valid"] is False
    assert review("", "tasks/some-name.aex", BASE)["task"] == "some-name"


def test_checks_and_makes_in_bodies_are_listed() -> None:
    text = 'task t v0\ngoal "g"\nneed a: str\nif a\n  make m: diff from a with:\n  for x in m\n    check x\nreturn m'
    answer = review(text, "t.aex", None)
    assert answer["checks"] == ["x"]
    assert answer["makeSteps"] == ["make m: diff from a"]
    assert "budget" not in answer["effective"]
