"""The published shape of a document: what `parse` prints, with the keys and their order of v0.

Must never: add a key to a document of version 0, or be what other modules compute with (that is `ast`).
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from adjourn.aex.ast import (
    CheckStep,
    ConfirmStep,
    Document,
    DoStep,
    ForStep,
    IfStep,
    MakeStep,
    ReturnStep,
    RuleBlock,
    Statement,
    steps_of,
)
from adjourn.aex.expr import Word


class AgentModel(msgspec.Struct, frozen=True):
    name: str
    version: str


class StepModel(msgspec.Struct, frozen=True, tag_field="kind", rename="camel"):
    pass


class DoModel(StepModel, frozen=True, tag="do"):
    tool: str
    args: dict[str, str]
    line: int
    bind: str | UnsetType = UNSET


class MakeModel(StepModel, frozen=True, tag="make"):
    bind: str
    type: str
    inputs: list[str]
    instructions: list[str]
    line: int


class CheckModel(StepModel, frozen=True, tag="check"):
    condition: str
    line: int


class ConfirmModel(StepModel, frozen=True, tag="confirm"):
    before: str
    line: int


class ReturnModel(StepModel, frozen=True, tag="return"):
    """`line` is the line where the expression ends."""

    expression: str
    line: int


class IfModel(StepModel, frozen=True, tag="if"):
    condition: str
    body: list[StepModel]
    line: int


class ForModel(StepModel, frozen=True, tag="for"):
    variable: str
    iterable: str
    body: list[StepModel]
    line: int


class RuleModel(msgspec.Struct, frozen=True):
    """A line that only version 1 has, as written."""

    text: str
    line: int


class BlockModel(msgspec.Struct, frozen=True):
    """Rules that hold only for those whom the first line names."""

    whom: list[str]
    rules: list[RuleModel]
    line: int


class DocumentModel(msgspec.Struct, frozen=True, rename="camel"):
    is_policy: bool
    use: list[str]
    deny: list[str]
    needs: dict[str, str]
    steps: list[StepModel]
    agent: AgentModel | UnsetType = UNSET
    goal: str | UnsetType = UNSET
    budget: dict[str, int | float] | UnsetType = UNSET
    return_statement: str | UnsetType = UNSET
    rules: list[RuleModel] | UnsetType = UNSET
    blocks: list[BlockModel] | UnsetType = UNSET


def model(document: Document) -> DocumentModel:
    """A document in the published shape. Where a name was given twice, the last one counts."""
    returns = [step for step in steps_of(document.steps) if isinstance(step, ReturnStep)]
    budget = {entry.key.text: _plain(entry.value) for entry in document.budget if entry.unit is None}
    return DocumentModel(
        is_policy=document.is_policy,
        use=[word.text for word in document.use],
        deny=[word.text for word in document.deny],
        needs={need.name.text: need.type.text for need in document.needs},
        steps=[_step(step) for step in document.steps],
        agent=AgentModel(document.name, document.version) if document.headers else UNSET,
        goal=document.goal if document.goals else UNSET,
        budget=budget or UNSET,
        return_statement=_return(max(returns, key=lambda step: step.end)).expression if returns else UNSET,
        rules=[RuleModel(word.text, word.line) for word in _rules(document)] or UNSET,
        blocks=[_block(block) for block in document.blocks] or UNSET,
    )


def _block(block: RuleBlock) -> BlockModel:
    rules = block.rules
    words = [line.word for line in rules.permissions]
    words += [step.word for step in rules.steps]
    words += [entry.word for entry in rules.budget]
    words += [line.word for line in rules.limits]
    words.sort(key=lambda word: (word.line, word.column))
    models = [RuleModel(word.text, word.line) for word in words]
    return BlockModel([word.text for word in block.whom], models, block.word.line)


def _rules(document: Document) -> list[Word]:
    """The lines with clauses, and those that version 1 adds."""
    words = [line.word for line in document.permissions if line.where]
    words += [step.word for step in steps_of(document.steps) if isinstance(step, ConfirmStep) and not step.is_plain]
    words += [entry.word for entry in document.budget if entry.unit is not None]
    words += [line.word for line in document.limits]
    words += [line.word for line in document.once]
    words += [line.word for line in document.checkpoints]
    words += [line.word for line in document.modes]
    words += [line.word for line in document.requires]
    return sorted(words, key=lambda word: word.line)


def _step(step: Statement) -> StepModel:
    line = step.word.line
    match step:
        case DoStep():
            args = {entry.key.text: unquote(entry.raw) for entry in step.arguments}
            return DoModel(step.tool.text, args, line, step.bind.text if step.bind else UNSET)
        case MakeStep():
            inputs = [word.text for word in step.inputs]
            instructions = [word.text for word in step.instructions]
            return MakeModel(step.bind.text, step.type.text, inputs, instructions, line)
        case CheckStep():
            return CheckModel(step.condition.text, line)
        case ConfirmStep():
            return ConfirmModel(step.before.text, line)
        case ReturnStep():
            return _return(step)
        case IfStep():
            return IfModel(step.condition.text, [_step(inner) for inner in step.body], line)
        case ForStep():
            body = [_step(inner) for inner in step.body]
            return ForModel(step.variable.text, step.iterable.text, body, line)
        case _:
            raise TypeError(type(step).__name__)


def _return(step: ReturnStep) -> ReturnModel:
    return ReturnModel(step.expression.text, step.end)


def _plain(value: float) -> int | float:
    return int(value) if value % 1 == 0 and abs(value) < float("inf") else value


def unquote(text: str) -> str:
    """The text without one pair of matching outer quotes."""
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[0] == text[-1] else text
