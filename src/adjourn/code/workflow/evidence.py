"""The evidence that a submission needs, and whether a file may be changed: only explored files may.

`lenient` asks for nothing beyond the types; `standard` for tools that were called and lists that are not empty; `strict` also for
minimum counts, consistency, reasons and evidence of a known form. A client is never believed about what it called.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from adjourn.code.repository import CodeRepository, is_submodule
from adjourn.code.session_state import Exploration, Phase, PlanTask, QueryFrame, SessionState
from adjourn.code.workflow import payloads
from adjourn.code.workflow.phases import READING, FlowError, PhaseStep, mismatch, tools_needed
from adjourn.code.workflow.request import Worktree
from adjourn.errors import AdjournError

MIN_REASON = 10
MIN_TOOLS = 2
MAX_FILE = 4 << 20
_LOOKING = frozenset({*READING, "semantic_search", "analyze_impact"}) - {"fetch_chunk_detail"}
_ALL_SEARCHES = "query"
"""The tool that runs several of the others: it counts as two of them."""
_PLACE = re.compile(r"(?P<path>.+?):(?P<first>\d+)(?:-(?P<last>\d+))?")
_EMPTY = re.compile(r"\s*(?:pass|\.\.\.|raise NotImplementedError\b.*|(?:#|//|/\*)?\s*(?:TODO|FIXME)\b.*|[{}();]*)\s*")
_IDENTIFIER = re.compile(r"\w+")
_REASONS = frozenset({
    "no_definition_found", "no_reference_found", "no_similar_implementation", "architecture_unknown",
    "context_fragmented",
})  # fmt: skip
_EVIDENCE_TOOLS = frozenset({"find_definitions", "find_references", "search_text", "analyze_structure", "query"})
_STATUSES = frozenset({"will_modify", "no_change_needed", "not_affected"})
_FITTING = {
    "symbols_identified": {"no_definition_found"},
    "entry_points": {"no_definition_found", "no_reference_found"},
    "existing_patterns": {"no_similar_implementation"},
    "files_analyzed": {"context_fragmented"},
}
_FILLED = (
    "documents_reviewed", "explored_files", "findings", "search_results", "hypotheses_verified",
    "impact_summary",
)  # fmt: skip


class Minimums(NamedTuple):
    """The minimum counts of a sufficient exploration."""

    symbols_identified: int
    entry_points: int
    files_analyzed: int
    existing_patterns: int
    slots: tuple[str, ...] = ()


def check(state: SessionState, row: PhaseStep, payload: payloads.Payload) -> None:
    """Raise `FlowError` unless the session has the evidence that this step requires."""
    if state.strictness == "lenient":
        return
    _check_tools(state, row, payload)
    for name in _FILLED:
        if hasattr(payload, name) and not getattr(payload, name):
            raise mismatch(f"`{name}` is empty: {row.phase} needs at least one entry", empty_field=name)
    if isinstance(payload, payloads.ExplorationFindings):
        called = sorted(_LOOKING & set(state.tools_in_step))
        if len(called) + (_ALL_SEARCHES in called) < MIN_TOOLS:
            raise mismatch(
                f"too few search tools were called in this phase: {len(called)} (minimum {MIN_TOOLS} different ones)",
                tools_called=called,
            )
    if isinstance(payload, payloads.HypothesisResults):
        open_ones = [result.hypothesis for result in payload.hypotheses_verified if result.result is False]
        if open_ones:
            raise mismatch(
                "some hypotheses failed or are unverified: drop or replace them, and verify the rest",
                unverified_hypotheses=open_ones,
            )
    if state.strictness == "strict":
        _check_strictly(state, payload)


def _check_tools(state: SessionState, row: PhaseStep, payload: payloads.Payload) -> None:
    needed = tools_needed(state, row)
    missing = [tool for tool in needed if tool not in state.tools_in_step]
    if missing:
        raise mismatch(f"call {', '.join(missing)} first: {row.phase} requires it", missing_tools=missing)
    unsaid = [tool for tool in needed if payload.tools_used and tool not in payload.tools_used]
    if unsaid:
        raise mismatch(f"`tools_used` does not name {', '.join(unsaid)}", missing_tools=unsaid)


def _check_strictly(state: SessionState, payload: payloads.Payload) -> None:
    reason = getattr(payload, "reason", None)
    if reason is not None and len(reason.strip()) < MIN_REASON:
        raise mismatch(f"`reason` is shorter than {MIN_REASON} characters: explain the answer")
    if isinstance(payload, payloads.ExplorationFindings):
        _consistent(payload)
    elif isinstance(payload, payloads.SemanticFindings):
        _semantic(state, payload)
    elif isinstance(payload, payloads.HypothesisResults):
        _verified(payload)
    elif isinstance(payload, payloads.ImpactFindings):
        _impact(state, payload)


def _consistent(payload: payloads.ExplorationFindings) -> None:
    for name in ("symbols_identified", "files_analyzed"):
        listed = getattr(payload, name)
        if len(set(listed)) != len(listed):
            raise mismatch(f"`{name}` has duplicates")
    symbols = [symbol.casefold() for symbol in payload.symbols_identified]
    for entry in payload.entry_points:
        first = _IDENTIFIER.search(entry)
        name = first[0].casefold() if first else ""
        if not any(name and (name in symbol or symbol in name) for symbol in symbols):
            raise mismatch(f"entry point {entry!r} is not in `symbols_identified`")
    if payload.existing_patterns and not (payload.explored_files or payload.files_analyzed):
        raise mismatch("`existing_patterns` is given without `explored_files`: name the files that show them")


def _semantic(state: SessionState, payload: payloads.SemanticFindings) -> None:
    if payload.semantic_reason not in _REASONS:
        raise mismatch(f"`semantic_reason` must be one of {', '.join(sorted(_REASONS))}")
    missing = state.exploration.missing_requirements if state.exploration else []
    fitting = {"architecture_unknown", "context_fragmented"}.union(*(_FITTING.get(name, set()) for name in missing))
    if missing and payload.semantic_reason not in fitting:
        raise mismatch(
            f"`semantic_reason` does not match the missing requirements: {', '.join(missing)}",
            missing_requirements=missing,
        )
    if not payload.hypotheses:
        raise mismatch("`hypotheses` is empty: state what you now assume")


def _verified(payload: payloads.HypothesisResults) -> None:
    for result in payload.hypotheses_verified:
        evidence = result.evidence if isinstance(result.evidence, dict) else {}
        if evidence.get("tool") not in _EVIDENCE_TOOLS or not evidence.get("target") or not evidence.get("result"):
            raise mismatch(
                f"the evidence of {result.hypothesis!r} must be {{tool, target, result, files}}, with a tool of"
                f" {', '.join(sorted(_EVIDENCE_TOOLS))}"
            )


def _impact(state: SessionState, payload: payloads.ImpactFindings) -> None:
    wanted = state.impact_analysis.must_verify if state.impact_analysis else []
    answers = {str(answer.get("file", "")): answer for answer in payload.verified_files}
    missing = [path for path in wanted if path not in answers]
    if missing:
        raise mismatch("`verified_files` lacks some files of must_verify", missing_files=missing)
    for path, answer in answers.items():
        if answer.get("status") not in _STATUSES:
            raise mismatch(f"the status of {path} must be one of {', '.join(sorted(_STATUSES))}")
        if answer["status"] != "will_modify" and not str(answer.get("reason") or "").strip():
            raise mismatch(f"the reason for {path} is empty: say why it does not change")


def missing_requirements(state: SessionState, exploration: Exploration) -> list[str]:
    """The names of what an exploration lacks, by intent and risk."""
    least = _minimums(state)
    counts = ("symbols_identified", "entry_points", "files_analyzed", "existing_patterns")
    short = [name for name in counts if len(getattr(exploration, name)) < getattr(least, name)]
    frame = state.query_frame
    short += [slot for slot in least.slots if frame is None or not getattr(frame, slot)]
    short += [tool for tool in ("find_definitions", "find_references") if tool not in state.tools_in_step]
    return short + (_supposed(frame, exploration) if frame else [])


def _supposed(frame: QueryFrame, exploration: Exploration) -> list[str]:
    """The parts of the request that were not found in the code."""
    symbols = [symbol.casefold() for symbol in exploration.symbols_identified]
    feature = (frame.target_feature or "").casefold()
    mapped = any(
        feature in symbol or symbol in feature or set(feature.split()) & set(symbol.split("_")) for symbol in symbols
    )
    missing = [] if not feature or mapped else ["target_feature_mapping"]
    supposed = [mapped_symbol.name for mapped_symbol in frame.mapped_symbols if mapped_symbol.source == "HYPOTHESIS"]
    return missing + ["mapped_symbols"] * any(name.casefold() not in symbols for name in supposed)


def _minimums(state: SessionState) -> Minimums:
    if state.intent in ("INVESTIGATE", "QUESTION"):
        return Minimums(1, 0, 1, 0)
    if state.risk_level == "HIGH":
        return Minimums(5, 2, 4, 2, ("target_feature", "observed_issue"))
    return Minimums(3, 1, 2, 1, ("target_feature",) if state.risk_level == "MEDIUM" else ())


def checklist(repository: CodeRepository, task: PlanTask, answers: list[payloads.ChecklistAnswer]) -> None:
    """Raise `FlowError` unless every checklist item has a code location as evidence, or a reason to skip it."""
    answered = {answer.item: answer for answer in answers}
    missing = [item for item in task.checklist if item not in answered]
    if missing:
        raise mismatch("some items of the task's checklist have no answer", missing_items=missing)
    for answer in answers:
        if answer.skip_reason and not answer.evidence:
            if len(answer.skip_reason.strip()) < MIN_REASON:
                raise mismatch(
                    f"the skip_reason of {answer.item!r} is shorter than {MIN_REASON} characters: explain it"
                )
            continue
        if problem := _no_evidence(repository, answer.evidence):
            raise mismatch(f"the evidence of {answer.item!r}: {problem}", item=answer.item)


def _no_evidence(repository: CodeRepository, place: str) -> str:
    match = _PLACE.fullmatch(place.strip())
    if match is None:
        return "give a location such as src/app.py:12 or src/app.py:12-20"
    try:
        text = repository.read(repository.existing(match["path"]), MAX_FILE)
    except AdjournError as error:
        return error.message
    lines = text.decode("utf-8", "replace").splitlines()
    first, last = int(match["first"]), int(match["last"] or match["first"])
    if not 1 <= first <= last <= len(lines):
        return f"{match['path']} has {len(lines)} lines"
    if all(_EMPTY.fullmatch(line) for line in lines[first - 1 : last]):
        return "those lines are empty or a placeholder"
    return ""


def known_files(repository: CodeRepository, paths: list[str]) -> list[str]:
    """The paths relative to the repository. Raises `FlowError` for paths that do not exist or lie outside."""
    present, unknown = [], []
    for path in paths:
        try:
            present.append(repository.existing(path) or ".")
        except AdjournError:
            unknown.append(path)
    if unknown:
        raise mismatch("some paths are not files of the repository", unknown_files=unknown)
    return list(dict.fromkeys(os.path.normpath(path) for path in present))


def as_evidence(value: dict[str, Any] | str) -> dict[str, Any]:
    """Evidence in the published form. Files named as `path:line` in a text count as its files."""
    if isinstance(value, dict):
        files = value.get("files")
        return {**value, "files": [str(each) for each in files] if isinstance(files, list) else []}
    place = _PLACE.fullmatch(value.strip())
    return {"result": value, "files": [place["path"]] if place else []}


# --- whether a file may be changed

_WAYS_OUT = {
    "add_explored_files": "read the file, then add it with add_explored_files",
    "revert_to_exploration": "return to exploration with revert_to_exploration if several files are missing",
}
_MAX_LISTED = 200
_MAX_PATH = 4_096


def check_target(state: SessionState, worktree: Worktree, file_path: str, *, allow_new_files: bool) -> dict[str, Any]:
    """Whether `file_path` was explored, is in an explored folder, or is a new file beside an explored one.

    The review of the changes marks a refused file, until it is allowed.
    """
    _ready(state)
    answer = _answer(state, worktree, file_path, allow_new_files=allow_new_files)
    others = [path for path in state.refused_targets if path != answer["file_path"]]
    refused = [] if answer["allowed"] else [answer["file_path"][:_MAX_PATH]]
    state.refused_targets = [*others, *refused][-_MAX_LISTED:]
    return answer


def _answer(state: SessionState, worktree: Worktree, file_path: str, *, allow_new_files: bool) -> dict[str, Any]:
    try:
        path = worktree.repository.relative(file_path)
    except AdjournError as error:
        return _refusal(state, file_path, error.message)
    if submodule := _submodule(worktree, path):
        why = f"{path} is in {submodule}, a repository of its own such as a submodule: this session cannot commit it"
        hint = f"start a session with repo_path {submodule}, or leave the file as it is"
        return {**_refusal(state, path, why), "hint": hint, "recovery_options": {}}
    explored = {os.path.normpath(each) for each in state.explored}
    answer: dict[str, Any] = {"allowed": True, "file_path": path, "is_new": False}
    if not explored and (state.fast_mode or state.quick_mode):
        return {**answer, "note": "this session skips exploration (--fast, --quick): every file is a target"}
    inside = any(each in (".", path) or path.startswith(f"{each}/") for each in explored)
    if os.path.lexists(worktree.repository.absolute(path)):
        return answer if inside else _refusal(state, path, f"{path} was not explored in this session")
    if not allow_new_files:
        return _refusal(state, path, f"{path} does not exist, and allow_new_files is false")
    folder = os.path.dirname(path)
    neighbours = (each for each in explored if os.path.dirname(each) == folder)
    beside = any(not os.path.isdir(worktree.repository.absolute(each)) for each in neighbours)
    if inside or beside:
        return {**answer, "is_new": True}
    return _refusal(state, path, f"no file in the folder of {path} was explored")


def _submodule(worktree: Worktree, path: str) -> str:
    """The repository below the session's own that a path is in; "" for none."""
    parts = path.split("/")
    above = ("/".join(parts[:count]) for count in range(1, len(parts)))
    return next((folder for folder in above if is_submodule(worktree.repository.absolute(folder))), "")


def add_explored(state: SessionState, worktree: Worktree, files: list[str]) -> dict[str, Any]:
    """Add files and folders that were read after the exploration."""
    _ready(state)
    if not files:
        raise mismatch("`files` is empty: name the files you read")
    present = known_files(worktree.repository, files)
    added = [path for path in present if path not in state.explored]
    state.added_files = [*state.added_files, *added]
    state.refused_targets = [
        path
        for path in state.refused_targets
        if not any(each in (".", path) or path.startswith(f"{each}/") for each in present)
    ]
    return {
        "success": True,
        "added": added,
        "explored_files": state.explored[:_MAX_LISTED],
        "message": f"{len(added)} files added; {len(state.explored)} explored in total",
    }


def _ready(state: SessionState) -> None:
    if state.current_phase != Phase.READY:
        raise FlowError("phase_mismatch", f"this tool needs phase READY; the session is in {state.current_phase}")


def _refusal(state: SessionState, path: str, why: str) -> dict[str, Any]:
    """A refusal is an answer, not a failure of the call."""
    return {
        "allowed": False,
        "file_path": path,
        "error": why,
        "explored_files": state.explored[:_MAX_LISTED],
        "hint": "change only explored files: read the file first, or change another one",
        "recovery_options": _WAYS_OUT,
    }
