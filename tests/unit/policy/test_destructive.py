"""Which calls count as destructive: each rule finds its example, ordinary commands match none, and a workspace may differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import InvalidError
from adjourn.policy.destructive import COMMANDS, DEFAULT, TOOLS, DestructiveRule, Matcher, read_settings

MATCHER = Matcher()


def label(command: str) -> str:
    return MATCHER.of_arguments({"command": command})


@pytest.mark.parametrize("rule", COMMANDS, ids=[rule.label for rule in COMMANDS])
def test_each_rule_finds_its_example(rule: DestructiveRule) -> None:
    """Each rule of the documented table matches its example."""
    assert label(rule.example) == rule.label
    assert label(f"cd x && sudo {rule.example} | tee log") == rule.label


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("kubectl --context prod delete pod x", "kubectl"),
        ("kubectl get pods", ""),
        ("terraform plan", ""),
        ("terraform -chdir=x apply", "terraform"),
        ("rm -fr x", "rm"),
        ("rm --force --recursive x", "rm"),
        ("rm x.txt", ""),
        ("git push origin main", ""),
        ("git push origin +main", "git-push"),
        ("git push --force-with-lease", "git-push"),
        ("git push -f", "git-push"),
        ("git -C x reset --hard", "git-reset"),
        ("git reset HEAD x", ""),
        ("git checkout main", ""),
        ("git checkout -- src", "git-checkout"),
        ("psql -c 'drop   table t'", "drop"),
        ("echo dropped", ""),
        ("cat deploy.yaml", "deploy"),
        ("cat deployment.yaml", ""),
        ("python manage.py migrate", "migration"),
        ("ls -la && git status", ""),
        ("pytest -q tests", ""),
        ("npm run build", ""),
        ("", ""),
    ],
)
def test_commands(command: str, expected: str) -> None:
    """What destroys, and what only looks like it."""
    assert label(command) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"sql": "TRUNCATE sessions"}, "truncate"),
        ({"query": "Delete From users where id = 1"}, "delete-from"),
        ({"query": "select * from deleted"}, ""),
        ({"Command": ["rm", "-rf", "x"]}, "rm"),
        ({"content": "rm -rf /"}, ""),
        ({"command": 7, "cmd": None}, ""),
    ],
)
def test_arguments_that_hold_what_is_run(arguments: dict[str, Any], expected: str) -> None:
    """Commands and statements, whatever the argument is called; not what is written into a file."""
    assert MATCHER.of_arguments(arguments) == expected


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("deploy.run", "deploy"),
        ("delete_file", "delete"),
        ("removeUser", "remove"),
        ("db-drop", "drop"),
        ("file.read", ""),
        ("deployment.list", ""),
        ("undeleted", ""),
    ],
)
def test_tools_by_their_names(tool: str, expected: str) -> None:
    """A whole word of the name counts, in any of the usual spellings."""
    assert MATCHER.of_tool(tool) == expected


@given(st.text(max_size=2000))
def test_no_command_takes_long_or_breaks_it(text: str) -> None:
    """Matching any text ends soon and raises nothing."""
    assert isinstance(label(text), str)


def test_a_long_command_is_looked_at_in_time() -> None:
    """No rule takes more than linear time."""
    for word in ("git ", "kubectl ", "rm -", "docker down ", "aws x "):
        assert isinstance(label(word * 50_000), str)


# --- the file of a workspace


def settings(root: Path, value: object) -> Matcher:
    (root / ".aex").mkdir(exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    (root / ".aex" / "discipline.json").write_text(text)
    return Matcher(read_settings(str(root)))


def test_a_workspace_without_a_file_has_the_usual_rules(tmp_path: Path) -> None:
    """A workspace without a settings file has the default rules."""
    assert read_settings(str(tmp_path)) == DEFAULT


def test_rules_are_switched_off_and_added(tmp_path: Path) -> None:
    """By label, by word, and by an RE2 expression over the lower-case command."""
    matcher = settings(
        tmp_path, {"off": ["rm", "apply"], "rules": [{"label": "ours", "command": r"\bfrob\s+all\b"}]}
    )
    assert matcher.of_arguments({"cmd": "rm -rf x"}) == ""
    assert matcher.of_arguments({"cmd": "FROB all"}) == "ours"
    assert matcher.of_arguments({"cmd": "git push -f"}) == "git-push"
    assert (matcher.of_tool("apply"), matcher.of_tool("deploy")) == ("", "deploy")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("{", "discipline.json"),
        ({"of": []}, "unknown field"),
        ({"off": ["nothing"]}, "no rule is named 'nothing'"),
        ({"rules": [{"label": "x", "command": "("}]}, "not an RE2 expression"),
        ({"keepSeconds": 0}, "keepSeconds"),
        ({"keepFiles": "yes"}, "bool"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, value: object, reason: str) -> None:
    """It is said what is wrong; the caller goes by the usual rules then."""
    with pytest.raises(InvalidError, match=reason):
        settings(tmp_path, value)


def test_the_remedy_for_a_broken_file_names_its_members(tmp_path: Path) -> None:
    """Whoever has no documentation at hand can still mend it."""
    with pytest.raises(InvalidError) as refused:
        settings(tmp_path, {"keep": True})
    assert "off, rules, keepFiles, maxFileBytes, keepSeconds" in refused.value.remedy


def test_labels_are_unique() -> None:
    """A rule is switched off by one name."""
    labels = [rule.label for rule in COMMANDS]
    assert len(set(labels)) == len(labels)
    assert not TOOLS & set(labels) - {"deploy", "drop", "truncate", "publish"}
