"""The intermediate representation: a document as plain data for programs that carry it out or look it over.

What version 1 adds is there only in documents of version 1.

`python -m adjourn.aex.ir` prints spec/aex-ir.schema.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from adjourn.aex import ast
from adjourn.aex.expr import Constant, Text, Value, Word
from adjourn.aex.rule import SESSION_CALLS
from adjourn.aex.shape import model, unquote

Literals = list[str | int | float | bool]


class Comparison(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One test of a `where`: all of them must hold."""

    path: str
    operator: Literal["is", "in", "matches", "~", "<=", ">=", "<", ">"]
    values: Literals


class Call(msgspec.Struct, frozen=True, tag_field="op", tag="call", forbid_unknown_fields=True):
    """`args` are texts. In version 1 they are as written, so that a quoted literal differs from a name."""

    tool: str
    args: dict[str, str]
    bind: str | UnsetType = UNSET


class Make(msgspec.Struct, frozen=True, tag_field="op", tag="make", forbid_unknown_fields=True):
    bind: str
    type: str
    inputs: list[str]
    instructions: list[str]


class Check(msgspec.Struct, frozen=True, tag_field="op", tag="check", forbid_unknown_fields=True):
    condition: str


class Confirm(
    msgspec.Struct, frozen=True, tag_field="op", tag="confirm", forbid_unknown_fields=True, rename={"otherwise": "else"}
):
    """One pattern to be asked about. From `where` on: version 1; `within` is seconds."""

    tool: str
    where: list[Comparison] | UnsetType = UNSET
    by: str | UnsetType = UNSET
    within: int | UnsetType = UNSET
    otherwise: Literal["deny", "allow"] | UnsetType = UNSET


class Return(msgspec.Struct, frozen=True, tag_field="op", tag="return", forbid_unknown_fields=True):
    value: str


class If(msgspec.Struct, frozen=True, tag_field="op", tag="if", forbid_unknown_fields=True):
    condition: str
    steps: list[Step]


class For(msgspec.Struct, frozen=True, tag_field="op", tag="for", forbid_unknown_fields=True):
    variable: str
    iterable: str
    steps: list[Step]


Step = Call | Make | Check | Confirm | Return | If | For


class Conditional(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns that are allowed or denied where every test holds (version 1)."""

    effect: Literal["use", "deny"]
    patterns: list[str]
    where: list[Comparison]


class Permissions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    use: list[str]
    deny: list[str]
    conditional: list[Conditional] | UnsetType = UNSET


class Limit(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    patterns: list[str]
    calls: int
    per_seconds: int


class WorkspaceBudget(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The calls of all tasks of a workspace together; with `each`, those of each principal."""

    calls: int
    per_seconds: int
    each: Literal["principal"] | UnsetType = UNSET


class Once(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    patterns: list[str]
    by: str


class Checkpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`at` are percents of a budget."""

    before: list[str]
    at: list[int | float]


class PrincipalRules(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Rules that hold only for `whom`: `user:NAME`, `group:NAME`, `service:NAME`, `client:NAME`."""

    whom: list[str]
    permissions: Permissions
    confirm: list[Confirm] | UnsetType = UNSET
    budget: dict[str, int | float] | UnsetType = UNSET
    workspace_budgets: list[WorkspaceBudget] | UnsetType = UNSET
    limits: list[Limit] | UnsetType = UNSET


class Program(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A whole document. `mode` and what follows it: version 1. One of `signed_by` must have signed a contract."""

    version: str
    agent: str
    type: Literal["task", "policy"]
    goal: str | UnsetType = UNSET
    permissions: Permissions
    needs: dict[str, str]
    budget: dict[str, int | float] | UnsetType = UNSET
    steps: list[Step]
    return_: str | UnsetType = msgspec.field(default=UNSET, name="return")
    mode: Literal["observe", "enforce"] | UnsetType = UNSET
    signed_by: list[str] | UnsetType = UNSET
    workspace_budgets: list[WorkspaceBudget] | UnsetType = UNSET
    limits: list[Limit] | UnsetType = UNSET
    once: list[Once] | UnsetType = UNSET
    checkpoints: list[Checkpoint] | UnsetType = UNSET
    blocks: list[PrincipalRules] | UnsetType = UNSET


def compiled(document: ast.Document) -> Program:
    """The representation of a document without errors. Where a name was given twice, the last one counts.

    >>> compiled(examine(sample_task())).version
    '0'
    """
    return Program(
        version=document.version,
        agent=document.name,
        type="policy" if document.is_policy else "task",
        goal=document.goal,
        permissions=_permissions(document),
        needs={need.name.text: need.type.text for need in document.needs},
        budget=_budget(document) or UNSET,
        steps=_steps(document.steps, written=document.is_v1),
        return_=model(document).return_statement,
        mode=_mode(document),
        signed_by=[name.text for line in document.requires for name in line.signers] or UNSET,
        workspace_budgets=_workspace_budgets(document) or UNSET,
        limits=_limits(document) or UNSET,
        once=[Once(_texts(line.patterns), line.by.text) for line in document.once] or UNSET,
        checkpoints=[_checkpoint(line) for line in document.checkpoints] or UNSET,
        blocks=[_block(block) for block in document.blocks] or UNSET,
    )


def schema() -> dict[str, Any]:
    """The JSON Schema of the representation, made from the types."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "AEX intermediate representation",
        "description": "What `adjourn policy compile` prints. Made by `python -m adjourn.aex.ir`; do not edit.",
        **msgspec.json.schema(Program),
    }


def _texts(words: Iterable[Word]) -> list[str]:
    return [word.text for word in words]


def _permissions(document: ast.Document) -> Permissions:
    conditional = [
        Conditional("deny" if line.keyword == "deny" else "use", _texts(line.patterns), _where(line.where))
        for line in document.permissions
        if line.where
    ]
    plain = [line for line in document.permissions if not line.where]
    return Permissions(
        use=[word.text for line in plain if line.keyword != "deny" for word in line.patterns],
        deny=[word.text for line in plain if line.keyword == "deny" for word in line.patterns],
        conditional=conditional or UNSET,
    )


def _block(block: ast.RuleBlock) -> PrincipalRules:
    rules = block.rules
    return PrincipalRules(
        whom=_texts(block.whom),
        permissions=_permissions(rules),
        confirm=[step for step in _steps(rules.steps, written=True) if isinstance(step, Confirm)] or UNSET,
        budget=_budget(rules) or UNSET,
        workspace_budgets=_workspace_budgets(rules) or UNSET,
        limits=_limits(rules) or UNSET,
    )


def _limits(document: ast.Document) -> list[Limit]:
    return [Limit(_texts(line.patterns), line.calls, line.per_seconds) for line in document.limits]


def _budget(document: ast.Document) -> dict[str, int | float]:
    """JSON has no infinity: a budget without a limit has no key, and one below every number is 0."""
    published = model(document).budget
    values = {} if isinstance(published, UnsetType) else published
    for budget in document.budget:
        if budget.is_of_session:
            values[SESSION_CALLS] = max(budget.value, 0.0) // 1 if budget.value < inf else inf
    return {key: 0 if value == -inf else value for key, value in values.items() if value != inf}


def _workspace_budgets(document: ast.Document) -> list[WorkspaceBudget]:
    """The last of each unit of time, of all and of each principal, unless it is no limit."""
    last = {(budget.per_seconds, budget.each): budget.value for budget in document.budget if budget.per_seconds}
    return [
        WorkspaceBudget(int(max(calls, 0)), seconds, "principal" if each else UNSET)
        for (seconds, each), calls in last.items()
        if calls != inf
    ]


def _checkpoint(line: ast.CheckpointRule) -> Checkpoint:
    return Checkpoint(_texts(line.patterns), [_number(percent.value) for percent in line.percents])


def _mode(document: ast.Document) -> Literal["observe", "enforce"] | UnsetType:
    if not document.modes:
        return UNSET
    return "observe" if all(line.value.text == "observe" for line in document.modes) else "enforce"


def _where(where: ast.Where) -> list[Comparison]:
    return [
        Comparison(test.path.text, test.operator.text, [_literal(value) for value in test.values])  # type: ignore[arg-type]
        for test in where.tests
    ]


def _literal(value: Value) -> str | float | bool:
    """Of a `where`: texts and constants are all there is."""
    if isinstance(value, Constant) and not isinstance(value.value, bool):
        return _number(value.value)
    return value.value if isinstance(value, Text | Constant) else value.word.text


def _number(value: float) -> int | float:
    return int(value) if value % 1 == 0 else value


def _steps(steps: Sequence[ast.Statement], *, written: bool) -> list[Step]:
    return [made for step in steps for made in _step(step, written=written)]


def _step(step: ast.Statement, *, written: bool) -> Iterator[Step]:
    match step:
        case ast.DoStep():
            args = {entry.key.text: entry.raw if written else unquote(entry.raw) for entry in step.arguments}
            yield Call(step.tool.text, args, step.bind.text if step.bind else UNSET)
        case ast.MakeStep():
            yield Make(step.bind.text, step.type.text, _texts(step.inputs), _texts(step.instructions))
        case ast.CheckStep():
            yield Check(step.condition.text)
        case ast.ConfirmStep():
            for pattern in step.patterns:
                yield Confirm(
                    pattern.text,
                    _where(step.where) if step.where else UNSET,
                    step.by.text if step.by else UNSET,
                    step.within.seconds if step.within else UNSET,
                    step.otherwise.text if step.otherwise else UNSET,  # type: ignore[arg-type]
                )
        case ast.ReturnStep():
            yield Return(step.expression.text)
        case ast.IfStep():
            yield If(step.condition.text, _steps(step.body, written=written))
        case ast.ForStep():
            yield For(step.variable.text, step.iterable.text, _steps(step.body, written=written))


if __name__ == "__main__":
    print(msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode())
