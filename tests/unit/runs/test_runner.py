"""Running a task's steps (contract language, runtime), and going on with a run: in one process, with real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import AdjournError, HeldError, InvalidError, NotFoundError, UsageError
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.log.event import decode
from adjourn.models.model import Completion, ModelError
from adjourn.policy.contract import BrokenContractError
from adjourn.runs import start_run
from adjourn.runs.cancellation import Stop
from adjourn.runs.runner import Outcome
from adjourn.runs.start import InputsError
from adjourn.runs.tools import ToolError
from adjourn.tasks.approvals import answer
from support.kills import Killed
from support.runs import ANN, Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


# --- steps


def test_a_run_is_a_task_whose_steps_are_events(bench: Bench) -> None:
    """Published names, in order, both told and kept; the output is the value of the return."""
    outcome = bench.run(
        "need n: int",
        "do note.add(n=n) -> added",
        "check added.given.n",
        "if added.missing",
        "  do note.list()",
        "for one in [1, 2]",
        "  do note.add(n=one)",
        "return {n: added.given.n}",
        inputs={"n": 7},
    )
    assert outcome == Outcome(task="run-1", status="success", output={"n": 7}, calls_used=3)
    expected = [
        "run.started", "tool.allowed", "tool.result", "check.passed", "if.false", "for.start",
        "tool.allowed", "tool.result", "tool.allowed", "tool.result", "run.finished",
    ]  # fmt: skip
    assert bench.names() == expected
    store = open_at(str(bench.root))
    kept = [decode(entry.data).event for entry in store.read("run-1")]
    store.close()
    assert [name for name in kept if name in set(expected)] == expected
    assert [fact.step for fact in bench.facts(kinds.ToolResult)] == ["1", "4:1.1", "4:2.1"]


def test_events_have_the_published_data(bench: Bench) -> None:
    """Tool, arguments, bind and result; condition and reason; variable and count."""
    bench.run("do note.add(n=1) -> added", "for one in []", "  check one", "check added.no", "return 1")
    assert bench.events == [
        ("run.started", {"agent": "work"}),
        ("tool.allowed", {"tool": "note.add", "args": {"n": 1}}),
        ("tool.result", {"tool": "note.add", "bind": "added", "result": {"given": {"n": 1}}}),
        ("for.start", {"variable": "one", "count": 0}),
        ("check.failed", {"condition": "added.no", "reason": "added.no is null"}),
        ("run.finished", {"status": "blocked", "reason": "check failed: added.no: added.no is null"}),
    ]


def test_secrets_are_not_shown(bench: Bench) -> None:
    """Events hide what is named or shaped like a secret; the tool gets it all the same."""
    bench.run('do note.add(token="abc", text="x") -> added', "return 1")
    assert bench.calls[0][1] == {"token": "abc", "text": "x"}
    assert "abc" not in json.dumps(bench.events)


def test_the_first_return_ends_the_run_at_any_depth(bench: Bench) -> None:
    """The first return at any depth ends the run, and no later step runs."""
    lines = ["for one in [1, 2]", "  if one", "    return one", "  do note.add(n=1)", "return 3"]
    assert bench.output(*lines) == 1
    assert bench.calls == []


def test_the_end_without_a_return_blocks(bench: Bench) -> None:
    """A return that is passed by is none."""
    assert "without a return" in bench.blocked("need n: int?", "if n", "  return 1")


def test_a_loop_needs_a_list(bench: Bench) -> None:
    """A text or an object blocks; binds made in the body stay, a hidden name comes back."""
    assert "no list" in bench.blocked(
        "need x: json", "for one in x", "  check one", "return 1", inputs={"x": "ab"}
    )
    lines = [
        "do note.add(n=9) -> one",
        "for one in [1]",
        "  do note.add(n=one) -> inner",
        "return [one, inner]",
    ]
    first, inner = bench.output(*lines)
    assert (first["given"], inner["given"]) == ({"n": 9}, {"n": 1})


def test_nested_bodies(bench: Bench) -> None:
    """Ifs in ifs and loops in loops run what their conditions say."""
    lines = [
        "need rows: list[json]",
        "for row in rows",
        "  for cell in row.cells",
        "    if cell.on",
        "      if cell.name",
        "        do note.add(n=cell.name)",
        "return 1",
    ]
    rows = [
        {"cells": [{"on": True, "name": "a"}, {"on": False, "name": "b"}]},
        {"cells": [{"on": 1, "name": ""}, {"on": [0], "name": "d"}]},
    ]
    bench.output(*lines, inputs={"rows": rows})
    assert bench.done() == ["a", "d"]


def test_an_unsupported_condition_blocks_a_check_and_is_false_in_an_if(bench: Bench) -> None:
    """An unsupported condition blocks a check and is false in an if, as published; the checker warns of it."""
    assert (
        bench.output("need n: int", "if n", "  if n is odd", "    return 1", "return 2", inputs={"n": 1}) == 2
    )
    lines = ["need n: int", "if n", "  check n is odd", "return 2"]
    assert "no condition of this form" in bench.blocked(*lines, inputs={"n": 1})


def test_a_failing_tool_blocks(bench: Bench) -> None:
    """A tool that raises anything blocks the run; its call is settled and not in doubt."""

    def fail(_given: Any) -> Any:
        raise ValueError("no such thing")

    bench.tool("note.add", fail)
    assert bench.blocked("do note.add(n=1)", "return 1", task="run-1") == (
        'tool "note.add" failed: ValueError: no such thing'
    )
    assert [fact.outcome for fact in bench.facts(kinds.ToolSettled)] == ["tool-error"]
    assert not bench.ledger().doubts


def test_a_tool_that_gives_no_json_blocks(bench: Bench) -> None:
    """What cannot be kept cannot be bound."""
    bench.tool("note.add", lambda _given: object())
    assert "not a JSON value" in bench.blocked("do note.add(n=1)", "return 1")


def test_a_tool_that_is_not_there(bench: Bench) -> None:
    """Allowed but unknown: blocked, and not counted."""
    assert bench.blocked("do no.such(n=1)", "return 1", task="run-1") == 'there is no tool "no.such"'
    assert bench.ledger().calls_used == 0


# --- before anything runs


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
    assert "not in the allow list" in bench.blocked(
        "do note.add(n=1)", "return 1", policy="p.json", task="run-1"
    )
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
    """The question stays open; a yes given later lets the resumed run pass."""
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
    lines = [
        "need n: int",
        "make x: str from n with:",
        "for one in [1, 2, 3]",
        "  do note.add(n=one)",
        "return x",
    ]
    assert "budget exhausted: 3 of 3" in bench.blocked(*lines, inputs={"n": 1})
    assert bench.done() == [1, 2]


def test_the_budget_goes_on_across_resumes(bench: Bench) -> None:
    """What was spent stays spent; a person who raises the budget lets the run go on."""
    bench.policy("allow *", "budget calls=2")
    lines = ["for one in [1, 2, 3, 4]", "  do note.add(n=one)", "return 1"]
    assert "exhausted" in bench.blocked(*lines, task="run-1")
    assert "exhausted: 2 of 2" in bench.resume().reason
    bench.policy("allow *", "budget calls=3")
    assert "exhausted: 3 of 3" in bench.resume().reason
    bench.policy("allow *", "budget calls=4")
    assert bench.resume().status == "success"
    assert bench.done() == [1, 2, 3, 4]


# --- values


class Answers:
    """A model that gives these answers, one after the other, the last one for ever."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.asked: list[tuple[str, str]] = []

    def complete(self, system: str, prompt: str) -> Completion:
        self.asked.append((system, prompt))
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return Completion(text=text, model="m-1", input_tokens=3, output_tokens=2)


def test_quoted_texts_are_literal_and_commas_in_them_too(bench: Bench) -> None:
    """Quotes make a literal, even where an input has that name."""
    lines = ["need name: str", 'do note.add(a="name", b=name, c="x, y=z", d=\'q\') -> x', "return x.given"]
    assert bench.output(*lines, inputs={"name": "Ann"}) == {"a": "name", "b": "Ann", "c": "x, y=z", "d": "q"}


def test_dotted_arguments_lists_and_objects(bench: Bench) -> None:
    """Values are expressions, in arguments and in return, on one line and on several."""
    lines = [
        "need who: json",
        'do note.add(a=who.name.first, b=[who.age, 2, [true]], c={k: who.age, l: {m: "n"}}, d=plain text) -> x',
        "return {",
        "  given: x.given, first: who.name.first,",
        '  deep: {list: [1, "a"], none: who.missing.part}',
        "}",
    ]
    output = bench.output(*lines, inputs={"who": {"name": {"first": "Ann"}, "age": 40}})
    assert output["given"] == {
        "a": "Ann",
        "b": [40, 2, [True]],
        "c": {"k": 40, "l": {"m": "n"}},
        "d": "plain text",
    }
    assert output["first"] == "Ann"
    assert output["deep"] == {"list": [1, "a"], "none": None}


def test_an_absent_optional_input_is_null(bench: Bench) -> None:
    """An absent optional input is null, not the text of its name."""
    assert bench.output("need note: str?", "return {note: note}") == {"note": None}


# --- make


def test_make_asks_the_model_and_binds_a_value_of_the_type(bench: Bench) -> None:
    """Inputs and instructions are in the prompt; the result is kept with model and tokens."""
    bench.model = Answers('```json\n{"a": [1]}\n```')
    outcome = bench.run(
        "need n: int", "make x: json from n with:", "  - be brief", "return x.a", inputs={"n": 41}
    )
    assert outcome.output == [1]
    ((system, prompt),) = bench.model.asked
    assert "`x`, of type json" in system
    assert "be brief" in prompt
    assert "41" in prompt
    (result,) = bench.facts(kinds.MakeResult)
    assert (result.model, result.input_tokens, result.output_tokens) == ("m-1", 3, 2)
    assert ("make.result", {"bind": "x"}) in bench.events


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("str", " two words\n", "two words"),
        ("str", "[1]", "[1]"),
        ("int", "7", 7),
        ("num", "7.5", 7.5),
        ("bool", "true", True),
        ("list", "[1, 2]", [1, 2]),
        ("object", '{"a": 1}', {"a": 1}),
        ("diff", "```diff\n--- a/x\n+++ b/x\n```", "--- a/x\n+++ b/x\n"),
        ("markdown", "a\n\n```\ncode\n```\n", "a\n\n```\ncode\n```\n"),
    ],
)
def test_answers_are_taken_by_type(bench: Bench, kind: str, text: str, value: Any) -> None:
    """Text stays text without a fence around it; the rest has to be JSON of the type."""
    bench.model = Answers(text)
    assert bench.output("need n: int", f"make x: {kind} from n with:", "return x", inputs={"n": 1}) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "7.5"),
        ("int", '"7"'),
        ("bool", "yes"),
        ("list", "{}"),
        ("object", "[]"),
        ("json", "{"),
        ("url", "x"),
    ],
)
def test_an_answer_of_another_type_blocks_and_can_be_asked_for_again(
    bench: Bench, kind: str, text: str
) -> None:
    """It counts one call each time."""
    bench.model = Answers(text)
    lines = ["need n: int", f"make x: {kind} from n with:", "return x"]
    assert f"is not of type {kind}" in bench.blocked(*lines, inputs={"n": 1}, task="run-1")
    assert bench.resume().status == "blocked"
    assert bench.ledger().calls_used == 2


# --- going on


def test_finished_steps_are_not_run_again(bench: Bench) -> None:
    """A blocked run goes on with the step that blocked it; what went before is bound from the history."""
    lines = ["do note.add(n=1) -> one", "do note.list(x=one.given.n) -> two", "return [one, two]"]

    def fail(_given: Any) -> Any:
        raise ToolError("not now")

    bench.tool("note.list", fail)
    assert "not now" in bench.blocked(*lines, task="run-1")
    bench.tool("note.list", lambda given: given["x"] + 1)
    assert bench.resume().output == [{"given": {"n": 1}}, 2]
    assert bench.done() == [1]
    assert [data for name, data in bench.events if name == "tool.allowed"] == [
        {"tool": "note.list", "args": {"x": 1}}
    ]


def test_a_run_killed_in_an_effect_asks_before_it_repeats_it(bench: Bench) -> None:
    """In doubt: a question, also with --auto-confirm; without an answer nothing is called."""
    bench.cut()
    bench.killed("do note.add(n=1)", "do note.list()", "return 1")
    bench.mend()
    bench.says = None
    outcome = bench.resume(auto_confirm=True)
    assert "is in doubt" in outcome.reason
    assert "adjourn settle" in outcome.remedy
    assert bench.asked[0].doubt
    assert bench.done() == [1]


def test_an_effect_that_happened_is_not_repeated(bench: Bench) -> None:
    """A person says so: its result is null, and the run goes on behind it."""
    bench.cut()
    bench.killed("do note.add(n=1) -> x", "do note.list()", "return {x: x}")
    bench.mend()
    bench.settle(happened=True)
    assert bench.resume().output == {"x": None}
    assert bench.done() == [1]
    assert [fact.step for fact in bench.facts(kinds.ToolResult)] == ["1", "2"]


def test_an_effect_that_did_not_happen_is_done(bench: Bench) -> None:
    """A call that a person settles as not done is made once."""
    bench.cut()
    bench.killed("do note.add(n=1) -> x", "return x.given.n")
    bench.mend()
    bench.settle(happened=False)
    assert bench.resume().output == 1
    assert bench.done() == [1, 1]
    assert bench.asked == []


def test_a_yes_to_the_question_runs_it_again(bench: Bench) -> None:
    """That takes it out of doubt, too."""
    bench.cut()
    bench.killed("do note.add(n=1) -> x", "return x.given.n")
    bench.mend()
    assert bench.resume().output == 1
    assert not bench.ledger().doubts


def test_the_same_call_in_another_turn_is_another_call(bench: Bench) -> None:
    """Only the turn that was cut off is in doubt."""
    lines = ["for one in [1, 1, 1]", "  do note.add(n=one)", "return 1"]
    seen: list[int] = []

    def second_dies(given: Any) -> Any:
        seen.append(given["n"])
        if len(seen) == 2:
            raise Killed
        return {}

    bench.tool("note.add", second_dies)
    bench.killed(*lines)
    bench.settle(happened=True)
    assert bench.resume().status == "success"
    assert bench.done() == [1, 1, 1]
    assert [fact.step for fact in bench.facts(kinds.ToolResult)] == ["1:1.1", "1:2.1", "1:3.1"]


def test_a_read_that_was_cut_off_is_simply_repeated(bench: Bench) -> None:
    """It had no effect; nobody is asked. It counts again, for it was made again."""
    bench.tool("note.list", lambda _given: (_ for _ in ()).throw(Killed()), effectful=False)
    bench.killed("do note.list() -> x", "return x")
    bench.tool("note.list", lambda _given: "read", effectful=False)
    assert bench.resume().output == "read"
    assert bench.asked == []
    assert bench.ledger().calls_used == 2


def test_a_make_that_was_cut_off_is_asked_again(bench: Bench) -> None:
    """A make step that was interrupted asks the model again; one that was answered does not."""
    bench.model = Answers("one", "two")
    bench.cut()
    lines = ["need n: int", "make x: str from n with:", "do note.add(n=1)", "return x"]
    bench.killed(*lines, inputs={"n": 1})
    bench.mend()
    bench.settle(happened=True)
    assert bench.resume().output == "one"
    assert len(bench.model.asked) == 1


def test_a_tool_that_gave_no_answer_is_in_doubt(bench: Bench) -> None:
    """The run is blocked, and its next sitting asks."""

    def silent(_given: Any) -> Any:
        raise ToolError("no answer", answered=False)

    bench.tool("note.add", silent)
    bench.blocked("do note.add(n=1)", "return 1", task="run-1")
    assert len(bench.ledger().doubts) == 1
    bench.mend()
    assert bench.resume().status == "success"
    assert bench.asked[0].doubt


def test_a_run_goes_on_with_the_text_it_was_started_with(bench: Bench) -> None:
    """A changed file is refused where it is named; without it the pinned text is run."""
    bench.cut()
    bench.killed("do note.add(n=1)", "return 1")
    bench.mend()
    bench.settle(happened=True)
    file = bench.contract("do note.add(n=2)", "return 2")
    with pytest.raises(InvalidError, match="not what run run-1 was started with"):
        bench.resume(file)
    assert bench.resume().output == 1
    assert bench.done() == [1]


def test_inputs_are_pinned(bench: Bench) -> None:
    """A resumed run has the inputs of its start."""
    bench.policy("allow *", "budget calls=0")
    bench.blocked("need n: json", "do note.add(n=n)", "return n", inputs={"n": {"ä": [1.5]}}, task="run-1")
    bench.policy("allow *")
    assert bench.resume().output == {"ä": [1.5]}


def test_the_newest_unfinished_run_is_resumed(bench: Bench) -> None:
    """Of any contract, or of the file that is named; finished ones are passed over."""
    bench.policy("allow *", "budget calls=0")
    for number, name in enumerate(("a.aex", "b.aex"), 1):
        bench.clock.move(seconds=1)
        file = bench.contract("do note.add(n=1)", f"return {number}", name=name)
        start_run(bench.options(task=name), file, {}).go()
    bench.policy("allow *")
    assert bench.resume("a.aex", task="").output == 1
    with pytest.raises(NotFoundError, match=r"no unfinished run of a\.aex"):
        bench.resume("a.aex", task="")
    assert bench.resume(task="").output == 2
    with pytest.raises(NotFoundError, match="no unfinished run"):
        bench.resume(task="")


def test_a_run_that_succeeded_is_not_run_again(bench: Bench) -> None:
    """Resuming it by name tells its output once more, and writes nothing."""
    bench.run("do note.add(n=1) -> x", "return x")
    before = bench.ledger().seq
    assert bench.resume().output == {"given": {"n": 1}}
    assert bench.done() == [1]
    assert bench.ledger().seq == before


def test_a_name_that_is_taken_is_refused(bench: Bench) -> None:
    """A new run never writes into another task."""
    bench.run("return 1")
    with pytest.raises(UsageError, match="there is a task run-1 already"):
        bench.run("return 2")


def test_two_processes_never_run_one_task(bench: Bench) -> None:
    """A second process cannot run a task while the first one lives."""
    bench.policy("allow *", "budget calls=0")
    first = start_run(bench.options(), bench.contract("do note.add(n=1)", "return 1"), {})
    with bench.patch.context() as patch:
        patch.setattr("adjourn.runs.start.group_of", lambda _process, _root: "another")
        with pytest.raises(HeldError):
            bench.resume()
    first.go()


def test_a_stop_between_steps_leaves_the_run_to_be_resumed(bench: Bench) -> None:
    """The step under way is finished and kept; the next one is not begun."""
    stop = Stop()

    def ask_to_stop(given: Any) -> Any:
        if given["n"] == 2:
            stop._asked = True  # a signal that comes where it may not cut
        return given

    bench.tool("note.add", ask_to_stop)
    with pytest.raises(KeyboardInterrupt):
        bench.run("for one in [1, 2, 3]", "  do note.add(n=one)", "return 1", stop=stop)
    assert bench.done() == [1, 2]
    assert bench.resume().status == "success"
    assert bench.done() == [1, 2, 3]
    assert bench.asked == []


def test_a_missing_document_is_told(bench: Bench) -> None:
    """A result that was erased cannot be bound."""
    bench.policy("allow *", "budget calls=1")
    bench.blocked("do note.add(n=1) -> x", "do note.add(n=2)", "return x", task="run-1")
    (result,) = bench.facts(kinds.ToolResult)
    store = open_at(str(bench.root))
    store.forget(result.result)
    store.close()
    with pytest.raises(AdjournError, match="is not in the store"):
        bench.resume()


# --- version 1


def test_a_once_rule_answers_with_what_was_recorded(bench: Bench) -> None:
    """In the run itself, and after a resume: the effect happens once, its result is bound each time."""
    (bench.root / ".aex" / "policy.aex").write_text(
        'policy work v1\ngoal "do it"\nallow *\nonce note.add by n\nbudget calls=2\n'
    )
    lines = [
        "do note.add(n=1, x=1) -> a",
        "do note.add(n=1, x=2) -> b",
        "do note.list()",
        "do note.add(n=1) -> c",
    ]
    assert "exhausted" in bench.blocked(*lines, "do note.list()", "return [a, b, c]", task="run-1")
    text = (bench.root / ".aex" / "policy.aex").read_text()
    (bench.root / ".aex" / "policy.aex").write_text(text.replace("calls=2", "calls=3"))
    first = {"given": {"n": 1, "x": 1}}
    assert bench.resume().output == [first, first, first]
    assert bench.done() == [1]
    assert len(bench.facts(kinds.ToolReplayed)) == 2


def test_keys_that_some_reader_takes_for_one_are_refused(bench: Bench) -> None:
    """A tool of another server may read `Amount` where the rules looked at `amount`."""
    reason = bench.blocked(
        'do file.write(path="a", contents="x", options={amount: 1, Amount: 1000})', "return 1"
    )
    assert "the same to some readers" in reason


def test_a_condition_on_arguments_is_enforced(bench: Bench) -> None:
    """`where` looks at the values that the step has come to."""
    (bench.root / ".aex" / "policy.aex").write_text(
        'policy work v1\ngoal "do it"\nallow note.add where n <= 2\n'
    )
    file = bench.contract("for one in [1, 2, 3]", "  do note.add(n=one)", "return 1", use="note.add")
    assert "not with these arguments" in start_run(bench.options(), file, {}).go().reason
    assert bench.done() == [1, 2]


def test_tokens_of_a_make_are_reported(bench: Bench) -> None:
    """They count against a budget of tokens."""
    (bench.root / ".aex" / "policy.aex").write_text(
        'policy work v1\ngoal "do it"\nallow *\nbudget tokens=6\n'
    )
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


# --- every point of a kill


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_a_kill_at_each_write_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, written: bool
) -> None:
    """Right before and right after each write to the store: with a person who says what is true, each effect is there once."""
    lines = [
        "do note.list() -> items",
        "for one in items",
        "  if one",
        "    do note.add(n=one)",
        "  check one",
        "do note.add(n=9)",
        "return items",
    ]
    from adjourn.store.sqlite import SqliteStore  # noqa: PLC0415

    append = SqliteStore.append
    point = survived = 0
    while True:
        point += 1
        bench = Bench(tmp_path / str(point), monkeypatch)
        bench.tool("note.list", lambda _given: [1, 2, 3], effectful=False)
        writes = 0

        def cut(store: SqliteStore, *arguments: Any, point: int = point, **more: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == point and not written:
                raise Killed
            done = append(store, *arguments, **more)
            if writes == point:
                raise Killed
            return done

        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "append", cut)
            try:
                bench.killed(*lines)
            except pytest.fail.Exception:  # the run was over before this point
                survived += 1
        if survived:
            assert point > 10
            break
        if "run-1" not in bench.streams():
            assert bench.done() == []
            continue
        bench.settle(happened=bench.done() != [] and _last_was_made(bench))
        assert bench.resume().output == [1, 2, 3]
        assert bench.done() == [1, 2, 3, 9]
        steps = [fact.step for fact in bench.facts(kinds.ToolResult)]
        assert sorted(steps) == sorted(set(steps))
        assert len(steps) == 5


def _last_was_made(bench: Bench) -> bool:
    """Whether the last intended call of note.add is among those that were made."""
    intended = [json.loads(fact.arguments)["n"] for fact in bench.facts(kinds.ToolAllowed) if fact.arguments]
    return bool(intended) and intended[-1] == bench.done()[-1]


def test_names_of_any_length_do_not_stop_a_run(bench: Bench) -> None:
    """An event keeps their beginning; the run uses all of them."""
    long = "x" * 70_000
    lines = [
        f"do note.add(n=1) -> {long}",
        f"for y{long} in [1]",
        f"  check {long}.given",
        f"return {long}.given.n",
    ]
    assert bench.output(*lines) == 1
