"""A contract for LangGraph: its plan, and a graph whose nodes are its steps and whose edges are its branches and loops.

The graph is run by the runtime of `adjourn run`, one step a node: each call is decided on, counted and kept in the
store as it is there.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from adjourn.aex.ast import Document
from adjourn.aex.check import examine
from adjourn.aex.files import load
from adjourn.aex.ir import Permissions, compiled
from adjourn.aex.shape import DoModel, ForModel, IfModel, MakeModel, ReturnModel, StepModel
from adjourn.aex.shape import model as shape
from adjourn.aex.tree import unparse
from adjourn.errors import InvalidError, UsageError
from adjourn.policy.contract import BrokenContractError
from adjourn.runs.model import Model
from adjourn.runs.runner import Options, RunOutcome
from adjourn.runs.start import resume_run, start_run
from adjourn.runs.step_calls import AskPerson, BlockedError, Emit, Stop
from adjourn.runs.tools import Tool

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

BEGIN = "run.begin"
"""The node before the first step. No step is called so: their names have no dot."""
MAX_NODES = 10**9
"""Nodes that one invocation may visit: what bounds a run is its budget."""
_RESERVED = ("__start__", "__end__")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_TURN = re.compile(r":\d+")
_Edge: TypeAlias = str | UnsetType


# --- the plan


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A step. An `if` leads to `then` or `else`; a `for` to `body` for each turn, then to `next`; the others to `next`.

    An edge that is absent leads to the end: of a `return` with its value; any other step there ends the run blocked.
    """

    id: str
    kind: str
    data: dict[str, Any]
    line: int
    next: _Edge = UNSET
    then: _Edge = UNSET
    otherwise: _Edge = msgspec.field(default=UNSET, name="else")
    body: _Edge = UNSET

    @property
    def edges(self) -> list[str]:
        """The ids of the nodes that may come next."""
        return [edge for edge in (self.then, self.otherwise, self.body, self.next) if isinstance(edge, str)]


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What the contract is, and what it asks for. In a graph it counts under the policy of the workspace."""

    agent: str
    goal: str
    source: str
    permissions: Permissions
    budget: dict[str, int | float]


class GraphPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A contract as a graph, for any reader: `start` is the id of the first node."""

    start: str
    nodes: dict[str, GraphNode]
    metadata: Metadata


def plan(contract: Document | str | os.PathLike[str]) -> GraphPlan:
    """The plan of a contract: of the file at a path, or a document that `examine` has made.

    Steps behind a `return` are left out. Raises `BrokenContractError` with every finding, `UsageError` for a policy.
    """
    document = contract if isinstance(contract, Document) else _read(os.fspath(contract))
    if any(finding.severity == "error" for finding in document.findings):
        raise BrokenContractError(document.findings, {document.source: unparse(document.tree)})
    if document.is_policy:
        raise UsageError(f"{document.source} is a policy: it has no steps", "name the file of a task")
    program, steps = compiled(document), shape(document).steps
    ids = _ids(steps)
    return GraphPlan(
        start=ids["1"],
        nodes={node.id: node for node in _nodes(steps, "", UNSET, ids)},
        metadata=Metadata(
            agent=document.name,
            goal=document.goal,
            source=document.source,
            permissions=program.permissions,
            budget=program.budget or {},
        ),
    )


def _read(path: str) -> Document:
    text, findings = load(path)
    if text is None:
        raise BrokenContractError(findings, {})
    return examine(text, path)


def _ids(steps: Sequence[StepModel]) -> dict[str, str]:
    """The ids of the steps that can be reached, by position, in the order of the text."""
    ids: dict[str, str] = {}
    taken = set(_RESERVED)
    for at, step in _places(steps, ""):
        name = wished = _UNSAFE.sub("-", _wish(step, at))
        count = 1
        while name in taken:
            count += 1
            name = f"{wished}-{count}"
        taken.add(name)
        ids[at] = name
    return ids


def _places(steps: Sequence[StepModel], before: str) -> Iterator[tuple[str, StepModel]]:
    for number, step in enumerate(steps, 1):
        yield f"{before}{number}", step
        if isinstance(step, IfModel | ForModel):
            yield from _places(step.body, f"{before}{number}.")
        elif isinstance(step, ReturnModel):
            return


def _wish(step: StepModel, at: str) -> str:
    if isinstance(step, DoModel | MakeModel) and step.bind:
        return step.bind
    return f"{step.tool if isinstance(step, DoModel) else step.__struct_config__.tag}-{at}"


def _nodes(steps: Sequence[StepModel], before: str, behind: _Edge, ids: Mapping[str, str]) -> Iterator[GraphNode]:
    """The nodes of a block; what comes when it is over is `behind`."""
    for number, step in enumerate(steps, 1):
        at = f"{before}{number}"
        if at not in ids:
            return
        follows: _Edge = ids.get(f"{before}{number + 1}", behind)
        edges = {"next": follows}
        if isinstance(step, ReturnModel):
            edges = {}
        elif isinstance(step, IfModel):
            edges = {"then": ids.get(f"{at}.1", follows), "otherwise": follows}
        elif isinstance(step, ForModel):
            edges = {"body": ids.get(f"{at}.1", ids[at]), "next": follows}
        yield _node(ids[at], step, edges)
        if isinstance(step, IfModel | ForModel):
            yield from _nodes(step.body, f"{at}.", ids[at] if isinstance(step, ForModel) else follows, ids)


def _node(name: str, step: StepModel, edges: Mapping[str, _Edge]) -> GraphNode:
    data = msgspec.to_builtins(step)
    kind, line = data.pop("kind"), data.pop("line")
    data.pop("body", None)
    if isinstance(step, DoModel):
        data["bind"] = step.bind or None
    elif isinstance(step, MakeModel):
        data["generator"] = data.pop("type")
    return GraphNode(id=name, kind=kind, data=data, line=line, **edges)


# --- the graph


class GraphInput(TypedDict, total=False):
    """The input of a graph. `task` names the run; `resume` continues the run of that name, else the newest."""

    inputs: dict[str, Any]
    task: str
    resume: bool


class GraphOutput(TypedDict, total=False):
    """The output of a graph: the task that was run, and the value of its `return`."""

    run: str
    output: Any


class GraphState(GraphInput, GraphOutput, total=False):
    """What passes from node to node. `at` is the position of the step that comes next, "" when the run is over."""

    at: str


def graph(
    path: str,
    *,
    root: str = ".",
    store: str = "",
    policy: str = "",
    registry: str = "",
    model: Model | None = None,
    tools: Mapping[str, Tool] | None = None,
    ask: AskPerson = lambda _task, _question: None,
    emit: Emit = lambda _name, _data: None,
    auto_confirm: bool = False,
    checkpointer: Any = None,
) -> CompiledStateGraph[GraphState, None, GraphInput, GraphOutput]:
    """The contract at `path` (relative to the workspace `root`) as a graph that takes `GraphInput` and returns `GraphOutput`.

    The settings are those of `adjourn run`. A step that is refused or fails raises `BlockedError`, and no node comes after it; so does
    a question that `ask` leaves unanswered. The run is in the store then, to be resumed. Raises what `plan` does.
    """
    try:
        from langgraph.graph import END, START, StateGraph  # slow to load, and an extra
    except ImportError as error:
        raise UsageError(f"LangGraph is not installed: {error}", "pip install 'adjourn[langgraph]'") from error
    root = os.path.realpath(root)
    document = _read(os.path.join(root, path))
    planned = plan(document)
    options = Options(
        root=root,
        ask=ask,
        emit=emit,
        stop=Stop(),
        store=store,
        policy=policy,
        registry=registry,
        model=model,
        auto_confirm=auto_confirm,
        tools=dict(tools or {}),
    )
    runs = _Runs(options, path, unparse(document.tree))
    ids = _ids(shape(document).steps)

    def follows(state: GraphState) -> str:
        return ids[_TURN.sub("", state["at"])] if state["at"] else END

    built = StateGraph(GraphState, input_schema=GraphInput, output_schema=GraphOutput)
    built.add_node(BEGIN, runs.begin)
    built.add_edge(START, BEGIN)
    built.add_conditional_edges(BEGIN, follows, [planned.start, END])  # the run may be over that is resumed
    for node in planned.nodes.values():
        built.add_node(node.id, runs.step)
        if node.kind == "return":
            built.add_edge(node.id, END)
        elif node.kind not in ("if", "for"):
            for edge in node.edges:
                built.add_edge(node.id, edge)
        elif node.edges:
            built.add_conditional_edges(node.id, follows, node.edges)
    return built.compile(checkpointer=checkpointer).with_config(recursion_limit=MAX_NODES)


class _Walk(NamedTuple):
    """A run between two nodes: at the step that comes next."""

    at: str
    steps: Generator[str, None, RunOutcome]


class _Runs:
    """The runs that a graph carries out, each up to the step that comes next."""

    def __init__(self, options: Options, path: str, text: str) -> None:
        self._options = options
        self._path = path
        self._text = text
        self._walks: dict[str, _Walk] = {}
        weakref.finalize(self, _close, self._walks)  # also at exit, while there are still threads to wait for

    def begin(self, state: GraphState) -> GraphState:
        """Start a run or resume it, up to its first step. What it was given is not there for the thread's next run."""
        task = state.get("task", "")
        if state.get("resume"):
            now = self._resume(task)
        else:
            self._check()
            run = start_run(self._settings(task), self._path, state.get("inputs", {}))
            now = self._advance(run.task, run.walk())
        return {"inputs": {}, "task": "", "resume": False, **now}

    def step(self, state: GraphState) -> GraphState:
        """Execute the next step. A run that is at another step, or was started in another process, is brought there first."""
        task, at = state["run"], state["at"]
        here = self._walks.get(task)
        if here is None or here.at != at:
            now = self._resume(task)
            while now["at"] != at:
                if not now["at"]:
                    raise UsageError(f"run {task} has ended", "start a new run: invoke the graph with another task")
                now = self._advance(task, self._walks[task].steps)
        return self._advance(task, self._walks[task].steps)

    def _resume(self, task: str) -> GraphState:
        self._check()
        if task in self._walks:
            self._walks.pop(task).steps.close()
        run = resume_run(self._settings(task), self._path)
        return self._advance(run.task, run.walk())

    def _advance(self, task: str, steps: Generator[str, None, RunOutcome]) -> GraphState:
        self._walks.pop(task, None)  # it is there between nodes only
        try:
            at = next(steps)
        except StopIteration as ended:
            outcome: RunOutcome = ended.value
        else:
            self._walks[task] = _Walk(at, steps)
            return {"run": task, "at": at}
        if outcome.status != "success":
            remedy = f"{outcome.remedy}; " if outcome.remedy else ""
            raise BlockedError(outcome.step, outcome.reason, f"{remedy}run {task} can be resumed")
        return {"run": task, "at": "", "output": outcome.output}

    def _settings(self, task: str) -> Options:
        return msgspec.structs.replace(self._options, task=task)

    def _check(self) -> None:
        text, findings = load(os.path.join(self._options.root, self._path), root=self._options.root)
        if text is None:
            raise BrokenContractError(findings, {})
        if text != self._text:
            raise InvalidError(f"{self._path} changed since the graph was made", "make the graph again")


def _close(walks: dict[str, _Walk]) -> None:
    for walk in walks.values():
        walk.steps.close()
