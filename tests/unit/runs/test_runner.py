"""Running a task's steps (contract language, runtime): steps, values and models, in one process, with real files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.log.event import decode
from adjourn.runs.runner import RunOutcome
from support.runs import Answers, Bench


def test_a_run_is_a_task_whose_steps_are_events(bench: Bench) -> None:
    """Published names, in order, both reported and stored; the output is the value of the return."""
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
    assert outcome == RunOutcome(task="run-1", status="success", output={"n": 7}, calls_used=3)
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
    assert "without `return`" in bench.blocked("need n: int?", "if n", "  return 1")


def test_a_loop_needs_a_list(bench: Bench) -> None:
    """A text or an object blocks; binds made in the body stay, a hidden name comes back."""
    assert "not a list" in bench.blocked("need x: json", "for one in x", "  check one", "return 1", inputs={"x": "ab"})
    lines = ["do note.add(n=9) -> one", "for one in [1]", "  do note.add(n=one) -> inner", "return [one, inner]"]
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
    assert bench.output("need n: int", "if n", "  if n is odd", "    return 1", "return 2", inputs={"n": 1}) == 2
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
    assert output["given"] == {"a": "Ann", "b": [40, 2, [True]], "c": {"k": 40, "l": {"m": "n"}}, "d": "plain text"}
    assert output["first"] == "Ann"
    assert output["deep"] == {"list": [1, "a"], "none": None}


def test_an_absent_optional_input_is_null(bench: Bench) -> None:
    """An absent optional input is null, not the text of its name."""
    assert bench.output("need note: str?", "return {note: note}") == {"note": None}


# --- make


def test_make_asks_the_model_and_binds_a_value_of_the_type(bench: Bench) -> None:
    """Inputs and instructions are in the prompt; the result is kept with model and tokens."""
    bench.model = Answers('```json\n{"a": [1]}\n```')
    outcome = bench.run("need n: int", "make x: json from n with:", "  - be brief", "return x.a", inputs={"n": 41})
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
    [("int", "7.5"), ("int", '"7"'), ("bool", "yes"), ("list", "{}"), ("object", "[]"), ("json", "{"), ("url", "x")],
)
def test_an_answer_of_another_type_blocks_and_can_be_asked_for_again(bench: Bench, kind: str, text: str) -> None:
    """It counts one call each time."""
    bench.model = Answers(text)
    lines = ["need n: int", f"make x: {kind} from n with:", "return x"]
    assert f"is not of type {kind}" in bench.blocked(*lines, inputs={"n": 1}, task="run-1")
    assert bench.resume().status == "blocked"
    assert bench.ledger().calls_used == 2
