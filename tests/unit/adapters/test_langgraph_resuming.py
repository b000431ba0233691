"""Graphs of contracts for LangGraph: permissions, budgets, questions, and continuing a thread."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from adjourn.errors import HeldError, InvalidError, UsageError
from adjourn.langgraph import plan
from adjourn.log import kinds
from adjourn.policy.contract import BrokenContractError
from adjourn.runs.step_calls import BlockedError
from adjourn.tasks.approvals import answer
from support.graphs import made
from support.runs import ANN, Bench


@pytest.mark.parametrize("line", ["deny note.add", "allow note.list"], ids=["denied", "not allowed"])
def test_a_call_that_is_not_permitted_is_refused(bench: Bench, line: str) -> None:
    """By the policy, inside a body as anywhere; no node comes after it, and the refusal is in the history."""
    bench.policy(*(["allow *", line] if line.startswith("deny") else [line]))
    lines = ["for one in [1]", "  if one", "    do note.add(n=1)", "do note.list()", "return 1"]
    with pytest.raises(BlockedError, match="run-1 can be resumed"):
        made(bench, *lines, use="note.add, note.list").invoke({"inputs": {}, "task": "run-1"})
    assert bench.calls == []
    assert [fact.tool for fact in bench.facts(kinds.ToolDenied)] == ["note.add"]
    assert [fact.status for fact in bench.facts(kinds.RunFinished)] == ["blocked"]


def test_a_contract_that_refuses_its_own_call_makes_no_graph(bench: Bench) -> None:
    """The checker's findings come before anything runs."""
    with pytest.raises(BrokenContractError):
        made(bench, "do note.add(n=1)", "return 1", use="note.list")


def test_the_budget_is_counted_in_the_store(bench: Bench) -> None:
    """Over the turns of a loop; the call beyond it is refused, also when the graph is made and invoked again."""
    bench.policy("allow *", "budget calls=2")
    lines = ["for one in [1, 2, 3]", "  do note.add(n=one)", "return 1"]
    with pytest.raises(BlockedError, match="budget"):
        made(bench, *lines).invoke({"inputs": {}, "task": "run-1"})
    with pytest.raises(BlockedError, match="budget"):
        made(bench, *lines).invoke({"task": "run-1", "resume": True})
    assert bench.done() == [1, 2]
    assert bench.ledger().calls_used == 2


def test_a_question_is_asked_and_waits(bench: Bench) -> None:
    """Unanswered it blocks; once a person approves, the same task continues, and what is done is not done again."""
    bench.policy("allow *")
    lines = ["do note.list()", "confirm before note.add", "do note.add(n=1)", "return 1"]
    built = made(bench, *lines)
    with pytest.raises(BlockedError, match="waits for a person"):
        built.invoke({"inputs": {}, "task": "run-1"})
    task = bench.task()
    [question] = task.ledger.approvals.values()
    answer(task, question.id, yes=True, via="terminal", by=ANN)
    task.store.close()
    assert built.invoke({"task": "run-1", "resume": True}) == {"run": "run-1", "output": 1}
    assert [name for name, _ in bench.calls] == ["note.list", "note.add"]


def test_a_person_of_the_caller_is_asked(bench: Bench) -> None:
    """The caller's `ask` gets the question, as in a run."""
    bench.says = False
    with pytest.raises(BlockedError):
        made(bench, "confirm before note.add", "do note.add(n=1)", "return 1", ask=bench._person).invoke({})
    assert [question.tool for question in bench.asked] == ["note.add"]
    assert bench.calls == []


def test_inputs_are_checked_before_anything(bench: Bench) -> None:
    """All wrong inputs are reported, and no task is made."""
    from adjourn.runs.start import InputsError

    with pytest.raises(InputsError):
        made(bench, "need n: int", "do note.add(n=n)", "return n").invoke({"inputs": {"n": "x"}})
    assert (bench.calls, bench.streams()) == ([], [])


# --- the graph: continuing


LOOP = ("for one in [1, 2]", "  do note.add(n=one)", "do note.list() -> all", "return all.given")


def test_two_graphs_of_a_process_do_not_run_one_task(bench: Bench) -> None:
    """The second one is refused while the first one continues, and may continue when that is abandoned."""
    first = made(bench, *LOOP, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    first.invoke({"inputs": {}, "task": "run-1"}, thread, interrupt_before=["all"])
    second = made(bench, *LOOP)
    with pytest.raises(HeldError, match="run-1 already"):
        second.invoke({"task": "run-1", "resume": True})
    del first
    gc.collect()
    assert second.invoke({"task": "run-1", "resume": True})["output"] == {}
    assert bench.done() == [1, 2]


def test_a_run_that_stopped_between_nodes_goes_on(bench: Bench) -> None:
    """In the graph that stopped: with the thread, or again by its name."""
    built = made(bench, *LOOP, checkpointer=InMemorySaver())
    for number, more in enumerate([None, {"task": "run-1", "resume": True}]):
        thread: Any = {"configurable": {"thread_id": str(number)}}
        task = f"run-{number}"
        built.invoke({"inputs": {}, "task": task}, thread, interrupt_before=["all"])
        assert built.invoke(more, thread) == {"run": task, "output": {}}
    assert bench.done() == [1, 2, 1, 2]


PROGRAM = """
import sys
from langgraph.checkpoint.sqlite import SqliteSaver
from adjourn.langgraph import graph

with SqliteSaver.from_conn_string("threads.db") as saver:
    built = sys.built = graph("task.aex", checkpointer=saver)  # something refers to it to the end
    thread = {"configurable": {"thread_id": "1"}}
    if sys.argv[1] == "begin":
        built.invoke({"inputs": {}}, thread, interrupt_before=["if-1-2"])
        built.invoke(None, thread, interrupt_before=["if-1-2"])
    else:
        print(built.invoke(None, thread)["output"])
"""


def _program(bench: Bench, *arguments: str) -> str:
    """What it prints, when it ends by itself with exit code 0."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(command, cwd=bench.root, timeout=60, check=True, capture_output=True, text=True).stdout


def test_a_thread_goes_on_in_another_process(bench: Bench) -> None:
    """A checkpoint of LangGraph's has the run's name and place; what its steps came to is in the store, and not done again."""
    bench.contract(
        'for name in ["a", "b", "c"]',
        '  do file.write(path=name, contents="by a run")',
        "  if name",
        "    do file.read(paths=[name]) -> read",
        "return read",
    )
    assert _program(bench, "begin") == ""
    assert not bench.ledger(bench.streams()[0]).sessions, "it got up when its process ended"
    assert (bench.root / "b").read_text() == "by a run"
    assert not (bench.root / "c").exists()
    (bench.root / "a").write_text("by hand")
    assert _program(bench, "go on") == "{'c': 'by a run'}\n"
    assert (bench.root / "a").read_text() == "by hand"


def test_a_thread_goes_on_behind_a_refusal(bench: Bench) -> None:
    """When the policy has been changed: with the step that was refused."""
    bench.policy("allow note.list")
    built = made(bench, "do note.list()", "do note.add(n=1)", "return 1", use="note.*", checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(BlockedError):
        built.invoke({"inputs": {}}, thread)
    with pytest.raises(BlockedError):
        built.invoke(None, thread)
    bench.policy("allow note.*")
    assert built.invoke(None, thread)["output"] == 1
    assert [name for name, _ in bench.calls] == ["note.list", "note.add"]


def test_a_thread_that_is_set_back_repeats_nothing(bench: Bench) -> None:
    """From a place that the run has left behind it gets to where it was, with what its steps came to."""
    lines = (*LOOP[:3], "do note.add(n=all)", "return all")
    built = made(bench, *lines, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    built.invoke({"inputs": {}}, thread, interrupt_before=["note-add-3"])
    earlier = [state.config for state in built.get_state_history(thread) if state.next == ("for-1",)]
    assert built.invoke(None, earlier[1])["output"] == {"given": {}}
    assert bench.done() == [1, 2, {"given": {}}]


def test_a_thread_runs_a_contract_as_often_as_it_is_invoked(bench: Bench) -> None:
    """Each time in a task of its own, with the inputs of then."""
    built = made(bench, "need n: int?", "do note.add(n=n)", "return n", checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    invocations: list[Any] = [{"inputs": {"n": 1}, "task": "run-1"}, {"inputs": {"n": 2}}, {"inputs": {}}]
    came = [built.invoke(one, thread) for one in invocations]
    assert [one["output"] for one in came] == [1, 2, None]
    assert len({one["run"] for one in came}) == 3


def test_a_run_that_is_over_is_not_run_again(bench: Bench) -> None:
    """Its output is shown; a thread that stands at an earlier place of it cannot continue."""
    built = made(bench, *LOOP, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    built.invoke({"inputs": {}, "task": "run-1"}, thread)
    assert made(bench, *LOOP).invoke({"task": "run-1", "resume": True}) == {"run": "run-1", "output": {}}
    earlier = [state.config for state in built.get_state_history(thread) if state.next == ("all",)]
    with pytest.raises(UsageError, match="has ended"):
        built.invoke(None, earlier[0])
    assert bench.done() == [1, 2]


def test_a_contract_that_changed_is_not_run(bench: Bench) -> None:
    """A graph refuses a contract that changed since the graph was built."""
    built = made(bench, "do note.add(n=1)", "return 1")
    bench.contract("return 1")
    with pytest.raises(InvalidError, match="make the graph again"):
        built.invoke({"inputs": {}})
    with pytest.raises(InvalidError, match="make the graph again"):
        built.invoke({"resume": True})
    (bench.root / "task.aex").unlink()
    with pytest.raises(BrokenContractError):
        built.invoke({"inputs": {}})
    assert bench.calls == []


def test_asynchronous_invocations(bench: Bench) -> None:
    """Several runs of one graph at the same time, each in its own task."""

    async def both() -> list[Any]:
        return await asyncio.gather(*(built.ainvoke({"inputs": {"n": n}}) for n in (1, 2, 3)))

    built = made(bench, "need n: int", "for one in [1, 2]", "  do note.add(n=n) -> added", "return added.given.n")
    assert [came["output"] for came in asyncio.run(both())] == [1, 2, 3]


def test_langgraph_is_loaded_when_a_graph_is_made(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan needs none; a graph says how to install it."""
    monkeypatch.setitem(sys.modules, "langgraph.graph", None)
    with pytest.raises(UsageError, match=r"adjourn\[langgraph\]"):
        made(bench, "return 1")
    assert plan(bench.root / "task.aex").start == "return-1"
    program = "import sys, adjourn.langgraph; assert 'langgraph' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
