"""The definitions of the meta-tools, as tools/list shows them.

Every client pays for them in each of its prompts, so they are short: `MAX_CHARACTERS` for all of them. They say when to call a tool and
what its arguments mean; bounds and unknown members are the business of what reads the arguments, which refuses them with a reason.

Owns: their names, descriptions and schemas. Must never: import what carries them out; a proxy's start passes through here.
"""

from __future__ import annotations

from typing import Any

MAX_CHARACTERS = 4000
"""Of all definitions together, with their names, as compact JSON."""
_WRITES = {"destructiveHint": False}
_READS = {"readOnlyHint": True}


def _text(description: str = "") -> dict[str, Any]:
    return {"type": "string"} | ({"description": description} if description else {})


def _texts(description: str = "") -> dict[str, Any]:
    items: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
    return items | ({"description": description} if description else {})


def _objects(description: str) -> dict[str, Any]:
    """A list of objects whose members the description names: a third of the length of their schema."""
    return {"type": "array", "items": {"type": "object"}, "description": description}


def _tool(what: str, hints: dict[str, bool], *required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {
        "description": what,
        "inputSchema": schema | ({"required": list(required)} if required else {}),
        "annotations": hints,
    }


DEFINITIONS: dict[str, dict[str, Any]] = {
    "aex.checkpoint": _tool(
        "Save the work for a later session of any client, at milestones and before you stop. What you leave out stays.",
        _WRITES,
        "name",
        name=_text("Letters, digits, - and _"),
        description=_text("What is done and what is next"),
        mission=_text("What the person wants"),
        progress=_objects("Checklist: {text, status: done|in_progress|pending, note?}"),
        currentState=_texts(),
        openQuestions=_texts("For a person"),
        artifacts=_objects("Files: {path, note?}"),
        resumptionPoint=_text("First step of the next session"),
    ),
    "aex.resume": _tool(
        "Resume a checkpoint; call it first. Shows what was done, refused, is in doubt. The budget stays spent.",
        _WRITES,
        "name",
        name=_text(),
        more=_text("From an answer"),
    ),
    "aex.finish": _tool(
        "The whole task is done: offer it to no later session.",
        _WRITES,
        summary=_text(),
    ),
    "aex.list_tasks": _tool("List task contracts and checkpoints.", _READS, more=_text()),
    "aex.review_task": _tool(
        "Show what a task contract may do under the policy.",
        _READS,
        "task",
        task=_text(".aex file"),
    ),
    "adjourn.note": _tool(
        "Note what the next session must know. No secrets.",
        _WRITES,
        facts=_texts("Confirmed"),
        assumptions=_texts(),
        questions=_texts("For you to find out"),
        goals=_texts(),
        decisions=_objects("{decision, because?, status?: accepted|tentative|rejected}"),
        learnings=_objects(
            "{content, type?: insight|constraint|pattern|warning, source?: observation|failure|success|feedback, confidence?: 0-1}"
        ),
        goal=_text(),
        status={"enum": ["in-progress", "completed", "failed"]},
        successCriteria=_texts(),
        tags=_texts(),
        resumePoints=_objects("{label, when?, nextSteps?}"),
        blockers=_objects("{description, blocks?: labels, resolution?}"),
        invariants=_objects("{description, severity?: hard|soft, status?: holding|violated}"),
    ),
    "adjourn.record": _tool(
        "Read this task's notes, decisions, questions and answers. Without a section: which there are.",
        _READS,
        section=_text(),
        more=_text("From an answer"),
    ),
    "adjourn.ask": _tool(
        "Ask a person, and keep working. Ask again in the same words to see the answer.",
        _WRITES,
        "question",
        question=_text(),
        context=_text(),
        options=_texts("The only answers"),
        priority={"enum": ["blocking", "high", "medium", "low"]},
    ),
}
