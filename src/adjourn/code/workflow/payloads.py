"""The payload of each phase: types, the description shown to the model, parsing, and the slots of a request."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from adjourn.code.session_state import SLOTS, MappedSymbol, QueryFrame, SlotSource
from adjourn.errors import InvalidError
from adjourn.text.strict_json import in_words

_T = TypeVar("_T")
OPTIONAL = msgspec.Meta(title="optional")
"""Marks members that newer clients send and that are not required."""


class Payload(msgspec.Struct, kw_only=True):
    """Base of all. `phase` may name the phase that the payload is meant for."""

    phase: Annotated[str, OPTIONAL] = ""
    summary: Annotated[str, OPTIONAL] = ""
    tools_used: Annotated[list[str], OPTIONAL] = []


class BranchChoice(Payload, kw_only=True):
    choice: Literal["delete", "merge", "continue"]


class ReviewedDocuments(Payload, kw_only=True):
    documents_reviewed: list[str]


class QuotedValue(msgspec.Struct):
    """A slot's value with the quote from the request that supports it."""

    value: str | None = None
    quote: str | None = None


class RequestFrame(Payload, kw_only=True):
    action_type: str
    target_symbols: list[str]
    scope: str
    constraints: str
    target_feature: Annotated[QuotedValue | str | None, OPTIONAL] = None
    trigger_condition: Annotated[QuotedValue | str | None, OPTIONAL] = None
    observed_issue: Annotated[QuotedValue | str | None, OPTIONAL] = None
    desired_action: Annotated[QuotedValue | str | None, OPTIONAL] = None

    @property
    def slots(self) -> dict[str, QuotedValue | str]:
        values = {slot: getattr(self, slot) for slot in SLOTS}
        return {slot: value for slot, value in values.items() if value is not None}


class ExplorationFindings(Payload, kw_only=True):
    explored_files: list[str]
    findings: list[str]
    files_analyzed: Annotated[list[str], OPTIONAL] = []
    symbols_identified: Annotated[list[str], OPTIONAL] = []
    entry_points: Annotated[list[str], OPTIONAL] = []
    existing_patterns: Annotated[list[str], OPTIONAL] = []


class MoreInformation(Payload, kw_only=True):
    needs_more_information: bool
    reason: str


class SemanticFindings(Payload, kw_only=True):
    search_results: list[str]
    search_query: Annotated[str, OPTIONAL] = ""
    semantic_reason: Annotated[str, OPTIONAL] = ""
    hypotheses: Annotated[list[str | dict[str, Any]], OPTIONAL] = []


class OpenHypotheses(Payload, kw_only=True):
    has_unverified_hypotheses: bool
    reason: str


class HypothesisResult(msgspec.Struct):
    hypothesis: str
    result: bool | str
    evidence: dict[str, Any] | str


class HypothesisResults(Payload, kw_only=True):
    hypotheses_verified: list[HypothesisResult]


class NeedsImpact(Payload, kw_only=True):
    needs_impact_analysis: bool
    reason: str


class ImpactFindings(Payload, kw_only=True):
    impact_summary: dict[str, Any]
    verified_files: Annotated[list[dict[str, Any]], OPTIONAL] = []


class SubmittedTask(msgspec.Struct):
    id: str
    description: str
    status: Literal["pending", "completed"] = "pending"
    failure_count: Annotated[int, OPTIONAL] = 0
    revert_reason: Annotated[str | None, OPTIONAL] = None
    checklist: Annotated[list[str], OPTIONAL] = []
    files: Annotated[list[str], OPTIONAL] = []


class TaskPlan(Payload, kw_only=True):
    tasks: list[SubmittedTask]


class ChecklistAnswer(msgspec.Struct):
    """The answer to a checklist item: evidence (`path:line`), or a reason to skip it."""

    item: str
    evidence: str = ""
    skip_reason: str = ""


class TaskDone(Payload, kw_only=True):
    task_id: str
    summary: str
    checklist: Annotated[list[ChecklistAnswer], OPTIONAL] = []


class EmptyPayload(Payload, kw_only=True):
    pass


class ReportedCheck(msgspec.Struct):
    """A command that the client ran."""

    command: str
    exit_code: int
    output: str = ""


class VerifierVerdict(Payload, kw_only=True):
    passed: bool
    failed_tasks: list[str] = []
    details: str = ""
    evidence: list[ReportedCheck] = []
    verifier_used: Annotated[str, OPTIONAL] = ""


class Intervention(Payload, kw_only=True):
    prompt_used: str
    action_taken: str


class UserDecision(Payload, kw_only=True):
    """The user's decision after failed interventions."""

    user_decision: Literal["retry", "accept", "stop"]
    action_taken: Annotated[str, OPTIONAL] = ""


class FileDecision(msgspec.Struct):
    path: str
    decision: Literal["keep", "discard"]
    reason: str | None = None
    change_type: str | None = None


class CommitReview(Payload, kw_only=True):
    reviewed_files: list[str | FileDecision]
    commit_message: str = ""
    review_prompt_used: Annotated[str, OPTIONAL] = ""


class QualityReview(Payload, kw_only=True):
    quality_score: str
    issues: list[str]
    quality_prompt_used: Annotated[str, OPTIONAL] = ""


def expected(payload: type[Payload]) -> dict[str, str]:
    """Required member → type, as shown in the reply."""
    hints = get_type_hints(payload, include_extras=True)
    return {
        field.encode_name: _type_text(hints[field.name])
        for field in msgspec.structs.fields(payload)
        if not _is_optional(hints[field.name])
    }


MAX_SEVERAL = 20
"""Payloads in one call: more than a session has phases."""


def as_list(data: Any) -> list[Any] | None:
    """The payloads of several phases, parsed if they are JSON text; None for one payload. Raises `InvalidError`."""
    if isinstance(data, str) and data.lstrip().startswith("["):
        with suppress(msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            data = msgspec.json.decode(data)
    if not isinstance(data, list):
        return None
    if not 0 < len(data) <= MAX_SEVERAL:
        raise InvalidError(f"`data` has {len(data)} payloads", f"send 1 to {MAX_SEVERAL}")
    return data


def as_object(data: Any) -> dict[str, Any]:
    """The payload as an object, parsed if it is JSON text. Raises `InvalidError`."""
    if isinstance(data, str):
        try:
            data = msgspec.json.decode(data) if data.strip() else {}
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise InvalidError(f"`data` is a string that is not JSON: {error}", "send an object") from error
    if not isinstance(data, dict):
        raise InvalidError(f"`data` is {type(data).__name__}", "send an object")
    return data


def read(
    kind: type[_T], given: Mapping[str, Any], remedy: str = "send the members that `expected_payload` names"
) -> _T:
    """Convert `given` to `kind`. Raises `InvalidError` that names the invalid member, with this remedy."""
    try:
        return msgspec.convert(_with_json_decoded(kind, given), kind)
    except msgspec.ValidationError as error:
        raise InvalidError(in_words(error), remedy) from error


def _with_json_decoded(kind: Any, value: Any) -> Any:
    """`value` with JSON text decoded wherever the type is not a string."""
    kinds = _alternatives(kind)
    if isinstance(value, str) and str not in kinds and not any(get_origin(each) is Literal for each in kinds):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            lowered = value.strip().lower()
            if bool in kinds and lowered in ("true", "false"):
                return lowered == "true"
            return value
    elif isinstance(value, str) and len(kinds) > 1 and value.lstrip()[:1] in ("[", "{"):
        return _decoded_as(kinds, value)
    for each in kinds:
        if isinstance(value, Mapping) and isinstance(each, type) and issubclass(each, msgspec.Struct):
            hints = get_type_hints(each)
            return {
                name: _with_json_decoded(hints[name], item) if name in hints else item for name, item in value.items()
            }
        if isinstance(value, list) and get_origin(each) is list:
            item = get_args(each)[0]
            return [_with_json_decoded(item, element) for element in value]
    return value


def _decoded_as(kinds: tuple[Any, ...], value: str) -> Any:
    """Decode a list or object where a string is valid too; a text such as `[a-z]` stays a string."""
    for kind in kinds:
        if kind is not str and kind is not type(None):
            try:
                return msgspec.json.decode(value, type=kind)
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                continue
    return value


def _alternatives(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _is_optional(hint: Any) -> bool:
    return get_origin(hint) is Annotated and OPTIONAL in get_args(hint)


def _type_text(hint: Any) -> str:
    parts = []
    for kind in _alternatives(hint):
        origin = get_origin(kind)
        if origin is list:
            parts.append(f"list[{_type_text(get_args(kind)[0])}]")
        elif origin is Literal:
            parts.append(" | ".join(str(value) for value in get_args(kind)))
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            hints = get_type_hints(kind, include_extras=True)
            parts.append(
                "{"
                + ", ".join(f"{name}: {_type_text(each)}" for name, each in hints.items() if not _is_optional(each))
                + "}"
            )
        elif kind is not type(None):
            parts.append("dict" if origin is dict or kind is dict else getattr(kind, "__name__", str(kind)))
    return " | ".join(parts)


# --- splits the request into slots, each checked against the words of the request

_PARTICLES = frozenset("がをにではのとも")
_SHARE = 0.5
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
FRAME_PROMPT = (
    "Answer with one JSON object: target_feature (what to change or understand), trigger_condition (when it happens), observed_issue"
    " (what happens now), desired_action (what should happen instead), each {value, quote} or null. Never guess."
)


def build_frame(query: str, payload: RequestFrame) -> QueryFrame:
    """The frame of a request. A slot without a quote is a fact only if the request contains its value verbatim."""
    frame = QueryFrame(raw_query=query, scope=payload.scope, constraints=payload.constraints)
    slots = dict(payload.slots)
    if payload.action_type:
        slots["desired_action"] = payload.action_type
    for slot, answer in slots.items():
        if isinstance(answer, str):
            value, quote, source = answer.strip(), "", _source(query, answer)
        else:
            value, quote = _checked(query, answer)
            source = "FACT"
        if value:
            setattr(frame, slot, value)
            frame.slot_source[slot] = source
            if quote:
                frame.slot_quotes[slot] = quote
    frame.mapped_symbols = [
        MappedSymbol(name, source=_source(query, name)) for name in dict.fromkeys(payload.target_symbols) if name
    ]
    return frame


def _source(query: str, value: str) -> SlotSource:
    return "FACT" if value.strip() and value.strip() in query else "HYPOTHESIS"


def _checked(query: str, quoted: QuotedValue) -> tuple[str, str]:
    """Value and quote; both empty if the quote is not in the request, or unrelated to the value."""
    value, quote = (quoted.value or "").strip(), quoted.quote or ""
    if not value or not quote or quote not in query or not related(value, quote):
        return "", ""
    return value, quote


def related(value: str, quote: str) -> bool:
    """Whether a value relates to its quote: one contains the other, or they share a word or enough CJK characters."""
    folded, other = value.casefold(), quote.casefold()
    if folded in other or other in folded or set(folded.split()) & set(other.split()):
        return True
    if not (_CJK.search(folded) and _CJK.search(other)):
        return False
    left, right = (set("".join(text.split())) - _PARTICLES for text in (folded, other))
    smaller = min(len(left), len(right))
    return smaller > 0 and len(left & right) / smaller >= _SHARE
