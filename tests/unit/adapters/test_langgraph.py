"""Contracts for LangGraph: the plan of branches and loops, and the graph that is run by the runtime of `adjourn run`."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver

from adjourn.adapters.langgraph import BEGIN, GraphPlan, graph, plan
from adjourn.aex.ast import ForStep, IfStep, ReturnStep, Statement
from adjourn.aex.check import examine
from adjourn.errors import HeldError, InvalidError, UsageError
from adjourn.log import kinds
from adjourn.policy.contract import BrokenContractError
from adjourn.runs.step_calls import BlockedError
from adjourn.tasks.approvals import answer
from support.runs import ANN, Bench
from support.strategies import contract_documents

EXAMPLES = Path(__file__).parents[3] / "examples" / "contracts"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def made(bench: Bench, *lines: str, use: str = "*, tests.run", **more: Any) -> Any:
    """The graph of a contract with these lines, with the bench's tools."""
    settings: dict[str, Any] = {
        "tools": bench.tools,
        "emit": lambda name, data: bench.events.append((name, data)),
    } | more
    return graph(bench.contract(*lines, use=use), root=str(bench.root), **settings)


def visited(built: Any, **given: Any) -> list[str]:
    """The nodes that an invocation goes through, without the one before the first step."""
    names = [name for update in built.stream({"inputs": given}, stream_mode="updates") for name in update]
    assert names[0] == BEGIN
    return names[1:]


def planned(*lines: str) -> dict[str, Any]:
    """The plan of a contract with these lines, as a reader gets it."""
    text = "\n".join(["task work v0", 'goal "do it"', "use *", *lines, ""])
    read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plan(examine(text, "task.aex"))))
    return read


# --- the plan


def test_a_plan_has_the_published_shape(tmp_path: Path) -> None:
    """Start, nodes with id, kind, data, line and what comes next, metadata; and beside these, permissions and budget."""
    lines = [
        "task work v0", 'goal "do it"', "use file.read, file.write", "deny network.*", "need topic: str",
        "budget calls=7", 'do file.read(path="a, b") -> notes', "do file.write(path=topic)",
        "make text: markdown from notes, topic with:", "  - be short", "check text", "confirm before file.write", "return text", "",
    ]  # fmt: skip
    file = tmp_path / "task.aex"
    file.write_text("\n".join(lines))
    assert msgspec.json.decode(msgspec.json.encode(plan(file))) == {
        "start": "notes",
        "nodes": {
            "notes": {
                "id": "notes", "kind": "do", "line": 7, "next": "file-write-2",
                "data": {"tool": "file.read", "args": {"path": "a, b"}, "bind": "notes"},
            },
            "file-write-2": {
                "id": "file-write-2", "kind": "do", "line": 8, "next": "text",
                "data": {"tool": "file.write", "args": {"path": "topic"}, "bind": None},
            },
            "text": {
                "id": "text", "kind": "make", "line": 9, "next": "check-4",
                "data": {
                    "bind": "text", "generator": "markdown", "inputs": ["notes", "topic"], "instructions": ["be short"],
                },
            },
            "check-4": {"id": "check-4", "kind": "check", "line": 11, "next": "confirm-5", "data": {"condition": "text"}},
            "confirm-5": {
                "id": "confirm-5", "kind": "confirm", "line": 12, "next": "return-6", "data": {"before": "file.write"},
            },
            "return-6": {"id": "return-6", "kind": "return", "line": 13, "data": {"expression": "text"}},
        },
        "metadata": {
            "agent": "work", "goal": "do it", "source": str(file),
            "permissions": {"use": ["file.read", "file.write"], "deny": ["network.*"]}, "budget": {"calls": 7},
        },
    }  # fmt: skip


def test_branches_and_loops_are_nodes_and_edges() -> None:
    """A branch leads into its body or past it, a loop into its body or on, and the body's end back to the loop."""
    nodes = planned(
        "need rows: list[json]",
        "for row in rows",
        "  if row.on",
        "    do a.b(n=row)",
        "if rows",
        "  return 1",
        "return 2",
    )["nodes"]
    edges = {
        name: {key: node[key] for key in ("next", "then", "else", "body") if key in node}
        for name, node in nodes.items()
    }
    assert edges == {
        "for-1": {"body": "if-1-1", "next": "if-2"},
        "if-1-1": {"then": "a-b-1-1-1", "else": "for-1"},
        "a-b-1-1-1": {"next": "for-1"},
        "if-2": {"then": "return-2-1", "else": "return-3"},
        "return-2-1": {},
        "return-3": {},
    }
    assert nodes["for-1"]["data"] == {"variable": "row", "iterable": "rows"}
    assert nodes["if-2"]["data"] == {"condition": "rows"}


def test_ids_are_unique_and_plain() -> None:
    """Node ids are unique and plain, even where names repeat, look like generated ones, or have dots."""
    lines = ["do a.b() -> x", "do a.b() -> x", "do a.b() -> x.y", "do a.b() -> x-2", "do a.b() -> __end__"]
    ids = list(planned(*lines, "return x")["nodes"])
    assert ids == ["x", "x-2", "x-y", "x-2-2", "__end__-2", "return-6"]


def test_a_contract_with_errors_has_no_plan(tmp_path: Path) -> None:
    """All findings are told, those of a file that cannot be read, too; and a policy has no steps."""
    with pytest.raises(BrokenContractError) as raised:
        planned("do nonsense", "chekc x")
    assert len([one for one in raised.value.findings if one.severity == "error"]) >= 2
    assert "do nonsense" in raised.value.texts["task.aex"]
    with pytest.raises(BrokenContractError):
        plan(tmp_path / "missing.aex")
    with pytest.raises(UsageError, match="is a policy"):
        plan(examine('policy work v0\ngoal "x"\nallow *\n', "policy.aex"))


_LEAVES = st.sampled_from(
    ["do note.add(n=a)", "do note.list() -> x", "check a", "check x", "confirm before note.list", "return [a, x]"]
)  # fmt: skip
_HEADS = st.sampled_from(
    ["if a", "if b", "if x", "for a in []", "for c in [1]", "for c in [0, 2, 3]", "for x in b"]
)
_BLOCKS: st.SearchStrategy[list[Any]] = st.recursive(
    st.lists(_LEAVES, min_size=1, max_size=3),
    lambda inner: st.lists(_LEAVES | st.tuples(_HEADS, inner), min_size=1, max_size=4),
    max_leaves=8,
)


def _lines(block: list[Any], indent: str = "") -> list[str]:
    lines = []
    for step in block:
        head, body = (step, []) if isinstance(step, str) else step
        lines += [indent + head, *_lines(body, indent + "  ")]
    return lines


programs = _BLOCKS.map(
    lambda block: ["need a: json", "need b: json?", "need x: json?", *_lines(block), "return 9"]
)
inputs = st.fixed_dictionaries({"a": st.sampled_from([0, 1, "t"]), "b": st.sampled_from([None, [], [1, 0]])})


def _check_edges(found: GraphPlan) -> None:
    assert {edge for node in found.nodes.values() for edge in node.edges} <= set(found.nodes)
    reached, waiting = set(), [found.start]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += found.nodes[name].edges
    assert reached == set(found.nodes)


def _living(steps: list[Statement]) -> int:
    """How many steps do not stand behind a return."""
    living = 0
    for step in steps:
        living += 1
        if isinstance(step, IfStep | ForStep):
            living += _living(step.body)
        if isinstance(step, ReturnStep):
            break
    return living


@given(programs)
@settings(max_examples=150, deadline=None)
def test_every_node_is_reached_and_every_edge_leads_to_one(lines: list[str]) -> None:
    """In the plan of any program each step that may run has its node, and each node as many edges as its kind says."""
    text = "\n".join(["task work v0", 'goal "do it"', "use *", *lines, ""])
    document = examine(text, "task.aex")
    found = plan(document)
    _check_edges(found)
    assert len(found.nodes) == _living(document.steps)
    for node in found.nodes.values():
        assert len(node.edges) == {"return": 0, "if": 2, "for": 2}.get(node.kind, 1)


@given(contract_documents)
@settings(max_examples=150, deadline=None)
def test_any_text_has_a_plan_or_findings(text: str) -> None:
    """Any text gives either a complete plan or findings."""
    try:
        found = plan(examine(f'task t v0\ngoal "x"\nreturn 1\n{text}', "t.aex"))
    except (BrokenContractError, UsageError):
        return
    _check_edges(found)


# --- the graph: branches and loops


@pytest.mark.parametrize(("on", "expected"), [(True, "yes"), (False, "no")])
def test_a_branch_is_taken_both_ways(bench: Bench, on: bool, expected: str) -> None:
    """Into the body when the condition holds, past it when it does not."""
    built = made(
        bench, "need on: bool", "if on", "  do note.add(n=1) -> added", '  return "yes"', 'return "no"'
    )
    assert visited(built, on=on) == (["if-1", "added", "return-1-2"] if on else ["if-1", "return-2"])
    assert built.invoke({"inputs": {"on": on}})["output"] == expected
    assert len(bench.done()) == (2 if on else 0)


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_loop_takes_as_many_turns_as_there_are_items(bench: Bench, turns: int) -> None:
    """None, one, or several; and goes on behind it."""
    built = made(
        bench, "need items: list[json]", "for one in items", "  do note.add(n=one) -> last", "return last"
    )
    assert visited(built, items=list(range(turns))) == ["for-1", *["last", "for-1"] * turns, "return-2"]
    assert bench.done() == list(range(turns))


def test_nested_branches_and_loops(bench: Bench) -> None:
    """Nested branches and loops visit each row's cells under two conditions."""
    built = made(
        bench,
        "need rows: list[json]",
        "for row in rows",
        "  for cell in row.cells",
        "    if cell.on",
        "      if cell.name",
        "        do note.add(n=cell.name)",
        "return rows",
    )
    cells = [{"on": True, "name": "a"}, {"on": False, "name": "b"}, {"on": True, "name": ""}]
    rows = [{"cells": cells}, {"cells": []}, {"cells": [{"on": 1, "name": "d"}]}]
    assert built.invoke({"inputs": {"rows": rows}})["output"] == rows
    assert bench.done() == ["a", "d"]


def test_a_return_in_a_body_ends_the_run(bench: Bench) -> None:
    """At any depth, in any turn; nothing behind it is run."""
    built = made(
        bench, "for one in [1, 2, 3]", "  do note.add(n=one)", "  if one", "    return one", "return 9"
    )
    assert visited(built) == ["for-1", "note-add-1-1", "if-1-2", "return-1-2-1"]
    assert bench.done() == [1]


def test_bodies_without_steps(bench: Bench) -> None:
    """A branch goes on, and a loop takes its turns by itself."""
    built = made(bench, "need a: json", "if a", "for one in a", "return 1")
    assert visited(built, a=[1, 2]) == ["if-1", "for-2", "for-2", "for-2", "return-3"]


def test_the_end_without_a_return_blocks(bench: Bench) -> None:
    """As in the runtime: there is no output to come to."""
    built = made(bench, "need n: int?", "if n", "  return 1")
    assert built.invoke({"inputs": {"n": 2}})["output"] == 1
    with pytest.raises(BlockedError, match="without a return"):
        built.invoke({"inputs": {}})


def test_more_nodes_than_any_limit_of_recursion(bench: Bench) -> None:
    """A long list is no error: LangGraph's own bound is not the one that counts."""
    built = made(bench, "need a: list[json]", "for one in a", "return 1")
    assert built.config["recursion_limit"] > 10**6
    assert built.invoke({"inputs": {"a": list(range(300))}}, {})["output"] == 1


def test_binds_may_be_called_as_the_state_is(bench: Bench) -> None:
    """A step's name and a part of the state do not get in each other's way."""
    names = ["task", "run", "at", "output", "inputs", "resume", "__start__", "__end__"]
    built = made(bench, *(f"do note.add(n=1) -> {name}" for name in names), "return output.given.n")
    assert built.invoke({"inputs": {}})["output"] == 1


_NUMBERS = count()


@given(programs, inputs)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_graph_does_what_a_run_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], inputs: dict[str, Any]
) -> None:
    """A graph emits the events of a run in the same order, with the same output or reason, over edges of the plan."""
    bench = Bench(tmp_path / str(next(_NUMBERS)), monkeypatch)
    outcome = bench.run(*lines, inputs=inputs, task="", auto_confirm=True)
    expected = list(bench.events)
    bench.events.clear()
    built = made(bench, *lines, auto_confirm=True)
    names: list[str] = []
    came: tuple[str, Any] = ("", None)
    try:
        for update in built.stream({"inputs": inputs}, stream_mode="updates"):
            names += update
            came = ("success", *(change.get("output") for change in update.values()))
    except BlockedError as error:
        came = ("blocked", error.message)
    assert came == (outcome.status, outcome.output if outcome.status == "success" else outcome.reason)
    assert bench.events == expected
    nodes = plan(bench.root / "task.aex").nodes
    assert all(after in nodes[name].edges for name, after in pairwise(names[1:]))


@pytest.mark.parametrize("name", ["brief", "mend-greeting", "sort-reports"])
def test_the_examples_come_to_their_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What `adjourn run` makes of the contracts in examples, a graph makes of them."""
    from adjourn.adapters.models import FunctionModel  # noqa: PLC0415

    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    work = tmp_path / "work"
    work.mkdir()
    for path in EXAMPLES.iterdir():
        if path.is_file():
            (work / path.name).write_bytes(path.read_bytes())
    subprocess.run(["git", "init", "--quiet"], cwd=work, check=True)
    monkeypatch.chdir(work)
    monkeypatch.syspath_prepend(str(work))
    model = FunctionModel("brief_model:answer")
    sys.modules.pop("brief_model")
    built = graph(f"{name}.aex", policy="policy.aex", auto_confirm=True, model=model)
    came = built.invoke({"inputs": json.loads((work / f"{name}.inputs.json").read_text())})
    assert came["output"] == json.loads((work / f"{name}.output.json").read_text())


# --- the graph: permissions, budget, questions


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
    """Unanswered it blocks; once a person approves, the same task goes on, and what is done is not done again."""
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
    from adjourn.runs.start import InputsError  # noqa: PLC0415

    with pytest.raises(InputsError):
        made(bench, "need n: int", "do note.add(n=n)", "return n").invoke({"inputs": {"n": "x"}})
    assert (bench.calls, bench.streams()) == ([], [])


# --- the graph: going on


LOOP = ("for one in [1, 2]", "  do note.add(n=one)", "do note.list() -> all", "return all.given")


def test_two_graphs_of_a_process_do_not_run_one_task(bench: Bench) -> None:
    """The second one is refused while the first one goes on, and may go on when that is given up."""
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
    """In the graph that stopped: with the thread, or anew by its name."""
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
from adjourn.adapters.langgraph import graph

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
    return subprocess.run(
        command, cwd=bench.root, timeout=60, check=True, capture_output=True, text=True
    ).stdout


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
    built = made(
        bench, "do note.list()", "do note.add(n=1)", "return 1", use="note.*", checkpointer=InMemorySaver()
    )
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
    """Its output is told; a thread that stands at an earlier place of it cannot go on."""
    built = made(bench, *LOOP, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    built.invoke({"inputs": {}, "task": "run-1"}, thread)
    assert made(bench, *LOOP).invoke({"task": "run-1", "resume": True}) == {"run": "run-1", "output": {}}
    earlier = [state.config for state in built.get_state_history(thread) if state.next == ("all",)]
    with pytest.raises(UsageError, match="is over"):
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

    built = made(
        bench, "need n: int", "for one in [1, 2]", "  do note.add(n=n) -> added", "return added.given.n"
    )
    assert [came["output"] for came in asyncio.run(both())] == [1, 2, 3]


def test_langgraph_is_loaded_when_a_graph_is_made(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan needs none; a graph says how to install it."""
    monkeypatch.setitem(sys.modules, "langgraph.graph", None)
    with pytest.raises(UsageError, match=r"adjourn\[langgraph\]"):
        made(bench, "return 1")
    assert plan(bench.root / "task.aex").start == "return-1"
    program = "import sys, adjourn.adapters.langgraph; assert 'langgraph' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
