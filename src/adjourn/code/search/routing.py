"""`query`: answers one question by running the search tools that fit it, in order, and merges what they find.

Must never: lose what a tool found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

from adjourn.code.deadline import Deadline
from adjourn.code.index.analysis import text_words
from adjourn.code.index.codebase import Codebase
from adjourn.code.search.definitions import find_definitions, get_symbols
from adjourn.code.search.references import find_references
from adjourn.code.search.semantic import AskedFor, asked_for, named_definitions, semantic_search
from adjourn.code.search.structure import analyze_structure
from adjourn.code.search.text import TextOptions, search_text
from adjourn.code.session_state import SLOTS, Intent, risk_of
from adjourn.errors import AdjournError, InvalidError

_TOOLS: dict[str, tuple[tuple[str, str], ...]] = {
    "target_feature": (
        ("find_definitions", "find where the feature is defined"),
        ("search_text", "find where its name occurs"),
        ("get_symbols", "list the symbols around"),
    ),
    "trigger_condition": (
        ("find_references", "find what calls it"),
        ("search_text", "find the words of the condition"),
    ),
    "observed_issue": (
        ("search_text", "find the words of the issue"),
        ("analyze_structure", "list the structure of the file"),
    ),
    "desired_action": (),
}
_OF_USES = {"find_references", "search_text"}
_SNIPPET = 200
_EACH = 20
_MAX_RESULTS = 200
_SECONDS = 10.0
_WORD_SEARCH = ("semantic_search", "find the code that the question describes")
_CONFIDENCE = {"exact": 1.0, "scoped": 0.9, "name": 0.7, "string": 0.4, "comment": 0.4}


class PlannedCall(NamedTuple):
    tool: str
    purpose: str
    priority: int
    params: dict[str, Any]


class Question(NamedTuple):
    """A question about the code, where to look (`path`, `file_path`), and what is known (`symbol`, the slots of `frame`)."""

    text: str
    intent: str = "INVESTIGATE"
    path: str = "."
    symbol: str | None = None
    file_path: str | None = None
    frame: Mapping[str, str | None] = MappingProxyType({})


def query(
    codebase: Codebase, question: Question, *, show_plan: bool = True, deadline: Deadline | None = None
) -> dict[str, Any]:
    """Run the tools that fit the missing slots of the frame, and merge their results into one list."""
    if not question.text.strip():
        raise InvalidError("the question is empty", "say what you want to know")
    if question.intent not in get_args(Intent):
        raise InvalidError(f"unknown intent {question.intent!r}", f"use one of {', '.join(get_args(Intent))}")
    deadline = deadline or Deadline(_SECONDS)
    frame = question.frame
    missing: list[str] = [slot for slot in SLOTS if not frame.get(slot)]
    wanted = asked_for(question.text)
    named = question.symbol or _known_symbol(codebase, wanted)
    feature = frame.get("target_feature")
    if feature and feature.casefold() in question.text.casefold():
        named = named or feature
    words = [*wanted.symbols, *sorted(wanted.words, key=len, reverse=True)]
    target = named or feature or next(iter(words), question.text)
    plan = _plan(missing, target, question, named=named is not None)
    results: list[dict[str, Any]] = []
    outputs = []
    for step in plan:
        if deadline.expired():
            break
        try:
            hits = _results(step.tool, _RUN[step.tool](codebase, step.params, deadline))
            summary = f"{len(hits)} results"
        except AdjournError as error:
            hits, summary = [], f"failed: {error}"
        results += hits[:_EACH]
        outputs.append({"tool": step.tool, "phase": "EXPLORATION", "priority": step.priority, "summary": summary})
    answer: dict[str, Any] = {
        "question": question.text,
        "intent": question.intent,
        "reasoning": f"not said yet: {', '.join(missing) or 'nothing'}; looked for {target!r}",
        "needs_bootstrap": not codebase.complete(),
        "risk_level": risk_of(len(missing)),
        "missing_slots": missing,
        "results": _deduplicated(results)[:_MAX_RESULTS],
    }
    if show_plan:
        answer["plan"] = [step._asdict() for step in plan]
    answer["total_results"] = len(answer["results"])
    answer["step_outputs"] = outputs
    answer["index_state"] = codebase.state()
    return answer


def _known_symbol(codebase: Codebase, wanted: AskedFor) -> str | None:
    """The first symbol of a question that is defined; as long as not all files are indexed, the first."""
    if codebase.index is None or not codebase.complete():
        return next(iter(wanted.symbols), None)
    index = codebase.index
    return next(
        (symbol for symbol in wanted.symbols if named_definitions(index, wanted._replace(symbols=[symbol]))), None
    )


def _plan(missing: list[str], target: str, question: Question, *, named: bool) -> list[PlannedCall]:
    """The tools for the missing slots; a question that names no symbol is first searched for as a whole."""
    path, file_path = question.path, question.file_path
    around = file_path or path
    params: dict[str, dict[str, Any]] = {
        "semantic_search": {"query": question.text, "path": around},
        "find_definitions": {"symbol": target, "path": path},
        "find_references": {"symbol": target, "path": path},
        "search_text": {"pattern": re.escape(target), "path": path, "case_sensitive": False},
        "get_symbols": {"path": around},
        "analyze_structure": {"file_path": file_path},
    }
    wanted = {tool: purpose for slot in missing for tool, purpose in reversed(_TOOLS[slot])}
    order = [tool for slot in SLOTS for tool, _ in _TOOLS[slot] if tool in wanted]
    usable = [
        tool
        for tool in dict.fromkeys(order)
        if (tool != "analyze_structure" or file_path) and (tool != "get_symbols" or around != ".")
    ]
    steps = [(tool, wanted[tool]) for tool in usable]
    if not named and text_words(question.text):
        steps.insert(0, _WORD_SEARCH)
    return [PlannedCall(tool, purpose, number, params[tool]) for number, (tool, purpose) in enumerate(steps, 1)]


_RUN: dict[str, Callable[[Codebase, dict[str, Any], Deadline], dict[str, Any]]] = {
    "semantic_search": lambda codebase, params, _: semantic_search(codebase, **params, collection="forest"),
    "find_definitions": lambda codebase, params, deadline: find_definitions(codebase, **params, deadline=deadline),
    "find_references": lambda codebase, params, deadline: find_references(codebase, **params, deadline=deadline),
    "search_text": lambda codebase, params, deadline: search_text(
        codebase.repository,
        params["pattern"],
        params["path"],
        TextOptions(case_sensitive=params["case_sensitive"]),
        deadline=deadline,
    ),
    "get_symbols": lambda codebase, params, _: get_symbols(codebase, **params),
    "analyze_structure": lambda codebase, params, _: analyze_structure(codebase.repository, **params),
}


def _results(tool: str, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of a tool in the common shape."""
    if tool == "search_text":
        hits = [(m["file"], "", m["line_number"], m["line_number"], m["line_content"], 0.6) for m in answer["matches"]]
    elif tool == "semantic_search":
        hits = [
            (
                m["file"],
                m["name"].rpartition(".")[2],
                m["line_start"],
                m["line_end"],
                m["signature"] or hit["content"],
                0.8,
            )
            for hit in answer["hits"]
            for m in (hit["metadata"],)
        ]
    elif tool == "find_references":
        symbol = answer["symbol"]
        hits = [
            (r["file"], symbol, r["line"], r["line"], r["content"], _CONFIDENCE[r["match"]])
            for r in answer["references"]
        ]
    elif tool == "analyze_structure":
        hits = [
            (answer["file_path"], s["name"], s["start_line"], s["end_line"], s["signature"], 0.8)
            for s in [*answer["functions"], *answer["classes"]]
        ]
    else:
        hits = [
            (d["file"], d["name"], d["line"], d["end_line"], d.get("signature", d["kind"]), 0.9)
            for d in answer["definitions" if tool == "find_definitions" else "symbols"]
        ]
    return [
        {
            "file_path": file,
            "symbol_name": name,
            "start_line": start,
            "end_line": end,
            "content_snippet": content.strip()[:_SNIPPET],
            "source_tool": tool,
            "confidence": confidence,
        }
        for file, name, start, end, content, confidence in hits
    ]


def _deduplicated(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One result per location: what is defined there before what is used there, then the most certain."""
    best: dict[tuple[str, int], dict[str, Any]] = {}
    for result in results:
        place = (result["file_path"], result["start_line"])
        if place not in best or _standing(best[place]) < _standing(result):
            best[place] = result
    return list(best.values())


def _standing(result: dict[str, Any]) -> tuple[bool, float]:
    return result["source_tool"] not in _OF_USES, result["confidence"]
