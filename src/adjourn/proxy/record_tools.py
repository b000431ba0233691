"""The meta-tools of a task's record: `adjourn.note`, `adjourn.record`, `adjourn.ask`.

Owns: their definitions and answers. Must never: know how a record is kept (the engine does), or load what keeps it before one
of them is called.
"""

from __future__ import annotations

from typing import Any

from adjourn import handover
from adjourn.clients import ClientContext

Arguments = dict[str, Any]


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
DEFINITIONS: dict[str, dict[str, Any]] = {
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


def note(context: ClientContext, arguments: Arguments) -> Any:
    from adjourn.knowledge.records import agent_notes  # noqa: PLC0415  # not on the start path

    said = agent_notes.read_note(arguments)
    record, added = agent_notes.add(context.session(), said)
    return {"record": record["id"], "version": record["sequence"], "added": added}


def record(context: ClientContext, arguments: Arguments) -> Any:
    request = handover.read_section_request(arguments)
    return handover.describe_record(context.store, context.task_id(), request)


def ask(context: ClientContext, arguments: Arguments) -> Any:
    from adjourn.knowledge.records import agent_notes  # noqa: PLC0415  # as above

    said = agent_notes.read_question(arguments)
    kept, question = agent_notes.ask(context.session(), said)
    answer = {"record": kept["id"], "question": question["id"], "status": question["status"]}
    if question["status"] == "answered":
        return answer | {"answer": question["answer"], "answeredBy": question["answeredBy"]["id"]}
    return answer | {"message": f"A person answers it with `adjourn answer {question['id']} ANSWER`."}
