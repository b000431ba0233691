"""What a run is permitted: what is checked before its first step, rules, questions, budgets, and the rules of version 1."""

from __future__ import annotations

import json

import pytest

from adjourn.errors import UsageError
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.policy.contract import BrokenContractError
from adjourn.runs.model import ModelError
from adjourn.runs.start import InputsError, start_run
from adjourn.tasks.approvals import answer
from support.runs import ANN, Answers, Bench


def test_inputs_are_checked_before_anything(bench: Bench) -> None:
    """All wrong inputs are reported, and no task is made."""
    lines = ["need a: int", "need b: str", "need c: str?", "do note.add(n=a)", "return 1"]
    with pytest.raises(InputsError) as raised:
        bench.run(*lines, inputs={"b": 5})
    assert [finding.code for finding in raised.value.findings] == ["AEX030", "AEX031"]
    assert bench.events[1:3] == [
        ("input.missing", {"input": "a", "expected": "int", "actual": "missing"}),
        ("input.invalid", {"input": "b", "expected": "str", "actual": "number"}),
    ]
    assert bench.calls == []
    store = open_at(str(bench.root))
    assert store.streams() == {}
    store.close()


def test_a_contract_with_an_error_is_not_run(bench: Bench) -> None:
    """A contract with an error is not run, nor one under a policy with an error, nor a policy itself."""
    with pytest.raises(BrokenContractError):
        bench.run("do nonsense", "return 1")
    bench.policy("allow *", "alow file.write")
    with pytest.raises(BrokenContractError):
        bench.run("return 1")
    bench.policy("allow *")
    with pytest.raises(UsageError):
        start_run(bench.options(), ".aex/policy.aex", {})


def test_a_line_between_two_levels_is_not_run(bench: Bench) -> None:
    """It looks conditional, and would not be."""
    with pytest.raises(BrokenContractError) as raised:
        bench.run("need x: str?", "if x", "    do note.add(n=1)", "  do note.add(n=2)", "return 1")
    assert "AEX040" in [finding.code for finding in raised.value.findings]
    assert bench.calls == []


def test_a_make_without_a_model_is_refused_before_the_start(bench: Bench) -> None:
    """A contract with a make step and no model is refused before its first step."""
    with pytest.raises(ModelError, match="needs a model"):
        bench.run("need n: int", "do note.add(n=n)", "make x: str from n with:", "return x", inputs={"n": 1})
    assert bench.calls == []


def test_without_a_policy_the_contract_alone_counts(bench: Bench) -> None:
    """Without a policy the contract alone counts, and the output says so."""
    (bench.root / ".aex" / "policy.aex").unlink()
    run = start_run(bench.options(), bench.contract("do note.add(n=1)", "return 1", use="note.add"), {})
    assert "AEX135" in [finding.code for finding in run.plan.findings]
    assert run.go().status == "success"


def test_a_json_policy(bench: Bench) -> None:
    """A JSON policy counts like any other."""
    (bench.root / "p.json").write_text('{"allow": ["note.list"], "budget": {"calls": 3}}')
    assert "not in the allow list" in bench.blocked("do note.add(n=1)", "return 1", policy="p.json", task="run-1")
    file = bench.contract("do note.list()", "return 1", use="note.list")
    assert start_run(bench.options(policy="p.json", task=""), file, {}).go().status == "success"


# --- permission


def test_an_empty_allow_permits_nothing(bench: Bench) -> None:
    """A policy that allows nothing, as a policy without an allow."""
    bench.policy("deny network.*")
    assert "not in the allow list" in bench.blocked("do note.add(n=1)", "return 1")
    (bench.root / "p.json").write_text('{"allow": []}')
    assert "not in the allow list" in bench.blocked("do note.add(n=1)", "return 1", policy="p.json")
    assert bench.calls == []


def test_a_denied_tool_blocks_and_is_not_counted(bench: Bench) -> None:
    """By the policy, in any spelling of its name."""
    bench.policy("allow *", "deny Note.Add")
    assert "denied by policy" in bench.blocked("do note.add(n=1)", "return 1", task="run-1")
    assert [fact.tool for fact in bench.facts(kinds.ToolDenied)] == ["note.add"]
    assert bench.ledger().calls_used == 0


def test_confirm_patterns_are_enforced(bench: Bench) -> None:
    """`confirm before note.*` asks before each call of note.add, also before a `confirm` that stands below it."""
    lines = ["do note.add(n=1)", "do note.add(n=2)", "confirm before note.*", "return 1"]
    assert bench.output(*lines) == 1
    assert [asked.tool for asked in bench.asked] == ["note.add", "note.add"]
    assert bench.names().count("confirm.required") == bench.names().count("confirm.approved") == 2


def test_a_policy_confirm_pattern_is_enforced(bench: Bench) -> None:
    """From the policy; a no blocks, and the tool is not called."""
    bench.policy("allow *", "confirm before note.*")
    bench.says = False
    assert "was refused" in bench.blocked("do note.add(n=1)", "return 1")
    assert bench.names()[-2:] == ["confirm.denied", "run.finished"]
    assert bench.calls == []


def test_a_confirm_in_a_body_counts_from_there_on(bench: Bench) -> None:
    """Before it nobody is asked; after it at every call, also outside the body."""
    lines = ["do note.add(n=1)", "for one in [1]", "  confirm before note.*", "do note.add(n=2)", "return 1"]
    bench.output(*lines)
    assert [json.loads(asked.arguments)["n"] for asked in bench.asked] == [2]


def test_auto_confirm_passes_questions(bench: Bench) -> None:
    """Auto-confirm passes questions and records that it did."""
    bench.policy("allow *", "confirm before note.*")
    assert bench.run("do note.add(n=1)", "return 1", auto_confirm=True).status == "success"
    assert bench.asked == []
    assert len(bench.facts(kinds.ConfirmAutoApproved)) == 1


def test_an_unanswered_question_blocks_until_somebody_answers(bench: Bench) -> None:
    """The question stays open; an approval given later lets the resumed run pass."""
    bench.policy("allow *", "confirm before note.*")
    bench.says = None
    assert "waits for a person" in bench.blocked("do note.add(n=1)", "return 5", task="run-1")
    task = bench.task()
    (question,) = task.ledger.approvals
    answer(task, question, yes=True, via="cli", by=ANN)
    task.store.close()
    assert bench.resume().output == 5
    assert len(bench.asked) == 1


def test_the_budget_counts_calls_and_makes(bench: Bench) -> None:
    """Loop turns included; the smaller of both budgets is the limit."""
    bench.policy("allow *", "budget calls=3")
    bench.model = Answers("made")
    lines = ["need n: int", "make x: str from n with:", "for one in [1, 2, 3]", "  do note.add(n=one)", "return x"]
    assert "budget exhausted: 3 of 3" in bench.blocked(*lines, inputs={"n": 1})
    assert bench.done() == [1, 2]


def test_the_budget_goes_on_across_resumes(bench: Bench) -> None:
    """What was spent stays spent; a person who raises the budget lets the run continue."""
    bench.policy("allow *", "budget calls=2")
    lines = ["for one in [1, 2, 3, 4]", "  do note.add(n=one)", "return 1"]
    assert "exhausted" in bench.blocked(*lines, task="run-1")
    assert "exhausted: 2 of 2" in bench.resume().reason
    bench.policy("allow *", "budget calls=3")
    assert "exhausted: 3 of 3" in bench.resume().reason
    bench.policy("allow *", "budget calls=4")
    assert bench.resume().status == "success"
    assert bench.done() == [1, 2, 3, 4]


# --- version 1


def test_a_once_rule_answers_with_what_was_recorded(bench: Bench) -> None:
    """In the run itself, and after a resume: the effect happens once, its result is bound each time."""
    (bench.root / ".aex" / "policy.aex").write_text(
        'policy work v1\ngoal "do it"\nallow *\nonce note.add by n\nbudget calls=2\n'
    )
    lines = ["do note.add(n=1, x=1) -> a", "do note.add(n=1, x=2) -> b", "do note.list()", "do note.add(n=1) -> c"]
    assert "exhausted" in bench.blocked(*lines, "do note.list()", "return [a, b, c]", task="run-1")
    text = (bench.root / ".aex" / "policy.aex").read_text()
    (bench.root / ".aex" / "policy.aex").write_text(text.replace("calls=2", "calls=3"))
    first = {"given": {"n": 1, "x": 1}}
    assert bench.resume().output == [first, first, first]
    assert bench.done() == [1]
    assert len(bench.facts(kinds.ToolReplayed)) == 2


def test_keys_that_some_reader_takes_for_one_are_refused(bench: Bench) -> None:
    """A tool of another server may read `Amount` where the rules examined `amount`."""
    (bench.root / ".aex" / "policy.aex").write_text(
        'policy work v1\ngoal "do it"\nallow *\ndeny file.write where options.amount > 100\n'
    )
    reason = bench.blocked('do file.write(path="a", contents="x", options={amount: 1, Amount: 1000})', "return 1")
    assert "the same to some readers" in reason


def test_a_condition_on_arguments_is_enforced(bench: Bench) -> None:
    """`where` examines the values that the step has come to."""
    (bench.root / ".aex" / "policy.aex").write_text('policy work v1\ngoal "do it"\nallow note.add where n <= 2\n')
    file = bench.contract("for one in [1, 2, 3]", "  do note.add(n=one)", "return 1", use="note.add")
    assert "not with these arguments" in start_run(bench.options(), file, {}).go().reason
    assert bench.done() == [1, 2]


def test_tokens_of_a_make_are_reported(bench: Bench) -> None:
    """They count against a budget of tokens."""
    (bench.root / ".aex" / "policy.aex").write_text('policy work v1\ngoal "do it"\nallow *\nbudget tokens=6\n')
    bench.model = Answers("text")
    makes = [f"make x{number}: str from n with:" for number in range(3)]
    reason = bench.blocked("need n: int", *makes, "return 1", inputs={"n": 1}, task="run-1")
    assert "6 tokens" in reason
    assert bench.ledger().tokens == 10


def test_a_policy_that_only_observes_lets_calls_pass_and_records(bench: Bench) -> None:
    """But a tool that is not there is still not there, and an unlisted command is still refused."""
    (bench.root / ".aex" / "policy.aex").write_text(
        'policy work v1\ngoal "do it"\nmode observe\ndeny note.add\nallow note.list\n'
    )
    assert bench.run("do note.add(n=1)", "return 1").status == "success"
    assert len(bench.facts(kinds.PolicyObserved)) == 1
    assert "there is no tool" in bench.blocked("do no.such(n=1)", "return 1")
    assert "not listed" in bench.blocked('do tests.run(cmd="touch x")', "return 1")


def test_a_remote_tests_tool_still_runs_listed_commands_only(bench: Bench) -> None:
    """It holds for whatever has that name, also where no command is named."""
    bench.tool("tests.run", lambda given: given)
    bench.policy("allow tests.run:npm test*")
    file = bench.contract("do tests.run(command=x)", "return 1", use="tests.run")
    assert start_run(bench.options(), file, {}).go().status == "blocked"
    file = bench.contract('do tests.run(cmd="npm test -q")', "return 1", use="tests.run")
    assert start_run(bench.options(task=""), file, {}).go().status == "success"
