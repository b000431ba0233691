"""What a contract asks for and what it would get: the answer of the meta-tool `aex.review_task`.

Owns: the fields of that answer. Must never: have a validator or a merge of its own, run anything, read a file.
"""

from __future__ import annotations

from typing import Any

from adjourn.aex.ast import Check, Document, Make, steps_of
from adjourn.aex.check import examine
from adjourn.aex.policy import Policy, layer, merge
from adjourn.findings import Finding


def review(contract_text: str, source: str, effective_base: Policy | None) -> dict[str, Any]:
    """The review of a contract's text under the permissions in force.

    `valid` is what `check` says: no error finding. `warnings` names each requested pattern that is not granted,
    then every other finding. Lists of permissions hold patterns as written.
    """
    document = examine(contract_text, source)
    merged = merge(effective_base, layer(document))
    requested = _patterns(document.use)
    effective: dict[str, Any] = {
        "allow": [rule.pattern for rule in merged.allow],
        "deny": [rule.pattern for rule in merged.deny],
        "confirm": [rule.pattern for rule in merged.confirm],
    }
    if merged.budget is not None:
        effective["budget"] = merged.budget
    granted = set(effective["allow"])
    warnings = [
        f"`{pattern}` is not granted by the policy" for pattern in requested if pattern not in granted
    ]
    steps = list(steps_of(document.steps))
    return {
        "task": document.name or _stem(source),
        "goal": document.goal,
        "requested": requested,
        "denied": _patterns(document.deny),
        "effective": effective,
        "checks": [step.condition.text for step in steps if isinstance(step, Check)],
        "makeSteps": [_make(step) for step in steps if isinstance(step, Make)],
        "valid": valid(document),
        "warnings": warnings + [_line(found) for found in document.findings],
    }


def valid(document: Document) -> bool:
    """Whether no finding is an error: the one answer for review, check, proxy and run."""
    return all(found.severity != "error" for found in document.findings)


def _patterns(words: list[Any]) -> list[str]:
    return list(dict.fromkeys(word.text for word in words))


def _make(step: Make) -> str:
    inputs = ", ".join(word.text for word in step.inputs)
    return f"make {step.bind.text}: {step.type.text} from {inputs}"


def _line(found: Finding) -> str:
    place = f"line {found.span.line}: " if found.span.line else ""
    return f"{found.code}: {place}{found.message}"


def _stem(source: str) -> str:
    return source.replace("\\", "/").rpartition("/")[2].removesuffix(".aex")
