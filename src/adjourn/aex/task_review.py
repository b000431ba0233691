"""What a contract requests and what it is granted: the answer of `adjourn policy review` and of `aex.review_task`."""

from __future__ import annotations

import string
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from adjourn.aex.ast import CheckStep, ConfirmStep, Document, MakeStep, steps_of
from adjourn.aex.check import examine
from adjourn.aex.diagnostics import DIAGNOSTICS, finding, quoted
from adjourn.aex.layers import merge
from adjourn.aex.match import PatternIndex, fold, fold_pattern, split_scope
from adjourn.aex.permissions import layer, not_granted
from adjourn.aex.policy import Policy
from adjourn.aex.rule import Rule
from adjourn.findings import Finding, Span

_OF_THE_META_TOOL = (
    "task", "goal", "requested", "denied", "effective", "checks", "makeSteps", "valid", "warnings",
)  # fmt: skip


class ReviewSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """Paths as they were named."""

    task: str
    policy: str = ""


class Effective(msgspec.Struct, frozen=True, omit_defaults=True):
    """Patterns as written, with their clauses, and the number of calls if there is a limit."""

    allow: list[str]
    deny: list[str]
    confirm: list[str]
    budget: int | None = None


class Review(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One contract under one policy.

    `valid` is what `check` says: no error finding. `runs_under_policy`: nothing that is requested is refused. `warnings`
    names what is refused, then every other finding.
    """

    task: str
    goal: str
    source: ReviewSource
    requested: list[str]
    denied: list[str]
    effective: Effective
    checks: list[str]
    make_steps: list[str]
    confirm_required: list[str]
    valid: bool
    runs_under_policy: bool
    warnings: list[str]


def review(
    contract_text: str, source: str, effective_base: Policy | None, refusals: Sequence[Finding] = ()
) -> dict[str, Any]:
    """The answer of the meta-tool: the review of a contract's text under the permissions in force.

    What is wrong with the text is said without quoting it: the agent may not be allowed to read the file.
    """
    builtins = msgspec.to_builtins(
        reviewed(
            contract_text,
            source,
            effective_base,
            unnamed=source.replace("\\", "/").rpartition("/")[2].removesuffix(".aex"),
            refusals=refusals,
            quotes=False,
        )
    )
    return {name: builtins[name] for name in _OF_THE_META_TOOL}


def reviewed(
    text: str,
    source: str,
    policy: Policy | None,
    *,
    policy_source: str = "",
    unnamed: str = "unknown",
    refusals: Sequence[Finding] = (),
    quotes: bool = True,
) -> Review:
    """The review of a contract's text. `unnamed` stands for the name that a text without a header lacks; `refusals` are
    what else keeps it from running under the policy. Without `quotes`, a finding about the text is named by its title.
    """
    document = examine(text, source)
    contract = layer(document)
    merged = merge(policy, contract)
    refused = [*refusals, *refused_of(document, policy)]
    steps = list(steps_of(document.steps))
    return Review(
        task=document.name or unnamed,
        goal=document.goal,
        source=ReviewSource(source, policy_source),
        requested=_written(contract.allow),
        denied=_written(contract.deny),
        effective=Effective(
            allow=_written(merged.allow),
            deny=_written(merged.deny),
            confirm=_written(merged.confirm),
            budget=merged.budget,
        ),
        checks=[step.condition.text for step in steps if isinstance(step, CheckStep)],
        make_steps=[_make(step) for step in steps if isinstance(step, MakeStep)],
        confirm_required=list(
            dict.fromkeys(word.text for step in steps if isinstance(step, ConfirmStep) for word in step.patterns)
        ),
        valid=valid(document),
        runs_under_policy=not refused,
        warnings=[
            *map(_line, refused),
            *(f"`{rule.text}` is narrowed to `{rule.under.text}`" for rule in merged.allow if rule.under),
            *(
                _line(finding if quotes else replace(finding, message=DIAGNOSTICS[finding.code].title))
                for finding in document.findings
            ),
        ],
    )


def valid(document: Document) -> bool:
    """Whether no finding is an error: the one answer for review, check, proxy and run."""
    return all(finding.severity != "error" for finding in document.findings)


def refused_of(document: Document, policy: Policy | None) -> list[Finding]:
    """Why a document, valid or not, is refused: it is no task, or the policy does not grant all that it asks for."""
    if document.is_policy:
        span = document.headers[-1].line.span if document.headers else Span()
        return [finding("AEX136", "the file is a policy, not a contract", span, source=document.source)]
    if policy is None:
        return []
    contract = layer(document)
    return not_granted(policy, contract) + _denied(policy, contract)


def _denied(policy: Policy, contract: Policy) -> list[Finding]:
    """A warning for each granted pattern of a contract of which the policy denies a tool that the contract leaves open.

    A refusal with a scope or a condition does not count: other calls of the tool pass.
    """
    denials: dict[int, Rule] = {}
    for position, rule in enumerate(contract.allow):
        tool = _one_of(rule.pattern)
        denying = policy.judge(tool).rule if _refused(tool, policy, contract) else None
        if denying is not None and denying.kind == "deny":
            denials[position] = denying
    pattern_index = PatternIndex(
        (position, fold_pattern(split_scope(rule.pattern)[0])) for position, rule in enumerate(contract.allow)
    )
    for denying in policy.deny:
        folded = fold(_one_of(denying.pattern))
        for position in pattern_index.all(folded):
            stem = split_scope(contract.allow[position].pattern)[0].removesuffix("*").removesuffix(".")
            if _refused(stem + folded[len(fold(stem)) :], policy, contract):
                denials.setdefault(position, denying)
    return [
        finding(
            "AEX134",
            f"the policy denies {quoted(denying.text)} ({denying.source}:{denying.line}), and {quoted(rule.text)} is asked for",
            Span(rule.line),
            source=rule.source,
            help="deny it in the contract as well, or name in `use` only what the policy permits",
        )
        for position, denying in sorted(denials.items(), key=itemgetter(0))
        if policy.grants((rule := contract.allow[position]).pattern)
    ]


def _refused(tool: str, policy: Policy, contract: Policy) -> bool:
    return contract.visible(tool) and not policy.visible(tool)


def _one_of(pattern: str) -> str:
    """A name that a pattern names. Of a wildcard, one that nothing narrower names: `~` is in no tool's name."""
    tool = split_scope(pattern)[0]
    return tool.removesuffix("*") + "~" if tool == "*" or tool.endswith(".*") else tool


def _written(rules: Sequence[Rule]) -> list[str]:
    return list(dict.fromkeys(rule.text for rule in rules))


def _make(step: MakeStep) -> str:
    inputs = ", ".join(word.text for word in step.inputs)
    return f"make {step.bind.text}: {step.type.text} from {inputs}"


def _line(finding: Finding) -> str:
    place = f"line {finding.span.line}: " if finding.span.line else ""
    return f"{finding.code}: {place}{finding.message}"


# --- how much care a request needs: advice by its wording, which permits nothing

Mode = Literal["contract_required", "contract_recommended", "exploratory"]

_RISKY = frozenset((
    "deploy", "production", "payment", "send", "email", "admin", "secrets", "migration", "publish", "release",
))  # fmt: skip
_EDITS = frozenset((
    "fix", "update", "modify", "edit", "write", "delete", "create", "add", "remove", "refactor", "change", "rename",
    "move", "install", "upgrade", "patch", "migrate",
))  # fmt: skip
_READS = frozenset((
    "explain", "summarize", "find", "inspect", "understand", "search", "describe", "what", "where", "how", "why",
    "show", "list", "read", "look", "check", "tell", "help",
))  # fmt: skip
_KINDS: tuple[tuple[frozenset[str], Mode, str], ...] = (
    (_RISKY, "contract_required", "its effects are hard to undo, or are seen by others"),
    (_EDITS, "contract_recommended", "it changes something"),
    (_READS, "exploratory", "it only asks to read"),
)


class Classification(msgspec.Struct, frozen=True):
    """`mode` is what to work under, `reason` why, in one sentence."""

    mode: Mode
    reason: str


def classify(request: str) -> Classification:
    """The care that a request asks for. The riskiest kind of word in it decides; with none, a contract is recommended.

    >>> classify("Delete the old backups").mode
    'contract_recommended'
    """
    words = [word.strip(string.punctuation) for word in request.lower().split()]
    for known, mode, why in _KINDS:
        match = next((word for word in words if word in known), None)
        if match:
            return Classification(mode, f'"{match}" says that {why}')
    return Classification("contract_recommended", "no word says what the request does")
