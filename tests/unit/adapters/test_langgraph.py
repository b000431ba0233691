"""Contracts for LangGraph: the plan of branches and loops, and the graph that the runtime of `adjourn run` runs."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex.ast import ForStep, IfStep, ReturnStep, Statement
from adjourn.aex.check import examine
from adjourn.errors import UsageError
from adjourn.langgraph import GraphPlan, graph, plan
from adjourn.policy.contract import BrokenContractError
from adjourn.runs.step_calls import BlockedError
from support.graphs import made, visited
from support.runs import Bench
from support.strategies import contract_documents

EXAMPLES = Path(__file__).parents[3] / "examples" / "contracts"


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
    """All findings are shown, those of a file that cannot be read, too; and a policy has no steps."""
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
_HEADS = st.sampled_from(["if a", "if b", "if x", "for a in []", "for c in [1]", "for c in [0, 2, 3]", "for x in b"])
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


programs = _BLOCKS.map(lambda block: ["need a: json", "need b: json?", "need x: json?", *_lines(block), "return 9"])
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
    built = made(bench, "need on: bool", "if on", "  do note.add(n=1) -> added", '  return "yes"', 'return "no"')
    assert visited(built, on=on) == (["if-1", "added", "return-1-2"] if on else ["if-1", "return-2"])
    assert built.invoke({"inputs": {"on": on}})["output"] == expected
    assert len(bench.done()) == (2 if on else 0)


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_loop_takes_as_many_turns_as_there_are_items(bench: Bench, turns: int) -> None:
    """None, one, or several; and continues behind it."""
    built = made(bench, "need items: list[json]", "for one in items", "  do note.add(n=one) -> last", "return last")
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
    built = made(bench, "for one in [1, 2, 3]", "  do note.add(n=one)", "  if one", "    return one", "return 9")
    assert visited(built) == ["for-1", "note-add-1-1", "if-1-2", "return-1-2-1"]
    assert bench.done() == [1]


def test_bodies_without_steps(bench: Bench) -> None:
    """A branch continues, and a loop takes its turns by itself."""
    built = made(bench, "need a: json", "if a", "for one in a", "return 1")
    assert visited(built, a=[1, 2]) == ["if-1", "for-2", "for-2", "for-2", "return-3"]


def test_the_end_without_a_return_blocks(bench: Bench) -> None:
    """As in the runtime: there is no output to come to."""
    built = made(bench, "need n: int?", "if n", "  return 1")
    assert built.invoke({"inputs": {"n": 2}})["output"] == 1
    with pytest.raises(BlockedError, match="without `return`"):
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
def test_the_examples_come_to_their_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What `adjourn run` makes of the contracts in examples, a graph makes of them."""
    from adjourn.adapters.models import FunctionModel

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
