"""`adjourn policy explain`: may this be called, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import CallQuery, explain, from_text
from adjourn.cli import main as cli
from support import strategies
from support.cases import for_each

POLICY = """policy p v1
goal "g"
allow file.*:src/**, tests.run:pytest*, x
allow shell.exec where cmd matches "git *"
allow file.read
deny file.*:src/secret/**
deny net.*
deny NET.fetch
budget calls=3, minutes=5
limit shell.* 10 per minute
once x by id
checkpoint before x
confirm before file.write
confirm before shell.exec where cmd matches "git push*" by human within 10m else deny
confirm before aex.resume
"""


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".aex").mkdir()
    (tmp_path / ".aex" / "policy.aex").write_text(POLICY)
    return tmp_path


def ask(capfd: pytest.CaptureFixture[str], tool: str, arguments: Any = None) -> tuple[int, dict[str, Any], str]:
    """Exit code, the answer for machines and the one for people."""
    command = ["effective", "--explain", tool]
    if arguments is not None:
        command += ["--args", json.dumps(arguments)]
    code = cli(command)
    text = capfd.readouterr().out
    assert cli([*command, "--json"]) == code
    told = json.loads(capfd.readouterr().out)
    assert text.startswith(f"{told['answer']}: {tool} {told['why']}\n")
    return code, told, text


@for_each(
    ("tool", "arguments", "answer", "rule"),
    [
        ("file.read", {"path": "docs/a"}, "yes", "allow file.read:5"),
        ("file.write", {"path": "src/a.py"}, "ask", "allow file.*:src/**:3"),
        ("file.write", {"path": "src/secret/a"}, "no", "deny file.*:src/secret/**:6"),
        ("file.write", {"path": "docs/a"}, "no", ""),
        ("file.write", {"paths": ["src/a", "docs/b"]}, "no", ""),
        ("file.write", {"path": "../outside"}, "no", ""),
        ("file.write", None, "no", "deny file.*:src/secret/**:6"),
        ("net-fetch", {}, "no", "deny net.*:7"),
        ("X", {}, "no", ""),
        ("tests.run", {"cmd": "pytest -q"}, "yes", "allow tests.run:pytest*:3"),
        ("tests.run", {"cmd": "rm -rf"}, "no", ""),
        ("shell.exec", {"cmd": "git status"}, "yes", "allow shell.exec:4"),
        ("shell.exec", {"cmd": "git push -f"}, "ask", "allow shell.exec:4"),
        ("shell.exec", {"cmd": "make"}, "no", ""),
        ("shell.exec", {}, "no", ""),
        ("mcp.resources.read", {}, "yes", ""),
        ("mcp.x.y", {}, "no", ""),
        ("aex.resume", {}, "ask", ""),
        ("aex_resume", {}, "ask", ""),
        ("adjourn_note", {}, "yes", ""),
        ("AEX_resume", {}, "no", ""),
        ("aex.other", {}, "no", ""),
        ("adjourn.other", {}, "no", ""),
        ("no tool", {}, "no", ""),
    ],
)
def test_the_answer_and_its_rule(
    capfd: pytest.CaptureFixture[str], tool: str, arguments: Any, answer: str, rule: str
) -> None:
    """The first line answers, exit code 3 is no, and the rule that decides is named with its line."""
    code, told, text = ask(capfd, tool, arguments)
    assert told["answer"] == answer
    assert code == (3 if answer == "no" else 0)
    deciding = [
        f"{one['kind']} {one['pattern']}:{one['line']}"
        for one in told["rules"]
        if one["decides"] and one["kind"] != "confirm"
    ]
    assert deciding == ([rule] if rule else [])
    for one in told["rules"]:
        assert f".aex/policy.aex:{one['line']}\n    {one['why']}\n" in text


@for_each(
    ("tool", "arguments", "rule", "why"),
    [
        ("file.write", {"path": "src/a"}, "deny file.*:src/secret/**", "no path of the call is in its scope"),
        ("file.write", {"path": "src/a"}, "confirm file.write", "asks a person"),
        ("file.write", {"path": "docs/a"}, "allow file.*:src/**", "docs/a is not in its scope"),
        ("file.write", {"path": "docs/a"}, "confirm file.write", "is not evaluated"),
        ("file.write", {"paths": ["src/a", "b"]}, "allow file.*:src/**", "allows a part of the call: b is not in"),
        ("file.write", {}, "allow file.*:src/**", "it has a scope, and the call names no path"),
        ("file.write", {}, "deny file.*:src/secret/**", "denies it: the call names no path to check"),
        ("file.read", {"path": "src/a"}, "allow file.*:src/**", "allows it, too"),
        ("net.fetch", {}, "deny NET.fetch", "denies it, too"),
        ("shell.exec", {"cmd": "make"}, "allow shell.exec", "its condition is not certainly met"),
        ("shell.exec", {"cmd": "git log"}, "confirm shell.exec", "its condition is not met"),
        ("X", {}, "allow x", "spells the name differently"),
        ("x", {}, "budget calls=3", "when the budget is spent"),
        ("x", {}, "budget minutes=5", "when the budget is spent"),
        ("x", {}, "once x", "first one's result"),
        ("x", {}, "checkpoint x", "saves a checkpoint first"),
        ("shell.exec", {"cmd": "git log"}, "limit shell.*", "beyond that rate"),
    ],
)
def test_the_other_rules_say_why(
    capfd: pytest.CaptureFixture[str], tool: str, arguments: Any, rule: str, why: str
) -> None:
    """Each rule that names the tool says why it did, or did not, have to do with the answer."""
    _, told, _ = ask(capfd, tool, arguments)
    said = {f"{one['kind']} {one['pattern']}": one["why"] for one in told["rules"]}
    assert why in said[rule]


def test_without_arguments_it_is_said_that_they_count(capfd: pytest.CaptureFixture[str]) -> None:
    """Where scopes or conditions are examined, the answer without arguments says that it is the strict one."""
    assert "give them with --args JSON" in ask(capfd, "file.write")[2]
    assert "--args" not in ask(capfd, "file.write", {})[2]
    assert "--args" not in ask(capfd, "x")[2]


def test_in_mode_observe_nothing_is_refused(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The answer stays what the rules say; the exit code and a line say that it is not enforced."""
    (workspace / ".aex" / "policy.aex").write_text(POLICY + "mode observe\n")
    code, told, text = ask(capfd, "net.fetch")
    assert (code, told["answer"], told["mode"]) == (0, "no", "observe")
    assert "mode observe blocks nothing" in text


def test_a_broken_policy_answers_nothing(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With an error there is no answer, only findings, on stderr or as JSON, and exit code 1."""
    (workspace / ".aex" / "policy.aex").write_text(POLICY + "nonsense\n")
    assert cli(["policy", "explain", "x"]) == 1
    told = capfd.readouterr()
    assert told.out == ""
    assert "AEX100" in told.err
    assert cli(["policy", "explain", "x", "--json"]) == 1
    document = json.loads(capfd.readouterr().out)
    assert (document["valid"], document["findings"][0]["code"], "answer" in document) == (False, "AEX100", False)


@pytest.mark.parametrize("arguments", ["", "[1]", "{", "[" * 10_000, "nonsense"])
def test_arguments_are_a_json_object(arguments: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Anything else is wrong usage, and so are arguments of no call."""
    if arguments:
        assert cli(["effective", "--explain", "x", "--args", arguments]) == 2
        assert "JSON object" in capfd.readouterr().err
    assert cli(["effective", "--args", "{}"]) == 2


def test_a_contract_names_the_rule_that_narrows_it(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What a contract asks for under a scoped rule of the policy names both, here and in the list."""
    (workspace / "t.aex").write_text('task t v0\ngoal "g"\nuse file.write, x\nreturn 1\n')
    assert cli(["effective", "--contract", "t.aex", "--explain", "file.write", "--args", '{"path": "docs/a"}']) == 3
    out = capfd.readouterr().out
    assert "allow file.write  t.aex:3, under file.*:src/**  .aex/policy.aex:3\n" in out
    assert "docs/a is not in its scope" in out
    assert cli(["effective", "--contract", "t.aex"]) == 0
    assert "t.aex:3, under file.*:src/**  .aex/policy.aex:3\n" in capfd.readouterr().out


def test_the_list_shows_all_of_version_1(capfd: pytest.CaptureFixture[str]) -> None:
    """Clauses, limits, effects, checkpoints and every budget are listed with their lines."""
    assert cli(["effective"]) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    for text, number in (
        ('shell.exec where cmd matches "git *"', 4),
        ("shell.* 10 per minute", 10),
        ("x by id", 11),
        ("calls=3", 9),
        ("minutes=5", 9),
    ):
        assert [*text.split(), f".aex/policy.aex:{number}"] in lines
    assert cli(["effective", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["limit"] == [
        {"pattern": "shell.*", "clauses": "10 per minute", "source": ".aex/policy.aex", "line": 10}
    ]
    assert (told["budget"], told["budgets"]) == (3, {"minutes": 5})


@given(
    strategies.contract_documents,
    st.sampled_from(["file.read", "git.push", "FILE_read", "x", "mcp.a", "aex.b"]),
    st.booleans(),
)
def test_an_explanation_never_disagrees_with_the_judge(text: str, tool: str, named_only: bool) -> None:
    """The answer is the verdict, and exactly the rules of the verdict decide."""
    policy, _ = from_text(text, "p")
    for paths in ((), ("src/a",), ("src/a", "b")):
        call = CallQuery(tool, {}, paths, named_only=named_only)
        verdict = policy.judge_call(tool, {}, paths, named_only=named_only)
        told = explain(policy, call)
        expected = {"deny": "no", "closed": "no"}.get(verdict.effect) or ("ask" if verdict.confirm else "yes")
        assert told.answer == expected
        deciding = [part.rule for part in told.parts if part.decides]
        assert set(deciding) == {rule for rule in (verdict.rule, *verdict.confirms) if rule}


def test_a_json_policy_is_read_with_what_it_extends(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each rule names the file that it stands in; an error in a base is shown, with exit code 1."""
    (workspace / "conf").mkdir()
    (workspace / "conf" / "own.json").write_text('{"extends": "base.json",\n "allow": ["git.*"]}')
    base = workspace / "conf" / "base.json"
    base.write_text('{"allow": ["file.read:src/**"], "budget": {"calls": 7}}')
    command = ["effective", "--policy", "conf/own.json", "--json"]
    assert cli(command) == 0
    told = json.loads(capfd.readouterr().out)
    assert [(rule["pattern"], rule["source"], rule["line"]) for rule in told["allow"]] == [
        ("file.read:src/**", "conf/base.json", 1),
        ("git.*", "conf/own.json", 2),
    ]
    assert told["budget"] == 7
    base.write_text('{"allow": [7]}')
    assert cli(command) == 1
    assert [one["source"] for one in json.loads(capfd.readouterr().out)["findings"]] == ["conf/base.json"]


def test_check_reads_json_policies(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`check` reads JSON policies as policies, with every base, and shows a finding with the line of the file it is about."""
    (workspace / "own.json").write_text('{"extends": "base.json", "allow": ["git.*"]}')
    (workspace / "base.json").write_text('{"allow": ["x"],\n "budget": {"minutes": 3}}')
    assert cli(["check", "own.json"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("own.json: valid policy, 1 warning")
    assert "base.json:2" in out
    assert "`minutes` is not counted" in out
    assert cli(["check", "own.json", "--json"]) == 0
    (told,) = json.loads(capfd.readouterr().out)["files"]
    assert (told["kind"], told["valid"], told["findings"][0]["source"]) == ("policy", True, "base.json")
    (workspace / "base.json").write_text('{"allow": ["x"], "deny": 1}')
    assert cli(["check", "own.json"]) == 1
    assert "AEX160" in capfd.readouterr().out
    assert cli(["check", "missing.json"]) == 1
    assert "AEX130" in capfd.readouterr().out


TEAM = """policy team v1
allow files.read
budget calls=5 per day each principal

for group:ops
  allow files.write

for user:ann, service:ci
  deny files.read
"""


@pytest.fixture
def team(workspace: Path) -> None:
    (workspace / ".aex" / "policy.aex").write_text(TEAM)


@pytest.mark.usefixtures("team")
@pytest.mark.parametrize(
    ("names", "allowed", "denied"),
    [
        ("", ["files.read", "files.write"], ["files.read"]),
        ("user:bob", ["files.read"], []),
        ("group:ops", ["files.read", "files.write"], []),
        ("user:ann,group:ops", ["files.read", "files.write"], ["files.read"]),
        ("service:ci", ["files.read"], ["files.read"]),
        ("user:ci", ["files.read"], []),
    ],
)
def test_rules_for_somebody_are_shown(
    capfd: pytest.CaptureFixture[str], names: str, allowed: list[str], denied: list[str]
) -> None:
    """All of them, each with whom it is for; with --as those that hold for these names."""
    assert cli(["effective", "--json", "--as", names]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [rule["pattern"] for rule in told["allow"]] == allowed
    assert [rule["pattern"] for rule in told["deny"]] == denied
    assert [rule.get("for") for rule in told["allow"][1:]] == [["group:ops"]] * (len(allowed) - 1)
    assert told["workspaceBudgets"] == [{"calls": 5, "perSeconds": 86_400, "each": "principal"}]
    assert cli(["effective", "--as", names]) == 0
    assert ("files.write for group:ops" in capfd.readouterr().out) == ("files.write" in allowed)


@pytest.mark.usefixtures("team")
@pytest.mark.parametrize(("names", "code"), [("group:ops", 0), ("user:ann,group:ops", 0), ("group:dev", 3), ("", 3)])
def test_a_call_of_somebody_is_explained(capfd: pytest.CaptureFixture[str], names: str, code: int) -> None:
    """By the rules that hold for these names; without a name, a rule that would allow it to others is shown."""
    assert cli(["effective", "--as", names, "--explain", "files.write"]) == code
    assert ("allow files.write for group:ops" in capfd.readouterr().out) == (code == 0 or not names)


@pytest.mark.parametrize("names", ["ann", "user:", "team:x", "user:a,user:b", "user:a,,group:b"])
def test_names_of_nobody_are_refused(capfd: pytest.CaptureFixture[str], names: str) -> None:
    """A word that is no name, and two persons at once."""
    assert cli(["effective", "--as", names]) == 2
    assert "--as takes" in capfd.readouterr().err
