"""Continuing a run after a stop, a refusal or a kill: no effect is repeated, and none is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import AdjournError, HeldError, InvalidError, NotFoundError, UsageError
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.runs.start import start_run
from adjourn.runs.step_calls import Stop
from adjourn.runs.tools import ToolError
from support.kills import Killed
from support.runs import Answers, Bench


def test_finished_steps_are_not_run_again(bench: Bench) -> None:
    """A blocked run continues with the step that blocked it; what went before is bound from the history."""
    lines = ["do note.add(n=1) -> one", "do note.list(x=one.given.n) -> two", "return [one, two]"]

    def fail(_given: Any) -> Any:
        raise ToolError("not now")

    bench.tool("note.list", fail)
    assert "not now" in bench.blocked(*lines, task="run-1")
    bench.tool("note.list", lambda given: given["x"] + 1)
    assert bench.resume().output == [{"given": {"n": 1}}, 2]
    assert bench.done() == [1]
    assert [data for name, data in bench.events if name == "tool.allowed"] == [{"tool": "note.list", "args": {"x": 1}}]


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
    """A person says so: its result is null, and the run continues behind it."""
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
    with pytest.raises(InvalidError, match="changed since run run-1 started"):
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
    """Resuming it by name tells its output again, and writes nothing."""
    bench.run("do note.add(n=1) -> x", "return x")
    before = bench.ledger().seq
    assert bench.resume().output == {"given": {"n": 1}}
    assert bench.done() == [1]
    assert bench.ledger().seq == before


def test_a_name_that_is_taken_is_refused(bench: Bench) -> None:
    """A new run never writes into another task."""
    bench.run("return 1")
    with pytest.raises(UsageError, match="task run-1 already exists"):
        bench.run("return 2")


def test_two_processes_never_run_one_task(bench: Bench) -> None:
    """A second process cannot run a task while the first one lives."""
    bench.policy("allow *", "budget calls=0")
    first = start_run(bench.options(), bench.contract("do note.add(n=1)", "return 1"), {})
    with bench.patch.context() as patch:
        patch.setattr("adjourn.host.process.group_of", lambda _process, _root: "another")
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


# --- every point of a kill


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_a_kill_at_each_write_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, written: bool) -> None:
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
    from adjourn.store.sqlite import SqliteStore

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
    lines = [f"do note.add(n=1) -> {long}", f"for y{long} in [1]", f"  check {long}.given", f"return {long}.given.n"]
    assert bench.output(*lines) == 1
