"""Starts a run, or resumes one: its pinned document and inputs, its permissions, and its tools.

A run is a task. The document and the inputs that it was started with are kept beside its history, and a resumed run
works from them; the policy is the one in force now, so that a person can raise a budget.
"""

from __future__ import annotations

import os
from typing import Any

from adjourn.aex.ast import MakeStep, check_inputs, steps_of
from adjourn.aex.check import examine
from adjourn.aex.diagnostics import finding
from adjourn.aex.files import load
from adjourn.aex.layers import discover
from adjourn.clients.client import ClientContext
from adjourn.clients.client_process import ClientOptions
from adjourn.errors import AdjournError, InvalidError, NotFoundError, UsageError
from adjourn.findings import Finding
from adjourn.host import clock, process
from adjourn.host.process import group_of
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import timestamp
from adjourn.policy.calls import encoded
from adjourn.policy.contract import BrokenContractError, Contract, read_contract
from adjourn.runs.journal import History, name_of, value_of
from adjourn.runs.model import ModelError
from adjourn.runs.runner import Options, Plan, Run
from adjourn.runs.step_calls import MAX_NAME
from adjourn.store.base import EMPTY, Store
from adjourn.tasks.task import Task, check_task_id

CLIENT = "adjourn run"


class InputsError(AdjournError):
    """A run cannot start with these inputs. `findings` say why; `texts` are for showing them."""

    def __init__(self, findings: list[Finding], texts: dict[str, str]) -> None:
        count = f"{len(findings)} input{'s are' if len(findings) > 1 else ' is'}"
        super().__init__(f"{count} missing or of the wrong type", "give a JSON object with --inputs FILE")
        self.findings = findings
        self.texts = texts


def start_run(options: Options, file: str, inputs: dict[str, Any]) -> Run:
    """A new run of the contract in `file`. Nothing is written before everything it needs is there and well-formed.

    Raises `BrokenContractError`, `InputsError`, `ModelError`, `RegistryError`, `StoreError`.
    """
    plan = _plan(options, file)
    options.emit(kinds.RunStarted.KIND, {"agent": plan.document.name})
    _check_inputs(options, plan, inputs)
    makes = [step for step in steps_of(plan.document.steps) if isinstance(step, MakeStep)]
    if makes and options.model is None:
        raise ModelError(
            f"`make {makes[0].bind.text}` needs a model", "give --model PROVIDER or --model-handler MODULE:FUNCTION"
        )
    plan.inputs, pinned = inputs, encoded(inputs)
    context = _context(options, plan, check_task_id(options.task or clock.task_id(options.clock())))
    run = Run(options, plan, context)
    if context.store.head(run.task) != EMPTY:
        context.close("refused")
        raise UsageError(
            f"task {run.task} already exists", "resume it with --resume, or choose another name with --task"
        )
    started = kinds.RunStarted(
        agent=plan.document.name[:MAX_NAME],
        document=digest(plan.text.encode()),
        file=plan.source[:500],
        inputs=context.store.put_blob(pinned),
    )
    name = name_of(run.task)
    found_by = f"{timestamp(options.clock())} {plan.source}"
    context.store.swap(name, found_by, expect=context.store.ref(name))  # before it starts: one that began is found
    run.open(started)
    return run


def resume_run(options: Options, file: str = "") -> Run:
    """The run of task `options.task`, else the newest unfinished one (of the contract in `file`), ready to continue.

    Raises `NotFoundError` where there is none, `InvalidError` when the file is not what the run was started with, and
    `HeldError` while another process runs it.
    """
    store = open_at(options.root, options.store)
    try:
        name = options.task or _newest(store, _source(options.root, file) if file else "")
        task = Task(store, check_task_id(name), clock=options.clock, secret=os.urandom(32))
        history = History(task)
        history.read()
        started = history.started
        if started is None:
            raise NotFoundError(f"task {name} is not a run", "start one: adjourn run FILE")
        text = store.get_blob(started.document)
        inputs = value_of(task, started.inputs)
    finally:
        store.close()
    if text is None:
        raise NotFoundError(f"the contract of run {name} is no longer in the store", "start a new run")
    if file:
        _check_unchanged(options.root, file, text, name)
    plan = _plan(options, started.file, text.decode())
    context = _context(options, plan, name)
    plan.inputs = inputs
    run = Run(options, plan, context)
    finished = history.finished
    if finished is not None and finished.status == "success":
        run.over = finished
    else:
        run.open(kinds.RunResumed(finished=len(history.results)))
    return run


def _plan(options: Options, file: str, text: str | None = None) -> Plan:
    """Read and check the contract (its `text`, where it is pinned) and the policy. Raises `BrokenContractError`."""
    root, source = options.root, _source(options.root, file)
    place = options.policy or discover(root) or ""
    policy = read_contract(root, place) if place else None
    findings: list[Finding] = []
    if text is None:
        if place:
            contract = read_contract(root, place, file)  # looks for a signature, too, where the policy asks for one
            text, findings = contract.contract_text, list(contract.findings)
        else:
            text, findings = load(os.path.join(root, file), source=source, root=root)
    document = examine(text or "", source)
    found = [*findings, *(finding for finding in document.findings if text is not None and finding not in findings)]
    if not place:
        found.append(finding("AEX135", "there is no policy: the contract alone says what is permitted"))
    if any(fault.severity == "error" for fault in found):
        raise BrokenContractError(found, {source: text or ""})
    if document.is_policy:
        raise UsageError(f"{source} is a policy: it has no steps", "name the file of a task")
    return Plan(text=text or "", source=source, document=document, policy=policy, findings=found)


def _source(root: str, file: str) -> str:
    """The file as it is named in messages and in the history: relative to the workspace where it is in it."""
    relative = os.path.relpath(os.path.join(root, file), root)
    return file if relative.startswith("..") else relative


def _check_unchanged(root: str, file: str, data: bytes, task: str) -> None:
    text, unreadable = load(os.path.join(root, file), source=file, root=root)
    if text is None:
        raise BrokenContractError(unreadable, {})
    if text.encode() != data:
        raise InvalidError(
            f"{file} changed since run {task} started",
            f"continue with the earlier text: `adjourn run --resume --task {task}`; or start a new run without --resume",
        )


def _check_inputs(options: Options, plan: Plan, inputs: dict[str, Any]) -> None:
    findings = check_inputs(plan.document, inputs)
    if not findings:
        return
    for need in plan.document.needs:
        if any(fault.span in (need.name.span, need.type.span) for fault in findings):
            missing = need.name.text not in inputs
            details = {"input": need.name.text, "expected": need.type.text}
            details["actual"] = "missing" if missing else _kind_of(inputs[need.name.text])
            options.emit("input.missing" if missing else "input.invalid", details)
    error = InputsError(findings, {plan.source: plan.text})
    options.emit(kinds.RunFinished.KIND, {"status": "blocked", "reason": error.message})
    raise error


def _kind_of(value: Any) -> str:
    """The type of a value, by its name in JavaScript."""
    names = ((bool, "boolean"), (str, "string"), (int | float, "number"), (list, "list"), (dict, "object"))
    return next((name for kind, name in names if isinstance(value, kind)), "null")


def _context(options: Options, plan: Plan, task: str) -> ClientContext:
    contract = Contract(
        policy=plan.permissions.effective,
        policy_text=plan.policy.policy_text if plan.policy else "",
        policy_files=plan.policy.policy_files if plan.policy else (),
        contract_text=plan.text,
        contract_source=plan.source,
    )
    client_options = ClientOptions(
        root=options.root,
        tree=options.tree,
        contract=contract,
        store=options.store,
        task=task,
        auto_confirm=options.auto_confirm,
    )
    context = ClientContext(client_options, options.clock)
    context.identify(CLIENT, "")
    context.join(group_of(process.current(), options.root))  # two runs of one process never share a task
    return context


def _newest(store: Store, source: str) -> str:
    """The task of the unfinished run that was started last, of any contract or of that in `source`."""
    runs = [(*value.partition(" ")[::2], name.removeprefix("run/")) for name, value in store.refs("run/").items()]
    began = [run for run in runs if source in ("", run[1]) and store.head(run[2]) != EMPTY]
    newest = max(began, default=None)
    if newest is None:
        of = f" of {source}" if source else ""
        raise NotFoundError(f"there is no unfinished run{of} here", "start one: adjourn run FILE")
    return newest[2]
