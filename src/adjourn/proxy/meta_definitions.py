"""The definitions of the meta-tools, as tools/list shows them.

Owns: their names, descriptions and schemas. Must never: import what carries them out; a proxy's start passes through here.
"""

from __future__ import annotations

from typing import Any


def _texts(description: str) -> dict[str, Any]:
    return {
        "type": "array",
        "maxItems": 100,
        "items": {"type": "string", "minLength": 1, "maxLength": 2000},
        "description": description,
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": 2000, "description": description}


def _things(description: str, required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "array",
        "maxItems": 100,
        "description": description,
        "items": {
            "type": "object",
            "properties": properties,
            "required": [required],
            "additionalProperties": False,
        },
    }


def _schema(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


SECTIONS = (
    "decisions", "learnings", "questionsForUser", "blockers", "resumePoints", "toolEffects", "invariants", "actions",
    "conflicts", "facts", "assumptions", "openQuestions", "beliefs", "goals", "nodes",
)  # fmt: skip
"""Those of `engine.recall`, which is not loaded before it is needed."""
_ADDS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_RECORD_DEFINITIONS: dict[str, dict[str, Any]] = {
    "adjourn.note": {
        "description": (
            "Write down what the next session must know, in this task's record: it survives a crash, and is told to whoever resumes. "
            "Give any of the lists; what is known in the same words already is not added again. No secrets."
        ),
        "inputSchema": _schema(
            facts=_texts(
                "What you have confirmed: read it, ran it, saw it. Confirms an assumption of the same words"
            ),
            assumptions=_texts("What you take for true without having checked it"),
            questions=_texts("What is unresolved, for you to find out. For a person, use adjourn.ask"),
            goals=_texts("What is to be reached, as parts of the task"),
            decisions=_things(
                "Choices you made",
                "decision",
                decision=_text("What was chosen"),
                because={"type": "string", "maxLength": 2000, "description": "Why, and what was not chosen"},
                status={
                    "enum": ["accepted", "tentative", "rejected"],
                    "default": "accepted",
                    "description": "tentative: to be looked at again",
                },
            ),
            learnings=_things(
                "What the work has taught",
                "content",
                content=_text("What was learned"),
                type={
                    "enum": ["insight", "constraint", "pattern", "warning"],
                    "default": "insight",
                    "description": "A constraint or warning is always told to who goes on",
                },
                source={
                    "enum": ["observation", "failure", "success", "feedback"],
                    "default": "observation",
                    "description": "What taught it",
                },
                confidence={"type": "number", "minimum": 0, "maximum": 1, "description": "How sure you are"},
            ),
        ),
        "annotations": _ADDS,
    },
    "adjourn.record": {
        "description": (
            "Read this task's record: what was noted, decided and asked, with the answers of people. Without a section, how much "
            "there is of each."
        ),
        "inputSchema": _schema(
            section={
                "type": "string",
                "enum": list(SECTIONS),
                "description": "Which part; its newest items are given, oldest first",
            },
            more={
                "type": "string",
                "description": "The `more` of an earlier answer, for older items of that section",
            },
        ),
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "adjourn.ask": {
        "description": (
            "Leave a question for a person, who answers when they have time; go on with something else meanwhile. Ask again in "
            "the same words to see whether it is answered."
        ),
        "inputSchema": _schema(
            "question",
            question=_text("One question that can be answered by itself"),
            context={
                "type": "string",
                "maxLength": 2000,
                "description": "What the person must know to answer: what you found, what follows from each answer",
            },
            options={
                "type": "array",
                "maxItems": 20,
                "items": {"type": "string", "minLength": 1, "maxLength": 2000},
                "description": "The only answers there are; leave it out for a free answer",
            },
            priority={
                "enum": ["blocking", "high", "medium", "low"],
                "default": "medium",
                "description": "blocking: the task cannot be completed without the answer",
            },
        ),
        "annotations": _ADDS,
    },
}
_NAME = {"type": "string", "description": "Checkpoint name: letters, digits, dashes, underscores"}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_NOTE = {"type": "string", "description": "Shown in brackets behind it"}
_PAGE: dict[str, dict[str, Any]] = {
    "progress": {
        "type": "array",
        "description": "The checklist of the work, in order. What is left out of these stays as it was on the page before.",
        "items": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "status": {"enum": ["done", "in_progress", "pending"]},
                "note": _NOTE,
            },
            "required": ["text"],
        },
    },
    "currentState": _TEXTS | {"description": "What is under way right now"},
    "openQuestions": _TEXTS | {"description": "What a person has to answer"},
    "artifacts": {
        "type": "array",
        "description": "What was produced",
        "items": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Relative to the workspace"},
                "note": _NOTE,
            },
            "required": ["path"],
        },
    },
    "resumptionPoint": {"type": "string", "description": "What the next session does first; concrete"},
}
"""What an agent may say of the work, for the checkpoint's page."""
DEFINITIONS: dict[str, dict[str, Any]] = {
    "aex.checkpoint": {
        "description": "Save the state of this session under a name, so that a later session, of any client, can go on.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": _NAME,
                "description": {
                    "type": "string",
                    "description": "What was accomplished so far, and what comes next",
                },
                **_PAGE,
            },
            "required": ["name"],
        },
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": False,
            "openWorldHint": False,
        },
    },
    "aex.resume": {
        "description": (
            "Go on from a checkpoint: restores the spent budget and the history, and tells what was done, what was "
            "refused, and which calls are in doubt."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": _NAME | {"description": "Checkpoint name to resume"},
                "more": {
                    "type": "string",
                    "description": "The `more` of an earlier answer, for older history",
                },
            },
            "required": ["name"],
        },
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    },
    "aex.list_tasks": {
        "description": "List task contracts and checkpoints of this workspace.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "aex.review_task": {
        "description": "Read a task contract and tell what it may do under the current policy, without running it.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "task": {"type": "string", "description": "Path to an .aex file in the workspace"}
            },
            "required": ["task"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    **_RECORD_DEFINITIONS,
}
