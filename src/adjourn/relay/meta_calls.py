"""What each meta-tool does, loaded when the first of them is called.

Owns: their answers. Must never: write events itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from adjourn.aex.task_review import review
from adjourn.checkpoints import save
from adjourn.checkpoints.save import finish, reopen
from adjourn.clients.client import ClientContext
from adjourn.errors import InvalidError
from adjourn.handover.importing import SHARED_FOLDER, list_tasks, read_contract_file
from adjourn.handover.resumption import describe_record, read_section_request, resume
from adjourn.knowledge.records import agent_notes
from adjourn.policy.contract import unsigned

Arguments = dict[str, Any]

MAX_ANSWER_BYTES = 256 * 1024
DONE = "done"
"""The status of a step that is done; as the whole `progress` of a checkpoint: the task is."""


def _checkpoint(context: ClientContext, arguments: Arguments) -> Any:
    name, description = _text(arguments, "name"), _text(arguments, "description", "")
    is_done = arguments.get("progress") == DONE
    report = save.read_report(
        {member: value for member, value in arguments.items() if not (is_done and member == "progress")}
    )
    session = context.session()
    plans = isinstance(report.resumption_point, str) and report.resumption_point.strip() and not is_done
    reopened = plans and reopen(
        session.task, context.options.page_tree, note="a checkpoint says what comes next", session=session
    )
    made = save.save_checkpoint(
        session.task,
        context.options.checkpoint_root,
        save.CheckpointRequest(name, description=description, said=report),
        session=session,
        tree=context.options.page_tree,
    )
    told: dict[str, Any] = {
        "path": made.folder,
        "message": f'Checkpoint "{name}" saved to {made.folder}',
    }
    told |= {"warnings": made.notes} if made.notes else {}
    if is_done:
        return told | _finish(context, {"summary": description})
    if reopened:
        return told | {"state": "active", "next": "The task was finished; your resumption point reopened it."}
    if session.task.ledger.finished:
        return told | {"state": "finished"}
    if report.progress and all(step.status == DONE for step in report.progress):
        told["next"] = "All progress is done. If the whole task is, call aex.finish."
    return told


def _finish(context: ClientContext, arguments: Arguments) -> dict[str, Any]:
    note = _text(arguments, "summary", "")
    session = context.session()
    done = finish(
        session.task,
        context.options.checkpoint_root,
        note=note,
        session=session,
        tree=context.options.page_tree,
    )
    told: dict[str, Any] = {
        "task": session.task.id,
        "state": "finished",
        "checkpoint": done.checkpoint,
        "message": "No later session is offered this task. Calls still count in its budget; `adjourn reopen` makes it active again.",
    }
    return told | ({"warnings": done.notes} if done.notes else {})


def _resume(context: ClientContext, arguments: Arguments) -> Any:
    name, more = _text(arguments, "name"), _text(arguments, "more", "")
    return resume(context, name).to_json(more, context.options.brief_bytes)


def _list_tasks(context: ClientContext, arguments: Arguments) -> Any:
    more, options = _text(arguments, "more", ""), context.options
    return list_tasks(context.store, options.root, home=options.home, limit=MAX_ANSWER_BYTES, more=more)


def _review_task(context: ClientContext, arguments: Arguments) -> Any:
    within = SHARED_FOLDER if context.options.home else ""
    path, text = read_contract_file(context.options.root, _text(arguments, "task"), within)
    source = os.path.relpath(path, context.options.root)
    policy = context.policy
    return review(
        text,
        source,
        policy,
        unsigned(os.path.realpath(context.options.root), path, text, policy, source),
    )


def _note(context: ClientContext, arguments: Arguments) -> Any:
    said = agent_notes.read_note(arguments)
    record, added = agent_notes.add(context.session(), said)
    return {"record": record["id"], "version": record["sequence"], "added": added}


def _record(context: ClientContext, arguments: Arguments) -> Any:
    request = read_section_request(arguments)
    return describe_record(context.store, context.task_id(), request)


def _ask(context: ClientContext, arguments: Arguments) -> Any:
    said = agent_notes.read_question(arguments)
    kept, question = agent_notes.ask(context.session(), said)
    answer = {"record": kept["id"], "question": question["id"], "status": question["status"]}
    if question["status"] == "answered":
        return answer | {"answer": question["answer"], "answeredBy": question["answeredBy"]["id"]}
    return answer | {"message": f"A person answers it with `adjourn answer {question['id']} ANSWER`."}


def without_nulls(arguments: Arguments) -> Arguments:
    """The arguments without members that are null, which means absent; so of the objects in their lists."""
    return {
        name: [_given(one) if isinstance(one, dict) else one for one in value]
        if isinstance(value, list)
        else value
        for name, value in _given(arguments).items()
    }


def _given(members: Arguments) -> Arguments:
    return {name: value for name, value in members.items() if value is not None}


def _text(arguments: Arguments, name: str, default: str | None = None) -> str:
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise InvalidError(f"{name} must be a string", f"pass {name} as a string" if value is None else "")
    return value


HANDLERS: dict[str, Callable[[ClientContext, Arguments], Any]] = {
    "aex.checkpoint": _checkpoint,
    "aex.resume": _resume,
    "aex.finish": _finish,
    "aex.list_tasks": _list_tasks,
    "aex.review_task": _review_task,
    "adjourn.note": _note,
    "adjourn.record": _record,
    "adjourn.ask": _ask,
}
"""By the dotted name. Each takes the client's context and the call's arguments, and raises `AdjournError`."""
